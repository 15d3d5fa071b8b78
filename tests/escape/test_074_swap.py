# SPDX-License-Identifier: Apache-2.0
"""74. Code inside uses swap to have more than its memory => the cgroup gives none.
"""
import os
import subprocess

import pytest
from conftest import box_cgroups


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def test_no_swap(box):
    if not box.has_cgroup:
        pytest.skip("no cgroup for this user on this host")
    before = box_cgroups()
    process = box.start("print('up', flush=True); input()", json=False, memory="64m", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    found = []
    for path in box_cgroups() - before:
        both, swap = read(f"{path}/memory.memsw.limit_in_bytes"), read(f"{path}/memory.swap.max")
        if both is not None:
            found.append(int(both) <= 64 << 20)
        elif swap is not None:
            found.append(swap == "0")
    box.finish(process, b"go\n")
    if not found and not any(os.path.exists(f"/sys/fs/cgroup/{p}memory.memsw.limit_in_bytes") for p in ("memory/", "")):
        pytest.skip("this kernel does not account swap")
    assert found and all(found)
