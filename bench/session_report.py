# SPDX-License-Identifier: Apache-2.0
"""What sessions.py has measured, as tables (plain, or Markdown for docs/benchmarks.md), and how far the goals are."""

import common

GOALS = {"fresh_p50_ms": 1.5, "fresh_p99_ms": 4.0, "pool_p50_ms": 0.4, "docker_ratio": 150, "live_p50_ms": 0.15,
         "rate_per_s": 1000, "memory_kb": 1536}
OWN = {"fresh": "glovebox, no pool", "live": "glovebox", "idle": "glovebox"}
TITLES = {"fresh": "(a) A fresh sealed session with the imports: request to the result of print(1+1), ms",
          "live": "(b) One more run in a live context, one after the other, ms", "idle": "(b) The same after 2 ms of idleness, ms"}


def factor(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}"


def table_of_times(name, rows):
    own = rows[OWN[name]]["p50_ms"]
    lines = [(peer, r["n"], f"{r['p50_ms']:.3f}", f"{r['p99_ms']:.3f}", f"{r['min_ms']:.3f}", factor(r["p50_ms"] / own))
             for peer, r in sorted(rows.items(), key=lambda item: item[1]["p50_ms"])]
    return TITLES[name], ("", "n", "p50", "p99", "min", f"x {OWN[name]}"), lines


def table_of_phases(times):
    names = ("glovebox, pool", "glovebox, no pool")
    phases = {name: times[f"phases of {name}"] for name in names}
    lines = [(name, *(f"{r['p50_ms']:.3f}" for r in phases[name].values())) for name in names]
    return "Of which, p50 (the close comes after the result)", ("", *phases[names[0]]), lines


def table_of_memory(report):
    lines = [(name, *(f"{r[field]:.0f}" for field in ("pss", "private", "tables", "stacks", "all")),
              *(f"{r[field]:.0f}" if field in r else "" for field in ("grown", "cgroup"))) for name, r in report["memory"].items()]
    return (f"(d) Memory, kB; of a session: the mean of {report['hold']}",
            ("", "PSS", "private", "page tables", "kernel stacks", "PSS + tables + stacks", "grown by", "its cgroup"), lines)


def table_of_crowd(c):
    rows = (("open", c["open"]), ("first run of each", c["first_run"]), ("second run of each", c["second_run"]))
    lines = [(name, f"{r['p50_ms']:.3f}", f"{r['p99_ms']:.3f}", f"{r['min_ms']:.3f}") for name, r in rows]
    return (f"(e) {c['n']} sessions at once, ms each: opened in {c['open_s']:.2f} s, closed in {c['close_s']:.2f} s, and the machine had "
            f"{c['machine_kb_each']:.0f} kB less for each", ("", "p50", "p99", "min"), lines)


def tables_of(report):
    times = report["times"]
    tables = [table_of_times("fresh", times["fresh"]), table_of_phases(times), table_of_times("live", times["live"]),
              table_of_times("idle", times["idle"])]
    if "rates" in report:
        lines = [(name, f"{r['per_s']:.1f}", ", ".join(f"{x:.1f}" for x in r["all"])) for name, r in report["rates"].items()]
        tables.append(("(c) Sessions per second, 2 clients (open, run, close)", ("", "median", "all"), lines))
    if "memory" in report:
        tables.append(table_of_memory(report))
    if "crowd" in report:
        tables.append(table_of_crowd(report["crowd"]))
    if "processor" in report:
        lines = [(name, f"{r['own_ms']:.2f}", f"{r['own_min_ms']:.2f}", f"{r['kernel_ms']:.2f}", f"{2000 / (r['own_ms'] + r['kernel_ms']):.0f}")
                 for name, r in report["processor"].items()]
        tables.append(("(f) Processor time of a fresh session, ms; with what kernel threads did meanwhile that fills two processors at so many per second",
                       ("", "median", "least", "kernel threads", "per second"), lines))
    goals = [(goal["goal"], "reached" if goal["reached"] else "missed") for goal in report["goals"]]
    return tables + [("Goals", ("", ""), goals)]


def plain(report):
    return common.plain(tables_of(report))


def markdown(report):
    def bold(cell, i):
        return f"**{cell}**" if i == 0 and str(cell).startswith("glovebox") else cell

    return common.markdown((title, head, [tuple(bold(cell, i) for i, cell in enumerate(line)) for line in lines])
                           for title, head, lines in tables_of(report))


def judge(report):
    """The goals and whether they are reached; what was to be measured and failed is missed."""
    times, g, verdicts = report["times"], GOALS, []
    pool, cold, docker = (times["fresh"].get(name) for name in ("glovebox, pool", "glovebox, no pool", "docker run"))

    def add(text, value, reached):
        verdicts.append({"goal": f"{text}: {value}", "reached": reached})

    def at_most(what, value, goal, unit, form=".3f"):
        add(f"{what} at most {goal} {unit}", f"{value:{form}}", value <= goal)

    at_most("(a) p50 without a pool", cold["p50_ms"], g["fresh_p50_ms"], "ms")
    at_most("(a) p99 without a pool", cold["p99_ms"], g["fresh_p99_ms"], "ms")
    at_most("(a) p50 from the pool", pool["p50_ms"], g["pool_p50_ms"], "ms")
    if docker:
        times_faster = docker["p50_ms"] / cold["p50_ms"]
        add(f"(a) at least {g['docker_ratio']} x faster than docker run, without a pool", f"{times_faster:.0f}", times_faster >= g["docker_ratio"])
    at_most("(b) p50", times["live"]["glovebox"]["p50_ms"], g["live_p50_ms"], "ms")
    if "rates" in report:
        best = max(r["per_s"] for name, r in report["rates"].items() if name.startswith("glovebox"))
        add(f"(c) at least {g['rate_per_s']} sessions per second, 2 clients", f"{best:.0f}", best >= g["rate_per_s"])
    if "memory" in report:
        at_most("(d) an idle session: grown by", report["memory"]["a session, opened"]["grown"], g["memory_kb"], "kB", ".0f")
    if "crowd" in report:
        add(f"(e) {report['crowd']['n']} alive at once", "all answered twice", True)
    for name, why in report["failed"].items():
        add(name, why, False)
    return verdicts
