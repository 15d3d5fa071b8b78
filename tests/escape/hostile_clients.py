# SPDX-License-Identifier: Apache-2.0
"""What the attacks on the server have in common: plain sockets, a look at the server's process, and two tenants of which one is hostile.

`tenants` is a server with the tenants `alfa`, who attacks, and `bravo`, who has something to lose. It listens at TCP with tokens and at the unix
socket, where tests come as the tenant `local`.
"""
import base64
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


# ---- what a run says, in every form the server has for it ----

def strict(text):
    """JSON as the standard has it: no key twice, no numbers that are none, nothing raw in texts."""
    def pairs(items):
        assert len({key for key, _ in items}) == len(items), "a key comes twice"
        return dict(items)

    def wrong(name):
        raise AssertionError(f"{name} is no JSON")

    assert not [c for c in text if c < 0x20 and c not in b"\n"], "control characters stand in the text"
    return json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_constant=wrong)


def dechunked(data):
    """The body of an answer in chunks, which must be all there is."""
    head, _, rest = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"\r\nTransfer-Encoding: chunked" in head, head
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        body += rest[:n]
        assert rest[n:n + 2] == b"\r\n", "a chunk does not end where it should"
        rest = rest[n + 2:]
        if n == 0:
            assert rest == b"", "there is something behind the end"
            return body


def sse_events(body):
    """By the rules of the format (fields, line ends, dispatch at an empty line), as a browser reads it."""
    found, event = [], {}
    assert body.endswith(b"\n\n") and b"\r" not in body
    for line in body.decode("utf-8").split("\n"):  # nothing else ends a line: U+2028 does not
        if line == "":
            if "data" in event:
                found.append(event)
            event = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            assert name in ("id", "event", "data") and name not in event, line
            event[name] = value.removeprefix(" ")
    for event in found:
        event["object"] = strict(event["data"].encode())
        assert event["object"]["event"] == event["event"] and str(event["object"]["seq"]) == event["id"]
    return [event["object"] for event in found]


def ndjson_events(body):
    assert body.endswith(b"\n")
    return [event for event in map(strict, body.split(b"\n")[:-1]) if event["event"] != "ping"]


class Outcome:
    """Output, values, error and verdict of a run; from a result object, or from its events."""

    def __init__(self, out, err, results, error, verdict):
        self.out, self.err, self.results, self.error, self.verdict = out, err, results, error, verdict

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return repr(vars(self))[:2000]

    @classmethod
    def of_result(cls, result):
        out, err = (base64.b64decode(result[f"{name}_base64"]) if f"{name}_base64" in result else result[name].encode() for name in ("stdout", "stderr"))
        return cls(out, err, result.get("results", []), result.get("error"), result["verdict"]["kind"])

    @classmethod
    def of_events(cls, events):
        assert [event["seq"] for event in events] == list(range(len(events)))
        kinds = [event["event"] for event in events]
        assert kinds[0] == "started" and kinds.count("started") == kinds.count("verdict") == 1 and kinds[-1] == "verdict", kinds
        streams = {"stdout": b"", "stderr": b""}
        for event in events:
            if event["event"] in streams:
                assert event["offset"] == len(streams[event["event"]])
                streams[event["event"]] += base64.b64decode(event["data_base64"]) if "data_base64" in event else event["data"].encode()
        errors = [event["error"] for event in events if event["event"] == "exception"]
        return cls(streams["stdout"], streams["stderr"], [event["value"] for event in events if event["event"] == "result"], errors[-1] if errors else None, events[-1]["verdict"]["kind"])


def every_form(server, code, session=None, **fields):
    """Runs code and takes what became of it in each form: all of them say the same of one run. The outcome of the last."""
    path = f"/v1/sessions/{session}/runs" if session else "/v1/runs"
    body = json.dumps({"code": code, **fields}).encode()
    made = []
    for accept in ("application/json", "text/event-stream", "application/x-ndjson"):
        data = exchange(server, request_bytes("POST", path, [b"Content-Type: application/json", f"Accept: {accept}".encode(), f"Authorization: Bearer {server.alfa}".encode()], body), tcp=True)
        run = next(line.split(b": ")[1].decode() for line in data.split(b"\r\n") if line.startswith(b"Glovebox-Run: "))
        if accept == "application/json":
            (status, head, answer), = answers(data)
            assert (status, head["content-type"]) == (200, "application/json"), data[:500]
            first = Outcome.of_result(strict(answer)["result"])
        else:
            first = Outcome.of_events((sse_events if "event-stream" in accept else ndjson_events)(dechunked(data)))
        made.append((run, first))
    for run, first in made:
        ask = [f"Authorization: Bearer {server.alfa}".encode()]
        (_, _, answer), = answers(exchange(server, request_bytes("GET", f"/v1/runs/{run}", ask), tcp=True))
        assert Outcome.of_result(strict(answer)["result"]) == first
        for accept, parse in (("text/event-stream", sse_events), ("application/x-ndjson", ndjson_events)):
            data = exchange(server, request_bytes("GET", f"/v1/runs/{run}/events", [*ask, f"Accept: {accept}".encode()]), tcp=True)
            assert Outcome.of_events(parse(dechunked(data))) == first
        events, more = [], 0
        while True:
            (_, _, answer), = answers(exchange(server, request_bytes("GET", f"/v1/runs/{run}/events?from={more}", ask), tcp=True))
            page = strict(answer)
            events, more = events + page["events"], page["next"]
            if page["ended"]:
                break
        assert Outcome.of_events(events) == first
    return made[-1][1]


@pytest.fixture
def session(tenants):
    """One of alfa's, and the address of its runs."""
    made = tenants.post("/v1/sessions", {}, token=tenants.alfa).expect(201).json["id"]
    yield made
    tenants.delete(f"/v1/sessions/{made}", token=tenants.alfa).expect(204)
