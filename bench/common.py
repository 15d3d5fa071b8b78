# SPDX-License-Identifier: Apache-2.0
"""The parts that all benchmarks share: the build to measure, counts, statistics, tables, and a clean end."""

import contextlib
import json
import math
import os
import pathlib
import platform
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PATIENCE_SEC = 300  # for one answer of a client


class Absent(Exception):
    """The peer cannot run here; the message says why."""


# ---- the command line ----


def add_arguments(parser, quick):
    """The options that every benchmark has. quick: the help text of --quick."""
    parser.add_argument("--quick", action="store_true", help=f"{quick}: to see that it works, not to quote")
    parser.add_argument("--smoke", action="store_true", help="the smallest counts and no private engine, for the "
                        "test suite: every part runs, goals do not change the exit status")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers, with every sample")


def set_counts(a, **rows):
    """Each row is (full, quick, smoke). A count that the command line has set stays as it is."""
    for name, row in rows.items():
        if getattr(a, name, None) is None:
            setattr(a, name, row[2 if a.smoke else 1 if a.quick else 0])


def glovebox_program(parser):
    path = os.environ.get("GLOVEBOX") or shutil.which("glovebox")
    if not path:
        parser.error("set GLOVEBOX to the glovebox program to measure")
    if not os.access(path, os.X_OK):
        parser.error(f"GLOVEBOX: {path} is not a program that can be started")
    return os.path.abspath(path)


def write_json(path, report):
    if path:
        pathlib.Path(path).write_text(json.dumps(report, indent=1) + "\n")


def run_main(function):
    """Calls function(stack) and exits with the status it returns. Whatever the stack holds is cleaned up first, also
    after an error, Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with contextlib.ExitStack() as stack:
            status = function(stack)
    except KeyboardInterrupt:
        status = 130
    except (Absent, RuntimeError) as why:
        raise SystemExit(f"bench: {why}") from why
    sys.exit(status)


def progress(line):
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + line)
        sys.stderr.flush()


# ---- the machine ----


def tool(*names):
    for name in names:
        path = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
        if path:
            return path
    raise Absent(f"{names[0]} is not installed")


def need_root():
    if os.geteuid() != 0:
        raise Absent("needs root")


def text_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip()


def first_line(command):
    return text_of(command).split("\n")[0]


def last_line(path):
    lines = path.read_text(errors="replace").strip().split("\n")
    return lines[-1][-300:]


def processor_facts():
    """Its name, and the name with the numbers that tell generations of one name apart."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    first = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    name = first.get("model name", platform.machine())
    numbers = [f"{word} {first[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in first]
    return name, ", ".join([name, *numbers])


def machine_facts():
    cpu, processor = processor_facts()
    cgroup = "v2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else \
             "v1 with v2 beside it" if os.path.exists("/sys/fs/cgroup/unified") else "v1"
    release = pathlib.Path("/etc/os-release").read_text().splitlines()
    system = dict(line.split("=", 1) for line in release if "=" in line)
    return {"cpu": cpu, "processor": processor, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "arch": platform.machine(), "system": system.get("PRETTY_NAME", "").strip('"'), "cgroup": cgroup, "root": os.geteuid() == 0,
            "date": time.strftime("%Y-%m-%d"), "load_before": os.getloadavg()[0]}


def machine_line(facts):
    return (f"{facts['cpu']}, {facts['cpus']} cpus, Linux {facts['kernel']}, {facts['system']}, "
            f"cgroup {facts['cgroup']}, {'root' if facts['root'] else 'not root'}, load {facts['load_before']:.1f}")


def wait_until_quiet():
    """Until no other process has wanted a processor for 15 ms; four seconds at most."""
    calm, end = 0, time.monotonic() + 4
    while calm < 4 and time.monotonic() < end:
        runnable = int(pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[0])
        calm = calm + 1 if runnable <= 1 else 0  # one: this process
        time.sleep(0.004)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def end_process(process, seconds=60):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- the programs to measure ----


def work_directory(stack):
    """A directory that is removed at the end. It is also the runtime directory of every glovebox that the benchmark
    starts: a server or `glovebox warm` of this machine must not take part in the measurement."""
    work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glovebox-bench-",
                                                                        ignore_cleanup_errors=True)))
    os.chmod(work, 0o755)
    (work / "runtime").mkdir(mode=0o755)
    os.environ["GLOVEBOX_RUNTIME_DIR"] = str(work / "runtime")
    return work


def copy_config(work):
    """The shipped configuration, in a directory of its own that a benchmark may change."""
    shutil.copytree(ROOT / "config", work / "config", ignore=shutil.ignore_patterns("meson.build"))
    return work / "config"


class Build:
    """The build that a glovebox program belongs to. src is None for an installed one."""

    def __init__(self, glovebox):
        self.glovebox = os.path.abspath(glovebox)
        src = pathlib.Path(glovebox).resolve().parent.parent
        self.src = src if (src / "lib/libglovebox.so").exists() else None

    @property
    def top(self):
        if not self.src:
            raise SystemExit(f"bench: {self.glovebox} is not in a build directory, and this benchmark needs one")
        return self.src.parent

    def library_environment(self, work):
        """For programs that use the library. Only programs inside the build directory find its helpers by themselves;
        for others they are gathered in one directory, as an installation has them."""
        if not self.src:
            return {}
        place = work / "libexec"
        place.mkdir(exist_ok=True)
        for path in self.src.glob("*/glovebox-*"):
            link = place / path.name
            if path.is_file() and os.access(path, os.X_OK) and not link.exists():
                link.symlink_to(path)
        return {"GLOVEBOX_LIBEXEC_DIR": str(place), "GLOVEBOX_RUNNER_DIR": str(self.src / "runner/python")}

    def library_flags(self):
        """For the C compiler."""
        if self.src:
            return [f"-I{ROOT / 'include'}", f"-L{self.src / 'lib'}", f"-Wl,-rpath,{self.src / 'lib'}", "-lglovebox"]
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "glovebox"], capture_output=True, text=True)
        if flags.returncode != 0:
            raise SystemExit("bench: there is no libglovebox beside GLOVEBOX, and pkg-config knows none")
        return flags.stdout.split()

    def program(self, name):
        """One of the programs that are not built by default, by its path below src."""
        done = subprocess.run([tool("ninja"), "-C", self.top, f"src/{name}"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench: cannot build src/{name} in {self.top}: {(done.stdout + done.stderr)[-600:]}")
        return self.src / name


def compile_program(work, name, flags=()):
    """A C program of this directory."""
    program = work / name
    command = [*os.environ.get("CC", "cc").split(), "-std=gnu17", "-D_GNU_SOURCE", "-O2", str(HERE / f"{name}.c"),
               "-o", str(program), *flags]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit(f"bench: {command[0]} is not installed, and {name}.c must be compiled") from None
    if done.returncode != 0:
        raise SystemExit(f"bench: cannot compile {name}.c: {done.stderr[-600:]}")
    return program


class Client:
    """A C program that takes orders as lines on its standard input and answers each with a line of JSON."""

    def __init__(self, stack, command, environment=None, begin=None, greets=True):
        """begin: called in the child before its exec. greets: the program begins with a line of its own."""
        self.name = os.path.basename(command[0])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, **(environment or {})}, preexec_fn=begin)
        stack.callback(self.close)
        self.ready = self.answer() if greets else None

    def answer(self):
        if not select.select([self.process.stdout], [], [], PATIENCE_SEC)[0]:  # lines come one at a time
            raise RuntimeError(f"{self.name} does not answer within {PATIENCE_SEC} s")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((self.process.stderr.read().strip() or f"{self.name} ended without a word")[-400:])
        return json.loads(line)

    def send(self, order):
        with contextlib.suppress(BrokenPipeError):  # answer() reports why
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()

    def ask(self, order):
        self.send(order)
        return self.answer()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            end_process(self.process, 10)
        self.process.stdout.close()
        self.process.stderr.close()


# ---- numbers ----


def quantile(values, q):
    """Nearest rank: a value that was measured."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def summary(values):
    return {"n": len(values), "p50_ms": statistics.median(values), "p99_ms": quantile(values, 0.99),
            "min_ms": min(values), "mean_ms": statistics.fmean(values), "samples_ms": [round(v, 3) for v in values]}


# ---- tables: (title, head, lines) each ----


def plain(tables):
    out = []
    for title, head, lines in tables:
        widths = [max(len(str(row[i])) for row in (head, *lines)) for i in range(len(head))]
        out += ["", title]
        for row in (head, *lines):
            cells = [str(cell).rjust(width) if i else str(cell).ljust(width)
                     for i, (cell, width) in enumerate(zip(row, widths))]
            out.append("  " + "   ".join(cells).rstrip())
    return "\n".join(line for line in out if line != "  ") + "\n"


def markdown(tables):
    out = []
    for title, head, lines in tables:
        rows = [head, ("---",) * len(head), *lines]
        out += ["", f"**{title}**", ""] + ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(out[1:]) + "\n"
