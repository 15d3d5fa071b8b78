# SPDX-License-Identifier: Apache-2.0
"""The ratios of check.py: which there are, the table of the expected ones (ratios.toml), and the comparison."""

import json
import math
import statistics
import tomllib

FACTOR = 1.6

# Name: (the measurement, the one it is divided by, the meaning).
RATIOS = {
    "cold_run": ("run", "python", "`glovebox run` of one line, to the same line in Python without a sandbox"),
    "fresh_session": ("session", "exec", "a session from a template without a pool, until its first result, to vfork "
                      "and exec of a static program"),
    "pool_session": ("pool", "exec", "the same from a pool"),
    "live_run": ("live", "pair", "a run in a live context by the C library, guard on, to a round trip over a socket "
                 "pair between two processes"),
    "http_live_run": ("http live", "health", "POST /v1/sessions/ID/runs, to GET /healthz, over the unix socket"),
    "http_fresh_run": ("http fresh", "health", "POST /v1/runs, to GET /healthz, over the unix socket"),
    "scrub": ("scrub", "memcpy", "the scrubber for one byte of a log, to memcpy()"),
    "guard": ("guard", "pair", "a check of 50 lines of Python by the guard, to the same round trip"),
}

HEAD = f"""\
# The ratios that `./dev bench check` expects, by processor: of the least times, and of the medians. It fails when both
# are {FACTOR} times as large. bench/README.md explains them. `./dev bench check --update` rewrites those of the
# processor that it runs on: do that in the commit that changes a ratio for a good reason.
#
"""


class TableError(Exception):
    """The table cannot be used; the message says why, and names the file."""


class Machine:
    """What was measured on one machine. expected: by the names of RATIOS, the ratio of the least times and that of
    the medians."""

    def __init__(self, processor, system, expected):
        self.processor, self.system, self.expected = processor, system, expected

    @classmethod
    def read(cls, row, where):
        """where: the beginning of messages."""
        if not isinstance(row, dict):
            raise TableError(f"{where}: each 'machine' must be a table")
        for key in ("processor", "system"):
            if not isinstance(row.get(key), str):
                raise TableError(f"{where}: '{key}' of a machine must be a text")
        where = f"{where}: {row['processor']}"
        expected = {key: value for key, value in row.items() if key not in ("processor", "system")}
        for name in expected.keys() - RATIOS.keys():
            raise TableError(f"{where}: there is no ratio '{name}'; there are {', '.join(RATIOS)}")
        for name in RATIOS:
            if name not in expected:
                raise TableError(f"{where}: the ratio '{name}' is missing")
            if not is_pair(expected[name]):
                raise TableError(f"{where}: the ratio '{name}' must be two numbers above 0, not {expected[name]!r}")
        return cls(row["processor"], row["system"], expected)

    def lines(self):
        names = [f"processor = {json.dumps(self.processor)}", f"system = {json.dumps(self.system)}"]
        return ["", "[[machine]]", *names, *map(self.line, RATIOS)]

    def line(self, name):
        least, median = self.expected[name]
        return f"{name} = [{least:.3g}, {median:.3g}]"


class Table:
    """Ratios differ between processors, by the price of a system call and of waking another processor: up to three
    times between two servers of one cloud. So each processor has its own."""

    def __init__(self, build, machines=()):
        """build: the build type that the ratios are for."""
        self.build, self.machines = build, list(machines)

    @classmethod
    def read(cls, path):
        try:
            with open(path, "rb") as file:
                data = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
            raise TableError(f"{path}: {getattr(why, 'strerror', None) or why}") from why
        if not isinstance(data.get("build"), str):
            raise TableError(f"{path}: 'build' must be a text")
        if not isinstance(data.get("machine"), list) or not data["machine"]:
            raise TableError(f"{path}: there is no table [[machine]]")
        machines = [Machine.read(row, path) for row in data["machine"]]
        names = [machine.processor for machine in machines]
        for name in names:
            if names.count(name) > 1:
                raise TableError(f"{path}: there are two machines with the processor '{name}'")
        return cls(data["build"], machines)

    def find(self, processor):
        """The machine with this processor, or None."""
        return next((machine for machine in self.machines if machine.processor == processor), None)

    def expected_on(self, processor):
        """Those of the processor; for an unknown one, the largest ratio of any."""
        known = self.find(processor)
        if known:
            return known.expected
        return {name: [max(pair) for pair in zip(*(m.expected[name] for m in self.machines))] for name in RATIOS}

    def put(self, machine):
        """In the place of the one with the same processor, or behind the others."""
        known = self.find(machine.processor)
        at = self.machines.index(known) if known else len(self.machines)
        self.machines[at:at + 1] = [machine]

    def text(self):
        meanings = [f"# {name}: {meaning}" for name, (_, _, meaning) in RATIOS.items()]
        rows = [line for machine in self.machines for line in machine.lines()]
        return HEAD + "\n".join([*meanings, "", f"build = {json.dumps(self.build)}", *rows]) + "\n"


def is_ratio(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def is_pair(value):
    return isinstance(value, list) and len(value) == 2 and all(map(is_ratio, value))


class Comparison:
    """One measured ratio beside the expected one, both for the least times and for the medians. Other processes make
    one of the two too large: the former where a measurement takes milliseconds and is never undisturbed for that time,
    the latter where it takes microseconds. A change of the code makes both larger."""

    def __init__(self, name, expected, least, median):
        self.name, self.expected, self.measured = name, expected, [least, median]

    @property
    def factors(self):
        return [measured / expected for measured, expected in zip(self.measured, self.expected)]

    @property
    def factor(self):
        return min(self.factors)

    @property
    def failed(self):
        return self.factor >= FACTOR

    @property
    def is_faster(self):
        return max(self.factors) <= 1 / FACTOR

    def message(self):
        """A line about it; None: it is as expected."""
        at = self.factors.index(max(self.factors) if self.is_faster else self.factor)
        told = (f"{self.name}: expected {self.expected[at]:.3g}, measured {self.measured[at]:.3g}, "
                f"factor {self.factors[at]:.2f}")
        if self.failed:
            return f"FAILED: {told}: {RATIOS[self.name][2]}"
        if self.is_faster:
            return f"note: {told}: much faster than the table; update it with './dev bench check --update'"
        return None


def ratios_of(samples):
    """From the samples of each measurement: the ratio of the least ones, and that of the medians."""
    def of(reduce, above, below):
        return reduce(samples[above]) / reduce(samples[below])
    return {name: [of(min, *row[:2]), of(statistics.median, *row[:2])] for name, row in RATIOS.items()}


def compare(expected, samples):
    return [Comparison(name, expected[name], *pair) for name, pair in ratios_of(samples).items()]
