# SPDX-License-Identifier: Apache-2.0
"""Every benchmark of bench/ runs, with its smallest counts: each table is printed, each row has numbers, and a peer
that is absent is reported. Nothing is said about the numbers themselves; test_check.py compares some.

Engines take part only where $GLOVEBOX_TEST_ENGINES names some that run: starting them takes longer than all of this.
"""
import json
import os
import re
import sys

import pytest
from bench_fixtures import run_bench
from conftest import needs_root
from engines import session_engines

pytestmark = needs_root  # the benchmarks measure boxes with all their limits, as root has them

MCP_WAYS = {"API, unix socket", "API, TCP", "HTTP, unix socket", "HTTP, TCP", "HTTP stateless, unix socket",
            "HTTP stateless, TCP", "glovebox mcp, a server that runs", "glovebox mcp, a private server"}


@pytest.fixture(scope="module")
def hosts():
    """Where the given engines listen, as options of a benchmark."""
    if not os.environ.get("GLOVEBOX_TEST_ENGINES"):
        return {}
    with session_engines() as both:
        return {kind: f"--{kind}-host={found['host']}" for kind, found in both.state.items() if "host" in found}


@pytest.fixture
def smoke(tmp_path, run_bench):
    """Runs a benchmark; its report and its output."""
    def run(name, *arguments, **environ):
        path = tmp_path / "report.json"
        status, output = run_bench(name, "--smoke", "--json", path, *arguments, **environ)
        assert status == 0, f"{name}: {status}\n{output}"
        return json.loads(path.read_text()), output

    return run


def assert_titles(output, *titles):
    """Each begins a line, and a line with numbers follows before an empty one."""
    for title in titles:
        assert re.search(rf"^{re.escape(title)}.*\n(?:\n\|)?(?:.+\n)*?.*\d", output, re.MULTILINE), (title, output)


def assert_positive(value, where="report"):
    """All numbers, wherever they are, and at least one."""
    if isinstance(value, (dict, list)):
        rows = value.items() if isinstance(value, dict) else enumerate(value)
        assert value, f"{where} is empty"
        for name, one in rows:
            assert_positive(one, f"{where}.{name}")
    else:
        assert not isinstance(value, (int, float)) or value > 0, f"{where} is {value}"


def assert_absent(report, output, expected):
    """Each of the expected peers is there, or is absent and the output says why."""
    for name, why in report["absent"].items():
        assert name in expected and why, report["absent"]
        assert re.search(rf"^ *{re.escape(name)}:? +absent: {re.escape(why)}", output, re.MULTILINE), (name, output)


@pytest.mark.engines
def test_run(smoke, hosts):
    report, output = smoke("run", *filter(None, [hosts.get("docker")]))
    assert_titles(output, "One after the other", "After 100 ms of idleness", "Peak memory of glovebox itself", "Goals")
    everyone = {"bare", "glovebox", "bubblewrap", "firejail", "runc", "docker"}
    assert set(report["peers"]) | set(report["absent"]) == everyone and {"bare", "glovebox"} <= set(report["peers"])
    assert ("docker" in report["peers"]) == ("docker" in hosts), report["absent"]
    for scenario in ("back_to_back", "idle"):
        assert set(report["scenarios"][scenario]) == set(report["peers"])
        assert_positive(report["scenarios"][scenario])
    assert set(report["memory"]) == {"front", "warden", "init", "setup"}
    assert_positive(report["memory"])
    assert_absent(report, output, everyone)


def test_sessions(smoke, tmp_path):
    report, output = smoke("sessions", "--markdown", tmp_path / "tables.md", "--svg", tmp_path / "chart.svg")
    assert_titles(output, "(a)", "Of which", "(b) One more run", "(b) The same", "(c)", "(d)", "(e)", "Goals")
    assert report["failed"] == {}
    times = report["times"]
    assert {"glovebox, pool", "glovebox, no pool", "bare python"} <= set(times["fresh"])
    for name in ("pool", "no pool"):
        assert set(times[f"phases of glovebox, {name}"]) == {"open", "context", "run", "close"}
    assert "glovebox" in times["live"] and "glovebox" in times["idle"]
    assert_positive(times, "times")
    assert {"glovebox, 2 threads of 1 process", "glovebox, 2 processes", "bare python"} <= set(report["rates"])
    assert_positive(report["rates"], "rates")
    assert {"a session, opened", "a session, after one run"} <= set(report["memory"])
    assert all(row["pss"] > 0 and row["processes"] > 0 for row in report["memory"].values())
    for part in ("n", "open_s", "open", "first_run", "second_run"):
        assert_positive(report["crowd"][part], part)
    if os.path.exists("/sys/fs/cgroup/cpuacct/cpuacct.usage"):
        assert_titles(output, "(f)")
        assert all(row["own_ms"] > 0 for row in report["processor"].values()) and len(report["processor"]) == 2
    assert_absent(report, output, {"bubblewrap", "docker run", "docker exec", "jupyter kernel"})
    assert "docker run" in report["absent"]
    assert (tmp_path / "tables.md").read_text().count("**(") >= 7 and "</svg>" in (tmp_path / "chart.svg").read_text()


def test_server(smoke, tmp_path):
    report, output = smoke("server", "--markdown", tmp_path / "tables.md")
    assert_titles(output, "One client", "A fresh sealed run", "A run in a session", "2 sessions alive",
                  "A client beside idle connections", "Goals")
    ways = [f"{way}, {kind}" for way in ("unix", "tcp") for kind in ("live", "once", "nothing")]
    assert set(report["one"]) == {"engine, live", "engine, once", *ways}
    assert [(r["way"], r["kind"], r["clients"]) for r in report["crowds"]] == [
        (way, kind, n) for way in ("unix", "tcp") for kind in ("live", "once") for n in (1, 2)]
    for part in ("one", "crowds", "alive", "idle"):
        assert_positive(report[part], part)
    assert report["alive"]["n"] == 2 and set(report["idle"]) == {"0", "3"}
    assert_absent(report, output, {"docker run"})
    assert "docker run" in report["absent"]
    assert "| clients |" in (tmp_path / "tables.md").read_text()


@pytest.mark.engines
def test_backends(smoke, hosts):
    report, output = smoke("backends", *hosts.values())
    assert_titles(output, "(1) Start", "(2) Live", "(3) Memory", "(4) One-shot")
    here = {"native", "native, fresh exec", *hosts}
    for table in ("start", "close", "live", "once"):
        assert here <= set(report["times"][table]), (table, report["failed"])
    assert_positive({name: rows for name, rows in report["times"].items() if hosts or name != "first output"}, "times")
    assert all(report["memory"][name]["group"] > 0 for name in here)
    for kind in {"docker", "podman"} - set(hosts):
        assert f"absent: {kind}: {report['failed'][kind]}" in output
    for kind in hosts:
        assert f"{kind} run" in report["times"]["start"] and f"{kind} exec" in report["times"]["live"], report["failed"]


def test_mcp(smoke, tmp_path):
    python = os.environ.get("GLOVEBOX_TEST_MCP_PYTHON") or sys.executable
    report, output = smoke("mcp", "--markdown", tmp_path / "tables.md", BENCH_MCP_PYTHON=python)
    assert_titles(output, "From the start", "A call of one line", "Asked for nothing", "2 clients at once", "Goals")
    samples, ways = report["samples"], set(report["ways"])
    assert MCP_WAYS <= ways and all(way.startswith("FastMCP") for way in ways - MCP_WAYS)
    for table in ("ready", "first", "call", "rate", "crowd"):
        assert set(samples[table]) == ways, table
    assert set(samples["ping"]) >= {way for way in MCP_WAYS if "stateless" not in way}
    assert set(samples["tools"]) >= {way for way in MCP_WAYS if not way.startswith("API")}
    assert_positive(samples, "samples")
    names = {f"FastMCP, {peer}" for peer in ("exec()", "exec(), HTTP, TCP", "bwrap", "docker run", "podman run")}
    assert_absent(report, output, {"FastMCP", *names})
    assert "FastMCP" in report["absent"] or names == (ways - MCP_WAYS) | set(report["absent"])
    assert "| keeps variables |" in (tmp_path / "tables.md").read_text()


def test_guard(smoke):
    report, output = smoke("guard")
    assert_titles(output, "  a look at code", "  glovebox run")
    for kind in ("secrets", "code"):
        row = report["corpus"][kind]
        assert row["samples"] > 0 and row["plain"] > 0 and row["precision"] > 0 and row["recall"] > 0, row
    assert [row["lines"] for row in report["check"]] == [10, 50, 500]
    texts = {(row["text"], row["with"]): row["mb_per_s"] for row in report["scrub"] if "text" in row}
    assert {(text, kind) for text in ("log", "source", "json", "base64", "numbers")
            for kind in ("no secrets", "no secrets, strict", "200 secrets")} <= set(texts)
    assert sum(text.startswith("worst") for text, _ in texts) >= 10
    starts = [row["start"] for row in report["scrub"] if "start" in row]
    assert starts == ["rules", "0 secrets", "1 secrets", "200 secrets"]
    for part in (report["check"], list(texts.values()), report["runs"]["on"], report["runs"]["off"]):
        assert_positive(part)
    assert report["peer"] or f"detect-secrets: absent: {report['peer_absent']}" in output


def test_egress(smoke):
    report, output = smoke("egress")
    assert_titles(output, "Bytes through a tunnel", "The same with TLS", "Until the connection stands",
                  "Until the first byte", "Memory of the proxy", "Goals")
    for part in ("bytes", "connect", "echo", "tls"):
        assert {"direct", "glovebox"} <= set(report[part])
        assert_positive(report[part], part)
    assert report["held"]["glovebox"]["before_kb"] > 0 and report["held"]["glovebox"]["held_kb"] > 0
    assert_absent(report, output, {"tinyproxy", "squid"})
    assert {"tinyproxy", "squid"} == set(report["absent"]) | set(report["bytes"]) - {"direct", "glovebox"}
