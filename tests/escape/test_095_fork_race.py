# SPDX-License-Identifier: Apache-2.0
"""95. Each process inside forks before it dies, in sessions of their own => the kill leaves no survivor, in every one of many runs.
"""
from conftest import box_processes, wait_until


RUNS = 15


def test_hydra(box, no_leaks):
    before = box_processes()
    for _ in range(RUNS):
        attack = box.attack("hydra", timeout="500ms", pids=100)
        assert attack.result.verdict == "timeout", attack.result.explain()
    new = {p for p in box_processes() - before}
    assert wait_until(lambda: not new & box_processes(), 10), new & box_processes()
