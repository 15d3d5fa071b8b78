# SPDX-License-Identifier: Apache-2.0
"""A `glovebox warm` for tests: one for all of a file (`server`), or one for a test alone (`own_server`)."""
import contextlib
import json
import os
import re
import signal
import subprocess

import pytest
from conftest import IS_ROOT, box_mounts, make_box, process_stat, wait_until

COLD = {"GLOVEBOX_RUNTIME_DIR": "/nonexistent"}
READY = 30  # seconds for a template on a busy machine


class Server:
    """A `glovebox warm` in a runtime directory of its own."""

    def __init__(self, box, *args, environ=None):
        self.box = box
        self.directory = box.directory("warm", mode=0o700)
        self.environ = {"GLOVEBOX_RUNTIME_DIR": str(self.directory), **(environ or {})}
        self.log = open(box.directory("log") / "stderr", "w+b")
        self.process = subprocess.Popen([str(box.binary), "warm", "--json", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, env={**box.environ, **self.environ}, **box.ids)
        self.lines = []

    def wait_ready(self, n=1):
        """The first n templates have said that they are ready."""
        os.set_blocking(self.process.stdout.fileno(), False)
        rest = b""

        def ready():
            nonlocal rest
            rest += self.process.stdout.read() or b""
            *whole, rest = rest.split(b"\n")
            self.lines += map(json.loads, whole)
            return len(self.lines) >= n or self.process.poll() is not None

        assert wait_until(ready, READY, 0.02) and len(self.lines) >= n, (self.lines, self.errors())
        return self

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode()

    def run(self, code=None, lang=None, **options):
        return self.box.run(code, lang, environ=self.environ, **options)

    def run_warm(self, code, **options):
        result = self.run(code, **options)
        assert result.control("layout")["state"] == "weaker", result.control("layout")
        return result

    def is_warm(self):
        return self.run("pass").control("layout")["state"] == "weaker"

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail("glovebox warm does not end")
        finally:
            self.process.stdout.close()


def children(pid):
    """Descendants by their parents, as pids; a warden's boxes are its children."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        stat = process_stat(entry)
        if stat:
            found.setdefault(int(stat[1][1]), []).append((int(entry), stat[0]))
    todo, all_of_them = [pid], []
    while todo:
        below = found.get(todo.pop(), [])
        all_of_them += below
        todo += [p for p, _ in below]
    return all_of_them


def template_pids(server):
    """The interpreters that have glovebox_template.py as their script, the oldest first: templates, and children that have not begun."""
    pids = []
    for pid, _ in children(server.process.pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"/glovebox_template.py") for word in words):
            stat = process_stat(pid)
            pids.append((int(stat[1][19]) if stat else 1 << 60, pid))
    return [pid for _, pid in sorted(pids)]


def template_pid(server):
    return next(iter(template_pids(server)), None)


class Traces:
    """What a server has on the machine: its processes and their cgroups. Others may have theirs at the same time."""

    def __init__(self, server):
        self.mounts, self.processes, self.cgroups = box_mounts(), set(), set()
        self.add(server)

    def add(self, server):
        for pid, _ in [*children(server.process.pid), (server.process.pid, "")]:
            stat = process_stat(pid)
            if not stat:
                continue
            self.processes.add((pid, stat[1][19]))
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup") as file:
                self.cgroups |= set(re.findall(r"glovebox-[0-9a-f]{16}", file.read()))
        assert self.processes and self.cgroups
        return self

    def left(self):
        alive = {pid for pid, start in self.processes if (process_stat(pid) or (0, [0] * 20))[1][19] == start}
        groups = {os.path.join(top, d) for top, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if d in self.cgroups}
        return alive, groups, box_mounts() - self.mounts

    def assert_gone(self, seconds=10.0):
        assert wait_until(lambda: not any(self.left()), seconds, 0.05), self.left()


@pytest.fixture
def warm_box(attack_dir, scratch, missing_controls):
    if not IS_ROOT:
        pytest.skip("needs root, and the suite does not run as root")
    return make_box("root", attack_dir, scratch, missing_controls)


@pytest.fixture(scope="module")
def server(session_dir, missing_controls):
    """One for all tests that do not harm it."""
    if not IS_ROOT:
        pytest.skip("needs root, and the suite does not run as root")
    directory = session_dir / "warm-module"
    directory.mkdir(mode=0o755, exist_ok=True)
    s = Server(make_box("root", None, directory, missing_controls)).wait_ready()
    yield s
    assert s.stop() == 0
    assert not os.path.exists(s.directory / "warm.sock")


@pytest.fixture
def own_server(warm_box):
    """One for a test alone."""
    s = Server(warm_box).wait_ready()
    yield s
    s.stop(signal.SIGKILL)
