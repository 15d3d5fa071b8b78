#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart of sessions.py, as SVG: chart.py NUMBERS.json > chart.svg

The scale is logarithmic, so bars would say nothing by their length: a dot is the median, the line behind it goes from the
fastest to p99.
"""

import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 190, 210, 26, 64
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 } .small { font-size: 11px; fill: #57606a } .own { font-weight: 600 }
  .grid { stroke: #d0d7de; stroke-width: 1 } .span { stroke: #8c959f; stroke-width: 3; stroke-linecap: round } .dot { fill: #57606a }
  .span.own { stroke: #54aeff } .dot.own { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #30363d } .span { stroke: #6e7681 } .dot { fill: #9198a1 }
    .span.own { stroke: #1f6feb } .dot.own { fill: #58a6ff }
  }"""
PANELS = (("fresh", "A fresh sealed Python with numpy, pandas and matplotlib: request to result", "glovebox, no pool"),
          ("live", "One more step in a Python that lives", "glovebox"))


class Scale:
    """Milliseconds to pixels, over whole decades."""

    def __init__(self, values):
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(self, ms):
        return LEFT + (math.log10(ms) - self.low) / max(1, self.high - self.low) * (WIDTH - LEFT - RIGHT)


def text_of(ms):
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 10 else f"{ms:.2f} ms"


def times(factor):
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"


def draw_row(scale, y, name, row, own_p50):
    kind = " own" if name.startswith("glovebox") else ""
    factor = row["p50_ms"] / own_p50
    low, mid, high = (scale.x(row[field]) for field in ("min_ms", "p50_ms", "p99_ms"))
    return [f'<text class="{kind.strip()}" x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>',
            f'<line class="span{kind}" x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}"/>',
            f'<circle class="dot{kind}" cx="{mid:.1f}" cy="{y}" r="5"/>',
            f'<text class="{kind.strip()}" x="{WIDTH - RIGHT + 16}" y="{y + 4}">{text_of(row["p50_ms"])}</text>',
            f'<text class="small" x="{WIDTH - 24}" y="{y + 4}" text-anchor="end">{times(factor)} x</text>']


def draw_panel(scale, top, title, rows, own):
    out = [f'<text class="head" x="16" y="{top}">{escape(title)}</text>']
    for i, (name, row) in enumerate(sorted(rows.items(), key=lambda item: item[1]["p50_ms"])):
        out += draw_row(scale, top + 22 + i * ROW, name, row, rows[own]["p50_ms"])
    return out, top + 22 + len(rows) * ROW + 18


def draw_grid(scale, bottom):
    out = []
    for decade in range(scale.low, scale.high + 1):
        x = scale.x(10 ** decade)
        label = f"{10 ** decade / 1000:g} s" if decade >= 3 else f"{10 ** decade:g} ms"
        out += [f'<line class="grid" x1="{x:.1f}" y1="{TOP - 10}" x2="{x:.1f}" y2="{bottom}"/>',
                f'<text class="small" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{label}</text>']
    return out


def facts_of(report):
    machine, out = report["machine"], []
    if "rates" in report:
        best = max(r["per_s"] for name, r in report["rates"].items() if name.startswith("glovebox"))
        out.append(f"{best:.0f} sessions per second with 2 clients")
    if "memory" in report:
        out.append(f"an idle session takes {report['memory']['a session, opened']['grown'] / 1024:.1f} MB")
    if "crowd" in report:
        out.append(f"{report['crowd']['n']} at once: opened in {report['crowd']['open_s']:.1f} s")
    kernel = ".".join(machine["kernel"].split(".")[:2])
    return ["; ".join(out), f"{machine['cpus']} x {machine['cpu']}, Linux {kernel}, {machine['date']}. Dot: p50; line: fastest to p99; "
            "x: times a fresh session without a pool, times a step in glovebox"]


def draw(report):
    rows = [row for table, _, _ in PANELS for row in report["times"][table].values()]
    scale = Scale([row[field] for row in rows for field in ("min_ms", "p99_ms")])
    body, at = [], TOP
    for table, title, own in PANELS:
        part, at = draw_panel(scale, at + 8, title, report["times"][table], own)
        body += part
    bottom = at - 18
    notes = [f'<text class="small" x="16" y="{bottom + 38 + 16 * i}">{escape(line)}</text>' for i, line in enumerate(facts_of(report))]
    height = bottom + 38 + 16 * len(notes)
    title = "Sessions of glovebox and their peers" + (" (a quick run, not to be quoted)" if report["quick"] else "")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
                      f"<title>{title}</title>", f"<style>{STYLE}\n</style>", f'<text class="title" x="16" y="28">{title}</text>',
                      *draw_grid(scale, bottom), *body, *notes, "</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as numbers:
        sys.stdout.write(draw(json.load(numbers)))
