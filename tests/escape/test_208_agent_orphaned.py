# SPDX-License-Identifier: Apache-2.0
"""208, from inside: glovebox dies while code makes it hard for the agent to notice => the container is gone within two seconds all the same.
"""
import pytest
from conftest import wait_until
from hostile_containers import own_of
from hostile_engines import begin, docker_box, engines

END_MAX = 2.0
SLACK = 8.0  # of a loaded machine

CODE = {
    "fork-bomb": "while True:\n  try: os.fork()\n  except OSError: pass",
    "busy": "for i in range(100):\n  if os.fork() == 0: break\nwhile True: pass",
    "pids-exhausted": "try:\n  while os.fork(): pass\nexcept OSError: pass\ntime.sleep(1000)",
    "everybody-stopped": "if os.fork() == 0:\n  while True: time.sleep(1)\nos.kill(-1, signal.SIGSTOP)\nwhile True: time.sleep(1)",
    "deaf": "for n in range(1, 32):\n  if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\nos.setsid() if os.fork() == 0 else None\nwhile True: time.sleep(1)",
    "flooding": "import threading\ndef flood(n):\n  while True: os.write(n, b'x' * 65536)\nfor n in (1, 2) * 4: threading.Thread(target=flood, args=(n,)).start()",
    "no-descriptors": "import resource\ntry: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))\nexcept OSError: pass\nwhile True: time.sleep(1)",
    "last-in-the-queue": "try: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))\nexcept OSError: pass\nfor i in range(100):\n  if os.fork() == 0: break\nwhile True: pass",
}


def check(box, engine, code):
    process = begin(box, f"import os, signal, time\nprint('on', flush=True)\n{code}", timeout="60s")
    try:
        assert len(own_of(engine, process.pid)) == 1
        # What it is about has happened.
        wait_until(lambda: False, 0.3)
    finally:
        process.kill()
        process.communicate()
    assert wait_until(lambda: not own_of(engine, process.pid), END_MAX + SLACK), "it goes on"


@pytest.mark.parametrize("how", CODE)
def test_glovebox_is_killed(docker_box, how):
    check(docker_box, docker_box.engine, CODE[how])


def test_under_gvisor(docker_box, engines):
    if not engines.has_runsc:
        pytest.skip("runsc is not installed")
    docker_box.environ["GLOVEBOX_RUNTIME"] = "runsc"
    docker_box.weaker = ["pids"]
    check(docker_box, docker_box.engine, CODE["busy"])


def test_a_stopped_agent_under_gvisor(docker_box, engines):
    """Process 1 takes signals there: a stopped one hears nothing. What it keeps alive goes with the next look, as after an engine that was down."""
    if not engines.has_runsc:
        pytest.skip("runsc is not installed")
    docker_box.environ["GLOVEBOX_RUNTIME"] = "runsc"
    docker_box.weaker = ["pids"]
    process = begin(docker_box, "import os, signal, time\nprint('on', flush=True)\ntime.sleep(0.1)\nos.kill(1, signal.SIGSTOP)\ntime.sleep(1000)", timeout="60s")
    wait_until(lambda: False, 0.3)
    process.kill()
    process.communicate()
    docker_box.call("clean")
    assert wait_until(lambda: not own_of(docker_box.engine, process.pid), 20), "it goes on"
