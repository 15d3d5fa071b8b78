# SPDX-License-Identifier: Apache-2.0
"""Harness of the end-to-end and escape tests; tests/README.md explains how it is used.

The program under test is $GLOVEBOX, or build/src/cli/glovebox below the source root. A test runs
it through a Box: as root, or as an ordinary user that exists in no passwd file. Options of the
command are keyword arguments: run("print(1)", memory="64m", mount=["/a:/b", "/c:/d"]).
"""
import json as jsonlib
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest
import isolation
from isolation import process_stat, wait_until  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
LAYERS_BINARY = os.environ.get("GLOVEBOX_LAYERS_BINARY")
# What the caller has set; tests that load the library set more, for themselves.
GIVEN = {name: os.environ[name] for name in ("GLOVEBOX_LIBEXEC_DIR", "GLOVEBOX_CONFIG_DIR") if name in os.environ}
GUARD = {}  # what guard_of_file() has set for the file that is run
ATTACK_SOURCES = ROOT / "tests/escape/attack"
USER = 65533
IS_ROOT = os.geteuid() == 0
NOT_ROOT = "needs root, and the suite does not run as root"
PATIENCE = 60  # seconds after which a run that should have ended is a failure

needs_root = pytest.mark.skipif(not IS_ROOT, reason=NOT_ROOT)


def best_of(tries, attempt, is_good):
    """For promises about time, where a process may stand still for a second: calls attempt() until its value is good.
    Returns the last value; a product that is always late still fails."""
    for _ in range(tries):
        value = attempt()
        if is_good(value):
            break
    return value


class Result:
    """How one call of the command ended."""

    def __init__(self, returncode, out, err):
        self.returncode, self.out, self.err = returncode, out, err
        try:
            self.json = jsonlib.loads(out)
        except ValueError:
            self.json = None

    @property
    def verdict(self):
        assert self.json and "verdict" in self.json, self.explain()
        return self.json["verdict"]["kind"]

    @property
    def message(self):
        assert self.json and "verdict" in self.json, self.explain()
        return self.json["verdict"]["message"]

    @property
    def error(self):
        """The error object when nothing was run."""
        assert self.json and "error" in self.json, self.explain()
        return self.json["error"]

    @property
    def stdout(self):
        return self.json["stdout"] if self.json and "stdout" in self.json else self.out.decode(errors="replace")

    @property
    def stderr(self):
        return self.json["stderr"] if self.json and "stderr" in self.json else self.err.decode(errors="replace")

    @property
    def exit_code(self):
        return self.json["exit_code"]

    @property
    def signal(self):
        return self.json["signal"]

    def control(self, name):
        return next(c for c in self.json["controls"] if c["name"] == name)

    def explain(self):
        return f"status {self.returncode}\nstdout: {self.out[-3000:]!r}\nstderr: {self.err[-3000:]!r}"


class Attack:
    """What an attack of tests/escape/attack reported: steps (what it tried, and 'ok' or an errno) and notes."""

    def __init__(self, name, token, result):
        self.name, self.result, self.steps, self.notes = name, result, {}, {}
        lines = result.stdout.splitlines()
        assert f"token {token}" in lines, f"the attack {name} did not run: {result.explain()}"
        self.finished = f"done {token}" in lines
        for line in lines:
            kind, _, rest = line.partition(" ")
            key, equals, value = rest.partition("=")
            if equals and kind in ("try", "note"):
                (self.steps if kind == "try" else self.notes)[key] = value

    @property
    def opened(self):
        """The steps that were not refused."""
        return sorted(k for k, v in self.steps.items() if v == "ok")

    def assert_refused(self, *errnos):
        """Every step ran to its end and was refused, with one of these errnos if any are given."""
        assert self.finished and self.steps, f"the attack {self.name} is vacuous: {self.result.explain()}"
        assert not self.opened, f"{self.name}: not refused: {self.opened}"
        if errnos:
            wrong = {k: v for k, v in self.steps.items() if v not in errnos}
            assert not wrong, f"{self.name}: refused, but not by {errnos}: {wrong}"


def options_to_argv(options):
    argv = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is True:
                argv.append(flag)
            elif item is not False and item is not None:
                argv += [flag, str(item)]
    return argv


class Box:
    """Runs the command as somebody. `weaker` is what this host cannot give to that somebody."""

    def __init__(self, who, attack_dir, scratch, binary=BINARY, environ=None):
        self.who, self.attack_dir, self.scratch, self.binary = who, attack_dir, scratch, binary
        self.ids = {"user": USER, "group": USER, "extra_groups": []} if who == "user" and IS_ROOT else {}
        self.uid = USER if who == "user" and IS_ROOT else os.geteuid()
        self.environ = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8",
                        **isolation.current.environ(self.uid), **GIVEN, **GUARD, **(environ or {})}
        self.weaker = []

    @property
    def is_root(self):
        return self.who == "root"

    @property
    def has_cgroup(self):
        return not self.weaker

    def directory(self, name="", owner=None, mode=0o755):
        """A fresh directory of the host that this somebody can use."""
        path = pathlib.Path(tempfile.mkdtemp(prefix=f"{name or 'dir'}-", dir=self.scratch))
        path.chmod(mode)
        if IS_ROOT:
            os.chown(path, self.uid if owner is None else owner, self.uid if owner is None else owner)
        return path

    def command(self, code=None, lang=None, args=(), file=None, json=True, verb="run", **options):
        argv = [str(self.binary), verb]
        if json:
            argv.append("--json")
        if lang:
            argv += ["--lang", lang]
        if verb == "run" and self.weaker and "allow_weaker" not in options:
            argv += ["--allow-weaker", ",".join(self.weaker)]
        argv += options_to_argv(options)
        if file is not None:
            argv.append(str(file))
        elif code is not None:
            argv += ["-c", code]
        return argv + (["--", *args] if args else [])

    def start(self, *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, environ=None,
              popen=None, **options):
        """The command as a Popen that nobody waits for yet."""
        return subprocess.Popen(self.command(*args, **options), stdin=stdin, stdout=stdout, stderr=stderr,
                                env={**self.environ, **(environ or {})}, **self.ids, **(popen or {}))

    def finish(self, process, input=None, patience=PATIENCE):
        try:
            out, err = process.communicate(input, timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail(f"{process.args} did not end within {patience} s")
        return Result(process.returncode, out or b"", err or b"")

    def run(self, code=None, lang=None, stdin=None, patience=PATIENCE, **options):
        """Runs code; stdin is bytes, a file, or nothing."""
        is_bytes = isinstance(stdin, bytes)
        process = self.start(code, lang, stdin=subprocess.PIPE if is_bytes else stdin or subprocess.DEVNULL, **options)
        return self.finish(process, stdin if is_bytes else None, patience)

    def call(self, *argv, stdin=subprocess.DEVNULL, environ=None, **popen):
        """The command with literal arguments."""
        process = subprocess.Popen([str(self.binary), *map(str, argv)], stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**self.environ, **(environ or {})}, **self.ids, **popen)
        return self.finish(process)

    def attack(self, name, *args, mount=(), **options):
        """Runs an attack of tests/escape/attack, which is /attack/attack in the box."""
        token = secrets.token_hex(8)
        words = " ".join([name, token, *map(str, args)])
        result = self.run(f"exec /attack/attack {words}", "sh", mount=[f"{self.attack_dir}:/attack", *mount], **options)
        return Attack(name, token, result)


def look_again_now_and_then(seconds=10):
    """A signal for the main thread every few seconds: a system call that waits looks again at what it waits for.
    Twice a suite stood still for minutes, on Linux 6.18: Popen() read from a pipe whose last writer had gone, and the
    kernel had not woken it."""
    def look_again():
        while True:
            time.sleep(seconds)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGURG)
    signal.signal(signal.SIGURG, lambda *_: None)
    threading.Thread(target=look_again, daemon=True).start()


def pytest_configure(config):
    for line in ("smoke: one of the few that also run under the sanitizers",
                 "waits: takes seconds and hardly any processor; tools/test.py runs these in parts of their own",
                 "engines: uses a Docker Engine or Podman; set for each test that asks for the fixture `engines`"):
        config.addinivalue_line("markers", line)
    isolation.current.enter()
    look_again_now_and_then()


def pytest_unconfigure(config):
    isolation.current.leave()


def pytest_collection_modifyitems(items):
    for item in items:
        if "engines" in getattr(item, "fixturenames", ()):
            item.add_marker("engines")


@pytest.fixture(scope="session", autouse=True)
def binary():
    if not BINARY.exists():
        pytest.exit(f"{BINARY} does not exist: build it, or name another one in $GLOVEBOX", 2)
    return BINARY


@pytest.fixture(scope="module", autouse=True)
def guard_of_file(request):
    """Attacks on the boundary run without the guard. It is no part of the boundary: it would refuse some of them before they begin, and nothing would be
    learned about what must hold without it. A command takes this from its environment; Server, Service and sessions.Policy write it into the policy. Secrets are scrubbed
    as ever. A file of attacks on the guard itself says GUARD_MODE = "on"."""
    mode = getattr(request.module, "GUARD_MODE", "off" if request.path.parent.name == "escape" else None)
    if not mode:
        yield
        return
    GUARD["GLOVEBOX_GUARD"] = mode
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOVEBOX_GUARD", mode)
        yield
    GUARD.clear()


@pytest.fixture(scope="session")
def session_dir():
    """A directory everybody can enter; pytest's own are for their owner only."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
    path.chmod(0o755)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=False)


@pytest.fixture(scope="session")
def attack_dir(session_dir):
    """The program of tests/escape/attack, compiled once, in a directory to mount."""
    path = session_dir / "attack"
    path.mkdir(mode=0o755)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler to build the attacks with")
    subprocess.run([compiler, "-static", "-O1", "-w", "-pthread", "-o", str(path / "attack"), *map(str, sorted(ATTACK_SOURCES.glob("*.c")))],
                   check=True)
    (path / "attack").chmod(0o755)
    return path


@pytest.fixture
def scratch(session_dir):
    path = pathlib.Path(tempfile.mkdtemp(prefix="t-", dir=session_dir))
    path.chmod(0o755)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=False)


@pytest.fixture(scope="session")
def missing_controls(session_dir):
    """Per identity: the controls that are weaker on this host, asked of the product once."""
    found = {}

    def ask(who):
        if who not in found:
            box = Box(who, None, session_dir)
            result = box.run("true", "sh", allow_weaker="cgroup")
            assert result.json and "controls" in result.json, result.explain()
            found[who] = [c["name"] for c in result.json["controls"] if c["state"] != "enforced" and c["name"] != "apparmor"]
            assert set(found[who]) <= {"memory", "pids", "cpu"}, found[who]
        return found[who]

    return ask


def make_box(who, attack_dir, scratch, missing_controls, binary=BINARY, environ=None):
    if who == "root" and not IS_ROOT:
        pytest.skip(NOT_ROOT)
    box = Box(who, attack_dir, scratch, binary, environ)
    box.weaker = missing_controls(who)
    return box


@pytest.fixture(params=["root", "user"], ids=["as-root", "as-user"])
def box(request, attack_dir, scratch, missing_controls):
    """The command as root and as an ordinary user: each test that asks for it runs twice."""
    return make_box(request.param, attack_dir, scratch, missing_controls)


@pytest.fixture
def user_box(attack_dir, scratch, missing_controls):
    return make_box("user", attack_dir, scratch, missing_controls)


@pytest.fixture
def own_box(attack_dir, scratch, missing_controls):
    """The command as whoever runs the suite, where the identity does not matter."""
    return make_box("root" if IS_ROOT else "user", attack_dir, scratch, missing_controls)


# A run may leave nothing behind. The probes look at this suite's own part of the machine (isolation.py).

def box_processes():
    """Processes of this suite: pid, start time and name of each."""
    return isolation.current.processes()


def box_cgroups():
    return isolation.current.cgroups()


def box_mounts():
    return isolation.current.mounts()


def host_mounts():
    return isolation.current.host_mounts()


@pytest.fixture(scope="session", autouse=True)
def nothing_left_at_the_end(binary):
    before = isolation.current.snapshot()
    yield
    left = isolation.current.leftovers(before)
    assert not left, f"left behind by the suite: {left}"


@pytest.fixture
def no_leaks():
    """For tests that ask: nothing is left right after them."""
    before = isolation.current.snapshot()
    yield
    left = isolation.current.leftovers(before)
    assert not left, f"left behind: {left}"
