# SPDX-License-Identifier: Apache-2.0
"""Sessions under everybody's hands at once: whatever the order, every answer is true of one, and nothing is left."""
import os
import random
import threading
import time

import pytest
from server import Server, in_threads, server, wait_for

NOTHING = {"sessions": 0, "runs": 0, "memory_bytes": 0}


def kind(run):
    return run["result"]["verdict"]["kind"]


def ended_well(server, run):
    """A run that was accepted has an end, whatever became of its session."""
    answer = server.wait_run(run)
    assert answer["state"] == "ended" and ("error" in answer["result"] or kind(answer)), answer
    return answer


def test_103_delete_during_a_run(server):
    for pause in (0, 0.001, 0.005, 0.02, 0.1):
        session = server.session()
        body = {"code": "import time; print('on', flush=True); time.sleep(30); print('not reached')"}
        answers = []
        thread = threading.Thread(target=lambda: answers.append(server.post(f"/v1/sessions/{session}/runs", body)))
        thread.start()
        time.sleep(pause)
        server.delete(f"/v1/sessions/{session}").expect(204)
        thread.join()
        assert answers[0].status in (200, 404), answers[0].explain()
        if answers[0].status == 200:
            assert kind(answers[0].json) == "cancelled" and "not reached" not in answers[0].json["result"]["stdout"]
        assert server.used() == NOTHING


def test_103_delete_twice(server):
    for _ in range(10):
        session = server.session()
        marker = f"marker{os.urandom(8).hex()}"
        server.run(f"import subprocess; p = subprocess.Popen(['sh', '-c', 'sleep 1000; : {marker}'])", session)
        statuses = sorted(a.status for a in in_threads([lambda: server.delete(f"/v1/sessions/{session}")] * 4))
        assert statuses[0] == 204 and set(statuses) <= {204, 404}
        # 204 means gone, for each who got it.
        assert not server.find(marker)
    assert server.used() == NOTHING


def test_103_delete_during_creation(server):
    """The id is not known before; so everything that becomes known is deleted at once, while others are made."""
    stop = threading.Event()

    def end_all():
        while not stop.is_set():
            for session in server.get("/v1/sessions").expect(200).json["sessions"]:
                assert server.delete(f"/v1/sessions/{session['id']}").status in (204, 404)

    enders = [threading.Thread(target=end_all) for _ in range(2)]
    for ender in enders:
        ender.start()
    answers = sum(in_threads([lambda: [server.post("/v1/sessions", {}) for _ in range(10)]] * 4), [])
    stop.set()
    for ender in enders:
        ender.join()
    assert {a.status for a in answers} == {201}, {a.explain() for a in answers if a.status != 201}
    for answer in answers:
        server.delete(f"/v1/sessions/{answer.json['id']}")
    assert server.used() == NOTHING


def test_103_delete_during_a_file(server):
    for _ in range(5):
        session = server.session()
        assert server.put(f"/v1/sessions/{session}/files/big", b"x" * (8 << 20)).status in (200, 201)
        answers = in_threads([lambda: server.get(f"/v1/sessions/{session}/files/big"), lambda: server.delete(f"/v1/sessions/{session}")])
        assert answers[1].status == 204
        assert answers[0].status in (200, 404) and (answers[0].status == 404 or answers[0].body == b"x" * (8 << 20))
    assert server.used() == NOTHING


def test_104_a_run_at_the_moment_of_expiry():
    """Runs end about when the idle time does: each run is whole, or there is no session."""
    with Server() as server:
        seen = set()

        def live(i):
            session = server.session(idle_timeout=1)
            first = server.post(f"/v1/sessions/{session}/runs", {"code": "x = 41"})
            if first.status == 404:  # twenty at once: it may have come too late
                return 404
            first.expect(200)
            time.sleep(0.9 + 0.01 * (i % 40))
            answer = server.post(f"/v1/sessions/{session}/runs", {"code": "x + 1"})
            if answer.status == 200:
                assert answer.json["result"]["results"][0]["data"]["text/plain"] == "42", answer.explain()
            else:
                assert (answer.status, answer.code) == (404, "not_found"), answer.explain()
            return answer.status

        for _ in range(2):
            seen |= set(in_threads([lambda i=i: live(i) for i in range(20)]))
        assert seen <= {200, 404}
        wait_for(lambda: server.used() == NOTHING)


def test_104_lifetime_at_the_moment_of_a_run():
    with Server() as server:
        def live(i):
            session = server.session(max_lifetime=1)
            time.sleep(0.8 + 0.02 * (i % 20))
            return server.post(f"/v1/sessions/{session}/runs", {"code": "import time; time.sleep(0.2); 'whole'"})

        for answer in in_threads([lambda i=i: live(i) for i in range(20)]):
            assert answer.status in (200, 404), answer.explain()
            if answer.status == 200:
                assert kind(answer.json) in ("ok", "cancelled"), answer.explain()
                assert kind(answer.json) == "cancelled" or answer.json["result"]["results"][0]["data"]["text/plain"] == "'whole'"
        wait_for(lambda: server.used() == NOTHING)


def test_194_cancel_at_each_state(server):
    for i in range(40):
        headers = None
        run = server.post("/v1/runs", {"code": "import time; print('a', flush=True); time.sleep(0.05)", "detach": True}, headers=headers).expect(202).json["id"]
        time.sleep(0.002 * (i % 20))
        server.post(f"/v1/runs/{run}/cancel", {"kill": i % 2 == 0}).expect(202)
        assert kind(server.wait_run(run)) in ("ok", "cancelled", "error"), server.get(f"/v1/runs/{run}").json["result"]["verdict"]
    wait_for(lambda: server.used() == NOTHING)


def test_194_two_runs_in_one_session(server):
    session = server.session()
    for _ in range(10):
        answers = in_threads([lambda: server.post(f"/v1/sessions/{session}/runs", {"code": "import time; time.sleep(0.02)"})] * 2)
        assert sorted(a.status for a in answers) in ([200, 200], [200, 409])
    server.delete(f"/v1/sessions/{session}").expect(204)


def test_194_storms():
    """More than there may be, from many threads: refused, never wrong."""
    with Server(tenant_sessions=6, tenant_runs=4) as server:
        def storm(n):
            chance, statuses = random.Random(n), []
            for _ in range(25):
                answer = server.post("/v1/sessions", {"idle_timeout": chance.choice([1, 60])})
                statuses.append(("create", answer.status))
                if answer.status != 201:
                    continue
                session = answer.json["id"]
                for _ in range(chance.randrange(3)):
                    statuses.append(("run", server.post(f"/v1/sessions/{session}/runs", {"code": "1", "detach": chance.random() < 0.5}).status))
                statuses.append(("delete", server.delete(f"/v1/sessions/{session}").status))
            return statuses

        seen = set(sum(in_threads([lambda n=n: storm(n) for n in range(12)]), []))
        assert seen <= {("create", 201), ("create", 429), ("run", 200), ("run", 202), ("run", 429), ("run", 409), ("run", 404), ("delete", 204), ("delete", 404)}, seen
        assert ("create", 429) in seen
        wait_for(lambda: server.used() == NOTHING)
        assert server.get("/v1/runs?state=running").json["runs"] == []


class Model:
    """What one session must be like, as far as one thread of requests can know."""

    def __init__(self):
        self.alive, self.x, self.files, self.going = False, None, {}, None


def step(server, chance, state, log):
    """One request, and whether its answer fits the model."""
    action = chance.choice(["create", "run", "run", "set", "begin", "cancel", "wait", "delete", "file", "look", "context", "restart"])
    log.append(action)
    path = f"/v1/sessions/{state.id}" if state.alive else "/v1/sessions/" + "0" * 32
    default_busy = state.alive and state.going is not None
    if action == "create":
        if state.alive:
            return
        state.__init__()
        state.id, state.alive = server.session(idle_timeout=600), True
    elif action in ("run", "set"):
        value = chance.randrange(1000)
        code = f"x = {value}" if action == "set" else "x"
        answer = server.post(f"{path}/runs", {"code": code})
        assert answer.status == (404 if not state.alive else 409 if default_busy else 200), (action, answer.explain())
        if answer.status == 200 and action == "set":
            state.x = value
        elif answer.status == 200:
            result = answer.json["result"]
            got = result["error"]["name"] if result["error"] else result["results"][0]["data"]["text/plain"]
            assert got == ("NameError" if state.x is None else str(state.x)), (got, state.x)
    elif action == "begin" and not default_busy:
        answer = server.post(f"{path}/runs", {"code": "import time; time.sleep(1000)", "detach": True, "timeout": 200})
        assert answer.status == (202 if state.alive else 404), answer.explain()
        state.going = answer.json["id"] if answer.status == 202 else None
    elif action == "cancel" and state.going:
        server.wait_run(state.going, "running")
        server.post(f"/v1/runs/{state.going}/cancel").expect(202)
        ended = server.wait_run(state.going)
        assert kind(ended) == "cancelled" and ended["result"]["state"]["kept"], ended["result"]["verdict"]
        state.going = None
    elif action == "wait" and state.going:
        assert server.get(f"/v1/runs/{state.going}").json["state"] in ("queued", "running")
    elif action == "delete":
        assert server.delete(path).status == (204 if state.alive else 404)
        if state.going:
            ended = server.get(f"/v1/runs/{state.going}").json
            assert ended["state"] == "ended" and kind(ended) == "cancelled", ended
        state.alive, state.going = False, None
    elif action == "file":
        name, data = f"f{chance.randrange(3)}", os.urandom(chance.randrange(2000))
        if chance.random() < 0.5:
            assert server.put(f"{path}/files/{name}", data).status == (201 if state.alive else 404)
            if state.alive:
                state.files[name] = data
        else:
            answer = server.get(f"{path}/files/{name}")
            assert answer.status == (200 if state.alive and name in state.files else 404), answer.explain()
            assert answer.status == 404 or answer.body == state.files[name]
    elif action == "look":
        answer = server.get(path)
        assert answer.status == (200 if state.alive else 404)
        # A run has ended a moment before it is no longer counted.
        assert not state.alive or wait_for(lambda: server.get(path).json["runs"]["active"] == (1 if state.going else 0))
    elif action == "context":
        answer = server.get(f"{path}/contexts")
        assert answer.status == (200 if state.alive else 404)
    elif action == "restart" and state.alive:
        contexts = server.get(f"{path}/contexts").json["contexts"]
        if contexts:
            answer = server.post(f"{path}/contexts/{contexts[0]['id']}/restart")
            assert answer.status == (409 if default_busy else 200), answer.explain()
            if answer.status == 200:
                state.x = None


@pytest.mark.parametrize("seed", range(6))
def test_194_against_a_model(server, seed):
    """P6: random requests of several threads, each with a session of its own and a model of it."""
    def play(n):
        chance, state, log = random.Random(seed * 100 + n), Model(), []
        try:
            for _ in range(60):
                step(server, chance, state, log)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, player {n}, after {log}") from error
        if state.alive:
            server.delete(f"/v1/sessions/{state.id}").expect(204)

    in_threads([lambda n=n: play(n) for n in range(5)])
    wait_for(lambda: server.used() == NOTHING)
    assert server.get("/v1/sessions").json["sessions"] == []
