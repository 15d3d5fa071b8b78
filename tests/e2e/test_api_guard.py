# SPDX-License-Identifier: Apache-2.0
"""The guard through the API: what is refused before it runs, who may make it weaker, and what is told about it."""
import json
import pathlib
import signal

import pytest
from serving import refused
from server import NDJSON, PATIENCE, Server, wait_for

SOCKET = "open('/var/run/docker.sock')"
LEVELS = "trust_levels:\n  careful:\n    guard: strict\n    scrub: strict\n  loose:\n    guard_rules:\n      host-escape: warn\n  open:\n    guard: 'off'\n"
RULES = """set: house
about: What this house does not want.
code:
  - id: no-turtles
    languages: [python]
    imports: [turtle]
    action: warn
    message: There is no turtle here.
    remedy: Draw with matplotlib.
    examples:
      match: [{python: import turtle}]
      pass: [{python: '# turtle'}]
"""


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True, policy=LEVELS) as running:
        yield running


@pytest.fixture(scope="module")
def token(server):
    return server.token("acme", "run", "metrics")


def rules(findings):
    return {f["rule"]: f["action"] for f in findings}


def metric(server, name):
    lines = server.get("/metrics").expect(200).body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


def test_a_blocked_run(server):
    """It has an end, events and an audit record as any other; nothing was run, and no box was made."""
    before = {name: metric(server, name) for name in ('glovebox_runs_total{verdict="blocked"}', 'glovebox_guard_findings_total{action="block"}')}
    run = server.post("/v1/runs", {"code": f"x = 1\n{SOCKET}", "files": {"a": "b"}}).expect(200).json
    verdict = run["result"]["verdict"]
    assert verdict["kind"] == "blocked" and "container-socket" in verdict["message"] and "line 2, column 6" in verdict["message"]
    assert (run["state"], run["started_at"], run["events"]) == ("ended", None, 1)
    (finding,) = run["result"]["guard"]["findings"]
    assert (finding["rule"], finding["set"], finding["action"], finding["line"], finding["column"]) == ("container-socket", "host-escape", "block", 2, 6)
    assert finding["message"] and finding["remedy"] and run["result"]["guard"]["more"] == 0
    assert server.get(f"/v1/runs/{run['id']}").expect(200).json == run
    (event,) = server.get(f"/v1/runs/{run['id']}/events", headers={"Accept": "application/json"}).json["events"]
    assert (event["event"], event["verdict"], event["guard"]) == ("verdict", verdict, run["result"]["guard"])
    record = server.get("/v1/audit?verdict=blocked&limit=1").expect(200).json["records"][0]
    assert record["run"] == run["id"] and not record["failed"]
    assert record["findings"] == [{"rule": "container-socket", "set": "host-escape", "action": "block", "line": 2, "column": 6}]
    assert {name: metric(server, name) - n for name, n in before.items()} == dict.fromkeys(before, 1)


@pytest.mark.parametrize("fields", [{}, {"context": None}])
def test_in_a_session(server, fields):
    """The state is kept: the interpreter has not even seen it."""
    session = server.session()
    server.run("kept = 41", session)
    with server.post(f"/v1/sessions/{session}/runs", {"code": SOCKET, **fields}, stream=NDJSON) as stream:
        events = list(stream)
    assert [e["event"] for e in events] == ["verdict"] and events[0]["verdict"]["kind"] == "blocked"
    assert server.run("kept + 1", session)["result"]["results"][0]["data"]["text/plain"] == "42"


def test_a_remark_does_not_stop_it(server):
    made = server.run(f"try:\n  {SOCKET}\nexcept OSError: print('ran')", policy={"trust": "loose"})["result"]
    assert made["stdout"] == "ran\n" and rules(made["guard"]["findings"]) == {"container-socket": "warn"}


def test_secrets_in_code_and_stdin(server):
    """Remarked before anything is written down, and not written down."""
    key = "AKIA" + "QYLPMN5HHHFPZAM2"
    run = server.run(f"import sys\nkey = '{key}'\nprint(key, sys.stdin.read())", stdin=f"x {key}")
    result = run["result"]
    assert rules(result["guard"]["findings"]) == {"secret-in-code": "warn", "secret-in-stdin": "warn"}, result["guard"]
    assert next(f["line"] for f in result["guard"]["findings"] if f["rule"] == "secret-in-code") == 2
    assert key not in json.dumps(run) and result["scrubbed"]["total"] == 2, result["stdout"]
    assert server.run(f"key = '{key}'", policy={"trust": "careful"})["result"]["verdict"]["kind"] == "blocked"
    for path in server.state.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path


def test_checking_alone(server, token):
    def check(**body):
        return server.post("/v1/guard/check", body, token=token)

    answer = check(code=f"import selenium\n{SOCKET}").expect(200).json
    assert answer["blocked"] and answer["more"] == 0 and rules(answer["findings"]) == {"browser-automation": "block", "container-socket": "block"}
    assert [f["line"] for f in answer["findings"]] == [1, 2]
    assert check(code="print(1)").expect(200).json == {"blocked": False, "findings": [], "more": 0}
    assert check(code="cat /var/run/docker.sock", language="bash").expect(200).json["blocked"]
    assert not check(code=SOCKET, policy={"trust": "loose"}).expect(200).json["blocked"]
    assert check(code=SOCKET, policy={"trust": "loose", "guard": "strict"}).expect(200).json["blocked"]
    answer = check(code="k = 'the very secret'", secrets={"K": "the very secret"}).expect(200).json
    assert rules(answer["findings"]) == {"secret-in-code": "warn"} and "very" not in json.dumps(answer)
    assert check(code="1", language="klingon").expect(400).error["details"] == {"field": "language"}
    assert check().expect(400).error["details"] == {"field": "code"}
    assert check(code="1", stdin="x").expect(400).code == "usage"
    assert server.post("/v1/guard/check", {"code": "1"}, token=server.token("acme", "read")).expect(403).code == "denied"
    assert server.get("/v1/runs", token=token).json["runs"] == []  # nothing of it is a run


@pytest.mark.parametrize("policy, field", [
    ({"guard": "off"}, "guard"),
    ({"scrub": "off"}, "scrub"),
    ({"trust": "careful", "guard": "on"}, "guard"),
    ({"trust": "careful", "scrub": "on"}, "scrub"),
    ({"guard_rules": {"host-escape": "warn"}}, "guard_rules"),
    ({"guard_rules": {"container-socket": "off"}}, "guard_rules"),
    ({"guard_rules": {"secret-in-code": "log"}}, "guard_rules"),
    ({"guard_rules": {"unreadable-code": "off"}}, "guard_rules"),
    ({"trust": "loose", "guard_rules": {"container-socket": "log"}}, "guard_rules"),
    ({"guard_imports": []}, "guard_imports"),
    ({"guard_imports": ["turtle"]}, "guard_imports"),
])
def test_nobody_makes_it_weaker_from_afar(server, token, policy, field):
    for path in ("/v1/runs", "/v1/guard/check"):
        answer = server.post(path, {"code": "1", "policy": policy}, token=token).expect(403)
        assert answer.code == "denied" and answer.error["details"] == {"field": f"policy.{field}"}, answer.error
    assert server.post("/v1/sessions", {"policy": policy}, token=token).expect(403).code == "denied"
    # The server's own user could do without the server.
    assert server.post("/v1/guard/check", {"code": "1", "policy": policy}).expect(200).json["findings"] == []


@pytest.mark.parametrize("policy, before, code", [
    ({"guard": "strict", "scrub": "strict"}, {}, "open('/home/me/.netrc')"),
    ({"trust": "loose", "guard_rules": {"host-escape": "block"}}, {"trust": "loose"}, SOCKET),
    ({"guard_rules": {"credential-files": "block"}}, {}, "open('/home/me/.netrc')"),
    ({"trust": "open", "guard": "on"}, {"trust": "open"}, SOCKET),
])
def test_stricter_is_for_all(server, token, policy, before, code):
    assert not server.post("/v1/guard/check", {"code": code, "policy": before}, token=token).expect(200).json["blocked"]
    assert server.post("/v1/guard/check", {"code": code, "policy": policy}, token=token).expect(200).json["blocked"]


def test_own_switches_count(server):
    assert server.post("/v1/guard/check", {"code": SOCKET, "policy": {"guard_rules": {"container-socket": "log"}}}).expect(200).json["findings"][0]["action"] == "log"
    assert not server.post("/v1/guard/check", {"code": "import selenium", "policy": {"guard_imports": ["turtle"]}}).expect(200).json["blocked"]
    assert server.run(SOCKET, policy={"guard": "off"})["result"]["verdict"]["kind"] == "error"


@pytest.mark.parametrize("policy, field", [
    ({"guard": "sometimes"}, "guard"), ({"guard": True}, "guard"), ({"guard_rules": {"container-sockets": "log"}}, "guard_rules"), ({"guard_rules": {"host-escape": 1}}, "guard_rules"),
    ({"guard_rules": ["host-escape"]}, "guard_rules"), ({"guard_imports": "os"}, "guard_imports"), ({"guard_imports": ["o s"]}, "guard_imports"),
])
def test_wrong_ones_are_named(server, policy, field):
    answer = server.post("/v1/guard/check", {"code": "1", "policy": policy}).expect(400)
    assert answer.error["details"] == {"field": f"policy.{field}"}, answer.error


def test_levels_tell(server):
    levels = {p["trust"]: (p["guard"], p["scrub"]) for p in server.get("/v1/policies").expect(200).json["policies"]}
    assert levels["careful"] == ("strict", "strict") and levels["open"][0] == "off"
    assert server.post("/v1/sessions", {"policy": {"trust": "careful"}}).expect(201).json["policy"]["guard"] == "strict"


def test_rules_of_the_house():
    """Wrong ones are refused at the start, by file, line and column; at a reload the old ones stay."""
    server = Server()
    place = server.config / "rules"
    place.mkdir()
    (place / "house.yaml").write_text(RULES.replace("action: warn", "action: shout"))
    try:
        said = refused(server, 111)
        assert "house.yaml:7:" in said and "shout" in said, said
        place.rename(server.config / "not-yet")
        server.start()
        turtle = {"code": "import turtle"}
        assert server.post("/v1/guard/check", turtle).expect(200).json["findings"] == []
        (server.config / "not-yet").rename(place)
        (place / "house.yaml").write_text(RULES)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: [f["rule"] for f in server.post("/v1/guard/check", turtle).expect(200).json["findings"]] == ["no-turtles"], PATIENCE)
        (place / "house.yaml").write_text(RULES.replace("action: warn", "action: shout"))
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "house.yaml:7:" in server.output().partition("ready: ")[2], PATIENCE)
        assert "the old ones stay" in server.output()
        assert [f["rule"] for f in server.post("/v1/guard/check", turtle).expect(200).json["findings"]] == ["no-turtles"]
        place.rename(server.config / "not-yet")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.post("/v1/guard/check", turtle).expect(200).json["findings"] == [], PATIENCE)
        assert server.post("/v1/guard/check", {"code": SOCKET}).expect(200).json["blocked"]
    finally:
        server.close()


def test_readers_wait(server):
    """They are there before the first code is, and are nobody special."""
    found = server.find("glovebox-reader")
    assert len(found) > 1
    for pid in found:
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        assert int(status["Uid"].split()[1]) == server.uid, status["Uid"]
