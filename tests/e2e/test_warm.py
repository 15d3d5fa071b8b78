# SPDX-License-Identifier: Apache-2.0
"""Templates that are kept warm: `glovebox warm`, `glovebox templates`, and runs that come from them."""
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import IS_ROOT, USER, best_of, box_mounts, make_box, needs_root, process_stat, wait_until
from warm_programs import PROGRAMS

COLD = {"GLOVEBOX_RUNTIME_DIR": "/nonexistent"}
READY = 30  # seconds for a template on a busy machine


class Server:
    """A `glovebox warm` in a runtime directory of its own."""

    def __init__(self, box, *args, environ=None):
        self.box = box
        self.directory = box.directory("warm", mode=0o700)
        self.environ = {"GLOVEBOX_RUNTIME_DIR": str(self.directory), **(environ or {})}
        self.log = open(box.directory("log") / "stderr", "w+b")
        self.process = subprocess.Popen([str(box.binary), "warm", "--json", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, env={**box.environ, **self.environ}, **box.ids)
        self.lines = []

    def wait_ready(self, n=1):
        """The first n templates have said that they are ready."""
        os.set_blocking(self.process.stdout.fileno(), False)
        rest = b""

        def ready():
            nonlocal rest
            rest += self.process.stdout.read() or b""
            *whole, rest = rest.split(b"\n")
            self.lines += map(json.loads, whole)
            return len(self.lines) >= n or self.process.poll() is not None

        assert wait_until(ready, READY, 0.02) and len(self.lines) >= n, (self.lines, self.errors())
        return self

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode()

    def run(self, code=None, lang=None, **options):
        return self.box.run(code, lang, environ=self.environ, **options)

    def run_warm(self, code, **options):
        result = self.run(code, **options)
        assert result.control("layout")["state"] == "weaker", result.control("layout")
        return result

    def is_warm(self):
        return self.run("pass").control("layout")["state"] == "weaker"

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail("glovebox warm does not end")
        finally:
            self.process.stdout.close()


def children(pid):
    """Descendants by their parents, as pids; a warden's boxes are its children."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        stat = process_stat(entry)
        if stat:
            found.setdefault(int(stat[1][1]), []).append((int(entry), stat[0]))
    todo, all_of_them = [pid], []
    while todo:
        below = found.get(todo.pop(), [])
        all_of_them += below
        todo += [p for p, _ in below]
    return all_of_them


def template_pids(server):
    """The interpreters that have glovebox_template.py as their script, the oldest first: templates, and children that have not begun."""
    pids = []
    for pid, _ in children(server.process.pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"/glovebox_template.py") for word in words):
            pids.append((int(process_stat(pid)[1][19]) if process_stat(pid) else 1 << 60, pid))
    return [pid for _, pid in sorted(pids)]


def template_pid(server):
    return next(iter(template_pids(server)), None)


class Traces:
    """What a server has on the machine: its processes and their cgroups. Others may have theirs at the same time."""

    def __init__(self, server):
        self.mounts, self.processes, self.cgroups = box_mounts(), set(), set()
        self.add(server)

    def add(self, server):
        for pid, _ in [*children(server.process.pid), (server.process.pid, "")]:
            stat = process_stat(pid)
            if not stat:
                continue
            self.processes.add((pid, stat[1][19]))
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup") as file:
                self.cgroups |= set(re.findall(r"glovebox-[0-9a-f]{16}", file.read()))
        assert self.processes and self.cgroups
        return self

    def left(self):
        alive = {pid for pid, start in self.processes if (process_stat(pid) or (0, [0] * 20))[1][19] == start}
        groups = {os.path.join(top, d) for top, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if d in self.cgroups}
        return alive, groups, box_mounts() - self.mounts

    def assert_gone(self, seconds=10.0):
        assert wait_until(lambda: not any(self.left()), seconds, 0.05), self.left()


@pytest.fixture
def warm_box(attack_dir, scratch, missing_controls):
    if not IS_ROOT:
        pytest.skip("needs root, and the suite does not run as root")
    return make_box("root", attack_dir, scratch, missing_controls)


@pytest.fixture(scope="module")
def server(session_dir, missing_controls):
    """One for all tests that do not harm it."""
    if not IS_ROOT:
        pytest.skip("needs root, and the suite does not run as root")
    directory = session_dir / "warm-module"
    directory.mkdir(mode=0o755, exist_ok=True)
    s = Server(make_box("root", None, directory, missing_controls)).wait_ready()
    yield s
    assert s.stop() == 0
    assert not os.path.exists(s.directory / "warm.sock")


@pytest.fixture
def own_server(warm_box):
    """One for a test alone."""
    s = Server(warm_box).wait_ready()
    yield s
    s.stop(signal.SIGKILL)


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
    result, _ = interrupt(server, code, server.environ, pause=0.3)
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
            "    while True:\n        n += 1\n        open('alive', 'w').write(str(n))\ntime.sleep(.3)")
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


# glovebox templates


def test_templates(server):
    rows = {t["name"]: t for t in server.box.call("templates", "--json", environ=server.environ).json["templates"]}
    assert rows["python"]["warm"] is True and rows["python-data"]["warm"] is False
    assert rows["python"]["rootfs"] == "host" and "json" in rows["python"]["modules"] and rows["python"]["pool"] == 2 and rows["python"]["description"]
    rows = {t["name"]: t for t in server.box.call("templates", "--json", environ=COLD).json["templates"]}
    assert rows["python"]["warm"] is False
    table = server.box.call("templates", environ=server.environ).out.decode().splitlines()
    assert table[0].split()[:3] == ["TEMPLATE", "WARM", "POOL"] and table[1].split()[:3] == ["python", "yes", "2"]
    assert server.box.call("templates", "--names").out.split() == [b"python", b"python-data"]
    assert server.is_warm(), "asking has harmed it"


def test_templates_of_another_table(server):
    """One that has other modules is another template, whatever its name is."""
    config = server.box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  python:\n    modules: [json]\n")
    environ = {**server.environ, "GLOVEBOX_CONFIG_DIR": str(config)}
    assert [t["warm"] for t in server.box.call("templates", "--json", environ=environ).json["templates"]] == [False]
    result = server.box.run("print(1)", environ=environ)
    assert result.stdout == "1\n" and "no such template" in result.control("layout")["how"]


# glovebox warm


def test_says_what_is_ready(warm_box):
    config = warm_box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  small:\n    modules: [json, no_such_module, re, nor.this]\n    pool: 3\n  python:\n    modules: []\n")
    s = Server(warm_box, "small", "python", "--pool", "1", environ={"GLOVEBOX_CONFIG_DIR": str(config)}).wait_ready(2)
    assert [(e["event"], e["template"], e["pool"], e["missing"]) for e in s.lines] == [
        ("ready", "small", 1, ["no_such_module", "nor.this"]), ("ready", "python", 1, [])]
    assert all(0 < e["seconds"] < READY for e in s.lines)
    assert wait_until(lambda: len(template_pids(s)) == 4, 5), "each template, and one ahead of each"
    assert (s.directory / "warm.sock").stat().st_mode & 0o777 == 0o600
    result = s.run("print(1)", template="small")
    assert result.stdout == "1\n" and result.control("layout")["state"] == "weaker"
    traces = Traces(s)
    assert s.stop(signal.SIGINT) == 0 and not list(s.directory.iterdir()) and s.errors() == ""
    traces.assert_gone()


def test_a_line_for_people(warm_box):
    s = Server(warm_box)
    s.stop(signal.SIGKILL)
    directory = warm_box.directory("warm", mode=0o700)
    process = subprocess.Popen([str(warm_box.binary), "warm"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**warm_box.environ, "GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert re.fullmatch(rb"python ready in \d+\.\d s, 2 sessions ahead\n", process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10) == (b"", b"") and process.returncode == 0


def test_stop(own_server):
    result = own_server.box.call("warm", "--stop", environ=own_server.environ)
    assert result.returncode == 0 and own_server.process.wait(5) == 0
    result = own_server.box.call("warm", "--stop", "--json", environ=own_server.environ)
    assert result.returncode == 113 and "serves" in result.error["message"]


def test_stop_while_it_starts(warm_box):
    config = warm_box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  slow:\n    modules: [slow_module]\n")
    # The template's own box has an empty workspace, so nothing can be imported slowly: the moment is found by trying.
    for delay in (0.005, 0.02, 0.05, 0.1):
        s = Server(warm_box, "slow", environ={"GLOVEBOX_CONFIG_DIR": str(config)})
        time.sleep(delay)
        assert s.stop() in (0, -signal.SIGTERM)
        assert s.process.returncode == -signal.SIGTERM or not (s.directory / "warm.sock").exists()


def test_two_are_refused(own_server):
    result = own_server.box.call("warm", "--json", environ=own_server.environ)
    assert result.returncode == 110 and "already" in result.error["message"]
    assert own_server.is_warm()


def test_its_directory_is_made_and_removed(warm_box):
    directory = warm_box.directory("parent", mode=0o700) / "made"
    s = Server(warm_box, environ={"GLOVEBOX_RUNTIME_DIR": str(directory)}).wait_ready()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert s.stop() == 0 and not directory.exists()


def test_a_directory_that_others_can_write_to(warm_box):
    directory = warm_box.directory("open", mode=0o777)
    directory.chmod(0o777)
    result = warm_box.call("warm", "--json", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.returncode == 110 and "others can write" in result.error["message"]


@pytest.mark.parametrize("argv, status, text", [
    (["nosuch"], 113, "no template"),
    (["python", "python"], 110, "twice"),
    (["--pool", "65"], 110, "0 to 64"),
    (["--pool", "-1"], 110, "0 to 64"),
    (["--stop", "python"], 110, "no template"),
])
def test_wrong_arguments(warm_box, argv, status, text):
    result = warm_box.call("warm", "--json", *argv, environ={"GLOVEBOX_RUNTIME_DIR": str(warm_box.directory("w", mode=0o700))})
    assert result.returncode == status and text in result.error["message"], result.explain()


def test_a_python_that_is_not_there(warm_box):
    config = warm_box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  none:\n    python: /usr/bin/no-python\n    modules: []\n")
    directory = warm_box.directory("w", mode=0o700)
    result = warm_box.call("warm", "none", "--json", environ={"GLOVEBOX_RUNTIME_DIR": str(directory), "GLOVEBOX_CONFIG_DIR": str(config)})
    assert result.returncode == 112 and "none cannot be started" in result.error["message"], result.explain()
    assert not list(directory.iterdir())


def test_ordinary_user_without_cgroups(user_box):
    if user_box.has_cgroup:
        pytest.skip("this user has cgroups of his own")
    directory = user_box.directory("w", mode=0o700)
    result = user_box.call("warm", "--json", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.returncode == 112 and "cgroup" in result.error["message"] and not list(directory.iterdir())


# Another user


@needs_root
def test_another_user_cannot_connect(server, user_box):
    """Not to the socket; and one that he is led to he does not use, as it is not his."""
    code = "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ntry:\n    s.connect(sys.argv[1])\nexcept OSError as e:\n    print(e.strerror)"
    path = server.directory / "warm.sock"
    said = subprocess.run(["/usr/bin/python3", "-c", code, str(path)], capture_output=True, text=True, user=USER, group=USER, extra_groups=[])
    assert said.stdout == "Permission denied\n", said
    # Should the permissions be lost, the warden still looks at who it is.
    server.directory.chmod(0o755)
    path.chmod(0o777)
    try:
        code += "\nelse:\n    s.settimeout(5); print(s.recv(1))"
        said = subprocess.run(["/usr/bin/python3", "-c", code, str(path)], capture_output=True, text=True, user=USER, group=USER, extra_groups=[])
        assert said.stdout == "b''\n", said
        result = user_box.run("print(1)", environ=server.environ)
        assert result.stdout == "1\n" and result.control("layout")["state"] == "enforced"
    finally:
        path.chmod(0o600)
        server.directory.chmod(0o700)
    assert server.is_warm()


@needs_root
def test_a_false_socket_is_not_used(user_box, warm_box):
    """Root does not talk to a socket of somebody else, in whatever directory it is told to look."""
    directory = user_box.directory("false", mode=0o755)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(directory / "warm.sock"))
    listener.listen()
    os.chown(directory / "warm.sock", USER, USER)
    result = warm_box.run("print(1)", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.stdout == "1\n" and result.control("layout")["how"] == "fresh exec"
    listener.close()


# Deaths


def count_inits(server):
    return sum(name == "glovebox-init" for _, name in children(server.process.pid))


def copy_sockets(pid):
    """Copies of all sockets of a process: for as long as they are open, their other ends do not see that it has closed its own."""
    target, copies = os.pidfd_open(pid), []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
            copy = ctypes.CDLL(None, use_errno=True).syscall(438, target, int(fd), 0)  # pidfd_getfd
            assert copy >= 0, os.strerror(ctypes.get_errno())
            copies.append(copy)
    os.close(target)
    return copies


def test_sessions_that_are_ended_while_they_are_made(own_server):
    """Their inits come up when nobody wants them any more. A process that the warden starts has copies of its sockets
    for a moment, so an init cannot trust that it sees the end of its own: one stayed for ever."""
    def pid_of(name):
        return next((pid for pid, n in children(own_server.process.pid) if n == name), None)
    assert own_server.is_warm()
    time.sleep(0.5)  # for what is made ahead
    before = count_inits(own_server)
    foreman = pid_of("glovebox-forema")
    os.kill(foreman, signal.SIGSTOP)
    try:
        fronts = [subprocess.Popen([str(own_server.box.binary), "run", "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env={**own_server.box.environ, **own_server.environ}) for _ in range(6)]
        time.sleep(0.5)  # they have asked; a foreman that is silent for longer would be ended
        copies = copy_sockets(pid_of("glovebox-warden"))
        for front in fronts:
            front.kill()
            front.wait()
        time.sleep(0.2)  # their sessions are ended
    finally:
        os.kill(foreman, signal.SIGCONT)
    time.sleep(0.5)  # it makes the inits that were asked for
    for copy in copies:
        os.close(copy)
    assert wait_until(lambda: count_inits(own_server) <= before, 10, 0.05), (before, count_inits(own_server))
    assert own_server.is_warm()


def test_a_template_that_is_killed(own_server):
    """Those that came from it go on; the next run works at once; soon there is another template."""
    going = own_server.box.start("print('ready', flush=True)\nimport time; time.sleep(2); print('survived')", environ=own_server.environ, json=False)
    assert going.stdout.readline() == b"ready\n"
    victim = template_pid(own_server)
    os.kill(victim, signal.SIGKILL)
    result = own_server.run("print(6 * 7)")
    assert result.stdout == "42\n" and result.exit_code == 0, result.explain()
    assert wait_until(own_server.is_warm, 15, 0.05)
    own_server.wait_ready(2)
    assert "has ended" in own_server.errors() and template_pid(own_server) != victim
    rest = own_server.box.finish(going)
    assert rest.out == b"survived\n" and rest.returncode == 0, rest.explain()


def test_a_template_that_is_killed_again_and_again(own_server):
    for _ in range(3):
        assert wait_until(lambda: template_pid(own_server), 5)
        os.kill(template_pid(own_server), signal.SIGKILL)
        assert own_server.run("print(1)").stdout == "1\n"
        assert wait_until(own_server.is_warm, 10, 0.1)


def test_a_warden_that_is_killed(own_server):
    """What runs in its boxes ends, and is said to be lost; the service comes back."""
    going = own_server.box.start("print('ready', flush=True)\nimport time; time.sleep(30)", environ=own_server.environ, json=False)
    assert going.stdout.readline() == b"ready\n"
    warden = [p for p, name in children(own_server.process.pid) if name == "glovebox-warden" and process_stat(p)[1][1] == str(own_server.process.pid)]
    assert len(warden) == 1
    traces = Traces(own_server)
    traces.processes = {p for p in traces.processes if p[0] != own_server.process.pid}
    os.setpriority(os.PRIO_PROCESS, warden[0], 19)  # its end takes longer: its templates are seen to be gone before it is
    os.kill(warden[0], signal.SIGKILL)
    rest = own_server.box.finish(going, patience=10)
    assert rest.returncode != 0 and b"lost" in rest.err, rest.explain()
    assert own_server.run("print(1)").stdout == "1\n"
    assert wait_until(own_server.is_warm, 15, 0.1)
    traces.assert_gone()
    traces = Traces(own_server)
    assert own_server.stop() == 0
    traces.assert_gone()


@pytest.mark.parametrize("msec", [0, 1, 3, 10, 30])
def test_a_warden_that_is_killed_while_a_template_is_started(own_server, msec):
    """Another that serves takes its place, and not one that nobody can reach."""
    warden = next(p for p, name in children(own_server.process.pid) if name == "glovebox-warden" and process_stat(p)[1][1] == str(own_server.process.pid))
    os.kill(template_pid(own_server), signal.SIGKILL)
    time.sleep(msec / 1000)
    os.kill(warden, signal.SIGKILL)
    assert wait_until(own_server.is_warm, 15, 0.1), own_server.errors()


def test_killed_by_sigkill(warm_box):
    s = Server(warm_box).wait_ready()
    going = warm_box.start("print('ready', flush=True)\nimport time; time.sleep(30)", environ=s.environ, json=False)
    assert going.stdout.readline() == b"ready\n"
    traces = Traces(s)
    s.process.kill()
    s.process.wait()
    rest = warm_box.finish(going, patience=10)
    assert rest.returncode != 0 and b"lost" in rest.err, rest.explain()
    traces.assert_gone()
    # Its socket is still there: nobody is misled by it, and the next one takes its place.
    assert (s.directory / "warm.sock").exists()
    result = warm_box.run("print(1)", environ=s.environ)
    assert result.stdout == "1\n" and result.control("layout")["how"] == "fresh exec"
    again = Server(warm_box, environ=s.environ).wait_ready()
    assert again.is_warm() and again.stop() == 0


def test_nothing_is_left(warm_box):
    s = Server(warm_box).wait_ready()
    traces = Traces(s)
    for _ in range(5):
        s.run_warm("import subprocess; subprocess.Popen(['sleep', '100'])")
        traces.add(s)
    assert s.stop() == 0
    traces.assert_gone()
