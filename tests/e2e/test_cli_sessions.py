# SPDX-License-Identifier: Apache-2.0
"""Sessions, their files, and what watches them, from the command line."""
import json
import os
import signal
import subprocess

import pytest
from conftest import IS_ROOT, NOT_ROOT, Box, wait_until
from service import Screen, Service


@pytest.fixture(scope="module", params=["root", "user"], ids=["as-root", "as-user"])
def service(request, session_dir, missing_controls):
    if request.param == "root" and not IS_ROOT:
        pytest.skip(NOT_ROOT)
    box = Box(request.param, None, session_dir)
    box.weaker = missing_controls(request.param)
    with Service(box) as running:
        yield running


@pytest.fixture
def session(service):
    identity = service.session()
    yield identity
    service.call("session", "rm", identity)


def run(service, session, code, *argv, **options):
    return service.call("session", "exec", session, *argv, "-c", code, **options)


# ---- the life of a session ----

def test_life(service):
    identity = service.session("--name", "work", "--memory", "200m", "--idle", "90", "--lifetime", "10m", "-e", "A=b")
    assert len(identity) == 32
    shown = service.json("session", "show", "work")
    assert shown["id"] == identity and shown["name"] == "work" and shown["idle_timeout"] == 90 and shown["max_lifetime"] == 600
    assert shown["policy"]["limits"]["memory_bytes"] == 200 << 20
    assert identity in [s["id"] for s in service.json("session", "ls")["sessions"]]
    assert identity.encode() in service.call("session", "ls", "-q").out.split()
    table = service.call("session", "ls").out.decode().splitlines()
    assert table[0].split()[:2] == ["ID", "NAME"] and any(line.startswith(identity[:12]) and "work" in line for line in table)
    assert identity[:12].encode() in service.call("ps").out
    assert run(service, "work", "import os; print(os.environ['A'])").out == b"b\n"
    assert b"memory_bytes" in service.call("session", "show", identity[:8]).out
    assert service.json("session", "rm", identity[:4])["removed"] == [identity]
    result = service.call("session", "show", "work", "--json")
    assert result.returncode == 113 and "session ls" in result.error["message"]


def test_names_and_beginnings(service):
    one, two = service.session("--name", "twin"), service.session("--name", "twin")
    try:
        result = service.call("session", "show", "twin")
        assert result.returncode == 110 and b"could be 2 sessions" in result.err
        assert service.json("session", "show", one[:16])["id"] == one
        for text in (one[:3], "g" + one[1:8], one.upper(), "../" + one, one + "0", ""):
            assert service.call("session", "show", text).returncode == 113, text
        # Everything that was named is tried.
        result = service.call("session", "rm", one, "nobody", two)
        assert result.returncode == 113
        assert service.call("session", "show", one).returncode == service.call("session", "show", two).returncode == 113
    finally:
        service.call("session", "rm", one, two)


def test_a_name_that_is_like_an_id(service):
    one = service.session()
    two = service.session("--name", one[:8])
    assert service.json("session", "show", one[:8])["id"] == two
    service.call("session", "rm", one, two)


@pytest.mark.parametrize("argv", [["create", "--memory", "1k"], ["create", "--idle", "x"], ["create", "--trust", "nobody"], ["create", "--template", "nothing"],
                                  ["create", "--mount", "/a:/b"], ["create", "word"], ["exec"], ["exec", "abcd"], ["rm"], ["show"], ["files"], ["files", "ls"],
                                  ["files", "steal", "abcd"], ["files", "get", "abcd"], ["nothing"]])
def test_wrong_calls(service, argv):
    result = service.call("session", *argv, "--json")
    assert 100 <= result.returncode <= 116 and result.error["message"], result.explain()


# ---- exec ----

def test_state_stays(service, session):
    assert run(service, session, "x = 20").out == b""
    assert run(service, session, "x + 22").out == b"42\n"
    assert run(service, session, "print('a', end=''); x").out == b"a\n20\n"
    result = run(service, session, "1 / 0")
    assert result.returncode == 1 and b"ZeroDivisionError" in result.err and result.out == b""
    assert run(service, session, "x").out == b"20\n"
    assert run(service, session, "y=1", "-l", "bash").returncode == 0
    assert run(service, session, "echo $y", "-l", "bash").out == b"1\n"


def test_state_that_is_lost_is_told(service, session):
    assert run(service, session, "x = 20").err.count(b"variables") == 0
    result = run(service, session, "import os; os._exit(3)")
    assert result.returncode == 3 and b"its variables are lost" in result.err, result.explain()
    result = run(service, session, "print('x' in globals())")
    assert result.out == b"False\n" and b"without the variables" in result.err, result.explain()
    assert b"variables" not in run(service, session, "import os; os._exit(3)", "--quiet").err
    assert b"variables" not in run(service, session, "exit 3", "--fresh", "-l", "sh").err


def test_weaker_controls_by_the_flag(user_box):
    """Without them in the server's policy: what the message asks for can be given."""
    service = Service(user_box)
    service.flags = []
    with service:
        if user_box.weaker:
            refused = service.call("session", "create")
            assert refused.returncode == 112 and b"--allow-weaker" in refused.err, refused.explain()
            assert service.call("run", "-c", "1").returncode == 112
            assert service.runs()[0]["verdict"] is None and service.runs()[0]["failed"] is True
            assert b"(not run)" in service.call("ps", "--all").out
        session = service.session("--allow-weaker", ",".join(user_box.weaker) or "memory")
        assert run(service, session, "6 * 7").out == b"42\n"


def test_ways_to_give_code(service, session):
    path = service.box.directory() / "code.sh"
    path.write_text('echo "$0 $1"\n')
    result = service.call("session", "exec", session, path, "--fresh", "--", "arg")
    assert result.returncode == 0 and result.out.endswith(b"code.sh arg\n"), result.explain()
    assert service.call("session", "exec", session, "-", input=b"1 + 1").out == b"2\n"
    assert run(service, session, "import sys; print(sys.argv[1:])", "--fresh").out == b"[]\n"
    assert run(service, session, "exit 5", "--fresh", "-l", "sh").returncode == 5
    for argv in (["--context", "1", "--fresh"], ["--json", "--events"], ["--", "x"]):
        assert service.call("session", "exec", session, "-c", "1", *argv).returncode == 110


def test_input_of_exec(service, session):
    code = "import sys; print(sys.stdin.read())"
    assert run(service, session, code, input=b"data").out == b"\n"
    assert run(service, session, code, "--stdin", input=b"data").out == b"data\n"
    assert run(service, session, "cat", "-i", "-l", "bash", input=b"more").out == b"more"


def test_objects_of_exec(service, session):
    result = json.loads(run(service, session, "print(1); 2", "--json").out)
    assert result["stdout"] == "1\n" and result["results"][0]["data"]["text/plain"] == "2" and result["verdict"]["kind"] == "ok"
    events = [json.loads(line) for line in run(service, session, "print(1); 2", "--events").out.splitlines()]
    assert [e["event"] for e in events] == ["started", "stdout", "result", "verdict"]
    assert [e["seq"] for e in events] == [0, 1, 2, 3]


def test_limits_of_exec(service, session):
    result = run(service, session, "while True: pass", "--timeout", "300ms")
    assert result.returncode == 124 and b"timeout" in result.err, result.explain()
    assert run(service, session, "1", "--timeout", "99h").returncode in (110, 114)


def test_interrupt_of_exec(service, session):
    process = service.start_command("session", "exec", session, "-c", "kept = 1\nimport time\nprint('go', flush=True)\nwhile True: time.sleep(0.05)")
    assert process.stdout.readline() == b"go\n"
    process.send_signal(signal.SIGINT)
    result = service.box.finish(process)
    assert result.returncode == 130, result.explain()
    assert run(service, session, "kept").out == b"1\n"


# ---- files ----

def test_files(service, session):
    here = service.box.directory()
    data = bytes(range(256)) * 400
    (here / "in put").write_bytes(data)
    (here / "in put").chmod(0o640)
    if os.geteuid() == 0:
        os.chown(here / "in put", service.box.uid, service.box.uid)
    assert service.call("session", "files", "put", session, here / "in put").returncode == 0
    put = service.json("session", "files", "put", session, here / "in put", "a/b/ü?#%.bin", "--parents")
    assert put["size"] == len(data)
    assert service.call("session", "files", "put", session, "-", "from-stdin", input=b"typed").returncode == 0
    assert service.call("session", "files", "put", session, "-", input=b"").returncode == 110
    assert service.call("session", "files", "put", session, here).returncode == 110
    result = service.call("session", "files", "put", session, "-", "no/such/x", input=b"")
    assert result.returncode == 113 and b"--parents" in result.err, result.explain()
    for path in ("/sandbox/from-stdin", "/workspace/from-stdin", "from-stdin"):
        assert service.call("session", "files", "get", session, path).out == b"typed", path
    listed = {e["name"]: e for e in service.json("session", "files", "ls", session)["entries"]}
    assert set(listed) == {"in put", "a", "from-stdin"} and listed["in put"]["size"] == len(data) and listed["a"]["type"] == "directory"
    table = service.call("session", "files", "ls", session).out.decode()
    assert "a/\n" in table and "0640" in table
    assert service.call("session", "files", "get", session, "a/b/ü?#%.bin").out == data
    assert service.call("session", "files", "get", session, "in put", here / "out").returncode == 0
    assert (here / "out").read_bytes() == data
    result = service.call("session", "files", "get", session, "nothing", here / "kept")
    assert result.returncode == 113 and not (here / "kept").exists()
    assert service.call("session", "files", "rm", session, "a").returncode == 102
    assert service.call("session", "files", "rm", "-r", session, "a", "in put").returncode == 0
    assert [e["name"] for e in service.json("session", "files", "ls", session)["entries"]] == ["from-stdin"]
    for path in ("../x", "a/../../x", "/etc/passwd"):
        assert service.call("session", "files", "get", session, path).returncode >= 100, path


def test_paths_as_code_with_one_writable_place_sees_them(service):
    session = service.call("session", "create", "--scratch-only").out.decode().strip()
    assert service.call("session", "exec", session, "-l", "bash", "-c", "printf made >/tmp/sandbox/made").returncode == 0
    assert service.call("session", "files", "get", session, "/tmp/sandbox/made").out == b"made"
    assert service.call("session", "rm", session).returncode == 0


def test_directories(service, session):
    here = service.box.directory()
    source = here / "source"
    (source / "deep/er").mkdir(parents=True)
    files = {"plain": b"1", "deep/er/file": b"2" * 5000, "deep/" + "n" * 120: b"", "exe": b"#!/bin/sh\n"}
    for name, content in files.items():
        (source / name).write_bytes(content)
    (source / "exe").chmod(0o755)
    (source / "link").symlink_to("/etc/passwd")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{service.box.uid}", str(here)], check=True)
    result = service.call("session", "files", "push", session, source, "in/side")
    assert result.returncode == 0 and b"1 link" in result.err, result.explain()
    assert run(service, session, "cat in/side/deep/er/file | wc -c; test -x in/side/exe && echo x; ls in/side", "-l", "bash").out.split() == \
        [b"5000", b"x", b"deep", b"exe", b"plain"]
    target = here / "target"
    assert service.call("session", "files", "pull", session, target, "in").returncode == 0
    found = {str(p.relative_to(target / "side")): p.read_bytes() for p in (target / "side").rglob("*") if p.is_file()}
    assert found == files and os.access(target / "side/exe", os.X_OK)
    # What is there is not written over.
    result = service.call("session", "files", "pull", session, target)
    assert result.returncode == 102 and b"--force" in result.err
    (target / "side/plain").write_bytes(b"other")
    assert service.call("session", "files", "pull", session, target, "in", "--force").returncode == 0
    assert (target / "side/plain").read_bytes() == b"1"


def test_hostile_files(service, session):
    """What code leaves in its workspace does nothing to the host when it is pulled."""
    here = service.box.directory()
    (here / "outside").mkdir()
    if os.geteuid() == 0:
        os.chown(here / "outside", service.box.uid, service.box.uid)
    code = f"""
import os
os.symlink({str(here / 'outside')!r}, 'way')
os.mkdir('dir'); os.symlink('..', 'dir/up')
open('set', 'w').write('x')
try: os.chmod('set', 0o4777)
except OSError: os.chmod('set', 0o777)
os.mkfifo('fifo')
open('odd\\n\\x1b[31mname', 'w').write('y')
"""
    assert run(service, session, code).returncode == 0
    result = service.call("session", "files", "pull", session, here / "target")
    assert result.returncode == 0, result.explain()
    found = {str(p.relative_to(here / "target")) for p in (here / "target").rglob("*")}
    assert found == {"dir", "set", "odd\n\x1b[31mname"} and os.listdir(here / "outside") == []
    assert (here / "target/set").stat().st_mode & 0o7000 == 0 and not any(p.is_symlink() for p in (here / "target").rglob("*"))
    listing = service.call("session", "files", "ls", session).out
    assert b"\x1b[31m" not in listing and b"^J^[[31mname" in listing
    # A link on the way of the caller's own directory is not his workspace's doing, but one inside is not followed.
    (here / "target2").mkdir()
    (here / "target2/dir").symlink_to(here / "outside")
    if os.geteuid() == 0:
        os.chown(here / "target2", service.box.uid, service.box.uid)
    run(service, session, "open('dir/file', 'w').write('z')")
    assert service.call("session", "files", "pull", session, here / "target2", "--force").returncode >= 100
    assert os.listdir(here / "outside") == []


# ---- watching ----

def test_stats(service, session):
    sample = service.json("stats", session[:8])
    assert sample["session"] == session and sample["pids"]["limit"] == 128
    text = service.call("stats", session).out.decode()
    assert text.splitlines()[1].startswith("memory") and "128" in text
    process = service.start_command("stats", session, "--follow", "--json", "--interval", "100ms")
    for _ in range(3):
        assert json.loads(process.stdout.readline())["session"] == session
    process.terminate()
    process.communicate()
    lines = subprocess.run(["head", "-n", "3"], stdin=service.start_command("stats", session, "-f", "--interval", "100ms").stdout, capture_output=True,
                           check=True).stdout.decode().splitlines()
    assert lines[0].split()[0] == "ID" and lines[1].split()[0] == session[:12] == lines[2].split()[0]
    for argv in (["nobody"], [session, "--interval", "1ms", "-f"], []):
        assert service.call("stats", *argv).returncode >= 100


@pytest.mark.parametrize("way", ["get", "pull"])
def test_a_server_that_dies_leaves_no_half_file(own_box, way):
    out = own_box.directory() / "out"
    part = out if way == "get" else out / "f"
    with Service(own_box) as service:
        for _ in range(10):
            session = service.session()
            assert run(service, session, "open('f', 'wb').write(bytes(90 << 20))").returncode == 0
            process = service.start_command("session", "files", way, session, *(["f"] if way == "get" else []), out)
            assert wait_until(lambda: process.poll() is not None or out.exists(), 20, 0.001)
            process.send_signal(signal.SIGSTOP)
            if process.poll() is None and not (part.exists() and part.stat().st_size == 90 << 20):
                service.kill()
                process.send_signal(signal.SIGCONT)
                break
            process.send_signal(signal.SIGCONT)  # it was too quick
            service.box.finish(process)
            subprocess.run(["rm", "-r", str(out)], check=True)
            service.call("session", "rm", session)
        else:
            pytest.fail("the files were there before the server could be killed")
        result = service.box.finish(process)
    assert result.returncode == 116 and b"was lost" in result.err, result.explain()
    assert not part.exists()


@pytest.mark.waits
def test_a_server_that_hangs_is_told_of(own_box):
    with Service(own_box) as service:
        os.kill(service.process.pid, signal.SIGSTOP)
        try:
            process = service.start_command("ps")
            assert b"does not answer" in process.stderr.readline()
        finally:
            os.kill(service.process.pid, signal.SIGCONT)
        assert service.box.finish(process).returncode == 0


def test_stats_of_a_run(service):
    flags = ["--allow-weaker", ",".join(service.box.weaker)] if service.box.weaker else []
    process = service.start_command("run", *flags, "-c", "import time\nprint('go', flush=True)\nwhile True: time.sleep(0.05)")
    assert process.stdout.readline() == b"go\n"
    running = service.json("ps")["runs"][0]
    assert running["language"] == "python" and running["state"] == "running"
    assert service.json("stats", running["id"][:8])["run"] == running["id"]
    assert running["id"][:12].encode() in service.call("ps").out
    # The stream ends with the run.
    follow = service.start_command("stats", running["id"], "-f", "--json", "--interval", "100ms")
    assert json.loads(follow.stdout.readline())["run"] == running["id"]
    process.send_signal(signal.SIGINT)
    service.box.finish(process)
    assert service.box.finish(follow).returncode == 0


def test_top(service, session):
    lines = service.call("top", "--interval", "100ms").out.decode().splitlines()
    assert lines[0].split()[:3] == ["ID", "KIND", "CPU%"] and any(line.startswith(session[:12]) for line in lines[1:])
    process = service.start_command("top", "--json", "--interval", "100ms")
    samples = json.loads(process.stdout.readline())["samples"]
    assert session in [s["session"] for s in samples]
    process.terminate()
    process.communicate()
    assert service.call("top", "--sort", "name").returncode == 110


LEAVE = b"\033[?25h\033[?1049l"


def test_top_on_a_terminal(service, session):
    with Screen(service, "top", "--interval", "100ms", rows=20, columns=120) as screen:
        screen.wait_for(session[:12].encode())
        screen.wait_for(b"by cpu")
        screen.type(b"m")
        screen.wait_for(b"by memory")
        assert b"WRITTEN" in screen.out
        screen.resize(10, 60)
        screen.signal(signal.SIGWINCH)
        screen.forget()
        screen.wait_for(b"PIDS")
        screen.forget()
        screen.wait_for(b"PIDS")
        assert b"WRITTEN" not in screen.out
        screen.type(b"\033[B\033[A\033[5~x")
        screen.type(b"q")
        status, restored = screen.end()
        assert status == 0 and restored and screen.out.endswith(LEAVE)


@pytest.mark.parametrize("way", ["key", signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_top_puts_the_terminal_back(service, way):
    with Screen(service, "top", "--interval", "100ms") as screen:
        screen.wait_for(b"q quits")
        if way == "key":
            screen.type(b"\003")
        else:
            screen.signal(way)
        status, restored = screen.end()
        assert restored and screen.out.endswith(LEAVE) and status == -(signal.SIGINT if way == "key" else way)


def test_top_when_the_server_ends(own_box):
    with Service(own_box) as service, Screen(service, "top", "--interval", "100ms") as screen:
        screen.wait_for(b"q quits")
        service.stop()
        status, restored = screen.end()
        assert restored and status in (105, 116) and b"the server" in screen.out.rpartition(LEAVE)[2]


# ---- logs ----

def test_logs(service):
    flags = ["--allow-weaker", ",".join(service.box.weaker)] if service.box.weaker else []
    done = service.call("run", "--json", *flags, "-l", "sh", "-c", "echo one; echo two >&2; printf '\\377'; exit 3")
    identity = done.json["id"]
    logs = service.call("logs", identity[:10])
    assert (logs.returncode, logs.out, logs.err) == (0, b"one\n\xff", b"two\n")
    events = [json.loads(line) for line in service.call("logs", identity, "--events").out.splitlines()]
    assert events[0]["event"] == "started" and events[-1]["event"] == "verdict" and [e["seq"] for e in events] == list(range(len(events)))
    whole = service.json("logs", identity)
    assert whole["events"] == events and whole["ended"] is True and whole["next"] == len(events)
    assert [json.loads(line) for line in service.call("logs", identity, "--events", "--from", len(events) - 1).out.splitlines()] == events[-1:]
    assert service.call("logs", "-f", identity).out == logs.out
    for argv in (["0" * 32], ["xyz"], [], [identity, "--from", "x"], [identity, "--json", "--events"]):
        assert service.call("logs", *argv).returncode in (110, 113), argv


def test_logs_follow(service, session):
    path = service.box.directory() / "code.py"
    path.write_text("while True:\n    line = input()\n    print(line, flush=True)\n    if line == 'end': break\n")
    process = service.start_command("session", "exec", session, "--fresh", "-i", path, stdin=subprocess.PIPE)
    identity = wait_until(lambda: service.json("ps")["runs"], 30)[0]["id"]
    logs = service.start_command("logs", "-f", identity)
    for word in (b"one\n", b"two\n", b"end\n"):
        process.stdin.write(word)
        process.stdin.flush()
        assert logs.stdout.readline() == word
    assert service.box.finish(logs).returncode == 0
    assert service.box.finish(process).out == b"one\ntwo\nend\n"


def test_logs_on_a_terminal(service):
    flags = ["--allow-weaker", ",".join(service.box.weaker)] if service.box.weaker else []
    done = service.call("run", "--json", *flags, "-c", r"print('\033]52;c;eA==\007\033[2Jdone')")
    with Screen(service, "logs", done.json["id"]) as screen:
        assert screen.end() == (0, True)
        assert b"\033]" not in screen.out and b"\033[2J" not in screen.out and b"^[]52;c;eA==^G^[[2Jdone" in screen.out


# ---- over TCP, with tokens ----

def test_tokens(own_box):
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = Service(own_box)
    service.flags += ["--listen", f"127.0.0.1:{port}", "--listen", f"unix:{service.socket}"]
    token = service.json("token", "create", "--tenant", "team-a", "--scope", "run", "--expires", "1h")
    with service:
        address = {"GLOVEBOX_SERVER": f"http://127.0.0.1:{port}"}
        refused = service.call("run", "-c", "print(1)", environ=address)
        assert refused.returncode == 100 and b"GLOVEBOX_TOKEN" in refused.err, refused.explain()
        allowed = {**address, "GLOVEBOX_TOKEN": token["token"]}
        result = service.call("run", "-c", "print(1)", environ=allowed)
        assert (result.returncode, result.out) == (0, b"1\n"), result.explain()
        other = service.session()
        assert service.call("session", "show", other, environ=allowed).returncode == 113
        for wrong in ("nonsense", "bad token", "line\nbreak", "x" * 1000):
            result = service.call("ps", environ={**address, "GLOVEBOX_TOKEN": wrong})
            assert result.returncode in (100, 110) and wrong.encode() not in result.err, result.explain()
        listed = service.call("token", "list", "--json")
        assert token["token"].encode() not in listed.out and b"team-a" in listed.out
        assert service.call("token", "revoke", token["id"]).returncode == 0
        assert service.call("ps", environ=allowed).returncode == 100
        records = service.call("audit", "--json", "--tenant", "team-a").out.decode().splitlines()
        assert any(json.loads(line).get("action") == "run" for line in records), records
    for argv in (["token", "revoke"], ["token", "revoke", "x", "--tenant", "a"], ["token", "create", "--scope", "all"], ["token"]):
        assert service.call(*argv).returncode >= 100, argv
