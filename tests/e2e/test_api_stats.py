# SPDX-License-Identifier: Apache-2.0
"""Statistics of sessions, runs and the server; metrics; what the server says of itself."""
import concurrent.futures
import http.client
import re
import time

import pytest

from conftest import wait_until
from server import NDJSON, SSE, Server

SPIN = "import time\nend = time.monotonic() + {}\nprint('on', flush=True)\nwhile time.monotonic() < end: pass"
WAIT = "print('on', flush=True)\ninput()"
KEYS = {"time", "session", "run", "cpu", "memory", "pids", "disk", "io", "network", "output", "runs"}


@pytest.fixture(scope="module")
def server(binary):
    with Server() as one:
        yield one


@pytest.fixture
def session(server):
    one = server.session()
    yield one
    server.delete(f"/v1/sessions/{one}")


def start(server, code, session=None, **fields):
    """A run that goes on, and has printed something."""
    path = f"/v1/sessions/{session}/runs" if session else "/v1/runs"
    run = server.post(path, {"code": code, "detach": True, **fields}).expect(202).json["id"]
    wait_until(lambda: any(e["event"] == "stdout" for e in server.get(f"/v1/runs/{run}/events").expect(200).json["events"]), 60, 0.02)
    return run


def kill(server, run):
    server.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
    return server.wait_run(run)


@pytest.mark.smoke
def test_one_sample(server, session):
    sample = server.get(f"/v1/sessions/{session}/stats").expect(200).json
    assert set(sample) == KEYS
    assert (sample["session"], sample["run"]) == (session, None)
    assert sample["cpu"]["percent"] is None and sample["output"]["bytes_per_second"] is None, "rates need two"
    assert sample["runs"] == {"active": 0, "total": 0}
    assert sample["network"] == {"requests": 0, "denied": 0, "bytes_up": 0, "bytes_down": 0, "open": 0}
    server.run("x = bytearray(40 << 20); print('y' * 1000); open('f', 'wb').write(bytes(1 << 20))", session)
    after = server.get(f"/v1/sessions/{session}/stats").expect(200).json
    assert after["runs"] == {"active": 0, "total": 1} and after["output"]["bytes"] == 1001
    assert after["disk"]["bytes"] >= 1 << 20 and after["disk"]["inodes"] >= 1
    assert after["disk"]["limit_bytes"] == server.get(f"/v1/sessions/{session}").json["policy"]["limits"]["disk_bytes"]
    if after["memory"]["bytes"] is not None:
        assert 40 << 20 < after["memory"]["bytes"] <= after["memory"]["peak_bytes"] <= after["memory"]["limit_bytes"]
        assert after["cpu"]["usec"] > sample["cpu"]["usec"] and 0 < after["pids"]["current"] <= after["pids"]["peak"] <= after["pids"]["limit"]


@pytest.mark.parametrize("kind", [SSE, NDJSON])
def test_stream(server, session, kind):
    run = start(server, SPIN.format(60), session)
    with server.get(f"/v1/sessions/{session}/stats?interval=0.1", stream=kind) as stream:
        samples = []
        for sample in stream:
            samples.append(sample)
            if len(samples) == 8:
                break
    assert all(set(s) == KEYS | {"event"} and s["event"] == "sample" for s in samples)
    assert samples[0]["cpu"]["percent"] is None and samples[0]["runs"]["active"] == 1
    times = [s["time"] for s in samples]
    assert times == sorted(times) and len(set(times)) == 8
    if samples[0]["cpu"]["usec"] is not None:
        usage = [s["cpu"]["usec"] for s in samples]
        assert usage == sorted(usage) and usage[-1] > usage[0]
        assert max(s["cpu"]["percent"] for s in samples[1:]) > 5, "a loop uses a processor"
    kill(server, run)


def test_output_rate(server, session):
    run = start(server, "import time\nwhile True:\n    print('x' * 99, flush=True)\n    time.sleep(0.01)", session)
    with server.get(f"/v1/sessions/{session}/stats?interval=0.3", stream=True) as stream:
        samples = [sample for sample, _ in zip(stream, range(4))]
    assert any(s["output"]["bytes_per_second"] > 0 for s in samples[1:])
    assert samples[-1]["output"]["bytes"] > samples[0]["output"]["bytes"]
    kill(server, run)


def test_run_stats(server, session):
    for where in (None, session):
        run = start(server, WAIT, where, interactive=True)
        sample = server.get(f"/v1/runs/{run}/stats").expect(200).json
        assert (sample["run"], sample["session"]) == (run, where) and sample["runs"]["active"] == 1
        with server.get(f"/v1/runs/{run}/stats?interval=0.1", stream=True) as stream:
            first = next(iter(stream))
            assert first["run"] == run
            server.post(f"/v1/runs/{run}/stdin?close=true", body=b"\n").expect(200)
            server.wait_run(run)
            assert len(list(stream)) < 1000, "the stream ends with the run"
        assert server.get(f"/v1/runs/{run}/stats").expect(409).code == "conflict"
    assert server.get(f"/v1/runs/{'0' * 32}/stats").expect(404).code == "not_found"
    assert server.get(f"/v1/sessions/{'0' * 32}/stats").expect(404).code == "not_found"


def test_run_stats_before_its_box(binary):
    """The first run of a server waits for its template; who asks meanwhile is not told that it has ended."""
    with Server() as one:
        for _ in range(3):
            run = one.post("/v1/runs", {"code": WAIT, "detach": True, "interactive": True}).expect(202).json["id"]
            assert one.get(f"/v1/runs/{run}/stats").expect(200).json["run"] == run
            kill(one, run)


def test_stream_ends_with_its_session(server):
    """And the end of a session does not wait for who watches it."""
    session = server.session()
    with server.get(f"/v1/sessions/{session}/stats?interval=60", stream=True) as slow, server.get(f"/v1/sessions/{session}/stats?interval=0.1", stream=True) as fast:
        next(iter(slow))
        began = time.monotonic()
        server.delete(f"/v1/sessions/{session}").expect(204)
        assert time.monotonic() - began < 20
        assert len(list(fast)) < 1000


@pytest.mark.parametrize("path", ["/v1/sessions/{}/stats", "/v1/stats"])
def test_stream_is_cut_when_the_server_ends(binary, path):
    """A clean end would say that the session has ended."""
    server = Server(drain="200ms")
    try:
        server.start()
        with server.get(path.format(server.session()) + "?interval=60", stream=NDJSON) as stream:
            next(iter(stream))
            server.process.terminate()
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                stream.response.read()
        assert server.stop() == 0
        assert "everything has ended" in server.output()
    finally:
        server.close()


def test_intervals(server, session):
    for wrong in ("0", "0.05", "61", "-1", "x", "", "1e3", "2h"):
        assert server.get(f"/v1/sessions/{session}/stats?interval={wrong}").expect(400).code == "usage"
    for good in ("0.1", "60", "500ms", "1"):
        server.get(f"/v1/sessions/{session}/stats?interval={good}").expect(200)
    assert server.get(f"/v1/sessions/{session}/stats?period=1").expect(400).code == "usage"


def test_all(server, session):
    run = start(server, WAIT, interactive=True)
    stats = server.get("/v1/stats").expect(200).json
    assert {(s["session"], s["run"]) for s in stats["samples"]} == {(session, None), (None, run)}
    about = stats["server"]
    assert about["sessions"] >= 1 and about["runs"] >= 1 and about["uptime"] > 0 and about["memory_bytes"] > 1 << 20 and about["connections"] >= 1 and about["threads"] >= 2
    with server.get("/v1/stats?interval=0.1", stream=True) as stream:
        pages = [page for page, _ in zip(stream, range(3))]
    assert all(page["event"] == "stats" and len(page["samples"]) == 2 for page in pages)
    assert all(s["cpu"]["percent"] is not None or s["cpu"]["usec"] is None for s in pages[1]["samples"])
    kill(server, run)


def test_tenants(binary):
    """Numbers of the process are the operator's, and samples the tenant's."""
    with Server(tcp=True) as server:
        reader, other, admin = server.token("one", "run"), server.token("two", "run"), server.token("three", "admin")
        server.post("/v1/sessions", {}, token=reader).expect(201)
        mine, theirs = (server.get("/v1/stats", token=t).expect(200).json for t in (reader, other))
        assert len(mine["samples"]) == 1 and mine["server"]["sessions"] == 1
        assert theirs["samples"] == [] and theirs["server"]["sessions"] == 0 and theirs["server"]["runs"] == 0
        assert all(theirs["server"][k] is None for k in ("connections", "threads", "memory_bytes", "descriptors"))
        assert server.get("/v1/stats", token=admin).json["server"]["connections"] >= 1
        for path in ("/v1/info", "/v1/policies", "/v1/languages"):
            assert server.get(path, token=other).status == 200
        info = server.get("/v1/info", token=other).json
        assert (info["tenant"], info["used"]["sessions"]) == ("two", 0) and "run" in info["scopes"] and "admin" not in info["scopes"]


def test_many_sessions(binary):
    """Watching costs little, however many there are."""
    with Server() as server:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: server.session(template=None), range(60)))
        began = time.monotonic()
        for _ in range(5):
            assert len(server.get("/v1/stats").expect(200).json["samples"]) == 60
        assert time.monotonic() - began < 10


# ---- metrics ----

def metrics_of(server):
    text = server.get("/metrics").expect(200)
    assert text.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return text.body.decode()


def values(text):
    """By name and labels; every line is well formed and every series has a type."""
    found, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram")
            types[name] = kind
        elif not line.startswith("#"):
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (-?[0-9.e+]+)', line)
            assert match, line
            base = re.sub("_(bucket|sum|count)$", "", match[1])
            assert base in types or match[1] in types, line
            key = match[1] + (match[2] or "")
            assert key not in found, line
            found[key] = float(match[4])
    return found


def test_metrics(server):
    before = values(metrics_of(server))
    server.run("print(1)")
    server.run("raise SystemExit(3)")
    server.get("/v1/sessions/none")
    server.get("/nowhere")
    after = {}

    def grown(key):
        return after.get(key, 0) - before.get(key, 0)

    def counted():  # a request is counted a moment after it was answered
        after.clear()
        after.update(values(metrics_of(server)))
        return grown('glovebox_requests_total{method="",route="",status="4xx"}') and \
            grown('glovebox_requests_total{method="GET",route="/v1/sessions/{session}",status="4xx"}') and \
            grown('glovebox_requests_total{method="POST",route="/v1/runs",status="2xx"}') == 2

    assert wait_until(counted), after

    assert grown('glovebox_runs_total{verdict="ok"}') == 1 and grown('glovebox_runs_total{verdict="error"}') == 1
    assert grown("glovebox_run_duration_seconds_count") == 2 and grown("glovebox_run_duration_seconds_sum") > 0
    assert grown('glovebox_requests_total{method="POST",route="/v1/runs",status="2xx"}') == 2
    assert grown('glovebox_requests_total{method="GET",route="/v1/sessions/{session}",status="4xx"}') == 1
    assert grown('glovebox_requests_total{method="",route="",status="4xx"}') == 1
    assert grown('glovebox_request_duration_seconds_bucket{method="POST",route="/v1/runs",le="+Inf"}') == 2
    assert grown("glovebox_received_bytes_total") > 0 and grown("glovebox_sent_bytes_total") > 0
    assert after["glovebox_journal_bytes"] > 0 and after["glovebox_journal_runs"] >= 2
    assert after["glovebox_sessions"] == 0 and after["glovebox_runs"] == 0 and after["glovebox_ready"] == 1
    assert after["glovebox_worker_threads"] >= after["glovebox_worker_threads_busy"] >= 1
    assert after["glovebox_connections"] >= 1 and after["process_open_fds"] > 5
    buckets = [v for k, v in after.items() if k.startswith("glovebox_run_duration_seconds_bucket")]
    assert buckets == sorted(buckets)


def test_metrics_tell_nobody(server, session):
    """No id, no tenant, no path of the host."""
    run = server.run("print(1)", session)["id"]
    text = metrics_of(server)
    for secret in (session, run, "local", str(server.directory), "/tmp"):
        assert secret not in text


# ---- about ----

def test_about(server):
    info = server.get("/v1/info").expect(200).json
    assert (info["api"], info["backend"], info["tenant"]) == ("v1", "native", "local") and set(info["quota"]) == set(info["used"])
    policies = server.get("/v1/policies").expect(200).json
    assert {"untrusted", "standard", "trusted"} <= {p["trust"] for p in policies["policies"]} and policies["default"] == "standard"
    assert {l["name"]: l["contexts"] for l in server.get("/v1/languages").expect(200).json["languages"]}["python"] is True
    template = next(t for t in server.get("/v1/templates").expect(200).json["templates"] if t["name"] == "python")
    assert "json" in template["modules"]
    doctor = server.get("/v1/doctor").expect(200).json
    assert len(doctor["controls"]) == 18 and doctor["enforceable"] is True and doctor["reason"] is None
    assert server.get("/healthz").json == {"status": "ok"} and server.get("/readyz").json == {"status": "ready"}
    for path in ("/v1/info", "/v1/policies", "/v1/templates", "/v1/languages", "/v1/doctor", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert server.get(path + "?x=1").expect(400).code == "usage"


def test_policies_of_a_file(binary):
    """What the file has, and nothing else."""
    with Server(policy="trust_levels: {}\nmem_limit: 64m\n") as server:
        assert server.get("/v1/doctor").expect(200).json["policy"] == "standard"
        only = server.get("/v1/policies").expect(200).json["policies"]
        assert [p["trust"] for p in only] == ["standard"] and only[0]["limits"]["memory_bytes"] == 64 << 20
