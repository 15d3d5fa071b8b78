# SPDX-License-Identifier: Apache-2.0
"""98. Code inside leaves thousands of orphans and zombies => they are reaped, none is left on the host.
"""


def test_orphans(box, no_leaks):
    attack = box.attack("orphans", timeout="20s", pids=64)
    assert attack.notes["made"] == "2000", attack.notes
    assert attack.result.verdict == "ok", attack.result.explain()
