# SPDX-License-Identifier: Apache-2.0
"""91. Code inside ignores all signals and spins => killed at its timeout, verdict timeout, close to the time asked for.
"""
from conftest import best_of


def test_deaf_spinner(box, no_leaks):
    def attempt():
        attack = box.attack("deaf_spinner", timeout="500ms")
        result = attack.result
        if "start" not in attack.notes:
            return 1 << 30, None  # the host was too busy for it
        assert (result.verdict, result.returncode) == ("timeout", 124), result.explain()
        assert result.json["verdict"]["limit"] == 500000 and result.json["duration_ms"] >= 500
        return result.json["duration_ms"], result.json["cpu_ms"]

    took, used = best_of(10, attempt, lambda found: found[0] < 650 and (found[1] is None or found[1] > 20))
    assert took < 650 and (used is None or used > 20), (took, used)
