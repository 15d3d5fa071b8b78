# SPDX-License-Identifier: Apache-2.0
"""159, in sessions. A fork answers in its parent's place, by coming back into the runner, and by frames of its own => by
itself it says nothing; and what ends the run is the parent's process, in the kernel's word.
"""
from hostile_sessions import FRAMES, assert_works, cancel_after, good, witness
from session_fixtures import own_warden, sessions


def test_fork_that_comes_back(sessions, witness):
    """os.fork() returns twice into the runner: one answer, one value, and the child ends as a script would."""
    context = sessions.context()
    result = good(context, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'")
    assert (result.text, len(result.results)) == ("'parent'", 1), result
    result = context.run("pid = os.fork()\nif pid == 0: raise KeyError('child')\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\nraise ValueError('parent')")
    assert (result.error["name"], result.out) == ("ValueError", "1\n") and "KeyError" in result.err, result
    # Sixteen of them.
    result = good(context, "for i in range(4): os.fork()\n1")
    assert result.text == "1" and len(result.results) == 1, result
    assert_works(context)


def test_many_forks_in_expressions(sessions, witness):
    context = sessions.context()
    result = good(context, "import os\n[os.fork() for i in range(3)]\n'once'")
    assert [v["parts"]["text/plain"] for v in result.results] == [b"'once'"], result
    assert_works(context)


# The runner's hook closes the channel in a child of os.fork(). Hostile code forks without it.
RAW = FRAMES + """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
def fork(): return libc.syscall({fork}, 17, 0, 0, 0, 0)
""".replace("{fork}", "220 if _os.uname().machine == 'aarch64' else 56")


def test_child_writes_the_end(sessions, witness):
    """The child says that all is well while its parent works: that is believed as the parent's own word would be, and what the
    parent does then, it does in nobody's run. What the kernel says of the parent is believed first."""
    context = sessions.context({"timeout": "5s"})
    early = context.run(RAW + "child = fork()\nif child == 0:\n    send(frame(b'D', n, ok))\n    _os._exit(0)\n_os.waitpid(child, 0)\ntime.sleep(0.3)\n'late'")
    assert (early.verdict, early.text) == ("ok", None), early
    assert good(context, "'next'").text == "'next'", "the late value is of the run before"
    # The parent is dead before the child speaks.
    for end, facts in (("_os._exit(7)", ("error", 7, 0)), ("_os.kill(_os.getpid(), 9)", ("error", -1, 9))):
        result = context.run(RAW + f"parent = _os.getpid()\nif fork() == 0:\n    while _os.getppid() == parent: time.sleep(0.002)\n    time.sleep(0.2)\n    send(frame(b'D', n, ok))\n    _os._exit(0)\n{end}")
        assert ((result.verdict, result.exit_code, result.signal), result.kept) == (facts, False), result
    assert_works(context)


def test_child_speaks_for_the_dead(sessions, witness):
    """The interpreter is dead, its child goes on and holds the channel: it cannot answer for runs to come."""
    context = sessions.context({"timeout": "5s"})
    code = "if fork() == 0:\n    for i in range(200):\n        time.sleep(0.002)\n        try: send(frame(b'D', n + 1, ok) + frame(b'D', n, ok))\n        except OSError: break\n    _os._exit(0)\n_os._exit(7)"
    result = context.run(RAW + code)
    assert (result.verdict, result.exit_code, result.kept) == ("error", 7, False), result
    for i in range(5):
        result = good(context, f"{i}")
        assert (result.text, result.restarted) == (str(i), i == 0), result


def test_child_reads_the_code(sessions, witness):
    """A child without the hook takes the next code out of the channel before its parent does. It can run it, as any code of the
    same box could; its answer is one of this context, and nobody else's."""
    context = sessions.context({"timeout": "3s"})
    good(context, RAW + "if fork() == 0:\n    stolen = _os.read(20, 100)\n    send(frame(b'R', n + 1, part(b'text/plain', b'forged')) + frame(b'D', n + 1, ok))\n    _os._exit(0)")
    result = context.run("'true'")
    assert (result.verdict, result.text) in (("ok", "forged"), ("ok", "'true'"), ("error", None)), result
    context.restart()
    assert_works(context)


def test_parent_that_stops(sessions, witness):
    """The parent stops itself, and its child answers: the run is over, and the next one finds nobody."""
    context = sessions.context()
    result = context.run(RAW + "if fork() == 0:\n    time.sleep(0.05)\n    send(frame(b'D', n, ok))\n    _os._exit(0)\n_os.kill(_os.getpid(), 19)")
    assert result.verdict == "ok", result
    with cancel_after(0.1) as cancel:
        stopped = context.run("1", cancel_fd=cancel)
    assert (stopped.verdict, stopped.kept, stopped.text) == ("cancelled", False, None), stopped
    assert_works(context)


def test_other_context_of_the_session(sessions, witness):
    """Contexts of one session are separate: the channel of one cannot be opened by the other."""
    session = sessions()
    first, second = session.context(), session.context()
    pid = good(first, "import os\nos.getpid()").text
    code = f"""
import os
for path in ('/proc/{pid}/fd/20', '/proc/{pid}/mem', '/proc/{pid}/fd', '/proc/{pid}/environ', '/proc/{pid}/root'):
    try:
        os.listdir(path) if path.endswith(('fd', 'root')) else os.open(path, os.O_RDWR)
        print('open', path)
    except OSError as e: print('refused')
for sig in (0, 2, 9, 19):
    try: print('open', os.kill({pid}, sig))
    except OSError as e: print('refused')
"""
    assert good(second, code).out == "refused\n" * 9
    assert good(first, "os.getpid()").text == pid
