#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of glovebox beside other ways to have a sealed Python with numpy, pandas and matplotlib at hand.

All peers are measured in one run, in rounds: each round has a share of every measurement, in random order (docker's
last), so that what else happens on the machine hits all of them alike. Every single answer is checked.
docs/benchmarks.md says what each peer is and does not do.
"""

import argparse
import contextlib
import os
import pathlib
import queue
import random
import statistics
import subprocess
import sys
import threading
import time

import chart
import common
import run
import session_report
from common import Absent, Client, progress, summary
from session_cpu import Processor
from session_memory import Account, available_kb, descendants
from session_peers import MODULES, Bare, Bubblewrap, Commands, DataRoot, DockerExec, DockerRun, Jupyter

TEMPLATE, PLAIN = "python-data", "python"
IDLE_USEC = 2_000
SPACE_USEC = 10_000  # between two requests: enough for the pool to be full again


# ---- glovebox ----


def add_cold_template(directory, template):
    """One more template in the configuration: the same modules without a pool. Its name."""
    lines, cold, copying = (directory / "templates.yaml").read_text().splitlines(), [], False
    name = f"{template}-cold"
    for line in lines:
        if line.startswith("  ") and not line.startswith("   ") and line.rstrip().endswith(":"):
            copying = line.strip() == f"{template}:"
        if copying and not line.lstrip().startswith("#"):
            head, pool = line.strip() == f"{template}:", line.strip().startswith("pool:")
            cold.append(f"  {name}:" if head else "    pool: 0" if pool else line)
    if "    pool: 0" not in cold:
        raise SystemExit(f"bench: templates.yaml has no {template} with a pool")
    (directory / "templates.yaml").write_text("\n".join(lines + cold) + "\n")
    return name


# ---- times ----


class Bench:
    def __init__(self, a, stack):
        self.a, self.stack = a, stack
        self.work = common.work_directory(stack)
        build, config = common.Build(a.glovebox), common.copy_config(self.work)
        self.cold = add_cold_template(config, a.template)
        self.environment = {**build.library_environment(self.work), "GLOVEBOX_CONFIG_DIR": str(config)}
        self.program = common.compile_program(self.work, "session_client", ["-pthread", *build.library_flags()])
        self.commands = Commands(self.work)
        self.samples = {}

    def client(self, template, stack=None, begin=None):
        return Client(stack or self.stack, [self.program, template], self.environment, begin)

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
        pool, cold = self.client(self.a.template), self.client(self.cold)
        self.facts = {"library": pool.ready["version"], "template_ready_ms": pool.ready["ready_nsec"] / 1e6}
        shares = self.shares(pool, cold, peers)
        for i in range(self.a.rounds):
            random.shuffle(shares)
            for slow, share in sorted(shares, key=lambda s: s[0]):
                if self.a.wait_quiet:
                    common.wait_until_quiet()
                share()
                if slow:  # the engine goes on tidying up after its client has ended
                    time.sleep(run.SETTLE_SEC)
            progress(f"times: round {i + 1} of {self.a.rounds}")
        progress("")
        return {table: {name: summary(values) for name, values in by_name.items()}
                for table, by_name in self.samples.items()}

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
            clients = [self.client(self.a.template, stack) for _ in range(2)]
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
        for template in sorted({PLAIN, self.a.template}):
            with contextlib.ExitStack() as stack:
                processor = Processor(stack)
                client = self.client(template, stack, processor.join)
                for order, what in (("fresh", "a context"), ("once", "a program")):
                    client.ask(f"{order} {min(20, self.a.cpu)} 0")
                    rounds = [processor.measure(lambda: client.ask(f"{order} {self.a.cpu} 0"))
                              for _ in range(self.a.cpu_rounds)]
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
            client = self.client(self.a.template, stack)
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
            client = self.client(self.a.template, stack)
            free = available_kb()
            opened = client.ask(f"hold {n}")
            used = free - available_kb()
            first, second = (summary([row[0] / 1e6 for row in client.ask("ask")["samples"]]) for _ in range(2))
            closed = client.ask("drop")
        opens = summary([sum(row) / 1e6 for row in opened["samples"]])
        return {"n": n, "open_s": opened["nsec"] / 1e9, "open": opens, "first_run": first, "second_run": second, "close_s": closed["nsec"] / 1e9,
                "machine_kb_each": used / n}


# ---- main ----


def arguments():
    parser = argparse.ArgumentParser(prog="bench/sessions.py", description="Measure sessions of glovebox beside their peers.")
    parser.add_argument("--peers", metavar="NAMES", help="by comma: bare,bubblewrap,docker,jupyter; default all, 'none' for none")
    parser.add_argument("--only", metavar="LETTERS", default="abcdef", help="of (c) to (f) only these; (a) and (b) are always measured")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables for docs/benchmarks.md")
    parser.add_argument("--svg", metavar="FILE", help="also draw the chart")
    parser.add_argument("--wait-quiet", action="store_true", help="before each share of a round, wait until no other process is runnable")
    parser.add_argument("--docker-host", metavar="URL", help="use this engine instead of starting a private one")
    common.add_arguments(parser, "small counts")
    a = parser.parse_args()
    common.set_counts(a, rounds=(40, 4, 1), share=(10, 5, 1), rate_msec=(5000, 1000, 50), rate_rounds=(3, 1, 1),
                      hold=(50, 20, 2), crowd=(1000, 100, 3), cpu=(300, 100, 2), cpu_rounds=(5, 5, 1),
                      template=(TEMPLATE, TEMPLATE, PLAIN))
    a.glovebox = common.glovebox_program(parser)
    return a


def enter_peers(a, bench):
    docker = DockerRun(DataRoot(), a.docker_host, not a.smoke)
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
    bench, facts = Bench(a, stack), common.machine_facts()
    glovebox = run.Glovebox(a.glovebox)
    glovebox.enter(stack, bench.work)
    peers, absent = enter_peers(a, bench)
    print(common.machine_line(facts))
    own = ("glovebox", glovebox.version, "default policy; template " + a.template)
    for name, version, note in [own] + [(p.name, p.version, p.note) for p in peers]:
        print(f"  {name:16}{version}: {note}")
    for name, why in absent.items():
        print(f"  {name:16}absent: {why}")
    report = {"machine": facts, "modules": MODULES, "template": a.template, "quick": a.quick,
              "versions": {"glovebox": glovebox.version, **{p.name: p.version for p in peers}},
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


def main(stack):
    a = arguments()
    report = measure(a, stack)
    sys.stdout.write(session_report.plain(report))
    common.write_json(a.json, report)
    if a.markdown:
        pathlib.Path(a.markdown).write_text(session_report.markdown(report))
    if a.svg:
        pathlib.Path(a.svg).write_text(chart.draw(report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    common.run_main(main)
