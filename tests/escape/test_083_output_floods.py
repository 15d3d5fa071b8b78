# SPDX-License-Identifier: Apache-2.0
"""83. Code inside prints without end, in large and in one-byte writes => cut at the limit, truncated is true, glovebox stays small.
"""
import select
import time

import pytest


def peak_memory(pid):
    """In KiB; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return int(next((line for line in file if line.startswith("VmHWM")), "x 0").split()[1])
    except OSError:
        return 0


@pytest.mark.parametrize("size", [65536, 1])
def test_floods(box, no_leaks, size):
    attack_command = f"sleep 0.3; exec /attack/attack flood 0123 {size}"
    process = box.start(attack_command, "sh", output_limit="256k", timeout="20s", mount=[f"{box.attack_dir}:/attack"])
    resident = 0
    while process.poll() is None and not select.select([process.stdout], [], [], 0.002)[0]:
        resident = max(resident, peak_memory(process.pid))
    result = box.finish(process)
    assert (result.verdict, result.returncode, result.json["truncated"]) == ("output", 121, True), result.explain()
    assert len(result.stdout) == 256 << 10
    assert result.json["verdict"]["limit"] == 256 << 10
    assert 0 < resident < 16 << 10, "KiB of glovebox itself"


def test_nobody_reads(box):
    """Without a reader glovebox does not take more and more memory; the time limit still holds."""
    process = box.start("exec /attack/attack flood 0123 65536", "sh", json=False, timeout="2s", output_limit="1g", mount=[f"{box.attack_dir}:/attack"])
    time.sleep(1)
    assert 0 < peak_memory(process.pid) < 16 << 10
    process.stdout.close()
    process.stdout = None
    assert box.finish(process).returncode in (124, 141)
