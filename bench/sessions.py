#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of glovebox beside other ways to have a sealed Python with numpy, pandas and matplotlib at hand.

All peers are measured in one run, in rounds: each round has a share of every measurement, in random order (docker's
last), so that what else happens on the machine hits all of them alike. Every single answer is checked.
docs/benchmarks.md says what each peer is and does not do; run.py has the parts that are common to both benchmarks.
"""

import argparse
import contextlib
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
import session_report
from run import Absent, progress
from session_cpu import Processor
from session_memory import Account, available_kb, descendants
from session_peers import MODULES, Bare, Bubblewrap, Commands, DataRoot, DockerExec, DockerRun, Jupyter

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE, TEMPLATE_COLD, PLAIN = "python-data", "python-data-cold", "python"
CPU_ROUNDS = 5
IDLE_USEC = 2_000
SPACE_USEC = 10_000  # between two requests: enough for the pool to be full again


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
    runtime = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR")
    directory = f"{runtime}/glovebox" if runtime else f"/tmp/glovebox-{os.geteuid()}"
    if os.path.exists(f"{directory}/warm.sock"):
        raise SystemExit(f"bench: {directory}/warm.sock exists: end 'glovebox warm' first")


class Client:
    """One session_client: a program that uses the library, and obeys."""

    def __init__(self, stack, program, template, environment, begin=None):
        self.process = subprocess.Popen([program, template], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment}, preexec_fn=begin)
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

    def client(self, template, stack=None, begin=None):
        return Client(stack or self.stack, self.program, template, self.environment, begin)

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

    # ---- processor time ----

    def processor(self):
        """Milliseconds of processor time for each session, of all processes that have to do with it."""
        result = {}
        for template in (PLAIN, TEMPLATE):
            with contextlib.ExitStack() as stack:
                processor = Processor(stack)
                client = self.client(template, stack, processor.join)
                for order, what in (("fresh", "a context"), ("once", "a program")):
                    client.ask(f"{order} 20 0")
                    rounds = [processor.measure(lambda: client.ask(f"{order} {self.a.cpu} 0")) for _ in range(CPU_ROUNDS)]
                    result[f"{template}, {what}"] = {"own_ms": statistics.median(own for own, _ in rounds) / self.a.cpu / 1e6,
                                                     "own_min_ms": min(own for own, _ in rounds) / self.a.cpu / 1e6,
                                                     "kernel_ms": statistics.median(kernel for _, kernel in rounds) / self.a.cpu / 1e6}
                    progress(f"processor time: {template}, {what}")
        progress("")
        return result

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
            for state in ("a session, opened", "a session, after one run"):
                time.sleep(0.5)
                result[state] = Account(descendants(client.process.pid)).per_session(before, n)
                client.ask("ask")
            client.ask("drop")
        for peer in peers:
            if peer.idle and peer.pids():
                result[peer.idle] = Account(peer.pids()).whole()
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


# ---- main ----


def arguments():
    parser = argparse.ArgumentParser(prog="bench/sessions.py", description="Measure sessions of glovebox beside their peers.")
    parser.add_argument("--quick", action="store_true", help="small counts: to see that it works, not to quote")
    parser.add_argument("--peers", metavar="NAMES", help="by comma: bare,bubblewrap,docker,jupyter; default all, 'none' for none")
    parser.add_argument("--only", metavar="LETTERS", default="abcdef", help="of (c) to (f) only these; (a) and (b) are always measured")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers, with every sample")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables for docs/benchmarks.md")
    parser.add_argument("--svg", metavar="FILE", help="also draw the chart")
    parser.add_argument("--wait-quiet", action="store_true", help="before each share of a round, wait until no other process is runnable")
    parser.add_argument("--docker-host", metavar="URL", help="use this engine instead of starting a private one")
    a = parser.parse_args()
    counts = {"rounds": (40, 4), "share": (10, 5), "rate_msec": (5000, 1000), "rate_rounds": (3, 1), "hold": (50, 20), "crowd": (1000, 100), "cpu": (300, 100)}
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
    report["failed"] = {}
    stages = (("c", "rates", lambda: bench.rates(peers)), ("d", "memory", lambda: bench.memory(peers)), ("e", "crowd", bench.crowd),
              ("f", "processor", bench.processor))
    for letter, name, stage in stages:
        if letter not in a.only or (letter == "d" and not facts["root"]) or (letter == "f" and not Processor.is_possible()):
            continue
        try:
            report[name] = stage()
        except RuntimeError as why:  # the other numbers stand
            report["failed"][f"({letter}) {name}"] = str(why)
    report["hold"], facts["load_after"] = a.hold, os.getloadavg()[0]
    report["goals"] = session_report.judge(report)
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
    sys.stdout.write(session_report.plain(report))
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(report, indent=1) + "\n")
    if a.markdown:
        pathlib.Path(a.markdown).write_text(session_report.markdown(report))
    if a.svg:
        pathlib.Path(a.svg).write_text(chart.draw(report))


if __name__ == "__main__":
    main()
