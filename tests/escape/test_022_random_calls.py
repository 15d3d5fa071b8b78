# SPDX-License-Identifier: Apache-2.0
"""22. Code inside makes random system calls with huge, unaligned and kernel pointers for some seconds
=> the run ends clean, the kernel's log has no warning, the next run works. (Short: the long
version is a job for a machine of its own.)
"""
import random
import re
import subprocess
from collections import Counter


BAD = re.compile(r"WARNING|BUG|Oops|general protection|KASAN|UBSAN|soft lockup|hung task")


def kernel_log():
    try:
        out = subprocess.run(["dmesg"], capture_output=True, timeout=10, check=False).stdout.decode(errors="replace")
    except OSError:
        return None
    # "traps:" is about a program that crashed, here or in another suite.
    return Counter(line for line in out.splitlines() if BAD.search(line) and "traps: " not in line)


def test_random_calls(box, no_leaks):
    before, calls = kernel_log(), 0
    for _ in range(3):  # its own random calls may kill the attack itself, which is no loss but proves little
        attack = box.attack("trinity", random.randrange(1 << 30), timeout="20s")
        assert attack.result.verdict in ("ok", "error", "pids", "memory"), attack.result.explain()
        calls += int(attack.notes.get("calls", 0))
        if calls > 10000:
            break
    assert calls > 10000
    assert box.run("print('next')").stdout == "next\n"
    after = kernel_log()
    assert before is None or not after - before, after - before
