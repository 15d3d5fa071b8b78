# SPDX-License-Identifier: Apache-2.0
"""What code leaves running when it ends: a process that goes on is left alone, a fork bomb is ended and named."""
import time

import pytest
from backends import can, told, verdict
from suite import wait_until

POLICY = {"pids_limit": 64, "timeout": "5s"}
SHELL = ":(){ :|:& };:"
BOMBS = {
    "shell": ("bash", SHELL),
    "shell of python": ("python", f"import subprocess; subprocess.run(['bash', '-c', {SHELL!r}])"),
    "shell that python does not wait for": ("python", f"import subprocess; subprocess.Popen(['bash', '-c', {SHELL!r}]) and None"),
    "child of python": ("python", "import os\nif os.fork() == 0:\n  while True: os.fork()"),
    "python": ("python", "import os\nwhile True: os.fork()"),
    "python that goes on": ("python", "import os\nfor i in range(100000):\n  try: os.fork()\n  except OSError: pass"),
}


@pytest.fixture(autouse=True)
def counted(backend):
    if not can("pids", backend.name):
        pytest.skip("gVisor keeps no count of tasks on the host, and its control says so")


@pytest.mark.parametrize("bomb", ["shell", "shell of python"])
def test_a_bomb_whose_first_process_has_ended(backend, bomb):
    for _ in range(3):  # the first process is refused a fork itself when the others are quicker
        result = backend.run(BOMBS[bomb][1], BOMBS[bomb][0], pids=64)
        assert (result.verdict, result.returncode) == ("pids", 119), result.explain()
        if result.json["exit_code"] == 0:
            break
    assert result.json["exit_code"] == 0, result.explain()
    assert "left running reached the limit of 64 processes" in result.json["verdict"]["message"], result.explain()


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_run_after_a_bomb_is_clean(backend, bomb):
    """Nothing of the bomb is printed there, it starts at once, and it can start processes. Variables are kept."""
    language, code = BOMBS[bomb]
    keep, ask = ("n=kept", "bash -c 'echo \"$0\"' $n") if language == "bash" else (
        "n = 'kept'", "import subprocess; print(subprocess.run(['echo', n], capture_output=True, text=True).stdout, end='')")
    with backend.session(policy=POLICY) as session:
        assert verdict(session.run(keep, language=language)) == "ok"
        exploded = session.run(code, language=language)
        # A shell that cannot fork tries again for 15 seconds, and one that waits for it with it.
        late = "goes on" in bomb or "fork: retry" in exploded["stderr"]
        # On a busy machine a bomb that nobody waits for may not have gone off when the run is over. Then the next run ends it.
        dormant = "does not wait" in bomb and verdict(exploded) == "ok"
        assert dormant or verdict(exploded) in (("pids", "timeout") if late else ("pids",)), told(exploded)
        if not exploded["state"]["kept"]:  # an interrupt that comes while Python forks is lost, so it had to be killed
            assert late and verdict(session.run(keep, language=language)) == "ok", told(exploded)
        if dormant:
            assert wait_until(lambda: session.stats()["pids"]["current"] > 55, 10), session.stats()
        for _ in range(3):
            after = session.run(ask, language=language)
            assert (verdict(after), after["stdout"], after["stderr"]) == ("ok", "kept\n", ""), told(after)
            assert after["duration_ms"] < 5000, told(after)
        # The processes of the fifth bomb end by themselves when they cannot fork, so perhaps none was left.
        assert late or dormant or bomb == "python" or any("left running" in note for note in exploded["notes"]), told(exploded)


def test_a_bomb_that_shows_itself_later(backend):
    """It begins when its run is over. The run after it ends it, and does not get what it has printed."""
    with backend.session(policy=POLICY) as session:
        result = session.run(f"(sleep 0.5; {SHELL}) &", language="bash")
        assert verdict(result) == "ok", told(result)
        assert wait_until(lambda: session.stats()["pids"]["current"] > 55, 10), session.stats()
        time.sleep(0.3)
        after = session.run("echo clean", language="bash")
        assert (verdict(after), after["stdout"], after["stderr"]) == ("ok", "clean\n", ""), told(after)
        assert any("left running" in note for note in after["notes"]), told(after)


def test_a_process_that_is_left_goes_on(backend):
    """Also after a run whose forks were refused: it is not the bomb."""
    with backend.session(policy=POLICY) as session:
        result = session.run("import subprocess; p = subprocess.Popen(['sleep', '1000']); print(p.poll())")
        assert (verdict(result), result["notes"]) == ("ok", [note for note in result["notes"] if "control" in note]), told(result)
        result = session.run("import threading, time\nts = []\ntry:\n  for i in range(100):\n    ts.append(threading.Thread(target=time.sleep, args=(1,))); ts[-1].start()\n"
                             "except RuntimeError: print('refused')\nfor t in ts[:-1]: t.join()\nprint(p.poll())")
        assert (verdict(result), result["stdout"]) == ("ok", "refused\nNone\n"), told(result)


def test_children_that_are_waited_for_keep_their_end(backend):
    """After a bomb Python reaps those that nobody waits for, and no others."""
    with backend.session(policy=POLICY) as session:
        assert verdict(session.run("import os, subprocess, time\np = subprocess.Popen(['sh', '-c', 'exit 7'])\ntime.sleep(0.3)")) == "ok"
        assert verdict(session.run("while True: os.fork()")) == "pids"
        result = session.run("print(p.wait(), subprocess.run(['sh', '-c', 'exit 3']).returncode)")
        assert (verdict(result), result["stdout"]) == ("ok", "7 3\n"), told(result)
