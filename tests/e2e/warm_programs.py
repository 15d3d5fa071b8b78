# SPDX-License-Identifier: Apache-2.0
"""Programs whose output must be the same from a template and from a fresh exec: a program, or a program and how
it is run (args, stdin, opts).

Not here because they do differ: the frames below the program's own (sys._getframe(), and with them six levels of the
recursion limit; in the traceback of an atexit function that has no frame, too), the number of filters in
/proc/self/status, a mount below each private one, /run/runner, addresses.
"""

PROGRAMS = {
    "argv": ("import sys; print(sys.argv, sys.orig_argv)", {"args": ["a", "b c", "", "--flag", "-x=1", "é"]}),
    "no-arguments": "import sys; print(sys.argv)",
    "main": """
import sys, __main__
print(__name__, sys.modules["__main__"] is __main__, __main__.__dict__ is globals())
print(__doc__, __package__, __spec__, __file__, __builtins__, sorted(globals()))
print(type(__loader__).__name__, __annotations__, __cached__ if "__cached__" in globals() else "no __cached__")
""",
    "docstring": '"""The doc."""\nprint(__doc__)',
    "file": "print(__file__); print(open(__file__).read())",
    "inspect-source": """
import inspect
def f(x):
    return x + 1   # a comment
print(inspect.getsource(f), inspect.getfile(f), inspect.getsourcelines(f)[1])
""",
    "path": "import sys; print(sys.path, sys.path_hooks)",
    "executable": "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys.version, sys.implementation.cache_tag)",
    "cwd": "import os; print(os.getcwd(), os.listdir('.'), os.listdir('/sandbox'))",
    "environ": "import os; print(sorted(os.environ.items()))",
    "environ-policy": ("import os; print(sorted(os.environ.items()))", {"opts": ["--env", "A=1", "--env", "TZ=Asia/Tokyo", "--env", "B=x=y é"]}),
    "environ-child": ("import subprocess; print(subprocess.run('env | sort', shell=True, capture_output=True, text=True).stdout)",
                      {"opts": ["--env", "A=1"]}),
    "timezone": ("import time, datetime; print(time.tzname, time.timezone, datetime.datetime.fromtimestamp(0))",
                 {"opts": ["--env", "TZ=Asia/Tokyo"]}),
    "umask": "import os; m = os.umask(0); print(oct(m)); os.umask(m); open('f', 'w').close(); print(oct(os.stat('f').st_mode))",
    "descriptors": """
import os
for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        continue
    if not target.startswith("/proc/"):
        print(fd, target.partition(":")[0], os.get_inheritable(fd), os.get_blocking(fd))
""",
    "signals": """
import signal
for s in sorted(signal.valid_signals()):
    print(s, signal.getsignal(s))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending())
for line in open("/proc/self/status"):
    if line.startswith(("Sig", "Shd", "NoNewPrivs", "Seccomp", "Cap", "Uid", "Gid", "Groups", "Threads", "TracerPid")) and not line.startswith(("SigQ", "Seccomp_filters")):
        print(line.strip())
""",
    "limits": "import resource\nfor n in sorted(dir(resource)):\n    if n.startswith('RLIMIT'): print(n, resource.getrlimit(getattr(resource, n)))",
    "identity": "import os, getpass, pwd; print(os.getresuid(), os.getresgid(), os.getgroups(), getpass.getuser(), pwd.getpwuid(os.getuid()))",
    "process": """
import os
print(os.getpid() == os.getpgrp() == os.getsid(0), os.getppid(), os.nice(0), os.sched_getscheduler(0), os.sched_getaffinity(0))
print(open("/proc/self/oom_score_adj").read(), open("/proc/self/coredump_filter").read())
""",
    "processes": """
import os
for p in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
    print(open(f"/proc/{p}/comm").read().strip() if p != "1" else "init")
""",
    "tty": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.isatty(), s.encoding, s.errors, s.line_buffering, s.name, s.mode, s.newlines, s.write_through)",
    "stdin-empty": "import sys; print(repr(sys.stdin.read()), repr(sys.stdin.buffer.read()))",
    "stdin-text": ("import sys; print(repr(sys.stdin.read()))", {"stdin": "first\nsecond é\n".encode()}),
    "stdin-lines": ("import sys\nfor line in sys.stdin: print(repr(line))\nprint(input('more? '))", {"stdin": b"1\n2\n3"}),
    "stdin-large": ("import sys, hashlib; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())", {"stdin": bytes(range(256)) * 8192}),
    "stdin-unread": ("print('done')", {"stdin": b"x" * 300000}),
    "stdin-child": ("import subprocess; print(subprocess.run(['cat'], capture_output=True).stdout)", {"stdin": b"for the child"}),
    "stdin-descriptor": ("import os, stat; print(stat.S_ISFIFO(os.fstat(0).st_mode), os.read(0, 100))", {"stdin": b"raw"}),
    "output-order": "import sys, os\nprint('a'); sys.stdout.flush(); os.write(1, b'b\\n'); print('c', end='')",
    "output-both": "import sys; print('out'); print('err', file=sys.stderr); sys.stderr.write('no newline')",
    "output-bytes": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "output-large": "print('x' * 100 + '\\n', end='') if False else print('\\n'.join('line %d' % i for i in range(20000)))",
    "output-unicode": "print('é ü 漢字 \\U0001f600'); print('\\udc80'.encode('utf-8', 'surrogateescape'))",
    "output-surrogate": "print('\\udc80')",
    "output-closed": "import os; os.close(1); print('nobody')",
    "output-stream-closed": "import sys; sys.stdout.close()",
    "exit-0": "import sys; sys.exit()",
    "exit-3": "import sys; sys.exit(3)",
    "exit-300": "import sys; sys.exit(300)",
    "exit-negative": "import sys; sys.exit(-1)",
    "exit-text": "import sys; sys.exit('a message')",
    "exit-true": "raise SystemExit(True)",
    "exit-object": "raise SystemExit({'a': 1})",
    "exit-os": "import os; print('lost, in a buffer'); os._exit(7)",
    "exit-thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('thread'))).start(); print('main')",
    "exit-daemon-thread": "import threading, time\nthreading.Thread(target=lambda: time.sleep(100), daemon=True).start(); print('main')",
    "exit-quit": "quit(5)",
    "abort": "import os; os.abort()",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "killed-9": "import os; os.kill(os.getpid(), 9)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "sigint-own": "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('not reached')",
    "sigint-caught": "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    import time; time.sleep(1)\nexcept KeyboardInterrupt:\n    print('caught')",
    "sigpipe": "import os\nr, w = os.pipe(); os.close(r)\ntry:\n    os.write(w, b'x')\nexcept BrokenPipeError as e:\n    print(e)",
    "sigterm-handler": "import os, signal\nsignal.signal(signal.SIGTERM, lambda *a: print('handler', a[0])); os.kill(os.getpid(), 15); print('after')",
    "exception": "def f(n):\n    return g(n)\ndef g(n):\n    return 1 / n\nprint('before')\nf(0)",
    "exception-chain": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('other') from e",
    "exception-context": "try:\n    {}['a']\nexcept KeyError:\n    undefined_name",
    "exception-group": "raise ExceptionGroup('g', [ValueError(1), TypeError('x')])",
    "exception-note": "e = ValueError('x'); e.add_note('a note'); raise e",
    "exception-import": "import json\njson.loads('{')",
    "exception-hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[1])\n1/0",
    "exception-hook-fails": "import sys\ndef hook(*a):\n    raise RuntimeError('in the hook')\nsys.excepthook = hook\n1/0",
    "exception-thread": "import threading\nt = threading.Thread(target=lambda: 1/0, name='worker'); t.start(); t.join(); print('main goes on')",
    "exception-del": "class A:\n    def __del__(self): raise ValueError('in del')\nA()\nprint('after')",
    "exception-keyboard": "raise KeyboardInterrupt",
    "exception-recursion": "def f(): f()\nf()",
    "syntax-error": "print('a'\nx = = 1",
    "syntax-error-indent": "if True:\nprint(1)",
    "syntax-warning": "x = 1 is 1\nprint(x, '\\d')",
    "future": "from __future__ import annotations\ndef f(a: undefined): pass\nprint(f.__annotations__)",
    "coding": "# coding: utf-8\nprint('é')",
    "empty": "",
    "only-comment": "# nothing",
    "crlf": "print(1)\r\nprint('''a\r\nb''')\r\n",
    "flags": "import sys; print(sys.flags, sys.dont_write_bytecode, sys._xoptions, sys.warnoptions)",
    "warnings": "import warnings; print([f[:3] for f in warnings.filters]); warnings.warn('one'); warnings.warn('d', DeprecationWarning); warnings.warn('p', PendingDeprecationWarning)",
    "warnings-resource": "open('/dev/null'); import gc; gc.collect(); print('x')",
    "locale": "import locale, sys, os; print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), sys.getfilesystemencoding(), sys.getdefaultencoding(), locale.getlocale(), os.device_encoding(0))",
    "recursion-limit": "import sys; print(sys.getrecursionlimit(), sys.getswitchinterval())",
    "gc": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.garbage)",
    "hooks": "import sys; print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.breakpointhook is sys.__breakpointhook__, sys.unraisablehook is sys.__unraisablehook__, sys.gettrace(), sys.getprofile(), sys.ps1 if hasattr(sys, 'ps1') else None, sys.meta_path)",
    "displayhook": "5\nNone\n'not printed'",
    "builtins": "import builtins; print(sorted(n for n in dir(builtins)), hasattr(builtins, '_'), exit, quit, copyright is not None)",
    "modules-clean": "import sys; print([n for n in sys.modules if 'glovebox' in n], '__main__' in sys.modules)",
    "thread-main": "import threading, _thread; t = threading.main_thread(); print(t.name, t is threading.current_thread(), t.native_id == threading.get_native_id(), threading.active_count(), t.ident == _thread.get_ident())",
    "threads": "import concurrent.futures as c\nwith c.ThreadPoolExecutor(4) as p: print(list(p.map(lambda x: x * x, range(10))))",
    "multiprocessing-fork": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(2) as p: print(p.map(f, range(5)))",
    "multiprocessing-spawn": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as p: print(p.map(f, range(5)))",
    "multiprocessing-forkserver": "import multiprocessing as m\ndef f(q): q.put('child')\nif __name__ == '__main__':\n    c = m.get_context('forkserver'); q = c.Queue(); p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)",
    "process-pool": "import concurrent.futures as c\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with c.ProcessPoolExecutor(2) as p: print(list(p.map(f, range(4))))",
    "fork": "import os\nprint('before', flush=True)\npid = os.fork()\nif pid == 0:\n    print('child', flush=True)\n    raise SystemExit(4)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    "fork-exception": "import os\npid = os.fork()\nif pid == 0: raise ValueError('in the child')\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    "fork-random": "import os, random\nr, w = os.pipe()\nif os.fork() == 0:\n    os.write(w, str(random.random()).encode()); os._exit(0)\nos.wait(); print(os.read(r, 100).decode() != str(random.random()))",
    "exec": "import os; os.execvp('echo', ['echo', 'from', 'exec'])",
    "exec-self": "import os, sys\nif len(sys.argv) < 2:\n    os.execv(sys.executable, [sys.executable, __file__, 'again'])\nprint(sys.argv)",
    "subprocess": "import subprocess; p = subprocess.run(['sh', '-c', 'echo $$ >/dev/null; echo out; echo err >&2; exit 3'], capture_output=True, text=True); print(p.returncode, p.stdout, p.stderr)",
    "subprocess-python": "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.path, sys.flags.safe_path)'], capture_output=True, text=True))",
    "subprocess-fds": "import subprocess; print(subprocess.run('ls /proc/self/fd | wc -l', shell=True, capture_output=True, text=True, close_fds=False).stdout)",
    "subprocess-orphan": "import subprocess; subprocess.Popen(['sleep', '100']); print('main ends')",
    "tempfile": "import tempfile, os; print(tempfile.gettempdir()); f = tempfile.NamedTemporaryFile(); print(os.path.dirname(f.name)); d = tempfile.mkdtemp(); os.rmdir(d)",
    "tempfile-variable": ("import tempfile; print(tempfile.gettempdir())", {"opts": ["--env", "TMPDIR=/sandbox"]}),
    "atexit": "import atexit\natexit.register(print, 'first registered'); atexit.register(print, 'second registered'); print('body')",
    "atexit-exception": "import atexit\natexit.register(lambda: 1/0); atexit.register(print, 'ran'); print('body')",
    "finalizers": "class A:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('del', s.n)\na = A('global'); l = [A('in a list')]; c = A('cycle'); c.me = c; print('body')",
    "weakref-finalize": "import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'finalized'); print('body')",
    "unflushed-file": "import subprocess\nf = open('/sandbox/f', 'w'); f.write('data')\nimport atexit\natexit.register(lambda: print(repr(open('/sandbox/f').read())))",
    "import-workspace": "open('/sandbox/helper_of_mine.py', 'w').write('X = 42'); import helper_of_mine; print(helper_of_mine.X, helper_of_mine.__file__)",
    "import-missing": "import no_such_module_at_all",
    "import-runner": "import glovebox_runner",
    "pycache": "import os; open('m_of_mine.py', 'w').write('1'); import m_of_mine; print(os.listdir('.'))",
    "pickle-main": "import pickle\nclass P:\n    def __eq__(s, o): return True\np = pickle.dumps(P()); print(p, pickle.loads(p) == P())",
    "dataclass": "from dataclasses import dataclass, field\n@dataclass\nclass P:\n    x: int\n    y: list = field(default_factory=list)\nprint(P(1), P.__module__)",
    "enum-typing": "import enum, typing\nclass C(enum.Enum):\n    A = 1\nprint(C.A, repr(C.A), typing.get_type_hints(type('T', (), {'__annotations__': {'a': 'int'}})))",
    "asyncio": "import asyncio\nasync def main():\n    await asyncio.sleep(.01); print(await asyncio.gather(*[asyncio.sleep(.01, i) for i in range(3)]))\nasyncio.run(main())",
    "asyncio-policy": "import asyncio; print(type(asyncio.get_event_loop_policy()).__name__)",
    "logging": "import logging; logging.warning('w'); logging.getLogger('x').error('e'); print(logging.getLogger().handlers, logging.root.level)",
    "logging-config": "import logging; logging.basicConfig(level=logging.DEBUG, format='%(name)s %(levelname)s %(message)s'); logging.debug('d')",
    "argparse": ("import argparse\np = argparse.ArgumentParser(); p.add_argument('--n', type=int); p.add_argument('x'); print(p.parse_args())", {"args": ["--n", "3", "y"]}),
    "argparse-help": ("import argparse\np = argparse.ArgumentParser(description='d'); p.parse_args()", {"args": ["--help"]}),
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 1)\n    def test_b(self): self.fail('no')\nimport sys\nr = unittest.main(exit=False).result; print(r)\nsys.exit(3)",
    "sqlite": "import sqlite3; c = sqlite3.connect('/sandbox/d.db'); c.execute('create table t (x)'); c.execute('insert into t values (1)'); c.commit(); print(c.execute('select * from t').fetchall())",
    "decimal-context": "import decimal; print(decimal.getcontext())",
    "random-seeded": "import random; random.seed(5); print(random.random(), random.Random(1).random())",
    "clock": "import time; print(time.process_time() < 5, time.perf_counter() > 0, time.thread_time() < 5)",
    "rusage": "import resource; u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_utime)",
    "network": "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 80), 2)\nexcept OSError as e: print(e)\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname()); print('loopback'); print(socket.gethostname())",
    "files": "import os\nfor p in ['/', '/run/glovebox', '/dev', '/etc', '/dev/shm', '/tmp', '/home', '/proc/sys/kernel/hostname']:\n    try: print(p, sorted(os.listdir(p)))\n    except OSError as e: print(p, e.strerror)",
    "write-root": "import os\nfor p in ['/x', '/etc/x', '/usr/x', '/run/x', '/proc/x', '/dev/x', '/var/x']:\n    try: open(p, 'w'); print(p, 'written')\n    except OSError as e: print(p, e.strerror)",
    "name": ("print(__file__); raise ValueError", {"opts": ["--name", "prog ram.py"]}),
    "user": ("import os, pwd; print(os.getuid(), os.getgid(), pwd.getpwuid(os.getuid())); open('f', 'w'); print(os.stat('f').st_uid)", {"opts": ["--user", "1234:1235"]}),
    "timeout": ("import time; print('begin', flush=True); time.sleep(30)", {"opts": ["--timeout", "2s"]}),
    "timeout-busy": ("while True: pass", {"opts": ["--timeout", "300ms"]}),
    "cpu-time": ("while True: pass", {"opts": ["--cpu-time", "300ms"]}),
    "memory": ("x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1", {"opts": ["--memory", "64m"]}),
    "memory-child": ("import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 30)\\nfor i in range(0, len(x), 4096): x[i] = 1']); import time; time.sleep(3)", {"opts": ["--memory", "64m"]}),
    "pids": ("import os\nfor i in range(100):\n    if os.fork() == 0:\n        import time; time.sleep(10)", {"opts": ["--pids", "20"]}),
    "disk": ("open('f', 'wb').write(bytes(4 << 20))", {"opts": ["--disk", "1m"]}),
    "disk-tmp": ("open('/tmp/f', 'wb').write(bytes(80 << 20))", {"opts": ["--tmp-size", "1m"]}),
    "output-limit": ("while True: print('x' * 1000)", {"opts": ["--output-limit", "10k"]}),
    "syscall": "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); print(l.syscall(165, 0, 0, 0, 0, 0), os.strerror(ctypes.get_errno()))",
    "nofile": ("import os\nl = []\ntry:\n    while True: l.append(os.open('/dev/null', 0))\nexcept OSError as e: print(len(l), e.strerror)", {"opts": ["--nofile", "64"]}),
}
