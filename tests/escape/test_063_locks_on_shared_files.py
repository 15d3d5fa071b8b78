# SPDX-License-Identifier: Apache-2.0
"""63. Two boxes signal each other over a file both may read: leases and directory notices => refused.
flock and POSIX locks on a shared inode stay possible: a stated residual, which this test measures.
"""
import subprocess


def test_leases_are_refused(box):
    attack = box.attack("shared_inode")
    assert attack.notes["opened"] == "1"
    attack.assert_refused("EINVAL", "EPERM", "EACCES", "ENOSYS")


def test_flock_residual(box, record_property):
    hold = "import fcntl; f = open('/usr/bin/env'); fcntl.flock(f, fcntl.LOCK_EX); print('up', flush=True); input()"
    first = box.start(hold, json=False, stdin=subprocess.PIPE)
    assert first.stdout.readline() == b"up\n"
    second = box.attack("shared_inode")
    box.finish(first, b"go\n")
    seen = second.notes["flock"]
    record_property("flock_seen_by_neighbour", seen != "taken")
    assert seen in ("taken", "EAGAIN", "EWOULDBLOCK")
