# SPDX-License-Identifier: Apache-2.0
"""82. Code inside opens as many files as it can in 16 processes => the host keeps more than 90 % of its own.
"""
import time


def test_descriptors(box, no_leaks):
    process = box.start("exec /attack/attack descriptor_hogs 0123", "sh", json=True, mount=[f"{box.attack_dir}:/attack"])
    highest = 0
    while process.poll() is None:
        with open("/proc/sys/fs/file-nr") as file:
            used, _, most = map(int, file.read().split())
        highest = max(highest, used / most)
        time.sleep(0.02)
    result = box.finish(process)
    assert "note hogs=16" in result.stdout, result.explain()
    assert highest < 0.10
    assert box.run("print('next')").stdout == "next\n"
