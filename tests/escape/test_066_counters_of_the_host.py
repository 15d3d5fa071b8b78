# SPDX-License-Identifier: Apache-2.0
"""66. Code inside reads load, memory, pressure and uptime of the host from /proc => those files do not exist in the box.
"""


def test_counters(box):
    attack = box.attack("proc_view", 1)
    for name in ("loadavg", "stat", "meminfo", "uptime", "pressure/cpu", "interrupts", "locks", "partitions"):
        assert attack.steps[name] == "ENOENT", (name, attack.steps[name])
