# SPDX-License-Identifier: Apache-2.0
"""The processor time of a whole process tree, also of its processes that are long gone: a cgroup of its own counts it."""

import contextlib
import os
import pathlib
import time

ROOT = pathlib.Path("/sys/fs/cgroup/cpuacct")  # v1 alone lets a process be in a group that has others below it


def kernel_threads_nsec():
    """What they did is nobody's, but much of it is taking down what sessions leave: network namespaces, cgroups, memory."""
    total = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat") as file:
                parent = file.read().rpartition(")")[2].split()[1]
            if parent == "2":
                with open(f"/proc/{entry}/schedstat") as file:
                    total += int(file.read().split()[0])
    return total


class Processor:
    """join is for the child, before its exec. A group that is still in use is left to whoever comes after."""

    def __init__(self, stack):
        self.group = ROOT / f"bench-{os.getpid()}"
        self.group.mkdir()
        stack.callback(self.remove)

    @staticmethod
    def is_possible():
        return os.geteuid() == 0 and (ROOT / "cpuacct.usage").exists()

    def join(self):
        (self.group / "cgroup.procs").write_text("0")

    def remove(self):
        for _ in range(100):
            try:
                self.group.rmdir()
                return
            except OSError:
                time.sleep(0.05)

    def usage_nsec(self):
        return int((self.group / "cpuacct.usage").read_text())

    def measure(self, function):
        """(of the group, of kernel threads) in nanoseconds while the function ran, and for what it left to be done."""
        time.sleep(0.2)
        before = self.usage_nsec(), kernel_threads_nsec()
        function()
        time.sleep(0.3)
        return self.usage_nsec() - before[0], kernel_threads_nsec() - before[1]
