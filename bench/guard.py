#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the guard finds, what it leaves alone, and what it costs.

The samples are those of tests/guard, through the shipped rules by the program itself (guard_corpus); the same secrets and lines go through detect-secrets where
that is installed. Times: a look at code with a reader that waits (guard_corpus time), text through the scrubber (bench_scrub), and whole runs with guard and
scrubber on and off, one after the other in random order.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import common
import run

SAMPLES = common.ROOT / "tests" / "guard"
GOALS = {"precision": 0.99, "recall": 0.98, "check_usec": 100, "added_ms": 0.1, "scrub_mb_per_s": 500, "scrub_200_mb_per_s": 300}
AT_LEAST = {"precision", "recall", "scrub_mb_per_s", "scrub_200_mb_per_s"}

# Reads a file as its own command does, with its own defaults.
PEER = """
import json, sys, time
from detect_secrets.__version__ import VERSION
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
with default_settings():
    begin = time.process_time()
    lines = sorted({secret.line_number for secret in scan_file(sys.argv[1])})
    took = time.process_time() - begin
print(json.dumps({"version": VERSION, "lines": lines, "seconds": took}))
"""


def ratio(part, whole):
    return part / whole if whole else 0.0


def rates(found, positive, false):
    return {"samples": positive, "found": found, "false": false, "precision": ratio(found, found + false), "recall": ratio(found, positive)}


# ---- what is found ----


def corpus(build):
    done = subprocess.run([build.program("guard/guard_corpus"), "check", SAMPLES], capture_output=True, text=True)
    if done.returncode > 1:
        raise SystemExit(f"bench: {done.stderr.strip()}")
    c = json.loads(done.stdout)
    secrets = rates(c["secrets"] - c["missed"], c["secrets"], c["false"]) | {"plain": c["plain"]}
    code = rates(c["bad"] - c["bad_missed"], c["bad"], c["good_false"]) | {"plain": c["good"]}
    hidden = rates(c["bad"] - c["bad_missed"] + c["open_found"], c["bad"] + c["open"], c["good_false"]) | {"plain": c["good"]}
    return {"rules": c["rules"], "shapes": c["shapes"], "secrets": secrets, "code": code, "code_with_known_misses": hidden, "wrong": done.stderr}


def secret_samples():
    escapes = {"n": "\n", "t": "\t", "e": "\033"}
    for line in (SAMPLES / "secrets.txt").read_text().splitlines():
        text = line.partition("\t")[2].replace("{}", "")
        yield re.sub(r"\\([nte\\])", lambda m: escapes.get(m[1], m[1]), text)


def detect_secrets(python, work):
    """The same texts through detect-secrets, with its own defaults. None, and why, when it is not there."""
    if subprocess.run([python, "-c", "import detect_secrets"], capture_output=True).returncode:
        return None, f"detect-secrets is not installed for {python}"
    texts = [*secret_samples(), *(SAMPLES / "plain.txt").read_text().splitlines()]
    n = sum(1 for _ in secret_samples())
    owner = [i for i, text in enumerate(texts) for _ in text.split("\n")]
    path = work / "output.txt"
    path.write_text("\n".join(texts) + "\n")
    size = path.stat().st_size
    done = subprocess.run([python, "-c", PEER, path], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    told = json.loads(done.stdout)
    hit = {owner[line - 1] for line in told["lines"]}
    found = sum(1 for i in hit if i < n)
    return rates(found, n, len(hit) - found) | {"plain": len(texts) - n, "version": told["version"], "mb_per_second": size / told["seconds"] / 1e6}, None


# ---- what it costs ----


def check_times(build, rounds):
    done = subprocess.run([build.program("guard/guard_corpus"), "time", str(rounds)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {done.stderr.strip() or 'guard_corpus time failed'}")
    return json.loads(done.stdout)


def scrub_speed(build, bytes_of_text):
    done = subprocess.run([build.program("guard/bench_scrub"), "--bytes", str(bytes_of_text)], capture_output=True,
                          text=True)
    if done.returncode:
        raise SystemExit(f"bench: {done.stderr.strip() or 'bench_scrub failed'}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def timed(command, environment):
    begin = time.perf_counter_ns()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    took = (time.perf_counter_ns() - begin) / 1e6
    if done.returncode or done.stdout != run.EXPECTED:
        raise SystemExit(f"bench: {' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return took


def runs(a, work):
    """Milliseconds of whole runs, on and off, and the difference of each pair."""
    kinds = {"on": ["--guard", "on", "--scrub", "on"], "off": ["--guard", "off", "--scrub", "off"]}
    samples = {kind: [] for kind in kinds}
    environment = {**os.environ, "HOME": str(work)}
    for i in range(a.rounds + 2):
        for kind in random.sample(list(kinds), len(kinds)):
            if a.wait_quiet:
                common.wait_until_quiet()
            took = timed([a.glovebox, "run", "--quiet", *kinds[kind], "-c", run.CODE], environment)
            if i >= 2:  # the first two warm the caches
                samples[kind].append(took)
    samples["added"] = [on - off for on, off in zip(samples["on"], samples["off"])]
    return samples


def at(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# ---- telling ----


def tell_rates(name, r):
    print(f"  {name:<34} {r['found']:>5} of {r['samples']:<5} {r['false']:>5} of {r['plain']:<6} {r['precision']:>9.3f} {r['recall']:>8.3f}")


def tell(r):
    c = r["corpus"]
    print(f"{c['rules']} rules about code, {c['shapes']} shapes of secrets\n")
    print(f"  {'':<34} {'found':>14} {'false alarms':>15} {'precision':>9} {'recall':>8}")
    tell_rates("secrets, glovebox", c["secrets"])
    if r["peer"]:
        tell_rates(f"secrets, detect-secrets {r['peer']['version']}", r["peer"])
    else:
        print(f"  detect-secrets: absent: {r['peer_absent']}")
    tell_rates("code, glovebox", c["code"])
    tell_rates("code, with the misses we know of", c["code_with_known_misses"])
    print("\n  a look at code, reader waiting (microseconds)")
    for row in r["check"]:
        print(f"    {row['lines']:>4} lines   least {row['least_usec']:>8.1f}   p50 {row['p50_usec']:>8.1f}   p99 {row['p99_usec']:>8.1f}")
    for row in r["scrub"]:
        print("    " + "   ".join(f"{key} {value}" for key, value in row.items()))
    if r["peer"]:
        print(f"    detect-secrets: {r['peer']['mb_per_second']:.2f} MB/s")
    print("\n  glovebox run (milliseconds)")
    for kind, values in r["runs"].items():
        print(f"    {kind:<6} p50 {at(values, 0.5):>8.2f}   p99 {at(values, 0.99):>8.2f}")


def slowest(r, kind):
    """Of texts that are not made to be slow."""
    return min(row["mb_per_s"] for row in r["scrub"] if row.get("with") == kind and not row["text"].startswith("worst"))


def missed_goals(r):
    fifty = next(row for row in r["check"] if row["lines"] == 50)
    measured = {
        "precision": min(r["corpus"]["secrets"]["precision"], r["corpus"]["code"]["precision"]),
        "recall": min(r["corpus"]["secrets"]["recall"], r["corpus"]["code"]["recall"]),
        "check_usec": fifty["p50_usec"],
        "added_ms": at(r["runs"]["on"], 0.5) - at(r["runs"]["off"], 0.5),
        "scrub_mb_per_s": slowest(r, "no secrets"),
        "scrub_200_mb_per_s": slowest(r, "200 secrets"),
    }
    return [f"{name}: {measured[name]:.3f}, the goal is {goal}" for name, goal in GOALS.items()
            if (measured[name] < goal if name in AT_LEAST else measured[name] > goal)]


def arguments():
    p = argparse.ArgumentParser(prog="bench/guard.py", description=__doc__.split("\n")[0])
    p.add_argument("--rounds", type=int, help="pairs of runs, and looks at code times ten (default 200)")
    p.add_argument("--wait-quiet", action="store_true",
                   help="before each run, wait until no other process wants a processor")
    p.add_argument("--peer-python", default=os.environ.get("BENCH_PEER_PYTHON", sys.executable),
                   help="an interpreter that has detect-secrets")
    common.add_arguments(p, "20 rounds, and a tenth of the text")
    a = p.parse_args()
    common.set_counts(a, rounds=(200, 20, 1), text=(100_000_000, 10_000_000, 100_000))
    a.glovebox = common.glovebox_program(p)
    return a


def main(stack):
    a = arguments()
    build, work = common.Build(a.glovebox), common.work_directory(stack)
    peer, absent = detect_secrets(a.peer_python, work)
    result = {
        "machine": common.machine_facts(), "corpus": corpus(build), "peer": peer, "peer_absent": absent,
        "check": check_times(build, 10 * a.rounds), "scrub": scrub_speed(build, a.text), "runs": runs(a, work),
    }
    tell(result)
    common.write_json(a.json, result)
    missed = missed_goals(result)
    for line in missed:
        print(f"  missed: {line}")
    return 1 if missed and not a.smoke else 0


if __name__ == "__main__":
    common.run_main(main)
