# SPDX-License-Identifier: Apache-2.0
"""The server is killed at random moments while clients work. Afterwards nothing of it lives, and what the next one says is true:
what was told to somebody stays as it was told, what nobody knows is `lost`, and nothing has run twice.

GLOVEBOX_CRASH_ROUNDS says how often (default 4)."""
import http.client
import os
import random
import threading
import time

import pytest
from server import NDJSON, Server

ROUNDS = int(os.environ.get("GLOVEBOX_CRASH_ROUNDS", "4"))
CLIENTS = 8


class Client:
    """One that works until the server is gone, and remembers what it was told."""

    def __init__(self, server, seed, notes):
        self.server, self.chance, self.notes = server, random.Random(seed), notes
        self.told = {}      # run: the object, as it was at its end
        self.known = set()  # runs that were begun
        self.keys = {}      # key: (path, body)
        self.sessions = set()

    def work(self, stop):
        actions = [self.one_shot, self.one_shot, self.stream, self.detached, self.in_session, self.in_session, self.keyed, self.keyed, self.end_session]
        while not stop.is_set():
            try:
                self.chance.choice(actions)()
            except (OSError, http.client.HTTPException, ValueError):
                if stop.is_set():
                    return  # the server was killed in the midst of it
                time.sleep(0.01)

    def take(self, answer):
        if answer.headers.get("Glovebox-Run"):
            self.known.add(answer.headers["Glovebox-Run"])
        if answer.status == 200 and answer.json["state"] == "ended":
            self.told[answer.json["id"]] = answer.json
        assert answer.status in (200, 201, 202, 204, 404, 409, 429, 503), answer.explain()
        return answer

    def one_shot(self):
        self.take(self.server.post("/v1/runs", {"code": "import time; print('a'); time.sleep(%f)" % (self.chance.random() / 20)}))

    def stream(self):
        answer = self.server.post("/v1/runs", {"code": "for i in range(5): print(i, flush=True)"}, stream=NDJSON)
        if answer.status != 200:
            self.take(answer)
            return
        with answer as stream:
            self.known.add(stream.headers["Glovebox-Run"])
            for event in stream:
                if event["event"] == "verdict":
                    self.told[stream.headers["Glovebox-Run"]] = None

    def detached(self):
        self.take(self.server.post("/v1/runs", {"code": "import time; print('on', flush=True); time.sleep(30)", "detach": True}))

    def in_session(self):
        if not self.sessions:
            answer = self.take(self.server.post("/v1/sessions", {}))
            if answer.status == 201:
                self.sessions.add(answer.json["id"])
            return
        session = self.chance.choice(sorted(self.sessions))
        self.take(self.server.post(f"/v1/sessions/{session}/runs", {"code": "x = 1; print('b'); x", **self.chance.choice([{}, {"context": None}])}))

    def end_session(self):
        if self.sessions and self.chance.random() < 0.5:
            session = self.sessions.pop()
            assert self.server.delete(f"/v1/sessions/{session}").status in (204, 404)

    def keyed(self):
        if self.keys and self.chance.random() < 0.3:
            key = self.chance.choice(sorted(self.keys))
        else:
            key = os.urandom(8).hex()
            body = {"code": f"open('notes', 'a').write('{key}\\n')", "workspace": {"path": str(self.notes)}}
            self.keys[key] = ("/v1/runs", body)
        path, body = self.keys[key]
        self.take(self.server.post(path, body, headers={"Idempotency-Key": key}))


def check(server, clients, notes):
    assert server.used() == {"sessions": 0, "runs": 0, "memory_bytes": 0} and server.get("/v1/sessions").json["sessions"] == []
    for state in ("queued", "running"):
        assert server.get(f"/v1/runs?state={state}").json["runs"] == []
    for client in clients:
        for run in client.known | set(client.told):
            now = server.get(f"/v1/runs/{run}").expect(200).json
            assert now["state"] == "ended" and ("error" in now["result"] or now["result"]["verdict"]["kind"]), now
            if client.told.get(run):
                assert now == client.told[run]
            elif run not in client.told:
                assert now["result"].get("error") or now["result"]["verdict"]["kind"] in ("ok", "error", "lost", "cancelled"), now
            with server.get(f"/v1/runs/{run}/events", stream=True) as stream:
                events = list(stream)
            assert [e["seq"] for e in events] == list(range(now["events"])) and events[-1]["event"] in ("verdict", "error")
    # Once more with each key: what had begun is not done again.
    before = (notes / "notes").read_text().split() if (notes / "notes").exists() else []
    assert len(before) == len(set(before)), "code ran twice"
    new = 0
    for client in clients:
        for key, (path, body) in client.keys.items():
            answer = server.post(path, body, headers={"Idempotency-Key": key})
            replayed = "Idempotency-Replayed" in answer.headers
            assert answer.status in (200, 409, 503) and (replayed or key not in before), (key, answer.explain())
            new += not replayed and answer.status == 200
    after = (notes / "notes").read_text().split() if (notes / "notes").exists() else []
    assert len(after) == len(set(after)) and len(after) <= len(before) + new


@pytest.mark.parametrize("round", range(ROUNDS))
def test_killed_at_any_moment(scratch, round):
    notes = scratch / "notes"
    notes.mkdir()
    server = Server(warm=["python"])
    try:
        server.start()
        os.chown(notes, server.uid, server.uid)
        chance, stop = random.Random(f"{round} {os.environ.get('GLOVEBOX_CRASH_SEED', '')}"), threading.Event()
        clients = [Client(server, f"{round} {n}", notes) for n in range(CLIENTS)]
        errors = []

        def work(client):
            try:
                client.work(stop)
            except BaseException as error:  # told below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        time.sleep(chance.random() * 2.5)
        stop.set()
        server.kill()  # waits until nothing lives that lived below it
        for thread in threads:
            thread.join()
        assert not errors, errors
        server.start()
        check(server, clients, notes)
        assert server.run("print(1)")["result"]["stdout"] == "1\n"
    finally:
        server.close()
