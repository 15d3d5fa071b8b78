#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One server, and clients that ask for everything it has for some minutes.

    tests/soak/server.py [--minutes 10] [--clients 8] [--seed N]

Runs of all kinds and endings, sessions, streams that are read slowly, cut and resumed, files, archives, statistics, retries, cancelling and
deleting in the midst of it, and what is no request at all. Every answer is looked at. Between a first reading, taken when everything is warm, and
a last one nothing may have grown: descriptors, threads, memory, processes, cgroups, mounts; the journal is within its bounds, and nothing lives.
Prints a table; the exit status is 1 when a row is bad or an answer was wrong. $GLOVEBOX is the program whose server is used.
"""
import argparse
import collections
import contextlib
import http.client
import io
import os
import pathlib
import random
import re
import socket
import struct
import sys
import tarfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import isolation  # noqa: E402
from cgroups import OwnGroups  # noqa: E402
from server import NDJSON, PROGRAM, SSE, Answer, Server, birth  # noqa: E402

REST = 60.0          # seconds within which everything has come to rest
WARM_UP = 0.3        # of the time, but not more than two minutes
JOURNAL_MB = 16      # its bound: it is reached, so that what is oldest goes all the time
JOURNAL_MOST_MB = {"journal.db": JOURNAL_MB + 4 + 1, "journal.db-wal": 256}  # with its reserve; its log (docs/limits.md)
IS_SANITIZED = PROGRAM.exists() and b"__asan_init" in PROGRAM.read_bytes()  # that keeps what was freed

# What may grow, and by how much; all else by nothing.
SLACK = {"server: memory, KB": 12288, "warden: memory, KB": 2048, "keeper: memory, KB": 512, "template: memory, KB": 4096}


SEEN = {}  # beside the last reading: the processes, to explain it


class Wrong(Exception):
    pass


def expect(what, good, answer):
    if not good:
        raise Wrong(f"{what}: {answer.explain() if isinstance(answer, Answer) else answer}")


# ---- clients ----

class Client(threading.Thread):
    """One of them; each step is a whole story."""

    def __init__(self, server, token, number, seed):
        super().__init__(daemon=True)
        self.server, self.token, self.number, self.chance = server, token, number, random.Random(f"{seed} {number}")
        self.go, self.idle, self.over, self.failure, self.done = threading.Event(), threading.Event(), False, None, collections.Counter()
        self.steps = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]

    def run(self):
        while not self.over:
            if not self.go.is_set():
                self.idle.set()
                self.go.wait(0.1)
                continue
            self.idle.clear()
            step = self.chance.choice(self.steps)
            try:
                step()
                self.done[step.__name__[3:]] += 1
            except (Wrong, OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AssertionError) as failure:
                self.failure = f"client {self.number}, {step.__name__[3:]}: {failure!r}"
                break
        self.idle.set()

    def ask(self, method, path, json=None, good=(200,), **options):
        """Who is told to come again does."""
        while True:
            answer = self.server.request(method, path, json, token=self.token, **options)
            if answer.status not in (429, 503):
                expect(f"{method} {path}", answer.status in good, answer)
                return answer
            expect("Retry-After", answer.headers["Retry-After"], answer)
            time.sleep(0.05)

    def stream(self, method, path, json=None, kind=NDJSON):
        while True:
            stream = self.server.request(method, path, json, token=self.token, stream=kind)
            if not isinstance(stream, Answer):
                return stream
            expect(path, stream.status in (429, 503), stream)
            time.sleep(0.05)

    def once(self, code, **fields):
        return self.ask("POST", "/v1/runs", {"code": code, **fields}).json["result"]

    def session(self, **fields):
        return "/v1/sessions/" + self.ask("POST", "/v1/sessions", fields, (201,)).json["id"]

    def end(self, path):
        self.ask("DELETE", path, good=(204,))

    def verdict(self, result, *kinds):
        expect("the verdict", result["verdict"]["kind"] in kinds, result["verdict"])

    # ---- runs ----

    def do_run(self):
        n = self.chance.randrange(10**6)
        expect("output", (result := self.once(f"print({n} * 2)"))["stdout"] == f"{n * 2}\n", result)

    def do_fresh_run(self):
        result = self.once("import sys; print(open('a').read() + sys.stdin.read())", template=None, files={"a": "x"}, stdin="y")
        expect("output", result["stdout"] == "xy\n", result)

    def do_other_languages(self):
        expect("output", (result := self.once("echo $((6 * 7))", language="bash"))["stdout"] == "42\n", result)

    def do_exception(self):
        self.verdict(self.once("raise ValueError('no')"), "error")

    def do_timeout(self):
        self.verdict(self.once("while True: pass", timeout=0.2), "timeout")

    def do_out_of_memory(self):
        self.verdict(self.once("x = bytearray(300_000_000)", policy={"mem_limit": "64m"}), "memory", "error")  # without cgroups it is told so

    def do_much_output(self):
        result = self.once("print('x' * 200_000)")
        expect("its size", len(result["stdout"]) == 200_001 or result["verdict"]["kind"] == "lost", len(result["stdout"]))

    def do_detached_and_cancelled(self):
        path = "/v1/runs/" + self.ask("POST", "/v1/runs", {"code": "import time; time.sleep(60)", "detach": True}, (202,)).json["id"]
        time.sleep(self.chance.random() / 20)
        for kill in (False, True):
            self.ask("POST", f"{path}/cancel", {"kill": kill}, (202,))
        self.wait(path, "cancelled")

    def wait(self, path, *kinds):
        end = time.monotonic() + 60
        while (run := self.ask("GET", path).json)["state"] != "ended":
            expect("its end", time.monotonic() < end, run)
            time.sleep(0.02)
        self.verdict(run["result"], *kinds)

    def do_interactive(self):
        path = "/v1/runs/" + self.ask("POST", "/v1/runs", {"code": "print(input()[::-1])", "detach": True, "interactive": True}, (202,)).json["id"]
        self.ask("POST", f"{path}/stdin?close=true", body=b"abc\n")
        self.wait(path, "ok")

    def do_retries(self):
        key, answers = os.urandom(12).hex(), []

        def post():
            answers.append(self.ask("POST", "/v1/runs", {"code": "import time; time.sleep(0.02); print(1)"}, headers={"Idempotency-Key": key}))
        threads = [threading.Thread(target=post) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect("one run for one key", len(answers) == 3 and len({a.json["id"] for a in answers}) == 1, [a.json["id"] for a in answers])

    # ---- streams ----

    def do_stream(self):
        with self.stream("POST", "/v1/runs", {"code": "for i in range(50): print(i, flush=True)"}, self.chance.choice((SSE, NDJSON))) as stream:
            self.check(list(stream), 0)

    def check(self, events, first):
        expect("numbers", [e["seq"] for e in events] == list(range(first, first + len(events))), events)
        expect("the last event", events[-1]["event"] == "verdict" and events[-1]["verdict"]["kind"] == "ok", events[-1:])

    def do_slow_reader(self):
        with self.stream("POST", "/v1/runs", {"code": "for i in range(40): print('x' * 3000, flush=True)"}) as stream:
            events = []
            for event in stream:
                events.append(event)
                time.sleep(0.005)
            self.check(events, 0)

    def do_cut_and_resumed(self):
        with self.stream("POST", "/v1/runs", {"code": "import time\nfor i in range(30): print(i, flush=True); time.sleep(0.002)"}) as stream:
            run, seen = stream.headers["Glovebox-Run"], []
            for event in stream:
                seen.append(event)
                if self.chance.random() < 0.1:
                    break
        if not seen or seen[-1]["event"] != "verdict":
            with self.stream("GET", f"/v1/runs/{run}/events?from={len(seen)}") as stream:
                self.check(list(stream), len(seen))

    def do_gone_client(self):
        body = b'{"code": "import time; time.sleep(60)", "on_disconnect": "cancel"}'
        with self.server.raw(tcp=True) as plain:
            plain.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + self.token.encode() + b"\r\nContent-Type: application/json\r\n"
                          b"Content-Length: %d\r\nAccept: %s\r\n\r\n%s" % (len(body), self.chance.choice((b"application/json", b"text/event-stream")), body))
            time.sleep(self.chance.random() / 20)
            if self.chance.random() < 0.5:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    # ---- sessions ----

    def do_session(self):
        path = self.session(name="soak", metadata={"a": "b"})
        for i in range(self.chance.randrange(1, 4)):
            run = self.ask("POST", f"{path}/runs", {"code": f"x = {i}\nx + 1"}).json
            expect("the value", run["result"]["results"][0]["data"]["text/plain"] == str(i + 1), run["result"])
        self.ask("PATCH", path, {"name": "other"})
        self.end(path)

    def do_contexts(self):
        path = self.session()
        for language, code in (("bash", "echo 42"), ("python", "print(42)")):
            context = self.ask("POST", f"{path}/contexts", {"language": language}, (201,)).json["id"]
            run = self.ask("POST", f"{path}/runs", {"code": code, "language": language, "context": context}).json
            expect("output", run["result"]["stdout"] == "42\n", run["result"])
            self.ask("POST", f"{path}/contexts/{context}/restart")
            self.ask("DELETE", f"{path}/contexts/{context}", good=(204,))
        self.end(path)

    def do_deleted_while_it_runs(self):
        path = self.session()
        runs = [self.ask("POST", f"{path}/runs", {"code": "import time; time.sleep(60)", "detach": True, "context": None}, (202,)).json["id"] for _ in range(2)]
        time.sleep(self.chance.random() / 20)
        self.end(path)
        for run in runs:
            result = self.ask("GET", f"/v1/runs/{run}").json["result"]
            expect("its end", result and result.get("verdict", {}).get("kind") in ("cancelled", None), result)
        self.ask("GET", path, good=(404,))

    def do_files(self):
        path, content = self.session(), os.urandom(self.chance.choice((0, 1000, 70_000, 1_500_000)))
        self.ask("PUT", f"{path}/files/a/b?parents=true", body=content, good=(201,))
        answer = self.ask("GET", f"{path}/files/a/b")
        expect("the content", answer.body == content, f"{len(answer.body)} bytes of {len(content)}")
        expect("the list", [e["name"] for e in self.ask("GET", f"{path}/files").json["entries"]] == ["a"], "")
        self.ask("DELETE", f"{path}/files/a", good=(409,))
        self.ask("DELETE", f"{path}/files/a?recursive=true", good=(204,))
        self.end(path)

    def do_archive(self):
        path, packed = self.session(), io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for i in range(10):
                info = tarfile.TarInfo(f"d/{i}")
                info.size = 5000
                tar.addfile(info, io.BytesIO(os.urandom(5000)))
        self.ask("PUT", f"{path}/archive?path=in", body=packed.getvalue(), headers={"Content-Type": "application/gzip"})
        with tarfile.open(fileobj=io.BytesIO(self.ask("GET", f"{path}/archive").body)) as tar:
            expect("the archive", sum(member.size for member in tar) == 50_000, tar.getnames())
        self.ask("PUT", f"{path}/archive", body=b"no archive", headers={"Content-Type": "application/x-tar"}, good=(400,))
        self.end(path)

    def do_full_workspace(self):
        path = self.session(policy={"disk_limit": "1m"})
        self.ask("PUT", f"{path}/files/large", body=bytes(2_000_000), good=(507,))
        self.end(path)

    def do_statistics(self):
        path, samples = self.session(), []
        with self.stream("GET", f"{path}/stats?interval=0.1") as stream:
            for sample in stream:
                samples.append(sample)
                if len(samples) == 3:
                    break
        self.end(path)

    # ---- what only looks, and what is wrong ----

    def do_look(self):
        for path in ("/v1/sessions", "/v1/runs?limit=20", "/v1/info", "/v1/audit?limit=20", "/v1/stats", "/v1/templates", "/v1/languages", "/readyz", "/openapi.json"):
            self.ask("GET", path)

    def do_wrong_requests(self):
        for path, body, good in (("/v1/runs", {"code": 1}, (400,)), ("/v1/runs", {"code": "1", "unknown": 2}, (400,)), ("/v1/nothing", {}, (404,)),
                                 ("/v1/sessions/0123/runs", {"code": "1"}, (404,)), ("/v1/sessions", {"policy": {"mem_limit": -1}}, (400,))):
            self.ask("POST", path, body, good)
        answer = self.server.request("GET", "/v1/runs", token="gbx_wrong")
        expect("a wrong token", answer.status in (401, 429), answer)

    def do_no_requests(self):
        for text in (b"\r\n\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /v1/info HTTP/1.1\nHost: a\n\n", b"\x16\x03\x01" + os.urandom(100), b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nContent-Le"):
            with self.server.raw(tcp=self.chance.random() < 0.5) as plain:
                plain.sendall(text)
                if self.chance.random() < 0.5:
                    plain.shutdown(socket.SHUT_WR)
                    try:
                        while plain.recv(4096):
                            pass
                    except ConnectionError:
                        pass


# ---- readings ----

def read(path):
    with open(path) as file:
        return file.read()


def memory_of(pid):
    """What it has for itself, in KB."""
    return sum(int(n) for n in re.findall(r"^Private_(?:Clean|Dirty): *(\d+)", read(f"/proc/{pid}/smaps_rollup"), re.M))


def names_of(processes):
    """The number of processes of each command; numbers in commands do not count."""
    return collections.Counter(re.sub(r"\d+", "N", command) for command in processes.values())


def describe(pid):
    """What the kernel says of a process that should not be there."""
    try:
        status = dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        said = {name: status.get(name) for name in ("State", "PPid", "NSpid", "Uid", "SigPnd", "ShdPnd")}
        return f"{age:.0f} s old, {said}, waits in {read(f'/proc/{pid}/wchan')}, {len(os.listdir(f'/proc/{pid}/fd'))} descriptors, {os.readlink(f'/proc/{pid}/ns/pid')}"
    except OSError as error:
        return f"cannot be read: {error}"


def take_reading(server, groups):
    below = server.processes()
    SEEN["processes"] = names_of(below)
    reading = {"processes": len(below), "cgroups": len(groups.boxes()), "mounts": len(isolation.current.mounts()),
               "connections": int(re.search(r"^glovebox_connections (\d+)", server.get("/metrics").body.decode(), re.M).group(1)) - 1}  # our own
    named = {"server": server.pid}
    for pid in sorted(below, key=lambda pid: birth(pid) or 1 << 60):  # a fork is younger than its template
        for name in ("keeper", "warden"):
            if below[pid].startswith(f"[glovebox-{name}]"):
                named.setdefault(name, pid)
        if "glovebox_template.py" in below[pid]:
            named.setdefault("template", pid)
    for name, pid in named.items():
        # What cannot be dumped is root's to see; what was just forked from the template may be gone.
        with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
            reading[f"{name}: threads"] = len(os.listdir(f"/proc/{pid}/task"))
            reading[f"{name}: descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
            reading[f"{name}: memory, KB"] = memory_of(pid)
    for what, count in server.used().items():
        reading[f"alive: {what}"] = count
    return reading


def rest(server, groups, clients, long, before=None):
    """All clients stop; the reading when it has come to rest. Idle threads need ten seconds for that, for which a short
    soak does not wait. With an earlier reading it also waits until nothing has grown since: only growth that stays is
    a leak."""
    for client in clients:
        client.go.clear()
    end, last, same = time.monotonic() + REST, None, 0
    for client in clients:
        if not client.idle.wait(REST):
            raise Wrong(f"client {client.number} hangs")
        if client.failure:
            raise Wrong(client.failure)
    # Runs of clients that went away are ended by and by.
    while time.monotonic() < end and (same < (60 if long else 10) or has_grown(before, last)):
        time.sleep(0.2)
        reading = take_reading(server, groups)
        now = {k: v for k, v in reading.items() if "memory, KB" not in k and (long or k != "server: threads")}
        same, last = (same + 1 if now == last and now["alive: runs"] == 0 else 0), now
    return reading


def is_bad(name, before, after):
    if name.startswith("alive") and after[name] > 0:
        return True
    grown = after.get(name, 0) - before.get(name, 0)
    return grown > SLACK.get(name, 0) and not (IS_SANITIZED and "memory, KB" in name)


def has_grown(before, after):
    return bool(before) and any(is_bad(name, before, after) for name in after)


def show(before, after):
    """The table; whether all is well."""
    good = True
    print(f"{'':28}{'before':>10}{'after':>10}{'may grow':>10}")
    for name in sorted(set(before) | set(after)):
        bad = is_bad(name, before, after)
        good = good and not bad
        print(f"{name:28}{before.get(name, 0):>10}{after.get(name, 0):>10}{SLACK.get(name, 0):>10}{'   BAD' if bad else ''}")
    return good


def work(clients, seconds, every_story=False):
    """Lets them work for that time, and if asked until each story was told once; the first failure ends it."""
    end, last_end = time.monotonic() + seconds, time.monotonic() + seconds + REST
    for client in clients:
        client.go.set()

    def is_over():
        told = set().union(*(client.done for client in clients))
        return time.monotonic() > (end if not every_story or len(told) == len(clients[0].steps) else last_end)
    while not is_over() and not any(client.failure for client in clients):
        time.sleep(0.1)
    failures = [client.failure for client in clients if client.failure]
    if failures:
        raise Wrong(failures[0])


def journal_size(server):
    good = True
    for name, most in JOURNAL_MOST_MB.items():
        size = (server.state / name).stat().st_size / (1 << 20)
        print(f"{name}: {size:.1f} MB of at most {most} MB{'' if size <= most else '   BAD'}")
        good = good and size <= most
    return good


def soak(server, groups, options):
    token = server.token("soak", "run")
    clients = [Client(server, token, i, options.seed) for i in range(options.clients)]
    for client in clients:
        client.start()
    seconds = options.minutes * 60
    long = seconds >= 120
    if not long:
        SLACK["server: threads"] = 3 * options.clients
    warm_up = min(seconds * WARM_UP, 120)
    # Helpers are started when they are first needed: all of them are there at the first reading.
    work(clients, warm_up, every_story=True)
    before, processes = rest(server, groups, clients, long), SEEN["processes"]
    boxes = len(groups.boxes())
    work(clients, seconds - warm_up)
    after = rest(server, groups, clients, long, before)
    for client in clients:
        client.over = True
        client.join(REST)
    done = sum((client.done for client in clients), collections.Counter())
    print(f"{sum(done.values())} stories by {options.clients} clients in {seconds:.0f} s, {boxes} groups at rest:\n  " + ", ".join(f"{name} {n}" for name, n in sorted(done.items())))
    missing = [step.__name__[3:] for step in clients[0].steps if not done[step.__name__[3:]]]
    if missing and seconds > 60:
        raise Wrong(f"never done: {missing}")
    good = show(before, after)
    for name, n in (SEEN["processes"] - processes).items():
        print(f"{n} more at the end: {name}")
        for pid, command in server.processes().items():
            if names_of({pid: command})[name]:
                print(f"  {pid}: {describe(pid)}")
    return all([good, journal_size(server)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long, with the warm-up (default 10)")
    parser.add_argument("--clients", type=int, default=8, help="how many at a time (default 8)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    good = False
    with OwnGroups() as groups:
        # Arenas of threads keep what is free: that is no leak, and would hide one.
        server = Server(tcp=True, warm=["python"] if groups.environ else [], journal_size=f"{JOURNAL_MB}m", journal_runs=2000, keep_alive="10s",
                        environ={**groups.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072"})
        try:
            server.start()
            good = soak(server, groups, options)
            status = server.stop()
            if status != 0:
                raise Wrong(f"the server ended with status {status}")
            left = groups.boxes()
            if left:
                raise Wrong(f"groups left: {sorted(left)[:5]}")
        except (Wrong, AssertionError) as failure:
            print(f"\nBAD: {failure}\n{server.output()}")
            good = False
        finally:
            if server.process:
                server.kill()
            server.close()
    print("\nwell" if good else "\nBAD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
