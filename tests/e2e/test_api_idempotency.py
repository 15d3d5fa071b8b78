# SPDX-License-Identifier: Apache-2.0
"""Idempotency-Key: a retry gets the first outcome, and code never runs twice."""
import os
import threading
import time

import pytest
from server import NDJSON, SSE, Server, in_threads, server, wait_for


def key():
    return {"Idempotency-Key": f"key {os.urandom(8).hex()} ~!"}


def kind(run):
    return run["result"]["verdict"]["kind"]


@pytest.fixture
def session(server):
    """A session, and how often code was run in it."""
    made = server.session()
    yield made
    server.delete(f"/v1/sessions/{made}")


COUNT = "open('count', 'a').write('x')"


def count(server, session):
    return int(server.run("import os; print(os.path.getsize('count'))", session, context=None)["result"]["stdout"])


def test_a_retry_gets_the_first_outcome(server, session):
    path, headers = f"/v1/sessions/{session}/runs", key()
    first = server.post(path, {"code": COUNT}, headers=headers).expect(200)
    assert "Idempotency-Replayed" not in first.headers
    for _ in range(3):
        again = server.post(path, {"code": COUNT}, headers=headers).expect(200)
        assert again.json == first.json and again.headers["Idempotency-Replayed"] == "true"
        assert again.headers["Glovebox-Run"] == first.json["id"]
    assert count(server, session) == 1
    # As a stream, and as one that nobody waits for.
    for stream in (SSE, NDJSON):
        with server.post(path, {"code": COUNT}, headers=headers, stream=stream) as events:
            assert list(events)[-1]["verdict"] == first.json["result"]["verdict"] and events.headers["Idempotency-Replayed"] == "true"
    assert count(server, session) == 1
    # Without a key everything is new.
    assert server.post(path, {"code": COUNT}).json["id"] != first.json["id"] and count(server, session) == 2


def test_many_at_the_same_time(server, session):
    path = f"/v1/sessions/{session}/runs"
    for round in range(1, 6):
        headers, body = key(), {"code": COUNT + "; import time; time.sleep(0.05)", "context": None}
        answers = in_threads([lambda: server.post(path, body, headers=headers)] * 8)
        assert {a.status for a in answers} == {200}, [a.explain() for a in answers]
        assert len({a.json["id"] for a in answers}) == 1 and [a.json == answers[0].json for a in answers].count(True) == 8
        assert sum("Idempotency-Replayed" in a.headers for a in answers) == 7
        assert count(server, session) == round


def test_a_retry_joins_a_run_that_goes_on(server):
    headers, body = key(), {"code": "print('on', flush=True); print('got', input())", "interactive": True, "detach": True}
    run = server.post("/v1/runs", body, headers=headers).expect(202).json["id"]
    again = server.post("/v1/runs", body, headers=headers).expect(202)
    assert again.json["id"] == run and again.json["state"] in ("queued", "running") and again.headers["Idempotency-Replayed"] == "true"
    # Who waits for it joins, too.
    headers, body = key(), {"code": "import time; time.sleep(1.5); print('end')"}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.post("/v1/runs", body, headers=headers))) for _ in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    with server.post("/v1/runs", body, headers=headers, stream=NDJSON) as stream:
        events = list(stream)
    for thread in threads:
        thread.join()
    assert {a.json["id"] for a in answers} == {events[-1]["id"]} and {a.json["result"]["stdout"] for a in answers} == {"end\n"}
    server.post(f"/v1/runs/{run}/stdin?close=true", body=b"it\n").expect(200)
    assert server.wait_run(run)["result"]["stdout"] == "on\ngot it\n"


def test_a_key_is_for_one_request(server, session):
    headers = key()
    server.post("/v1/runs", {"code": "1"}, headers=headers).expect(200)
    for path, body in (("/v1/runs", {"code": "2"}), ("/v1/runs", {"code": "1", "timeout": 1}), (f"/v1/sessions/{session}/runs", {"code": "1"}),
                       ("/v1/sessions", {})):
        assert server.post(path, body, headers=headers).expect(409).code == "conflict"


def test_what_was_refused_has_used_no_key(server):
    headers = key()
    server.post("/v1/runs", {"code": "1", "timeout": -1}, headers=headers).expect(400)
    server.post("/v1/sessions/" + "0" * 32 + "/runs", {"code": "1"}, headers=headers).expect(404)
    server.post("/v1/runs", {"code": "1"}, headers=headers).expect(200)


def test_a_failure_is_an_outcome(server):
    headers, body = key(), {"code": "1", "files": {"a": "x" * 300000}, "policy": {"disk_limit": "128k"}}
    first = server.post("/v1/runs", body, headers=headers).expect(507)
    again = server.post("/v1/runs", body, headers=headers).expect(507)
    assert again.json == first.json and again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Glovebox-Run"] == first.headers["Glovebox-Run"]


@pytest.mark.parametrize("value, good", [("x", True), ("x" * 255, True), ("x" * 256, False), ("", False), ("a\tb", False), ("ä", False)])
def test_keys(server, value, good):
    raw = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\nConnection: close\r\nIdempotency-Key: " + \
        value.encode() + b"\r\n\r\n{\"code\":\"1\"}"
    with server.raw() as plain:
        plain.sendall(raw)
        answer = b""
        while piece := plain.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200 " if good else b"HTTP/1.1 400 "), answer[:300]


def test_sessions(server):
    headers = key()
    first = server.post("/v1/sessions", {"name": "n"}, headers=headers).expect(201)
    again = server.post("/v1/sessions", {"name": "n"}, headers=headers).expect(201)
    assert again.json["id"] == first.json["id"] and again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert server.used()["sessions"] == 1
    server.delete(f"/v1/sessions/{first.json['id']}").expect(204)
    # It is not made a second time.
    ended = server.post("/v1/sessions", {"name": "n"}, headers=headers).expect(201)
    assert ended.json["id"] == first.json["id"] and ended.json["state"] == "ended" and ended.json["end"] == "deleted"
    assert server.used()["sessions"] == 0
    for _ in range(5):
        headers = key()
        answers = in_threads([lambda: server.post("/v1/sessions", {}, headers=headers)] * 6)
        assert {a.status for a in answers} == {201} and len({a.json["id"] for a in answers}) == 1, [a.explain() for a in answers]
        assert server.used()["sessions"] == 1
        server.delete(f"/v1/sessions/{answers[0].json['id']}").expect(204)


def test_a_retry_is_never_refused_for_a_quota():
    with Server(tenant_runs=1, runs=4) as server:
        headers, body = key(), {"code": "input(); print('done')", "interactive": True, "detach": True}
        run = server.post("/v1/runs", body, headers=headers).expect(202).json["id"]
        assert server.post("/v1/runs", {"code": "1"}).expect(429).code == "quota"
        assert server.post("/v1/runs", body, headers=headers).expect(202).json["id"] == run
        server.post(f"/v1/runs/{run}/stdin?close=true", body=b"\n").expect(200)
        server.wait_run(run)
        wait_for(lambda: server.used()["runs"] == 0)
        # What was refused can be tried again with its key.
        server.post("/v1/runs", {"code": "1"}, headers=key()).expect(200)


def test_each_tenant_has_its_own():
    with Server(tcp=True) as server:
        one, two, headers = server.token("t1", "run"), server.token("t2", "run"), key()
        ids = {server.post("/v1/runs", {"code": "1"}, headers=headers, token=t).expect(200).json["id"] for t in (one, two)}
        ids.add(server.post("/v1/runs", {"code": "1"}, headers=headers).expect(200).json["id"])
        assert len(ids) == 3


def test_over_the_death_of_the_server():
    server = Server()
    try:
        server.start()
        done, going, made = key(), key(), key()
        first = server.post("/v1/runs", {"code": "print('once')"}, headers=done).expect(200).json
        body = {"code": "print('part', flush=True)\nwhile True: pass", "detach": True}
        run = server.post("/v1/runs", body, headers=going).expect(202).json["id"]
        session = server.post("/v1/sessions", {}, headers=made).expect(201).json["id"]
        wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
        server.kill()
        server.start()
        assert server.post("/v1/runs", {"code": "print('once')"}, headers=done).expect(200).json == first
        again = server.post("/v1/runs", body, headers=going).expect(202).json
        assert (again["id"], again["state"], kind(again)) == (run, "ended", "lost")
        assert server.post("/v1/runs", {"code": "other"}, headers=going).expect(409)
        ended = server.post("/v1/sessions", {}, headers=made).expect(201).json
        assert (ended["id"], ended["state"], ended["end"]) == (session, "ended", "lost")
        assert len(server.get("/v1/runs").json["runs"]) == 2
    finally:
        server.close()
