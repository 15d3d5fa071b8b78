# SPDX-License-Identifier: Apache-2.0
"""157. Frames after the last, two ends, an end without one, an interpreter killed in the midst of a frame => the host decides by
what it sees itself, and a frame that is not whole is none.
"""
import time

import pytest
from hostile_sessions import FRAMES, assert_works, good, witness
from session_fixtures import own_warden, sessions


def test_after_the_end(sessions, witness):
    """They are dropped, with the end of their run, or before the next one begins."""
    context = sessions.context()
    for late in ("frame(b'D', n, part(b'status', b'error'))", "frame(b'R', n, part(b'text/plain', b'late'))", "frame(b'X', n, part(b'name', b'Late'))",
                 "frame(b'D', n, ok) * 50", "frame(b'P', n, part(b'text/plain', b'x' * 100000))"):
        first = good(context, FRAMES + f"send(frame(b'R', n, part(b'text/plain', b'first')) + frame(b'D', n, ok) + {late})")
        assert (first.text, first.error, len(first.results)) == ("first", None, 1), (late, first)
        second = good(context, "'second'")
        assert (second.text, second.error, len(second.results)) == ("'second'", None, 1), (late, second)


def test_two_ends(sessions, witness):
    """The first counts; the second is of a run that is over."""
    context = sessions.context()
    result = context.run(FRAMES + "send(frame(b'D', n, part(b'status', b'error')) + frame(b'D', n, ok))")
    assert (result.verdict, result.kept) == ("error", True), result
    assert_works(context)
    result = context.run(FRAMES + "send(frame(b'D', n, part(b'status', b'error') + ok))")
    assert result.verdict == "error", "the first of two words"
    assert_works(context)


def test_without_an_end(sessions, witness):
    """The runner is made to wait for ever: the time limit ends it."""
    context = sessions.context({"timeout": "3s"})
    result = context.run(FRAMES + "send(frame(b'R', n, part(b'text/plain', b'1')))\nimport signal, time\ntime.sleep(60)")
    assert (result.verdict, result.text) == ("timeout", "1"), result
    assert_works(context)


# What is in the channel when the interpreter dies.
CUT = {
    "line": "b'D %d 1' % n", "end": "frame(b'D', n, ok)[:-1]", "value": "frame(b'R', n, part(b'text/plain', b'x' * 1000))[:-1]",
    "kind": "b'D'", "part": "b'R %d 20\\ntext/plain 100\\n' % n", "nothing": "b''",
}


@pytest.mark.parametrize("what", CUT)
def test_killed_in_a_frame(sessions, what):
    context = sessions.context()
    for end, status in (("_os.kill(_os.getpid(), 9)", (-1, 9)), ("_os._exit(3)", (3, 0))):
        result = context.run(FRAMES + f"data = {CUT[what]}\nif data: send(data)\n{end}")
        assert (result.verdict, result.exit_code, result.signal, result.kept, result.results) == ("error", *status, False, []), result
        assert good(context, "'data' in globals()").text == "False", "the fresh interpreter has a fresh channel"


def test_whole_frames_of_the_dead(sessions, witness):
    """Claims that came before the death are shown; the death is the verdict."""
    context = sessions.context()
    claims = "frame(b'R', n, part(b'text/plain', b'42')) + frame(b'X', n, part(b'name', b'Mine'))"
    result = context.run(FRAMES + f"send({claims})\n_os.kill(_os.getpid(), 9)")
    assert (result.verdict, result.signal, result.text, result.kept) == ("error", 9, "42", False), result


def test_end_and_death(sessions, witness):
    """An end, and then the process dies at once: either is the end of the run, and the next one is told that all is new."""
    context = sessions.context()
    for _ in range(20 if sessions.is_warm else 5):
        first = context.run(FRAMES + "x = 1\nsend(frame(b'D', n, ok))\n_os.kill(_os.getpid(), 9)")
        assert (first.verdict, first.signal) in (("ok", 0), ("error", 9)), first
        second = context.run("'x' in globals()")
        if second.verdict != "ok":  # it died under this one
            assert (second.verdict, second.signal, second.kept) == ("error", 9, False), second
            second = context.run("'x' in globals()")
        assert (second.verdict, second.text) == ("ok", "False") and (second.restarted or not first.kept), (first, second)


def test_many_at_once(sessions, witness):
    """Three contexts of one session with three kinds of lies at the same time: each has its own channel."""
    session = sessions({"timeout": "2s"})
    contexts = [session.context() for _ in range(3)]
    codes = ["send(frame(b'D', n + 1, ok))\nimport time\ntime.sleep(5)", "send(frame(b'D', n, ok)[:-1])\n_os._exit(3)", "import time\ntime.sleep(0.1)\n'true'"]
    runs = [context.start(FRAMES + code) for context, code in zip(contexts, codes)]
    first, second, third = [run.join(10) for run in runs]
    assert (first.verdict, first.kept) == ("error", False) and "control" in first.message, first
    assert (second.verdict, second.exit_code) == ("error", 3), second
    assert (third.verdict, third.text, third.kept) == ("ok", "'true'", True), third
