#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev test: builds everything, and runs all tests, several parts at a time.

    tools/test.py [--list] [--jobs N] [WORD...]

PARTS below is the table of parts. A part starts when the parts that it needs are over, no running part holds one of its
locks, and its weight fits beside the running ones; parts that are ready start in the order of the table. WORD selects
parts whose names contain it, with all that they need.

Each part is a suite of its own on this machine (tests/isolation.py), so parts do not see each other's leftovers. Its
output goes to build/dev.parts/NAME.log and is printed whole when the part is over. Every part runs even when an earlier
one failed. The last line is 'N passed, N failed, N skipped'; the exit status is 1 when something failed.

Some tests are about time limits and sudden ends, and a process may stand still for a second on a busy machine. So a few
failures of a part are tried once more, and only those that fail again count; the summary names the others. Attacks get
no second try: a race that was won once is a hole.
"""

import argparse
import contextlib
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
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import isolation  # noqa: E402

# Debian's own has Debian's pytest; another one may stand before it in the PATH.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
PROCESSORS = len(os.sched_getaffinity(0))
JOBS = PROCESSORS + 2  # weights that run at a time: more than there are processors, since many tests wait
PART_MAX = 1200  # seconds for one part; a test that hangs is a failure, not a wait
END_MAX = 30  # seconds for an interrupted part to clean up
SECOND_TRY_MAX = 5  # failures of one part that are tried once more; with more of them something is wrong
LOGS = pathlib.Path("build/dev.parts")
GOOD_REASON = re.compile("host|root|kernel|not installed")  # of a skip; any other is an error in CI
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class NotRun(Exception):
    """Why a part cannot run here. It counts as skipped."""


# ---- kinds of parts ----


@dataclasses.dataclass
class Part:
    """A part of the tests. `needs`: parts that must be over. `locks`: held while it runs. `weight`: of JOBS; None: the
    part runs alone."""

    name: str
    needs: tuple = ()
    locks: tuple = ()
    weight: int | None = 1
    is_counted, is_essential = True, False  # essential: parts that need it cannot run when it failed

    def __post_init__(self):
        self.suite, self.log = (
            f"{isolation.PREFIX}{secrets.token_hex(4)}",
            LOGS / f"{re.sub('[^a-zA-Z0-9]+', '-', self.name)}.log",
        )
        self.process, self.ends, self.is_second, self.again, self.needless = None, 0, False, [], []

    def environ(self):
        return {**os.environ, "GLOVEBOX_TEST_SUITE": self.suite}

    def first(self):
        """The command."""
        raise NotImplementedError

    def second(self, status):
        """The command of a second try, or None."""
        return None

    def count(self, status):
        return Count(passed=1) if status == 0 else Count(failed=1)

    def file(self, suffix):
        return self.log.with_suffix(suffix)


@dataclasses.dataclass
class Build(Part):
    """A function of tools/builds.sh. It counts as a test."""

    weight: int | None = 2
    is_essential = True

    def first(self):
        return ["bash", "-c", f"set -uo pipefail; . tools/builds.sh; build_{self.name.removeprefix('build: ')}"]


@dataclasses.dataclass
class Fetch(Part):
    """Packages of others, from npm, PyPI and Debian. They may be missing: the tests that need them skip."""

    script: str = ""
    weight: int | None = 0
    is_counted = False

    def first(self):
        return ["bash", "-c", f"set -uo pipefail; . tools/venv.sh; . tools/node.sh; . tools/unpacked.sh; {self.script}"]


@dataclasses.dataclass
class Engines(Part):
    """A Docker Engine and a Podman service for all parts. Only root can have them; without them the tests skip."""

    weight: int | None = 1
    is_counted = False
    directory = None

    def first(self):
        if os.geteuid() != 0:
            raise NotRun("the engines need root")
        Engines.directory = tempfile.mkdtemp(prefix="gb-engines.", dir="/var/tmp")
        return [PYTHON, "tests/engines.py", "start", Engines.directory]

    def environ(self):
        return {**os.environ, "GLOVEBOX": binary("build")}

    @classmethod
    def stop(cls):
        if cls.directory:
            subprocess.run([PYTHON, "tests/engines.py", "stop", cls.directory], check=False)
            cls.directory = None


@dataclasses.dataclass
class Unit(Part):
    """The unit tests of a build directory. More at once than there are processors: many of them wait. A second try is
    only for assertions: never for a crash, a timeout or a sanitizer's report."""

    build: str = "build"
    variables: dict = dataclasses.field(default_factory=dict)
    weight: int | None = 2

    def environ(self):
        return {**super().environ(), **self.variables}

    def meson(self, processes, *names):
        options = f"--no-rebuild --print-errorlogs --timeout-multiplier 3 --num-processes {processes}"
        return ["meson", "test", "-C", self.build, *options.split(), *names]

    def first(self):
        return self.meson(2 * PROCESSORS)

    def second(self, status):
        text = self.log.read_text(errors="replace")
        lines = re.findall(r"^ *\d+/\d+ +(\S+) +FAIL +[0-9.]+s +exit status \d+$", text, re.M)
        names = list(dict.fromkeys(lines))  # meson lists a failure a second time in its summary
        bad = self.numbers(text).failed
        if self.variables or not names or len(names) != bad or bad > SECOND_TRY_MAX:
            return None
        self.again = [f"unit {name}" for name in names]
        return self.meson(1, *names)

    @staticmethod
    def numbers(text):
        found = {
            name: int(n)
            for name, n in re.findall(r"^(Ok|Fail|Skipped|Timeout|Unexpected Pass): *(\d+) *$", text, re.M)
        }
        return Count(
            found.get("Ok", 0),
            sum(found.get(name, 0) for name in ("Fail", "Timeout", "Unexpected Pass")),
            found.get("Skipped", 0),
        )

    def count(self, status):
        text, _, second = self.log.read_text(errors="replace").partition(SECOND)
        count = self.numbers(text)
        if second and status == 0:
            return Count(count.passed + count.failed, 0, count.skipped)
        return Count(count.passed, max(count.failed, 1 if status else 0), count.skipped)


@dataclasses.dataclass
class Pytest(Part):
    """Test files. `without`: patterns of files that are in other parts."""

    paths: tuple = ()
    without: tuple = ()
    marks: str = ""
    only: str = ""
    build: str = "build"
    variables: dict = dataclasses.field(default_factory=dict)

    @property
    def is_attack(self):
        return self.name.startswith("attacks")

    def environ(self):
        return {
            **super().environ(),
            **self.variables,
            "GLOVEBOX": binary(self.build),
            "GLOVEBOX_LAYERS_BINARY": binary("build-layers"),
            **found_packages(),
            **self.engines(),
        }

    def engines(self):
        """Only for parts that hold the lock: the tests count the containers."""
        return {"GLOVEBOX_TEST_ENGINES": Engines.directory} if "engines" in self.locks and Engines.directory else {}

    def python(self):
        return [PYTHON]

    def command(self, report, *more):
        paths = sorted({str(path) for pattern in self.paths for path in ROOT.glob(pattern)})
        argv = [
            *self.python(),
            "-m",
            "pytest",
            "-q",
            "-rs",
            "--durations=5",
            "-o",
            f"cache_dir={ROOT / self.file('.cache')}",
            f"--junitxml={self.file(report)}",
            *more,
        ]
        argv += [f"--ignore-glob={ROOT / pattern}" for pattern in self.without]
        argv += ["-m", self.marks] if self.marks else []
        argv += ["-k", self.only] if self.only else []
        return [*argv, *paths]

    def first(self):
        if (
            self.build == "build-asan"
            and subprocess.run(
                [binary(self.build), "run", "--quiet", "-c", "pass"],
                env={**os.environ, **SANITIZERS},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            ).returncode
        ):
            # Memory would be limited by address space, and a sanitizer wants terabytes of that.
            raise NotRun("no cgroup for this user on this host")
        shutil.rmtree(self.file(".cache"), ignore_errors=True)
        for suffix in (".xml", ".second.xml"):
            self.file(suffix).unlink(missing_ok=True)
        return self.command(".xml")

    def second(self, status):
        report = Report(self.file(".xml"))
        if self.is_attack or status != 1 or report.bad > SECOND_TRY_MAX:
            return None
        self.again = report.failed
        return self.command(".second.xml", "--last-failed", "--last-failed-no-failures", "none")

    def count(self, status):
        report, second = Report(self.file(".xml")), Report(self.file(".second.xml"))
        bad = second.bad if second.exists else report.bad
        if status and not bad:  # 5: no test was collected, which must not pass for a success
            bad = 1
        self.needless = [reason for reason in report.reasons if not GOOD_REASON.search(reason)]
        if os.environ.get("CI") and self.needless:
            bad += 1
        return Count(max(report.tests - bad - report.skipped, 0), bad, report.skipped)


@dataclasses.dataclass
class Adapters(Pytest):
    """By the Python that has the frameworks, which is not the one that has the harness."""

    def python(self):
        python = pathlib.Path("build/venv-adapters/bin/python").absolute()
        if not (python.parent / "pytest").exists():
            raise NotRun("the frameworks are not installed")
        return [PYTHON, "tests/isolation.py", str(python)]

    def command(self, report, *more):
        return super().command(report, "--confcutdir=tests/adapters", *more)


@dataclasses.dataclass
class Library(Pytest):
    """The library in a Python that has no sanitizer of its own: the library's must come first, and Python's leaks do
    not count."""

    def environ(self):
        commands = [["gcc", f"-print-file-name={name}"] for name in ("libasan.so", "libubsan.so")]
        names = [subprocess.check_output(command, text=True).strip() for command in commands]
        return {**super().environ(), "ASAN_OPTIONS": "detect_leaks=0", "LD_PRELOAD": " ".join(names)}


@dataclasses.dataclass
class Program(Part):
    """A program that passes or fails."""

    argv: tuple = ()

    def environ(self):
        return {**super().environ(), "GLOVEBOX": binary("build")}

    def first(self):
        return list(self.argv)


@dataclasses.dataclass
class Examples(Program):
    """The examples in the documentation print the documented output."""

    def first(self):
        pages = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))
        return [PYTHON, "tests/isolation.py", "tools/doc_examples.py", "README.md", *pages]

    def count(self, status):
        found = re.search(r"^(\d+) passed, (\d+) failed$", self.log.read_text(errors="replace"), re.M)
        passed, failed = map(int, found.groups()) if found else (0, 1)
        return Count(passed, max(failed, 1 if status else 0))


class Report:
    """The file that pytest writes at its end; there is none when it was killed."""

    def __init__(self, path):
        self.tests = self.bad = self.skipped = 0
        self.failed, self.reasons = [], []
        try:
            suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
            self.exists = True
        except (FileNotFoundError, xml.etree.ElementTree.ParseError):
            self.exists = False
            return
        self.tests, self.skipped = int(suite.get("tests")), int(suite.get("skipped"))
        self.bad = int(suite.get("failures")) + int(suite.get("errors"))
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed.append(f"{case.get('classname')}.{case.get('name')}")
            self.reasons += [skip.get("message", "") for skip in case.iter("skipped")]


def binary(build):
    return str(ROOT / build / "src/cli/glovebox")


def found_packages():
    """Variables of the tests that need packages of others, where those are."""
    found = {}
    if (ROOT / "build/node-mcp/packages").exists():
        found["GLOVEBOX_TEST_NODE"] = str(ROOT / "build/node-mcp")
    if (ROOT / "build/venv-mcp/packages").exists():
        found["GLOVEBOX_TEST_MCP_PYTHON"] = str(ROOT / "build/venv-mcp/bin/python")
    if (ROOT / "build/venv-interpreter/packages").exists():
        found["GLOVEBOX_OPEN_INTERPRETER"] = str(ROOT / "build/venv-interpreter/bin/python")
    if (ROOT / "build/unpacked/docker-registry").exists():
        found["GLOVEBOX_TEST_REGISTRY"] = str(ROOT / "build/unpacked/docker-registry/usr/bin/docker-registry")
    return found


# ---- the table ----

GCC, LAYERS, ASAN = ("build: gcc",), ("build: gcc", "build: layers"), ("build: gcc", "build: asan")
ENGINES = ("build: gcc", "engines")
# Files of the end-to-end tests and the attacks by subject: each becomes a part, and the last part has all others.
SERVER = tuple(
    f"tests/e2e/test_{name}.py"
    for name in ("api_*", "http", "serve*", "audit", "tokens", "openapi", "cli_server", "cli_sessions")
)
NETWORK = ("tests/e2e/test_network*.py", "tests/e2e/test_cli_net.py")
SESSIONS = ("tests/e2e/test_sessions_*.py", "tests/e2e/test_warm*.py", "tests/e2e/test_repl.py")
BY_LIBRARY = ("tests/e2e/test_sessions_python.py", "tests/e2e/test_sessions_files.py")
FAULTS = ("tests/e2e/test_faults*.py",)
OVER_NETWORK = ("tests/escape/test_1[12]*.py",)
OVER_HTTP = ("tests/escape/test_1[389]*.py",)
IN_SESSIONS = ("tests/escape/test_1[4567]*.py",)
QUICK = "not waits and not engines"
# Clients of MCP, from npm; -NAME is one that is not needed here.
MCP_CLIENTS = (
    "@modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/inspector@2.12.0 "
    "@modelcontextprotocol/conformance@0.1.16 node@22.23.3 "
    "-vite -@vitejs/plugin-react -react -ink -pino -@napi-rs/keyring"
)
FRAMEWORKS = "smolagents langchain-core openai-agents pydantic-ai-slim"
SANITIZED = {"needs": ASAN, "build": "build-asan", "variables": SANITIZERS}


def soak(name, *arguments):
    return Program(f"soak: {name}, short", GCC, argv=("tools/soak.sh", name, *arguments))


PARTS = [
    Build("build: gcc", weight=None),
    Fetch("packages: MCP", GCC, script=f"node_need mcp {MCP_CLIENTS} && venv_need mcp mcp==2.3.0"),
    Fetch("packages: adapters", GCC, script=f"venv_need adapters pytest {FRAMEWORKS}"),
    Fetch("packages: compat", GCC, script="venv_need interpreter open-interpreter; unpacked_need docker-registry"),
    Engines("engines", GCC),
    Unit("unit: gcc", GCC),
    Build("build: layers", GCC, weight=1),
    Build("build: asan", GCC),
    # One at a time at the engines, and always one of them: they wait for the engines most of the time.
    Pytest("conformance", ENGINES, ("engines",), paths=("tests/conformance",)),
    Pytest("attacks, containers", ENGINES, ("engines",), paths=("tests/escape",), marks="engines"),
    Pytest("Python SDK", ENGINES, ("engines",), paths=("tests/sdk",)),
    Pytest("end to end, containers", ENGINES, ("engines",), paths=("tests/e2e",), marks="engines"),
    Pytest("compat", (*ENGINES, "packages: compat"), ("engines",), paths=("tests/compat",)),
    Pytest("benchmarks, containers", ENGINES, ("engines",), paths=("tests/bench",), marks="engines"),
    Pytest("end to end, waiting", GCC, paths=("tests/e2e",), marks="waits and not engines"),
    Pytest("attacks, waiting", GCC, paths=("tests/escape",), marks="waits and not engines"),
    Pytest("attacks, sessions", GCC, paths=IN_SESSIONS, marks=QUICK),
    Pytest("attacks, HTTP", GCC, paths=OVER_HTTP, marks=QUICK),
    Pytest("attacks, network", GCC, paths=OVER_NETWORK, marks=QUICK),
    Pytest("attacks", LAYERS, paths=("tests/escape",), without=(*IN_SESSIONS, *OVER_HTTP, *OVER_NETWORK), marks=QUICK),
    Pytest("end to end, server", GCC, paths=SERVER, marks=QUICK),
    Pytest("end to end, sessions", GCC, paths=SESSIONS, marks=QUICK),
    Pytest("end to end, network", GCC, paths=NETWORK, marks=QUICK),
    Pytest("end to end, faults", GCC, paths=FAULTS, marks=QUICK),
    Pytest("end to end", GCC, paths=("tests/e2e",), without=(*SERVER, *SESSIONS, *NETWORK, *FAULTS), marks=QUICK),
    Pytest("MCP", (*GCC, "packages: MCP"), paths=("tests/mcp",)),
    Pytest("benchmarks", (*GCC, "packages: MCP"), paths=("tests/bench/test_benchmarks.py",), marks="not engines"),
    Pytest("runners", GCC, paths=("tests/runner",)),
    Pytest("harness", GCC, paths=("tests/harness",)),
    Adapters("adapters", (*ENGINES, "packages: adapters"), ("engines",), paths=("tests/adapters",)),
    Unit("unit: sanitizers", **SANITIZED),
    Pytest("end to end, sanitizers", paths=("tests/e2e",), marks="smoke", only="not as-user", **SANITIZED),
    Library("sessions, sanitizers", paths=BY_LIBRARY, only="not user", **SANITIZED),
    Pytest("MCP, sanitizers", paths=("tests/mcp/test_protocol.py",), **SANITIZED),
    Build("build: clang", GCC),
    # Hundreds of sessions leave nothing behind, nor does a server under load; a killed server tells no lies.
    soak("sessions", "--sessions", "100", "--alive", "50"),
    soak("server", "--minutes", "0.2"),
    soak("kills", "--points", "6"),
    soak("truth", "--runs", "600"),
    Examples("examples", GCC),
    # Alone: other parts would be noise. So it runs when all others are over.
    Pytest("benchmarks, ratios", GCC, weight=None, paths=("tests/bench/test_check.py",)),
]

SECOND = "the failed ones once more, by themselves:\n"


# ---- the scheduler ----


class Interrupted(Exception):
    pass


class Runner:
    def __init__(self, parts, jobs):
        self.waiting, self.running, self.missing, self.jobs = list(parts), [], set(), jobs
        self.began, self.counts, self.times = time.monotonic(), {}, {}

    def seconds(self):
        return time.monotonic() - self.began

    def weight(self, part):
        return self.jobs if part.weight is None else min(part.weight, self.jobs)

    def is_ready(self, part):
        names = {other.name for other in self.waiting + self.running}
        held = {lock for other in self.running for lock in other.locks}
        return not names & set(part.needs) and not held & set(part.locks)

    def fits(self, part):
        return sum(map(self.weight, self.running)) + self.weight(part) <= self.jobs

    def begin_some(self):
        """In the order of the table. A part that is ready and does not fit is not overtaken."""
        for part in filter(self.is_ready, list(self.waiting)):
            if not self.fits(part):
                break
            self.waiting.remove(part)
            self.begin(part)

    def run(self):
        while self.waiting or self.running:
            self.begin_some()
            for part in list(self.running):
                self.look_at(part)
            time.sleep(0.1)

    def begin(self, part):
        missing = [name for name in part.needs if name in self.missing]
        self.times[part.name] = self.seconds()
        with open(part.log, "w", encoding="utf-8"):
            pass
        try:
            if missing:
                raise NotRun(f"{missing[0]} failed")
            self.start(part, part.first())
            self.running.append(part)
            print(f"-- {part.name} begins (after {self.seconds():.0f} s)", flush=True)
        except NotRun as reason:
            part.log.write_text(f"skipped: {reason}\n")
            self.end(part, Count(skipped=1), "skipped")

    def start(self, part, command):
        with open(part.log, "ab") as log:
            part.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=part.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        part.ends = time.monotonic() + PART_MAX

    def look_at(self, part):
        status = part.process.poll()
        if status is None and time.monotonic() > part.ends:
            with open(part.log, "a", encoding="utf-8") as log:
                log.write(f"\nnot over after {PART_MAX} s: ended\n")
            status = end_process(part) or 1
        if status is None:
            return
        second = part.second(status) if status and not part.is_second else None
        if second:
            part.is_second = True
            with open(part.log, "a", encoding="utf-8") as log:
                log.write(SECOND)
            self.start(part, second)
            return
        self.running.remove(part)
        left = isolation.remove(part.suite)
        if left:
            with open(part.log, "a", encoding="utf-8") as log:
                log.write(f"ended and removed after it: {left}\n")
        self.end(part, part.count(status), "failed" if status else "passed")

    def end(self, part, count, how):
        if how == "failed" and part.is_essential:
            self.missing.add(part.name)
        took = self.seconds() - self.times[part.name]
        self.times[part.name] = took
        print(f"\n== {part.name} ({how} after {self.seconds():.0f} s, took {took:.0f} s)", flush=True)
        print(part.log.read_text(errors="replace"), end="\n", flush=True)
        if part.is_counted:
            self.counts[part.name] = count
        if GCC[0] in self.missing:
            self.waiting = []

    def stop(self):
        """Ends all parts at once."""
        for part in self.running:
            signal_group(part.process, signal.SIGINT)
        for part in self.running:
            end_process(part)
            isolation.remove(part.suite)


def signal_group(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def end_process(part):
    """Lets a part clean up, for a while; its status."""
    signal_group(part.process, signal.SIGINT)
    try:
        return part.process.wait(END_MAX)
    except subprocess.TimeoutExpired:
        signal_group(part.process, signal.SIGKILL)
        return part.process.wait()


def select(words):
    if not words:
        return PARTS
    unknown = [word for word in words if not any(word in part.name for part in PARTS)]
    if unknown:
        sys.exit(f"test: no part has {unknown[0]!r} in its name; --list lists them")
    wanted = {part.name for part in PARTS if any(word in part.name for word in words)}
    while True:
        more = wanted | {need for part in PARTS if part.name in wanted for need in part.needs}
        if more == wanted:
            return [part for part in PARTS if part.name in wanted]
        wanted = more


def summary(runner, left):
    who = "as root" if os.geteuid() == 0 else "as an ordinary user"
    print(f"\n== Summary ({runner.seconds():.0f} s, {who})")
    total = Count()
    for part in PARTS:
        count = runner.counts.get(part.name)
        if count:
            numbers = f"{count.passed:5} passed {count.failed:5} failed {count.skipped:5} skipped"
            print(f"{part.name:28} {numbers} {runner.times[part.name]:6.0f} s")
            total = Count(total.passed + count.passed, total.failed + count.failed, total.skipped + count.skipped)
    if left:
        print(f"left behind by one of the parts: {left}")
        total.failed += 1
    for part in PARTS:
        for name in part.again:
            print(f"failed at first: {name}")
        for reason in sorted(set(part.needless)):
            print(f"skipped, and not because of the host: {part.name}: {reason}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


def shared_leftovers(before):
    """In places that all parts share: a part looks at its own only."""
    new = isolation.box_files(isolation.SHARED_PLACES) - before
    isolation.wait_until(lambda: not new & isolation.box_files(isolation.SHARED_PLACES), 5, 0.1)
    return sorted(new & isolation.box_files(isolation.SHARED_PLACES))


def interrupt(*_):
    raise Interrupted


def main():
    parser = argparse.ArgumentParser(description="Run the tests, several parts at a time.")
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only parts with this in their names, and all that they need"
    )
    parser.add_argument("--list", action="store_true", help="list the parts")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"weights that run at a time (default {JOBS})")
    options = parser.parse_args()
    if options.list:
        for part in PARTS:
            weight = "all" if part.weight is None else part.weight
            print(f"{part.name:28} weight {weight}, needs {', '.join(part.needs) or 'nothing'}")
        return 0
    os.chdir(ROOT)
    LOGS.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it for commands in the background
    before = isolation.box_files(isolation.SHARED_PLACES)
    runner = Runner(select(options.words), options.jobs)
    try:
        runner.run()
    except Interrupted:
        print("\ninterrupted: ending all parts", flush=True)
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        runner.stop()
        Engines.stop()
    return summary(runner, shared_leftovers(before))


if __name__ == "__main__":
    sys.exit(main())
