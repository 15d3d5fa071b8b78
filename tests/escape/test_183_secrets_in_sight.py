# SPDX-License-Identifier: Apache-2.0
"""183. Somebody who sees the server's log, audit, metrics, its files, its processes and what it leaves when it crashes looks for tokens, code, variables and input of
its tenants => none of them is there; code is known by its hash. Another tenant's metrics and errors have nothing of it either.
"""
import hashlib
import json
import os
import pathlib
import secrets
import signal

import pytest
from conftest import needs_root, wait_until
from hostile_clients import exchange, request_bytes
from server import PATIENCE, Server, found_in_memory, wait_for


class Busy:
    """A server that has done all kinds of things with secrets, well and badly."""

    def __init__(self):
        self.server = Server(tcp=True)
        self.words = {name: f"{name}{secrets.token_hex(8)}" for name in ("code", "env", "stdin", "file", "failing", "name", "key", "session")}
        self.tokens = []

    def __enter__(self):
        self.server.start()
        self.work()
        return self

    def __exit__(self, *_):
        self.server.close()

    def work(self):
        server, words = self.server, self.words
        token, reader = server.token("alfa", "run"), server.token("alfa", "read", "metrics", "admin")
        self.token, self.reader, self.tokens = token, reader, [token, reader]
        self.code = f"# {words['code']}\nimport os, sys\nsys.stdin.read()\nlen(os.environ['SECRET'])"
        body = {"code": self.code, "policy": {"env": {"SECRET": words["env"]}}, "stdin": words["stdin"], "files": {"f": words["file"]}}
        headers = {"Idempotency-Key": words["key"]}
        server.post("/v1/runs", body, token=token, headers=headers).expect(200)
        session = server.post("/v1/sessions", {"policy": {"env": {"SECRET": words["env"]}}, "name": words["session"]}, token=token).expect(201).json["id"]
        server.post(f"/v1/sessions/{session}/runs", {"code": self.code}, token=token).expect(200)
        server.put(f"/v1/sessions/{session}/files/f", words["file"].encode(), token=token).expect(201)
        # What goes wrong is what is written about.
        server.post("/v1/runs", {**body, "code": f"{words['failing']} syntax error ("}, token=token).expect(200)
        server.post("/v1/runs", {**body, "timeout": -1}, token=token).expect(400)
        server.post("/v1/runs", {**body, words["name"]: 1}, token=token).expect(400)
        server.post("/v1/runs", {**body, "code": "x" * 100, "language": words["name"]}, token=token).expect(400)
        server.post("/v1/runs", {**body, "policy": {"env": {"SECRET": words["env"] * 20000}}}, token=token).expect(400)
        server.get("/v1/info", token=token[:-3] + "abc").expect(401)
        server.get(f"/v1/info?token={token}", token=token).expect(400)
        exchange(server, request_bytes("GET", f"/v1/info?token={token}", [f"Authorization: Bearer {token}".encode()]) + token.encode(), tcp=True)
        exchange(server, f"GET /{token} HTTP/1.1\r\nHost: {token}\r\nAuthorization: {token}\n\n".encode(), tcp=True)
        server.delete(f"/v1/sessions/{session}", token=token).expect(204)

    def secrets(self):
        """Those that nobody needs to see. The secret part of a token; its id names it."""
        return [token[13:] for token in self.tokens] + [self.words[name] for name in ("code", "env", "stdin", "file", "failing", "name")]


@pytest.fixture(scope="module")
def busy():
    with Busy() as made:
        yield made


def assert_free(data, words, where):
    data = data if isinstance(data, bytes) else data.encode()
    found = [word for word in words if word.encode() in data]
    assert not found, (where, found)


def own_processes(server):
    """The server's and those that work for it; not those in boxes."""
    return {pid: command for pid, command in {server.pid: "front", **server.processes()}.items() if command == "front" or command.startswith("[glovebox")}


def test_log(busy):
    log = (busy.server.directory / "log").read_bytes()
    assert b"ready" in log
    assert_free(log, [*busy.secrets(), busy.words["key"], busy.words["session"]], "the log")


def test_audit_and_metrics(busy):
    server = busy.server
    for path in ("/v1/audit?limit=1000", "/metrics", "/v1/stats", "/v1/runs?limit=1000", "/v1/info", "/v1/doctor"):
        answer = server.get(path, token=busy.reader).expect(200)
        assert_free(answer.body, busy.secrets(), path)
    records = server.get("/v1/audit?limit=1000", token=busy.reader).json["records"]
    hashes = [record.get("code_sha256") for record in records]
    assert hashlib.sha256(busy.code.encode()).hexdigest() in hashes  # this is how it is known
    assert busy.token[4:12] in json.dumps(records)  # and who
    assert_free(server.get("/metrics", token=busy.reader).body, ["alfa", busy.words["session"], busy.token[4:12]], "metrics")


def test_files(busy):
    """Of a token a hash, of code a hash. What was printed is there, and names of sessions are not."""
    files = [path for path in busy.server.state.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"journal.db", "tokens.db"}
    for path in files:
        assert_free(path.read_bytes(), [word for word in busy.secrets() if word != busy.words["failing"]], path)
        if os.geteuid() == 0:
            assert path.stat().st_mode & 0o077 == 0
    # A failing run's error quotes the line: that is output, which is kept.
    assert b"failing" in b"".join(path.read_bytes() for path in files)


def test_processes(busy):
    """Their command lines and environments: also while a run goes on."""
    server = busy.server
    marker = f"running{secrets.token_hex(8)}"
    run = server.post("/v1/runs", {"code": f"import time  # {marker}\nprint(1, flush=True)\ntime.sleep(100)", "policy": {"env": {"SECRET": busy.words["env"]}}, "detach": True, "timeout": 200}, token=busy.token).expect(202).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}", token=busy.token).json["events"] >= 2)
    found = own_processes(server)
    assert len(found) >= 2
    for pid, command in found.items():
        for name in ("cmdline", "environ", "comm"):
            try:
                data = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue  # it has ended, or this user may not look
            assert_free(data, [*busy.secrets(), marker, run], (command, name))
    # Of the whole host: code is in no command line.
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        assert marker.encode() not in line or int(entry) == os.getpid(), line
    server.post(f"/v1/runs/{run}/cancel", {"kill": True}, token=busy.token).expect(202)


@needs_root
def test_memory_of_the_front(busy):
    """A token that was checked is not kept: heads are wiped."""
    server = busy.server
    token = server.token("alfa", "run")
    head = [f"Authorization: Bearer {token}".encode()]
    for _ in range(5):
        server.get("/v1/info", token=token).expect(200)
        server.get("/v1/info", token=token[:-3] + "xyz").expect(401)
        with server.raw(tcp=True) as plain:  # two in one piece
            plain.sendall(request_bytes("GET", "/v1/info", head, close=False) + request_bytes("GET", "/v1/info", head))
            while plain.recv(65536):
                pass
    server.get("/healthz").expect(200)
    needle = token[13:50].encode()
    # The last head is wiped a moment after the answer.
    assert wait_until(lambda: not found_in_memory(server.pid, needle), 10), found_in_memory(server.pid, needle)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT])
def test_crash(number, tmp_path):
    """It leaves no memory behind, nor says more than it should."""
    server = Server(tcp=True)
    try:
        token = server.token("alfa", "run")
        with server:
            word = secrets.token_hex(8)
            server.post("/v1/runs", {"code": f"# {word}\n1"}, token=token).expect(200)
            before = {path: set(os.listdir(path)) for path in ("/", str(server.directory), str(server.state))}
            os.kill(server.pid, number)
            server._wait(PATIENCE)
            for path, names in before.items():
                new = [name for name in set(os.listdir(path)) - names if "core" in name]
                assert not new, (path, new)
            assert_free((server.directory / "log").read_bytes(), [token[13:], word], "the log")
    finally:
        server.process = None
        server.close()
