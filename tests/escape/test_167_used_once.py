# SPDX-License-Identifier: Apache-2.0
"""167. A session ends by an error, a timeout, a cancel, a crash or well, and others are opened after it => none that was used is
ever handed out again: nothing of a session before is seen in a hundred that follow.
"""
import itertools
import json
import os

from hostile_sessions import cancel_after, good
from session_fixtures import own_warden, warm_sessions

# What a session before could have left: each is looked for, then left.
MARKS = f"NICE = {os.nice(0)}\n" + """
import builtins, ctypes, gc, json, os, signal, socket, sys
libc = ctypes.CDLL(None)
found = []
def mark(name, present, leave):
    try:
        if present(): found.append(name)
    except (OSError, AttributeError, KeyError): pass
    try: leave()
    except OSError as e: found.append('%s cannot be left: %r' % (name, e))
def abstract():
    with socket.socket(socket.AF_UNIX) as s: s.connect('\\0marked'); return True
def listen():
    global held
    held = socket.socket(socket.AF_UNIX); held.bind('\\0marked'); held.listen()
mark('variable', lambda: 'marked' in globals() or hasattr(builtins, 'marked') or 'marked' in sys.modules, lambda: (globals().__setitem__('marked', 1), setattr(builtins, 'marked', 1), sys.modules.__setitem__('marked', sys)))
mark('environment', lambda: 'MARKED' in os.environ, lambda: os.environ.__setitem__('MARKED', '1'))
for place in ('/sandbox', '/tmp', '/dev/shm', '/run/glovebox'):
    mark(place, lambda: os.path.exists(place + '/marked') or [n for n in os.listdir(place) if n != 'marked'], lambda: open(place + '/marked', 'w').close())
mark('abstract socket', abstract, listen)
mark('port', lambda: socket.create_connection(('127.0.0.1', 4242), 1), lambda: globals().__setitem__('port', socket.create_server(('127.0.0.1', 4242))))
mark('segment', lambda: libc.shmget(4242, 4096, 0) >= 0, lambda: libc.shmget(4242, 4096, 0o1666))
mark('semaphore', lambda: libc.semget(4242, 1, 0) >= 0, lambda: libc.semget(4242, 1, 0o1666))
mark('processes', lambda: [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()], lambda: None)
mark('directory', lambda: os.getcwd() != '/sandbox', lambda: (os.mkdir('/tmp/d'), os.chdir('/tmp/d')))
mark('mask', lambda: os.umask(0o777) != 0o22, lambda: None)
mark('handler', lambda: signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL, lambda: signal.signal(signal.SIGUSR1, print))
mark('blocked', lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]), lambda: None)
mark('priority', lambda: os.nice(5) != NICE + 5, lambda: None)
if os.fork() == 0: os.execvp('sleep', ['sleep', '1000'])
print(json.dumps([found, os.getpid(), id(gc)]), flush=True)
"""
ENDS = ["1", "1 / 0", "import time\ntime.sleep(30)", "os._exit(3)", "os.kill(os.getpid(), 11)", "os.write(20, b'nonsense')", "sys.exit(1)", "CANCEL", "import threading\nthreading.Timer(0.01, os._exit, (1,)).start()", "RESTART"]


def test_hundred_sessions(warm_sessions):
    verdicts = set()
    for n, end in zip(range(100), itertools.cycle(ENDS)):
        # Those that time out cost their time.
        if "sleep" in end and n > 20:
            end = "1"
        with warm_sessions({"timeout": "3s"} if "sleep" in end else None) as session:
            context = session.context()
            found, pid, _ = json.loads(good(context, MARKS).out)
            assert found == [], (n, found)
            if end == "CANCEL":
                with cancel_after(0.01) as cancel:
                    verdicts.add(context.run("import time\ntime.sleep(30)", cancel_fd=cancel).verdict)
            elif end == "RESTART":
                context.restart()
            else:
                verdicts.add(context.run(end).verdict)
        warm_sessions.opened.remove(session)
    assert verdicts == {"ok", "error", "timeout", "cancelled"}, verdicts


def test_marks_are_found(warm_sessions):
    """In the same session all of them are: the test above looks for what is there."""
    session = warm_sessions()
    good(session.context(), MARKS)
    found = json.loads(good(session.context(), MARKS + "\n").out)[0]
    wanted = {"/sandbox", "/tmp", "/dev/shm", "/run/glovebox", "abstract socket", "port", "segment", "semaphore"}
    missed = wanted - {name.split(" cannot")[0] for name in found}
    assert not missed, missed
