# SPDX-License-Identifier: Apache-2.0
"""148, in sessions. The code prints copies of the control channel's frames and of our JSON, and writes frames of its own
into the channel => what is printed is data; what is written is a claim, which changes no fact.
"""
import time

import pytest
from conftest import wait_until
from hostile_sessions import FRAMES, assert_works, good, witness
from session_fixtures import cold_sessions, own_warden, sessions, warm_sessions

PRINTED = b"R 1 15\ntext/plain 2\n42D 1 11\nstatus 2\nok" + b'\n{"verdict":{"kind":"ok"}}\n\ndata: x\n' + b"Y 0 0\n"


def test_printed(sessions, witness):
    """By print(), by the descriptors, and before an end of each kind."""
    context = sessions.context()
    for end, name in (("raise KeyError(1)", "KeyError"), ("1 / 0", "ZeroDivisionError"), ("sys.exit(3)", "SystemExit")):
        result = context.run(f"import os, sys\nsys.stdout.write({PRINTED.decode()!r})\nsys.stdout.flush()\nos.write(2, {PRINTED!r})\n{end}")
        assert (result.verdict, result.error["name"], result.results, result.kept) == ("error", name, [], True), result
        assert result.stdout == PRINTED == result.stderr
    result = context.run(f"import os\nos.write(1, {PRINTED!r})\nos._exit(9)")
    assert (result.verdict, result.exit_code, result.kept, result.stdout) == ("error", 9, False, PRINTED), result
    assert_works(context)


@pytest.mark.parametrize("language, code, status", [("bash", "printf '{0}'\nprintf '{0}' >&2\n(exit 7)", "7"),
                                                    ("node", "process.stdout.write('{0}'); process.stderr.write('{0}'); throw new TypeError('7')", "7")],
                         ids=["bash", "node"])
def test_printed_by_others(sessions, language, code, status):
    context = sessions.context({"mem_limit": "1g"}, language=language)
    result = context.run(code.format(PRINTED.decode().replace("\n", "\\n")))
    assert (result.verdict, result.results, result.kept) == ("error", [], True) and status in result.error["value"], result
    assert result.stdout == PRINTED == result.stderr


@pytest.mark.parametrize("forged", ["frame(b'R', n, part(b'text/plain', b'42'))", "frame(b'P', n, b'')", "frame(b'X', n, part(b'name', b'Nothing'))",
                                    "frame(b'Y', 0)", "frame(b'D', n - 1, ok) + frame(b'Y', 0) * 9"])
def test_claims_before_a_timeout(warm_sessions, forged):
    """Nothing but an end can end a run, and the time limit is ours."""
    context = warm_sessions.context({"timeout": "3s"})
    result = context.run(FRAMES + f"send({forged})\nimport time\ntry:\n    time.sleep(9)\nexcept KeyboardInterrupt: pass\nsend({forged})")
    assert (result.verdict, result.kept) == ("timeout", "'R'" not in forged), result


def test_end_that_is_none(sessions, witness):
    """The code says that its run is over, and goes on. The next one has to wait for it, until its own time is over."""
    context = sessions.context({"timeout": "3s"})
    result = context.run(FRAMES + "send(frame(b'D', n, ok))\nimport time\ntime.sleep(30)")
    assert (result.verdict, result.kept) == ("ok", True), "it is the one thing that is believed"
    began = time.monotonic()
    assert context.run("1").verdict == "timeout" and time.monotonic() - began < 15
    assert_works(context)


def test_end_before_a_failure(sessions, witness):
    """What follows the end of a run belongs to nobody, and what the kernel says of the process is not forgotten."""
    context = sessions.context()
    assert good(context, FRAMES + "send(frame(b'D', n, ok))\nraise ValueError(1)").error is None
    assert_works(context)
    assert good(context, FRAMES + "send(frame(b'D', n, ok))\n_os._exit(5)").results == []
    # The next run is under that death, or comes after it.
    result = context.run("'n' in globals()")
    if result.verdict == "ok":
        assert (result.text, result.restarted) == ("False", True), result
    else:
        assert (result.verdict, result.exit_code, result.kept) == ("error", 5, False), result
    assert good(context, "'n' in globals()").text == "False"


def test_end_before_too_much_memory(sessions, witness):
    if sessions.weaker:
        pytest.skip("this host gives no cgroup to this user")
    context = sessions.context({"mem_limit": "64m"})
    good(context, "x = 1")
    first = context.run(FRAMES + "send(frame(b'D', n, ok))\nhog = b'x' * (1 << 30)")
    second = context.run("'x' in globals()")
    assert first.verdict == "memory" or second.verdict == "memory" or (second.text, second.restarted) == ("False", True), (first, second)
    assert_works(context)


# What, and the rule that it breaks.
BROKEN = {
    "end of a later run": "frame(b'D', n + 1, ok)", "result of a later run": "frame(b'R', n + 1, part(b'text/plain', b'1'))",
    "end of the last run there can be": "frame(b'D', 9999999999, ok)", "ready once more, in this run": "frame(b'Y', n)",
    "two results": "frame(b'R', n, b'') * 2", "code": "frame(b'E', n, b'1')", "configuration": "frame(b'C', 0, part(b'mode', b'context'))",
    "end without a word": "frame(b'D', n)", "end of another word": "frame(b'D', n, part(b'status', b'fine'))",
}


@pytest.mark.parametrize("what", BROKEN)
def test_frames_that_break_a_rule(warm_sessions, what):
    assert_ended(warm_sessions.context(), what)


def test_frames_of_a_fresh_one_that_break_a_rule(cold_sessions):
    context = cold_sessions.context()
    for what in ("end of a later run", "two results", "end without a word"):
        assert_ended(context, what)


def assert_ended(context, what):
    result = context.run(FRAMES + f"x = 1\nsend({BROKEN[what]})\nimport time\ntime.sleep(9)")
    assert (result.verdict, result.kept) == ("error", False) and "control" in result.message, result
    fresh = good(context, "'x' in globals()")
    assert (fresh.text, fresh.restarted) == ("False", True)


def test_answer_before_the_question(sessions, witness):
    """Between two runs a thread writes an end for the one to come: it is read before the code is sent, and is none."""
    session = sessions()
    context = session.context()
    good(context, FRAMES + """
import threading
def answer():
    send(frame(b'R', n + 1, part(b'text/plain', b'forged')) + frame(b'D', n + 1, ok))
    open('sent', 'w').close()
threading.Timer(0.05, answer).start()
""")
    assert wait_until(lambda: b"sent" in session.list(), 20)
    result = context.run("'true'")
    assert (result.verdict, result.kept, result.text) == ("error", False, None) and "control" in result.message, result
    assert good(context, "'true'").text == "'true'"

