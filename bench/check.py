#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A handful of ratios, measured in one run and compared with a committed table: finds parts that became much slower.

Each ratio is a time of glovebox divided by that of something that depends on the machine alone. Both are measured in
many short rounds, in random order. README.md beside this file says how noise is kept out.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import time

import common
import ratios
import run
import server
from common import Absent, progress

TABLE = common.HERE / "ratios.toml"
TEMPLATE = "python"
SPACE_USEC = 5_000  # between two sessions from the pool: enough for it to be full again
REPEATS = 3         # how often a ratio that failed is measured again
REST_SEC = 1        # before each of these: a disturbance may be over by then
ROUNDS_MIN = 15     # on a slow machine fewer rounds than wanted are enough, but not fewer than these,
BUDGET_SEC = 25     # once this time is over


class Bench:
    """All measurements are in nanoseconds."""

    def __init__(self, glovebox, stack):
        self.glovebox, self.build = glovebox, common.Build(glovebox)
        both = server.Bench(argparse.Namespace(glovebox=glovebox, template=TEMPLATE), stack)
        self.load, self.bodies, self.engine = both.loads["unix"], both.bodies, both.engine
        self.load.ask("ids " + " ".join(both.server.sessions(1)))
        self.pool, self.cold = self.engine.client(TEMPLATE), self.engine.client(self.engine.cold)
        self.scrubber = common.Client(stack, [self.build.program("guard/bench_scrub"), "--check"])
        self.corpus = self.build.program("guard/guard_corpus")
        self.samples = {}

    def command(self, *words):
        return [self.engine.commands.time_ms(words, run.EXPECTED) * 1e6]

    def spawn(self, what, count):
        return self.json_of([self.engine.commands.program, what, str(count)])["samples"]

    @staticmethod
    def json_of(command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def http(self, kind, msec):
        return [self.load.load(1, msec, server.EXPECTED[kind], "POST", server.PATHS[kind], self.bodies[kind])["min"]]

    def shares(self):
        """The functions that measure in one round, by the names of the measurements."""
        return {
            ("run",): lambda: {"run": self.command(self.glovebox, "run", "-c", run.CODE)},
            ("python",): lambda: {"python": self.command(run.PYTHON, "-c", run.CODE)},
            ("exec",): lambda: {"exec": self.spawn("exec", 10)},
            ("pair",): lambda: {"pair": self.spawn("pair", 200)},
            ("session",): lambda: {"session": [sum(row[:3]) for row in self.cold.ask("fresh 4 0")["samples"]]},
            ("pool",): lambda: {"pool": [sum(row[:3]) for row in self.pool.ask(f"fresh 3 {SPACE_USEC}")["samples"]]},
            ("live",): lambda: {"live": [row[0] for row in self.pool.ask("live 30 0")["samples"]]},
            ("health",): lambda: {"health": [self.load.load(1, 5, "ok", "GET", server.HEALTH)["min"]]},
            ("http live",): lambda: {"http live": self.http("live", 10)},
            ("http fresh",): lambda: {"http fresh": self.http("once", 20)},
            ("scrub", "memcpy"): self.scrub,
            ("guard",): self.look,
        }

    def scrub(self):
        answer = self.scrubber.ask("")
        return {"scrub": [answer["scrub_nsec"]], "memcpy": [answer["memcpy_nsec"]]}

    def look(self):
        return {"guard": [row["least_usec"] * 1e3 for row in self.json_of([self.corpus, "time", "5", "50"])]}

    def rounds(self, count, wanted, label, budget_sec=BUDGET_SEC):
        """Shares of the wanted measurements, in random order in each round."""
        shares = [share for names, share in self.shares().items() if wanted & set(names)]
        end = time.monotonic() + budget_sec
        for i in range(count):
            if i >= ROUNDS_MIN and time.monotonic() > end:
                break
            progress(f"{label}: round {i + 1} of {count}")
            for share in random.sample(shares, len(shares)):
                for name, values in share().items():
                    self.samples.setdefault(name, []).extend(values)
        progress("")

    def compare(self, expected):
        return ratios.compare(expected, self.samples)


def measurements_of(names):
    """Those that the ratios are made of."""
    return {measurement for name in names for measurement in ratios.RATIOS[name][:2]}


def check(bench, expected, rounds):
    """The comparisons; those that failed were measured again, with more rounds, before they count as failed."""
    bench.rounds(rounds, measurements_of(ratios.RATIOS), "all")
    for i in range(REPEATS):
        failed = [one.name for one in bench.compare(expected) if one.failed]
        if not failed:
            break
        print(f"more rounds of: {', '.join(failed)}")
        sys.stdout.flush()
        time.sleep(REST_SEC)
        bench.rounds(2 * rounds, measurements_of(failed), "again")
    return bench.compare(expected)


def table_of(bench, comparisons):
    lines = []
    for one in comparisons:
        cells = [f"{value:.3g}" for pair in zip(one.measured, one.expected) for value in pair]
        times = [f"{min(bench.samples[name]) / 1e3:.4g}" for name in ratios.RATIOS[one.name][:2]]
        lines.append((one.name, *cells, f"{one.factor:.2f}", *times))
    head = ("", "of least", "expected", "of medians", "expected", "factor", "least, us", "divided by, us")
    return "Ratios", head, lines


def build_type(build):
    """The settings of the compiler, by the options of the build directory."""
    path = build.top / "meson-info/intro-buildoptions.json"
    options = {row["name"]: row["value"] for row in json.loads(path.read_text())}
    sanitized = options["b_sanitize"] not in ("none", [])
    return options["buildtype"] + (", sanitized" if sanitized else "")


def system_of(facts):
    kernel = ".".join(facts["kernel"].split(".")[:2])
    return f"{facts['cpus']} cpus, Linux {kernel}, cgroup {facts['cgroup']}"


def arguments():
    parser = argparse.ArgumentParser(prog="bench/check.py", description="Compare a handful of ratios with a table.")
    parser.add_argument("--update", action="store_true", help="write the ratios of this processor to the table")
    parser.add_argument("--rounds", type=int, default=40, help="shares of each measurement (default %(default)s)")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE, help="the table (default: bench/ratios.toml)")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers, with every sample")
    a = parser.parse_args()
    if a.rounds < 1:
        parser.error("at least one round")
    a.glovebox = common.glovebox_program(parser)
    return a


def read_table(a, built):
    if a.update and not a.table.exists():
        return ratios.Table(built)
    try:
        table = ratios.Table.read(a.table)
    except ratios.TableError as why:
        raise Absent(why) from why
    if table.build != built:
        raise Absent(f"{a.table} is for a build of type '{table.build}', and {a.glovebox} is of type '{built}'")
    return table


def update(a, bench, table, facts):
    bench.rounds(2 * a.rounds, measurements_of(ratios.RATIOS), "all", math.inf)
    expected = ratios.ratios_of(bench.samples)
    table.put(ratios.Machine(facts["processor"], system_of(facts), expected))
    a.table.write_text(table.text())
    print(f"{a.table}: written")
    return bench.compare(expected)


def messages(a, comparisons, is_known, processor):
    """What there is to say about the comparisons. A ratio below the largest one of other processors says nothing."""
    if not is_known:
        yield (f"note: {a.table} has no ratios of this processor ({processor}): compared with the largest of the "
               "others; add them with './dev bench check --update'")
    yield from (one.message() for one in comparisons if one.message() and (is_known or one.failed))


def main(stack):
    a = arguments()
    common.need_root()
    facts, built = common.machine_facts(), build_type(common.Build(a.glovebox))
    table = read_table(a, built)
    print(common.machine_line(facts))
    sys.stdout.flush()
    bench = Bench(a.glovebox, stack)
    if a.update:
        comparisons = update(a, bench, table, facts)
    else:
        comparisons = check(bench, table.expected_on(facts["processor"]), a.rounds)
    is_known = table.find(facts["processor"]) is not None
    sys.stdout.write(common.plain([table_of(bench, comparisons)]) + "\n")
    for message in messages(a, comparisons, is_known, facts["processor"]):
        print(message)
    rows = {one.name: {"expected": one.expected, "measured": one.measured, "factor": one.factor, "failed": one.failed}
            for one in comparisons}
    common.write_json(a.json, {"machine": facts, "build": built, "is_known": is_known, "ratios": rows,
                               "samples": bench.samples})
    return 1 if any(one.failed for one in comparisons) else 0


if __name__ == "__main__":
    common.run_main(main)
