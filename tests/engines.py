#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Docker Engine and a Podman service of the tests' own, in a directory of their own, with the base image in both.

    python3 tests/engines.py start DIR    prints where they listen, as assignments for a shell
    python3 tests/engines.py stop DIR     ends them and all that they started

tools/test.py starts them once for all suites, and names DIR in $GLOVEBOX_TEST_ENGINES; the fixture `engines` waits for
those, or starts some for its own suite. Docker has two runtimes: runc, and runsc where that is installed.

Only what is in DIR, or was started from it, is ever ended or unmounted.
"""
import contextlib
import glob
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

import base_image

BINARY = pathlib.Path(os.environ.get("GLOVEBOX", pathlib.Path(__file__).resolve().parent.parent / "build/src/cli/glovebox")).absolute()
IMAGE = "glovebox-python"
PROGRAMS = {"docker": "dockerd", "podman": "podman"}
READY = 30       # seconds for an engine to listen
ALL_READY = 600  # and for all of it, the base image too
STATE = "state.json"
NOBODY = 65534
CGROUPS = "cgroups.json"  # beside it: those of the engines' names that were there before
STARTED = {}     # by directory: processes of engines that go on; one that is forgotten makes Python warn


def why_not(program="dockerd"):
    """Why there can be none here; None: there can."""
    if os.geteuid() != 0:
        return "needs root, and the suite does not run as root"
    return None if shutil.which(program) else f"{program} is not installed"


# ---- asking an engine, by hand ----

class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None, kind="application/json", timeout=60, headers=()):
    """Status and what came: JSON where it is some. A body that is no bytes and no file is sent as JSON."""
    connection = Connection(path, timeout)
    with contextlib.closing(connection):
        if body is not None and not isinstance(body, bytes) and not hasattr(body, "read"):
            body = json.dumps(body).encode()
        connection.request(method, target, body, {**({"Content-Type": kind} if body is not None else {}), **dict(headers)})
        response = connection.getresponse()
        data = response.read()
    try:
        return response.status, json.loads(data)
    except ValueError:
        return response.status, data


def listens(path):
    with socket.socket(socket.AF_UNIX) as s:
        with contextlib.suppress(OSError):
            s.connect(str(path))
            return True
    return False


def answers(path):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return ask(path, "GET", "/_ping", timeout=5)[0] == 200
    return False


# ---- processes ----

def stat_fields(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def is_alive(pid):
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX"


def started_from(directory):
    """Processes whose command names a path in the directory, and all below them, innermost last."""
    mark, parents, roots = f"{directory}/", {}, []
    for entry in map(int, filter(str.isdigit, os.listdir("/proc"))):
        fields = stat_fields(entry)
        if not fields or fields[0] in "ZX" or entry == os.getpid():
            continue
        parents.setdefault(int(fields[1]), []).append(entry)
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(mark in word for word in words) and not any("engines.py" in word for word in words):
                roots.append(entry)
    found = []
    while roots:
        pid = roots.pop(0)
        if pid not in found:
            found.append(pid)
            roots += parents.get(pid, [])
    return found


def wait_until(condition, seconds, pause=0.05):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def unmount_below(directory):
    mark = f"{directory}/"
    with open("/proc/self/mountinfo") as file:
        points = [line.split()[4].encode().decode("unicode_escape") for line in file]
    for point in reversed(points):
        if point.startswith(mark):
            subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)


def end_all(directory):
    """Everything that was started from the directory, and every mount in it. What is left, which should be nothing."""
    first = started_from(directory)
    signal_all(first, signal.SIGCONT)
    for _ in range(50):
        pids = started_from(directory)
        if not pids:
            break
        signal_all(pids, signal.SIGKILL)
        time.sleep(0.1)
    unmount_below(directory)
    return started_from(directory)


# ---- one engine ----

class Engine:
    """`kind` is docker or podman. It is ended by its number only."""

    def __init__(self, kind, directory):
        self.kind, self.directory = kind, pathlib.Path(directory)
        self.socket, self.process = self.directory / "s", None
        self.pid_file = self.directory / "pid"

    @property
    def host(self):
        return f"unix://{self.socket}"

    @property
    def pid(self):
        return int(self.pid_file.read_text())

    def command(self):
        place = self.directory
        if self.kind == "podman":
            # crun refuses hosts with both versions of cgroups.
            return ["podman", f"--root={place}/root", f"--runroot={place}/run", f"--tmpdir={place}/tmp", "--cgroup-manager=cgroupfs", f"--runtime={shutil.which('runc')}",
                    "--events-backend=file", "system", "service", "--time=0", self.host]
        return ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--oom-score-adjust=0", f"--config-file={place}/daemon.json",
                f"--data-root={place}/data", f"--exec-root={place}/exec", f"--pidfile={place}/dockerd.pid", f"--host={self.host}"]

    def configure(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        runsc = shutil.which("runsc")
        runtimes = {"runsc": {"path": runsc, "runtimeArgs": ["--network=none", "--platform=ptrace"]}} if runsc else {}
        (self.directory / "daemon.json").write_text(json.dumps({"runtimes": runtimes, "shutdown-timeout": 2}))
        (self.directory / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\nrunroot = "{self.directory}/run"\ngraphroot = "{self.directory}/root"\n')
        # Podman's own are above what root may set on some hosts.
        (self.directory / "containers.conf").write_text('[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]\n')

    def start(self):
        self.configure()
        self.socket.unlink(missing_ok=True)
        environ = {**os.environ, "CONTAINERS_STORAGE_CONF": f"{self.directory}/storage.conf", "CONTAINERS_CONF": f"{self.directory}/containers.conf"}
        with open(self.directory / "log", "ab") as log:
            # A session of its own: an interrupted test must not interrupt it. A directory of its own: Podman's conmon writes an empty file `oom` there.
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, env=environ, cwd=self.directory)
        self.pid_file.write_text(str(self.process.pid))
        ready = wait_until(lambda: self.process.poll() is not None or answers(self.socket), READY)
        if not ready or self.process.poll() is not None:
            raise RuntimeError(f"{self.kind} does not answer: {self.log()[-2000:]}")
        # As Docker does it by itself: for its group, which a server that has left root keeps.
        with contextlib.suppress(LookupError):
            shutil.chown(self.socket, group="docker")
            self.socket.chmod(0o660)
        return self

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def ask(self, method, target, body=None, **options):
        return ask(self.socket, method, target, body, **options)

    def kill(self):
        """As a crash does it: its containers go on."""
        os.kill(self.pid, signal.SIGKILL)
        if self.process:
            self.process.wait()
        # Its containerd follows it; a new engine must not meet that one.
        wait_until(lambda: not is_alive(self.pid) and not [p for p in started_from(self.directory) if name_of(p) == "containerd"], 5)
        # Where process 1 reaps nobody its number looks as if it were alive, and the new engine would wait for it.
        (self.directory / "exec/containerd/containerd.pid").unlink(missing_ok=True)

    def stop(self):
        """The orderly end; then what did not follow. Complains when something stays."""
        if self.pid_file.exists() and self.pid in started_from(self.directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)
                os.kill(self.pid, signal.SIGTERM)
            if self.process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(10)
            wait_until(lambda: not is_alive(self.pid), 10)
        left = end_all(self.directory)
        if self.process:
            self.process.wait()
        if left:
            raise RuntimeError(f"{self.kind} left processes: {left}")

    # ---- images and containers ----

    def import_tar(self, path, name, changes=()):
        query = urllib.parse.urlencode([("fromSrc", "-"), ("repo", name), ("tag", "latest"), *(("changes", c) for c in changes)])
        with open(path, "rb") as file:
            status, answer = self.ask("POST", f"/images/create?{query}", file, kind="application/x-tar", timeout=300)
        if status != 200 or b"error" in (answer if isinstance(answer, bytes) else json.dumps(answer).encode()):
            raise RuntimeError(f"{self.kind} did not import {path}: {status} {answer}")

    def has_image(self, name):
        return self.ask("GET", f"/images/{name}/json")[0] == 200

    def containers(self, label="org.glovebox.session"):
        """Of all states, with that label; None: all there are."""
        query = f"&filters={urllib.parse.quote(json.dumps({'label': [label]}))}" if label else ""
        status, answer = self.ask("GET", f"/containers/json?all=1{query}")
        assert status == 200, answer
        return answer

    def inspect(self, container):
        status, answer = self.ask("GET", f"/containers/{container}/json")
        assert status == 200, answer
        return answer

    def remove(self, container):
        return self.ask("DELETE", f"/containers/{container}?force=1&v=1")

    def runtimes(self):
        return sorted(self.ask("GET", "/info")[1].get("Runtimes") or {})


def make_image(engine, tries=6):
    """The image that boxes are made of, by the command that people use. An engine that has just been started on a busy
    machine may not answer in time."""
    done = subprocess.run([str(BINARY), "image", "build", IMAGE, "--base", base_image.NAME, "--backend", "docker", "--network", "none", "--quiet"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "DOCKER_HOST": engine.host}, timeout=300, check=False)
    if done.returncode and tries > 1 and b"does not answer" in done.stdout:
        time.sleep(2)
        make_image(engine, tries - 1)
    elif done.returncode:
        raise RuntimeError(f"glovebox image build {IMAGE} failed at {engine.kind}: {done.stdout.decode(errors='replace')[-2000:]}")


# ---- both of them ----

def start_one(kind, directory, tar, state):
    """An engine with the images; what is wrong goes into the state, for the tests to tell."""
    reason = why_not(PROGRAMS[kind])
    if reason:
        state[kind] = {"missing": reason}
        return
    engine = Engine(kind, directory / kind)
    try:
        engine.start()
        STARTED.setdefault(directory, []).append(engine.process)
        path = tar()
        engine.import_tar(path, base_image.NAME)
        make_image(engine)
        state[kind] = {"directory": str(engine.directory), "host": engine.host, "runtimes": engine.runtimes()}
    except Exception:  # told by every test that needs it
        state[kind] = {"directory": str(engine.directory), "failed": traceback.format_exc()[-4000:]}


def start(directory):
    """Both at once, and the base image meanwhile. The state, which is also in the directory."""
    directory = pathlib.Path(directory).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)  # for a server that has left root: the sockets themselves are for their group
    (directory / CGROUPS).write_text(json.dumps(cgroups()))
    state, made, lock = {}, [], threading.Lock()

    def tar():
        with lock:
            if not made:
                made.append(base_image.base_tar())
            return made[0]

    threads = [threading.Thread(target=start_one, args=(kind, directory, tar, state)) for kind in ("docker", "podman")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    half = directory / f"{STATE}.half"
    half.write_text(json.dumps(state))
    half.rename(directory / STATE)
    return state


def cgroups():
    """The groups that engines keep for good above those of their containers, the innermost first."""
    names = ("docker", "libpod_parent/conmon", "libpod_parent")
    return [path for name in names for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/*") for path in glob.glob(f"{root}/{name}")]


def take_back_null():
    """Debian's runsc gives /dev/null to nobody when it is a stream of a container."""
    if os.geteuid() == 0 and os.stat("/dev/null").st_uid == NOBODY:
        os.chown("/dev/null", 0, 0)


def stop(directory):
    directory = pathlib.Path(directory).absolute()
    before = json.loads((directory / CGROUPS).read_text()) if (directory / CGROUPS).exists() else cgroups()
    for kind in ("docker", "podman"):
        if (directory / kind).is_dir():
            Engine(kind, directory / kind).stop()
    for process in STARTED.pop(directory, []):
        process.wait(10)
    unmount_below(directory)
    take_back_null()
    for path in cgroups():
        if path not in before:
            with contextlib.suppress(OSError):  # somebody else's by now
                os.rmdir(path)
    shutil.rmtree(directory, ignore_errors=True)


class Engines:
    """What tests ask: engines.docker, engines.podman. One that cannot be here skips the test; one that failed fails it."""

    def __init__(self, state):
        self.state = state

    def get(self, kind):
        import pytest
        found = self.state[kind]
        if "missing" in found:
            pytest.skip(found["missing"])
        assert "failed" not in found, found["failed"]
        return Engine(kind, found["directory"])

    @property
    def docker(self):
        return self.get("docker")

    @property
    def podman(self):
        return self.get("podman")

    @property
    def has_runsc(self):
        return "runsc" in self.state["docker"].get("runtimes", [])


@contextlib.contextmanager
def session_engines():
    """Those that somebody started for all suites, or some for this one."""
    given = os.environ.get("GLOVEBOX_TEST_ENGINES")
    if given:
        path = pathlib.Path(given) / STATE
        if not wait_until(path.exists, ALL_READY):
            raise RuntimeError(f"$GLOVEBOX_TEST_ENGINES: {given} has no engines after {ALL_READY} s")
        yield Engines(json.loads(path.read_text()))
        return
    missing = {kind: why_not(program) for kind, program in PROGRAMS.items()}
    if all(missing.values()):
        yield Engines({kind: {"missing": reason} for kind, reason in missing.items()})
        return
    directory = tempfile.mkdtemp(prefix="gbe-", dir="/var/tmp")
    try:
        yield Engines(start(directory))
    finally:
        stop(directory)


@contextlib.contextmanager
def engine():
    """A Docker Engine without images, for one test: the path of its socket."""
    with tempfile.TemporaryDirectory(prefix="gbe-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        one = Engine("docker", pathlib.Path(name) / "docker")
        try:
            yield one.start().socket
        finally:
            one.stop()


def main(argv):
    if len(argv) != 3 or argv[1] not in ("start", "stop"):
        sys.exit(__doc__)
    if argv[1] == "stop":
        stop(argv[2])
        return
    state = start(argv[2])
    print(f"GLOVEBOX_TEST_ENGINES={pathlib.Path(argv[2]).absolute()}")
    for kind, found in state.items():
        if "host" in found:
            print(f"GLOVEBOX_TEST_{kind.upper()}={found['host']}")
        else:
            print(f"# {kind}: {found.get('missing') or found['failed']}".replace("\n", "\n# "))
    if any("failed" in found for found in state.values()):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv)
