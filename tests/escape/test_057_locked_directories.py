# SPDX-License-Identifier: Apache-2.0
"""57. Code inside takes all rights from its directories => the private workspace goes away; the next run on the
same directory works, or says what to do when its caller himself cannot look into it.
"""
import subprocess


def test_private(box, no_leaks):
    attack = box.attack("locked_directories")
    assert attack.notes == {"made": "1", "locked": "1"} and attack.result.verdict == "ok", attack.result.explain()


def test_of_the_host(box):
    workspace = box.directory("workspace")
    attack = box.attack("locked_directories", workspace=workspace)
    assert attack.notes == {"made": "1", "locked": "1"}, attack.result.explain()
    if not box.is_root:
        result = box.run("print(1)", workspace=workspace)
        assert result.returncode == 110 and "chmod u+rx" in result.stderr, result.explain()
        subprocess.run(["chmod", "-R", "u+rwx", str(workspace)], check=True)
    result = box.run("import os; print(sorted(os.listdir('/sandbox')))", workspace=workspace)
    assert result.stdout == "['locked', 'sticky']\n", result.explain()
