# SPDX-License-Identifier: Apache-2.0
"""Limits in a session, and interpreters that end by themselves: what the result says, and that the session goes on."""
import signal
import time

import pytest
from conftest import wait_until
from session_fixtures import own_warden, sessions


def good(context, code):
    result = context.run(code)
    assert (result.verdict, result.kept) == ("ok", True), result
    return result


def needs_cgroup(sessions):
    if sessions.weaker:
        pytest.skip("this host gives no cgroup to this user")


def test_memory(sessions):
    needs_cgroup(sessions)
    session = sessions({"mem_limit": "96m"})
    context, other = session.context(), session.context("bash")
    good(context, "x = 1\nopen('f', 'w').write('kept')")
    good(other, "y=1")
    result = context.run("print('on', flush=True)\nhog = []\nwhile True: hog.append(bytearray(b'x' * (4 << 20)))")
    assert (result.verdict, result.kept, result.out) == ("memory", False, "on\n"), result
    assert "96 MB" in result.message and result.json["verdict"]["unit"] == "bytes" and result.json["verdict"]["limit"] == 96 << 20
    fresh = good(context, "('x' in globals(), open('f').read())")
    assert (fresh.text, fresh.restarted) == ("(False, 'kept')", True)
    # Which of its processes are whole nobody can tell after a kill by the kernel: all begin anew.
    beside = good(other, "echo ${y:-gone}")
    assert (beside.out, beside.restarted) == ("gone\n", True)
    # It hits no interpreter that came after it.
    time.sleep(0.12)
    assert good(context, "1").restarted is False and good(other, "echo").restarted is False
    # An allocation that is refused is Python's own affair.
    refused = context.run("bytearray(1 << 46)")
    assert (refused.verdict, refused.kept, refused.error["name"]) == ("error", True, "MemoryError")


def test_memory_of_a_program(sessions):
    needs_cgroup(sessions)
    session = sessions({"mem_limit": "96m"})
    good(session.context(), "open('f', 'w').write('kept')")
    result = session.run("python", "hog = []\nwhile True: hog.append(bytearray(b'x' * (4 << 20)))")
    assert result.verdict == "memory" and "96 MB" in result.message, result
    assert session.run("sh", "cat f").out == "kept"


def test_pids(sessions):
    needs_cgroup(sessions)
    context = sessions.context({"pids_limit": "16"})
    bomb = "import os, time\nn = 0\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)\n    n += 1"
    result = context.run(bomb)
    assert (result.verdict, result.kept, result.error["name"]) == ("pids", True, "BlockingIOError"), result
    assert "16" in result.message and result.json["peaks"]["pids"] <= 16
    assert int(good(context, "n").text) < 16
    assert any("left running by code were killed" in note for note in result.json["notes"]), result
    # A run that goes around it is told so in a note, and ends well.
    around = good(context, "import signal\nchildren = []\ntry:\n    while True:\n        children.append(os.fork())\n        children[-1] or time.sleep(60)\n"
                  "except BlockingIOError:\n    pass\nfor child in children:\n    os.kill(child, signal.SIGKILL)\n    os.waitpid(child, 0)")
    assert any("refused by the task limit" in note for note in around.json["notes"])


def test_output(sessions):
    context = sessions.context({"output_limit": "64k"})
    good(context, "x = 1")
    result = context.run("while True: print('y' * 999)")
    assert (result.verdict, result.kept, len(result.stdout)) == ("output", True, 64 << 10), result
    assert result.json["truncated"] is True and result.error["name"] == "KeyboardInterrupt"
    next_run = good(context, "print('z' * 999)\nx")
    assert (next_run.text, next_run.out) == ("1", "z" * 999 + "\n"), "nothing of the flood is left, and each run has its own limit"


def test_disk(sessions):
    context = sessions.context({"disk_limit": "1m"})
    result = context.run("open('f', 'wb').write(bytes(2 << 20))")
    assert (result.verdict, result.kept, result.error["name"]) == ("disk", True, "OSError"), result
    assert "1 MB" in result.message
    assert good(context, "import os\nos.path.getsize('f') <= 1 << 20").text == "True"
    good(context, "os.remove('f')")
    good(context, "open('g', 'w').write('x' * 1000)")
    assert context.session.read("g") == b"x" * 1000


def failed_beside_a_full_place(result):
    """An error of its own, and a note of the full place."""
    notes = [note for note in result.json["notes"] if note.startswith("a writable place was full before the run and at its end")]
    assert result.verdict == "error" and len(notes) == 1, result
    return notes[0]


def test_disk_that_was_full_before(sessions):
    """Who comes after the run that has filled the workspace is not blamed for it."""
    session = sessions({"disk_limit": "1m"})
    context, shell = session.context(), session.context("bash")
    fill = "open('f', 'wb').write(bytes(2 << 20))"
    assert context.run(fill).verdict == "disk"
    name = context.run("foo")
    assert "the workspace (limit 1 MB)" in failed_beside_a_full_place(name) and "--disk" in failed_beside_a_full_place(name)
    assert name.error["name"] == "NameError" and "NameError" in name.message and name.json["verdict"]["limit"] is None
    failed_beside_a_full_place(shell.run("false"))
    program = session.run("sh", "exit 3")
    assert failed_beside_a_full_place(program) and program.exit_code == 3
    # Why this one failed is in its own words, and in the note.
    written = context.run("open('g', 'w').write('x' * 10000)")
    assert failed_beside_a_full_place(written) and "No space left" in written.error["value"]
    # That it was not full for a moment nobody has seen.
    again = context.run(f"import os\nos.remove('f')\nos.remove('g')\n{fill}")
    assert failed_beside_a_full_place(again) and again.error["name"] == "OSError"
    crash = context.run("os.abort()")
    assert failed_beside_a_full_place(crash) and crash.signal == signal.SIGABRT
    assert "full before" in " ".join(good(context, "1").json["notes"])
    # Made room, and filled it itself.
    good(context, "import os\nos.remove('f')")
    plain = context.run("foo")
    assert plain.verdict == "error" and not any("full" in note for note in plain.json["notes"])
    result = context.run(fill)
    assert result.verdict == "disk" and "1 MB" in result.message, result


def test_tmp_that_was_full_before(sessions):
    """The same for a place that is looked at when a program ends."""
    session = sessions({"tmp_size": "1m"})
    fill = "head -c 2000000 /dev/zero > /tmp/f"
    filled = session.run("sh", fill)
    assert filled.verdict == "disk" and "in /tmp (limit 1 MB)" in filled.message, filled
    assert "/tmp (limit 1 MB)" in failed_beside_a_full_place(session.run("sh", "exit 3"))
    assert session.run("sh", "rm /tmp/f").verdict == "ok"
    assert session.run("sh", fill).verdict == "disk"
    assert session.run("sh", "rm /tmp/f").verdict == "ok"
    # So it is after a run of an interpreter, which does not end.
    context = session.context()
    filled = context.run("open('/tmp/f', 'wb').write(bytes(2 << 20))")
    assert (filled.verdict, filled.kept) == ("disk", True) and "in /tmp (limit 1 MB)" in filled.message, filled
    assert failed_beside_a_full_place(context.run("foo")).count("/tmp (limit 1 MB)") == 1
    crash = context.run("import os\nos.abort()")
    assert failed_beside_a_full_place(crash) and crash.signal == signal.SIGABRT
    failed_beside_a_full_place(session.run("sh", "false"))


def test_inodes(sessions):
    context = sessions.context({"inode_limit": "64"})
    result = context.run("for i in range(100): open(f'f{i}', 'w').close()")
    assert (result.verdict, result.kept) == ("disk", True), result
    assert good(context, "import os\nlen(os.listdir())").text in map(str, range(40, 65))


def test_processor_time(sessions):
    needs_cgroup(sessions)
    context = sessions.context({"cpu_time": "300ms"})
    good(context, "x = 1")
    began = time.monotonic()
    result = context.run("while True: pass")
    assert (result.verdict, result.kept, result.error["name"]) == ("cpu", True, "KeyboardInterrupt"), result
    assert "300 ms" in result.message and time.monotonic() - began < 15
    # Each run has its own.
    for _ in range(2):
        good(context, "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass")
    assert good(context, "import time\ntime.sleep(0.4)\nx").text == "1"


def test_open_files(sessions):
    context = sessions.context({"nofile": "64"})
    result = context.run("held = [open('/dev/null') for i in range(100)]")
    assert result.error["name"] == "OSError" and "Too many open files" in result.error["value"]
    assert good(context, "1").text == "1"


ENDS = [
    ("os._exit(3)", "error", 3, 0, "status 3"),
    ("os._exit(0)", "ok", 0, 0, "ended well"),
    ("os.kill(os.getpid(), 9)", "error", -1, signal.SIGKILL, "SIGKILL (killed from inside"),
    ("import ctypes\nctypes.string_at(0)", "error", -1, signal.SIGSEGV, "SIGSEGV"),
    ("os.abort()", "error", -1, signal.SIGABRT, "SIGABRT"),
    ("os.execv('/bin/sh', ['sh', '-c', 'echo other; exit 7'])", "error", 7, 0, "status 7"),
]


@pytest.mark.parametrize("code, verdict, status, number, word", ENDS, ids=["_exit", "_exit-0", "kill", "segfault", "abort", "exec"])
def test_interpreter_ends(sessions, code, verdict, status, number, word):
    """The facts come from the kernel: what the process said before it ended changes nothing."""
    context = sessions.context()
    good(context, "x = 1\nimport os\nopen('f', 'w').write('kept')")
    result = context.run(f"print('on', flush=True)\n{code}")
    assert (result.verdict, result.exit_code, result.signal, result.kept) == (verdict, status, number, False), result
    assert result.out.startswith("on\n") and word in result.message, result
    fresh = good(context, "('x' in globals(), open('f').read())")
    assert (fresh.text, fresh.restarted) == ("(False, 'kept')", True)
    assert good(context, "1").restarted is False


def test_death_between_runs(sessions):
    context = sessions.context()
    good(context, "import os, threading\nx = 1\nthreading.Timer(0.05, os._exit, (3,)).start()")

    def is_fresh():
        result = context.run("'x' in globals()")
        return result if result.restarted else None
    fresh = wait_until(is_fresh, 20, 0.05)
    assert fresh and (fresh.verdict, fresh.kept, fresh.text) == ("ok", True, "False"), fresh


def test_channel_that_is_misused(sessions):
    """Code that breaks the rules of its channel, or closes it, loses its interpreter and nothing else."""
    session = sessions()
    for code in ("os.write(20, b'not a frame')", "os.close(20)\nimport time\ntime.sleep(30)", "os.write(20, b'D 999 0\\n' * 10)\nos.write(20, b'Z 1 0\\n')",
                 "os.write(20, b'R 2 99999999999\\n')", "os.write(20, b'P 2 16777217\\n')"):
        context = session.context()
        good(context, "import os\nx = 1")
        began = time.monotonic()
        result = context.run(code)
        assert (result.verdict, result.kept) == ("error", False) and "control" in result.message, (code, result)
        assert time.monotonic() - began < 10
        assert good(context, "'x' in globals()").text == "False"
        context.close()


def test_background_output_is_not_lost_nor_mixed_up(sessions):
    session = sessions()
    context = session.context()
    good(context, "import threading\ndef late():\n    print('late', flush=True)\n    open('said', 'w').close()\n"
                  "threading.Timer(0.5, late).start()")
    assert wait_until(lambda: b"said" in session.list(), 20)
    assert good(context, "print('now')").out == "late\nnow\n"
