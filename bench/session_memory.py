# SPDX-License-Identifier: Apache-2.0
"""What processes cost in memory, as the kernel counts it; for sessions.py."""

import contextlib
import os
import pathlib


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descendants(top):
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(parent_of(int(name)), []).append(int(name))
    found, look = [], [top]
    while look:
        look = [child for pid in look for child in children.get(pid, ())]
        found += look
    return found


def numbers_of(path):
    """The lines `Name:  123 kB` of a file in /proc."""
    with contextlib.suppress(OSError, ValueError):
        lines = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
        return {line[0].rstrip(":"): int(line[1]) for line in lines if len(line) > 1 and line[0].endswith(":") and line[1].isdigit()}
    return {}


def available_kb():
    return numbers_of("/proc/meminfo").get("MemAvailable", 0)


def memory_group(pid):
    """The file that has what the memory controller counts for the process's group; None where there is no such group."""
    with contextlib.suppress(OSError, ValueError):
        for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            file = f"/sys/fs/cgroup/memory{path}/memory.usage_in_bytes" if "memory" in names.split(",") else f"/sys/fs/cgroup{path}/memory.current"
            if os.path.exists(file):
                return file
    return None


def groups_kb(files):
    with contextlib.suppress(OSError, ValueError):
        return sum(int(pathlib.Path(file).read_text()) for file in files) / 1024
    return 0


class Account:
    """The memory of some processes, in kB: each has PSS, page tables and the kernel's stacks (16 kB a thread)."""

    def __init__(self, pids):
        self.rows = {}
        for pid in pids:
            rollup, status = numbers_of(f"/proc/{pid}/smaps_rollup"), numbers_of(f"/proc/{pid}/status")
            if "Pss" in rollup:
                self.rows[pid] = {"pss": rollup["Pss"], "private": rollup.get("Private_Dirty", 0) + rollup.get("Private_Clean", 0),
                                  "tables": status.get("VmPTE", 0), "stacks": 16 * status.get("Threads", 1), "group": memory_group(pid)}

    def total(self, field, pids=None):
        return sum(row[field] for pid, row in self.rows.items() if pids is None or pid in pids)

    def whole(self):
        fields = {field: self.total(field) for field in ("pss", "private", "tables", "stacks")}
        return {**fields, "all": fields["pss"] + fields["tables"] + fields["stacks"], "processes": len(self.rows)}

    def per_session(self, before, n):
        """Each session's own processes; and what all of ours together have grown by, which is what a session really costs:
        the shares of its template that it takes over the others lose."""
        new = set(self.rows) - set(before.rows)
        each = {field: self.total(field, new) / n for field in ("pss", "private", "tables", "stacks")}
        grown = {field: (self.total(field) - before.total(field)) / n for field in ("pss", "tables", "stacks")}
        groups = {row["group"] for pid, row in self.rows.items() if pid in new} - {None, memory_group("self")}
        return {**each, "all": sum(each[field] for field in ("pss", "tables", "stacks")), "grown": sum(grown.values()),
                "cgroup": groups_kb(groups) / n, "processes": len(new) / n}
