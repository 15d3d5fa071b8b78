# SPDX-License-Identifier: Apache-2.0
"""48. Code inside remounts, unmounts masks, binds over /etc, shares its mounts => refused, the host's mount table is the same before and after.
"""
from conftest import host_mounts


def test_remounts(box):
    before = host_mounts()
    box.attack("remounts").assert_refused("EPERM")
    assert host_mounts() == before


def test_mounts_are_tight(box):
    """Everything is nosuid and, but for the five devices, nodev; only what should be is writable."""
    code = "print(open('/proc/self/mountinfo').read())"
    rows = [line.split() for line in box.run(code).stdout.splitlines() if line]
    assert len(rows) > 5
    writable = set()
    for row in rows:
        options = row[5].split(",")
        assert "nosuid" in options, row
        assert "nodev" in options or row[4].startswith("/dev/"), row
        assert not any(field.startswith(("shared:", "master:")) for field in row[6:row.index("-")]), row
        if "rw" in options:
            writable.add(row[4])
    devices = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
    assert writable == devices | {"/proc", "/dev/pts", "/tmp", "/dev/shm", "/sandbox"}
