#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MCP costs: `glovebox mcp` and /mcp of a server, beside the same runs by the API, and beside what one would write instead.

Everything is measured in one run, in rounds: each round has a share of every measurement, in random order, so that what else happens on the machine hits
all of them alike. Every single answer is checked. The client is mcp_client.py for all; README.md beside this file says what each peer does not do.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import random
import subprocess
import sys
import time

import common
import run
from common import HERE, Absent, end_process, free_port, progress, quantile
from mcp_client import TEMPLATE, Api, Http, Stateless, Stdio, Wire

REST_SEC = 0.05  # after a start: what has ended tidies up
GOALS = {"http_added_ms": 1.0, "stdio_added_ms": 1.5, "first_ms": 1000}
UNIX, TCP = "API, unix socket", "API, TCP"
RUNNING, PRIVATE = "glovebox mcp, a server that runs", "glovebox mcp, a private server"


class Way:
    """One way to run code. open() gives a client of it; keeps: variables stay from call to call."""

    def __init__(self, name, note, open_client, beside=UNIX, keeps=True, slow=False):
        self.name, self.note, self.open, self.beside, self.keeps, self.slow = name, note, open_client, beside, keeps, slow

    def start_ms(self):
        """Until it is ready, and until the first result is there."""
        begin = time.perf_counter_ns()
        client = self.open()
        try:
            client.start()
            ready = time.perf_counter_ns()
            printed = client.run("first = 6 * 7; print(first)")
            end = time.perf_counter_ns()
        finally:
            client.close()
        if printed != "42\n":
            raise RuntimeError(f"{self.name} printed {printed[:200]!r}")
        return (ready - begin) / 1e6, (end - begin) / 1e6


class Live:
    """A client that stays, with a variable of its own that grows by one with each call."""

    def __init__(self, way, variable="x"):
        self.way, self.variable, self.value = way, variable, 0
        self.client = way.open()
        self.client.start()
        self.check(self.client.run(f"{variable} = 0; print({variable})"))

    def check(self, printed):
        if printed != f"{self.value}\n":
            raise RuntimeError(f"{self.way.name} printed {printed[:200]!r} where {self.value} is right")

    def call_ms(self):
        before = "" if self.way.keeps else f"{self.variable} = {self.value}; "
        code = f"{before}{self.variable} += 1; print({self.variable})"
        begin = time.perf_counter_ns()
        printed = self.client.run(code)
        end = time.perf_counter_ns()
        self.value += 1
        self.check(printed)
        return (end - begin) / 1e6

    def ask_ms(self, what):
        begin = time.perf_counter_ns()
        getattr(self.client, what)()
        return (time.perf_counter_ns() - begin) / 1e6


# ---- glovebox ----


def wait_until(ready, process, log, who):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError, RuntimeError):
            if ready():
                return
        time.sleep(0.05)
    raise Absent(f"{who} does not come up: {pathlib.Path(log.name).read_text(errors='replace').strip()[-600:]}")


class Glovebox:
    """One `glovebox serve` of the measured build, on both kinds of sockets, and `glovebox mcp`."""

    def __init__(self, stack, program, work, log):
        self.program, self.log = program, log
        self.socket, self.port = str(work / "glovebox.sock"), free_port()
        (work / "tmp").mkdir()
        self.environment = {"GLOVEBOX_CONFIG_DIR": str(common.copy_config(work)), "TMPDIR": str(work / "tmp")}
        process = subprocess.Popen([self.program, "serve", "--listen", f"unix:{self.socket}", "--listen", f"127.0.0.1:{self.port}", "--no-tokens",
                                    "--directory", str(work / "state"), "--warm", TEMPLATE],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environment})
        stack.callback(end_process, process)
        wait_until(self.is_ready, process, log, "glovebox serve")

    def is_ready(self):
        with contextlib.closing(Wire(self.socket)) as wire:
            return wire.ask("GET", "/readyz")[0] == 200

    def stdio(self, *flags):
        return Stdio([self.program, "mcp", *flags], self.environment, self.log)

    def ways(self):
        options = {"template": TEMPLATE}
        yield Way(UNIX, "not MCP: POST /v1/sessions/ID/runs", lambda: Api(self.socket))
        yield Way(TCP, "the same", lambda: Api(self.port), TCP)
        yield Way("HTTP, unix socket", "/mcp of the same server", lambda: Http(self.socket, options))
        yield Way("HTTP, TCP", "the same", lambda: Http(self.port, options), TCP)
        yield Way("HTTP stateless, unix socket", "without a handshake: each call names its session", lambda: Stateless(self.socket, options))
        yield Way("HTTP stateless, TCP", "the same", lambda: Stateless(self.port, options), TCP)
        yield Way(RUNNING, "standard input and output; --server", lambda: self.stdio(f"--server=unix:{self.socket}"))
        yield Way(PRIVATE, "as clients start it: with a server of its own", lambda: self.stdio("--private"))


# ---- peers ----


class Fast:
    """The servers of mcp_fast.py: what one would write with MCP's own Python package."""

    def __init__(self, stack, work, log, a):
        self.stack, self.work, self.log, self.a = stack, work, log, a
        self.python = os.path.abspath(os.environ.get("BENCH_MCP_PYTHON") or sys.executable)
        self.rootfs = run.RootFs()
        done = subprocess.run([self.python, "-I", "-c", "import importlib.metadata as m; print(m.version('mcp'))"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Absent(f"{self.python} has no package mcp: BENCH_MCP_PYTHON names an interpreter that has it")
        self.version = f"mcp {done.stdout.strip()}"

    def stdio(self, words=()):
        # A directory of its own: Podman's conmon writes an empty file `oom` there.
        return lambda: Stdio([self.python, "-I", str(HERE / "mcp_fast.py"), "stdio", *words], {}, self.log, self.work)

    def here(self):
        return Way("FastMCP, exec()", f"{self.version}; in the server's own process: no isolation at all", self.stdio())

    def over_http(self):
        port = free_port()
        process = subprocess.Popen([self.python, "-I", str(HERE / "mcp_fast.py"), str(port)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.stack.callback(end_process, process)
        wait_until(lambda: Wire(port).close() is None, process, self.log, "FastMCP's HTTP server")
        return Way("FastMCP, exec(), HTTP, TCP", f"{self.version}; one process for all clients: no isolation at all, not even from each other", lambda: Http(port), TCP)

    def bubblewrap(self):
        peer = run.Bubblewrap()
        peer.enter(self.stack, self.work)
        return Way("FastMCP, bwrap", f"{peer.version}; a program for each call; {peer.note}", self.stdio(peer.command()[:-1]), keeps=False)

    def docker(self):
        peer = run.Docker(self.rootfs, self.a.docker_host, not self.a.smoke)
        peer.enter(self.stack, self.work)
        return Way("FastMCP, docker run", f"{peer.version}; a container for each call; {peer.note}", self.stdio(peer.command()[:-1]), keeps=False, slow=True)

    def podman(self):
        common.need_root()
        if self.a.smoke:
            raise Absent("--smoke builds no image for it")
        place = self.work / "podman"
        place.mkdir()
        # crun refuses hosts with both versions of cgroups.
        base = [common.tool("podman"), f"--root={place}/root", f"--runroot={place}/run", f"--tmpdir={place}/tmp",
                "--cgroup-manager=cgroupfs", f"--runtime={common.tool('runc', 'crun')}", "--events-backend=file"]
        archive = place / "root.tar"
        subprocess.run(["tar", "-C", self.rootfs.get(self.work), "-cf", archive, "."], check=True)
        done = subprocess.run([*base, "import", archive, run.NAME], capture_output=True, text=True)
        self.stack.callback(subprocess.run, [*base, "rmi", "--all", "--force"], capture_output=True)
        if done.returncode != 0:
            raise Absent("cannot import the image: " + done.stderr.strip()[-300:])
        peer = run.Docker(self.rootfs, None)
        peer.base, peer.image = base, run.NAME
        # Podman's own are above what root may set on some hosts.
        words = [*base, "run", "--ulimit=nproc=4096:4096", "--ulimit=nofile=1024:4096", *peer.command()[len(base) + 1:-1]]
        return Way("FastMCP, podman run", f"{common.first_line([base[0], '--version'])}; as docker run",
                   self.stdio(words), keeps=False, slow=True)


def enter_peers(a, stack, work, log):
    """Those that can work here, and why the others cannot."""
    found, absent = [], {}
    if a.no_peers:
        return found, {"FastMCP": "left out by --no-peers"}
    try:
        fast = Fast(stack, work, log, a)
    except (Absent, OSError) as why:
        return found, {"FastMCP": str(why)}
    for name, make in (("FastMCP, exec()", fast.here), ("FastMCP, exec(), HTTP, TCP", fast.over_http), ("FastMCP, bwrap", fast.bubblewrap),
                       ("FastMCP, docker run", fast.docker), ("FastMCP, podman run", fast.podman)):
        if a.no_engines and name.endswith(" run"):
            absent[name] = "left out by --no-engines"
            continue
        progress(f"preparing {name}")
        try:
            way = make()
            way.start_ms()
            found.append(way)
        except (Absent, RuntimeError, OSError, subprocess.SubprocessError) as why:
            absent[name] = str(why)
    progress("")
    return found, absent


# ---- one client ----


class Samples(dict):
    def add(self, table, name, values):
        self.setdefault(table, {}).setdefault(name, []).extend(values)


def start_share(samples, way):
    ready, first = way.start_ms()
    samples.add("ready", way.name, [ready])
    samples.add("first", way.name, [first])
    time.sleep(run.SETTLE_SEC if way.slow else REST_SEC)


def call_share(samples, live, count):
    samples.add("call", live.way.name, [live.call_ms() for _ in range(count)])
    if live.way.slow:
        time.sleep(run.SETTLE_SEC)


def ask_share(samples, live, what, count):
    samples.add(what, live.way.name, [live.ask_ms(what) for _ in range(count)])


def one_client(a, stack, ways):
    """Every way has a client that stays, and others that come and go."""
    samples, shares = Samples(), []
    for way in ways:
        progress(f"starting {way.name}")
        live = Live(way)
        stack.callback(live.client.close)
        shares.append((way.slow, lambda w=way: start_share(samples, w)))
        shares.append((way.slow, lambda l=live: call_share(samples, l, 1 if l.way.slow else a.calls)))
        if way.keeps:  # others answer these as FastMCP does that has exec()
            shares += [(False, lambda l=live, w=what: ask_share(samples, l, w, a.calls)) for what in ("ping", "tools") if has(live.client, what)]
    for _, share in shares:  # does not count: caches get warm
        share()
    samples.clear()
    for i in range(a.rounds):
        random.shuffle(shares)
        for _, share in sorted(shares, key=lambda s: s[0]):
            if a.wait_quiet:
                common.wait_until_quiet()
            share()
        progress(f"one client: round {i + 1} of {a.rounds}")
    progress("")
    return samples


def has(client, what):
    return hasattr(client, what) and not (what == "ping" and isinstance(client, Stateless))


# ---- many clients ----


def crowd_member(way, number, msec, pipe):
    """A process of its own."""
    try:
        live = Live(way, f"x{number}")
        try:
            pipe.send(None)
            pipe.recv()
            begin, samples = time.monotonic(), []
            while time.monotonic() < begin + msec / 1e3:
                samples.append(live.call_ms())
            took = time.monotonic() - begin
        finally:
            live.client.close()
        pipe.send((samples, took))
    except Exception as why:
        pipe.send(str(why) or repr(why))


def crowd(way, clients, msec):
    """Calls per second of all of them, and the time of each call."""
    context = multiprocessing.get_context("fork")
    members = []
    for number in range(clients):
        ours, theirs = context.Pipe()
        process = context.Process(target=crowd_member, args=(way, number, msec, theirs))
        process.start()
        theirs.close()
        members.append((process, ours))
    failed, rate, samples = None, 0, []
    for order in (None, "go"):  # all are ready before the first begins
        for _, pipe in members if order else ():
            with contextlib.suppress(OSError):
                pipe.send(order)
        for _, pipe in members:
            try:
                answer = pipe.recv() if not failed else None
            except EOFError:
                answer = "a client of the crowd ended"
            if isinstance(answer, str):
                failed = answer
            elif answer:
                samples += answer[0]
                rate += len(answer[0]) / answer[1]
    for process, pipe in members:
        pipe.close()
        process.join(60)
    if failed:
        raise RuntimeError(f"{way.name}, {clients} clients: {failed}")
    return rate, samples


def crowds(a, ways):
    samples = Samples()
    for i in range(a.crowd_rounds):
        for way in random.sample(ways, len(ways)):
            rate, times = crowd(way, a.crowd, a.msec)
            samples.add("rate", way.name, [rate])
            samples.add("crowd", way.name, times)
            time.sleep(run.SETTLE_SEC)
            progress(f"{a.crowd} clients: round {i + 1} of {a.crowd_rounds}, {way.name}")
    progress("")
    return samples


# ---- what it says ----


def p50(values):
    return quantile(values, 0.5)


def times(values):
    return (f"{p50(values):.3f}", f"{quantile(values, 0.99):.3f}") if values else ("-", "-")


def judge(samples, ways):
    call = {name: p50(values) for name, values in samples["call"].items()}
    added = {way.name: call[way.name] - call[way.beside] for way in ways}
    http = max(value for name, value in added.items() if name.startswith("HTTP"))
    stdio = max(added[RUNNING], added[PRIVATE])
    first = p50(samples["first"][PRIVATE])
    return [(f"a call over HTTP adds at most {GOALS['http_added_ms']} ms to the API's p50 (the slowest of the four)", f"{http:.3f}", http <= GOALS["http_added_ms"]),
            (f"a call over standard input and output at most {GOALS['stdio_added_ms']} ms (the slower of the two)", f"{stdio:.3f}", stdio <= GOALS["stdio_added_ms"]),
            (f"from the start of glovebox mcp, with its own server, to the first result less than {GOALS['first_ms']} ms", f"{first:.0f}", first < GOALS["first_ms"])]


def call_rows(samples, ways):
    for way in ways:
        own, base = samples["call"][way.name], p50(samples["call"][way.beside])
        yield (way.name, *times(own), f"{p50(own) - base:+.3f}", f"{p50(own) / base:.2f}", "yes" if way.keeps else "no", len(own))


def tables_of(report, ways):
    samples = report["samples"]
    private, firsts = p50(samples["first"][PRIVATE]), {way.name: samples["first"][way.name] for way in ways}
    yield ("From the start to the answer of initialize, and to the first result, ms", ("", "ready p50", "p99", "first result p50", "p99", f"x {PRIVATE}", "n"),
           [(name, *times(samples["ready"][name]), *times(first), f"{p50(first) / private:.3f}", len(first)) for name, first in firsts.items()])
    yield ("A call of one line by one client, ms", ("", "p50", "p99", "added to the API", "x API", "keeps variables", "n"), list(call_rows(samples, ways)))
    asked = [w.name for w in ways if w.name in samples["ping"] or w.name in samples["tools"]]
    yield ("Asked for nothing (API: GET /healthz), ms", ("", "ping p50", "p99", "tools/list p50", "p99"),
           [(name, *times(samples["ping"].get(name)), *times(samples["tools"].get(name))) for name in asked])
    rates = {name: p50(values) for name, values in samples["rate"].items()}
    yield (f"{report['crowd']} clients at once, each a process with a session of its own",
           ("", "calls/s", "x API", "p50 ms", "p99 ms"),
           [(w.name, f"{rates[w.name]:.0f}", f"{rates[w.name] / rates[w.beside]:.2f}", *times(samples["crowd"][w.name])) for w in ways])
    yield "Goals", ("", "ms", ""), [(text, value, "reached" if good else "missed") for text, value, good in report["goals"]]


# ---- the run ----


def arguments():
    parser = argparse.ArgumentParser(prog="bench/mcp.py", description="Measure MCP beside the API, and beside servers of MCP's Python package.")
    parser.add_argument("--rounds", type=int, help="one start of each way in each (default 40)")
    parser.add_argument("--calls", type=int,
                        help="calls of each way in each round, one where a call starts a container (default 25)")
    parser.add_argument("--crowd-rounds", type=int, help="of 8 clients at once (default 5)")
    parser.add_argument("--msec", type=int, help="of each crowd (default 2000)")
    parser.add_argument("--no-peers", action="store_true", help="without FastMCP")
    parser.add_argument("--no-engines", action="store_true", help="without docker and podman")
    parser.add_argument("--docker-host", metavar="URL", help="use this engine instead of starting a private one")
    parser.add_argument("--wait-quiet", action="store_true", help="before each share of a round, wait until no other process wants a processor")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables for docs/benchmarks.md")
    common.add_arguments(parser, "3 rounds, 1 short crowd")
    a = parser.parse_args()
    common.set_counts(a, rounds=(40, 3, 1), calls=(25, 25, 2), crowd_rounds=(5, 1, 1), msec=(2000, 500, 50),
                      crowd=(8, 8, 2))
    if min(a.rounds, a.calls, a.crowd_rounds, a.msec) < 1:
        parser.error("at least one of each")
    a.glovebox = common.glovebox_program(parser)
    return a


def bench(a, stack):
    work = common.work_directory(stack)
    log = stack.enter_context(open(work / "log", "ab"))
    facts = common.machine_facts()
    ways = list(Glovebox(stack, a.glovebox, work, log).ways())
    peers, absent = enter_peers(a, stack, work, log)
    ways += peers
    print(common.machine_line(facts))
    print(f"  {common.first_line([a.glovebox, '--version'])}")
    for way in ways:
        print(f"  {way.name:34}{way.note}")
    for name, why in absent.items():
        print(f"  {name:34}absent: {why}")
    sys.stdout.flush()
    try:
        samples = {**one_client(a, stack, ways), **crowds(a, ways)}
    except (RuntimeError, OSError) as why:
        log.flush()
        said = (work / "log").read_text(errors="replace").strip()[-600:]
        raise SystemExit(f"bench: {why}" + (f"\n{said}" if said else "")) from why
    facts["load_after"] = os.getloadavg()[0]
    report = {"machine": facts, "ways": {way.name: way.note for way in ways}, "absent": absent, "crowd": a.crowd,
              "samples": samples, "goals": judge(samples, ways)}
    return report, list(tables_of(report, ways))


def main(stack):
    a = arguments()
    report, tables = bench(a, stack)
    sys.stdout.write(common.plain(tables))
    common.write_json(a.json, report)
    if a.markdown:
        pathlib.Path(a.markdown).write_text(common.markdown(tables))
    return 0


if __name__ == "__main__":
    common.run_main(main)
