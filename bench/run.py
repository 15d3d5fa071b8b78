#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cold start of glovebox beside other ways to run one Python program.

All peers are measured in one run, in rounds: each round runs every peer once, in random order (the
slow ones last), so that what else happens on the machine hits all of them alike. Every run is checked: its output and
its exit code. README.md beside this file says what each peer does and does not enforce.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import common
from common import Absent, first_line, last_line, need_root, progress, summary, text_of, tool

CODE = "print(6 * 7)"
EXPECTED = "42\n"
PYTHON = "/usr/bin/python3"
NAME = f"glovebox-bench-{os.getpid()}"
IDLE_USEC = 100_000
SETTLE_SEC = 0.3

# Limits for the peers that have any: those of glovebox's default policy.
MEMORY_BYTES = 512 << 20
PIDS = 128
CPUS = 1

GOALS = {"bare": 1.25, "docker": 10, "memory_kb": 4096}


class Peer:
    """One way to run the code. `enter` prepares it and raises Absent when it cannot work here."""

    name = ""
    slow = False
    note = ""
    version = ""

    def enter(self, stack, work):
        pass

    def command(self):
        raise NotImplementedError


class Bare(Peer):
    name = "bare"
    note = "no isolation at all"

    def enter(self, stack, work):
        if not os.access(PYTHON, os.X_OK):
            raise Absent(f"{PYTHON} is not installed")
        self.version = first_line([PYTHON, "--version"])

    def command(self):
        return [PYTHON, "-c", CODE]


class Glovebox(Peer):
    name = "glovebox"
    note = "namespaces with a user of its own, cgroup limits, Landlock, seccomp allow-list, limits of time, disk and output, verdict"

    def __init__(self, path):
        self.path = path

    def enter(self, stack, work):
        digest = hashlib.sha256(pathlib.Path(self.path).read_bytes()).hexdigest()[:16]  # which build the numbers are of
        self.version = f"{first_line([self.path, '--version'])}, sha256 {digest}"

    def command(self):
        return [self.path, "run", "-c", CODE]


class Bubblewrap(Peer):
    name = "bubblewrap"
    note = "namespaces only: no limits, no seccomp, no Landlock, no verdict"

    def enter(self, stack, work):
        self.path = tool("bwrap")
        self.version = first_line([self.path, "--version"])

    def command(self):
        links = []
        for name in ("bin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                links += ["--symlink", f"usr/{name}", f"/{name}"]
        return [self.path, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
                "--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp",
                PYTHON, "-c", CODE]


class Firejail(Peer):
    name = "firejail"
    note = "namespaces and a seccomp deny-list; no limits of memory, cpu or tasks; set-uid root"

    def enter(self, stack, work):
        self.path = tool("firejail")
        self.version = first_line([self.path, "--version"])

    def command(self):
        return [self.path, "--quiet", "--noprofile", "--net=none", "--private", "--private-dev", "--private-tmp",
                "--caps.drop=all", "--nonewprivs", "--seccomp", "--nogroups", "--read-only=/usr", PYTHON, "-c", CODE]


def copy_python(root):
    """The smallest root that runs Python: the interpreter, its library and what they link to."""
    info = json.loads(text_of([PYTHON, "-c", "import json, os, sys, sysconfig; print(json.dumps("
                               "[os.path.realpath(sys.executable), sysconfig.get_path('stdlib')]))"]))
    executable, library = map(pathlib.Path, info)
    skip = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "config-*", "*.a")
    shutil.copytree(library, root / library.relative_to("/"), symlinks=True, ignore=skip)
    linked = subprocess.run(["ldd", executable, *library.glob("lib-dynload/*.so")], capture_output=True, text=True).stdout
    files = {word for word in linked.split() if word.startswith("/") and not word.endswith(":")}
    for name in sorted(files | {str(executable)}):
        target = root / os.path.realpath(name).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, target)
        link = root / "usr" / name.removeprefix("/usr").lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(os.path.realpath(name))
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    if not (root / "usr/bin/python3").exists():
        (root / "usr/bin/python3").symlink_to(executable)
    for name in ("bin", "lib", "lib64"):
        (root / "usr" / name).mkdir(exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("etc", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir()
    (root / "etc/passwd").write_text("box:x:1000:1000::/tmp:/bin/false\n")
    os.chmod(root, 0o755)
    return root


class RootFs:
    """Made when the first peer asks for it, in a directory that the clean-up removes."""

    def __init__(self):
        self.path = None

    def get(self, work):
        if self.path is None:
            root = work / "rootfs"
            root.mkdir()
            self.path = copy_python(root)
        return self.path


class Runc(Peer):
    name = "runc"
    slow = True
    note = "namespaces without a user namespace, cgroup limits; no seccomp, no Landlock, no verdict"

    def __init__(self, rootfs):
        self.rootfs = rootfs
        self.count = 0

    def enter(self, stack, work):
        need_root()
        self.path = tool("runc", "crun")
        self.version = first_line([self.path, "--version"])
        self.state, self.bundle = work / "runc", work / "bundle"
        self.bundle.mkdir()
        subprocess.run([self.path, "spec"], cwd=self.bundle, check=True)
        config = json.loads((self.bundle / "config.json").read_text())
        self.harden(config, self.rootfs.get(work))
        (self.bundle / "config.json").write_text(json.dumps(config))
        stack.callback(self.close)

    @staticmethod
    def harden(config, root):
        config["root"] = {"path": str(root), "readonly": True}
        process = config["process"]
        process.update(terminal=False, args=[PYTHON, "-c", CODE], cwd="/tmp", noNewPrivileges=True,
                       user={"uid": 1000, "gid": 1000}, capabilities={})
        config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                                 "options": ["nosuid", "nodev", "size=100m"]})
        resources = config["linux"].setdefault("resources", {})
        resources.update(memory={"limit": MEMORY_BYTES}, pids={"limit": PIDS}, cpu={"quota": CPUS * 100_000, "period": 100_000})
        config["linux"]["cgroupsPath"] = f"/{NAME}/runc"

    def command(self):
        self.count += 1
        return [self.path, "--root", str(self.state), "run", "--bundle", str(self.bundle), f"{NAME}-{self.count}"]

    def close(self):
        if self.state.is_dir():
            for name in os.listdir(self.state):
                subprocess.run([self.path, "--root", str(self.state), "delete", "--force", name], capture_output=True)
        remove_cgroups()


class Docker(Peer):
    name = "docker"
    slow = True
    note = "hardened: no network, read-only, no capabilities, cgroup limits, the engine's seccomp filter; no verdict"

    def __init__(self, rootfs, host, private=True):
        """host: an engine that runs already. private: without one, start a private one."""
        self.rootfs = rootfs
        self.host = host
        self.private = private

    def enter(self, stack, work):
        self.path = tool("docker")
        if not self.host:
            if not self.private:
                raise Absent("--smoke starts no private engine; --docker-host names one that runs")
            need_root()
            self.start_engine(stack, work)
        self.base = [self.path, "-H", self.host]
        self.version = f"{first_line([self.path, '--version'])}; engine {text_of([*self.base, 'version', '-f', '{{.Server.Version}}'])}"
        self.import_image(stack, self.rootfs.get(work))

    def start_engine(self, stack, work):
        """An engine of our own, that touches neither the host's firewall nor its bridges."""
        daemon = tool("dockerd")
        place = work / "docker"
        place.mkdir()
        self.host = f"unix://{place}/docker.sock"
        log = stack.enter_context(open(place / "log", "wb"))
        engine = subprocess.Popen(
            [daemon, "--iptables=false", "--ip6tables=false", "--bridge=none", "--oom-score-adjust=0", "--data-root", place / "data",
             "--exec-root", place / "exec", "--pidfile", place / "pid", "-H", self.host, "--cgroup-parent", f"/{NAME}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        stack.callback(self.stop_engine, engine)
        for _ in range(150):
            if engine.poll() is not None:
                raise Absent("dockerd ended at once: " + last_line(place / "log"))
            if subprocess.run([self.path, "-H", self.host, "version"], capture_output=True).returncode == 0:
                return
            time.sleep(0.2)
        raise Absent("dockerd does not answer: " + last_line(place / "log"))

    @staticmethod
    def stop_engine(engine):
        common.end_process(engine, 20)
        remove_cgroups()

    def import_image(self, stack, root):
        self.image = f"{NAME}:latest"
        archive = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
        done = subprocess.run([*self.base, "import", "-", self.image], stdin=archive.stdout, capture_output=True, text=True)
        archive.stdout.close()
        if archive.wait() != 0 or done.returncode != 0:
            raise Absent("cannot import the image: " + done.stderr.strip())
        stack.callback(subprocess.run, [*self.base, "rmi", "-f", self.image], capture_output=True)

    def command(self):
        return [*self.base, "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
                f"--memory={MEMORY_BYTES}", f"--memory-swap={MEMORY_BYTES}", f"--pids-limit={PIDS}", f"--cpus={CPUS}",
                "--user=1000:1000", "--tmpfs=/tmp:size=100m", "--workdir=/tmp", self.image, PYTHON, "-c", CODE]


def remove_cgroups():
    """The empty groups that a container runtime leaves behind; only those of our own name."""
    base = pathlib.Path("/sys/fs/cgroup")
    for top in [base / NAME, *base.glob(f"*/{NAME}")]:
        for path, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)


class Spawner:
    """The small C program that does the timing; see spawn.c."""

    def __init__(self, work, wait_quiet):
        self.wait_quiet = wait_quiet
        self.program = common.compile_program(work, "spawn", ["-static"])
        self.out, self.err = work / "out", work / "err"

    def run(self, mode, pause_usec, peer):
        done = subprocess.run([self.program, mode, str(pause_usec), self.out, self.err, *peer.command()],
                              stdout=subprocess.PIPE, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        output = self.out.read_text(errors="replace")
        if rows[-1]["code"] != 0 or output != EXPECTED:
            said = self.err.read_text(errors="replace").strip()[-400:]
            raise RuntimeError(f"{peer.name} ended with code {rows[-1]['code']} and printed {output[:80]!r}; it said: {said}")
        return rows

    def time_ms(self, peer, pause_usec):
        if self.wait_quiet:
            common.wait_until_quiet()
        return self.run("time", pause_usec, peer)[-1]["nsec"] / 1e6


def measure(spawner, peers, rounds, slow_rounds, pause_usec, label):
    samples = {peer.name: [] for peer in peers}
    every = max(1, rounds // max(1, slow_rounds))
    for i in range(rounds):
        fast, slow = [p for p in peers if not p.slow], [p for p in peers if p.slow and i % every == 0]
        random.shuffle(fast)
        random.shuffle(slow)
        for peer in fast + slow:
            samples[peer.name].append(spawner.time_ms(peer, pause_usec))
            if peer.slow:  # an engine goes on tidying up after its client has ended
                time.sleep(SETTLE_SEC)
        progress(f"{label}: round {i + 1} of {rounds}")
    progress("")
    return {name: summary(values) for name, values in samples.items()}


def role_of(row, last_warden):
    exe = os.path.basename(row["exe"])
    if exe == "glovebox":
        return "front"
    if exe != "glovebox-warden":
        return None  # the program
    if row["comm"] == "glovebox-init":
        return "init"
    return "warden" if row["pid"] == last_warden else "setup"


def measure_memory(spawner, glovebox, rounds):
    """Peaks of glovebox's own processes, each read at its exit."""
    roles = {}
    for _ in range(rounds):
        rows = [row for row in spawner.run("memory", 0, glovebox) if "pid" in row]
        wardens = [row for row in rows if os.path.basename(row["exe"]) == "glovebox-warden" and row["comm"] != "glovebox-init"]
        last = max(wardens, key=lambda row: row["at_nsec"])["pid"] if wardens else None
        for row in rows:
            role = role_of(row, last)
            if role:
                roles.setdefault(role, []).append(row)
    fields = ("hwm_kb", "pss_kb", "private_kb", "anonymous_kb")
    return {role: {field: max(row[field] for row in rows) for field in fields} for role, rows in roles.items()}


def print_table(title, results, peers):
    bare, own = results.get("bare"), results.get("glovebox")
    print(f"\n{title}\n{'':12}{'runs':>6}{'p50 ms':>10}{'p99 ms':>10}{'min ms':>10}{'mean ms':>10}{'x bare':>9}{'x glovebox':>12}")
    for peer in sorted(peers, key=lambda p: results[p.name]["p50_ms"]):
        r = results[peer.name]
        ratios = [f"{r['p50_ms'] / other['p50_ms']:.2f}" if other else "-" for other in (bare, own)]
        print(f"{peer.name:12}{r['n']:6}{r['p50_ms']:10.2f}{r['p99_ms']:10.2f}{r['min_ms']:10.2f}{r['mean_ms']:10.2f}"
              f"{ratios[0]:>9}{ratios[1]:>12}")


def print_memory(memory):
    print(f"\nPeak memory of glovebox itself, kB\n{'':12}{'RSS':>8}{'PSS':>8}{'private':>9}{'anonymous':>11}")
    for role in ("front", "warden", "init", "setup"):
        if role in memory:
            m = memory[role]
            print(f"{role:12}{m['hwm_kb']:8}{m['pss_kb']:8}{m['private_kb']:9}{m['anonymous_kb']:11}")
    print(f"{'together':12}{together(memory, 'hwm_kb'):8}{together(memory, 'pss_kb'):8}{together(memory, 'private_kb'):9}"
          f"{together(memory, 'anonymous_kb'):11}   (front + warden + init; setup ends before the program starts)")


def together(memory, field):
    return sum(m[field] for role, m in memory.items() if role != "setup")


def judge(scenario, memory):
    """The goals, as (text, reached) in order; only those that could be measured."""
    def p50(name):
        return scenario[name]["p50_ms"] if name in scenario else None

    own, verdicts = p50("glovebox"), []
    if own and p50("bare"):
        ratio = own / p50("bare")
        verdicts.append((f"at most {GOALS['bare']} x bare python: {ratio:.2f}", ratio <= GOALS["bare"]))
    if own and p50("bubblewrap"):
        verdicts.append((f"ahead of bubblewrap: {own:.2f} against {p50('bubblewrap'):.2f} ms", own < p50("bubblewrap")))
    if own and p50("docker"):
        ratio = p50("docker") / own
        verdicts.append((f"at least {GOALS['docker']} x faster than docker run: {ratio:.1f}", ratio >= GOALS["docker"]))
    if memory:
        size = together(memory, "hwm_kb")
        verdicts.append((f"at most {GOALS['memory_kb']} kB of memory: {size}", size <= GOALS["memory_kb"]))
    return verdicts


def enter_peers(everyone, wanted, stack, work, spawner):
    present, absent = [], {}
    for peer in everyone:
        if wanted and peer.name not in wanted:
            continue
        progress(f"preparing {peer.name}")
        try:
            peer.enter(stack, work)
            for _ in range(2):  # also warms the caches
                spawner.time_ms(peer, 0)
            present.append(peer)
        except (Absent, RuntimeError, OSError, subprocess.SubprocessError) as why:
            absent[peer.name] = str(why)
    progress("")
    return present, absent


def arguments():
    parser = argparse.ArgumentParser(description="Measure the cold start of glovebox beside its peers.")
    parser.add_argument("--rounds", type=int, help="runs of each fast peer (default 200)")
    parser.add_argument("--slow-rounds", type=int, help="runs of runc and docker (default 25)")
    parser.add_argument("--only", metavar="NAMES",
                        help="peers to run, by comma: bare,glovebox,bubblewrap,firejail,runc,docker")
    parser.add_argument("--wait-quiet", action="store_true",
                        help="before each run, wait until no other process is runnable")
    parser.add_argument("--docker-host", metavar="URL", help="use this engine instead of starting a private one")
    common.add_arguments(parser, "20 rounds, 5 of the slow peers")
    a = parser.parse_args()
    common.set_counts(a, rounds=(200, 20, 1), slow_rounds=(25, 5, 1))
    if a.rounds < 1 or a.slow_rounds < 1:
        parser.error("at least one round")
    a.glovebox = common.glovebox_program(parser)
    return a


def bench(a, stack):
    work = common.work_directory(stack)
    spawner, rootfs, glovebox = Spawner(work, a.wait_quiet), RootFs(), Glovebox(a.glovebox)
    everyone = [Bare(), glovebox, Bubblewrap(), Firejail(), Runc(rootfs), Docker(rootfs, a.docker_host, not a.smoke)]
    wanted = set(a.only.split(",")) if a.only else None
    if wanted and wanted - {p.name for p in everyone}:
        raise SystemExit(f"bench: unknown peer in --only; there are {', '.join(p.name for p in everyone)}")

    facts = common.machine_facts()
    peers, absent = enter_peers(everyone, wanted, stack, work, spawner)
    if glovebox.name in absent:
        raise SystemExit(f"bench: glovebox itself does not run: {absent[glovebox.name]}")
    if not peers:
        raise SystemExit("bench: nothing to measure: " + "; ".join(f"{k}: {v}" for k, v in absent.items()))
    print(common.machine_line(facts))
    for peer in peers:
        print(f"  {peer.name:12}{peer.version}: {peer.note}")
    for name, why in absent.items():
        print(f"  {name:12}absent: {why}")

    results = {}
    for key, title, pause, rounds in (("back_to_back", "One after the other", 0, a.rounds),
                                      ("idle", "After 100 ms of idleness", IDLE_USEC, max(1, a.rounds // 2))):
        results[key] = measure(spawner, peers, rounds, min(a.slow_rounds, rounds), pause, title)
        print_table(title, results[key], peers)
    memory = measure_memory(spawner, glovebox, min(20, a.rounds)) if glovebox in peers else {}
    if memory:
        print_memory(memory)
    verdicts = judge(results["back_to_back"], memory)
    print("\nGoals (one after the other, p50)")
    for text, reached in verdicts:
        print(f"  {'reached' if reached else 'missed ':8} {text}")
    facts["load_after"] = os.getloadavg()[0]
    return {"machine": facts, "code": CODE, "peers": {p.name: {"version": p.version, "note": p.note} for p in peers}, "absent": absent,
            "scenarios": results, "memory": memory, "goals": [{"goal": t, "reached": r} for t, r in verdicts]}


def main(stack):
    a = arguments()
    common.write_json(a.json, bench(a, stack))
    return 0


if __name__ == "__main__":
    common.run_main(main)
