# SPDX-License-Identifier: Apache-2.0
"""What the attacks on the server have in common: plain sockets, a look at the server's process, and two tenants of which one is hostile.

`tenants` is a server with the tenants `alfa`, who attacks, and `bravo`, who has something to lose. It listens at TCP with tokens and at the unix
socket, where tests come as the tenant `local`.
"""
import contextlib
import json
import os
import pathlib
import socket
import subprocess

import pytest
from server import PATIENCE, PROGRAM, Server, wait_for

HOST = b"Host: localhost\r\n"
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


def routes():
    """The table of the program itself."""
    done = subprocess.run([str(PROGRAM), "routes"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
    return json.loads(done.stdout)


# ---- plain sockets ----

def read_all(plain):
    """Until the other side closes."""
    out = b""
    while True:
        try:
            piece = plain.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def send(plain, data):
    """Who is refused may be cut off before all was sent."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        plain.sendall(data)


def exchange(server, data, tcp=False, source=None):
    """What comes back until the server closes. source: an address of this host to come from."""
    if source:
        with socket.create_connection(server.tcp, PATIENCE, (source, 0)) as plain:
            send(plain, data)
            return read_all(plain)
    with server.raw(tcp) as plain:
        send(plain, data)
        return read_all(plain)


def answers(data):
    """(status, fields, body) of each answer in the bytes of a connection; fields by lower-case name."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        status = int(lines[0].split()[1])
        assert lines[0].startswith("HTTP/1.1 "), lines[0]
        if "content-length" in fields or status in (100, 204):
            size = int(fields.get("content-length", 0))
        else:
            size = len(rest)  # up to the close
        assert len(rest) >= size, "the answer is cut off"
        found.append((status, fields, rest[:size]))
        data = rest[size:]
    return found


def statuses(data):
    return [status for status, _, _ in answers(data)]


def request_bytes(method, path, fields=(), body=b"", host="localhost", close=True):
    """A plain request; fields are lines of bytes without their ends."""
    lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: {host}".encode(), *fields]
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


# ---- the server's process ----

def memory(server, key="VmRSS"):
    """Bytes of its front process."""
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(f"{key}:")).split()[1]) << 10


def peak(server, reset=False):
    """The most memory it had, since the last reset where that can be done (root)."""
    if reset and os.geteuid() == 0:
        pathlib.Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    return memory(server, "VmHWM")


def descriptors(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def threads(server):
    """Names and numbers of its threads, without those that wait for something to do and end after a while."""
    return len(os.listdir(f"/proc/{server.pid}/task"))


def assert_works(server, token=None):
    assert server.post("/v1/runs", {"code": "print(6 * 7)"}, token=token).result["stdout"] == "42\n"


def is_quiet(server):
    """Nothing goes on: no session, no run."""
    return all(server.used()[name] == 0 for name in ("sessions", "runs", "memory_bytes"))


# ---- tenants ----

@pytest.fixture(scope="module")
def tenants():
    with Server(tcp=True) as server:
        server.alfa, server.bravo = server.token("alfa", "run"), server.token("bravo", "run")
        yield server
        # Whatever was tried: it lives, and serves everybody.
        for token in (server.alfa, server.bravo, None):
            assert_works(server, token)
