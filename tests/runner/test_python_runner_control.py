# SPDX-License-Identifier: Apache-2.0
"""The Python runner in context mode: interrupts, processes and threads, code that breaks its interpreter, the channel's end."""
import os
import socket
import subprocess
import time

import pytest
from python_client import CHANNEL, PATIENCE, PYTHON, RUNNER, Ended, Runner, binary, clean_environ, runner

# Interrupts


@pytest.mark.parametrize("busy", ["while True: pass", "import time; time.sleep(60)", "import threading; threading.Event().wait(60)",
                                  "import os; os.read(os.pipe()[0], 1)", "class R:\n    def __repr__(self):\n        while 1: pass\nR()",
                                  "class E(Exception):\n    def __str__(self):\n        while 1: pass\nraise E",
                                  "import subprocess; subprocess.run(['sleep', '60'])"])
def test_interrupt(runner, busy):
    runner.good("kept = 1")
    runner.start("print('on', flush=True)\n" + busy)
    runner.wait_for("on\n")
    time.sleep(0.1)
    runner.interrupt()
    run = runner.finish()
    assert run.status == "interrupted" and run.error["name"] == "KeyboardInterrupt", run
    assert "glovebox" not in run.error["traceback"]
    assert runner.good("kept").value == "1"


def test_interrupt_while_frames_are_sent(runner):
    runner.start("print('on', flush=True)\nwhile True: display('x' * 50000)")
    runner.wait_for("on\n")
    time.sleep(0.3)  # by now it waits for us to read
    runner.interrupt()
    run = runner.finish()
    assert run.status == "interrupted" and {len(p["text/plain"]) for p in run.of("P")} == {50002}


def test_interrupts_between_runs_have_no_effect(runner):
    runner.good("import time, threading")
    for _ in range(2):
        for _ in range(20):
            runner.interrupt()
            time.sleep(0.002)
            assert runner.good("time.sleep(0.001)\n1").value == "1"
        # Now another thread may take the signal.
        runner.good("threading.Thread(target=lambda: time.sleep(30), daemon=True).start()")


def test_every_run_ends_once_whenever_the_interrupt_comes(runner):
    """At first when its end is already here, so that it is late on a machine of any speed. Then at any time, and the programs grow longer from turn to turn: until one is met."""
    seen, loops, turn = set(), 2000, 0
    while turn < 220 or "interrupted" not in seen:
        assert turn < 260, f"no interrupt came in time, of {loops} loops"
        runner.start(f"for i in range({loops}): pass\ndisplay(1)\n5")
        run = runner.finish() if turn < 20 else None
        if not run:
            time.sleep(turn % 40 * 2e-5)
        runner.interrupt()
        run = run or runner.finish()
        seen.add(run.status)
        assert run.status in (("ok",) if turn < 20 else ("ok", "interrupted")), run
        assert bool(run.of("X")) == (run.status == "interrupted"), run
        assert "glovebox" not in str(run.frames), run
        assert runner.good("6").value == "6"
        loops = loops + 2000 if turn < 220 else 2 * loops
        turn += 1
    assert seen == {"ok", "interrupted"}


def test_handler_of_the_user_is_left_alone(runner):
    assert runner.good("import signal, time\nsignal.getsignal(signal.SIGINT) is signal.default_int_handler").value == "True"
    assert runner.good("signal.pthread_sigmask(signal.SIG_BLOCK, [])").value == "set()"
    runner.good("mine = 0\ndef handler(*a):\n  global mine\n  mine += 1\n  print('mine')\nsignal.signal(signal.SIGINT, handler)")
    runner.start("print('on', flush=True)\nend = time.time() + 5\nwhile mine == 0 and time.time() < end: pass")
    runner.wait_for("on\n")
    runner.interrupt()
    run = runner.finish()
    assert run.status == "ok" and run.out == "mine\n"
    runner.interrupt()
    assert runner.good("1").out == ""
    runner.good("signal.signal(signal.SIGINT, signal.SIG_IGN)")
    assert runner.good("signal.getsignal(signal.SIGINT) == signal.SIG_IGN").value == "True"


def test_handlers_of_other_signals_that_raise_between_runs(runner):
    runner.good("import signal, threading, time\ndef late(*_): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)")
    for _ in range(2):
        runner.good("signal.setitimer(signal.ITIMER_REAL, 0.5)")
        time.sleep(1)
        assert runner.good("1").value == "1"
        # With a second thread the handler runs when the next frame has already been read.
        runner.good("threading.Thread(target=lambda: time.sleep(30), daemon=True).start()\ntime.sleep(0.01)")
    runner.good("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\nsignal.setitimer(signal.ITIMER_REAL, 0.5)")
    time.sleep(1)  # blocked in the main thread, so the other one has taken it
    assert runner.good("1").value == "1"
    runner.good("signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])")
    assert runner.run("signal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(5)").error["name"] == "TimeoutError"


# Processes and threads


def test_processes_and_threads(runner):
    runner.good("import subprocess, sys, os")
    assert runner.good("subprocess.run([sys.executable, '-c', 'print(6)'], stdout=-1).stdout").value == "b'6\\n'"
    assert runner.good(f"b'{CHANNEL}' in subprocess.run(['ls', '/proc/self/fd'], stdout=-1).stdout.split()").value == "False"
    status = runner.good("print(subprocess.run(['cat', '/proc/self/status'], stdout=-1).stdout.decode())").out
    assert "SigBlk:\t0000000000000000" in status and "SigCgt:\t0000000000000000" in status
    runner.good("import multiprocessing as mp\ndef square(x): return x * x")
    assert runner.good("with mp.get_context('fork').Pool(2) as pool: print(pool.map(square, [1, 2, 3]))").out == "[1, 4, 9]\n"
    run = runner.good("p = mp.get_context('spawn').Process(target=print, args=('spawned',))\np.start(); p.join()\np.exitcode")
    assert (run.value, run.out) == ("0", "spawned\n")
    assert runner.good("from concurrent.futures import *\nwith ThreadPoolExecutor(2) as e: print(list(e.map(square, [4])))").out == "[16]\n"


def test_spawn_knows_no_functions_of_cells(runner):
    run = runner.run("import multiprocessing as mp\ndef f(): pass\np = mp.get_context('spawn').Process(target=f)\np.start(); p.join()\np.exitcode")
    assert run.value == "1" and "AttributeError" in run.err  # as at the prompt of an ordinary interpreter


@pytest.mark.parametrize("code, status, out", [
    ("pass", 0, ""), ("print('child')", 0, "child\n"), ("import sys; sys.exit(7)", 7, ""), ("1/0", 1, ""), ("raise SystemExit('bye')", 1, ""),
    ("display('shown')", 0, "'shown'\n"), ("5", 0, "")])
def test_fork_that_comes_back(runner, code, status, out):
    runner.good("import os")
    run = runner.run(f"pid = os.fork()\nif pid == 0:\n    {code}\nelse:\n    print(os.waitpid(pid, 0)[1] >> 8)")
    assert run.status == "ok" and run.out == f"{out}{status}\n", run
    assert "glovebox" not in run.err and run.of("P") == []
    if code == "1/0":
        assert run.err.endswith("ZeroDivisionError: division by zero\n")
    assert runner.good("1").value == "1"


def test_forks_in_odd_places(runner):
    runner.good("import os, ctypes, asyncio, warnings\nwarnings.simplefilter('ignore')")
    assert runner.good("class R:\n    def __repr__(self):\n        self.pid = os.fork()\n        return 'r'\nr = R()\nr").value == "r"
    assert runner.good("os.waitpid(r.pid, 0)[1]").value == "0"
    assert runner.good("pid = ctypes.CDLL(None).fork()\npid and os.waitpid(pid, 0)[1]").value == "0"
    assert runner.good("pid = os.fork()\nawait asyncio.sleep(0)\npid and os.waitpid(pid, 0)[1]").value == "0"


# Hostile ground


@pytest.mark.parametrize("sabotage", [
    "import builtins\nfor n in ('len', 'map', 'str', 'repr', 'isinstance', 'compile', 'exec', 'open', 'type', 'getattr'): setattr(builtins, n, None)",
    "import os\nfor n in ('read', 'write', 'getpid', '_exit', 'dup2', 'close', 'open'): setattr(os, n, None)",
    "import sys\nsys.settrace(lambda *a: 1/0)", "import sys\nsys.settrace(lambda *a: None)", "import sys\nsys.setprofile(lambda *a: None)",
    "import sys\nsys.setprofile(lambda *a: 1/0)", "import sys\nsys.displayhook = sys.excepthook = None", "import sys\nsys.modules.clear()",
    "import sys\nsys.modules = {}", "globals().clear()", "__builtins__ = {}", "del __builtins__",
    "import json, traceback, linecache\njson.dumps = traceback.TracebackException = linecache.cache = None",
    "import signal, _signal\nsignal.signal = _signal.signal = signal.default_int_handler = None", "import sys\nsys.meta_path.clear()\nsys.path_hooks.clear()",
    "import gc\ngc.disable()\ngc.set_threshold(1)", "import sys\nsys.setrecursionlimit(60)", "import socket\nsocket.setdefaulttimeout(0.001)",
    "import sys\nsys.argv = sys.path = sys.stdin = None", "import _thread\n_thread.allocate_lock = None", "import builtins\nbuiltins.__import__ = None",
    "import os\nos.environ.clear()", "import sys\nsys.version_info = sys.byteorder = None", "import os\nos.chdir('/proc')"])
def test_sabotage_harms_itself_only(runner, sabotage):
    runner.run(sabotage)
    assert runner.run("6 * 7").value == "42"
    run = runner.run("1 / 0")
    assert run.status == "error" and run.error["name"] == "ZeroDivisionError" and run.error["value"] == "division by zero"
    runner.start("while True: pass")
    runner.interrupt_until_heard()
    assert runner.finish().status == "interrupted"
    assert runner.run("6 * 7").value == "42"


@pytest.mark.parametrize("code", [f"import os\nos.close({CHANNEL})", f"import os\nos.dup2(1, {CHANNEL})", "import os\nos.closerange(3, 100)"])
def test_closed_channel_is_the_end(runner, code):
    runner.start(code)
    with pytest.raises((Ended, TimeoutError)):
        runner.finish(2)
    assert runner.process.wait(PATIENCE) == 1
    assert runner.process.stderr.read() == b""


def test_end_of_the_channel(runner):
    runner.good("import atexit, sys\natexit.register(print, 'bye')\natexit.register(lambda: 1/0)")
    code, out, err = runner.end()
    assert (code, out) == (0, "bye\n") and "ZeroDivisionError" in err


def test_end_before_anything():
    here, there = socket.socketpair()
    process = subprocess.Popen([PYTHON, str(RUNNER), str(there.fileno())], pass_fds=(there.fileno(),), stderr=subprocess.PIPE, env=clean_environ())
    there.close()
    here.close()
    assert process.communicate(timeout=PATIENCE)[1] == b"" and process.returncode == 1


def test_start_by_a_command():
    code = f"import sys; sys.path.insert(0, {str(RUNNER.parent)!r}); import glovebox_runner; glovebox_runner.main(['', '{CHANNEL}'])"
    with Runner(argv=[PYTHON, "-c", code]) as runner:
        assert runner.good("import sys\nsys.path[0], sys.argv, sorted(n for n in globals() if n[0] != '_')").value == "('', [''], ['sys'])"
        assert "glovebox" not in runner.run("import glovebox_runner").error["traceback"].replace("glovebox_runner'", "").replace("import glovebox_runner", "")


def test_variables_of_the_configuration():
    with Runner(("env", b"GB_ONE=1=1"), ("env", b"TZ=Asia/Tokyo"), ("env", b"GB_BYTES=\xff")) as runner:
        assert runner.good("import os, time\nos.environ['GB_ONE'], os.environb[b'GB_BYTES'], time.tzname[0]").value == "('1=1', b'\\xff', 'JST')"


def test_frames_in_pieces(runner):
    code = b"input()"
    read, write = os.pipe()
    os.write(write, b"given\n")
    os.close(write)
    runner.seq = 1
    socket.send_fds(runner.here, [b"E"], [read])
    os.close(read)
    for byte in b" 1 %d\n" % len(code) + code:
        time.sleep(0.002)
        runner.here.send(bytes([byte]))
    assert runner.finish().value == "'given'"


def test_frame_right_after_the_configuration():
    with Runner(pipelined=b"E 1 5\n1 + 1") as runner:
        runner.seq = 1
        assert runner.finish().value == "2"
