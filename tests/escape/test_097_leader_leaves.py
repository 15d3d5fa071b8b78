# SPDX-License-Identifier: Apache-2.0
"""97. The main thread ends by pthread_exit while others run => the run ends with the process, by the code
of its last exit; a child left in the background does not delay the end.
"""


def test_leader_leaves(box):
    attack = box.attack("leader_leaves", timeout="5s")
    assert attack.notes["thread_lived"] == "1"
    assert (attack.result.verdict, attack.result.exit_code) == ("error", 7), attack.result.explain()
    assert attack.result.json["duration_ms"] < 8000


def test_background_child_does_not_delay(box, no_leaks):
    result = box.run("sleep 1000 & echo token", "sh", timeout="10s")
    assert (result.verdict, result.stdout) == ("ok", "token\n"), result.explain()
    assert result.json["duration_ms"] < 8000
