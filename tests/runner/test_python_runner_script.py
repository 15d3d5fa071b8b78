# SPDX-License-Identifier: Apache-2.0
"""The Python runner in script mode, and children of a template.

Script mode must be what `python3 FILE` is. Each program below runs both ways, and standard output, standard error and
exit status must be the same, to the byte.
"""
import os
import re
import resource
import signal
import socket
import subprocess

import pytest
from python_client import CHANNEL, PATIENCE, PYTHON, RUNNER, VERSION, Runner, binary, clean_environ, has_module, needs, pack, unpack

PROGRAMS = {
    "hello": "print('hello')\nimport sys\nprint('err', file=sys.stderr)",
    "empty": "",
    "arguments": "import sys\nprint(sys.argv, len(sys.argv))",
    "main": "print({k: v for k, v in sorted(globals().items()) if k != '__loader__'}, __loader__.name, __loader__.path, type(__loader__))\n"
            "import sys\nprint(sys.modules['__main__'].__dict__ is globals(), list(vars()))",
    "path": "import sys\nprint(sys.path)",
    "original arguments": "import sys\nprint(getattr(sys, 'orig_argv', [0])[1:], sys.flags, sys.warnoptions)",
    "docstring": '"""Doc."""\nprint(__doc__, __annotations__)\nx: int = 3\nprint(__annotations__)',
    "uncaught": "def f(x):\n    return 1 / x\n\nprint('before')\nf(0)",
    "chained": "try:\n    [][1]\nexcept IndexError as e:\n    raise RuntimeError('later') from e",
    "syntax error": "x = 1\nif x\n    print(1)",
    "late syntax error": "x = 1\nreturn x",
    "bad indentation": "if 1:\n    x = 1\n  y = 2",
    "unprintable": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "exit 3": "import sys\nsys.exit(3)",
    "exit none": "raise SystemExit",
    "exit message": "import sys\nprint('out')\nsys.exit('a message')",
    "exit negative": "import sys\nsys.exit(-2)",
    "exit object": "raise SystemExit([1, 2])",
    "exit in a thread": "import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()\nprint('on')",
    "interrupt": "print('before')\nraise KeyboardInterrupt",
    "interrupt by signal": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)",
    "killed": "import os, signal\nprint('lost')\nos.kill(os.getpid(), signal.SIGTERM)",
    "_exit": "import os\nprint('lost')\nos._exit(5)",
    "atexit": "import atexit, sys\natexit.register(print, 'last')\natexit.register(lambda: sys.stderr.write('first\\n'))\nprint('body')\nsys.exit(2)",
    "atexit fails": "import atexit\ndef bad(): raise ValueError('in atexit')\natexit.register(print, 'after')\natexit.register(bad)",
    "threads are joined": "import threading, time\ndef f():\n    time.sleep(0.2)\n    print('thread done')\nthreading.Thread(target=f).start()\nprint('main done')",
    "thread fails": "import threading\ndef f(): 1 / 0\nt = threading.Thread(target=f, name='T')\nt.start(); t.join()",
    "daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nx = object()\nprint('end')",
    "executor": "from concurrent.futures import ThreadPoolExecutor\ne = ThreadPoolExecutor(1)\nf = e.submit(print, 'from the pool')",
    "finalizers": "class A:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('del', s.n, helper())\ndef helper(): return 'help'\na = A(1)\nb = A(2)\n_c = A(3)",
    "finalizers in cycles": "class A:\n    def __init__(s): s.me = s\n    def __del__(s): print('del', x)\nx = 5\na = A()",
    "finalizers of the held": "import builtins\nclass A:\n    def __del__(s): print('del')\na = A()\ndef f(): return a\nbuiltins.held = f",
    "finalizers after an error": "class A:\n    def __del__(s): print('del')\ndef f():\n    a = A()\n    1 / 0\nf()",
    "file not closed": "f = open('written', 'w')\nf.write('content')\ndef g(): return f\n",
    "generator not closed": "def g():\n    try: yield 1\n    finally: print('closed')\nx = g()\nnext(x)",
    "excepthook": "import sys\ndef hook(t, v, tb): print('hook', t.__name__, v, tb.tb_lineno, tb.tb_next)\nsys.excepthook = hook\n1 / 0",
    "excepthook fails": "import sys\ndef hook(*a): raise KeyError('hook')\nsys.excepthook = hook\n1 / 0",
    "excepthook exits": "import sys\ndef hook(*a): sys.exit(9)\nsys.excepthook = hook\n1 / 0",
    "streams replaced": "import sys, io\nsys.stdout = io.StringIO()\nprint('lost')\nsys.stderr = open('/dev/null', 'w')\n1 / 0",
    "stdout closed": "import sys\nprint('kept')\nsys.stdout.close()",
    "stdout is full": "import os, sys\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('no room')",
    "stdout is gone": "import os\nos.close(1)\nprint('nowhere')",
    "stdin": "import sys\nprint(input('? '), sys.stdin.read(), sys.stdin)",
    "warnings": "import warnings\nwarnings.warn('careful')\ndef f(): warnings.warn('old', DeprecationWarning, stacklevel=2)\nf()",
    "await is no statement": "await x",
    "fork": "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')",
    "coding": "# -*- coding: latin-1 -*-\nprint(len('é'))",
    "future": "from __future__ import annotations\ndef f(x: y): pass\nprint(f.__annotations__)",
    "inspect": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getfile(f))",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
    "spawn": "import multiprocessing as mp\ndef f(): print('in', __name__, flush=True)\nif __name__ == '__main__':\n"
             "    p = mp.get_context('spawn').Process(target=f)\n    p.start(); p.join(); print(p.exitcode)",
    "helper module": "import helper\nprint(helper.x)",
    "asyncio": "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print('ran')\n    1 / 0\nasyncio.run(main())",
    "nothing of ours": "import sys\nprint([m for m in sys.modules if 'glovebox' in m], 'display' in dir(__builtins__))",
    "descriptors": "import os\nprint(os.listdir('/proc/self/fd'))",
    "signals": "import signal\nprint(signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGPIPE))",
}
if VERSION < (3, 12):  # later ones report it as if threads had failed
    PROGRAMS["exit large"] = "import sys\nsys.exit(1 << 70)"
if VERSION >= (3, 11):
    PROGRAMS["exception group"] = "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])"
HELPER = "class A:\n    def __del__(s): print('helper gone', x)\nx = 6\na = A()\nfile = open('from-helper', 'w')\nfile.write('flushed')\n"
ARGUMENTS = ["-x", "two words", ""]


def run_plain(directory, code, arguments):
    path = directory / "main.py"
    path.write_bytes(code)
    return subprocess.run([PYTHON, str(path), *arguments], input=b"a line\nthe rest", stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory,
                          env=clean_environ(), timeout=PATIENCE, check=False)


def run_script(directory, code, arguments, argv=None):
    """The same through the channel; the file is written by the runner."""
    path = directory / "main.py"
    path.unlink()
    read, write = os.pipe()
    os.write(write, b"a line\nthe rest")
    os.close(write)
    with Runner(("file", str(path).encode()), *[("arg", a.encode()) for a in arguments], mode=b"script", cwd=directory, argv=argv) as runner:
        runner.send("E", 1, code, descriptors=[read])
        os.close(read)
        out, err = runner.process.communicate(timeout=PATIENCE)
        assert runner.here.recv(1) == b""
    assert path.read_bytes() == code
    return subprocess.CompletedProcess([], runner.process.returncode, out, err)


def mask(text):
    """What differs from run to run: addresses, and how deep the stack was."""
    return re.sub(rb"0x[0-9a-f]+", b"0x", text)


def compare(directory, program, argv=None):
    code = PROGRAMS[program].encode("latin-1" if program == "coding" else "utf-8")
    (directory / "helper.py").write_text(HELPER)
    fresh = run_plain(directory, code, ARGUMENTS)
    files = {name: (directory / name).read_text() for name in ("written", "from-helper") if (directory / name).exists()}
    for name in files:
        (directory / name).unlink()
    ours = run_script(directory, code, ARGUMENTS, argv)
    assert mask(ours.stdout) == mask(fresh.stdout)
    assert mask(ours.stderr) == mask(fresh.stderr)
    assert ours.returncode == fresh.returncode
    assert {name: (directory / name).read_text() for name in files} == files


@pytest.mark.parametrize("program", PROGRAMS)
def test_script_is_what_python_does(tmp_path, program):
    compare(tmp_path, program)


def test_interrupt_of_a_script(tmp_path):
    with Runner(("file", str(tmp_path / "main.py").encode()), mode=b"script", cwd=tmp_path) as runner:
        runner.send("E", 1, b"import time\nprint('on', flush=True)\ntime.sleep(60)")
        runner.wait_for("on\n")
        runner.interrupt()
        _, err = runner.process.communicate(timeout=PATIENCE)
        assert runner.process.returncode == -signal.SIGINT and err.endswith(b"KeyboardInterrupt\n") and b"glovebox" not in err


def test_script_that_cannot_be_written(tmp_path):
    with Runner(("file", str(tmp_path / "none/main.py").encode()), mode=b"script", cwd=tmp_path) as runner:
        runner.send("E", 1, b"print(1)")
        out, err = runner.process.communicate(timeout=PATIENCE)
        assert (runner.process.returncode, out) == (2, b"") and b"No such file or directory" in err


def test_script_whose_standard_input_is_lost(tmp_path):
    """It is not run with an empty one."""
    with Runner(("file", str(tmp_path / "main.py").encode()), mode=b"script", cwd=tmp_path) as runner:
        _, hard = resource.prlimit(runner.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(runner.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        runner.start("print('ran')", stdin=b"data")
        out, err = runner.process.communicate(timeout=PATIENCE)
        assert (runner.process.returncode, out) == (2, b"") and b"standard input" in err and err.count(b"\n") == 1, err


# Children of a template. The fork is the C library's own: no hook that Python has for forks runs.

TEMPLATE = """
import sys
sys.path.insert(0, {directory!r})
import ctypes, importlib, glovebox_runner_warm, os
for name in {modules!r}:
    importlib.import_module(name)
fork = ctypes.PyDLL(None).fork
{before}
glovebox_runner_warm.prepare()
for channel in {channels!r}:
    if fork() == 0:
        glovebox_runner_warm.serve(channel)
    os.close(channel)
status = 0
for channel in {channels!r}:
    status |= os.wait()[1]
if status & 0x7f:
    import signal
    signal.signal(status, signal.SIG_DFL)
    os.kill(os.getpid(), status)
os._exit(status >> 8)
"""
STDLIB = ["random", "uuid", "tempfile", "ssl", "threading", "multiprocessing.synchronize", "logging", "asyncio"]


def template(*modules, before="", channels=(CHANNEL,)):
    return [PYTHON, "-c", TEMPLATE.format(directory=str(RUNNER.parent), modules=modules, channels=channels, before=before)]


class Child(Runner):
    """One of several children of a template, with a channel of its own."""

    def __init__(self, here):
        self.here, self.seq, self.buffer = here, 0, b""
        self.send("C", 0, pack([("mode", b"context"), ("result_count", b"9"), ("result_limit", b"100000")]))
        assert self.frame()[0] == "Y"

    def value(self, code):
        self.start(code)
        kind, seq, payload = self.frame()
        assert (kind, seq) == ("R", self.seq), payload
        assert self.frame()[0] == "D"
        return dict(unpack(payload))["text/plain"].decode()


# The template uses everything, so that there is a state to share.
USED = """
import random, uuid, tempfile, threading, multiprocessing, ssl
random.seed(1); random.gauss(0, 1); uuid.getnode(); next(tempfile._get_candidate_names()); ssl.RAND_bytes(1)
next(multiprocessing.synchronize.SemLock._rand)
if 'numpy' in sys.modules:
    import numpy
    numpy.random.seed(1); numpy.random.randn()
"""
ENTROPY = ["__import__('random').random()", "__import__('random').gauss(0, 1)", "next(__import__('tempfile')._get_candidate_names())",
           "bytes(__import__('multiprocessing').current_process().authkey)", "__import__('ssl').RAND_bytes(9)", "__import__('uuid').uuid4()",
           "next(__import__('multiprocessing').synchronize.SemLock._rand)", "__import__('random').SystemRandom().random()"]
NUMPY = ["__import__('numpy').random.rand()", "__import__('numpy').random.randn()", "__import__('numpy').random.default_rng().random()",
         "__import__('numpy').random.RandomState().rand()"]


# Every child is process 1 of a namespace of its own, and so is the template.
NAMESPACES = """
own = os.open('/proc/self/ns/pid', os.O_RDONLY)
def fork():
    libc = ctypes.PyDLL(None)
    assert libc.unshare(0x20000000) == 0
    pid = libc.fork()
    assert pid == 0 or libc.setns(own, 0x20000000) == 0
    return pid
assert os.getpid() == 1
"""


@pytest.mark.parametrize("same_ids", [False, True])
def test_children_share_no_randomness(same_ids):
    """same_ids: process ids tell nobody that there was a fork."""
    if same_ids and os.geteuid() != 0:
        pytest.skip("needs root, for process namespaces")
    modules = STDLIB + (["numpy"] if has_module("numpy") else [])
    channels = tuple(range(CHANNEL, CHANNEL + 4))
    pairs = [socket.socketpair() for _ in channels]
    for (_, there), channel in zip(pairs, channels):
        os.dup2(there.fileno(), channel, inheritable=True)
        there.close()
    argv = template(*modules, before=USED + NAMESPACES * same_ids, channels=channels)
    if same_ids:
        argv = ["unshare", "--pid", "--fork", *argv]
    process = subprocess.Popen(argv, pass_fds=channels, env=clean_environ())
    for channel in channels:
        os.close(channel)
    children = [Child(here) for here, _ in pairs]
    for expression in ENTROPY + (NUMPY if "numpy" in modules else []):
        values = [child.value(expression) for child in children]
        assert len(set(values)) == len(children), (expression, values)
    main = "__import__('threading').main_thread().native_id == __import__('os').getpid()"
    assert {child.value(main) for child in children} == {"True"}
    for child in children:
        child.here.close()
    assert process.wait(PATIENCE) == 0


def test_generators_of_a_child_are_sound():
    """Their states are written from outside: still the distribution that one expects, and seeds still work."""
    with Runner(argv=template("random", *(["numpy"] if has_module("numpy") else []))) as runner:
        assert abs(float(runner.good("import random\nsum(random.random() for _ in range(20000)) / 20000").value) - 0.5) < 0.02
        assert runner.good("random.seed(5)\nrandom.random() == random.Random(5).random()").value == "True"
        if has_module("numpy"):
            assert abs(float(runner.good("import numpy as np\nfloat(np.random.rand(20000).mean())").value) - 0.5) < 0.02
            assert runner.good("np.random.seed(5)\nbool(np.random.rand() == np.random.RandomState(5).rand())").value == "True"


@needs("matplotlib")
def test_prepared_matplotlib(tmp_path):
    with Runner(argv=template("matplotlib.pyplot"), environ={"MPLCONFIGDIR": str(tmp_path / "template")}) as runner:
        runner.run("pass")
        run = runner.good("import os\nos.environ['MPLCONFIGDIR'] = %r\nimport matplotlib.pyplot as plt, matplotlib\nplt.plot([1])\nplt.show()\n"
                          "matplotlib.get_configdir()" % str(tmp_path / "child"))
        assert len(run.of("P")) == 1 and run.value == repr(str(tmp_path / "child"))


@pytest.mark.parametrize("program", ["main", "path", "uncaught", "finalizers", "finalizers in cycles", "file not closed", "helper module", "threads are joined",
                                     "atexit", "stdin", "stdout is full", "interrupt", "exit message", "nothing of ours", "descriptors"])
def test_script_of_a_template(tmp_path, program):
    compare(tmp_path, program, template(*STDLIB))


def test_work_after_the_fork_is_short():
    modules = STDLIB + [name for name in ("pandas", "matplotlib.pyplot") if has_module(name)]
    measure = """
import os, time
glovebox_runner_warm.prepare()
assert not glovebox_runner_warm._Fresh.reseed, glovebox_runner_warm._Fresh.reseed
took = []
for _ in range(200):
    began = time.perf_counter()
    glovebox_runner_warm.after_fork()
    took.append(time.perf_counter() - began)
print(sorted(took)[100] * 1e6, flush=True)
os._exit(0)
"""
    out = subprocess.run(template(*modules, before=measure), stdout=subprocess.PIPE, env=clean_environ(), timeout=PATIENCE * 2, check=True).stdout
    assert float(out) < 200, out  # microseconds, and generous; what faults cost beside that is a matter of the fork
