# SPDX-License-Identifier: Apache-2.0
"""Runs that come from a template that is kept warm."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from conftest import best_of, process_stat, wait_until
from warm_fixtures import COLD, children, server
from warm_programs import PROGRAMS


# The same from a template and from a fresh exec


def outcome(result):
    """What must not differ, without addresses and measured amounts."""
    def settle(text):
        text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
        return re.sub(r"repeated \d+ more times|\(used [\d.]+ m?s\)|\(peak [\d.]+ [KMG]?B\)|\([\d.]+ [KMG]B printed\)|tests in [\d.]+s", "...", text)
    assert result.json and "verdict" in result.json, result.explain()
    return {"status": result.returncode, "stdout": settle(result.stdout), "stderr": settle(result.stderr), "exit": result.exit_code,
            "signal": result.signal, "verdict": result.verdict, "message": settle(result.message), "said": result.err.decode(),
            "truncated": result.json["truncated"], "language": result.json["language"], "keys": sorted(result.json)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_a_fresh_exec(server, name):
    program = PROGRAMS[name]
    code, how = program if isinstance(program, tuple) else (program, {})
    argv = ["run", "--json", *how.get("opts", ()), "-c", code, *(["--", *how["args"]] if "args" in how else [])]
    both = []
    for environ in (server.environ, COLD):
        process = subprocess.Popen([str(server.box.binary), *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**server.box.environ, **environ})
        both.append(server.box.finish(process, how.get("stdin", b"")))
    warm, cold = both
    assert outcome(warm) == outcome(cold)
    assert cold.control("layout")["state"] == "enforced"
    assert warm.control("layout")["state"] == ("enforced" if name == "user" else "weaker"), warm.control("layout")


def test_json_but_for_the_layout(server):
    warm, cold = server.run_warm("open('f', 'w').write('x' * 5000)").json, server.box.run("open('f', 'w').write('x' * 5000)", environ=COLD).json
    assert [c for c in warm["controls"] if c["name"] != "layout"] == [c for c in cold["controls"] if c["name"] != "layout"]
    for key in ("limits", "policy", "language", "backend"):
        assert warm[key] == cold[key]
    assert warm["peaks"]["disk_bytes"] == cold["peaks"]["disk_bytes"] and warm["peaks"]["inodes"] == cold["peaks"]["inodes"]
    assert "session" not in warm and 0 < warm["duration_ms"] < 5000 and 0 < warm["setup_ms"] < 5000


def test_output_as_it_comes(server):
    """Without --json nothing is added to either stream."""
    result = server.run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)", json=False)
    assert (result.returncode, result.out, result.err) == (4, b"out\n", b"err\n")


def test_events(server):
    code = "import sys, time\nprint('a', flush=True); time.sleep(.2); print('b', file=sys.stderr, flush=True)"
    both = []
    for environ in (server.environ, COLD):
        result = server.box.run(code, json=False, events=True, environ=environ)
        events = [json.loads(line) for line in result.out.splitlines()]
        both.append([(e["event"], e.get("data")) for e in events])
        times = [e["t_usec"] for e in events if "t_usec" in e]
        assert times == sorted(times) and 150_000 < events[2]["t_usec"] < 5_000_000
    assert both[0] == both[1]


def test_file_and_name(server, scratch):
    (scratch / "prog.py").write_text("import sys; print(__file__, sys.argv[1:])")
    result = server.run(file=scratch / "prog.py", args=["x"])
    assert result.stdout == "/run/glovebox/prog.py ['x']\n" and result.control("layout")["state"] == "weaker"


def test_much_code(server, scratch):
    (scratch / "much.py").write_text("x = '''" + "a line of code\n" * 500_000 + "'''\nimport sys; print(len(x), repr(sys.stdin.read()))")
    result = server.run(file=scratch / "much.py", stdin=b"and input")
    assert result.stdout == "7500000 'and input'\n" and result.control("layout")["state"] == "weaker"


def test_code_on_standard_input(server):
    result = server.run(file="-", stdin=b"import sys; print(repr(sys.stdin.read()))")
    assert result.stdout == "''\n" and result.control("layout")["state"] == "weaker"


def test_workspace(server):
    workspace = server.box.directory("ws")
    (workspace / "data.txt").write_text("from the host")
    result = server.run_warm("print(open('data.txt').read()); open('new', 'w').write('1')", workspace=workspace)
    assert result.stdout == "from the host\n"
    assert (workspace / "new").read_text() == "1" and (workspace / "new").stat().st_uid == workspace.stat().st_uid


def test_mounts(server):
    directory = server.box.directory("m")
    (directory / "a").write_text("mounted")
    result = server.run_warm("print(open('/data/a').read())\ntry: open('/data/b', 'w')\nexcept OSError as e: print(e.strerror)\nopen('/rw/c', 'w')",
                             mount=[f"{directory}:/data", f"{directory}:/rw:rw"])
    assert result.stdout == "mounted\nRead-only file system\n" and (directory / "c").exists()


def test_the_root_with_mounts(server):
    """It is built anew then, and has what a fresh box has."""
    code = "import os\nfor p in ['/', '/etc', '/dev', '/tmp', '/data']: print(p, sorted(os.listdir(p)))"
    directory = server.box.directory("m")
    assert server.run_warm(code, mount=f"{directory}:/data").stdout == server.box.run(code, mount=f"{directory}:/data", environ=COLD).stdout


def test_a_full_workspace(server):
    code = "open('f', 'wb').write(bytes(3 << 20)); import time; time.sleep(10)"
    warm = server.run_warm(code, workspace=server.box.directory("ws"), disk="1m")
    cold = server.box.run(code, workspace=server.box.directory("ws"), disk="1m", environ=COLD)
    assert warm.verdict == cold.verdict == "disk" and warm.returncode == cold.returncode


def test_modules_of_the_workspace_come_first(server):
    """The template has imported json. A workspace with one of its own is for a fresh exec."""
    workspace = server.box.directory("ws")
    (workspace / "json.py").write_text("print('mine')")
    result = server.run("import json", workspace=workspace)
    assert result.stdout == "mine\n" and "modules of its own" in result.control("layout")["how"]
    package = server.box.directory("ws")
    (package / "json").mkdir()
    assert server.run_warm("import json; print(json.__file__ is not None)", workspace=package).stdout == "True\n"
    (package / "json/__init__.py").write_text("print('package')")
    assert server.run("import json", workspace=package).stdout == "package\n"


@pytest.mark.parametrize("options, why", [
    ({"warm": "false"}, None),
    ({"env": "PYTHONOPTIMIZE=2"}, "variable"),
    ({"env": "PYTHONHASHSEED=0"}, "variable"),
    ({"env": "LANG=C"}, "variable"),
    ({"user": "1234"}, "another user"),
    ({"network": "host"}, "network"),
])
def test_what_needs_a_fresh_exec(server, options, why):
    options = {k: v for k, v in options.items() if k != "warm"} if "warm" not in options else options
    argv = ["run", "--json", *(f"--{k}={v}" for k, v in options.items()), "-c", "import sys, os; print(sys.flags.optimize, os.environ.get('LANG'))"]
    warm, cold = server.box.call(*argv, environ=server.environ), server.box.call(*argv, environ=COLD)
    assert warm.stdout == cold.stdout and warm.control("layout")["state"] == "enforced"
    assert why in warm.control("layout")["how"] if why else warm.control("layout")["how"] == "fresh exec"


def test_not_utf8(server, scratch):
    (scratch / "latin.py").write_bytes(b"# coding: latin-1\nprint('\xe9')\n")
    result = server.run(file=scratch / "latin.py")
    assert result.stdout == "é\n" and result.control("layout")["state"] == "enforced"


def test_another_language(server):
    result = server.run("echo shell", "bash")
    assert result.stdout == "shell\n" and result.control("layout")["how"] == "fresh exec"


def test_template_by_name(server):
    assert server.run_warm("print(1)", template="python").stdout == "1\n"
    result = server.run("print(1)", template="python-data")
    assert result.stdout == "1\n" and "no such template" in result.control("layout")["how"] and result.returncode == 0
    result = server.box.run("print(1)", template="python", environ=COLD)
    assert result.stdout == "1\n" and "kept warm" in result.control("layout")["how"]
    assert server.run("print(1)", template="pyhton").error["code"] == "not_found"


def test_two_runs_share_nothing(server):
    first = server.run_warm("import os, random, uuid, sys\nsys.intern('x'); os.environ['LEFT'] = '1'; open('/tmp/f', 'w'); open('/sandbox/f', 'w')\n"
                            "import json; json.left = 1\nprint(random.random(), uuid.uuid4(), os.urandom(4).hex())")
    second = server.run_warm("import os, random, uuid, json\nassert 'LEFT' not in os.environ and not hasattr(json, 'left')\n"
                             "assert os.listdir('/tmp') == os.listdir('/sandbox') == []\nprint(random.random(), uuid.uuid4(), os.urandom(4).hex())")
    assert second.exit_code == 0, second.explain()
    assert not set(first.stdout.split()) & set(second.stdout.split())


def test_many_at_once(server):
    processes = [server.box.start(f"import time; time.sleep(.1); print({i} ** 2)", environ=server.environ) for i in range(12)]
    results = [server.box.finish(p) for p in processes]
    assert [r.stdout for r in results] == [f"{i ** 2}\n" for i in range(12)]
    assert all(r.control("layout")["state"] == "weaker" for r in results)


# Ctrl-C


def interrupt(server, code, environ, signals=(signal.SIGINT,), pause=0.5):
    process = server.box.start(code, environ=environ, json=False)
    assert process.stdout.readline() == b"ready\n"
    time.sleep(pause)
    begin = time.monotonic()
    for sig in signals:
        process.send_signal(sig)
        time.sleep(0.05)
    result = server.box.finish(process)
    return result, time.monotonic() - begin


@pytest.mark.parametrize("body", ["time.sleep(30)", "exec('while True: pass')"], ids=["asleep", "busy"])
@pytest.mark.parametrize("pause", [0, 0.3])
def test_ctrl_c(server, body, pause):
    code = f"import time\ntry:\n    print('ready', flush=True); {body}\nexcept KeyboardInterrupt:\n    print('interrupted')\n    raise SystemExit(5)"
    # A signal that comes just before the system call of sleep() does not end it, in Python. Then the run is killed.
    def interrupted(environ):
        return best_of(3, lambda: interrupt(server, code, environ, pause=pause), lambda end: b"interrupted" in end[0].out)
    (warm, took), (cold, _) = interrupted(server.environ), interrupted(COLD)
    said = [re.sub(rb"[\d.]+ m?s", b"...", result.err) for result in (warm, cold)]
    assert (warm.returncode, warm.out, said[0]) == (cold.returncode, cold.out, said[1])
    assert b"interrupted" in warm.out and took < 10


def test_ctrl_c_comes_once(server):
    """A handler that tidies up is not disturbed by a second interrupt of ours."""
    code = ("import signal, time\nn = 0\ndef handler(*a):\n    global n\n    n += 1\nsignal.signal(signal.SIGINT, handler)\nprint('ready', flush=True)\n"
            "end = time.time() + 1.5\nwhile time.time() < end: time.sleep(.01)\nprint(n)")
    result, _ = best_of(3, lambda: interrupt(server, code, server.environ, pause=0.3), lambda end: end[0].out == b"1\n")
    assert result.out == b"1\n"


@pytest.mark.waits
def test_ctrl_c_in_vain(server):
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(30)"
    result, took = interrupt(server, code, server.environ)
    assert result.returncode == interrupt(server, code, COLD)[0].returncode and 1.5 < took < 20
    twice = best_of(5, lambda: interrupt(server, code, server.environ, (signal.SIGINT, signal.SIGINT))[1],
                    lambda took: took < 1.5)
    assert twice < 1.5


def test_ctrl_c_at_once(server):
    """In the moments of the start, too, it ends."""
    for delay in (0.001, 0.003, 0.005, 0.007, 0.01, 0.02):
        process = server.box.start("import time; time.sleep(30)", environ=server.environ, json=False)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        server.box.finish(process)
        assert process.returncode != 0 and time.monotonic() - begin < 20


# The end of a run


def test_nothing_outlives_the_run(server):
    """A daemon that the program leaves behind: when the command has returned, it writes no more."""
    workspace = server.box.directory("ws")
    code = ("import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.close(1); os.close(2)\n    n = 0\n"
            "    while True:\n        n += 1\n        open('alive', 'w').write(str(n))\n"
            "while not os.path.exists('alive'): time.sleep(.01)\ntime.sleep(.3)")
    assert server.run_warm(code, workspace=workspace).exit_code == 0
    first = (workspace / "alive").read_text()
    time.sleep(0.3)
    assert (workspace / "alive").read_text() == first


def test_killed_front(server):
    def running():
        return [pid for pid, _ in children(server.process.pid) if process_stat(pid) and b"my own words" in read_line(pid)]

    def read_line(pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
        return b""

    process = server.box.start("import subprocess; subprocess.run(['sh', '-c', 'sleep 60; : my own words'])", environ=server.environ)
    assert wait_until(running, 5)
    process.kill()
    process.communicate()
    assert wait_until(lambda: not running(), 10)
    assert server.is_warm()
