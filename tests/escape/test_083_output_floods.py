# SPDX-License-Identifier: Apache-2.0
"""83. Code inside prints without end, in large and in one-byte writes => cut at the limit, truncated is true, glovebox stays small.
"""
import os
import time

import pytest
from conftest import Result


@pytest.mark.parametrize("size", [65536, 1])
def test_floods(box, no_leaks, size):
    attack_command = f"exec /attack/attack flood 0123 {size}"
    process = box.start(attack_command, "sh", output_limit="256k", timeout="20s", mount=[f"{box.attack_dir}:/attack"])
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    result = Result(process.returncode, out, err)
    assert (result.verdict, result.returncode, result.json["truncated"]) == ("output", 121, True), result.explain()
    assert len(result.stdout) == 256 << 10
    assert result.json["verdict"]["limit"] == 256 << 10
    assert usage.ru_maxrss < 32 << 10, "KiB of glovebox itself"


def test_nobody_reads(box):
    """Without a reader glovebox does not take more and more memory; the time limit still holds."""
    process = box.start("exec /attack/attack flood 0123 65536", "sh", json=False, timeout="2s", output_limit="1g", mount=[f"{box.attack_dir}:/attack"])
    time.sleep(1)
    with open(f"/proc/{process.pid}/status") as file:
        resident = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
    assert resident < 32 << 10
    process.stdout.close()
    process.stdout = None
    assert box.finish(process).returncode in (124, 141)
