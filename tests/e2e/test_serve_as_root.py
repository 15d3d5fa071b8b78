# SPDX-License-Identifier: Apache-2.0
"""A server that root starts: its front is not root, and what stays root can be lost and comes back."""
import contextlib
import os
import pathlib
import signal
import socket
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import needs_root, wait_until  # noqa: E402
from server import PATIENCE, Server  # noqa: E402
from serving import GONE, child_named, close, descendants, lives, readiness, refused, started_run, status_of  # noqa: E402


NO_CAPABILITIES = {"CapInh": ["0" * 16], "CapPrm": ["0" * 16], "CapEff": ["0" * 16], "CapBnd": ["0" * 16], "CapAmb": ["0" * 16]}


@needs_root
def test_roots_front_has_no_privilege():
    with Server(warm=["python"]) as server:
        server.session()
        for task in os.listdir(f"/proc/{server.pid}/task"):
            status = status_of(f"{server.pid}/task/{task}")
            assert {k: status[k] for k in NO_CAPABILITIES} == NO_CAPABILITIES, status
            assert status["NoNewPrivs"] == ["1"] and status["Groups"] == []
            assert len(set(status["Uid"] + status["Gid"])) == 1 and 61184 <= int(status["Uid"][0]) <= 65519, status["Uid"]
        privileged = [p for p in descendants(server.pid) if int(status_of(p[0])["CapEff"][0], 16)]
        assert sorted(p[1] for p in privileged if int(status_of(p[0])["Uid"][0]) == 0) == ["glovebox-keeper", "glovebox-warden"[:15]], privileged


@needs_root
def test_root_can_name_the_user():
    with Server(arguments=("--user", "61111")) as server:
        assert status_of(server.pid)["Uid"] == ["61111"] * 4
        assert server.run("print(1)")["result"]["stdout"] == "1\n"
    for user, message in (("root", "root's"), ("0", "from 1 on"), ("nobody-of-that-name", "no account")):
        server = Server(arguments=("--user", user))
        try:
            assert message in refused(server)
        finally:
            server.close()


@needs_root
def test_a_directory_of_somebody_else_is_not_taken():
    server = Server()
    try:
        server.state.mkdir(0o700)
        os.chown(server.state, 4711, 4711)
        assert "belongs to user 4711" in refused(server)
        assert os.stat(server.state).st_uid == 4711
        os.chown(server.state, 0, 0)
        server.directory.chmod(0o700)
        assert "must let others through" in refused(server)
    finally:
        server.close()


@needs_root
def test_files_of_sessions_without_root():
    with Server() as server:
        session = server.session()
        files = f"/v1/sessions/{session}/files"
        server.put(f"{files}/in/a.txt?parents=true", b"from outside").expect(201)
        code = ("import os\nprint(open('in/a.txt').read(), os.stat('in/a.txt').st_uid == os.getuid())\nopen('b.txt', 'w').write('from inside')\n"
                "os.chmod('b.txt', 0o600)\nos.symlink('/etc/passwd', 'link')\nos.mkdir('locked'); os.chmod('locked', 0o700)")
        result = server.run(code, session)["result"]
        assert result["stdout"] == "from outside True\n", result
        assert server.get(f"{files}/b.txt").expect(200).body == b"from inside"
        assert server.get(f"{files}/link").status == 400
        names = {e["name"]: e["type"] for e in server.get(f"/v1/sessions/{session}/files").expect(200).json["entries"]}
        assert names == {"in": "directory", "b.txt": "file", "link": "link", "locked": "directory"}
        server.delete(f"{files}/b.txt").expect(204)
        assert server.run("import os; print(os.path.exists('b.txt'))", session)["result"]["stdout"] == "False\n"
        one = server.run("print(open('data.txt').read())", files={"data.txt": "one-shot"})
        assert one["result"]["stdout"] == "one-shot\n", one


@needs_root
def test_statistics_without_root():
    with Server() as server:
        session = server.session()
        result = server.run("x = bytearray(50 << 20); sum(range(10**6))", session)["result"]
        assert result["peaks"]["memory_bytes"] > 50 << 20 and result["peaks"]["cpu_usec"] > 0 and result["peaks"]["pids"] > 0, result["peaks"]
        assert server.get(f"/v1/sessions/{session}/stats").expect(200).json["memory"]["bytes"] > 1 << 20


@needs_root
def test_kept_workspaces_without_root():
    server = Server()
    base = server.directory / "kept"
    server.write_config({"listen": [f"unix:{server.socket}"], "directory": str(server.state), "workspaces": str(base)})
    with server:
        session = server.session(workspace="kept")
        server.put(f"/v1/sessions/{session}/files/a.txt", b"kept").expect(201)
        assert server.run("print(open('a.txt').read()); open('b.txt', 'w').write('too')", session)["result"]["stdout"] == "kept\n"
        server.delete(f"/v1/sessions/{session}").expect(204)
        uid = int(status_of(server.pid)["Uid"][0])
        place, = base.rglob(session)
        assert os.stat(place).st_uid == uid and stat.S_IMODE(os.stat(place).st_mode) == 0o700
        assert {f.name: (f.read_text(), f.stat().st_uid) for f in place.iterdir()} == {"a.txt": ("kept", uid), "b.txt": ("too", uid)}


@needs_root
def test_a_warden_that_dies_is_started_anew():
    with Server(warm=["python"]) as server:
        session = server.session()
        run = started_run(server, "import time; time.sleep(3600)", timeout=300)
        for _ in range(3):
            warden = child_named(server.pid, "glovebox-warden")
            family = descendants(warden[0])
            os.kill(warden[0], signal.SIGKILL)
            assert wait_until(lambda: not any(map(lives, [warden, *family])), 5 * GONE)
            assert wait_until(lambda: server.post("/v1/runs", {"code": "print(1)"}).status == 200, PATIENCE)
        ended = server.wait_run(run)
        assert ended["result"]["verdict"]["kind"] == "lost", ended
        assert wait_until(lambda: server.get(f"/v1/sessions/{session}").status == 404, PATIENCE)
        assert server.run("print(2)")["result"]["stdout"] == "2\n"
        assert server.get("/readyz").status == 200


@needs_root
def test_templates_are_kept_warm():
    with Server(warm=["python"]) as server:
        def template():
            """The oldest one: the others come from it."""
            return min((p for p in descendants(server.pid) if p[1] == "python3"), key=lambda p: int(p[2]), default=None)

        def kill():
            """Returns what was killed. The process between a template and its fork is found at times, and is gone by then."""
            before = template()
            with contextlib.suppress(ProcessLookupError):
                if before:
                    os.kill(before[0], signal.SIGKILL)
                    return before
            return None

        for _ in range(2):  # by themselves: nobody asks for a run
            before = wait_until(kill, PATIENCE)
            assert before
            assert wait_until(lambda: not lives(before) and template(), PATIENCE)
        warden = child_named(server.pid, "glovebox-warden")
        os.kill(warden[0], signal.SIGKILL)
        assert wait_until(lambda: not lives(warden) and template(), PATIENCE)
        session = server.post("/v1/sessions", {}).expect(201).json
        assert session["warm"], session


@needs_root
def test_without_its_keeper_the_server_says_so():
    server = Server().start()
    try:
        server.run("print(1)")
        keeper, warden = (child_named(server.pid, f"glovebox-{name}") for name in ("keeper", "warden"))
        os.kill(keeper[0], signal.SIGKILL)
        assert wait_until(lambda: readiness(server) == 503, PATIENCE)
        assert server.get("/readyz").json["status"] == "degraded" and server.get("/healthz").status == 200
        assert server.run("print(2)")["result"]["stdout"] == "2\n"
        assert lives(warden)
        os.kill(warden[0], signal.SIGKILL)
        assert wait_until(lambda: server.post("/v1/runs", {"code": "print(3)"}).status == 503, PATIENCE)
        refusal = server.post("/v1/runs", {"code": "print(3)"})
        assert refusal.code == "unavailable" and "keeper" in refusal.error["message"], refusal.explain()
        assert server.stop() == 0
    finally:
        close(server)


@needs_root
def test_nothing_is_left_of_roots_killed_front():
    server = Server().start()
    try:
        server.session()
        family = descendants(server.pid)
        assert {p[1] for p in family} >= {"glovebox-keeper", "glovebox-warden"[:15]}
        server.kill()
        assert wait_until(lambda: not any(map(lives, family)), 5 * GONE), [p for p in family if lives(p)]
        assert wait_until(lambda: not server.socket.exists(), 5 * GONE)  # the keeper has removed it
        server.start()
        assert server.get("/readyz").status == 200
    finally:
        close(server)


@needs_root
def test_tokens_that_root_makes_are_the_servers():
    server = Server(tcp=True)
    try:
        first = server.token("alpha", "run")  # before there was a server: the directory is root's
        server.start()
        second = server.token("beta", "run")
        for token in (first, second):
            assert server.get("/v1/sessions", token=token).status == 200
        uid = int(status_of(server.pid)["Uid"][0])
        assert {f.stat().st_uid for f in server.state.iterdir()} == {uid}
    finally:
        server.close()
