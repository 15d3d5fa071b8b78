# SPDX-License-Identifier: Apache-2.0
"""94. Code inside stops its group, or blocks in vfork => the kill works all the same.
"""
import pytest


@pytest.mark.parametrize("name", ["stop_group", "vfork_block"])
def test_stopped(box, no_leaks, name):
    attack = box.attack(name, timeout="500ms")
    assert attack.notes["start"] == "1"
    assert attack.result.verdict == "timeout", attack.result.explain()
    assert attack.result.json["duration_ms"] < 800
