# SPDX-License-Identifier: Apache-2.0
"""What is too much is refused, at once and by name: fields, quotas, the host's memory."""
import json
import os
import subprocess

import pytest
from server import Server, in_threads, server, wait_for

NOTHING = {"sessions": 0, "runs": 0, "memory_bytes": 0}


def refused(server, fields, field, path="/v1/runs", codes=("usage", "limit", "policy")):
    answer = server.post(path, {"code": "1", **fields} if path == "/v1/runs" else fields)
    assert answer.status == 400 and answer.code in codes, (fields, answer.explain())
    assert answer.error["details"] == {"field": field} and field in answer.error["message"], (fields, answer.explain())
    assert answer.error["hint"]


@pytest.mark.parametrize("value", [0, -1, 1e308, -0.0001, "5", "", "0s", "-1s", "NaN", "1e3", "1 s", None, True, [], {}, "99999h", 1 << 62])
def test_100_timeouts(server, value):
    refused(server, {"timeout": value}, "timeout")
    refused(server, {"policy": {"timeout": value}}, "policy.timeout")
    refused(server, {"idle_timeout": value}, "idle_timeout", "/v1/sessions")


def test_100_what_is_no_json_at_all(server):
    for text in ('{"code": "1", "timeout": NaN}', '{"code": "1", "timeout": Infinity}', '{"code": "1", "timeout": 1e999}', '{"code": "1", "timeout": 05}'):
        answer = server.request("POST", "/v1/runs", body=text.encode(), headers={"Content-Type": "application/json"})
        assert answer.status == 400, (text, answer.explain())


def test_100_the_default_counts_when_it_is_absent(server):
    assert server.run("1")["result"]["limits"]["timeout_usec"] == 30000000


@pytest.mark.parametrize("key", ["mem_limit", "tmp_size", "disk_limit", "output_limit", "pids_limit", "inode_limit", "nofile", "cpu_count"])
@pytest.mark.parametrize("value", [(1 << 63) - 1, -1, 0, 1e308, "9999999999999999999999g", "-1", "", "1x", "0x10", None, True, [1], {"a": 1}, -0.5])
def test_191_limits(server, key, value):
    refused(server, {"policy": {key: value}}, f"policy.{key}")


def test_191_limits_that_no_number_of_json_is(server):
    for number in (1 << 63, 1 << 64, 10 ** 40):
        answer = server.post("/v1/runs", {"code": "1", "policy": {"mem_limit": number}})
        assert answer.status == 400, answer.explain()


def test_191_sizes_in_words(server):
    limits = server.run("1", policy={"mem_limit": "1g", "disk_limit": 5 << 20, "tmp_size": "64k"})["result"]["limits"]
    assert (limits["memory_bytes"], limits["disk_bytes"], limits["tmp_bytes"]) == (1 << 30, 5 << 20, 64 << 10)


def test_191_above_the_tenants_maximum():
    with Server(tenant_memory="1g") as server:
        answer = server.post("/v1/runs", {"code": "1", "policy": {"mem_limit": "2g"}}).expect(400)
        assert answer.code == "limit" and "1g" in answer.error["message"]
        server.post("/v1/sessions", {"policy": {"mem_limit": "2g"}}).expect(400)
        assert server.used() == NOTHING
        server.run("1", policy={"mem_limit": "64m"})


@pytest.mark.parametrize("field", ["HostConfig", "Binds", "privileged", "seccomp", "runtime", "image", "user", "cap_add", "Code", "code ", "__proto__", "ä", "x" * 300])
def test_193_unknown_fields(server, field):
    for path, base in (("/v1/runs", {"code": "1"}), ("/v1/sessions", {})):
        answer = server.post(path, {**base, field: 1}).expect(400)
        named = answer.error["details"]["field"]
        assert answer.code == "usage" and "unknown field" in answer.error["message"] and field.startswith(named) and named
        answer = server.post(path, {**base, "policy": {field: 1}}).expect(400)
        wrong = "text is wanted" if field in ("runtime", "image") else "unknown field"  # these a policy has
        assert wrong in answer.error["message"] and answer.error["details"]["field"].startswith("policy.")


def test_193_keys_that_come_twice(server):
    for text in ('{"code": "1", "code": "2"}', '{"code": "1", "policy": {"timeout": 1, "timeout": 2}}'):
        answer = server.request("POST", "/v1/runs", body=text.encode(), headers={"Content-Type": "application/json"})
        assert answer.status == 400, answer.explain()


def test_wrong_types(server):
    for fields, field in (({"code": 1}, "code"), ({"code": None}, "code"), ({"language": 1}, "language"), ({"args": "a"}, "args"), ({"args": [1]}, "args"),
                          ({"stdin": 1}, "stdin"), ({"stdin": {"base64": 1}}, "stdin"), ({"detach": "yes"}, "detach"), ({"interactive": 1}, "interactive"),
                          ({"on_disconnect": "kill"}, "on_disconnect"), ({"files": []}, "files"), ({"policy": []}, "policy"), ({"template": 1}, "template"),
                          ({"name": "a/b"}, "name"), ({"name": ".."}, "name"), ({"name": ""}, "name"), ({"name": "x" * 256}, "name"), ({"policy": {"env": []}}, "policy.env"),
                          ({"policy": {"env": {"A=B": "x"}}}, "policy.env"), ({"policy": {"env": {"1": "x"}}}, "policy.env"), ({"policy": {"env": {"A": 1}}}, "policy.env"),
                          ({"policy": {"warm": "true"}}, "policy.warm"), ({"policy": {"network_mode": "bridge"}}, "policy.network_mode"),
                          ({"policy": {"timeout_max": 5}}, "policy.timeout_max"), ({"policy": {"trust": 1}}, "policy.trust"), ({"context": None}, "context"),
                          ({"args": ["x"] * 1025}, "args"), ({"args": ["x" * 300000]}, "args"), ({"policy": {"output_limit": "65m"}}, "policy.output_limit")):
        refused(server, fields, field)
    answer = server.post("/v1/runs", {}).expect(400)
    assert answer.error["details"] == {"field": "code"}
    for fields in ({"template": "python"}, {"policy": {}}, {"files": {}}, {"workspace": "private"}):
        session = server.session()
        answer = server.post(f"/v1/sessions/{session}/runs", {"code": "1", **fields}).expect(400)
        assert answer.error["details"] == {"field": next(iter(fields))}
        server.delete(f"/v1/sessions/{session}")


def test_nothing_refused_was_begun(server):
    before = len(server.get("/v1/runs?limit=1000").json["runs"])
    server.post("/v1/runs", {"code": "1", "timeout": -1}).expect(400)
    server.post("/v1/runs", {"code": "1", "template": "none"}).expect(400)
    assert len(server.get("/v1/runs?limit=1000").json["runs"]) == before and server.used() == NOTHING


def test_code_as_large_as_it_may_be(server):
    run = server.run("#" + "x" * ((16 << 20) - 8) + "\n1")
    assert run["result"]["verdict"]["kind"] == "ok"
    answer = server.post("/v1/runs", {"code": "#" * ((16 << 20) + 1)}).expect(400)
    assert answer.code == "limit" and answer.error["details"] == {"field": "code"}


# ---- quotas ----

def test_sessions_of_a_tenant():
    with Server(tenant_sessions=3, sessions=5) as server:
        ids = [server.session() for _ in range(3)]
        answer = server.post("/v1/sessions", {}).expect(429)
        assert answer.code == "quota" and int(answer.headers["Retry-After"]) > 0
        assert server.post("/v1/runs", {"code": "1"}).expect(429).code == "quota"  # its box is one, too
        assert server.run("1", ids[0])["result"]["verdict"]["kind"] == "ok"
        server.delete(f"/v1/sessions/{ids[0]}").expect(204)
        server.run("1")
        assert server.used()["sessions"] == 2


def test_sessions_of_all():
    with Server(tcp=True, tenant_sessions=3, sessions=4) as server:
        tokens = [server.token(f"t{i}", "run") for i in range(2)]
        for _ in range(3):
            server.post("/v1/sessions", {}, token=tokens[0]).expect(201)
        server.post("/v1/sessions", {}, token=tokens[1]).expect(201)
        answer = server.post("/v1/sessions", {}, token=tokens[1]).expect(503)
        assert answer.code == "unavailable" and int(answer.headers["Retry-After"]) > 0
        assert server.post("/v1/sessions", {}, token=tokens[0]).expect(429).code == "quota"
        used = [server.get("/v1/info", token=t).json["used"]["sessions"] for t in tokens]
        assert used == [3, 1] and server.used()["sessions"] == 0


def test_runs():
    with Server(tenant_runs=2, runs=10) as server:
        body = {"code": "input()", "interactive": True, "detach": True}
        runs = [server.post("/v1/runs", body).expect(202).json["id"] for _ in range(2)]
        answer = server.post("/v1/runs", {"code": "1"}).expect(429)
        assert answer.code == "quota" and int(answer.headers["Retry-After"]) > 0
        session = server.session()
        assert server.post(f"/v1/sessions/{session}/runs", {"code": "1"}).expect(429).code == "quota"
        assert server.get(f"/v1/sessions/{session}").json["runs"] == {"active": 0, "total": 0}
        for run in runs:
            server.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
            server.wait_run(run)
        wait_for(lambda: server.used()["runs"] == 0)
        server.run("1", session)


def test_88_memory():
    """As many boxes as the sum of their limits allows; one more is refused, and nothing else suffers."""
    each = (32 << 20) + (1 << 20)  # the box, and its private workspace
    with Server(tenant_memory=200 * each, memory=200 * each, free_memory="64m", idle_timeout="1h") as server:
        policy = {"mem_limit": "32m", "disk_limit": "1m"}
        ids = []
        for part in range(10):
            ids += in_threads([lambda: server.post("/v1/sessions", {"policy": policy}).expect(201).json["id"]] * 20)
        assert server.used() == {"sessions": 200, "runs": 0, "memory_bytes": 200 * each}
        answer = server.post("/v1/sessions", {"policy": policy})
        assert (answer.status, answer.code) == (429, "quota") and int(answer.headers["Retry-After"]) > 0
        assert server.post("/v1/runs", {"code": "1", "policy": policy}).status == 429
        assert server.run("1 + 1", ids[100])["result"]["verdict"]["kind"] == "ok"
        in_threads([lambda part=part: [server.delete(f"/v1/sessions/{i}").expect(204) for i in ids[part::8]] for part in range(8)])
        assert server.used() == NOTHING


def test_the_hosts_memory():
    with Server(free_memory="1t") as server:
        for path, body in (("/v1/runs", {"code": "1"}), ("/v1/sessions", {})):
            answer = server.post(path, body).expect(503)
            assert answer.code == "unavailable" and int(answer.headers["Retry-After"]) > 0 and "memory" in answer.error["message"]
        assert server.used() == NOTHING


def test_counters_are_exact_whatever_happens():
    """All kinds of ends, from many threads; then nothing is counted."""
    with Server(tenant_runs=6, tenant_sessions=8, tenant_memory="8g") as server:
        bodies = [{"code": "1"}, {"code": "1 /"}, {"code": "1", "timeout": -1}, {"code": "x" * 100, "language": "sh"}, {"code": "1", "files": {"a": "x" * 300000}, "policy": {
            "disk_limit": "128k"}}, {"code": "1", "template": "none"}, {"code": "while True: pass", "timeout": 0.1}, {"code": "1", "detach": True},
            {"code": "1", "policy": {"mounts": ["/does/not/exist:/x"]}}]

        def work(n):
            statuses = []
            for i in range(14):
                body = bodies[(n + i) % len(bodies)]
                statuses.append(server.post("/v1/runs", body).status)
                answer = server.post("/v1/sessions", {"policy": {"mem_limit": "32m"}} if i % 3 else {"policy": {"mounts": ["/does/not/exist:/x"]}})
                statuses.append(answer.status)
                if answer.status == 201:
                    statuses.append(server.post(f"/v1/sessions/{answer.json['id']}/runs", {"code": "1", "context": None if i % 2 else "77"}).status)
                    assert server.delete(f"/v1/sessions/{answer.json['id']}").status == 204
            return statuses

        seen = set(sum(in_threads([lambda n=n: work(n) for n in range(10)]), []))
        assert 429 in seen and 200 in seen and 201 in seen and not {s for s in seen if s in (500, 502)}, seen
        wait_for(lambda: server.used() == NOTHING)
        assert server.get("/v1/runs?state=running").json["runs"] == [] and server.get("/v1/runs?state=queued").json["runs"] == []


def test_the_error_has_one_shape(server):
    for answer in (server.post("/v1/runs", {"code": "1", "timeout": 0}), server.get("/v1/runs/x"), server.post("/v1/runs", {"cod": 1})):
        assert set(answer.json) == {"error"} and set(answer.error) == {"code", "message", "hint", "details"}, answer.explain()
        assert json.loads(answer.body) == answer.json


# ---- a journal that is full ----

def test_output_that_the_journal_cannot_keep():
    """A run that writes more than the journal may have is ended, and said to be lost; everybody else goes on."""
    with Server(journal_size="4m") as server:
        before = server.run("print('before')")
        answer = server.post("/v1/runs", {"code": "while True: print('x' * 10000)", "policy": {"output_limit": "48m"}, "timeout": 60})
        assert answer.status == 200, answer.explain()
        run = answer.json
        assert run["result"]["verdict"]["kind"] == "lost" and "could not be kept" in run["result"]["verdict"]["message"]
        later = server.get(f"/v1/runs/{run['id']}")  # the journal may have made room meanwhile
        assert later.status == 404 or later.json["result"]["verdict"] == run["result"]["verdict"]
        assert server.run("print('after')")["result"]["stdout"] == "after\n"
        assert before["id"] and server.used() == NOTHING


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own for the state needs root")
def test_a_full_disk():
    server = Server(warm=["python"])
    server.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=0755", "none", str(server.state)], check=True)
    try:
        server.start()
        server.run("print(1)")
        going = server.post("/v1/runs", {"code": "input(); print('x' * 100000)", "interactive": True, "detach": True}).expect(202).json["id"]
        server.wait_run(going, "running")
        with open(server.state / "fill", "wb") as fill:
            try:
                while True:
                    fill.write(b"x" * 65536)
                    fill.flush()
            except OSError:
                pass
        # What cannot be written down is not begun, and what goes on does not end as if nothing were.
        answers = [server.post("/v1/runs", {"code": "print('y' * 200000)"}) for _ in range(3)]
        for answer in answers:
            assert (answer.status, answer.json.get("error", {}).get("code")) in ((507, "disk_full"), (200, None)), answer.explain()
            assert answer.status != 200 or answer.json["result"]["verdict"]["kind"] == "lost", answer.explain()
        server.post(f"/v1/runs/{going}/stdin?close=true", body=b"\n").expect(200)
        wait_for(lambda: server.used()["runs"] == 0)
        state = server.get(f"/v1/runs/{going}").expect(200).json
        assert state["state"] != "ended" or state["result"]["verdict"]["kind"] in ("lost", "ok")
        assert state["state"] != "ended" or state["result"]["verdict"]["kind"] == "lost" or len(state["result"]["stdout"]) == 100001
        (server.state / "fill").unlink()
        ended = server.wait_run(going)
        assert ended["result"]["verdict"]["kind"] == "lost" or ended["result"]["stdout"] == "x" * 100000 + "\n", ended["result"]["verdict"]
        assert server.run("print('again')")["result"]["stdout"] == "again\n"
        assert server.stop() == 0
    finally:
        if server.process:
            server.kill()
        subprocess.run(["umount", "-l", str(server.state)], check=False)
        server.close()
