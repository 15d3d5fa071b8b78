#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One server, many clients, short runs: every result must be true.

    tests/soak/truth.py [--runs 50000] [--clients 32] [--seed N]

Each client runs programs of tests/endings.py, whose results are known before they run: exit statuses, signals,
exceptions, compile errors, limits, cancels, orphans; in boxes of their own, as programs of sessions and in contexts;
waited for, streamed, or detached and asked for later. Verdict, exit status, signal, phase, output and HTTP status are
compared with the outcomes that the program can have. Results are also read from the journal, which must tell the same.

Prints a line while it works on a terminal, and at the end the rate and the kinds of runs. The exit status is 1 when a
result was wrong; the first of them are printed completely, with a histogram of all. With the same seed, number of
runs and clients every client runs the same programs in the same order. $GLOVEBOX is the program whose server is used.
"""

import argparse
import collections
import contextlib
import http.client
import json as jsonlib
import os
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import isolation  # noqa: E402
from cgroups import OwnGroups  # noqa: E402
from ending import Outcome, outcome_of, show  # noqa: E402
from endings import ENDINGS, SMALL, draw  # noqa: E402
from server import NDJSON, Server, birth, wait_for  # noqa: E402

PATIENCE = 120  # seconds for one answer: a run that takes longer hangs
SHOWN = 5  # wrong results that are printed completely
WRONG_MAX = 200  # wrong results that end the soak
LANGUAGES_MIN = 5
RETRY_SECONDS = (
    0.05  # after a refusal; the server says a second, which is for clients that have something else to do
)
REST = 60  # seconds within which everything is gone
NOTHING = {"sessions": 0, "runs": 0, "memory_bytes": 0}


class Wrong(Exception):
    """An answer that is not a result: (expected, received)."""


class Over(Exception):
    """The soak is being ended."""


class Client(threading.Thread):
    """Draws stories until its number of runs is done. Nothing that depends on time draws from `chance`, so that the
    stories are the same each time."""

    def __init__(self, soak, number, runs):
        super().__init__(daemon=True, name=f"client {number}")
        self.soak, self.number, self.runs = soak, number, runs
        self.chance = random.Random(f"{soak.seed} {number}")
        self.connection, self.done, self.refused, self.counts = None, 0, 0, collections.Counter()
        self.history, self.opened = [], []  # the earlier runs of the present story, and its session

    def run(self):
        stories = [
            (70, self.once),
            (6, self.once_with_limits),
            (8, self.session),
            (3, self.session_with_limits),
            (3, self.crowded_session),
            (2, self.deleted_session),
            (2, self.retried),
            (2, self.left),
        ]
        while self.done < self.runs and not self.soak.over.is_set():
            _, story = self.chance.choices(stories, [weight for weight, _ in stories])[0]
            self.history, self.opened = [], []
            try:
                story()
            except Over:
                pass
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, Wrong) as error:
                expected, got = error.args if isinstance(error, Wrong) else ("an answer", repr(error))
                self.soak.report(self, story.__name__, expected, got)
                self.connection = None
            for path in self.opened:  # the story broke off
                with contextlib.suppress(OSError, http.client.HTTPException):
                    self.soak.server.delete(path)
        if self.connection:
            self.connection.close()

    # ---- requests ----

    def ask(self, method, path, json=None, good=(200,), headers=None, stream=False):
        """The JSON of an answer with such a status, or the response of a stream. A request that admission has refused
        is counted and sent again."""
        body = None if json is None else jsonlib.dumps(json)
        headers = {
            **({"Content-Type": "application/json"} if body else {}),
            **({"Accept": NDJSON} if stream else {}),
            **(headers or {}),
        }
        while True:
            if self.soak.over.is_set():
                raise Over
            self.connection = self.connection or self.soak.server.connection(timeout=PATIENCE)
            self.connection.request(method, path, body, headers)
            response = self.connection.getresponse()
            if stream and response.status == 200:
                return response
            text = response.read()
            if response.status not in (429, 503) or not response.headers.get("Retry-After"):
                break
            self.refused += 1
            time.sleep(RETRY_SECONDS)
        if response.status not in good:
            raise Wrong(
                f"{method} {path.split('/')[2]}: HTTP {good[0]}",
                f"HTTP {response.status} {text[:2000].decode(errors='replace')}",
            )
        return jsonlib.loads(text) if text else None

    def events(self, response):
        """Those of a stream, with their numbers in order."""
        seen = []
        for line in response:
            event = jsonlib.loads(line)
            if event["event"] == "ping":
                continue
            if event["seq"] != len(seen):
                raise Wrong(f"event {len(seen)}", str(event))
            seen.append(event)
            yield event

    # ---- one run, in one of the ways in which a client can have its result ----

    def have(self, path, ending, **fields):
        """Runs it, and compares."""
        way = self.chance.choice(("wait", "wait", "wait", "stream", "detach"))
        if ending.cancel:
            run = self.cancelled(path, ending, fields)
        elif way == "wait":
            run = self.ask("POST", path, {**ending.request(), **fields})
        elif way == "stream":
            run = self.streamed(path, ending, fields)
        else:
            run = self.wait(self.ask("POST", path, {**ending.request(), **fields, "detach": True}, (202,))["id"])
        self.compare(ending, run)
        if self.chance.random() < 0.1:
            self.again(ending, run)

    def compare(self, ending, run):
        result = run.get("result")
        problem = "not ended" if run.get("state") != "ended" else ending.problem(result)
        self.done += 1
        self.counts[ending.name] += 1
        self.history.append(f"{ending!r} {ending.code!r}")
        if problem:
            self.soak.report(self, repr(ending), " or ".join(map(show, ending.outcomes)), problem, ending, run)

    def streamed(self, path, ending, fields):
        """A run object made of its events."""
        output, error, last = "", None, None
        for event in self.events(self.ask("POST", path, {**ending.request(), **fields}, stream=True)):
            last = event
            if event["event"] == "stdout":
                output += event.get("data", "")
            elif event["event"] == "exception":
                error = event["error"]
        if not last or last["event"] != "verdict":
            raise Wrong("a last event with the verdict", str(last))
        result = {**last, "stdout": output, **({"error": error} if "state" in last else {})}
        return {"id": result["id"], "state": "ended", "result": result}

    def cancelled(self, path, ending, fields):
        """Cancelled as soon as it has printed its line."""
        run = self.ask("POST", path, {**ending.request(), **fields, "detach": True}, (202,))["id"]
        events = self.ask("GET", f"/v1/runs/{run}/events", stream=True)
        kinds = []
        for event in self.events(events):
            kinds.append(event["event"])
            if event["event"] == "stdout":
                break
        if "stdout" in kinds:
            self.connection.close()  # in the midst of the stream
            self.ask("POST", f"/v1/runs/{run}/cancel", {"kill": ending.cancel == "kill"}, (202, 409))
        return self.wait(run)

    def wait(self, run):
        end, pause = time.monotonic() + PATIENCE, 0.002
        while (found := self.ask("GET", f"/v1/runs/{run}"))["state"] != "ended":
            if time.monotonic() > end:
                raise Wrong("an end", str(found))
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
        return found

    def again(self, ending, run):
        """A reported result does not change: in the journal, and after a cancel that comes too late."""
        if self.chance.random() < 0.5:
            self.ask("POST", f"/v1/runs/{run['id']}/cancel", {"kill": True}, (202, 409))
        found = self.ask("GET", f"/v1/runs/{run['id']}")
        if outcome_of(found["result"]) != outcome_of(run["result"]) or found["result"].get("stdout") != run[
            "result"
        ].get("stdout"):
            self.soak.report(
                self,
                f"{ending!r}, read again",
                show_result(run["result"]),
                show_result(found["result"]),
                ending,
                found,
            )

    # ---- stories ----

    def once(self):
        self.have("/v1/runs", draw(self.chance, "program", self.soak.languages), **self.fresh())

    def once_with_limits(self):
        self.have("/v1/runs", draw(self.chance, "limits", self.soak.languages), **self.fresh())

    def fresh(self):
        """Python comes from the template or from an exec."""
        return {"template": None} if self.chance.random() < 0.2 else {}

    def open_session(self, **fields):
        if self.chance.random() < 0.3:
            fields["template"] = None
        self.opened.append("/v1/sessions/" + self.ask("POST", "/v1/sessions", fields, (201,))["id"])
        return self.opened[0]

    def close_session(self, path):
        self.ask("DELETE", path, good=(204,))
        self.opened.clear()

    def session(self):
        """Programs and contexts, one after the other."""
        path = self.open_session()
        for _ in range(self.chance.randrange(1, 8)):
            if self.chance.random() < 0.5:
                self.have(f"{path}/runs", draw(self.chance, "context", self.soak.languages))
            else:
                self.have(f"{path}/runs", draw(self.chance, "program", self.soak.languages), context=None)
        self.close_session(path)

    def session_with_limits(self):
        path = self.open_session(policy=SMALL)
        for _ in range(self.chance.randrange(1, 4)):
            ending = draw(self.chance, "limits", self.soak.languages)
            if ending.fields.pop("policy") != SMALL:
                continue  # not the policy of this session
            self.have(f"{path}/runs", ending, context=None)
            if ending.spoils:
                break
        self.close_session(path)

    def crowded_session(self):
        """Several programs and contexts of one session at the same time."""
        path, begun = self.open_session(), []
        for _ in range(self.chance.randrange(2, 6)):
            ending = draw(self.chance, "program", self.soak.languages)
            if not ending.cancel:
                begun.append(
                    (
                        ending,
                        self.ask(
                            "POST", f"{path}/runs", {**ending.request(), "context": None, "detach": True}, (202,)
                        )["id"],
                    )
                )
        self.have(f"{path}/runs", draw(self.chance, "context", self.soak.languages))
        for ending, run in begun:
            self.compare(ending, self.wait(run))
        self.close_session(path)

    def deleted_session(self):
        """Runs in a session that is deleted are cancelled, unless they have ended."""
        path, begun = self.open_session(), []
        for _ in range(2):
            ending = draw(self.chance, "program", self.soak.languages).may_be_cancelled()
            if not ending.cancel:
                begun.append(
                    (
                        ending,
                        self.ask(
                            "POST", f"{path}/runs", {**ending.request(), "context": None, "detach": True}, (202,)
                        )["id"],
                    )
                )
        self.close_session(path)
        for ending, run in begun:
            self.compare(ending, self.wait(run))

    def retried(self):
        """The same key twice: one run, and one result."""
        ending, key = draw(self.chance, "program", self.soak.languages), {
            "Idempotency-Key": f"{self.number}-{self.chance.getrandbits(64):x}"
        }
        if ending.cancel:
            return
        first, second = (self.ask("POST", "/v1/runs", ending.request(), headers=key) for _ in range(2))
        self.compare(ending, first)
        if (second["id"], outcome_of(second["result"])) != (first["id"], outcome_of(first["result"])):
            self.soak.report(
                self,
                f"{ending!r}, asked for again",
                show_result(first["result"]),
                show_result(second["result"]),
                ending,
                second,
            )

    def left(self):
        """The client goes away, which cancels the run."""
        ending = draw(self.chance, "program", self.soak.languages).may_be_cancelled()
        response = self.ask("POST", "/v1/runs", {**ending.request(), "on_disconnect": "cancel"}, stream=True)
        run = response.headers["Glovebox-Run"]
        self.connection.close()
        self.compare(ending, self.wait(run))


def show_result(result):
    found = outcome_of(result)
    return show(found) if isinstance(found, Outcome) else found


class Soak:
    def __init__(self, server, options):
        self.server, self.seed = server, options.seed
        self.over, self.lock, self.wrong, self.histogram = (
            threading.Event(),
            threading.Lock(),
            [],
            collections.Counter(),
        )
        self.languages = self.find_languages()
        self.clients = [
            Client(self, i, options.runs // options.clients + (i < options.runs % options.clients))
            for i in range(options.clients)
        ]

    def find_languages(self):
        named = {name for table in ENDINGS.values() for _, _, names in table for name in names}
        found = {
            row["name"] for row in self.server.get("/v1/languages").expect(200).json["languages"] if row["found"]
        } & named
        assert (
            len(found) >= LANGUAGES_MIN
        ), f"this host has {sorted(found)} only, and {LANGUAGES_MIN} languages are needed"
        return found

    def report(self, client, name, expected, got, ending=None, run=None):
        with self.lock:
            self.wrong.append((client, client.done, client.history[:-1], name, expected, got, ending, run))
            self.histogram[
                expected if ending is None else name, got if run is None else show_result(run.get("result"))
            ] += 1
            if len(self.wrong) >= WRONG_MAX:
                self.over.set()

    @property
    def done(self):
        return sum(client.done for client in self.clients)

    def work(self):
        """True when it came to its end; false when it was interrupted."""
        began, total, terminal = time.monotonic(), sum(client.runs for client in self.clients), sys.stdout.isatty()
        for client in self.clients:
            client.start()
        try:
            while any(client.is_alive() for client in self.clients):
                for client in self.clients:
                    client.join(0.5)
                    if client.is_alive():
                        break
                seconds = time.monotonic() - began
                if terminal:
                    print(
                        f"\r{self.done} of {total} runs, {self.done / seconds:.0f} a second, {len(self.wrong)} wrong ",
                        end="",
                        flush=True,
                    )
        except KeyboardInterrupt:
            self.over.set()
            print("\ninterrupted: waits for the runs that go on", flush=True)
            for client in self.clients:
                client.join(PATIENCE)
            return False
        finally:
            self.seconds = time.monotonic() - began
        if terminal:
            print()
        return True

    def show(self):
        counts, refused = sum((client.counts for client in self.clients), collections.Counter()), sum(
            client.refused for client in self.clients
        )
        print(
            f"{self.done} runs by {len(self.clients)} clients in {', '.join(sorted(self.languages))}: "
            f"{self.seconds:.1f} s, {self.done / self.seconds:.0f} a second, {refused} refused and asked again"
        )
        print("  " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
        for client, at, history, name, expected, got, ending, run in self.wrong[:SHOWN]:
            print(f"\nWRONG: client {client.number}, its run {at}: {name}\n  expected: {expected}\n  got: {got}")
            for before in history:
                print(f"  before it, in the same story: {before}")
            if ending:
                print(f"  code: {ending.code!r} {ending.fields if 'stdin' not in ending.fields else ''}")
            if run:
                print("  " + jsonlib.dumps(run))
        if self.wrong:
            print("\ntimes   expected -> got")
            for (expected, got), n in self.histogram.most_common(40):
                print(f"{n:5}   {expected[:100]} -> {got[:200]}")
        print(f"{len(self.wrong)} wrong")


def check_nothing_left(server, groups, before):
    """Ends the server; nothing of it may be there afterwards."""
    wait_for(lambda: server.used() == NOTHING, REST)
    family = {pid: birth(pid) for pid in server.processes()}
    assert server.stop() == 0, server.output()
    wait_for(lambda: not [pid for pid, born in family.items() if born and birth(pid) == born], REST)
    wait_for(lambda: not groups.boxes(), REST)
    left = isolation.current.mounts() - before  # others of this machine may have some for a while
    wait_for(lambda: not left & isolation.current.mounts(), REST)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50_000, help="how many (default 50000)")
    parser.add_argument("--clients", type=int, default=32, help="how many at a time (default 32)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(number, signal.default_int_handler)
    good, before = False, isolation.current.mounts()
    with OwnGroups() as groups:
        server = Server(warm=["python"] if groups.environ else [], journal_runs=20_000, environ=groups.environ)
        try:
            server.start()
            soak = Soak(server, options)
            through = soak.work()
            soak.show()
            check_nothing_left(server, groups, before)
            good = through and not soak.wrong
        except AssertionError as failure:
            print(f"\nBAD: {failure}\n{server.output()}")
        finally:
            if server.process:
                server.kill()
            server.close()
    print("every result was true; nothing was left" if good else "BAD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
