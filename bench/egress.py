#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the proxy of an allowlist costs: bytes through a tunnel, the time until a tunnel stands, memory of thousands of them.

Beside a direct connection and, where they are installed, tinyproxy and squid, all in one run, in random order in each round. The upstream and the client are one C
program (egress_load.c); for TLS they are openssl's server and curl. Everything is on the loopback of this machine: with a real network in between, the network is what one waits for.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import run

GOALS = {"bytes_ratio": 0.8, "tls_ratio": 0.8, "connect_added_ms": 0.2, "held_mb": 64}
AT_LEAST = {"bytes_ratio", "tls_ratio"}
HELD = 5000


def program(build, name):
    """One that is not built by default."""
    path = build / "src" / "egress" / name
    subprocess.run(["ninja", "-C", build, f"src/egress/{name}"], capture_output=True)
    if not path.exists():
        raise SystemExit(f"bench: {path} is not there: build it with ninja -C {build} src/egress/{name}")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"bench: nobody listens on port {port}")


class Proxy:
    """A peer that listens on a port; pid is whose memory is looked at."""

    def __init__(self, name, port, process, pid):
        self.name, self.port, self.process, self.pid = name, port, process, pid

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
        else:
            self.process.terminate()
        self.process.wait(timeout=20)


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def start_glovebox(build, protocol, hosts):
    port = free_port()
    process = subprocess.Popen([program(build, "bench_egress_proxy"), str(port), protocol, *hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = process.stdout.readline().strip()
    if not pid:
        raise SystemExit("bench: the proxy did not start")
    return Proxy("glovebox", port, process, int(pid))


def start_tinyproxy(scratch):
    if not shutil.which("tinyproxy"):
        return None
    port = free_port()
    config = scratch / "tinyproxy.conf"
    config.write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 20000\nAllow 127.0.0.1\nLogLevel Critical\nUser {os.environ.get('USER', 'root')}\n")
    process = subprocess.Popen(["tinyproxy", "-d", "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return Proxy("tinyproxy", port, process, process.pid)


def start_squid(scratch):
    if not shutil.which("squid"):
        return None
    port = free_port()
    config = scratch / "squid.conf"
    os.chmod(scratch, 0o777)
    config.write_text(f"http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log {scratch}/cache.log\npid_filename {scratch}/squid.pid\n"
                      f"coredump_dir {scratch}\nmax_filedescriptors 20000\nshutdown_lifetime 1 second\nnetdb_filename none\n")
    process = subprocess.Popen(["squid", "-N", "-f", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return Proxy("squid", port, process, process.pid)


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


def measure_held(load, upstream, proxy):
    before = proxy.memory_kb()
    client = subprocess.Popen([load, "hold", str(upstream), str(proxy.port), str(HELD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = client.stdout.readline().strip()
    held = proxy.memory_kb()
    client.stdin.close()
    why = client.stderr.read().strip()
    client.wait(timeout=60)
    return {"before_kb": before, "held_kb": held} if said == "open" else {"failed": why or "it could not hold them"}


def start_tls(scratch):
    """openssl's own server, with a file that is large."""
    port = free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", scratch / "key.pem", "-out", scratch / "cert.pem"], check=True, capture_output=True)
    process = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", scratch / "cert.pem", "-key", scratch / "key.pem", "-WWW", "-quiet"], cwd=scratch,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    wait_for(port)
    return port, process


def measure_tls(scratch, port, ways, rounds, size):
    with open(scratch / "file", "wb") as file:
        file.truncate(size)
    rates = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            proxy = ["--noproxy", "*"] if not ways[name] else ["--noproxy", "", "-x", f"http://127.0.0.1:{ways[name]}"]
            rates[name] += numbers(["curl", "-sS", "--cacert", scratch / "cert.pem", *proxy, "-o", "/dev/null", "-w", "%{speed_download}", "--http1.1", f"https://localhost:{port}/file"])
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
    show_table(f"Memory of the proxy, MB, with {HELD} open tunnels", "way | before | held", rows)
    print("\nGoals:")
    for name, goal in GOALS.items():
        value = report["goals"][name]
        met = value >= goal if name in AT_LEAST else value <= goal
        print(f"  {name}: {value:.3g} ({'at least' if name in AT_LEAST else 'at most'} {goal}): {'met' if met else 'MISSED'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="of each way (default: 15)")
    parser.add_argument("--quick", action="store_true", help="3 rounds: to see that it works, not to quote")
    parser.add_argument("--json", metavar="FILE", help="all numbers with every single sample")
    args = parser.parse_args()
    rounds = 3 if args.quick else args.rounds
    glovebox = pathlib.Path(os.environ.get("GLOVEBOX", "build-release/src/cli/glovebox")).resolve()
    build = glovebox.parents[2]
    os.environ.setdefault("GLOVEBOX_LIBEXEC_DIR", str(build / "src" / "egress"))
    load = program(build, "bench_egress_load")
    upstream = free_port()
    started = []
    with tempfile.TemporaryDirectory(prefix="gbbench-") as directory:
        scratch = pathlib.Path(directory)
        server = subprocess.Popen([load, "serve", str(upstream)], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        tls_port, tls_server = start_tls(scratch)
        try:
            for start in (lambda: start_glovebox(build, "tcp", ["127.0.0.1"]), lambda: start_tinyproxy(scratch), lambda: start_squid(scratch)):
                peer = start()
                if peer:
                    started.append(peer)
            ways = {"direct": 0, **{p.name: p.port for p in started}}
            sealed = start_glovebox(build, "https", ["localhost"])
            started.append(sealed)
            report = {
                "bytes": measure_bytes(load, upstream, ways, rounds, 1 << 30),
                "connect": measure_times(load, "connect", upstream, ways, 4 * rounds),
                "echo": measure_times(load, "echo", upstream, ways, 4 * rounds),
                "tls": measure_tls(scratch, tls_port, {**ways, "glovebox": sealed.port}, rounds, 1 << 29),
                "held": {p.name: measure_held(load, upstream, p) for p in started if p is not sealed},
            }
        finally:
            for process in (server, tls_server):
                process.kill()
                process.wait()
            for peer in started:
                peer.stop()
    of = {key: {name: statistics.median(values) for name, values in report[key].items()} for key in ("bytes", "tls", "connect")}
    report["goals"] = {
        "bytes_ratio": of["bytes"]["glovebox"] / of["bytes"]["direct"],
        "tls_ratio": of["tls"]["glovebox"] / of["tls"]["direct"],
        "connect_added_ms": (of["connect"]["glovebox"] - of["connect"]["direct"]) / 1000,
        "held_mb": report["held"]["glovebox"].get("held_kb", 1 << 30) / 1024,
    }
    report["machine"] = run.machine_facts()
    show(report)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
