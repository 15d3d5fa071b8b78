#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of glovebox beside other ways to have a sealed Python with numpy, pandas and matplotlib at hand.

All peers are measured in one run, in rounds: each round has a share of every measurement, in random order (docker's
last), so that what else happens on the machine hits all of them alike. Every single answer is checked.
docs/benchmarks.md says what each peer is and does not do; run.py has the parts that are common to both benchmarks.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import pathlib
import queue
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import chart
import run
from run import Absent, progress

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ("numpy", "pandas", "matplotlib")
IMPORTS = f"import {', '.join(MODULES)}; "
FRESH = IMPORTS + "print(1+1)"
LIVE = "x = 41; x += 1; print(x)"
STEP = "x += 1; print(x)"
TEMPLATE, TEMPLATE_COLD = "python-data", "python-data-cold"
IDLE_USEC = 2_000
SPACE_USEC = 10_000  # between two requests: enough for the pool to be full again
# A pool of threads would only slow the peers' imports down; matplotlib wants a home.
VARIABLES = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}

GOALS = {"fresh_p50_ms": 1.5, "fresh_p99_ms": 4.0, "pool_p50_ms": 0.4, "docker_ratio": 150, "live_p50_ms": 0.15,
         "rate_per_s": 1000, "memory_kb": 1536}


# ---- glovebox ----


def settings_of(glovebox):
    """Where the parts of the measured build are: the library is a program's own, so it cannot tell by itself."""
    src = pathlib.Path(glovebox).resolve().parent.parent
    if (src / "lib/libglovebox.so").exists():
        return {"GLOVEBOX_LIBEXEC_DIR": str(src / "warden"), "GLOVEBOX_RUNNER_DIR": str(src / "runner/python")}, \
               [f"-I{HERE.parent / 'include'}", f"-L{src / 'lib'}", f"-Wl,-rpath,{src / 'lib'}", "-lglovebox"]
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "glovebox"], capture_output=True, text=True)
    if flags.returncode != 0:
        raise SystemExit("bench: there is no libglovebox beside GLOVEBOX, and pkg-config knows none")
    return {}, flags.stdout.split()


def write_settings(directory):
    """The shipped settings, with one more template: the same modules without a pool."""
    shutil.copytree(HERE.parent / "config", directory, ignore=shutil.ignore_patterns("meson.build"))
    lines, cold, copying = (directory / "templates.yaml").read_text().splitlines(), [], False
    for line in lines:
        if line.startswith("  ") and not line.startswith("   ") and line.rstrip().endswith(":"):
            copying = line.strip() == f"{TEMPLATE}:"
        if copying and not line.lstrip().startswith("#"):
            cold.append(f"  {TEMPLATE_COLD}:" if line.strip() == f"{TEMPLATE}:" else "    pool: 0" if line.strip().startswith("pool:") else line)
    if "    pool: 0" not in cold:
        raise SystemExit(f"bench: templates.yaml has no {TEMPLATE} with a pool")
    (directory / "templates.yaml").write_text("\n".join(lines + cold) + "\n")


def refuse_shared_warden():
    """A warden that somebody keeps warm would be used, and its processes are not below ours."""
    runtime = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.exists(f"{runtime}/glovebox/warm.sock"):
        raise SystemExit(f"bench: {runtime}/glovebox/warm.sock exists: end 'glovebox warm' first")


class Client:
    """One session_client: a program that uses the library, and obeys."""

    def __init__(self, stack, program, template, environment):
        self.process = subprocess.Popen([program, template], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        stack.callback(self.close)
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((self.process.stderr.read().strip() or "session_client ended")[-400:])
        return json.loads(line)

    def send(self, order):
        with contextlib.suppress(BrokenPipeError):  # answer() tells why
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
            self.process.kill()
            self.process.wait()


def build_client(work, flags):
    program = work / "session_client"
    command = [*os.environ.get("CC", "cc").split(), "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-pthread", str(HERE / "session_client.c"), "-o", str(program)]
    done = subprocess.run([*command, *flags], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit("bench: cannot compile session_client.c: " + done.stderr[-600:])
    return program


# ---- peers ----


class Peer:
    """One way to do the same. `fresh` and `live` are lists of commands' words, or None where it has no such thing."""

    name = note = version = ""
    slow = False
    fresh = live = None

    def enter(self, stack, work):
        pass


class Bare(Peer):
    name, note = "bare python", "no isolation at all"

    def enter(self, stack, work):
        self.version = run.first_line([run.PYTHON, "--version"])
        self.fresh = [run.PYTHON, "-c", FRESH]


class Bubblewrap(Peer):
    name, note = "bubblewrap", "namespaces only: no limits, no seccomp, no Landlock, no verdict"

    def enter(self, stack, work):
        path = run.tool("bwrap")
        self.version = run.first_line([path, "--version"])
        links = [word for name in ("bin", "lib", "lib64") if os.path.islink(f"/{name}") for word in ("--symlink", f"usr/{name}", f"/{name}")]
        shown = [word for name in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/matplotlibrc") if os.path.exists(name)
                 for word in ("--ro-bind", name, name)]
        self.fresh = [path, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr",
                      *links, *shown, *[word for name, value in VARIABLES.items() for word in ("--setenv", name, value)], "--proc", "/proc", "--dev", "/dev",
                      "--tmpfs", "/tmp", "--chdir", "/tmp", run.PYTHON, "-c", FRESH]


def copy_modules(root):
    """What the imports need, into a root that has Python already: packages, and the libraries that they link to."""
    script = (f"{IMPORTS}import json, re, sys; print(json.dumps([sorted({{m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', 0)}}),"
              " sorted(set(re.findall(r'/\\S+\\.so[.0-9]*$', open('/proc/self/maps').read(), re.M)))]))")
    files, libraries = json.loads(run.text_of([run.PYTHON, "-c", script]))
    packages = {pathlib.Path(*pathlib.Path(file).parts[:pathlib.Path(file).parts.index("dist-packages") + 2])
                for file in files if "dist-packages" in file}
    for package in packages | {pathlib.Path(name) for name in ("/usr/share/matplotlib", "/etc/matplotlibrc", "/usr/share/zoneinfo")}:
        target = root / package.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if package.is_dir():
            shutil.copytree(package, target, symlinks=package.name == "zoneinfo", ignore=shutil.ignore_patterns("tests"), dirs_exist_ok=True)
        elif package.exists() and not target.exists():
            shutil.copy2(package, target)
    linked = subprocess.run(["ldd", *libraries], capture_output=True, text=True).stdout
    names = {word for word in linked.split() if word.startswith("/") and not word.endswith(":")}
    for name in sorted(names | {library for library in libraries if "dist-packages" not in library}):
        real = os.path.realpath(name)
        target, link = root / real.lstrip("/"), root / "usr" / name.removeprefix("/usr").lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(real, target)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists() and not link.is_symlink():
            link.symlink_to(real)
    return root


class DataRoot(run.RootFs):
    def get(self, work):
        if self.path is None:
            os.chmod(copy_modules(super().get(work)) / "tmp", 0o1777)  # a tmpfs takes over who may write
        return self.path


class DockerRun(run.Docker, Peer):
    name, live, note = "docker run", None, run.Docker.note

    def enter(self, stack, work):
        super().enter(stack, work)
        self.flags = [word for word in self.command()[len(self.base) + 1:-4] if word != "--rm"]
        self.flags += [word for name, value in VARIABLES.items() for word in ("-e", f"{name}={value}")]
        self.fresh = [*self.base, "run", "--rm", *self.flags, self.image, run.PYTHON, "-c", FRESH]


class DockerExec(Peer):
    name, slow, note = "docker exec", True, "into a container that runs already, hardened as docker run; not sealed off from what ran there before"

    def __init__(self, docker):
        self.docker = docker

    def enter(self, stack, work):
        docker = self.docker
        if not hasattr(docker, "flags"):
            raise Absent("docker run does not work here")
        self.version = docker.version
        container = run.text_of([*docker.base, "run", "-d", *docker.flags, docker.image, run.PYTHON, "-c", f"{IMPORTS}import signal; signal.pause()"])
        if len(container) != 64:
            raise Absent("cannot start a container: " + container[-300:])
        stack.callback(subprocess.run, [*docker.base, "rm", "-f", container], capture_output=True)
        self.container = container
        inside = [*docker.base, "exec", container, run.PYTHON, "-c"]
        self.fresh, self.live = [*inside, FRESH], [*inside, LIVE]

    def pids(self):
        """The idle interpreter with the imports, and the shim that keeps it."""
        text = run.text_of([*self.docker.base, "inspect", "-f", "{{.State.Pid}}", self.container])
        return [int(text), parent_of(int(text))] if text.isdigit() else []


class Jupyter(Peer):
    name, note = "jupyter kernel", "one ipykernel over jupyter_client: state, and no isolation at all"

    def enter(self, stack, work):
        try:
            import jupyter_client
            versions = [f"{name} {importlib.metadata.version(name)}" for name in ("jupyter_client", "ipykernel")]
        except ImportError as why:
            raise Absent(str(why)) from why
        self.version = ", ".join(versions)
        os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # it would complain on our standard error
        os.environ["JUPYTER_RUNTIME_DIR"] = os.environ["IPYTHONDIR"] = str(work / "jupyter")
        self.manager, self.client = jupyter_client.manager.start_new_kernel(kernel_name="python3", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(self.close)
        self.execute(IMPORTS + "x = 0")
        self.x = 0

    def execute(self, code):
        """Until the kernel says that it is idle; what was printed."""
        text, request = "", self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=30)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream":
                text += message["content"]["text"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        self.client.get_shell_msg(timeout=30)
        return text

    def step_ms(self, pause_usec):
        self.x += 1
        time.sleep(pause_usec / 1e6)
        start = time.perf_counter_ns()
        text = self.execute(STEP)
        took = time.perf_counter_ns() - start
        if text != f"{self.x}\n":
            raise RuntimeError(f"the kernel printed {text[:80]!r} instead of {self.x}")
        return took / 1e6

    def pids(self):
        return [self.manager.provisioner.pid]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Commands:
    """Times whole commands, by spawn.c."""

    def __init__(self, work):
        self.program, self.work = run.Spawner(work, False).program, work

    def time_ms(self, command, expected, place="command"):
        out, err = self.work / f"{place}.out", self.work / f"{place}.err"
        environment = {**os.environ, **VARIABLES}
        done = subprocess.run([self.program, "time", "0", out, err, *command], stdout=subprocess.PIPE, text=True, check=True, env=environment)
        row, text = json.loads(done.stdout.splitlines()[-1]), out.read_text(errors="replace")
        if row["code"] != 0 or text != expected:
            raise RuntimeError(f"{command[0]} ended with code {row['code']} and printed {text[:80]!r}; it said: {err.read_text(errors='replace').strip()[-300:]}")
        return row["nsec"] / 1e6


# ---- times ----


class Bench:
    def __init__(self, a, stack):
        self.a, self.stack = a, stack
        self.work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glovebox-bench-", ignore_cleanup_errors=True)))
        os.chmod(self.work, 0o755)
        self.environment, flags = settings_of(a.glovebox)
        write_settings(self.work / "config")
        self.environment["GLOVEBOX_CONFIG_DIR"] = str(self.work / "config")
        self.program = build_client(self.work, flags)
        self.commands = Commands(self.work)
        self.samples = {}

    def client(self, template, stack=None):
        return Client(stack or self.stack, self.program, template, self.environment)

    def add(self, table, name, values):
        self.samples.setdefault(table, {}).setdefault(name, []).extend(values)

    def fresh(self, client, name, count):
        rows = client.ask(f"fresh {count} {SPACE_USEC}")["samples"]
        self.add("fresh", name, [sum(row[:3]) / 1e6 for row in rows])
        for phase, values in zip(("open", "context", "run", "close"), zip(*rows)):
            self.add(f"phases of {name}", phase, [value / 1e6 for value in values])

    def live(self, client, table, count, pause):
        self.add(table, "glovebox", [row[0] / 1e6 for row in client.ask(f"live {count} {pause}")["samples"]])

    def shares(self, pool, cold, peers):
        """What one round does: (comes last, function)."""
        k = self.a.share
        shares = [(False, lambda: self.fresh(pool, "glovebox, pool", 2 * k)), (False, lambda: self.fresh(cold, "glovebox, no pool", k)),
                  (False, lambda: self.live(pool, "live", 20 * k, 0)), (False, lambda: self.live(pool, "idle", 5 * k, IDLE_USEC))]
        for peer in peers:
            if peer.fresh:
                shares.append((peer.slow, lambda p=peer: self.add("fresh", p.name, [self.commands.time_ms(p.fresh, "2\n")])))
            if peer.live:
                shares.append((peer.slow, lambda p=peer: self.add("live", p.name, [self.commands.time_ms(p.live, "42\n")])))
            if isinstance(peer, Jupyter):
                shares.append((False, lambda p=peer: self.add("live", p.name, [p.step_ms(0) for _ in range(k)])))
                shares.append((False, lambda p=peer: self.add("idle", p.name, [p.step_ms(IDLE_USEC) for _ in range(k)])))
        return shares

    def times(self, peers):
        pool, cold = self.client(TEMPLATE), self.client(TEMPLATE_COLD)
        self.facts = {"library": pool.ready["version"], "template_ready_ms": pool.ready["ready_nsec"] / 1e6}
        shares = self.shares(pool, cold, peers)
        for i in range(self.a.rounds):
            random.shuffle(shares)
            for slow, share in sorted(shares, key=lambda s: s[0]):
                if self.a.wait_quiet:
                    run.wait_until_quiet()
                share()
                if slow:  # the engine goes on tidying up after its client has ended
                    time.sleep(run.SETTLE_SEC)
            progress(f"times: round {i + 1} of {self.a.rounds}")
        progress("")
        return {table: {name: run.summary(values) for name, values in by_name.items()} for table, by_name in self.samples.items()}

    # ---- sessions per second ----

    def rate_of_processes(self, clients):
        for client in clients:
            client.send(f"rate {self.a.rate_msec} 1")
        return sum(answer["sessions"] / (answer["nsec"] / 1e9) for answer in [client.answer() for client in clients])

    def rate_of_commands(self, peer):
        """Two threads, each with one command after the other."""
        end, counts, failed = time.monotonic() + self.a.rate_msec / 1e3, queue.Queue(), []
        start = time.monotonic()

        def loop(place):
            try:
                while time.monotonic() < end:
                    self.commands.time_ms(peer.fresh, "2\n", place)
                    counts.put(1)
            except (RuntimeError, OSError, subprocess.SubprocessError) as why:
                failed.append(why)
        threads = [threading.Thread(target=loop, args=(f"rate{i}",)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return counts.qsize() / (time.monotonic() - start)

    def rates(self, peers):
        values = {}
        with contextlib.ExitStack() as stack:
            clients = [self.client(TEMPLATE, stack) for _ in range(2)]
            for i in range(self.a.rate_rounds):
                values.setdefault("glovebox, 2 threads of 1 process", []).append(
                    (lambda d: d["sessions"] / (d["nsec"] / 1e9))(clients[0].ask(f"rate {self.a.rate_msec} 2")))
                values.setdefault("glovebox, 2 processes", []).append(self.rate_of_processes(clients))
                for peer in peers:
                    if peer.fresh and peer.name != "docker exec":
                        values.setdefault(peer.name, []).append(self.rate_of_commands(peer))
                        time.sleep(run.SETTLE_SEC if peer.slow else 0)
                progress(f"sessions per second: round {i + 1} of {self.a.rate_rounds}")
        progress("")
        return {name: {"per_s": statistics.median(v), "all": [round(x, 2) for x in v]} for name, v in values.items()}

    # ---- memory ----

    def memory(self, peers):
        """Idle sessions that have run nothing, and the same after one run each."""
        n, result = self.a.hold, {}
        with contextlib.ExitStack() as stack:
            client = self.client(TEMPLATE, stack)
            client.ask(f"fresh 2 {SPACE_USEC}")
            time.sleep(0.5)  # the pool is full
            before = Account(descendants(client.process.pid))
            client.ask(f"hold {n}")
            for state in ("opened", "after one run"):
                time.sleep(0.5)
                result[state] = Account(descendants(client.process.pid)).per_session(before, n)
                client.ask("ask")
            client.ask("drop")
        for peer in peers:
            if hasattr(peer, "pids") and peer.pids():
                result[peer.name] = Account(peer.pids()).whole()
        return result

    def crowd(self):
        """Many at once."""
        n = self.a.crowd
        with contextlib.ExitStack() as stack:
            client = self.client(TEMPLATE, stack)
            free = available_kb()
            opened = client.ask(f"hold {n}")
            used = free - available_kb()
            first, second = (run.summary([row[0] / 1e6 for row in client.ask("ask")["samples"]]) for _ in range(2))
            closed = client.ask("drop")
        opens = run.summary([sum(row) / 1e6 for row in opened["samples"]])
        return {"n": n, "open_s": opened["nsec"] / 1e9, "open": opens, "first_run": first, "second_run": second, "close_s": closed["nsec"] / 1e9,
                "machine_kb_each": used / n}


# ---- accounts of memory ----


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


# ---- the report ----


def ratio(value, other):
    return f"{value / other:.1f}" if other else "-"


def print_times(title, rows, own):
    print(f"\n{title}\n{'':36}{'n':>6}{'p50 ms':>10}{'p99 ms':>10}{'min ms':>10}{'x glovebox':>12}")
    for name, r in sorted(rows.items(), key=lambda item: item[1]["p50_ms"]):
        print(f"{name:36}{r['n']:6}{r['p50_ms']:10.3f}{r['p99_ms']:10.3f}{r['min_ms']:10.3f}{ratio(r['p50_ms'], rows[own]['p50_ms']):>12}")


def print_report(report):
    times = report["times"]
    print_times("(a) A fresh sealed session with the imports, from the request to the result of print(1+1)", times["fresh"], "glovebox, pool")
    for name in ("glovebox, pool", "glovebox, no pool"):
        phases = times[f"phases of {name}"]
        print(f"    {name}: " + ", ".join(f"{phase} {r['p50_ms']:.3f}" for phase, r in phases.items()) + " (p50)")
    print_times("(b) One more run in a live context, one after the other", times["live"], "glovebox")
    print_times("(b) The same after 2 ms of idleness", times["idle"], "glovebox")
    if "rates" in report:
        print("\n(c) Sessions per second, 2 clients (open, run, close)")
        for name, r in report["rates"].items():
            print(f"{name:36}{r['per_s']:12.1f}   of {', '.join(map(str, r['all']))}")
    if "memory" in report:
        print(f"\n(d) Memory, kB; a session's is the mean of {report['hold']}\n{'':36}{'PSS':>9}{'private':>9}{'tables':>9}{'stacks':>9}{'together':>10}{'grown by':>10}{'cgroup':>9}")
        for name, r in report["memory"].items():
            tail = f"{r['grown']:10.0f}{r['cgroup']:9.0f}" if "grown" in r else ""
            print(f"{name:36}{r['pss']:9.0f}{r['private']:9.0f}{r['tables']:9.0f}{r['stacks']:9.0f}{r['all']:10.0f}{tail}")
    if "crowd" in report:
        c = report["crowd"]
        print(f"\n(e) {c['n']} sessions at once: opened in {c['open_s']:.2f} s (p50 {c['open']['p50_ms']:.2f} ms), first run of each p50 {c['first_run']['p50_ms']:.3f} "
              f"p99 {c['first_run']['p99_ms']:.3f} ms, second p50 {c['second_run']['p50_ms']:.3f} ms, closed in {c['close_s']:.2f} s; "
              f"the machine has {c['machine_kb_each']:.0f} kB less for each")


def judge(report):
    """The goals, as (text, reached); only those that could be measured."""
    times, g, verdicts = report["times"], GOALS, []
    pool, cold, docker = (times["fresh"].get(name) for name in ("glovebox, pool", "glovebox, no pool", "docker run"))

    def at_most(what, value, goal, unit):
        verdicts.append((f"{what} at most {goal} {unit}: {value:.3f}", value <= goal))

    at_most("(a) p50, no pool,", cold["p50_ms"], g["fresh_p50_ms"], "ms")
    at_most("(a) p99, no pool,", cold["p99_ms"], g["fresh_p99_ms"], "ms")
    at_most("(a) p50, pool,", pool["p50_ms"], g["pool_p50_ms"], "ms")
    if docker:
        times_faster = docker["p50_ms"] / cold["p50_ms"]
        verdicts.append((f"(a) at least {g['docker_ratio']} x faster than docker run, without the pool: {times_faster:.0f}", times_faster >= g["docker_ratio"]))
    at_most("(b) p50", times["live"]["glovebox"]["p50_ms"], g["live_p50_ms"], "ms")
    if "rates" in report:
        best = max(r["per_s"] for name, r in report["rates"].items() if name.startswith("glovebox"))
        verdicts.append((f"(c) at least {g['rate_per_s']} sessions per second: {best:.0f}", best >= g["rate_per_s"]))
    if "memory" in report:
        at_most("(d) an idle session, grown by,", report["memory"]["opened"]["grown"], g["memory_kb"], "kB")
    if "crowd" in report:
        verdicts.append((f"(e) {report['crowd']['n']} alive at once", True))
    return verdicts


# ---- main ----


def arguments():
    parser = argparse.ArgumentParser(prog="bench/sessions.py", description="Measure sessions of glovebox beside their peers.")
    parser.add_argument("--quick", action="store_true", help="small counts: to see that it works, not to quote")
    parser.add_argument("--peers", metavar="NAMES", help="by comma: bare,bubblewrap,docker,jupyter; default all, 'none' for none")
    parser.add_argument("--only", metavar="LETTERS", default="abcde", help="of (c), (d) and (e) only these; (a) and (b) are always measured")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers, with every sample")
    parser.add_argument("--svg", metavar="FILE", help="also draw the chart")
    parser.add_argument("--wait-quiet", action="store_true", help="before each share of a round, wait until no other process is runnable")
    parser.add_argument("--docker-host", metavar="URL", help="use this engine instead of starting a private one")
    a = parser.parse_args()
    counts = {"rounds": (40, 4), "share": (10, 5), "rate_msec": (5000, 1000), "rate_rounds": (3, 1), "hold": (50, 20), "crowd": (1000, 100)}
    for name, (full, quick) in counts.items():
        setattr(a, name, quick if a.quick else full)
    a.glovebox = os.environ.get("GLOVEBOX") or shutil.which("glovebox")
    if not a.glovebox:
        parser.error("set GLOVEBOX to the glovebox program whose build is to be measured")
    return a


def enter_peers(a, bench):
    docker = DockerRun(DataRoot(), a.docker_host)
    everyone = {"bare": [Bare()], "bubblewrap": [Bubblewrap()], "docker": [docker, DockerExec(docker)], "jupyter": [Jupyter()]}
    wanted = set(everyone) if not a.peers else set(a.peers.split(",")) - {"none"}
    if wanted - set(everyone):
        raise SystemExit(f"bench: unknown peer in --peers; there are {', '.join(everyone)}")
    present, absent = [], {}
    for peer in [peer for name, peers in everyone.items() if name in wanted for peer in peers]:
        progress(f"preparing {peer.name}")
        try:
            peer.enter(bench.stack, bench.work)
            for _ in range(2 if peer.fresh else 0):  # also warms the caches
                bench.commands.time_ms(peer.fresh, "2\n")
            present.append(peer)
        except (Absent, RuntimeError, OSError, subprocess.SubprocessError) as why:
            absent[peer.name] = str(why)
    progress("")
    return present, absent


def measure(a, stack):
    refuse_shared_warden()
    bench, facts = Bench(a, stack), run.machine_facts()
    glovebox = run.Glovebox(a.glovebox)
    glovebox.enter(stack, bench.work)
    peers, absent = enter_peers(a, bench)
    print(f"{facts['cpu']}, {facts['cpus']} cpus, Linux {facts['kernel']}, {facts['system']}, cgroup {facts['cgroup']}, "
          f"{'root' if facts['root'] else 'not root'}, load {facts['load_before']:.1f}")
    for name, version, note in [("glovebox", glovebox.version, "default policy; template " + TEMPLATE)] + [(p.name, p.version, p.note) for p in peers]:
        print(f"  {name:16}{version}: {note}")
    for name, why in absent.items():
        print(f"  {name:16}absent: {why}")
    report = {"machine": facts, "modules": MODULES, "quick": a.quick, "versions": {"glovebox": glovebox.version, **{p.name: p.version for p in peers}},
              "absent": absent, "times": bench.times(peers), **bench.facts}
    if "c" in a.only:
        report["rates"] = bench.rates(peers)
    if "d" in a.only and facts["root"]:
        report["hold"], report["memory"] = a.hold, bench.memory(peers)
    if "e" in a.only:
        report["crowd"] = bench.crowd()
    facts["load_after"] = os.getloadavg()[0]
    report["goals"] = [{"goal": text, "reached": reached} for text, reached in judge(report)]
    return report


def main():
    a = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with contextlib.ExitStack() as stack:
            report = measure(a, stack)
    except KeyboardInterrupt:
        sys.exit(130)
    except RuntimeError as why:
        raise SystemExit(f"bench: {why}") from why
    print_report(report)
    print("\nGoals")
    for goal in report["goals"]:
        print(f"  {'reached' if goal['reached'] else 'missed ':8} {goal['goal']}")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    if a.svg:
        pathlib.Path(a.svg).write_text(chart.draw(report))


if __name__ == "__main__":
    main()
