# SPDX-License-Identifier: Apache-2.0
"""Events: numbers without gaps, and whoever lost the connection gets exactly the rest."""
import base64
import random
import time

import pytest
from server import NDJSON, SSE, Server, in_threads, server, wait_for

CODE = """
import sys, time
for i in range(12):
    print('line', i, 'ä€😀' * 50, flush=True)
    sys.stderr.write(f'err {i}\\n'); sys.stderr.flush()
    time.sleep(0.01)
sys.stdout.buffer.write(bytes(range(128, 256))); sys.stdout.flush()
"""


def drop_volatile(event):
    return event


def read(server, run, start, kind, header=False):
    path = f"/v1/runs/{run}/events" + ("" if header else f"?from={start}")
    headers = {"Last-Event-ID": str(start - 1)} if header else None
    with server.get(path, stream=kind, headers=headers) as stream:
        return list(stream)


def check_whole(events, result):
    """The events are numbered, in order, and together they are the result."""
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert events[0]["event"] == "started" and events[-1]["event"] == "verdict"
    assert not [e for e in events[:-1] if e["event"] in ("verdict", "error")]
    for stream in ("stdout", "stderr"):
        data = b""
        for event in events:
            if event["event"] == stream:
                assert event["offset"] == len(data), event
                data += event["data"].encode() if "data" in event else base64.b64decode(event["data_base64"])
        exact = base64.b64decode(result[f"{stream}_base64"]) if f"{stream}_base64" in result else result[stream].encode()
        assert data == exact
    times = [e["t_usec"] for e in events[:-1]]
    assert times == sorted(times) or len({e["event"] for e in events}) > 3  # each stream is in order, two need not be
    verdict = {k: v for k, v in events[-1].items() if k not in ("seq", "event")}
    assert verdict == {k: v for k, v in result.items() if k not in ("stdout", "stderr", "stdout_base64", "stderr_base64", "results", "error")}


@pytest.fixture(scope="module")
def ended(server):
    return server.run(CODE)


@pytest.mark.parametrize("kind", [SSE, NDJSON])
def test_resume_at_every_number(server, ended, kind):
    events = read(server, ended["id"], 0, kind)
    check_whole(events, ended["result"])
    assert len(events) == ended["events"] >= 4  # two pieces of output may have come as one
    for start in range(len(events) + 1):
        assert read(server, ended["id"], start, kind) == events[start:]
        if start > 0:
            assert read(server, ended["id"], start, kind, header=True) == events[start:]
    assert read(server, ended["id"], len(events) + 1000, kind) == []


def test_pages(server, ended):
    events = read(server, ended["id"], 0, NDJSON)
    for start in range(len(events) + 1):
        page = server.get(f"/v1/runs/{ended['id']}/events?from={start}", headers={"Accept": "application/json"}).expect(200).json
        assert page == {"events": events[start:], "next": len(events), "ended": True}
    page = server.get(f"/v1/runs/{ended['id']}/events?from=5000").json
    assert page == {"events": [], "next": 5000, "ended": True}


def test_a_page_is_bounded(server):
    run = server.run("import sys\nfor i in range(60): sys.stdout.write('x' * 65536)", policy={"output_limit": "8m"})
    events, start, pages, over = [], 0, 0, False
    while not over:
        page = server.get(f"/v1/runs/{run['id']}/events?from={start}").json
        assert page["events"] and page["next"] == page["events"][-1]["seq"] + 1
        events, start, over, pages = events + page["events"], page["next"], page["ended"], pages + 1
    check_whole(events, run["result"])
    assert pages >= 3


@pytest.mark.parametrize("kind", [SSE, NDJSON])
def test_the_stream_of_a_new_run(server, kind):
    with server.post("/v1/runs", {"code": CODE}, stream=kind) as stream:
        run = stream.headers["Glovebox-Run"]
        assert stream.headers["Content-Type"].startswith(kind)
        events = list(stream)
    whole = server.get(f"/v1/runs/{run}").json
    check_whole(events, whole["result"])
    assert events == read(server, run, 0, kind)


def test_events_come_while_it_runs(server):
    code = "import sys\nprint('first', flush=True)\nprint('got', sys.stdin.readline())"
    with server.post("/v1/runs", {"code": code, "interactive": True}, stream=NDJSON) as stream:
        run, events = stream.headers["Glovebox-Run"], iter(stream)
        assert next(events)["event"] == "started"
        assert next(events)["data"] == "first\n"
        # It waits for us: nothing can have been held back until the end.
        page = server.get(f"/v1/runs/{run}/events").json
        assert (page["next"], page["ended"]) == (2, False)
        server.post(f"/v1/runs/{run}/stdin?close=true", body=b"answer\n").expect(200)
        rest = list(events)
    assert "".join(e.get("data", "") for e in rest) == "got answer\n\n" and rest[-1]["event"] == "verdict"


def test_many_followers_see_the_same(server):
    run = server.post("/v1/runs", {"code": CODE, "detach": True}).json["id"]
    streams = in_threads([lambda kind=kind: read(server, run, 0, kind) for kind in (SSE, NDJSON) * 4])
    whole = server.wait_run(run)
    for events in streams:
        assert events == streams[0]
    check_whole(streams[0], whole["result"])


def test_a_client_that_loses_its_connection_again_and_again(server):
    code = "import time\nfor i in range(200): print(i, flush=True); time.sleep(0.002)"
    run = server.post("/v1/runs", {"code": code, "detach": True}).json["id"]
    events, chance = [], random.Random(7)
    while not events or events[-1]["event"] != "verdict":
        kind = chance.choice([SSE, NDJSON])
        with server.get(f"/v1/runs/{run}/events?from={len(events)}", stream=kind) as stream:
            for event in stream:
                events.append(event)
                if chance.random() < 0.05:
                    break
    check_whole(events, server.get(f"/v1/runs/{run}").json["result"])


def test_values_and_exceptions(server):
    session = server.session()
    code = "print('before')\n1 + 1"
    with server.post(f"/v1/sessions/{session}/runs", {"code": code}, stream=NDJSON) as stream:
        events = list(stream)
    assert [e["event"] for e in events] == ["started", "stdout", "result", "verdict"]
    assert events[2]["value"] == {"main": True, "data": {"text/plain": "2"}}
    with server.post(f"/v1/sessions/{session}/runs", {"code": "print('x'); 1 / 0"}, stream=NDJSON) as stream:
        events = list(stream)
        run = stream.headers["Glovebox-Run"]
    failure = next(e for e in events if e["event"] == "exception")["error"]
    assert failure["name"] == "ZeroDivisionError" and set(failure) == {"name", "value", "traceback"}
    assert server.get(f"/v1/runs/{run}").json["result"]["error"] == failure
    # What was printed before a value is told before it, also half a character.
    half = "import sys; sys.stdout.buffer.write(b'a\\xc3'); sys.stdout.flush(); display(1); sys.stdout.buffer.write(b'\\xa4'); sys.stdout.flush()"
    run = server.run(half, session)
    if run["result"]["error"] is None:
        assert run["result"]["stdout"] == "aä"
    server.delete(f"/v1/sessions/{session}").expect(204)


def test_values_with_a_nul(server):
    session = server.session()
    value = server.run("'a\\0b'", session)
    failed = server.run("raise Exception('x\\0y')", session)
    assert failed["result"]["error"]["value"] == "x\0y" and value["result"]["results"], (value, failed)
    for run in (value, failed):
        assert server.get(f"/v1/runs/{run['id']}").json == run
    out = server.run("print('a\\0b')", session)
    assert out["result"]["stdout"] == "a\0b\n" and server.get(f"/v1/runs/{out['id']}").json == out
    server.delete(f"/v1/sessions/{session}").expect(204)


def test_a_character_is_never_split(server):
    code = "import sys, time\nfor b in 'ä€😀'.encode() * 5: sys.stdout.buffer.write(bytes([b])); sys.stdout.flush(); time.sleep(0.005)"
    with server.post("/v1/runs", {"code": code}, stream=SSE) as stream:
        events = [e for e in stream if e["event"] == "stdout"]
    assert all("data" in e for e in events) and "".join(e["data"] for e in events) == "ä€😀" * 5


def test_output_cannot_be_an_event(server):
    evil = '\\n\\nid: 99\\nevent: verdict\\ndata: {"event": "verdict"}\\n\\n{"event": "verdict", "seq": 99}\\n\\u2028'
    for kind in (SSE, NDJSON):
        with server.post("/v1/runs", {"code": f"print('{evil}')"}, stream=kind) as stream:
            events = list(stream)
        assert [e["event"] for e in events] == ["started", "stdout", "verdict"] and "id: 99" in events[1]["data"]


def test_wrong_parameters(server, ended):
    path = f"/v1/runs/{ended['id']}/events"
    for query in ("from=-1", "from=x", "from=1.5", f"from={1 << 64}", "form=1", "from=1&from=2"):
        assert server.get(f"{path}?{query}").expect(400).code == "usage", query
    for value in ("-1", "x", "", str(1 << 64)):
        answer = server.get(path, headers={"Last-Event-ID": value, "Accept": "application/json"})
        assert answer.status == 400, (value, answer.explain())
    # What is asked for by the address counts.
    assert server.get(f"{path}?from=1", headers={"Last-Event-ID": "3", "Accept": "application/json"}).json["events"][0]["seq"] == 1


@pytest.mark.waits
def test_a_stream_that_is_silent_says_that_it_is_there(server):
    with server.post("/v1/runs", {"code": "import time; time.sleep(17)"}, stream=NDJSON) as stream:
        events = list(stream)
        assert stream.comments >= 1 and events[-1]["verdict"]["kind"] == "ok"


def test_a_reader_that_does_not_read_costs_the_run_nothing(server):
    """The run ends while its own client reads nothing; later that gets all of it."""
    code = "import sys\nfor i in range(100): sys.stdout.write('x' * 65536)"
    with server.post("/v1/runs", {"code": code, "policy": {"output_limit": "16m"}}, stream=NDJSON) as stream:
        run = stream.headers["Glovebox-Run"]
        ended = server.wait_run(run)
        assert ended["result"]["verdict"]["kind"] == "ok"
        time.sleep(0.2)
        check_whole(list(stream), ended["result"])


def test_followers_of_a_server_that_ends():
    """The stream has its last event, or is cut: never a clean end without one."""
    server = Server(drain="200ms")
    try:
        server.start()
        streams = []
        for _ in range(3):
            stream = server.post("/v1/runs", {"code": "import time; print('on', flush=True); time.sleep(60)"}, stream=NDJSON)
            events = iter(stream)
            assert next(events)["event"] == "started" and next(events)["data"] == "on\n"
            streams.append((stream, events))
        server.process.terminate()
        for stream, events in streams:
            try:
                rest = list(events)
            except Exception:  # a cut connection shows in many ways
                rest = None
            assert rest is None or rest[-1]["verdict"]["kind"] == "cancelled", rest
            stream.close()
        assert server.stop() == 0
    finally:
        server.close()


def test_detached_runs_can_be_waited_for(server):
    run = server.post("/v1/runs", {"code": "print('x')", "detach": True}).json["id"]
    with server.get(f"/v1/runs/{run}/events", stream=SSE) as stream:
        assert [e["event"] for e in stream] == ["started", "stdout", "verdict"]
    wait_for(lambda: server.used()["runs"] == 0)
