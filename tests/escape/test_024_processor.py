# SPDX-License-Identifier: Apache-2.0
"""24. Code inside calls the vsyscall page, reads the time stamp counter, takes all processors and
real-time classes => reading is allowed, the rest refused, the cpu limit holds.
"""


def test_processor(box):
    attack = box.attack("processor")
    attack.assert_refused("EPERM", "EACCES")
    if "vsyscall" in attack.notes:
        assert attack.notes["rdtsc"] == "1"
        assert attack.notes["vsyscall"] in ("exit0", "SIGSEGV")  # emulated, or off in this kernel


def test_cpu_limit_holds(box):
    """Four spinning processes under one processor use about one second of it in one second."""
    code = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        break
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
print('token', flush=True)
"""
    result = box.run(code, cpus=1)
    assert "token" in result.stdout
    if box.has_cgroup:
        assert result.json["cpu_ms"] < 1400
    else:
        code = "import os; print(len(os.sched_getaffinity(0)))"
        assert box.run(code, cpus=1).stdout == "1\n"
