#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The backends of glovebox side by side: native, docker, podman and docker with gVisor, each beside what people do with that engine by hand.

All are measured in one run, in rounds: each round has a share of every measurement, in random order, so that what else happens on the machine hits
all of them alike. Every single answer is checked. What counts is the ratio to the engine's own command on the same machine in the same minutes.
bench/README.md says what is measured.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import common
from common import Absent, progress, summary
from session_memory import Account, descendants, groups_kb, memory_group, parent_of

sys.path.insert(0, str(common.ROOT / "tests"))
import engines  # noqa: E402

GOALS = {"live_p50_ms": 2.0, "start_ratio": 1.1}
WEAKER = ("runtime", "landlock", "pids")  # an old runc; gVisor
CODE, ANSWER = "print(1+1)", "2\n"
POLICY = {"mem_limit": 512 << 20, "pids_limit": 128, "cpu_limit": 1}  # the peers get the same
BYTES = POLICY["mem_limit"]
# What an engine can be asked for on the command line of what our containers have; the rest (the exact filter, Landlock, verdicts) it has no flag for.
HARDENED = ["--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", f"--memory={BYTES}", f"--memory-swap={BYTES}",
            f"--pids-limit={POLICY['pids_limit']}", f"--cpus={POLICY['cpu_limit']}", "--user=1000:1000", "--tmpfs=/tmp:size=100m,mode=1777",
            "--tmpfs=/sandbox:size=100m,mode=1777", "--workdir=/sandbox", "--shm-size=64m", "--ipc=private", "--ulimit=nofile=1024:1024", "--ulimit=core=0:0"]


def run_checked(command, environment=None):
    """Milliseconds until the first output of a command, and until its end."""
    start = time.perf_counter_ns()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(environment or {})})
    first = process.stdout.readline()
    seen = time.perf_counter_ns()
    rest, err = process.communicate(timeout=120)
    end = time.perf_counter_ns()
    if process.returncode != 0 or (first + rest).decode(errors="replace") != ANSWER:
        raise RuntimeError(f"{' '.join(map(str, command))[:200]} ended with {process.returncode} and printed {(first + rest)[:80]!r}: {err.decode(errors='replace').strip()[-400:]}")
    return (seen - start) / 1e6, (end - start) / 1e6


# ---- glovebox ----


class Backend:
    """One way to have sessions. engine: None for native."""

    def __init__(self, name, engine=None, runtime=None, template=""):
        self.name, self.engine, self.runtime, self.template = name, engine, runtime, template

    def values(self, image):
        pairs = [("mem_limit", str(BYTES)), ("pids_limit", str(POLICY["pids_limit"]))]
        if not self.engine:
            return pairs
        pairs += [("backend", "docker"), ("image", image)] + ([("runtime", self.runtime)] if self.runtime else [])
        return pairs + [("allow_weaker", name) for name in WEAKER]  # what is measured is not made safer by a refusal

    def flags(self, image):
        flags = [f"--memory={BYTES}", f"--pids={POLICY['pids_limit']}"] + ([] if self.template else ["--warm=false"])
        if self.engine:
            flags += ["--backend=docker", f"--image={image}", f"--allow-weaker={','.join(WEAKER)}"] + ([f"--runtime={self.runtime}"] if self.runtime else [])
        return flags

    def enter(self, stack, bench):
        self.environment = {**bench.environment, **({"DOCKER_HOST": self.engine.host} if self.engine else {})}
        words = [f"{key}={value}" for key, value in self.values(bench.a.image)]
        self.client = common.Client(stack, [bench.program, self.template, *words], self.environment)
        self.once = [bench.a.glovebox, "run", "--quiet", *self.flags(bench.a.image), "-c", CODE]

    def start_ms(self):
        phases = self.client.ask("fresh 1 0")["samples"][0]
        return sum(phases[:3]) / 1e6, phases[3] / 1e6

    def live_ms(self, count):
        return [sample[0] / 1e6 for sample in self.client.ask(f"live {count} 0")["samples"]]

    def once_ms(self):
        return run_checked(self.once, self.environment)[1]

    def memory(self, n):
        """kB of an idle session: its group, and what its keeper outside has grown by or is."""
        known = {c["Id"] for c in self.engine.containers()} if self.engine else set()
        before = Account(descendants(self.client.process.pid))
        self.client.ask(f"hold {n}")
        self.client.ask("ask")
        time.sleep(1)
        try:
            if not self.engine:
                row = Account(descendants(self.client.process.pid)).per_session(before, n)
                return {"group": row["cgroup"], "keeper": max(0, row["grown"] - row["all"])}
            return self.of_containers([c["Id"] for c in self.engine.containers() if c["Id"] not in known], n)
        finally:
            self.client.ask("drop")

    def of_containers(self, ids, n):
        if len(ids) != n:
            raise RuntimeError(f"{len(ids)} containers for {n} sessions")
        pids = [self.engine.inspect(i)["State"]["Pid"] for i in ids]
        groups = {memory_group(pid) for pid in pids} - {None}
        keepers = Account({parent_of(pid) for pid in pids} - {0, 1})
        return {"group": groups_kb(groups) / n, "keeper": keepers.total("pss") / n}


# ---- by hand ----


class Hand:
    """The engine's own command: a hardened container for each run, or one that waits and gets an exec for each."""

    def __init__(self, name, base, runtime=None, flags=()):
        self.name, self.base, self.runtime, self.flags = name, base, runtime, flags

    def enter(self, stack, bench):
        flags = [*HARDENED, *self.flags] + ([f"--runtime={self.runtime}"] if self.runtime else [])
        self.run = [*self.base, "run", "--rm", *flags, bench.a.image, bench.a.python, "-c", CODE]
        wait = "import signal; signal.pause()"
        started = common.text_of([*self.base, "run", "-d", *flags, bench.a.image, bench.a.python, "-c", wait])
        text = started.split("\n")[-1]
        if len(text) != 64:
            raise Absent(f"cannot start a container: {text[-300:]}")
        stack.callback(subprocess.run, [*self.base, "rm", "-f", text], capture_output=True)
        self.execute = [*self.base, "exec", text, bench.a.python, "-c", CODE]


# ---- the run ----


class Engines:
    """Those that are given, or some of our own with the image in them."""

    def __init__(self, a, stack):
        self.docker = self.podman = None
        self.absent = {}
        if a.docker_host or a.podman_host:
            for kind, host in (("docker", a.docker_host), ("podman", a.podman_host)):
                if host:
                    setattr(self, kind, self.given(kind, host))
                else:
                    self.absent[kind] = f"--{kind}-host names none"
            return
        if a.smoke:
            why = "--smoke starts none; --docker-host and --podman-host name those that run"
            self.absent = {"docker": why, "podman": why}
            return
        if engines.why_not():
            self.absent = {"docker": engines.why_not(), "podman": engines.why_not()}
            return
        place = tempfile.mkdtemp(prefix="gbe-", dir="/var/tmp")
        stack.callback(engines.stop, place)
        progress("starting a Docker Engine and a Podman service")
        for kind, found in engines.start(place).items():
            if "host" in found:
                setattr(self, kind, engines.Engine(kind, found["directory"]))
            else:
                self.absent[kind] = found.get("missing") or found["failed"].strip().split("\n")[-1]

    @staticmethod
    def given(kind, host):
        if not host.startswith("unix://"):
            raise SystemExit(f"bench: {host} is not unix:///path")
        engine = engines.Engine(kind, "/nonexistent")
        engine.socket = pathlib.Path(host[7:])
        return engine


class Bench:
    def __init__(self, a, stack):
        self.a, self.stack, self.failed = a, stack, {}
        self.work = common.work_directory(stack)
        build = common.Build(a.glovebox)
        self.environment = {**build.library_environment(self.work),
                            "GLOVEBOX_CONFIG_DIR": str(common.copy_config(self.work))}
        self.program = common.compile_program(self.work, "session_client", ["-pthread", *build.library_flags()])
        self.engines = Engines(a, stack)
        self.runsc = bool(self.engines.docker) and not a.smoke and "runsc" in self.engines.docker.runtimes()
        if self.runsc:
            stack.callback(engines.take_back_null)
        elif self.engines.docker:
            self.failed["docker+runsc"] = "--smoke is without it" if a.smoke else "the engine has no runtime runsc"
        self.backends = self.enter(self.all_backends())
        self.hands = self.enter(self.all_hands())

    def all_backends(self):
        yield Backend("native", template="python")
        yield Backend("native, fresh exec")
        if self.engines.docker:
            yield Backend("docker", self.engines.docker)
            if self.runsc:
                yield Backend("docker+runsc", self.engines.docker, "runsc")
        if self.engines.podman:
            yield Backend("podman", self.engines.podman)

    def all_hands(self):
        if self.engines.docker and shutil.which("docker"):
            base = [shutil.which("docker"), "-H", self.engines.docker.host]
            yield Hand("docker", base)
            if self.runsc:
                yield Hand("docker+runsc", base, "runsc")
        if self.engines.podman and shutil.which("podman"):
            # Podman's default of this one is above what root may set on some hosts.
            yield Hand("podman", [shutil.which("podman"), "--remote", f"--url={self.engines.podman.host}"], flags=["--ulimit=nproc=4096:4096"])

    def enter(self, those):
        """By name; one that cannot work here is told, and left out."""
        ready = {}
        for one in those:
            if self.a.only and not any(one.name.startswith(word) for word in self.a.only.split(",")):
                continue
            try:
                one.enter(self.stack, self)
                ready[one.name] = one
            except (RuntimeError, OSError, Absent) as why:
                kind = "by hand, " if isinstance(one, Hand) else ""
                self.failed[f"{kind}{one.name}"] = str(why)
        return ready

    def measure(self):
        times = {name: {} for name in ("start", "first output", "close", "live", "once")}

        def add(table, name, values):
            times[table].setdefault(name, []).extend(values)

        def session(one):
            start, close = one.start_ms()
            add("start", one.name, [start])
            add("close", one.name, [close])

        def by_hand(one):
            first, end = run_checked(one.run)
            add("start", f"{one.name} run", [end])
            add("first output", f"{one.name} run", [first])

        tasks = [task for one in self.backends.values() for task in (
            lambda one=one: session(one), lambda one=one: add("live", one.name, one.live_ms(self.a.live)), lambda one=one: add("once", one.name, [one.once_ms()]))]
        tasks += [task for one in self.hands.values() for task in (
            lambda one=one: by_hand(one), lambda one=one: add("live", f"{one.name} exec", [run_checked(one.execute)[1]]))]
        for task in tasks:
            task()
        for table in times.values():
            table.clear()  # that was to warm up
        for i in range(self.a.rounds):
            progress(f"round {i + 1} of {self.a.rounds}")
            random.shuffle(tasks)
            for task in tasks:
                task()
                time.sleep(self.a.pause / 1000)  # an engine tidies up for a while
        progress("")
        return {table: {name: summary(values) for name, values in rows.items()} for table, rows in times.items()}

    def memory(self):
        rows = {}
        for one in self.backends.values():
            try:
                rows[one.name] = one.memory(self.a.hold)
            except (RuntimeError, OSError, AssertionError, KeyError) as why:
                self.failed[f"memory of {one.name}"] = str(why)
        return rows


# ---- the report ----


def by_hand_of(name):
    return None if name.startswith("native") else name


def table(title, rows, peers, suffix):
    """One line for each; what it is to the same engine's own command."""
    lines = [title, f"  {'':<22}{'n':>6}{'p50':>11}{'p99':>11}{'min':>11}   x by hand"]
    for name, r in sorted(rows.items(), key=lambda item: item[1]["p50_ms"]):
        peer = peers.get(f"{by_hand_of(name)} {suffix}")
        ratio = f"{r['p50_ms'] / peer['p50_ms']:.3f}" if peer and peer is not r else ""
        lines.append(f"  {name:<22}{r['n']:>6}{r['p50_ms']:>11.3f}{r['p99_ms']:>11.3f}{r['min_ms']:>11.3f}   {ratio}")
    return "\n".join(lines) + "\n"


def judge(times):
    goals = []
    live, start, peer = times["live"].get("docker"), times["start"].get("docker"), times["start"].get("docker run")
    if live:
        goals.append((f"a run in a live docker session, p50, at most {GOALS['live_p50_ms']} ms", f"{live['p50_ms']:.3f} ms", live["p50_ms"] <= GOALS["live_p50_ms"]))
    if start and peer:
        ratio = start["p50_ms"] / peer["p50_ms"]
        goals.append((f"a docker session's start to its first result, p50, at most {GOALS['start_ratio']} x a bare hardened docker run", f"{ratio:.3f} x", ratio <= GOALS["start_ratio"]))
    return [{"goal": text, "value": value, "reached": reached} for text, value, reached in goals]


def show(report):
    times = report["times"]
    print(table("(1) Start: from nothing to the result of print(1+1), ms", times["start"], times["start"], "run"))
    print(table("    of docker run and podman run: until the output is there, ms", times["first output"], {}, ""))
    print(table("    of sessions: the close, which comes after, ms", times["close"], {}, ""))
    print(table("(2) Live: one more run, ms", times["live"], times["live"], "exec"))
    if report["memory"]:
        print(f"(3) Memory of an idle session, kB; mean of {report['hold']}\n  {'':<22}{'its group':>12}{'its keeper':>12}")
        for name, row in report["memory"].items():
            print(f"  {name:<22}{row['group']:>12.0f}{row['keeper']:>12.0f}")
        print()
    print(table("(4) One-shot: the command `glovebox run`, ms", times["once"], times["start"], "run"))
    for name, why in report["failed"].items():
        print(f"absent: {name}: {why}")
    for goal in report["goals"]:
        print(f"{'reached' if goal['reached'] else 'MISSED '}: {goal['goal']}: {goal['value']}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, help="shares of each measurement (default 30)")
    parser.add_argument("--live", type=int, help="runs in a live session in each round (default 50)")
    parser.add_argument("--hold", type=int, help="sessions whose memory is measured (default 8)")
    parser.add_argument("--pause", type=int, help="milliseconds between two measurements (default 200)")
    parser.add_argument("--only", help="some of native,docker,podman, by their beginnings")
    parser.add_argument("--image", default="glovebox-python", help="the image at the engines (default: glovebox-python)")
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter in it, for the commands by hand")
    parser.add_argument("--docker-host", default=os.environ.get("DOCKER_HOST"), help="an engine that runs already (default: $DOCKER_HOST; else one is started)")
    parser.add_argument("--podman-host", help="the same of a Podman service")
    common.add_arguments(parser, "5 rounds")
    a = parser.parse_args()
    common.set_counts(a, rounds=(30, 5, 1), live=(50, 50, 2), hold=(8, 4, 1), pause=(200, 200, 0))
    a.glovebox = common.glovebox_program(parser)
    return a


def main(stack):
    a = arguments()
    bench = Bench(a, stack)
    bench.failed.update(bench.engines.absent)
    report = {"machine": common.machine_facts(), "rounds": a.rounds, "hold": a.hold, "image": a.image,
              "times": bench.measure(), "memory": bench.memory()}
    report["failed"] = bench.failed
    report["goals"] = judge(report["times"])
    show(report)
    common.write_json(a.json, report)
    return 0 if a.smoke or (report["goals"] and all(goal["reached"] for goal in report["goals"])) else 1


if __name__ == "__main__":
    common.run_main(main)
