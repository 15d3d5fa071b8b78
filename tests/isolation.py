#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One suite's own part of the machine, so that suites run side by side and each finds only its own leftovers.

A suite is one pytest run or one other program of the tests. It has

- control groups: one directory of its name in each hierarchy, with the suite itself in the group `main` below it.
  glovebox makes the groups of boxes below the caller's group, so these trees hold every process and every group of
  the suite: daemons, orphans, and processes in other pid namespaces. OwnGroups (cgroups.py) makes further groups with
  the suite's name as a prefix.
- a directory for temporary files, sockets and state, named in TMPDIR, GLOVEBOX_RUNTIME_DIR and GLOVEBOX_STATE_DIR.

Where no group can be made (an unprivileged user without delegation), the suite becomes a subreaper instead, and its
processes are its descendants.

pytest enters a suite in conftest.py. Other programs get one from this command; it exits with 1 when something is left:

    python3 tests/isolation.py COMMAND [ARGUMENT...]

GLOVEBOX_TEST_SUITE is the name to use. The caller that sets it (tools/test.py) can remove the leftovers of a killed
suite with remove(name), and checks the places that all suites share.
"""

import atexit
import contextlib
import ctypes
import dataclasses
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PREFIX = "gbtest-"
MAIN = "main"
CONTROLLERS = {"memory", "pids", "cpu", "cpuacct"}
SHARES = 2  # times the processor share of a group: the containers of an engine have one share together
GRACE = float(os.environ.get("GLOVEBOX_TEST_GRACE", "5"))  # seconds for everything of a test to be gone
PR_SET_CHILD_SUBREAPER = 36
SHARED_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/tmp/sandboxes")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def wait_until(condition, seconds=5.0, pause=0.01):
    """Polls; the last value of the condition, true or not."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)


def process_stat(pid):
    """Name and fields from the state on; None for a process that is dead: gone, a zombie that process 1 has yet
    to reap, or an init that waits for such zombies."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, tail = file.read().decode(errors="replace").rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    exiting = int(fields[6]) & 0x4  # PF_EXITING
    return None if fields[0] in "ZX" or exiting else (head.partition("(")[2], fields)


@dataclasses.dataclass(frozen=True, order=True)
class Process:
    """Its name may change, and is no part of its identity."""

    pid: int
    start: str
    name: str = dataclasses.field(compare=False)


# ---- control groups ----


def hierarchies():
    """Each mounted hierarchy in which boxes have groups: path, controllers ("" for v2), and the root of the mount."""
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, path = (re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), field) for field in fields.split()[3:5])
        names = "" if kind == "cgroup2" else ",".join(sorted(CONTROLLERS & set(options.split(","))))
        if kind == "cgroup2" or (kind == "cgroup" and names):
            found.append((pathlib.Path(path), names, root))
    return found


def own_group(path, names, root):
    """The group of this process, as a directory below the mount."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, listed, group = line.split(":", 2)
        if (not names and not listed) or (names and set(names.split(",")) <= set(listed.split(","))):
            below = os.path.relpath(group, root)
            return None if below.startswith("..") else path / below
    return None


def pass_on(group):
    """v2: the group's children get the controllers that boxes need."""
    try:
        (group / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    except OSError:  # cpu is often not delegated
        (group / "cgroup.subtree_control").write_text("+memory +pids")


def all_groups(top):
    return [pathlib.Path(path) for path, _, _ in os.walk(top)]


def processes_in(groups):
    found = set()
    for group in groups:
        with contextlib.suppress(OSError):
            found.update(map(int, (group / "cgroup.procs").read_text().split()))
    return found


def places_of(name):
    """The directories of a suite, and of the groups that have its name as a prefix, in all hierarchies."""
    found = []
    for path, names, root in hierarchies():
        own = own_group(path, names, root) or path
        parents = {path, own, *(() if names else (p for p in own.parents if path in p.parents))}
        found += [group for parent in sorted(parents) for group in parent.glob(f"{name}*") if group.is_dir()]
    return sorted(set(found))


def remove_groups(tops, seconds=5.0):
    """Removes these trees of groups; returns those that could not be removed."""

    def attempt():
        for top in tops:
            for group in reversed(all_groups(top)):
                with contextlib.suppress(OSError):
                    group.rmdir()
        return not any(top.exists() for top in tops)

    wait_until(attempt, seconds, 0.05)
    return [top for top in tops if top.exists()]


class Groups:
    """The suite's control groups. False where none could be made."""

    def __init__(self, name):
        self.name, self.tops, self.origins = name, [], []

    def __bool__(self):
        return bool(self.tops)

    def enter(self):
        """Makes the groups and moves this process into them: all, or none."""
        every = hierarchies()
        try:
            for path, names, root in every:
                origin = own_group(path, names, root)
                if origin is None:
                    raise OSError(f"this process has no group in {path}")
                top = self.make(origin / self.name, names, has_controllers=bool(names) or len(every) == 1)
                (top / MAIN / "cgroup.procs").write_text(str(os.getpid()))
                self.origins.append(origin)
        except OSError:
            self.leave()
        return bool(self)

    def make(self, top, names, has_controllers):
        """One tree; its top. In a v2 tree with controllers a group that has processes cannot pass them on to boxes."""
        is_v2 = has_controllers and not names
        if is_v2:
            top = self.below_delegated(top)
        top.mkdir(mode=0o755, exist_ok=True)
        self.tops.append(top)
        if is_v2:
            pass_on(top)
        (top / MAIN).mkdir(mode=0o755, exist_ok=True)
        for file, value in {"cpu.shares": 1024 * SHARES, "cpu.weight": 100 * SHARES}.items():
            if (top / file).exists():
                (top / file).write_text(str(value))
        return top

    @staticmethod
    def below_delegated(top):
        """The nearest group above that passes its controllers on."""
        for parent in top.parents:
            with contextlib.suppress(OSError):
                if {"memory", "pids"} <= set((parent / "cgroup.subtree_control").read_text().split()):
                    return parent / top.name
        return top

    def leave(self):
        """Moves this process back, and removes the groups. Returns those that are left."""
        for origin in self.origins:
            with contextlib.suppress(OSError):
                (origin / "cgroup.procs").write_text(str(os.getpid()))
        left = remove_groups(self.tops) if self.tops else []
        self.tops, self.origins = [], []
        return left


# ---- a suite ----


class Suite:
    def __init__(self, name=None):
        given = name or os.environ.get("GLOVEBOX_TEST_SUITE", "")
        self.is_given = bool(given)
        self.name = given or f"{PREFIX}{secrets.token_hex(4)}"
        self.groups, self.directory, self.before, self.pid = Groups(self.name), None, {}, None

    # ---- life ----

    def enter(self):
        self.directory, self.pid = pathlib.Path(tempfile.gettempdir()) / self.name, os.getpid()
        self.directory.mkdir(mode=0o1777, exist_ok=True)
        self.directory.chmod(0o1777)  # boxes of other users have their files there
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)  # after pytest's own
        for name, value in {"GLOVEBOX_TEST_SUITE": self.name, **self.environ()}.items():
            self.before[name] = os.environ.get(name)
            os.environ[name] = value
        tempfile.tempdir = str(self.directory)
        if not self.groups.enter():
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def leave(self):
        """Ends the isolation, and all processes that are left: the checks have reported them. Returns the groups that
        could not be removed."""
        self.kill_all()
        left = self.groups.leave()
        tempfile.tempdir = None
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        return left

    def kill_all(self):
        def dead():
            processes = self.processes()
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            return not processes

        return wait_until(dead, 10, 0.05)

    def environ(self, uid=None):
        """The variables that keep a command of this user in the suite's own places; none before enter()."""
        if not self.directory:
            return {}
        uid = os.geteuid() if uid is None else uid
        places = {
            "GLOVEBOX_RUNTIME_DIR": self.directory / f"run-{uid}",
            "GLOVEBOX_STATE_DIR": self.directory / f"state-{uid}",
        }
        for place in places.values():
            if not place.exists():
                place.mkdir(mode=0o700)
                if uid != os.geteuid():
                    os.chown(place, uid, uid)
        return {"TMPDIR": str(self.directory), **{name: str(place) for name, place in places.items()}}

    # ---- the suite's own things on this machine ----

    def processes(self):
        """All but the suite's own."""
        pids = (processes_in(self.trees()) if self.groups else self.descendants()) - {self.pid}
        stats = {pid: process_stat(pid) for pid in pids}
        return {Process(pid, stat[1][19], stat[0]) for pid, stat in stats.items() if stat}

    def descendants(self):
        children = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            stat = process_stat(entry)
            if stat:
                children.setdefault(int(stat[1][1]), []).append(int(entry))
        found, todo = set(), [self.pid]
        while todo:
            below = children.get(todo.pop(), [])
            found.update(below)
            todo += below
        return found

    def trees(self):
        return [group for top in {*self.groups.tops, *places_of(f"{self.name}-")} for group in all_groups(top)]

    def cgroups(self):
        """The groups of boxes."""
        return {str(group) for group in self.trees() if re.fullmatch("glovebox-[0-9a-f]{16}", group.name)}

    def files(self):
        """Files of glovebox. A suite by itself also looks at shared places; tools/test.py does that for its parts."""
        found = box_files([self.directory])
        for place in self.directory.glob("run-*"):
            found |= {str(path) for path in place.iterdir()}
        return found if self.is_given else found | box_files(SHARED_PLACES)

    def mounts(self):
        """The host's mounts that could be ours. mmdebstrap also has such mounts while it makes an image."""
        named = {m for m in host_mounts() if self.name in m}
        return named | {m for m in self.host_mounts() if re.search(" - (tmpfs|proc|devpts) none ", m)}

    def host_mounts(self):
        """The host's mounts without those of engines and other suites, which come and go."""
        other = re.compile(rf"/(gb-engines\.|gbe-|{PREFIX}(?!{self.name[len(PREFIX):]}))"
                           r"|/mmdebstrap\.|/run/(docker|netns)/")
        return {m for m in host_mounts() if not other.search(m)}

    def snapshot(self):
        return {name: probe(self) for name, probe in PROBES.items()}

    def leftovers(self, before, seconds=GRACE):
        """Everything that is new since `before` and does not go away."""
        first = {name: probe(self) - before[name] for name, probe in PROBES.items()}
        still = {}

        def gone():
            still.update({name: first[name] & probe(self) for name, probe in PROBES.items() if first[name]})
            return not any(still.values())

        wait_until(gone, seconds, 0.05)
        return {name: sorted(map(str, value)) for name, value in still.items() if value}


def box_files(places):
    """Files and directories of the product. Those of unit tests are named glovebox-test-*."""
    return {
        f"{place}/{name}"
        for place in map(str, places)
        if os.path.isdir(place)
        for name in os.listdir(place)
        if name.startswith(("glovebox", ".glovebox", "sandbox")) and not name.startswith("glovebox-test-")
    }


def host_mounts():
    with open("/proc/self/mountinfo") as file:
        return set(file)


def host_devices():
    """Owner and mode of the devices that all processes share. (Debian's runsc gives /dev/null to nobody when a
    container has it as a stream; ours have pipes.)"""
    stats = {path: os.stat(path) for path in DEVICES}
    return {(path, st.st_uid, st.st_gid, st.st_mode) for path, st in stats.items()}


PROBES = {
    "processes": Suite.processes,
    "cgroups": Suite.cgroups,
    "files": Suite.files,
    "mounts": Suite.mounts,
    "devices": lambda suite: host_devices(),
}


def remove(name, directory=None):
    """Ends and removes everything of a suite that is no longer there itself. Returns its findings."""
    tops = places_of(name)
    found = [f"group {top}" for top in tops]

    def dead():
        pids = {
            pid for pid in processes_in(group for top in tops for group in all_groups(top)) if process_stat(pid)
        } - {os.getpid()}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_until(dead, 10, 0.05)
    remove_groups(tops)
    place = pathlib.Path(directory or tempfile.gettempdir()) / name
    if place.exists():
        found.append(str(place))
        shutil.rmtree(place, ignore_errors=True)
    return found


current = Suite()


def main(argv):
    if not argv:
        sys.exit(__doc__)
    suite = current.enter()
    before = suite.snapshot()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        status = subprocess.run(argv, check=False).returncode
        left = suite.leftovers(before)
    finally:
        suite.leave()
    if left:
        print(f"left behind by {' '.join(argv)}: {left}", flush=True)
    return status if status > 0 or not left else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
