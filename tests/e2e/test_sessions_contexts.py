# SPDX-License-Identifier: Apache-2.0
"""Contexts of a session: languages, their life, interrupts, time limits, runs that overlap; programs beside them."""
import errno
import os
import shutil
import time

import pytest
from session_fixtures import own_warden, sessions
from sessions import Refused, Running

# From the interrupt to the kill there are two seconds; a busy machine gets some more.
GRACE, SLACK = 2.0, 8.0  # seconds until code is killed; and that a busy machine may take

has_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


def good(context, code, **options):
    result = context.run(code, **options)
    assert (result.verdict, result.kept) == ("ok", True), result
    return result


def refused(function, *args):
    with pytest.raises(Refused) as caught:
        function(*args)
    return caught.value


# Languages

def test_bash(sessions):
    context = sessions.context(language="bash")
    good(context, "mkdir -p d && cd d; x='a  b'; declare -A map=([k]=v); f() { echo \"f:$1:$x\"; }; export E=1; shopt -s nullglob")
    result = good(context, "pwd; f 1; echo ${map[k]} *.none; sh -c 'echo $E'; echo err >&2")
    assert (result.out, result.err) == ("/sandbox/d\nf:1:a  b\nv\n1\n", "err\n")
    failed = context.run("false")
    assert (failed.verdict, failed.kept) == ("error", True), failed
    assert good(context, "read a b; echo $b-$a; cat", stdin=b"1 2\nrest").out == "2-1\nrest"
    assert good(context, "cat").out == ""


@has_node
def test_node(sessions):
    context = sessions({"mem_limit": "1g"}).context("javascript")
    good(context, "var x = 20; let y = 22; const f = (n) => n + x; globalThis.z = 1; class A { b() { return 'b' } }")
    result = good(context, "console.log(f(y), z, new A().b()); f(y)")
    assert result.out == "42 1 b\n" and result.text == "42"
    failed = context.run("null.x")
    assert (failed.verdict, failed.kept, failed.error["name"]) == ("error", True, "TypeError")
    assert good(context, "await new Promise((done) => setTimeout(() => done('waited'), 20))").text == "'waited'"


ADDER = r"""
#include <stdio.h>
int main(int argc, char **argv)
{
        int a, b, c;
        fscanf(fopen(argv[1], "r"), "%d%d%d", &a, &b, &c);
        printf("%d\n", a + b + c);
        fputs("from c", fopen("sub/c", "w"));
        return argc;
}
"""


def test_programs_in_the_workspace(sessions):
    session = sessions({"mem_limit": "1g"})
    python, bash = session.context(), session.context("bash")
    good(python, "open('numbers', 'w').write('1 2 3')\nimport os\nos.mkdir('sub')")
    c = session.run("c", ADDER, args=["numbers"])
    assert (c.verdict, c.exit_code, c.out, c.json["context"]) == ("error", 2, "6\n", None), c
    assert session.run("sh", "cat numbers sub/c; read x; echo $x \"$1\"", args=["a b"], stdin=b"in\n").out == "1 2 3from cin a b\n"
    assert session.run("perl", "print -e 'sub/c' ? 'seen' : 'not'").out == "seen"
    assert session.run("python", "import sys\nprint(sys.argv[1:], open('numbers').read())\nsys.exit(4)", args=["x"]).json["exit_code"] == 4
    assert good(bash, "cat sub/c; echo more >> numbers").out == "from c"
    assert good(python, "open('numbers').read()").text == "'1 2 3more\\n'"
    compile_error = session.run("c", "int main(void) { return oops; }")
    assert (compile_error.verdict, compile_error.json["phase"]) == ("error", "compile") and b"oops" in compile_error.stderr


def test_program_has_its_own_limit_of_time(sessions):
    session = sessions({"timeout": "300ms"})
    began = time.monotonic()
    result = session.run("sh", "echo begun; sleep 30")
    assert (result.verdict, result.out) == ("timeout", "begun\n") and time.monotonic() - began < 0.3 + SLACK
    assert session.run("sh", "echo next").out == "next\n"


# The life of a context

def test_contexts_are_apart(sessions):
    session = sessions()
    first, second = session.context(), session.context()
    assert first.id != second.id and first.id.isdigit()
    good(first, "x = 1")
    assert second.run("x").error["name"] == "NameError"
    assert good(first, "x").json["context"] == first.id
    assert good(second, "2").json["session"] == session.id
    first.close()
    assert good(second, "2").text == "2"
    third = session.context()
    assert third.id not in (first.id, second.id) and good(third, "3").text == "3"


def test_languages_without_contexts_and_their_number(sessions):
    session = sessions({"pids_limit": "256"})
    error = refused(session.context, "c")
    assert error.errnum == errno.ENOTSUP and "no contexts" in error.message
    assert refused(session.context, "nonsense").code == "not_found"
    contexts = [session.context("bash") for _ in range(32)]
    assert refused(session.context, "bash").code == "limit"
    contexts[7].close()
    assert good(session.context("bash"), "echo last").out == "last\n"


def test_list(sessions):
    session = sessions()
    first, second = session.context("python"), session.context("bash")
    good(first, "1")
    assert first.run("import os\nos._exit(3)").exit_code == 3
    assert session.list_contexts() == [
        {"id": first.id, "language": "python", "alive": False, "busy": False, "runs": 2},
        {"id": second.id, "language": "bash", "alive": True, "busy": False, "runs": 0}]
    second.close()
    assert [context["id"] for context in session.list_contexts()] == [first.id]


def test_restart(sessions):
    context = sessions.context()
    good(context, "x = 1\nopen('f', 'w').write('kept')")
    context.restart()
    fresh = context.run("x")
    assert (fresh.error["name"], fresh.restarted, fresh.kept) == ("NameError", False, True), "the caller asked for it"
    assert good(context, "open('f').read()").text == "'kept'"


def test_one_run_at_a_time(sessions):
    context = sessions.context()
    running = context.start("import time\nprint('on', flush=True)\ntime.sleep(30)")
    running.wait_for("stdout")
    for function, args in ((context.run, ("1",)), (context.restart, ()), (context.close, ())):
        error = refused(function, *args)
        assert error.errnum == errno.EBUSY and f"context {context.id} runs something already" in error.message
    context.interrupt()
    assert running.join().verdict == "cancelled"
    assert good(context, "1").text == "1"


def test_runs_of_two_contexts_overlap(sessions):
    session = sessions()
    contexts = [session.context(), session.context(), session.context("bash")]
    # Each goes on only when all have begun.
    python = "import os, time\nopen('{0}', 'w').close()\nwhile not all(map(os.path.exists, '012')): time.sleep(0.005)\n'met'"
    bash = "touch 2; until [ -e 0 ] && [ -e 1 ]; do sleep 0.01; done; echo met"
    running = [contexts[0].start(python.format(0)), contexts[1].start(python.format(1)), contexts[2].start(bash), session.start("sh", bash)]
    assert [r.join().verdict for r in running] == ["ok"] * 4
    assert running[0].value.text == running[1].value.text == "'met'" and running[2].value.out == running[3].value.out == "met\n"


# Interrupts and time

def test_interrupt_keeps_the_state(sessions):
    context = sessions.context()
    assert refused(context.interrupt).errnum == errno.ESRCH
    good(context, "import time\nx = 1")
    for code in ("while True: pass", "time.sleep(30)", "import asyncio\nawait asyncio.sleep(30)", "import subprocess\nsubprocess.run(['sleep', '30'])",
                 "import threading\nthreading.Event().wait()", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')"):
        running = context.start("x += 1\nprint('on', flush=True)\n" + code)
        running.wait_for("stdout")
        asked = time.monotonic()
        context.interrupt()
        result = running.join()
        assert (result.verdict, result.kept, result.error["name"]) == ("cancelled", True, "KeyboardInterrupt"), (code, result)
        assert time.monotonic() - asked < SLACK, code
    again = good(context, "x")
    assert (again.text, again.restarted) == ("7", False)
    caught = context.start("print('on', flush=True)\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('cleaned')\n    x = 'caught'")
    caught.wait_for("stdout")
    context.interrupt()
    assert "cleaned" in caught.join().out and good(context, "x").text == "'caught'"


@has_node
def test_interrupt_of_the_others(sessions):
    session = sessions({"mem_limit": "1g"})
    for language, code, check, value in (("bash", "x=1; echo on; sleep 30", "echo $x", "1\n"),
                                         ("javascript", "var x = 1; console.log('on'); while (true) {}", "console.log(x)", "1\n")):
        context = session.context(language)
        running = context.start(code)
        running.wait_for("stdout")
        context.interrupt()
        result = running.join()
        assert (result.verdict, result.kept) == ("cancelled", True), (language, result)
        after = context.run(check)
        for _ in range(10):  # Node may hear of the signal only then (docs/contexts.md)
            if language == "javascript" and after.error and after.error["name"] == "Interrupted":
                after = context.run(check)
        assert (after.verdict, after.out) == ("ok", value), after


@pytest.mark.parametrize("language, short, long", [
    ("python", "print('on', flush=True)", "for i in range(200000): pass"),
    ("bash", "echo on", "for ((i = 0; i < 3000; i++)); do :; done")], ids=["python", "bash"])
def test_interrupt_hits_no_later_run(sessions, language, short, long):
    """It comes when the code is at its end: it may or may not reach that run, but never the next. Node tells its own code of
    a signal later than it got it, so there this is not promised (docs/contexts.md)."""
    context = sessions({"mem_limit": "1g"}).context(language)

    def interrupt(event):
        if event.kind == "stdout":
            context.interrupt()
    for _ in range(40):
        first = context.run(short, on_event=interrupt)
        assert first.verdict in ("ok", "cancelled") and first.kept, first
        good(context, long)


def test_cancel_by_descriptor(sessions):
    context = sessions.context()
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        running = Running(context.run, "x = 1\nimport time\nprint('on', flush=True)\ntime.sleep(30)", cancel_fd=fd)
        running.wait_for("stdout")
        os.eventfd_write(fd, 1)
        assert (running.join().verdict, running.value.kept) == ("cancelled", True)
        running = Running(context.run, "print('on', flush=True)\ntime.sleep(30)", cancel_fd=fd)
        running.wait_for("stdout")
        os.eventfd_write(fd, 2)
        assert (running.join().verdict, running.value.kept) == ("cancelled", False)
    finally:
        os.close(fd)


def test_timeout_keeps_the_state(sessions):
    context = sessions.context({"timeout": "2s"})  # the first run waits for its interpreter
    good(context, "x = 1")
    began = time.monotonic()
    result = context.run("x = 2\nwhile True: pass")
    assert (result.verdict, result.kept, result.error["name"]) == ("timeout", True, "KeyboardInterrupt")
    assert 2 <= time.monotonic() - began < 2 + SLACK and "2 s" in result.message
    assert good(context, "x").text == "2"


RESIST = {
    "ignores it": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on', flush=True)\nwhile True: pass",
    "blocks it": "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nprint('on', flush=True)\ntime.sleep(30)",
    "is in C": "import itertools\nprint('on', flush=True)\n0 in itertools.cycle([1])",
    "catches it": "def spin():\n    while True: pass\nprint('on', flush=True)\nwhile True:\n    try:\n        spin()\n    except BaseException: x = 1",
    "has other hands": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.signal(2, ctypes.c_void_p(1))\nprint('on', flush=True)\nwhile True: libc.pause()",
}


def test_code_that_resists_is_killed(sessions):
    """All at once, because each takes the two seconds; half of them interrupted, half at their time limit."""
    contexts = {name: sessions.context({"timeout": "5s" if i % 2 else "30s", "cpu_count": "0.2"}) for i, name in enumerate(RESIST)}
    for context in contexts.values():
        good(context, "x = 'precious'\nopen('f', 'w').write('kept')")
    running = {name: context.start(RESIST[name]) for name, context in contexts.items()}
    asked = time.monotonic()
    for name, run in running.items():
        run.wait_for("stdout")
        if list(RESIST).index(name) % 2 == 0:
            contexts[name].interrupt()
    for i, (name, run) in enumerate(running.items()):
        result = run.join(20)
        took = time.monotonic() - asked
        assert (result.verdict, result.kept) == ("timeout" if i % 2 else "cancelled", False), (name, result)
        assert took < 0.5 + GRACE + SLACK + 1, (name, took)
        assert result.json["state"] == {"kept": False, "restarted": False}
        assert result.signal == 9 and result.out == "on\n", (name, result)
    assert time.monotonic() - asked > GRACE * 0.9
    for context in contexts.values():
        fresh = context.run("'x' in globals()")
        assert (fresh.verdict, fresh.text, fresh.restarted, fresh.kept) == ("ok", "False", True, True), fresh
        again = good(context, "open('f').read()")
        assert (again.text, again.restarted) == ("'kept'", False)
