# SPDX-License-Identifier: Apache-2.0
"""43. Code inside looks for other processes and for what /proc tells about the whole machine => it sees its own processes only.
"""
import os
import subprocess


def test_processes_of_others(box):
    attack = box.attack("proc_view", os.getpid())
    attack.assert_refused("ENOENT", "EACCES")
    assert attack.notes == {"own": "1", "foreign": "0"}


def test_two_boxes_do_not_see_each_other(box):
    first = box.start("print('up', flush=True); input()", json=False, stdin=subprocess.PIPE)
    assert first.stdout.readline() == b"up\n"
    pids = box.run("import os; print([p for p in os.listdir('/proc') if p.isdigit()])").stdout
    box.finish(first, b"go\n")
    assert pids == "['2']\n"
