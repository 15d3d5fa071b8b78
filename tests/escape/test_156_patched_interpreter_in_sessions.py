# SPDX-License-Identifier: Apache-2.0
"""156, in sessions. The code patches json, streams, builtins, os, exits, hooks and the runner's own objects => the host's facts
(exit status, signal, limits) do not change, and no run is called better than it was.
"""
import pytest
from hostile_sessions import FRAMES, assert_works, cancel_after, good, witness
from session_fixtures import cold_sessions, own_warden, sessions, warm_sessions

PATCHES = {
    "json": "import json\njson.dumps = json.loads = lambda *a, **k: '{\"verdict\":{\"kind\":\"ok\"}}'",
    "builtins": "import builtins\nfor name in dir(builtins):\n    if name not in ('__build_class__', '__import__', 'BaseException', 'Exception', 'SystemExit', 'KeyboardInterrupt'):\n"
                "        try: setattr(builtins, name, lambda *a, **k: 0)\n        except Exception: pass",
    "exceptions": "import builtins\nbuiltins.Exception = builtins.BaseException = builtins.KeyboardInterrupt = builtins.SystemExit = builtins.OSError = int",
    "os": "import os\nfor name in ('write', 'read', '_exit', 'kill', 'getpid', 'close', 'dup2', 'urandom'): setattr(os, name, lambda *a, **k: 0)",
    "posix": "import posix\nfor name in ('write', 'read', '_exit', 'kill', 'getpid', 'close', 'dup2'): setattr(posix, name, lambda *a, **k: 0)",
    "socket": "import _socket, socket\n_socket.socket = socket.socket = None",
    "signals": "import signal, _signal\nsignal.signal = _signal.signal = _signal.default_int_handler = lambda *a: None",
    "sys": "import sys\nsys.exit = sys.displayhook = sys.excepthook = sys.unraisablehook = lambda *a: None\nsys.stdout = sys.stderr = sys.stdin = None\nsys.argv = sys.path = sys.meta_path = sys.path_hooks = []",
    "modules": "import sys\nsys.modules.clear()",
    "modules are lies": "import sys\nfor name in list(sys.modules): sys.modules[name] = None",
    "trace": "import sys, threading\ndef trace(frame, event, arg):\n    frame.f_trace_opcodes = True\n    return trace\nsys.settrace(trace); sys.setprofile(trace); threading.settrace(trace)",
    "trace that raises": "import sys\ndef trace(*a): raise SystemExit(0)\nsys.settrace(trace)",
    "collector": "import gc\ngc.callbacks.append(lambda *a: 1 / 0)\ngc.set_threshold(1, 1, 1)",
    "at the exit": "import atexit, os\natexit.register(os._exit, 0)",
    "recursion": "import sys\nsys.setrecursionlimit(60)",
    "switching": "import sys\nsys.setswitchinterval(1000)",
    "traceback": "import traceback, linecache\ntraceback.TracebackException = traceback.format_exception = None\nlinecache.cache = linecache.getline = 7",
    "codecs": "import codecs, encodings\ncodecs.lookup = encodings.search_function = lambda *a: None\nencodings._cache.clear()",
    "audit": "import sys\nsys.addaudithook(lambda *a: None)",
    "asyncio": "import asyncio\nasyncio.new_event_loop = asyncio.set_event_loop = None",
}
HANDS = "import ctypes as _c\n_libc = _c.CDLL(None)\n"  # no patch of Python is in the way of these
# What the kernel tells cannot be patched: code, and verdict, exit code and signal.
ENDS = [("_libc._exit(7)", ("error", 7, 0)), ("_libc.kill(_libc.getpid(), 9)", ("error", -1, 9)), ("_libc.sleep(30)", ("timeout", -1, 0))]
WATCHED = ("builtins", "os", "signals", "sys", "trace", "collector")  # the time limit as well
SELF_HARM = ("traceback",)  # may fail before it gets there


@pytest.mark.parametrize("what", PATCHES)
def test_facts_do_not_change(warm_sessions, what):
    assert_facts_stay(warm_sessions({"timeout": "2s"}), what)


@pytest.mark.parametrize("what", ["builtins", "os", "sys", "modules"])
def test_facts_do_not_change_in_a_fresh_one(cold_sessions, what):
    assert_facts_stay(cold_sessions({"timeout": "2s"}), what)


def assert_facts_stay(session, what):
    context = session.context()
    for end, facts in ENDS if what in WATCHED else ENDS[:2]:
        good(context, HANDS)
        context.run(PATCHES[what])
        result = context.run(end)
        honest = (result.verdict, result.exit_code, result.signal) == facts
        assert honest or (what in SELF_HARM and result.verdict == "error" and result.error), result
        context.restart()
    assert_works(session.context())


def test_memory_verdict(sessions, witness):
    if sessions.weaker:
        pytest.skip("this host gives no cgroup to this user")
    context = sessions.context({"mem_limit": "64m"})
    for what in ("builtins", "os", "sys", "modules", "trace"):
        result = context.run(f"exec({PATCHES[what]!r})\nb'x' * (1 << 30)")
        assert (result.verdict, result.kept) == ("memory", False), (what, result)
    assert_works(context)


# The runner's own objects lie in the same heap, and gc finds them.
TAKEN_OVER = """
import gc, sys
gc.unfreeze()
for thing in gc.get_objects():
    kind = type(thing)
    if getattr(kind, '__module__', '').startswith('glovebox_runner') or (isinstance(thing, dict) and str(thing.get('__name__')).startswith('glovebox_runner')):
        found.append(thing)
"""


def test_runner_is_taken_over(sessions, witness):
    """Every function of it is replaced by one that says that all is well. It may call its runs what it wants; the kernel's
    word on them is not its own."""
    session = sessions()
    context = session.context()
    good(context, HANDS + "found = []" + TAKEN_OVER)
    assert int(good(context, "len(found)").text) > 3, "the attack found nothing"
    lie = FRAMES + """
def lie(self, seq, *a): return frame(b'D', int(seq), ok)
for thing in found:
    if type(thing).__name__ == 'Context':
        type(thing).run = lie
    if type(thing).__name__ == 'Results':
        type(thing).represent = type(thing).fit = lambda *a: None
"""
    good(context, lie)
    lied = context.run("raise ValueError('never run')")
    assert (lied.verdict, lied.kept, lied.results, lied.error) == ("ok", True, [], None), "the attack has no hold of the runner"
    context.restart()
    assert context.run("1 / 0").error["name"] == "ZeroDivisionError", "a fresh interpreter is honest"
    # With a hold of it, the ends that the kernel sees are told as they are.
    for end, facts in (("_libc._exit(7)", ("error", 7, 0)), ("_libc.kill(_libc.getpid(), 11)", ("error", -1, 11)),
                       ("_libc.sleep(9)", ("cancelled", -1, 9))):
        context.restart()
        good(context, HANDS + "found = []" + TAKEN_OVER)
        good(context, FRAMES + f"def bad(self, seq, *a): {end}\nfor thing in found:\n    if type(thing).__name__ == 'Context': type(thing).run = bad")
        with cancel_after(0.15 if facts[0] == "cancelled" else 20) as cancel:
            result = context.run("1", cancel_fd=cancel)
        assert ((result.verdict, result.exit_code, result.signal), result.kept) == (facts, False), (end, result)
    assert_works(session.context())


def test_numbers_of_runs_are_forged(sessions, witness):
    """The runner answers with the number of another run: of an earlier one it is dropped, of a later one it ends it."""
    for change, expected in (("b'%d' % (int(seq) + 1)", "error"), ("b'-1'", "error"), ("b'1e3'", "error"), ("b' '", "error"),
                             ("b'%d' % (int(seq) - 1)", "cancelled")):
        context = sessions.context()
        good(context, "found = []" + TAKEN_OVER)
        good(context, f"old = [type(t) for t in found if type(t).__name__ == 'Context'][0]\nrun = old.run\ndef forged(self, seq, code):\n    seq = {change}\n    frames = run(self, seq, code)\n"
                      "    self.done = self.done or b'D %b 11\\nstatus 2\\nok' % seq\n    return frames\nold.run = forged")
        with cancel_after(0.15 if expected == "cancelled" else 20) as cancel:
            result = context.run("1", cancel_fd=cancel)
        assert result.verdict == expected and result.text is None, (change, result)
        context.session.close()
