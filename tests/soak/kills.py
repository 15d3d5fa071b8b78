#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server is killed (SIGKILL) at random moments while clients work, and started again.

    tests/soak/kills.py [--points 100] [--clients 8] [--seed N]

After each kill nothing of it lives, and no cgroup of its is left once the next one has started. That one is up within a second or so, and knows an honest end of everything: each run that a client was told of is
there; what a client was told has ended is what the journal says; what was under way is `lost`; no key has run code twice; no session is half alive.
Prints a line for each tenth of the points; the exit status is 1 at the first lie.
"""
import argparse
import http.client
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from cgroups import OwnGroups  # noqa: E402
from server import NDJSON, Server, birth, wait_for  # noqa: E402

DEAD_SECONDS = 10.0   # for everything to be gone; it takes a tenth of that where nothing else runs
START_SECONDS = 20.0


class Lie(Exception):
    pass


class Worker(threading.Thread):
    """One client: whatever it is told, it writes down."""

    def __init__(self, server, number, seed, counter):
        super().__init__(daemon=True)
        self.server, self.number, self.random = server, number, random.Random(seed)
        self.counter = counter  # a directory of the host that every box sees: each run of a key leaves a mark there
        self.ended, self.told, self.keys, self.errors = {}, set(), {}, []
        self.over = False

    def run(self):
        while not self.over:
            step = self.random.choice((self.once, self.once, self.stream, self.session, self.keyed, self.detached, self.files))
            try:
                step()
            except (OSError, http.client.HTTPException, ValueError, AssertionError) as error:
                if not self.over and self.server.process and self.server.process.poll() is None and isinstance(error, AssertionError):
                    self.errors.append(f"client {self.number}: {error}")
                    return
                return  # it was killed

    def note(self, run):
        self.told.add(run["id"])
        if run["state"] == "ended":
            self.ended[run["id"]] = run["result"]["verdict"]["kind"]

    def ask(self, method, path, json=None, **options):
        answer = self.server.request(method, path, json, timeout=60, **options)
        if answer.status in (429, 503):
            time.sleep(0.01)
            return None
        if answer.status >= 500:
            raise AssertionError(f"{method} {path}: {answer.explain()}")
        return answer

    def once(self):
        n = self.random.randrange(1000)
        answer = self.ask("POST", "/v1/runs", {"code": f"print({n} * 2)"})
        if answer and answer.status == 200:
            self.note(answer.json)
            if answer.json["result"]["stdout"] != f"{n * 2}\n":
                raise AssertionError(f"a wrong answer: {answer.explain()}")

    def stream(self):
        with self.server.request("POST", "/v1/runs", {"code": "import time\nfor i in range(20):\n    print(i, flush=True)\n    time.sleep(0.002)"}, stream=NDJSON, timeout=60) as answer:
            run = answer.headers.get("Glovebox-Run")
            if answer.status != 200 or not run:
                return
            self.told.add(run)
            last = -1
            for event in answer:
                if event["seq"] != last + 1:
                    raise AssertionError(f"a gap after event {last}: {event}")
                last = event["seq"]
                if event["event"] == "verdict":
                    self.ended[run] = event["verdict"]["kind"]

    def session(self):
        answer = self.ask("POST", "/v1/sessions", {})
        if not answer or answer.status != 201:
            return
        path = f"/v1/sessions/{answer.json['id']}"
        for i in range(self.random.randrange(4)):
            ran = self.ask("POST", f"{path}/runs", {"code": f"x = {i}\nx"})
            if ran and ran.status == 200:
                self.note(ran.json)
        if self.random.random() < 0.7:
            self.ask("DELETE", path)

    def keyed(self):
        """The same key twice or more: at most one mark."""
        key = f"{self.number}-{self.random.getrandbits(64):x}"
        self.keys[key] = None
        body = {"code": f"import os\nos.close(os.open('/marks/{key}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))", "policy": {"mounts": [f"{self.counter}:/marks:rw"]}}
        for _ in range(2):
            answer = self.ask("POST", "/v1/runs", body, headers={"Idempotency-Key": key})
            if answer and answer.status == 200:
                self.note(answer.json)
                self.keys[key] = (answer.json["id"], body)
                if answer.json["result"]["verdict"]["kind"] != "ok":
                    raise AssertionError(f"ran twice: {answer.explain()}")

    def detached(self):
        answer = self.ask("POST", "/v1/runs", {"code": "import time; time.sleep(0.05); print('late')", "detach": True})
        if answer and answer.status == 202:
            self.note(answer.json)

    def files(self):
        answer = self.ask("POST", "/v1/sessions", {})
        if not answer or answer.status != 201:
            return
        path = f"/v1/sessions/{answer.json['id']}"
        content = os.urandom(self.random.randrange(200000))
        put = self.server.request("PUT", f"{path}/files/a/b.bin?parents=true", body=content, timeout=60)
        if put.status == 201 and self.server.request("GET", f"{path}/files/a/b.bin", timeout=60).body != content:
            raise AssertionError("a file came back changed")
        self.ask("DELETE", path)


def check_runs(server, workers):
    for worker in workers:
        if worker.errors:
            raise Lie(worker.errors[0])
        for run in worker.told:
            answer = server.get(f"/v1/runs/{run}")
            if answer.status != 200:
                raise Lie(f"run {run} was told of, and is not there: {answer.explain()}")
            found = answer.json
            if found["state"] != "ended" or not found["result"]:
                raise Lie(f"run {run} has no end: {found}")
            kind = found["result"]["verdict"]["kind"]
            if run in worker.ended and worker.ended[run] != kind:
                raise Lie(f"run {run}: the client was told {worker.ended[run]}, the journal says {kind}")
            events = server.get(f"/v1/runs/{run}/events").expect(200).json
            if not events["ended"] or [e["seq"] for e in events["events"]] != list(range(len(events["events"]))):
                raise Lie(f"run {run}: its events have gaps or no end")
            if events["events"][-1]["event"] not in ("verdict", "error"):
                raise Lie(f"run {run}: its last event is {events['events'][-1]}")


def check_keys(server, workers, counter):
    """A retry after the restart gets the first outcome and runs nothing."""
    marks = set(os.listdir(counter))
    for worker in workers:
        for key, first in worker.keys.items():
            if not first:
                continue
            answer = server.post("/v1/runs", first[1], headers={"Idempotency-Key": key})
            if answer.status != 200 or answer.json["id"] != first[0]:
                raise Lie(f"key {key}: {first[0]} before the restart, now {answer.explain()}")
    if set(os.listdir(counter)) != marks:
        raise Lie("a retry has run code again")


def check_nothing_lives(before, births):
    def alive():
        return [before[pid] for pid in before if births[pid] and birth(pid) == births[pid]]
    try:
        wait_for(lambda: not alive(), DEAD_SECONDS)
    except AssertionError:
        raise Lie(f"alive {DEAD_SECONDS} s after the kill: {alive()}") from None


def one_point(server, options, counter, seed):
    chance = random.Random(seed)
    workers = [Worker(server, i, chance.getrandbits(32), counter) for i in range(options.clients)]
    for worker in workers:
        worker.start()
    time.sleep(chance.random() * options.span)
    below = server.processes()
    births = {pid: birth(pid) for pid in below}
    server.process.kill()
    server._wait(START_SECONDS)
    for worker in workers:
        worker.over = True
    check_nothing_lives(below, births)
    for worker in workers:
        worker.join(60)
        if worker.is_alive():
            raise Lie(f"client {worker.number} hangs")
    began = time.monotonic()
    server.start(patience=START_SECONDS)
    took = time.monotonic() - began
    check_runs(server, workers)
    check_keys(server, workers, counter)
    sessions = server.get("/v1/sessions").expect(200).json["sessions"]
    if sessions:
        raise Lie(f"sessions of a dead server: {sessions}")
    return took, sum(len(worker.told) for worker in workers), sum(len(worker.ended) for worker in workers)


def main():
    parser = argparse.ArgumentParser(description="Kill the server at random moments.")
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--span", type=float, default=1.5, help="seconds within which it is killed")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    starts, told, ended = [], 0, 0
    with tempfile.TemporaryDirectory(prefix="gbtest-marks-") as counter, OwnGroups() as groups:
        os.chmod(counter, 0o777)
        server = Server(drain="1s", environ=groups.environ)
        try:
            server.start()
            for i in range(options.points):
                took, n, m = one_point(server, options, counter, options.seed + i)
                starts.append(took)
                told, ended = told + n, ended + m
                if (i + 1) % max(options.points // 10, 1) == 0:
                    print(f"{i + 1} kills: {told} runs told of, {ended} of them with their end; started again in {sorted(starts)[len(starts) // 2]:.2f} s (median), {max(starts):.2f} s (most)", flush=True)
            server.stop()
            left = groups.boxes()
            if left:
                raise Lie(f"cgroups left: {sorted(left)[:5]}")
            server.close()
        except (Lie, AssertionError) as lie:
            print(f"FAILED: {lie}\n{server.output() if server.directory.exists() else ''}")
            if server.process:
                server.process.kill()
            return 1
    print("every run has an honest end; nothing was left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
