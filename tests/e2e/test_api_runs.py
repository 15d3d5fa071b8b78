# SPDX-License-Identifier: Apache-2.0
"""POST /v1/runs, and what can be asked of a run."""
import base64
import hashlib
import json
import os
import re
import threading
import time

import pytest
from server import NDJSON, Server, server, wait_for


def kind(run):
    return run["result"]["verdict"]["kind"]


def control(run, name):
    return next(c for c in run["result"]["controls"] if c["name"] == name)


def test_the_run_object(server):
    code = "print(6 * 7)"
    answer = server.post("/v1/runs", {"code": code}).expect(200)
    run = answer.json
    assert answer.headers["Glovebox-Run"] == run["id"] and re.fullmatch("[0-9a-f]{32}", run["id"])
    assert (run["session"], run["context"], run["language"], run["state"]) == (None, None, "python", "ended")
    assert run["code_sha256"] == hashlib.sha256(code.encode()).hexdigest() and run["policy"] == {"trust": "standard"}
    assert run["created_at"] <= run["started_at"] <= run["ended_at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", run["created_at"])
    result = run["result"]
    assert (result["id"], result["stdout"], result["stderr"], result["exit_code"]) == (run["id"], "42\n", "", 0)
    assert kind(run) == "ok" and "session" not in result
    # The same again, put together from the journal.
    assert server.get(f"/v1/runs/{run['id']}").expect(200).json == run
    assert server.get("/v1/runs").expect(200).json["runs"][0] == {k: v for k, v in run.items() if k != "result"}


def test_a_template_or_none(server):
    code = "import os, sys; print(os.path.basename(sys.argv[0]), sys.argv[1:])"
    warm, cold = server.run(code), server.run(code, template=None)
    assert control(warm, "layout")["state"] == "weaker" and control(cold, "layout")["state"] == "enforced"
    assert warm["result"]["stdout"] == cold["result"]["stdout"]
    assert control(server.run("1", policy={"warm": False}), "layout")["state"] == "enforced"
    answer = server.post("/v1/runs", {"code": "1", "template": "pithon"}).expect(400)
    assert answer.code == "usage" and answer.error["details"] == {"field": "template"} and "python" in answer.error["message"]


@pytest.mark.parametrize("language, code", [("sh", "echo hi; exit 3"), ("bash", "echo hi; exit 3"), ("py", "print('hi'); raise SystemExit(3)")])
def test_languages(server, language, code):
    run = server.run(code, language=language)
    assert (run["result"]["stdout"], run["result"]["exit_code"], kind(run)) == ("hi\n", 3, "error")
    assert run["language"] == {"py": "python"}.get(language, language)


def test_an_unknown_language_is_refused(server):
    answer = server.post("/v1/runs", {"code": "1", "language": "pyton"}).expect(400)
    assert answer.code == "usage" and answer.error["details"] == {"field": "language"}


def test_output_is_exact(server):
    raw = bytes(range(256)) * 300 + "ä€😀".encode() * 1000
    run = server.run(f"import sys; sys.stdout.buffer.write(bytes(range(256)) * 300 + 'ä€😀'.encode() * 1000); sys.stderr.write('ä' * 70000)")
    result = run["result"]
    assert base64.b64decode(result["stdout_base64"]) == raw and result["stderr"] == "ä" * 70000 and "stderr_base64" not in result
    assert server.get(f"/v1/runs/{run['id']}").json == run
    text = server.run("print('ä' * 100000, end='')")
    assert text["result"]["stdout"] == "ä" * 100000 and "stdout_base64" not in text["result"]


def test_output_over_its_limit(server):
    run = server.run("while True: print('x' * 1000)", policy={"output_limit": "64k"})
    assert kind(run) == "output" and run["result"]["truncated"] and len(run["result"]["stdout"]) == 65536
    assert server.get(f"/v1/runs/{run['id']}").json == run


def test_name_args_and_stdin(server):
    code = "import sys; print(sys.argv, sys.stdin.read())"
    run = server.run(code, name="mine.py", args=["a b", "", "ü"], stdin="in ä")
    assert run["result"]["stdout"].endswith("mine.py', 'a b', '', 'ü'] in ä\n")
    raw = server.run("import sys; print(sys.stdin.buffer.read())", stdin={"base64": base64.b64encode(b"\0\xff\n").decode()})
    assert raw["result"]["stdout"] == "b'\\x00\\xff\\n'\n"
    assert server.run("import sys; print(len(sys.stdin.read()))", stdin="x" * 3000000)["result"]["stdout"] == "3000000\n"
    assert server.run("print(repr(input()))")["result"]["stderr"].rstrip().endswith("EOFError: EOF when reading a line")


def test_files_are_there_before_the_code(server):
    files = {"a.txt": "text ä", "deep/er/b.bin": {"base64": base64.b64encode(b"\0\1").decode()}, "helper.py": "x = 5", "/sandbox/c": ""}
    run = server.run("import helper; print(helper.x, open('a.txt').read(), open('deep/er/b.bin', 'rb').read(), open('c').read())", files=files)
    assert run["result"]["stdout"] == "5 text ä b'\\x00\\x01' \n"
    for path in ("../a", "a/../../b", "", "/etc/passwd", "."):
        answer = server.post("/v1/runs", {"code": "1", "files": {path: "x"}}).expect(400)
        assert answer.code == "usage" and answer.error["details"] == {"field": "files"}, path
    server.post("/v1/runs", {"code": "1", "files": {"a": {"base64": "!!"}}}).expect(400)
    server.post("/v1/runs", {"code": "1", "files": {"a": {"base64": "AA==", "more": 1}}}).expect(400)
    server.post("/v1/runs", {"code": "1", "files": {"a": 5}}).expect(400)


def test_files_that_do_not_fit(server):
    answer = server.post("/v1/runs", {"code": "1", "files": {"a": "x" * 300000}, "policy": {"disk_limit": "128k"}})
    assert (answer.status, answer.code) == (507, "disk_full"), answer.explain()
    # Nothing was run, and that is what the journal says.
    run = server.get(f"/v1/runs/{answer.headers['Glovebox-Run']}").expect(200).json
    assert run["state"] == "ended" and run["started_at"] is None and run["result"]["error"]["code"] == "disk_full"
    page = server.get(f"/v1/runs/{run['id']}/events").expect(200).json
    assert [e["event"] for e in page["events"]] == ["error"] and page["ended"] and page["events"][0]["error"]["code"] == "disk_full"


def test_policy(server):
    run = server.run("x = bytearray(300 << 20)", policy={"mem_limit": "64m"})
    assert run["result"]["limits"]["memory_bytes"] == 64 << 20 and kind(run) in ("memory", "error")
    run = server.run("import os; print(os.environ['A'], os.environ['B'])", policy={"env": {"A": "1=2", "B": "ä b"}, "pids_limit": 16})
    assert run["result"]["stdout"] == "1=2 ä b\n" and run["result"]["limits"]["pids"] == 16
    assert server.run("1", policy={"trust": "untrusted"})["policy"] == {"trust": "untrusted"}
    assert server.run("1", policy={"cpu_count": 0.5, "timeout": 1.5})["result"]["limits"]["cpu_milli"] == 500
    answer = server.post("/v1/runs", {"code": "1", "policy": {"trust": "untrustd"}}).expect(400)
    assert answer.error["details"] == {"field": "policy.trust"} and "untrusted" in answer.error["message"]


@pytest.mark.waits
def test_the_timeout_of_a_run(server):
    begin = time.monotonic()
    run = server.run("while True: pass", timeout=0.3)
    assert kind(run) == "timeout" and time.monotonic() - begin < 20
    assert run["result"]["limits"]["timeout_usec"] == 300000 and run["result"]["verdict"]["limit"] == 300000
    assert kind(server.run("while True: pass", timeout="300ms", template=None)) == "timeout"
    # It may be longer than the policy's own, up to its maximum.
    policy = {"timeout": "500ms"}
    for template in ("python", None):
        longer = server.run("import time; time.sleep(1)", timeout=20, policy=policy, template=template)
        assert kind(longer) == "ok", longer["result"]["verdict"]
        assert kind(server.run("import time; time.sleep(20)", policy=policy, template=template)) == "timeout"
    answer = server.post("/v1/runs", {"code": "1", "timeout": 301}).expect(400)
    assert answer.code == "limit" and answer.error["details"] == {"field": "timeout"}


def test_detached(server):
    answer = server.post("/v1/runs", {"code": "import time; time.sleep(0.5); print('late')", "detach": True}).expect(202)
    run = answer.json
    assert run["state"] in ("queued", "running") and run["result"] is None and answer.headers["Glovebox-Run"] == run["id"]
    assert server.wait_run(run["id"])["result"]["stdout"] == "late\n"


def test_cancel(server):
    code = "import time\ntry:\n    print('on', flush=True); time.sleep(60)\nexcept KeyboardInterrupt:\n    print('stopped')"
    run = server.post("/v1/runs", {"code": code, "detach": True}).expect(202).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    assert server.post(f"/v1/runs/{run}/cancel").expect(202).json["id"] == run
    ended = server.wait_run(run)
    assert kind(ended) == "cancelled" and ended["result"]["stdout"] == "on\nstopped\n"
    # Once more is well.
    assert server.post(f"/v1/runs/{run}/cancel").expect(202).json == ended


@pytest.mark.parametrize("bodies", [[{"kill": True}], [{}, {}]], ids=["kill", "twice"])
def test_cancel_what_does_not_listen(server, bodies):
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on', flush=True)\nwhile True: time.sleep(1)"
    run = server.post("/v1/runs", {"code": code, "detach": True}).expect(202).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    for body in bodies:
        server.post(f"/v1/runs/{run}/cancel", body).expect(202)
    ended = server.wait_run(run)
    assert kind(ended) == "cancelled" and ended["result"]["stdout"] == "on\n"


def test_cancel_at_once(server):
    run = server.post("/v1/runs", {"code": "import time; time.sleep(60)", "detach": True}).expect(202).json["id"]
    server.post(f"/v1/runs/{run}/cancel").expect(202)
    assert kind(server.wait_run(run)) == "cancelled"


def test_interactive(server):
    code = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('end')"
    for template in ("python", None):
        run = server.post("/v1/runs", {"code": code, "interactive": True, "detach": True, "template": template}).expect(202).json["id"]
        assert server.post(f"/v1/runs/{run}/stdin", body=b"one\n").expect(200).json == {"accepted": 4}
        wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
        assert server.post(f"/v1/runs/{run}/stdin?close=true", body=b"two\n").expect(200).json == {"accepted": 4}
        ended = server.wait_run(run)
        assert ended["result"]["stdout"] == "got one\ngot two\nend\n" and kind(ended) == "ok"
        assert server.post(f"/v1/runs/{run}/stdin", body=b"x").expect(409).code == "conflict"
    plain = server.post("/v1/runs", {"code": "import time; time.sleep(0.5)", "detach": True}).expect(202).json["id"]
    assert server.post(f"/v1/runs/{plain}/stdin", body=b"x").expect(409).code == "conflict"
    answer = server.post("/v1/runs", {"code": "1", "interactive": True, "stdin": "x"}).expect(400)
    assert answer.error["details"] == {"field": "stdin"}


def test_interactive_input_larger_than_any_buffer(server):
    run = server.post("/v1/runs", {"code": "import sys; print(len(sys.stdin.buffer.read()))", "interactive": True, "detach": True}).expect(202).json["id"]
    assert server.post(f"/v1/runs/{run}/stdin?close=true", body=b"x" * 3000000).expect(200).json == {"accepted": 3000000}
    assert server.wait_run(run)["result"]["stdout"] == "3000000\n"


def begin_and_leave(server, fields, accept):
    """A client that waits for a run, and goes away when it runs: the run."""
    known = {r["id"] for r in server.get("/v1/runs?limit=1000").json["runs"]}
    connection = server.connection()
    connection.request("POST", "/v1/runs", json.dumps(fields), {"Content-Type": "application/json", "Accept": accept})

    def find():
        new = [r for r in server.get("/v1/runs?limit=1000").json["runs"] if r["id"] not in known and r["state"] == "running"]
        return new[0]["id"] if new else None

    run = wait_for(find)
    connection.close()
    return run


@pytest.mark.parametrize("accept", ["application/json", NDJSON])
def test_a_client_that_goes_away(server, accept):
    code = "import time; time.sleep(1); print('done')"
    run = begin_and_leave(server, {"code": code}, accept)
    assert server.wait_run(run)["result"]["stdout"] == "done\n"
    begin = time.monotonic()
    run = begin_and_leave(server, {"code": "import time; time.sleep(50)", "on_disconnect": "cancel", "timeout": 60}, accept)
    assert kind(server.wait_run(run)) == "cancelled" and time.monotonic() - begin < 40


def test_lists(server):
    ids = [server.run("1")["id"] for _ in range(5)]
    first = server.get("/v1/runs?limit=2").json
    second = server.get(f"/v1/runs?limit=2&cursor={first['next']}").json
    assert [r["id"] for r in first["runs"] + second["runs"]] == ids[::-1][:4] and all("result" not in r for r in first["runs"])
    everything, cursor = [], ""
    while cursor is not None:
        page = server.get(f"/v1/runs?limit=3{cursor}").json
        everything += [r["id"] for r in page["runs"]]
        cursor = f"&cursor={page['next']}" if page["next"] else None
    assert len(everything) == len(set(everything)) and everything[:5] == ids[::-1]
    going = server.post("/v1/runs", {"code": "import time; time.sleep(60)", "detach": True}).json["id"]
    server.wait_run(going, "running")
    assert [r["id"] for r in server.get("/v1/runs?state=running").json["runs"]] == [going]
    assert going not in [r["id"] for r in server.get("/v1/runs?state=ended&limit=1000").json["runs"]]
    server.post(f"/v1/runs/{going}/cancel", {"kill": True}).expect(202)
    server.wait_run(going)
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=x", "state=gone", "what=1", "limit=1&limit=2"):
        assert server.get(f"/v1/runs?{query}").expect(400).code == "usage", query


def test_what_is_not_there(server):
    none = "0" * 32
    for method, path in (("GET", f"/v1/runs/{none}"), ("GET", f"/v1/runs/{none}/events"), ("POST", f"/v1/runs/{none}/cancel"),
                         ("GET", "/v1/runs/x"), ("POST", "/v1/runs/%00")):
        answer = server.request(method, path, {} if method == "POST" else None)
        assert answer.status in (404, 400, 405), (path, answer.explain())
    assert server.post(f"/v1/runs/{none}/stdin", body=b"x").expect(404).code == "not_found"
    assert server.post(f"/v1/sessions/{none}/runs", {"code": "1"}).expect(404).code == "not_found"


def test_hosts_directories_for_local_callers(server, scratch):
    (scratch / "in").mkdir()
    (scratch / "in/f").write_text("host")
    for path in (scratch / "in", scratch / "in/f"):
        os.chown(path, server.uid, server.uid)
    run = server.run("print(open('f').read()); open('g', 'w').write('from the box')", workspace={"path": str(scratch / "in")})
    assert run["result"]["stdout"] == "host\n" and (scratch / "in/g").read_text() == "from the box", run["result"]
    run = server.run("print(open('/data/f').read())", policy={"mounts": [f"{scratch}/in:/data"]})
    assert run["result"]["stdout"] == "host\n", run["result"]
    assert server.post("/v1/runs", {"code": "1", "workspace": {"path": "relative"}}).expect(400).error["details"] == {"field": "workspace"}
    assert server.post("/v1/runs", {"code": "1", "policy": {"mounts": ["a:/b"]}}).expect(400).error["details"] == {"field": "policy.mounts"}
    gone = server.post("/v1/runs", {"code": "1", "workspace": {"path": f"{scratch}/none"}})
    assert 400 <= gone.status < 600 and gone.error["message"], gone.explain()


def test_what_is_only_for_local_callers():
    with Server(tcp=True) as server:
        token = server.token("t1", "run")
        run = server.post("/v1/runs", {"code": "print(1)"}, token=token).expect(200).json
        assert run["result"]["stdout"] == "1\n"
        for fields in ({"policy": {"mounts": ["/etc:/data"]}}, {"policy": {"allow_weaker": ["cgroup"]}}, {"policy": {"network_mode": "host"}},
                       {"policy": {"read_only": False}}, {"policy": {"rootfs": "/"}}, {"workspace": {"path": "/tmp"}}):
            answer = server.post("/v1/runs", {"code": "1", **fields}, token=token)
            assert (answer.status, answer.code) == (403, "denied"), (fields, answer.explain())
        assert server.post("/v1/runs", {"code": "1", "policy": {"network_mode": "none", "read_only": True}}, token=token).status == 200
        # To another tenant nothing of it exists.
        other = server.token("t2", "run")
        assert server.get(f"/v1/runs/{run['id']}", token=other).expect(404).error["message"] == server.get(
            f"/v1/runs/{run['id']}").expect(404).error["message"]
        assert server.get("/v1/runs", token=other).json["runs"] == []


def test_a_killed_server_tells_what_it_does_not_know():
    server = Server()
    try:
        server.start()
        code = "import time; print('part', flush=True); time.sleep(60)"
        run = server.post("/v1/runs", {"code": code, "detach": True}).json["id"]
        session = server.session()
        inside = server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).json["id"]
        for each in (run, inside):
            wait_for(lambda: server.get(f"/v1/runs/{each}/events").json["next"] >= 2)
        done = server.run("print('whole')")
        server.kill()
        server.start()
        for each in (run, inside):
            lost = server.get(f"/v1/runs/{each}").expect(200).json
            assert (lost["state"], kind(lost), lost["result"]["stdout"]) == ("ended", "lost", "part\n"), lost
            with server.get(f"/v1/runs/{each}/events", stream=True) as stream:
                events = list(stream)
            assert [e["event"] for e in events] == ["started", "stdout", "verdict"] and events[-1]["verdict"]["kind"] == "lost"
        assert server.get(f"/v1/runs/{done['id']}").json == done
        assert server.get(f"/v1/sessions/{session}").expect(404)
        assert server.get("/v1/sessions").json["sessions"] == [] and server.used()["runs"] == 0
    finally:
        server.close()


def test_an_orderly_end():
    """Runs may end; after the time for that they are interrupted, and told so."""
    server = Server(drain="500ms")
    try:
        server.start()
        quick = server.post("/v1/runs", {"code": "import time; time.sleep(0.2); print('ok')", "detach": True}).json["id"]
        code = "import time\ntry:\n    print('on', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: print('stopped')"
        slow = server.post("/v1/runs", {"code": code, "detach": True}).json["id"]
        wait_for(lambda: server.get(f"/v1/runs/{slow}/events").json["next"] >= 2)
        session = server.session()
        answers = []

        def wait_here():
            answers.append(server.post("/v1/runs", {"code": code}))

        wait_for(lambda: server.used()["runs"] == 1)  # the quick one has ended
        waiter = threading.Thread(target=wait_here)
        waiter.start()
        wait_for(lambda: server.used()["runs"] >= 2)
        assert server.stop() == 0, server.output()
        waiter.join()
        server.start()
        assert server.get(f"/v1/runs/{quick}").json["result"]["verdict"]["kind"] in ("ok", "cancelled")
        ended = server.get(f"/v1/runs/{slow}").json
        assert kind(ended) == "cancelled" and ended["result"]["stdout"] == "on\nstopped\n", ended
        assert answers[0].status == 200 and kind(answers[0].json) == "cancelled", answers[0].explain()
        server.get(f"/v1/sessions/{session}").expect(404)
    finally:
        server.close()
