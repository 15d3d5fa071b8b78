# SPDX-License-Identifier: Apache-2.0
"""91. Code inside ignores all signals and spins => killed at its timeout, verdict timeout, close to the time asked for.
"""


def test_deaf_spinner(box, no_leaks):
    attack = box.attack("deaf_spinner", timeout="500ms")
    assert attack.notes["start"] == "1"
    result = attack.result
    assert (result.verdict, result.returncode) == ("timeout", 124), result.explain()
    assert result.json["verdict"]["limit"] == 500000
    assert 500 <= result.json["duration_ms"] < 650
    assert result.json["cpu_ms"] > 200
