# SPDX-License-Identifier: Apache-2.0
"""78. Code inside makes kernel objects without end: event descriptors, timers, watches, pipes, locked
memory, files without a name => each ends at a limit; what has no name counts as disk, too.
"""
import ctypes
import os

import pytest


def test_kernel_objects(box, no_leaks):
    attack = box.attack("kernel_objects", nofile=512, inodes=2000)
    attack.assert_refused()
    notes = {key: int(value) for key, value in attack.notes.items()}
    assert notes["nofile"] == 512 and notes["raise_nofile"] == -1
    for name in ("epolls", "eventfds", "timerfds"):
        assert 400 < notes[name] < 512, notes
    assert notes["posix_timers"] <= 1024
    assert notes["pipes"] <= 256
    assert notes["watches"] <= 2000


@pytest.mark.waits
@pytest.mark.parametrize("how", ["unlinked", "locked"])
@pytest.mark.parametrize("place", ["private", "host"])
def test_hidden_bytes(box, how, place):
    """20 MB under a disk limit of 4 MB, in files without a name or below a directory nobody may enter."""
    options = {"workspace": box.directory("workspace")} if place == "host" else {}
    attack = box.attack("hidden_bytes", how, 20, disk="4m", timeout="10s", **options)
    wrote, survived = int(attack.notes.get("wrote", 0)), "survived" in attack.notes
    assert wrote <= 4 or not survived, f"wrote {wrote} MB under a limit of 4 MB and was not ended: {attack.result.json['verdict']}"
    if not survived and attack.result.verdict != "ok":
        assert attack.result.verdict == "disk", attack.result.explain()


INOTIFY = """
import ctypes, time
libc, n = ctypes.CDLL(None), 0
while libc.inotify_init1(0) >= 0:
    n += 1
print('instances', n, flush=True)
time.sleep(2)
"""


def test_inotify_instances_of_the_caller(box):
    """The kernel counts them for who made the namespace: a box has few, and root pays for none."""
    libc = ctypes.CDLL(None)
    process = box.start(INOTIFY, json=False)
    assert process.stdout.readline() == b"instances 16\n"
    if box.is_root:
        mine = []
        while len(mine) < 100 and (fd := libc.inotify_init1(0)) >= 0:
            mine.append(fd)
        for fd in mine:
            os.close(fd)
        assert len(mine) == 100
    process.kill()
    process.wait()


def test_fallocate_does_not_outrun_the_measure(box):
    """Thousands of files, 13 MB each at one stroke, under a disk limit of 10 MB."""
    workspace = box.directory("workspace")
    code = """
import os
for i in range(2000):
    with open(f'f{i}', 'wb') as f:
        os.posix_fallocate(f.fileno(), 0, 13 << 20)
"""
    result = box.run(code, workspace=workspace, disk="10m", timeout="20s")
    assert result.verdict == "disk", result.explain()
    used = sum(entry.stat().st_blocks * 512 for entry in workspace.iterdir())
    assert used < 1 << 30, f"{used >> 20} MB were written before it was ended"


def test_process_that_hides_its_files(box):
    """Not dumpable, it cannot be looked into by a caller without privilege: then it is not let be."""
    workspace = box.directory("workspace")
    code = """
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
files = [open(f'f{i}', 'wb') for i in range(8)]
for i in range(8):
    os.unlink(f'f{i}')
for f in files:
    f.write(bytes(9 << 20))
    f.flush()
time.sleep(5)
"""
    result = box.run(code, workspace=workspace, disk="10m", timeout="10s")
    assert result.verdict == "disk", result.explain()
