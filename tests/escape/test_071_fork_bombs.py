# SPDX-License-Identifier: Apache-2.0
"""71. Code inside forks, executes and vforks without end => the task limit holds, the timeout ends all of it at once.
"""
import time

import pytest


@pytest.mark.parametrize("name", ["fork_bomb", "exec_loop", "vfork_loop"])
def test_bombs(box, no_leaks, name):
    start = time.monotonic()
    attack = box.attack(name, timeout="1s", pids=64)
    took = time.monotonic() - start
    assert attack.result.verdict == "timeout", attack.result.explain()
    assert 1000 <= attack.result.json["duration_ms"] < 6000
    assert took < 15
    assert attack.result.json["peaks"]["pids"] <= 64
    if name == "fork_bomb" and box.has_cgroup:
        assert attack.result.json["peaks"]["pids"] >= 60
        assert any("refused by the task limit" in note for note in attack.result.json["notes"])


def test_failing_forks_are_told(box):
    code = "import os\nprint('token', flush=True)\nwhile True:\n    if os.fork() == 0:\n        import time; time.sleep(20)"
    result = box.run(code, pids=10, timeout="10s")
    assert "token" in result.stdout
    assert result.verdict == "pids" if box.has_cgroup else result.verdict in ("pids", "error"), result.explain()
