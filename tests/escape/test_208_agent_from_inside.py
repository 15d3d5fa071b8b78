# SPDX-License-Identifier: Apache-2.0
"""208, from inside: who shares its container and its user with the code. Code kills, stops, starves and limits the agent and the supervisors
=> process 1 stands, or the session is honestly lost; no run ends later than it must, and nothing of a run is there after it.
"""
import time

import pytest
from hostile_containers import GRACE, containers, engines, is_late, is_lost, own_warden, processes
from sessions import Refused

SURVIVOR = """
import os, signal, time
top = os.getppid()
def kill(pid, number):
    try: os.kill(pid, number)
    except PermissionError: pass  # Landlock from version 6 on
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
    except PermissionError: pass
    libc.sigqueue(1, number, ctypes.c_void_p(1))
    try:
        fd = os.pidfd_open(1)  # gVisor has none
        signal.pidfd_send_signal(fd, number)
    except OSError: pass
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
        assert result.signal == 9, result
    else:
        assert result.verdict == "timeout" or is_late(result), result
    # The context: its interpreter is dead or stands still. That it is gone is told; then it has a fresh one.
    try:
        first = context.run("x")
        assert first.verdict in ("ok", "timeout", "lost", "error"), first
        if first.verdict == "ok":
            assert first.text == "1" or first.restarted
    except Refused as refused:
        assert refused.code == "lost", refused
    is_lost(session)


@pytest.mark.parametrize("how", ["killed", "stopped", "stopped-again-and-again"])
def test_the_supervisor(containers, how):
    session = containers(timeout="1s")
    code = {"killed": "kill(top, signal.SIGKILL); time.sleep(100)",
            "stopped": "kill(top, signal.SIGSTOP); time.sleep(100)",
            "stopped-again-and-again": "if os.fork() == 0:\n  while True: kill(top, signal.SIGSTOP)\ntime.sleep(100)"}[how]
    began = time.monotonic()
    result = session.run("python", f"{SURVIVOR}\nleave_somebody()\n{code}")
    assert time.monotonic() - began < 1 + GRACE
    assert result.verdict == "timeout" or result.signal == 9 or is_late(result), result
    assert is_lost(session) or processes(session) == []


def test_a_stopped_supervisor_of_a_program_that_has_ended(containers):
    """Nobody reports its end: the time limit finds out."""
    session = containers(timeout="1s")
    began = time.monotonic()
    result = session.run("python", f"{SURVIVOR}\nkill(top, signal.SIGSTOP)")
    assert time.monotonic() - began < 1 + GRACE and (result.verdict in ("ok", "timeout") or is_late(result)), result
    assert is_lost(session) or processes(session) == []


OTHERS = """
import os, resource
for who in (1, os.getppid()):
    tries = {f'limit {n}': lambda n=n: resource.prlimit(who, getattr(resource, n), (0, 0)) for n in dir(resource) if n.startswith('RLIMIT_')}
    tries['nice'] = lambda: os.setpriority(os.PRIO_PROCESS, who, 19)
    tries['nice of a group'] = lambda: os.setpriority(os.PRIO_PGRP, who, 19)
    tries['nice of the user'] = lambda: os.setpriority(os.PRIO_USER, 0, 19)
    tries['class'] = lambda: os.sched_setscheduler(who, os.SCHED_IDLE, os.sched_param(0))
    tries['processors'] = lambda: os.sched_setaffinity(who, {0})
    tries['session'] = lambda: os.setpgid(who, 0)
    for name, act in tries.items():
        try:
            act()
            print(who, name)
        except OSError:
            pass
os.nice(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
print('end')
"""


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_limits_and_shares_of_others(containers, runtime):
    """All of these need only the same user. An agent without descriptors could not look whom a program leaves behind; one in the last class
    of the scheduler would not even die when it is killed, as long as others are busy."""
    if runtime == "runsc" and not containers.engines.has_runsc:
        pytest.skip("runsc is not installed")
    session = containers("runsc" if runtime == "runsc" else None)
    assert session.run("python", OTHERS).out == "end\n"


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
    assert result.verdict in ("timeout", "pids") or is_late(result), result
    assert is_lost(session) or processes(session) == []
