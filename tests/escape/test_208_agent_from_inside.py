# SPDX-License-Identifier: Apache-2.0
"""208, from inside: who shares its container and its user with the code. Code kills, stops, starves and limits the agent and the supervisors
=> process 1 stands, or the session is honestly lost; no run ends later than it must, and nothing of a run is there after it.
"""
import time

import pytest
from hostile_containers import GRACE, containers, engines, is_lost, own_warden, processes
from sessions import Refused

SURVIVOR = """
import os, time
def leave_somebody():
    if os.fork():
        time.sleep(0.1)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    while True:
        time.sleep(0.01)
"""


def test_signals_to_process_1(containers):
    session = containers()
    code = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
for number in range(1, 65):
    if number in (32, 33):
        continue
    try: os.kill(1, number)
    except OSError as e: print(number, e)
    libc.sigqueue(1, number, ctypes.c_void_p(1))
    fd = os.pidfd_open(1)
    try: signal.pidfd_send_signal(fd, number)
    except OSError as e: print(number, e)
    os.close(fd)
    libc.syscall(234, 1, 1, number)  # tgkill
time.sleep(0.2)
print('end')
"""
    assert session.run("python", code).out == "end\n"
    assert not is_lost(session)


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_signals_to_everybody(containers, number):
    """All supervisors and all contexts of the session: its other programs are ended or lose their state, and say so."""
    session = containers(timeout="3s")
    context = session.context("python")
    assert context.run("x = 1").verdict == "ok"
    began = time.monotonic()
    result = session.run("python", f"import os, signal, time\nos.kill(-1, signal.{number})\ntime.sleep(100)")
    took = time.monotonic() - began
    assert took < 3 + GRACE, took
    if number == "SIGKILL":
        assert result.verdict in ("signal", "killed", "crash") or result.signal == 9, result
    else:
        assert result.verdict == "timeout", result
    # The context: its interpreter is dead or stands still. That it is gone is told; then it has a fresh one.
    try:
        first = context.run("x")
        assert first.verdict in ("ok", "timeout", "lost", "signal", "crash", "error"), first
        if first.verdict == "ok":
            assert first.text == "1" or first.restarted
    except Refused as refused:
        assert refused.code == "lost", refused
    is_lost(session)


@pytest.mark.parametrize("how", ["killed", "stopped", "stopped-again-and-again"])
def test_the_supervisor(containers, how):
    session = containers(timeout="2s")
    code = {"killed": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(100)",
            "stopped": "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(100)",
            "stopped-again-and-again": "top = os.getppid()\nif os.fork() == 0:\n  while True: os.kill(top, signal.SIGSTOP)\ntime.sleep(100)"}[how]
    began = time.monotonic()
    result = session.run("python", f"{SURVIVOR}\nimport signal\nleave_somebody()\n{code}")
    assert time.monotonic() - began < 2 + GRACE
    assert result.verdict == "timeout" or result.signal == 9, result
    assert is_lost(session) or processes(session) == []


def test_a_stopped_supervisor_of_a_program_that_has_ended(containers):
    """Nobody reports its end: the time limit finds out."""
    session = containers(timeout="1s")
    began = time.monotonic()
    result = session.run("python", "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)")
    assert time.monotonic() - began < 1 + GRACE and result.verdict in ("ok", "timeout"), result
    assert is_lost(session) or processes(session) == []


LIMITS = ["RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_STACK", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_SIGPENDING", "RLIMIT_MEMLOCK"]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("whose", ["supervisor", "agent"])
def test_limits_of_others(containers, whose, limit):
    """prlimit() needs only the same user. Who cannot look any more must not say that nobody is left."""
    session = containers(timeout="3s")
    who = "1" if whose == "agent" else "os.getppid()"
    code = f"{SURVIVOR}\nimport resource\nleave_somebody()\nresource.prlimit({who}, resource.{limit}, (0, 0))\nprint('done', flush=True)\ntime.sleep(0.1)\n"
    began = time.monotonic()
    try:
        result = session.run("python", code)
        assert result.verdict in ("ok", "lost", "timeout") or result.signal == 9, result
    except Refused as refused:
        assert refused.code == "lost", refused
    assert time.monotonic() - began < 3 + GRACE
    try:
        assert is_lost(session) or processes(session) == []
    except Refused as refused:  # one that can start nothing any more says so
        assert refused.code in ("limit", "lost"), refused


def test_starved(containers):
    """The agent in the last class of the scheduler, and everybody else busy: a run ends in time all the same."""
    session = containers(timeout="2s")
    code = """
import os
for who in (1, os.getppid()):
    os.setpriority(os.PRIO_PROCESS, who, 19)
    os.sched_setscheduler(who, os.SCHED_IDLE, os.sched_param(0))
for i in range(100):
    if os.fork() == 0:
        while True: pass
while True: pass
"""
    began = time.monotonic()
    try:
        result = session.run("python", code)
        assert result.verdict in ("timeout", "lost"), result
    except Refused as refused:
        assert refused.code == "lost", refused
    assert time.monotonic() - began < 2 + GRACE
    assert is_lost(session) or processes(session) == []


BOMBS = {
    "fork": "while True:\n  try: os.fork()\n  except OSError: pass",
    "sessions": "while True:\n  try:\n    if os.fork() == 0: os.setsid()\n  except OSError: pass",
    "orphans": "while True:\n  try:\n    if os.fork() == 0:\n      if os.fork(): os._exit(0)\n  except OSError: pass",
    "zombies": "while True:\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: pass",
    "subreapers": "import ctypes\nl = ctypes.CDLL(None)\nwhile True:\n  try:\n    if os.fork() == 0: l.prctl(36, 1)\n  except OSError: pass",
    "vfork": "import ctypes\nl = ctypes.CDLL(None)\nwhile True:\n  try:\n    if os.fork() == 0:\n      if l.vfork() == 0: l.pause()\n  except OSError: pass",
    "who-go-on-when-stopped": "import signal\ndef on(): \n  while True:\n    try: os.kill(-1, signal.SIGCONT); os.fork()\n    except OSError: pass\non()",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_while_they_are_ended(containers, bomb):
    session = containers(timeout="1s", pids_limit=128)
    began = time.monotonic()
    result = session.run("python", f"import os\nprint('on', flush=True)\n{BOMBS[bomb]}")
    assert time.monotonic() - began < 1 + GRACE
    assert result.verdict in ("timeout", "pids"), result
    assert is_lost(session) or processes(session) == []
