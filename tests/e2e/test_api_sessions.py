# SPDX-License-Identifier: Apache-2.0
"""Sessions over the API: their life, from the first request to an end that is really one."""
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest
from conftest import wait_until
from server import BINARY, ROOT, Server, in_threads, server, wait_for


def kind(run):
    return run["result"]["verdict"]["kind"]


def test_the_session_object(server):
    answer = server.post("/v1/sessions", {"name": "mine ä", "metadata": {"a": "b"}, "idle_timeout": "2m", "max_lifetime": 600,
                                          "policy": {"mem_limit": "64m"}}).expect(201)
    session = answer.json
    assert answer.headers["Location"] == f"/v1/sessions/{session['id']}"
    assert (session["name"], session["metadata"], session["idle_timeout"], session["max_lifetime"]) == ("mine ä", {"a": "b"}, 120.0, 600.0)
    assert (session["state"], session["template"], session["warm"], session["backend"]) == ("ready", "python", True, "native")
    assert session["policy"]["trust"] == "standard" and session["policy"]["limits"]["memory_bytes"] == 64 << 20
    assert session["workspace"] == {"kind": "private"} and session["runs"] == {"active": 0, "total": 0} and len(session["controls"]) > 10
    assert session["created_at"] <= session["last_used_at"] < session["expires_at"]
    got = server.get(f"/v1/sessions/{session['id']}").expect(200).json
    assert {k: v for k, v in got.items() if k not in ("last_used_at", "expires_at")} == {
        k: v for k, v in session.items() if k not in ("last_used_at", "expires_at")}
    server.delete(f"/v1/sessions/{session['id']}").expect(204)


def test_without_a_body(server):
    session = server.request("POST", "/v1/sessions").expect(201).json
    assert session["name"] is None and session["metadata"] == {}
    server.delete(f"/v1/sessions/{session['id']}").expect(204)


def test_state_and_files_stay_from_run_to_run(server):
    session = server.session()
    server.run("x = 5; open('f', 'w').write('kept')", session)
    run = server.run("print(x, open('f').read()); x * 2", session)
    assert run["session"] == session == run["result"]["session"] and run["context"] == "1" == run["result"]["context"]
    assert run["result"]["stdout"] == "5 kept\n" and run["result"]["results"] == [{"main": True, "data": {"text/plain": "10"}}]
    assert run["result"]["state"] == {"kept": True, "restarted": False} and run["result"]["error"] is None
    failed = server.run("1 / 0", session)
    assert kind(failed) == "error" and failed["result"]["error"]["name"] == "ZeroDivisionError"
    for each in (run, failed):
        assert server.get(f"/v1/runs/{each['id']}").json == each
    assert server.get(f"/v1/sessions/{session}").json["runs"] == {"active": 0, "total": 3}
    assert [r["id"] for r in server.get(f"/v1/runs?session={session}").json["runs"]][:2] == [failed["id"], run["id"]]
    server.delete(f"/v1/sessions/{session}").expect(204)


def stay(server, session, **fields):
    """Starts something that stays; the word by which it is found."""
    marker = f"marker{os.urandom(8).hex()}"
    server.run(f"import subprocess; p = subprocess.Popen(['sh', '-c', 'sleep 1000; : {marker}'], start_new_session=True)", session, **fields)
    wait_for(lambda: server.find(marker))
    return marker


def test_delete(server):
    before = server.used()
    session = server.session()
    marker = stay(server, session)
    server.delete(f"/v1/sessions/{session}").expect(204)
    assert server.used() == before and not server.find(marker)
    for method, path in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/runs"), ("POST", "/contexts"), ("GET", "/contexts"),
                         ("DELETE", "/contexts/1"), ("POST", "/contexts/1/restart"), ("POST", "/contexts/1/interrupt")):
        body = {"code": "1"} if path == "/runs" else {} if method in ("POST", "PATCH") else None
        assert server.request(method, f"/v1/sessions/{session}{path}", body).expect(404).code == "not_found", (method, path)


def test_delete_cancels_what_runs(server):
    session = server.session()
    runs = [server.post(f"/v1/sessions/{session}/runs", {"code": code, "context": context, "detach": True}).expect(202).json["id"]
            for code, context in (("import time; print('on', flush=True); time.sleep(60)", None), ("print('on', flush=True)\nwhile True: pass", None))]
    for run in runs:
        wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    server.delete(f"/v1/sessions/{session}").expect(204)
    for run in runs:
        ended = server.get(f"/v1/runs/{run}").json
        assert ended["state"] == "ended" and kind(ended) == "cancelled" and ended["result"]["stdout"] == "on\n", ended


def test_patch(server):
    session = server.session(name="a", metadata={"k": "v"})
    path = f"/v1/sessions/{session}"
    changed = server.patch(path, {"name": "b", "metadata": {"x": "y"}, "idle_timeout": 30}).expect(200).json
    assert (changed["name"], changed["metadata"], changed["idle_timeout"]) == ("b", {"x": "y"}, 30.0)
    assert server.patch(path, {"max_lifetime": "10m"}).expect(200).json["max_lifetime"] == 600.0
    assert server.patch(path, {"name": None}).expect(200).json["name"] is None
    before = server.get(path).json
    for body, field in (({"idle_timeout": 0}, "idle_timeout"), ({"idle_timeout": -1}, "idle_timeout"), ({"idle_timeout": 1e308}, "idle_timeout"),
                        ({"max_lifetime": "9999h"}, "max_lifetime"), ({"name": "x" * 65}, "name"), ({"name": 5}, "name"), ({"metadata": {"a": 1}}, "metadata"),
                        ({"metadata": {str(i): "" for i in range(33)}}, "metadata"), ({"name": "good", "policy": {}}, "policy"), ({"idle_timeout": "5"}, "idle_timeout")):
        answer = server.patch(path, body)
        assert answer.status == 400 and answer.error["details"] == {"field": field}, (body, answer.explain())
    after = server.get(path).json
    assert {k: after[k] for k in ("name", "metadata", "idle_timeout", "max_lifetime")} == {
        k: before[k] for k in ("name", "metadata", "idle_timeout", "max_lifetime")}
    server.delete(path).expect(204)


def test_list_in_pages(server):
    ids = [server.session() for _ in range(7)]
    listed, cursor = [], ""
    while cursor is not None:
        page = server.get(f"/v1/sessions?limit=3{cursor}").expect(200).json
        assert len(page["sessions"]) <= 3
        listed += [s["id"] for s in page["sessions"]]
        cursor = f"&cursor={page['next']}" if page["next"] else None
    assert listed == ids
    # One that has ended between two pages is no reason to lose others.
    page = server.get("/v1/sessions?limit=3").json
    server.delete(f"/v1/sessions/{ids[2]}").expect(204)
    assert [s["id"] for s in server.get(f"/v1/sessions?limit=10&cursor={page['next']}").json["sessions"]] == ids[3:]
    for query in ("limit=0", "cursor=1", "cursor=-1-x", "cursor=x", "x=1"):
        assert server.get(f"/v1/sessions?{query}").expect(400).code == "usage", query
    for session in ids[:2] + ids[3:]:
        server.delete(f"/v1/sessions/{session}").expect(204)


def test_one_shot_runs_are_not_sessions(server):
    run = server.post("/v1/runs", {"code": "import time; time.sleep(60)", "detach": True}).json["id"]
    server.wait_run(run, "running")
    assert server.get("/v1/sessions").json["sessions"] == []
    server.post(f"/v1/runs/{run}/cancel", {"kill": True})
    server.wait_run(run)


def test_kept_workspaces(scratch):
    base = scratch / "kept"  # made by the server, for whom it becomes
    with Server(workspaces=str(base)) as server:
        session = server.post("/v1/sessions", {"workspace": "kept"}).expect(201).json
        path = pathlib.Path(session["workspace"]["path"])
        assert session["workspace"]["kind"] == "kept" and path.parent.parent == base
        assert kind(server.run("open('f', 'w').write('still here')", session["id"])) == "ok"
        server.delete(f"/v1/sessions/{session['id']}").expect(204)
        assert (path / "f").read_text() == "still here"
        again = server.session(workspace={"path": str(path)})
        assert server.run("open('f').read()", again)["result"]["results"][0]["data"]["text/plain"] == "'still here'"
        server.delete(f"/v1/sessions/{again}").expect(204)
    with Server() as server:
        answer = server.post("/v1/sessions", {"workspace": "kept"}).expect(400)
        assert answer.error["details"] == {"field": "workspace"}


# ---- time to live ----

@pytest.fixture(scope="module")
def short():
    with Server(idle_timeout="2s", max_lifetime="1h") as made:
        yield made


def is_gone(server, session):
    return server.get(f"/v1/sessions/{session}").status == 404


@pytest.mark.waits
def test_idle(short):
    session = short.session()
    begin = time.monotonic()
    marker = stay(short, session)
    busy = short.session()
    run = short.post(f"/v1/sessions/{busy}/runs", {"code": "import time; time.sleep(6); 'done'", "detach": True}).json["id"]
    wait_for(lambda: is_gone(short, session))
    assert time.monotonic() - begin >= 1.5  # not before its time; looking at it is no use of it
    wait_for(lambda: not short.find(marker))
    assert short.wait_run(run)["result"]["results"][0]["data"]["text/plain"] == "'done'"
    assert not is_gone(short, busy)
    wait_for(lambda: is_gone(short, busy))
    wait_for(lambda: short.used()["sessions"] == 0)


@pytest.mark.waits
def test_use_keeps_it(short):
    session = short.session()
    for _ in range(8):
        time.sleep(0.5)
        short.run("1", session)
    short.patch(f"/v1/sessions/{session}", {"idle_timeout": 60}).expect(200)
    time.sleep(3)
    assert not is_gone(short, session)
    short.delete(f"/v1/sessions/{session}").expect(204)


@pytest.mark.waits
def test_lifetime_ends_it_whatever_happens(short):
    session = short.session(max_lifetime=2, idle_timeout=60)
    run = short.post(f"/v1/sessions/{session}/runs", {"code": "print('on', flush=True)\nimport time; time.sleep(60)", "detach": True}).json["id"]
    ended = short.wait_run(run)
    assert kind(ended) == "cancelled" and is_gone(short, session)
    # From its creation: less than it has lived is now.
    session = short.session()
    time.sleep(1.1)
    short.patch(f"/v1/sessions/{session}", {"max_lifetime": 1}).expect(200)
    wait_for(lambda: is_gone(short, session))


# ---- boxes that die ----

def box_init(server, marker):
    """The host's number of the init of the box in which a process has this word in its command."""
    found = server.find(marker)
    if not found:
        return None
    space = os.readlink(f"/proc/{found[0]}/ns/pid")
    for pid in server.processes():
        try:
            numbers = next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:")).split()
            if numbers[-1] == "1" and os.readlink(f"/proc/{pid}/ns/pid") == space:
                return pid
        except (OSError, StopIteration):
            continue
    return None


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="who looks into other users' namespaces has to be root")


@needs_root
def test_a_box_that_died(server):
    session = server.session()
    marker = stay(server, session)
    run = server.post(f"/v1/sessions/{session}/runs", {"code": "print('on', flush=True)\nimport time; time.sleep(1000)", "detach": True}).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    os.kill(box_init(server, marker), signal.SIGKILL)
    ended = server.wait_run(run)
    # What the kernel said of the interpreter, when that was heard, is no guess.
    assert kind(ended) in ("lost", "error") and ended["result"]["stdout"] == "on\n" and not ended["result"]["state"]["kept"], ended["result"]
    wait_for(lambda: is_gone(server, session))
    assert session not in [s["id"] for s in server.get("/v1/sessions").json["sessions"]]
    wait_for(lambda: server.used()["sessions"] == 0)
    assert kind(server.run("1")) == "ok"


@needs_root
def test_a_box_that_died_while_nobody_looked(server):
    session = server.session()
    os.kill(box_init(server, stay(server, session)), signal.SIGKILL)
    wait_for(lambda: is_gone(server, session))
    wait_for(lambda: server.used()["sessions"] == 0)


@needs_root
def test_the_warden_is_killed(server):
    """Everything that it ran is lost, and told so; what comes next has a new one."""
    session = server.session()
    marker = stay(server, session)
    code = "print('on', flush=True)\nimport time; time.sleep(1000)"
    runs = [server.post(path, {"code": code, "detach": True}).json["id"] for path in (f"/v1/sessions/{session}/runs", "/v1/runs")]
    for run in runs:
        wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    warden = [pid for pid, command in server.processes().items() if command.startswith("[glovebox-warden]")][0]
    os.kill(warden, signal.SIGKILL)
    for run in runs:
        ended = server.wait_run(run)
        assert kind(ended) == "lost" and ended["result"]["stdout"] == "on\n", ended["result"]["verdict"]
    wait_for(lambda: is_gone(server, session))
    wait_for(lambda: not server.find(marker))
    wait_for(lambda: server.used() == {"sessions": 0, "runs": 0, "memory_bytes": 0})
    again = server.run("print(1)")
    assert kind(again) == "ok"


# ---- templates ----

def test_its_templates_are_its_own():
    """A `glovebox warm` of the same user may end at any time: no session of the server hangs on it."""
    server = Server(private=True)
    warm = subprocess.Popen([str(BINARY), "warm"], env=server.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert b"ready" in warm.stdout.readline()
        server.start()
        session = server.post("/v1/sessions", {}).expect(201).json
        assert session["warm"] is True
        server.run("x = 5", session["id"])
        warm.terminate()
        assert warm.wait(60) == 0
        assert server.run("x", session["id"])["result"]["results"][0]["data"]["text/plain"] == "5"
        server.delete(f"/v1/sessions/{session['id']}").expect(204)
    finally:
        warm.kill()
        warm.wait()
        warm.stdout.close()
        server.close()


@needs_root
def test_a_template_that_was_killed_comes_back():
    with Server(warm=["python"]) as server:
        assert server.post("/v1/sessions", {}).expect(201).json["warm"] is True
        interpreter = min(server.find("glovebox_template.py"))
        os.kill(interpreter, signal.SIGKILL)
        wait_for(lambda: server.post("/v1/sessions", {}).expect(201).json["warm"])
        assert kind(server.run("1")) == "ok"


def test_a_private_server_ends_with_who_started_it():
    server = Server(private=True)
    try:
        server.start()
        server.post("/v1/runs", {"code": "import time; time.sleep(60)", "detach": True}).expect(202)
        server.process.stdin.close()
        assert server.process.wait(60) == 0, server.output()
        server.process = None
    finally:
        server.close()


# ---- more than one at a time ----

def test_many_at_the_same_time(server):
    def life():
        session = server.session()
        values = [server.run(f"y = {i}; y + 1", session)["result"]["results"][0]["data"]["text/plain"] for i in range(3)]
        server.delete(f"/v1/sessions/{session}").expect(204)
        return values

    assert in_threads([life] * 12) == [["1", "2", "3"]] * 12
    assert server.used() == {"sessions": 0, "runs": 0, "memory_bytes": 0}


def test_a_session_that_is_made_while_the_server_ends():
    server = Server(drain=0)
    try:
        server.start()
        stop, made = threading.Event(), []

        def make():
            while not stop.is_set():
                try:
                    made.append(server.post("/v1/sessions", {}).status)
                except OSError:
                    return

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: made.count(201) > 8, 20)
        assert server.stop() == 0, server.output()
        stop.set()
        for thread in threads:
            thread.join()
        assert set(made) <= {201, 429, 503}, made
    finally:
        server.close()


COMPILED = """
  nowhere:
    file: main.x
    compile: [no-such-compiler, "{file}", "{out}"]
    run: ["{out}"]
  unfit:
    file: main.y
    compile: [cp, "{file}", "{out}"]
    run: ["{out}"]
"""


@pytest.mark.parametrize(
    "language, said", [("nowhere", "no-such-compiler is not installed"), ("unfit", "cannot execute")]
)
def test_a_compiler_or_program_that_cannot_be_executed(language, said):
    """Nothing of the code was run: that is no status of its own."""
    languages = (ROOT / "config/languages.yaml").read_text() + COMPILED
    with Server(languages=languages) as server:
        session = server.post("/v1/sessions", {}).expect(201).json["id"]
        for path in ("/v1/runs", f"/v1/sessions/{session}/runs"):
            fields = {"context": None} if "sessions" in path else {}
            answer = server.post(path, {"language": language, "code": "x", **fields}).expect(404)
            assert answer.code == "not_found" and said in answer.error["message"], (path, answer.explain())
