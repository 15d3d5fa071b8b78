#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the proxy of an allowlist costs: bytes through a tunnel, the time until a tunnel stands, memory of thousands of them.

Beside a direct connection and, where they are installed, tinyproxy and squid, all in one run, in random order in each round. The upstream and the client are one C
program (egress_load.c); for TLS they are openssl's server and curl. Everything is on the loopback of this machine: with a real network in between, the network is what one waits for.
"""

import argparse
import contextlib
import os
import pathlib
import random
import socket
import statistics
import subprocess
import time

import common
from common import Absent, end_process, free_port, tool

GOALS = {"bytes_ratio": 0.8, "tls_ratio": 0.8, "connect_added_ms": 0.2, "held_mb": 64}
AT_LEAST = {"bytes_ratio", "tls_ratio"}


def wait_for(port):
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise Absent(f"nothing listens on port {port}")


class Proxy:
    """A peer that listens on a port. pid: the process whose memory is measured, with those below it."""

    def __init__(self, stack, name, port, process, pid=None):
        self.name, self.port, self.process, self.pid = name, port, process, pid or process.pid
        stack.callback(self.stop)

    def memory_kb(self):
        """Of the process and those it has started."""
        total = 0
        for pid in [self.pid, *children(self.pid)]:
            for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
        return total

    def stop(self):
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        end_process(self.process, 20)


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def start_glovebox(stack, build, protocol, hosts):
    port = free_port()
    command = [build.program("egress/bench_egress_proxy"), str(port), protocol, *hosts]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = process.stdout.readline().strip()
    if not pid:
        end_process(process)
        raise SystemExit("bench: the proxy did not start")
    return Proxy(stack, "glovebox", port, process, int(pid))


def start_peer(stack, name, port, command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peer = Proxy(stack, name, port, process)
    wait_for(port)
    return peer


def start_tinyproxy(stack, work):
    path, port, config = tool("tinyproxy"), free_port(), work / "tinyproxy.conf"
    config.write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 20000\nAllow 127.0.0.1\n"
                      f"LogLevel Critical\nUser {os.environ.get('USER', 'root')}\n")
    return start_peer(stack, "tinyproxy", port, [path, "-d", "-c", config])


def start_squid(stack, work):
    path, port, place = tool("squid"), free_port(), work / "squid"
    place.mkdir()
    place.chmod(0o777)
    config = place / "squid.conf"
    config.write_text(f"http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\naccess_log none\n"
                      f"cache_log {place}/cache.log\npid_filename {place}/squid.pid\ncoredump_dir {place}\n"
                      "max_filedescriptors 20000\nshutdown_lifetime 1 second\nnetdb_filename none\n")
    return start_peer(stack, "squid", port, [path, "-N", "-f", config])


def start_peers(stack, work):
    """Those that can work here, and why the others cannot."""
    found, absent = [], {}
    for name, start in (("tinyproxy", start_tinyproxy), ("squid", start_squid)):
        try:
            found.append(start(stack, work))
        except Absent as why:
            absent[name] = str(why)
    return found, absent


def numbers(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"bench: {command}: {done.stderr}")
    return [float(line) for line in done.stdout.split()]


def p99(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


# ---- what is measured ----

def measure_bytes(load, upstream, ways, rounds, size):
    rates = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            rates[name] += numbers([load, "bytes", upstream, ways[name], size, 1])
    return rates


def measure_times(load, what, upstream, ways, rounds):
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            times[name] += numbers([load, what, upstream, ways[name], 50])
    return times


def measure_held(load, upstream, proxy, count):
    before = proxy.memory_kb()
    client = subprocess.Popen([load, "hold", str(upstream), str(proxy.port), str(count)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = client.stdout.readline().strip()
    held = proxy.memory_kb()
    client.stdin.close()
    why = client.stderr.read().strip()
    client.wait(timeout=60)
    return {"before_kb": before, "held_kb": held} if said == "open" else {"failed": why or "it could not hold them"}


def start_tls(stack, work):
    """The server of openssl."""
    port, key, certificate = free_port(), work / "key.pem", work / "cert.pem"
    subprocess.run([tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    process = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", certificate,
                                "-key", key, "-WWW", "-quiet"], cwd=work, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(end_process, process)
    wait_for(port)
    return port


def measure_tls(work, port, ways, rounds, size):
    with open(work / "file", "wb") as file:
        file.truncate(size)
    rates = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            proxy = ["--noproxy", "*"] if not ways[name] else ["--noproxy", "", "-x", f"http://127.0.0.1:{ways[name]}"]
            rates[name] += numbers(["curl", "-sS", "--cacert", work / "cert.pem", *proxy, "-o", "/dev/null",
                                    "-w", "%{speed_download}", "--http1.1", f"https://localhost:{port}/file"])
    return rates


# ---- the report ----

def show_table(title, head, rows):
    print(f"\n{title}\n")
    print(f"| {head} |")
    print("|" + "---|" * (head.count("|") + 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def show(report):
    direct = statistics.median(report["bytes"]["direct"])
    show_table("Bytes through a tunnel", "way | MB/s p50 | of direct", [[name, f"{statistics.median(rates) / 1e6:.0f}", f"{statistics.median(rates) / direct:.2f}"] for name, rates in report["bytes"].items()])
    direct = statistics.median(report["tls"]["direct"])
    show_table("The same with TLS in it (curl, openssl s_server)", "way | MB/s p50 | of direct", [[name, f"{statistics.median(rates) / 1e6:.0f}", f"{statistics.median(rates) / direct:.2f}"] for name, rates in report["tls"].items()])
    for key, title in (("connect", "Until the connection stands, microseconds"), ("echo", "Until the first byte is back on a new connection, microseconds")):
        direct = statistics.median(report[key]["direct"])
        show_table(title, "way | p50 | p99 | added p50", [[name, f"{statistics.median(times):.0f}", f"{p99(times):.0f}", f"{statistics.median(times) - direct:.0f}"] for name, times in report[key].items()])
    rows = [[name, held["failed"], ""] if "failed" in held else [name, f"{held['before_kb'] / 1024:.1f}", f"{held['held_kb'] / 1024:.1f}"] for name, held in report["held"].items()]
    show_table(f"Memory of the proxy, MB, with {report['tunnels']} open tunnels", "way | before | held", rows)
    print("\nGoals:")
    for name, goal in GOALS.items():
        value = report["goals"][name]
        met = value >= goal if name in AT_LEAST else value <= goal
        print(f"  {name}: {value:.3g} ({'at least' if name in AT_LEAST else 'at most'} {goal}): {'met' if met else 'MISSED'}")


def arguments():
    parser = argparse.ArgumentParser(prog="bench/egress.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="of each way (default 15)")
    common.add_arguments(parser, "3 rounds")
    a = parser.parse_args()
    common.set_counts(a, rounds=(15, 3, 1), tunnels=(5000, 5000, 20), bytes=(1 << 30, 1 << 30, 1 << 22),
                      tls_bytes=(1 << 29, 1 << 29, 1 << 22))
    a.glovebox = common.glovebox_program(parser)
    return a


def measure(a, stack):
    build, work, upstream = common.Build(a.glovebox), common.work_directory(stack), free_port()
    load = build.program("egress/bench_egress_load")
    server = subprocess.Popen([load, "serve", str(upstream)], stdout=subprocess.PIPE, text=True)
    stack.callback(end_process, server)
    server.stdout.readline()
    tls_port = start_tls(stack, work)
    facts = common.machine_facts()
    peers, absent = start_peers(stack, work)
    peers.insert(0, start_glovebox(stack, build, "tcp", ["127.0.0.1"]))
    sealed = start_glovebox(stack, build, "https", ["localhost"])
    print(common.machine_line(facts))
    for name, why in absent.items():
        print(f"  {name}: absent: {why}")
    ways = {"direct": 0, **{p.name: p.port for p in peers}}
    tls_ways = {**ways, "glovebox": sealed.port}
    return {
        "machine": facts, "absent": absent, "tunnels": a.tunnels,
        "bytes": measure_bytes(load, upstream, ways, a.rounds, a.bytes),
        "connect": measure_times(load, "connect", upstream, ways, 4 * a.rounds),
        "echo": measure_times(load, "echo", upstream, ways, 4 * a.rounds),
        "tls": measure_tls(work, tls_port, tls_ways, a.rounds, a.tls_bytes),
        "held": {p.name: measure_held(load, upstream, p, a.tunnels) for p in peers},
    }


def judge(report):
    of = {key: {name: statistics.median(values) for name, values in report[key].items()}
          for key in ("bytes", "tls", "connect")}
    return {
        "bytes_ratio": of["bytes"]["glovebox"] / of["bytes"]["direct"],
        "tls_ratio": of["tls"]["glovebox"] / of["tls"]["direct"],
        "connect_added_ms": (of["connect"]["glovebox"] - of["connect"]["direct"]) / 1000,
        "held_mb": report["held"]["glovebox"].get("held_kb", 1 << 30) / 1024,
    }


def main(stack):
    a = arguments()
    report = measure(a, stack)
    report["goals"] = judge(report)
    show(report)
    common.write_json(a.json, report)
    return 0


if __name__ == "__main__":
    common.run_main(main)
