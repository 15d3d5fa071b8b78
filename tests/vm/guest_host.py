# SPDX-License-Identifier: Apache-2.0
"""The guest as a host of glovebox: control groups as different systems lay them out, and the command
run in one of them as somebody."""
import json
import os
import pathlib
import signal
import subprocess
import time

CGROUP = pathlib.Path("/sys/fs/cgroup")
IS_V1 = not (CGROUP / "cgroup.procs").exists()
HIERARCHIES = sorted(p for p in CGROUP.iterdir() if p.is_dir() and not p.is_symlink()) if IS_V1 else [CGROUP]
GLOVEBOX = "/usr/local/bin/glovebox"
USER = 4242
PATIENCE = 60  # seconds: the machine is emulated, and slow
silent_starts = []  # runs whose result does not know when the program started


class Skip(Exception):
    """This cannot be tested here; the text says why."""


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        try:
            self.json = json.loads(out)
        except ValueError:
            self.json = {}

    def __str__(self):
        return f"status {self.status}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"

    @property
    def verdict(self):
        assert "verdict" in self.json, f"no verdict: {self}"
        return self.json["verdict"]["kind"]

    @property
    def peaks(self):
        return self.json["peaks"]

    def control(self, name):
        return next(c for c in self.json["controls"] if c["name"] == name)

    def expect(self, verdict):
        assert self.verdict == verdict, f"the verdict should be {verdict}: {self}"
        return self


class Place:
    """Somebody in a control group: the one of this name in every hierarchy."""

    def __init__(self, name, uid, path):
        self.name, self.uid, self.path = name, uid, path

    def enter(self):
        for hierarchy in HIERARCHIES:
            (hierarchy / self.path / "cgroup.procs").write_text("0")
        if self.uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def start(self, *argv, environ=None, prefix=(), **popen):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **(environ or {})}
        return subprocess.Popen([*prefix, GLOVEBOX, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/",
                                stderr=subprocess.PIPE, env=env, preexec_fn=self.enter, **popen)

    def call(self, *argv, **options):
        return finish(self.start(*argv, **options))

    def run(self, code, *flags, lang="python", **options):
        return self.call("run", "--json", "--lang", lang, *flags, "-c", code, **options)

    def directory(self, name):
        """A fresh directory of his on the disk."""
        path = pathlib.Path("/srv") / f"{self.name}-{name}"
        subprocess.run(["rm", "-rf", path], check=True)
        path.mkdir(mode=0o755)
        os.chown(path, self.uid, self.uid)
        return path


def finish(process):
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"{process.args} did not end within {PATIENCE} s") from None
    result = Result(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    if result.json.get("setup_ms") == 0:
        silent_starts.append(" ".join(process.args))
    return result


# The layouts.

def group(path, controllers=""):
    """Makes the groups of a path; each passes the controllers on to the next."""
    place = CGROUP
    for part in path.split("/"):
        if controllers:
            (place / "cgroup.subtree_control").write_text(controllers)
        place = place / part
        place.mkdir(exist_ok=True)
    return place


def delegate(place, uid):
    """What systemd does for Delegate=yes."""
    for name in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"]:
        os.chown(place / name, uid, uid)


def occupy(place):
    """A process that stays in the group."""
    return subprocess.Popen(["sleep", "infinity"], preexec_fn=lambda: (place / "cgroup.procs").write_text("0"))


# What is there.

def box_groups():
    return sorted(str(p.relative_to(CGROUP)) for p in CGROUP.rglob("glovebox-*"))


def processes():
    """Of glovebox, and of any box: (pid, name)."""
    own, found = os.readlink("/proc/self/ns/pid"), []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, namespace = (entry / "comm").read_text().strip(), os.readlink(entry / "ns/pid")
            zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if not zombie and (name.startswith("glovebox") or namespace != own):
            found.append((int(entry.name), name))
    return found


def wait_for(condition, seconds):
    """Polls; how long it took, or None."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.01)
    return time.monotonic() - start


def expect_nothing_left(seconds=0):
    assert wait_for(lambda: not processes(), seconds) is not None, f"still alive: {processes()}"
    assert wait_for(lambda: not box_groups(), seconds) is not None, f"groups left: {box_groups()}"


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def clean_up():
    """After a failure, so that the next test does not find its leavings."""
    for _ in range(50):
        for pid, _ in processes():
            kill(pid)
        for path in box_groups():
            try:
                (CGROUP / path).rmdir()
            except OSError:
                pass
        if not processes() and not box_groups():
            return
        time.sleep(0.05)
