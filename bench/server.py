#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`glovebox serve`, from the request to the result: over the unix socket and over TCP, beside the engine itself.

Everything is measured in one run, in rounds: each round has a share of every measurement, in random order, so that what
else happens on the machine hits all of them alike. Every single answer is checked. docs/benchmarks.md has the numbers.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time

import common
import sessions
from common import Absent, Client, free_port, progress
from session_memory import descendants
from session_peers import DataRoot, DockerRun

CROWDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GOALS = {"added_ms": 0.3, "runs_per_s": 700, "p99_ms": 20.0, "alive": 1000}
# What an answer must contain: the output and the verdict are checked by what only both give together.
EXPECTED = {"once": '"2\\n"', "live": '"42\\n"'}
PATHS = {"once": "/v1/runs", "live": "/v1/sessions/@/runs"}
HEALTH = "/healthz"


def bodies(template):
    return {"once": json.dumps({"code": "print(1+1)", "template": template}),
            "live": json.dumps({"code": "x = 41; x += 1; print(x)"})}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """One `glovebox serve` of the measured build, on both kinds of sockets."""

    def __init__(self, stack, glovebox, work, config_dir, template):
        self.template = template
        self.socket, self.port = str(work / "glovebox.sock"), free_port()
        self.log = open(work / "server.log", "wb")
        stack.callback(self.log.close)
        command = [glovebox, "serve", "--listen", f"unix:{self.socket}", "--listen", f"127.0.0.1:{self.port}", "--no-tokens", "--directory", str(work / "state"),
                   "--config", str(work / "server.yaml"), "--warm", template]
        (work / "server.yaml").write_text("sessions: 4000\nruns: 1000\ntenant_sessions: 4000\ntenant_runs: 1000\nidle_timeout: 1h\n")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, "GLOVEBOX_CONFIG_DIR": str(config_dir),
                                             # Not that of the clients of the library, which would use its templates.
                                             "GLOVEBOX_RUNTIME_DIR": str(work / "server-runtime")})
        stack.callback(common.end_process, self.process)
        self.wait_ready(work)

    def wait_ready(self, work):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            time.sleep(0.05)
        raise SystemExit("bench: the server does not come up: " + (work / "server.log").read_text(errors="replace")[-800:])

    def ask(self, method, path, body=None):
        connection = UnixConnection(self.socket)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"} if body is not None else {})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None

    def sessions(self, count):
        ids = []
        for _ in range(count):
            status, answer = self.ask("POST", "/v1/sessions", {"template": self.template})
            if status != 201:
                raise RuntimeError(f"session {len(ids)}: {answer}")
            ids.append(answer["id"])
        return ids

    def remove(self, ids):
        for name in ids:
            self.ask("DELETE", f"/v1/sessions/{name}")


class Load(Client):
    """One server_client: many connections of one program."""

    def __init__(self, stack, program, address):
        super().__init__(stack, [program, address], greets=False)

    def load(self, clients, msec, expected, method, path, body=""):
        answer = self.ask(f"load {clients} {msec} {expected} {method} {path} {body}")
        if answer["errors"]:
            raise RuntimeError(f"{answer['errors']} of {answer['requests']} answers of {path} were wrong; the first: {answer['error']}")
        return answer


class Bench:
    def __init__(self, a, stack):
        self.a, self.stack = a, stack
        self.engine = sessions.Bench(argparse.Namespace(glovebox=a.glovebox, template=a.template), stack)
        self.work = self.engine.work
        self.bodies = bodies(a.template)
        self.server = Server(stack, a.glovebox, self.work, self.engine.environment["GLOVEBOX_CONFIG_DIR"], a.template)
        program = common.compile_program(self.work, "server_client")
        self.loads = {"unix": Load(stack, program, f"unix:{self.server.socket}"), "tcp": Load(stack, program, f"127.0.0.1:{self.server.port}")}
        self.samples = {}

    def note(self, name, msec):
        self.samples.setdefault(name, []).append(msec)

    def latency(self, docker):
        """One client: what the server adds to the engine."""
        client = self.engine.client(self.a.template)
        ids = " ".join(self.server.sessions(1))
        for load in self.loads.values():
            load.ask(f"ids {ids}")
        shares = [lambda: self.note("engine, live", median_ms(client.ask(f"live {self.a.live} 0")["samples"], 1)),
                  # With the end of its session: the server answers when nothing of the run lives any more.
                  lambda: self.note("engine, once", median_ms(client.ask(f"once {self.a.once} 0")["samples"], 4))]
        for way, load in self.loads.items():
            for kind in ("live", "once"):
                shares.append(lambda w=way, l=load, k=kind: self.note(
                    f"{w}, {k}",
                    l.load(1, self.a.msec // 2, EXPECTED[k], "POST", PATHS[k], self.bodies[k])["p50"] / 1e6))
            shares.append(lambda w=way, l=load: self.note(f"{w}, nothing", l.load(1, self.a.msec // 4, "ok", "GET", HEALTH)["p50"] / 1e6))
        if docker:
            shares.append(lambda: self.note("docker run", self.engine.commands.time_ms(docker.fresh, "2\n")))
        for i in range(self.a.rounds):
            random.shuffle(shares)
            for share in shares:
                share()
            progress(f"one client: round {i + 1} of {self.a.rounds}")
        progress("")
        client.close()
        return {name: statistics.median(values) for name, values in self.samples.items()}

    def crowds(self):
        rows, ids = [], self.server.sessions(max(self.a.crowds))
        try:
            for way, load in self.loads.items():
                load.ask("ids " + " ".join(ids))
                for kind in ("live", "once"):
                    for n in self.a.crowds:
                        answer = load.load(n, self.a.msec, EXPECTED[kind], "POST", PATHS[kind], self.bodies[kind])
                        rows.append({"way": way, "kind": kind, "clients": n, "per_s": answer["requests"] / (answer["nsec"] / 1e9), "p50_ms": answer["p50"] / 1e6,
                                     "p99_ms": answer["p99"] / 1e6, "max_ms": answer["max"] / 1e6})
                        progress(f"{way}, {kind}: {n} clients")
        finally:
            self.server.remove(ids)
        progress("")
        return rows

    def alive(self):
        """Many sessions, and a run in each, one after the other."""
        began = time.monotonic()
        ids = self.server.sessions(self.a.alive)
        opened, load = time.monotonic() - began, self.loads["unix"]
        try:
            answers = []
            for name in ids:
                load.ask(f"ids {name}")
                answer = load.load(1, 0, EXPECTED["live"], "POST", PATHS["live"], self.bodies["live"])
                answers.append(answer["p50"] / 1e6)
                progress(f"alive: {len(answers)} of {len(ids)}")
        finally:
            self.server.remove(ids)
        progress("")
        return {"n": len(ids), "open_s": opened, "p50_ms": statistics.median(answers), "max_ms": max(answers)}

    def idle(self):
        """A client beside many who say nothing."""
        load, result = self.loads["unix"], {}
        load.ask("ids " + " ".join(self.server.sessions(1)))
        for n in (0, self.a.idle):
            load.ask(f"idle {n}")
            answer = load.load(1, self.a.msec, EXPECTED["live"], "POST", PATHS["live"], self.bodies["live"])
            result[n] = {"p50_ms": answer["p50"] / 1e6, "p99_ms": answer["p99"] / 1e6, "server_kb": resident_kb(self.server.process.pid)}
        load.ask("drop")
        return result


def median_ms(rows, phases):
    return statistics.median(sum(row[:phases]) / 1e6 for row in rows)


def resident_kb(pid):
    """Of the server and, where that is another one, the process below it that serves."""
    return max((int(line.split()[1]) for p in (pid, *descendants(pid)) for line in open(f"/proc/{p}/status")
                if line.startswith("VmRSS") and "glovebox-serve" in open(f"/proc/{p}/comm").read()), default=0)


# ---- what it says ----


def judge(report):
    one, goals = report["one"], []
    for kind in ("live", "once"):
        added = one[f"unix, {kind}"] - one[f"engine, {kind}"]
        goals.append((f"{kind}: the server adds at most {GOALS['added_ms']} ms to the engine's p50 (unix socket)", f"{added:.3f}", added <= GOALS["added_ms"]))
    once = [r for r in report["crowds"] if r["kind"] == "once"]
    best = max(r["per_s"] for r in once)
    goals.append((f"at least {GOALS['runs_per_s']} fresh sealed runs per second", f"{best:.0f}", best >= GOALS["runs_per_s"]))
    slow = max((r["p99_ms"] for r in report["crowds"] if r["clients"] == 32 and r["way"] == "unix"), default=0)
    goals.append((f"p99 under {GOALS['p99_ms']:.0f} ms at 32 clients", f"{slow:.1f}", 0 < slow < GOALS["p99_ms"]))
    goals.append((f"{GOALS['alive']} sessions alive", str(report["alive"]["n"]), report["alive"]["n"] >= GOALS["alive"]))
    return goals


def tables_of(report):
    one = report["one"]
    lines = [(name, f"{value:.3f}", f"{value / one['engine, once' if 'once' in name or 'docker' in name else 'engine, live']:.2f}" if "nothing" not in name else "")
             for name, value in sorted(one.items())]
    yield "One client, median of the rounds' p50, ms", ("", "p50", "x engine"), lines
    for kind, title in (("once", "A fresh sealed run (POST /v1/runs)"), ("live", "A run in a session that lives")):
        rows = [r for r in report["crowds"] if r["kind"] == kind]
        yield (title, ("clients", "unix runs/s", "p50 ms", "p99 ms", "tcp runs/s", "p50 ms", "p99 ms"),
               [(n, *(cell for way in ("unix", "tcp") for r in rows if r["way"] == way and r["clients"] == n
                      for cell in (f"{r['per_s']:.0f}", f"{r['p50_ms']:.2f}", f"{r['p99_ms']:.2f}"))) for n in sorted({r["clients"] for r in rows})])
    a = report["alive"]
    yield f"{a['n']} sessions alive, opened in {a['open_s']:.1f} s: a run in each, ms", ("", "p50", "max"), [("", f"{a['p50_ms']:.3f}", f"{a['max_ms']:.3f}")]
    yield ("A client beside idle connections", ("idle", "p50 ms", "p99 ms", "server's memory, kB"),
           [(n, f"{r['p50_ms']:.3f}", f"{r['p99_ms']:.3f}", r["server_kb"]) for n, r in report["idle"].items()])
    yield "Goals", ("", "", ""), [(text, value, "reached" if good else "missed") for text, value, good in report["goals"]]


def arguments():
    parser = argparse.ArgumentParser(prog="bench/server.py", description="Measure glovebox serve beside the engine itself.")
    parser.add_argument("--no-docker", action="store_true", help="without docker run for comparison")
    parser.add_argument("--docker-host", metavar="URL", help="use this engine instead of starting a private one")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables for docs/benchmarks.md")
    common.add_arguments(parser, "small counts")
    a = parser.parse_args()
    common.set_counts(a, rounds=(10, 2, 1), msec=(4000, 500, 40), live=(200, 200, 2), once=(40, 40, 1),
                      alive=(1000, 50, 2), idle=(10000, 500, 3), crowds=(CROWDS, (1, 8, 32), (1, 2)),
                      template=(sessions.TEMPLATE, sessions.TEMPLATE, sessions.PLAIN))
    a.glovebox = common.glovebox_program(parser)
    return a


def enter_docker(a, bench):
    """docker run, or None and why."""
    if a.no_docker:
        return None, "left out by --no-docker"
    docker = DockerRun(DataRoot(), a.docker_host, not a.smoke)
    try:
        progress("preparing docker run")
        docker.enter(bench.stack, bench.work)
        bench.engine.commands.time_ms(docker.fresh, "2\n")
    except (Absent, RuntimeError, OSError, subprocess.SubprocessError) as why:
        return None, str(why)
    return docker, None


def main(stack):
    a = arguments()
    facts, bench = common.machine_facts(), Bench(a, stack)
    print(common.machine_line(facts))
    docker, why = enter_docker(a, bench)
    if why:
        print(f"  docker run: absent: {why}")
    report = {"machine": facts, "quick": a.quick, "absent": {"docker run": why} if why else {},
              "one": bench.latency(docker), "crowds": bench.crowds(), "alive": bench.alive(), "idle": bench.idle()}
    report["goals"] = judge(report)
    tables = list(tables_of(report))
    sys.stdout.write(common.plain(tables))
    common.write_json(a.json, report)
    if a.markdown:
        pathlib.Path(a.markdown).write_text(common.markdown(tables))
    return 0


if __name__ == "__main__":
    common.run_main(main)
