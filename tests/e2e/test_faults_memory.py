# SPDX-License-Identifier: Apache-2.0
"""One allocation of the server fails (tests/shim.c): at a number of points while it starts, and while it does what it is asked.

Each time it answers rightly or with an error, cuts the connection, or ends in good order with a message. It never crashes, never gives a wrong
or half an answer, and is well again at once. GLOVEBOX_FAULT_POINTS says how many points there are (default 400); which ones is random, and
a failure says where it was."""
import contextlib
import http.client
import io
import os
import pathlib
import random
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from server import NDJSON, PATIENCE, Answer, Server, wait_for  # noqa: E402
from shim import IS_SANITIZED, ShimServer, compile_shim  # noqa: E402

POINTS = int(os.environ.get("GLOVEBOX_FAULT_POINTS", "400"))
CUT = (ConnectionError, http.client.HTTPException)
SEED = int.from_bytes(os.urandom(4), "big")

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer's allocator does not count what it needs itself, and the host has only one")


class Cut(ConnectionError):
    """A stream that ended before its last event."""


@pytest.fixture(scope="module")
def library(session_dir):
    found = compile_shim(session_dir)
    if not found:
        pytest.skip("a C compiler is not installed")
    return found


def fine(answer, good, check=None):
    """Whether it went well. An answer that is neither good nor a whole error is a failure."""
    if answer.status == good:
        assert not check or check(answer), answer.explain()
        return True
    assert answer.status in (500, 503, 507), answer.explain()
    assert answer.code in ("internal", "lost", "unavailable", "disk_full", "unenforceable") and answer.error["message"], answer.explain()
    return False


def is_42(answer):
    """A run may be lost, and said to be; else it has printed what it should."""
    result = answer.json["result"]
    return result["verdict"]["kind"] == "lost" or (result["verdict"]["kind"], result["stdout"]) == ("ok", "42\n")


# ---- what is asked ----

class Client:
    def __init__(self, server):
        self.server, self.id = server, None

    def ready(self):
        """A session for those that need one."""
        if not self.id or self.server.get(f"/v1/sessions/{self.id}").status != 200:
            self.id = self.server.session()

    def in_session(self, answer, good, check=None):
        """It may have died: its interpreter or its box lacked something."""
        return answer.status != 404 and fine(answer, good, check)

    def warm_run(self):
        fine(self.server.post("/v1/runs", {"code": "print(6 * 7)"}), 200, is_42)

    def cold_run(self):
        fine(self.server.post("/v1/runs", {"code": "print(6 * 7)", "template": None, "files": {"a.txt": "text"}, "stdin": "abc"}), 200, is_42)

    def stream(self):
        stream = self.server.post("/v1/runs", {"code": "for i in range(3): print(i, flush=True)"}, stream=NDJSON)
        if isinstance(stream, Answer):
            fine(stream, 200)
            return
        with stream:
            assert stream.headers["Glovebox-Run"]
            events = list(stream)
        assert [e["seq"] for e in events] == list(range(len(events)))
        if not events or events[-1]["event"] not in ("verdict", "error"):
            raise Cut
        if events[-1]["event"] == "error":  # which says that nothing was run
            assert events[0]["event"] != "started", events
        if events[-1]["event"] == "verdict" and events[-1]["verdict"]["kind"] == "ok":
            assert "".join(e["data"] for e in events if e["event"] == "stdout") == "0\n1\n2\n"

    def session(self):
        answer = self.server.post("/v1/sessions", {"name": "n", "metadata": {"a": "b"}})
        if not fine(answer, 201, lambda a: a.headers["Location"] == f"/v1/sessions/{a.json['id']}" and a.json["metadata"] == {"a": "b"}):
            return
        path = f"/v1/sessions/{answer.json['id']}"
        ran = self.server.post(f"{path}/runs", {"code": "x = 41\nx + 1"})
        if self.in_session(ran, 200) and ran.json["result"]["verdict"]["kind"] == "ok" and ran.json["result"]["results"]:
            assert ran.json["result"]["results"][0]["data"]["text/plain"] == "42"
        self.in_session(self.server.delete(path), 204)

    def files(self):
        path = f"/v1/sessions/{self.id}/files"
        if self.in_session(self.server.put(f"{path}/a/b?parents=true", b"y" * 70000), 201):
            self.in_session(self.server.get(f"{path}/a/b"), 200, lambda a: a.body == b"y" * 70000)
        self.in_session(self.server.get(f"{path}?path=a"), 200, lambda a: all(set(e) >= {"name", "type", "size"} for e in a.json["entries"]))
        self.in_session(self.server.put(f"{path}/large", b"z" * 3000000), 201)

    def archive(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for i in range(3):
                tar.addfile(tarfile.TarInfo(f"d/{i}"))
        path = f"/v1/sessions/{self.id}/archive"
        if self.in_session(self.server.put(f"{path}?path=a{random.getrandbits(40)}", packed.getvalue(), headers={"Content-Type": "application/x-tar"}), 200):
            self.in_session(self.server.get(path), 200, lambda a: len(tarfile.open(fileobj=io.BytesIO(a.body)).getnames()) >= 4)

    def context(self):
        path = f"/v1/sessions/{self.id}"
        answer = self.server.post(f"{path}/contexts", {"language": "bash"})
        if answer.status == 400 and answer.code == "limit":  # of those that nobody was told of
            self.server.delete(path)
        elif self.in_session(answer, 201):
            context = answer.json["id"]
            self.in_session(self.server.post(f"{path}/runs", {"code": "echo 42", "language": "bash", "context": context}), 200, is_42)
            self.in_session(self.server.delete(f"{path}/contexts/{context}"), 204)

    def look(self):
        for path in ("/v1/sessions", "/v1/runs?limit=5", "/v1/info", "/v1/policies", "/v1/languages", "/v1/audit?limit=5", "/v1/stats", f"/v1/sessions/{self.id}/stats"):
            self.in_session(self.server.get(path), 200, lambda a: a.json)
        fine(self.server.get("/metrics"), 200, lambda a: a.body.endswith(b"\n"))

    def keyed(self):
        headers = {"Idempotency-Key": os.urandom(8).hex()}
        answers = [self.server.post("/v1/runs", {"code": "print(6 * 7)"}, headers=headers) for _ in range(2)]
        if all([fine(answer, 200, is_42) for answer in answers]):
            assert answers[0].json["id"] == answers[1].json["id"]

    def detached(self):
        answer = self.server.post("/v1/runs", {"code": "print(input())", "detach": True, "interactive": True})
        if fine(answer, 202):
            path = f"/v1/runs/{answer.json['id']}"
            typed = self.server.post(f"{path}/stdin?close=true", body=b"text\n")
            if typed.status != 409:  # it has ended already
                fine(typed, 200)
            fine(self.server.post(f"{path}/cancel", {"kill": True}), 202)
            fine(self.server.get(f"{path}/events"), 200)

    def wrong(self):
        for path, body in (("/v1/runs", {"code": 1}), ("/v1/nothing", {}), ("/v1/sessions/abc/runs", {"code": "1"})):
            answer = self.server.post(path, body)
            assert answer.status in (400, 404) or not fine(answer, 400), answer.explain()

    def settle(self):
        """What a client was not told of is ended."""
        for run in self.server.get("/v1/runs?state=running").expect(200).json["runs"]:
            self.server.post(f"/v1/runs/{run['id']}/cancel", {"kill": True})
        for session in self.server.get("/v1/sessions").expect(200).json["sessions"]:
            self.server.delete(f"/v1/sessions/{session['id']}")
        used = self.server.used()
        return used["sessions"] == 0 and used["runs"] == 0


STEPS = [Client.warm_run, Client.cold_run, Client.stream, Client.session, Client.files, Client.archive, Client.context, Client.look, Client.keyed, Client.detached, Client.wrong]


@pytest.fixture(scope="module")
def faulty(library):
    server = ShimServer(library)
    try:
        yield server.start()
        status = server.stop()
        assert status == 0, server.output()
        # What the next one finds has an end.
        server.start()
        for state in ("queued", "running"):
            assert server.get(f"/v1/runs?state={state}").json["runs"] == []
        assert "runs had not ended" not in server.output() and "run had not ended" not in server.output(), server.output()
        assert server.stop() == 0
    finally:
        if server.process:
            server.kill()
        Server.close(server)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_without_memory(faulty, step):
    client, chance = Client(faulty), random.Random(f"{SEED} {step.__name__}")
    client.ready()
    step(client)  # what is made once is not of this test
    client.ready()
    needed = min(faulty.allocations(lambda: step(client)) for _ in range(2))
    assert needed > 10
    for i, at in enumerate(sorted(chance.sample(range(1, needed), min(needed - 1, max(POINTS * 2 // 3 // len(STEPS), 2))))):
        if i % 20 == 19:
            wait_for(client.settle)
        client.ready()
        try:
            with faulty.failing(at, chance.choice((1, 1, 1, 5))), contextlib.suppress(*CUT):
                step(client)
            assert faulty.process.poll() is None, "the server has ended"
            client.ready()
            step(client)
        except BaseException:
            print(f"seed {SEED}, {step.__name__}, allocation {at} of {needed} failed here:\n{faulty.where()}\n{faulty.output()}")
            raise
    wait_for(client.settle)
    assert faulty.used() == {"sessions": 0, "runs": 0, "memory_bytes": 0}


def test_without_memory_at_the_start(library):
    chance, server = random.Random(SEED), ShimServer(library)

    def is_up():
        with contextlib.suppress(OSError, *CUT):
            return server.get("/readyz").status == 200
    try:
        server.start()
        needed = server.allocations()
        assert server.stop() == 0
        refused = 0
        for at in sorted(chance.sample(range(1, needed), max(POINTS // 3, 5))):
            server.fail(at)
            server.start(wait=False)
            wait_for(lambda: server.process.poll() is not None or is_up())
            server.fail(0)
            if server.process.poll() is None:
                assert server.run("print(6 * 7)")["result"]["stdout"] == "42\n", server.where()
                status = server.stop()
                assert status == 0, (at, status, server.output(), server.where())
            else:
                status = server._wait(PATIENCE)
                refused += 1
                last = server.output().splitlines()[-1]
                if "nss_database.c" in last:
                    continue  # the C library's own: it gives up where it looks for accounts
                assert status > 0 and ("memory" in last or "cannot" in last), (at, status, server.output(), server.where())
        assert refused > 0
    finally:
        if server.process:
            server.kill()
        Server.close(server)
