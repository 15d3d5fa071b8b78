# SPDX-License-Identifier: Apache-2.0
"""56. Code inside makes a tree of directories far deeper than any path may be long => the run ends in
time, the private workspace goes away; a directory of the host is measured all the same.
"""
import subprocess
import time


DEPTH = 6000


def test_private_tree(box, no_leaks):
    start = time.monotonic()
    attack = box.attack("deep_tree", DEPTH)
    assert attack.notes["depth"] == str(DEPTH) and attack.result.verdict == "ok", attack.result.explain()
    assert time.monotonic() - start < 40


def test_tree_of_the_host(box):
    """What is too deep to be measured is not left unmeasured: it ends the run."""
    workspace = box.directory("workspace")
    attack = box.attack("deep_tree", DEPTH, workspace=workspace)
    assert (attack.result.verdict, attack.finished) == ("disk", False), attack.result.explain()
    assert "deep" in attack.result.message
    subprocess.run(["rm", "-rf", str(workspace)], check=True)


def test_inode_limit_stops_it(box):
    attack = box.attack("deep_tree", DEPTH, inodes=1000)
    assert 900 < int(attack.notes["depth"]) <= 1000
