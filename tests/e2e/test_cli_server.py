# SPDX-License-Identifier: Apache-2.0
"""`glovebox run` through a server: the same in every byte as without one, and visible there."""
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


def flags(service):
    return ["--allow-weaker", ",".join(service.box.weaker)] if service.box.weaker else []


PROGRAMS = {
    "print": ["-c", "print(6 * 7)"],
    "both-streams": ["-l", "sh", "-c", "echo out; echo err >&2"],
    "status": ["-l", "sh", "-c", "exit 7"],
    "signal": ["-l", "sh", "-c", "kill -9 $$"],
    "segfault": ["-l", "sh", "-c", "kill -SEGV $$"],
    "exception": ["-c", "def f():\n    raise ValueError('x')\nf()"],
    "syntax": ["-c", "print("],
    "empty": ["-c", ""],
    "arguments": ["-c", "import sys; print(sys.argv[1:])", "--", "a b", "ü", "-x", ""],
    "variables": ["-e", "A=1=2", "-e", "B=ü", "-c", "import os; print(os.environ['A'], os.environ['B'])"],
    "binary": ["-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 3)"],
    "cut-character": ["-c", "import sys\nfor b in '€'.encode():\n    sys.stdout.buffer.write(bytes([b])); sys.stdout.flush()"],
    "much": ["-c", "for i in range(100000): print(i)"],
    "timeout": ["--timeout", "300ms", "-c", "while True: pass"],
    "output": ["--output-limit", "4k", "-c", "print('x' * 100000)"],
    "quiet": ["--quiet", "--timeout", "300ms", "-c", "while True: pass"],
    "name": ["--name", "other.py", "-c", "print(__file__); 1/0"],
    "unknown-language": ["-l", "cobol", "-c", ""],
    "wrong-flag": ["--timeout", "99h", "-c", ""],
    "wrong-limit": ["--memory", "1k", "-c", ""],
    "above-maximum": ["--timeout", "20m", "-c", ""],
    "no-trust": ["--trust", "nobody", "-c", ""],
    "no-file": ["/nowhere/x.py"],
    "nothing": [],
    "shell-error": ["-l", "sh", "-c", "nothing-of-this-name"],
    "compiled": ["-l", "c", "-c", "#include <stdio.h>\nint main(int n, char **v) { puts(v[0]); return 3; }"],
    "not-compiled": ["-l", "c", "-c", "int main(void) { return x; }"],
    "latin1": [b"-c", b"# -*- coding: latin-1 -*-\nprint(len('\xe9'))"],
    "no-variable": ["-e", "x", "-c", ""],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bytes(service, name):
    argv = [a if isinstance(a, bytes) else str(a) for a in PROGRAMS[name]]
    command = ["run", *flags(service)]
    results = [service.box.finish(subprocess.Popen([str(service.box.binary), *command, *way, *argv], env={**service.box.environ, **service.environ},
                                                   stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, **service.box.ids))
               for way in (["--embedded"], [])]
    here, there = results
    assert (there.returncode, there.out, there.err) == (here.returncode, here.out, here.err), there.explain()


@pytest.mark.parametrize("mode", ["--json", "--events"])
@pytest.mark.parametrize("name", ["print", "both-streams", "status", "signal", "binary", "timeout", "wrong-flag"])
def test_the_same_objects(service, name, mode):
    def plain(value):
        """Without what differs from run to run."""
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()
                    if k not in ("id", "peaks", "peak", "t_usec", "session", "context", "controls", "notes", "origin") and not k.endswith("_ms")}
        return [plain(v) for v in value] if isinstance(value, list) else value

    def joined(lines):
        """Events, with pieces of a stream joined: where it is cut is chance."""
        out, found = {"stdout": "", "stderr": ""}, []
        for event in map(json.loads, lines):
            if event["event"] in out:
                out[event["event"]] += event.get("data") or event["data_base64"]
            else:
                found.append(plain(event))
        return found, out

    here, there = (service.call("run", mode, way, *flags(service), *PROGRAMS[name]) for way in ("--embedded", "--server"))
    assert here.returncode == there.returncode
    if mode == "--json":
        assert plain(here.json) == plain(there.json) and set(here.json) == set(there.json)
    else:
        assert joined(here.out.splitlines()) == joined(there.out.splitlines())
        assert [list(json.loads(line)) for line in there.out.splitlines()[:1]] == [["event", "t_usec"]] or name == "wrong-flag"


def test_which_way(service):
    def count():
        return len([r for r in service.json("ps", "--all", "--limit", "1000")["recent"]])

    before = count()
    assert service.call("run", *flags(service), "-c", "print(1)").returncode == 0
    assert count() == before + 1
    # What a server cannot be told, and whoever says so, stays here.
    directory = service.box.directory()
    for argv, environ in ((["--embedded"], {}), (["--workspace", directory], {}), (["--mount", f"{directory}:/mnt"], {}),
                          (["--user", "2000"], {}), ([], {"GLOVEBOX_CGROUP": ""}), ([], {"GLOVEBOX_WORKSPACE": str(directory)})):
        result = service.call("run", *argv, *flags(service), "-c", "print(1)", environ=environ)
        assert (result.returncode, result.out) == (0, b"1\n"), result.explain()
    assert count() == before + 1 + 1  # an empty variable is none


def test_a_server_that_is_named(service, own_box):
    directory = own_box.directory()
    result = service.call("run", "--server", "--workspace", directory, "-c", "")
    assert result.returncode == 110 and b"--workspace cannot be asked of a server" in result.err
    result = service.call("run", "--server", "--embedded", "-c", "")
    assert result.returncode == 110
    result = service.call("run", f"--server=unix:{service.socket}", *flags(service), "-c", "print(1)", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.out == b"1\n", result.explain()
    result = service.call("run", *flags(service), "-c", "print(1)",
                          environ={"GLOVEBOX_RUNTIME_DIR": str(directory), "GLOVEBOX_SERVER": f"unix:{service.socket}"})
    assert result.out == b"1\n", result.explain()
    for server, text in (("unix:/nowhere", b"no server at"), ("nowhere", b"GLOVEBOX_SERVER"), ("https://127.0.0.1:1", b"curl"),
                         ("http://127.0.0.1:1", b"no server")):
        result = service.call("run", "-c", "print(1)", environ={"GLOVEBOX_SERVER": server})
        assert result.returncode in (105, 110) and text in result.err and result.out == b"", result.explain()


def test_without_a_server(own_box):
    environ = {"GLOVEBOX_RUNTIME_DIR": str(own_box.directory())}
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    result = own_box.call("run", *weaker, "-c", "print(1)", environ=environ)
    assert (result.returncode, result.out) == (0, b"1\n"), result.explain()
    for argv in (["run", "--server", "-c", "print(1)"], ["ps"], ["top"], ["stats", "abcd"], ["logs", "abcd"], ["session", "ls"],
                 ["session", "create"], ["session", "exec", "abcd", "-c", "1"], ["session", "rm", "abcd"], ["session", "files", "ls", "abcd"]):
        result = own_box.call(*argv, "--json", environ=environ)
        assert result.returncode == 105 and result.error["code"] == "unavailable" and "glovebox serve" in result.error["message"], result.explain()


def test_a_run_that_is_not_served_asks_once(own_box):
    """Speed: one connect() that fails is all that a run without a server pays."""
    if not os.path.exists("/usr/bin/strace"):
        pytest.skip("strace is not installed")
    environ = {**own_box.environ, "GLOVEBOX_RUNTIME_DIR": str(own_box.directory())}
    trace = own_box.directory() / "trace"
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    done = subprocess.run(["strace", "-o", str(trace), "-e", "trace=connect", str(own_box.binary), "run", *weaker, "-c", "print(1)"],
                          env=environ, capture_output=True, timeout=60, check=False)
    if b"ptrace" in done.stderr:
        pytest.skip("this host does not let trace")
    assert done.stdout == b"1\n"
    assert [line for line in trace.read_text().splitlines() if "glovebox.sock" in line and "ENOENT" in line][1:] == []


# ---- standard input ----

def test_input_from_a_file(service):
    path = service.box.directory() / "input"
    for size in (0, 5, 100_000, 3_000_000):
        path.write_bytes(b"\xff\x00a" * (size // 3))
        with open(path, "rb") as file:
            result = service.call("run", *flags(service), "-c", "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=file)
            expected = subprocess.run(["sha256sum", str(path)], capture_output=True, check=True).stdout.split()[0]
            assert result.out.strip() == expected, result.explain()
            assert file.tell() in (0, os.path.getsize(path)) or size > 1 << 20


def test_input_from_a_pipe(service):
    text = b"".join(b"%d\n" % i for i in range(400_000))
    result = service.call("run", *flags(service), "-l", "sh", "-c", "cksum", input=text)
    assert result.out.split()[:2] == subprocess.run(["cksum"], input=text, capture_output=True, check=True).stdout.split()[:2]


def test_code_from_standard_input(service):
    result = service.call("run", *flags(service), "-", input=b"import sys; print(repr(sys.stdin.read()))")
    assert result.out == b"''\n", result.explain()


def test_a_conversation(service):
    process = service.start_command("run", *flags(service), "-c", "while True: print(input()[::-1], flush=True)", stdin=subprocess.PIPE)
    for word in (b"one", b"two", b"three"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == word[::-1] + b"\n"
    result = service.box.finish(process)
    assert result.returncode == 1 and b"EOFError" in result.err


def test_a_program_that_does_not_read(service):
    """Input that nobody takes stops neither the program nor the command."""
    result = service.call("run", *flags(service), "-c", "import time; time.sleep(0.3); print('done')", input=b"x" * 5_000_000)
    assert (result.returncode, result.out) == (0, b"done\n"), result.explain()


# ---- ends ----

LOOP = "import time\nprint('go', flush=True)\nwhile True: time.sleep(0.05)"
DEAF = "import signal, time\nsignal.signal(2, lambda *_: print('no', flush=True))\nprint('go', flush=True)\nwhile True: time.sleep(0.05)"


def start_and_wait(service, *argv, **popen):
    process = service.start_command("run", *flags(service), *argv, **popen)
    assert process.stdout.readline() == b"go\n", process.communicate()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(service, number):
    process = start_and_wait(service, "-c", LOOP)
    process.send_signal(number)
    result = service.box.finish(process)
    assert result.returncode == 130 and b"cancelled" in result.err, result.explain()
    assert (b"KeyboardInterrupt" in result.err) == (number == signal.SIGINT)
    assert service.runs()[0]["verdict"] == "cancelled"


def test_a_second_interrupt_kills(service):
    process = start_and_wait(service, "-c", DEAF)
    process.send_signal(signal.SIGINT)
    # On a busy host the grace of two seconds may be over before the program has noticed the first.
    assert process.stdout.readline() in (b"no\n", b"")
    process.send_signal(signal.SIGINT)
    result = service.box.finish(process)
    assert result.returncode in (130, -signal.SIGINT) and service.runs()[0]["verdict"] == "cancelled", result.explain()


def test_the_command_is_killed(service):
    process = start_and_wait(service, "-c", LOOP)
    process.kill()
    process.communicate()
    assert wait_until(lambda: service.runs()[0].get("verdict") == "cancelled", 30), json.dumps(service.runs()[0]) + service.log()
    assert service.json("ps")["runs"] == []


def test_nobody_reads(service):
    process = start_and_wait(service, "-c", "print('go', flush=True)\nwhile True: print('x' * 1000, flush=True)")
    process.stdout.close()
    process.stderr.read()
    assert process.wait(60) == 141
    assert wait_until(lambda: service.json("ps")["runs"] == [], 30)


def test_a_reader_that_pauses(own_box):
    """The server cuts off who does not read; a pager that waits for a key must end no run, and lose nothing."""
    with Service(own_box, "--set", "stalled_timeout=1s") as service:
        code = "for i in range(300000): print(i)\nimport time, sys; sys.stdout.flush(); time.sleep(5); print('end')"
        process = service.start_command("run", *flags(service), "-c", code)
        assert process.stdout.read(2) == b"0\n"
        assert wait_until(lambda: service.json("ps")["runs"] == [], 60)
        assert service.runs()[0]["verdict"] == "ok"
        assert process.stdout.read() == b"".join(b"%d\n" % i for i in range(1, 300000)) + b"end\n"
        assert service.box.finish(process).returncode == 0


# ---- servers that end ----

@pytest.fixture
def own_service(own_box):
    service = Service(own_box)
    yield service.start()
    service.stop()


def test_a_server_that_dies_under_a_run(own_service):
    process = start_and_wait(own_service, "-c", LOOP)
    run = own_service.json("ps")["runs"][0]["id"]
    own_service.kill()
    result = own_service.box.finish(process)
    assert result.returncode == 116 and run[:32].encode() in result.err, result.explain()
    own_service.start()
    logs = own_service.call("logs", run)
    assert logs.out == b"go\n" and b"lost" in logs.err, logs.explain()


def test_a_server_that_drains(own_service):
    """It refuses; who did not insist on it runs without."""
    process = start_and_wait(own_service, "-c", LOOP)
    own_service.process.terminate()
    assert wait_until(lambda: own_service.call("run", "--server", *flags(own_service), "-c", "").returncode == 105, 30)
    result = own_service.call("run", *flags(own_service), "-c", "print('here')")
    assert (result.returncode, result.out) == (0, b"here\n"), result.explain()
    process.send_signal(signal.SIGINT)
    own_service.box.finish(process)


def test_statistics_of_a_server_that_ends(own_service):
    """The session has not ended as far as anybody knows."""
    process = own_service.start_command("stats", "--follow", "--json", own_service.session())
    assert b"memory" in process.stdout.readline()
    own_service.process.terminate()
    result = own_service.box.finish(process)
    assert result.returncode == 116 and b"connection to the server was lost" in result.err, result.explain()


def test_clean_after_a_killed_server(user_box):
    """Root's server has a helper that outlives it and removes its socket; an ordinary user's has none."""
    service, socket = Service(user_box), {"kind": "socket", "name": "glovebox.sock"}
    with service:
        assert socket not in service.json("clean")["removed"] and service.call("ps").returncode == 0
        service.kill()
        assert service.socket.exists()
        # What it had started notices a moment later, and holds its lock until then.
        assert wait_until(lambda: socket in service.json("clean", "--dry-run")["found"], 30) and service.socket.exists()
        assert b"removed socket glovebox.sock\n" in service.call("clean").out
        assert not service.socket.exists()
        assert socket not in service.json("clean")["removed"]
        service.start()


def test_serve_refuses(own_box):
    environ = {"GLOVEBOX_RUNTIME_DIR": str(own_box.directory()), "GLOVEBOX_STATE_DIR": str(own_box.directory())}
    for argv, text in ((["--tls-cert", "x"], "go together"), (["--listen", "nowhere"], "nowhere"), (["--no-tokens", "--listen", "0.0.0.0:1"], "token"),
                       (["--set", "x=1"], "x"), (["--config", "/nowhere.yaml"], "nowhere"), (["stray"], "stray")):
        result = own_box.call("serve", *argv, environ=environ)
        assert result.returncode >= 100 and text in result.err.decode(), (argv, result.explain())
    assert own_box.call("serve", "--check", environ=environ).returncode == 0


def test_paths_of_serve_may_be_relative(own_box):
    directory = own_box.directory()
    result = own_box.call("serve", "--check", "--directory", "state", "--listen", f"unix:{directory}/s", cwd=directory)
    assert result.returncode == 0, result.explain()


def test_terminal_sequences_are_shown(service):
    with Screen(service, "run", *flags(service), "-c", r"print('\033]0;title\007\033[31mred')") as screen:
        status, restored = screen.end()
        assert status == 0 and restored
        assert b"^[]0;title^G" in screen.out and b"\033]0" not in screen.out and b"\033[31mred" in screen.out, screen.out
