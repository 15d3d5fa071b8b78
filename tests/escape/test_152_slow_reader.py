# SPDX-License-Identifier: Apache-2.0
"""152. The code of a session floods while whoever reads its output sleeps, or stands still => front and warden stay small, other
sessions of the same process answer meanwhile, and the deadline holds.
"""
import os
import threading
import time

import pytest
from conftest import wait_until
from hostile_sessions import FRAMES, good, memory_of, own_warden_process, warm_witness, witness
from session_fixtures import own_warden, sessions, warm_sessions

FLOODS = {
    "output": "import os\nblock = b'x' * 65536\nwhile True: os.write(1, block)",
    "both": "import os\nblock = b'x' * 65536\nwhile True: os.write(1, block); os.write(2, block)",
    "results": "while True: display('x' * 100000)",
    "frames": FRAMES + "block = frame(b'P', n, part(b'text/plain', b'x' * 60000))\nwhile True: send(block)",
}


def processor_time(warden):
    """Of the warden's children, in ticks: interpreters of sessions are among them."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == warden and fields[0] != "Z":
            found[int(entry)] = int(fields[11]) + int(fields[12])
    return found


class Flood:
    """A run in a thread of its own, whose reader sleeps when it gets the first bytes."""

    def __init__(self, context, code):
        self.result, self.cancel = None, os.eventfd(0)
        self.asleep, self.awake = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, args=(context, code), daemon=True)
        self.thread.start()
        assert self.asleep.wait(5), "nothing was heard of it"

    def _run(self, context, code):
        self.result = context.run(code, on_event=self._sleep, cancel_fd=self.cancel)

    def _sleep(self, event):
        if event.kind != "started" and not self.asleep.is_set():
            self.asleep.set()
            self.awake.wait(10)

    def finish(self):
        self.awake.set()
        self.thread.join(20)
        os.close(self.cancel)
        assert self.result, "the run did not end"
        return self.result


def assert_others_answer(witness, sessions):
    began = time.monotonic()
    for _ in range(5):
        assert good(witness, "1 + 1").text == "2"
    with sessions() as fresh:
        assert good(fresh.context(), "2").text == "2"
    sessions.opened.remove(fresh)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("what", FLOODS)
def test_slow_reader(sessions, witness, what):
    warden = own_warden_process()
    context = sessions.context({"output_limit": "64m", "result_limit": "1m", "timeout": "20s"})
    good(context, "1")
    before = memory_of("self"), memory_of(warden)
    flood = Flood(context, FLOODS[what])
    assert_others_answer(witness, sessions)
    # It has stood still for a while. A pipe and a socket are full, and nobody has read on.
    assert memory_of("self") - before[0] < 8 << 20 and memory_of(warden) - before[1] < 4 << 20
    os.write(flood.cancel, (2).to_bytes(8, "little"))
    result = flood.finish()
    assert (result.verdict, result.kept) == ("cancelled", False), result
    assert len(result.stdout) < 16 << 20 and memory_of(warden) - before[1] < 4 << 20


def test_deadline_without_a_reader(warm_sessions, warm_witness):
    """The reader stands still: the code is ended all the same, on an idle machine two and a half seconds after its
    time."""
    warden = own_warden_process()
    context = warm_sessions.context({"timeout": "3s"})
    good(context, "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    before = processor_time(warden)
    began = time.monotonic()
    flood = Flood(context, "print('on', flush=True)\nwhile True: pass")
    spinners = []

    def find():
        spinners[:] = [pid for pid, ticks in processor_time(warden).items() if ticks - before.get(pid, 0) > 2]
        return spinners
    assert wait_until(find, 10), "it does not spin"
    assert wait_until(lambda: not set(spinners) & set(processor_time(warden)), 10), "it lives on"
    assert time.monotonic() - began < 14
    result = flood.finish()
    assert (result.verdict, result.kept) == ("timeout", False), result
    assert good(context, "1").restarted
