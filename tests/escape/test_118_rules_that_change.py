# SPDX-License-Identifier: Apache-2.0
"""118. The rules of a session change while tunnels are open, in both directions and again and again; the proxy dies in between; a remote caller asks for more than he may =>
what is new is judged by the new rules, what is open and would not pass any more is cut, the rest stays; never anything that no rules let pass.
"""
import os
import signal
import threading

import pytest
from conftest import wait_until
from internet import CLIENT, answers, internet, net_server, proxies  # noqa: F401

POLICY = {"network_mode": "allowlist", "network_allow": ["tcp://a.example.com:9000", "tcp://b.example.com:9000"]}
ECHO = """
import os, time
def open_one(name):
    s, status, _ = connect(f"{name}.example.com:9000")
    return s if status == 200 else None
def works(s):
    try:
        s.sendall(b"x")
        return s.recv(1) == b"x"
    except OSError:
        return False
def wait_for(name):
    while not os.path.exists("/workspace/" + name):
        time.sleep(0.01)
"""


def echo(plain):
    while data := plain.recv(100):
        plain.sendall(data)


@pytest.fixture
def hosts(internet):
    return {name: internet.raw(f"{name}.example.com", echo, port=9000) for name in "abc"}


@pytest.fixture
def session(net_server):
    made = net_server.session(policy=POLICY)
    yield made
    net_server.delete(f"/v1/sessions/{made}").expect(204)


def change(server, session, *rules, **fields):
    return server.request("PUT", f"/v1/sessions/{session}/network", json={"allow": list(rules), **fields})


def say(server, session, name):
    server.put(f"/v1/sessions/{session}/files/{name}").expect(201)


def test_narrower(net_server, session, hosts):
    """a stays, b is cut, c was never there."""
    code = CLIENT + ECHO + """
a, b = open_one("a"), open_one("b")
before = [works(a), works(b), open_one("c") is not None]
open("/workspace/open", "w").close()
wait_for("changed")
report(before, [works(a), works(b), open_one("a") is not None, open_one("b") is not None, open_one("c") is not None])
"""
    run = net_server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"]
    assert wait_until(lambda: net_server.get(f"/v1/sessions/{session}/files/open").status == 200, 20)
    shown = change(net_server, session, "tcp://a.example.com:9000").expect(200).json
    assert len(shown["rules"]) == 1
    say(net_server, session, "changed")
    before, after = answers(net_server.wait_run(run)["result"])
    assert before == [True, True, False] and after == [True, False, True, False, False], (before, after)
    assert hosts["b"].accepted == 1 and hosts["c"].accepted == 0


def test_emptied(net_server, session, hosts):
    """An empty list takes everything, from what is open, too; and wider ones give it back for what is new."""
    code = CLIENT + ECHO + """
a = open_one("a")
open("/workspace/open", "w").close()
wait_for("empty")
first = [works(a), open_one("a") is not None]
open("/workspace/seen", "w").close()
wait_for("wide")
report(first, [works(a), open_one("a") is not None, open_one("c") is not None])
"""
    run = net_server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"]
    assert wait_until(lambda: net_server.get(f"/v1/sessions/{session}/files/open").status == 200, 20)
    change(net_server, session).expect(200)
    say(net_server, session, "empty")
    assert wait_until(lambda: net_server.get(f"/v1/sessions/{session}/files/seen").status == 200, 20)
    change(net_server, session, "tcp://*.example.com:9000").expect(200)
    say(net_server, session, "wide")
    assert answers(net_server.wait_run(run)["result"]) == [[False, False], [False, True, True]]


def test_range_is_taken_away(internet, net_server):
    """The rule stays, the address behind the name may not be dialled any more: what is open to it is cut, too."""
    inner = internet.raw("in.example.com", echo, port=9000, address="10.9.8.7")
    rule = "tcp://in.example.com:9000"
    session = net_server.session(policy={"network_mode": "allowlist", "network_allow": [rule], "network_ranges": ["10.0.0.0/8"]})
    code = CLIENT + ECHO + """
a = open_one("in")
before = works(a)
for i in range(2):
    open(f"/workspace/open{i}", "w").close()
    wait_for(f"changed{i}")
    before = [before, works(a)]
report(before, open_one("in") is not None)
"""
    run = net_server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"]
    for i, ranges in enumerate((["10.9.0.0/16"], [])):
        assert wait_until(lambda: net_server.get(f"/v1/sessions/{session}/files/open{i}").status == 200, 20)
        change(net_server, session, rule, ranges=ranges).expect(200)
        say(net_server, session, f"changed{i}")
    assert answers(net_server.wait_run(run)["result"]) == [[[True, True], False], False] and inner.accepted == 1
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_refused_changes(net_server, session, hosts):
    """A change with a mistake changes nothing."""
    code = CLIENT + ECHO + "report(open_one('a') is not None, open_one('c') is not None)"
    for rules in (["tcp://c.example.com:9000", "no rule at all"], ["tcp://c.example.com:99999"], [{"host": "c.example.com", "port": 9000}], "tcp://c.example.com:9000", [None], [["*"]]):
        answer = net_server.request("PUT", f"/v1/sessions/{session}/network", json={"allow": rules})
        assert answer.status in (400, 422), answer.explain()
    assert net_server.request("PUT", f"/v1/sessions/{session}/network", json={}).status == 400
    assert net_server.request("PUT", f"/v1/sessions/{session}/network", json={"allow": [], "ranges": ["10.0.0.0/33"]}).status == 400
    assert answers(net_server.run(code, session)["result"]) == [True, False]


def test_changed_and_killed(net_server, session, hosts):
    """The new proxy has the last rules, not the first ones."""
    code = CLIENT + ECHO + "report(*(open_one(name) is not None for name in 'abc'))"
    assert answers(net_server.run(code, session)["result"]) == [True, True, False]
    change(net_server, session, "tcp://c.example.com:9000").expect(200)
    for _ in range(3):
        for pid in proxies(net_server.pid):
            os.kill(pid, signal.SIGKILL)
        assert answers(net_server.run(code, session)["result"]) == [False, False, True]


def test_race(net_server, session, hosts):
    """Rules change all the time while connections are opened: a tunnel to c never."""
    stop, statuses = threading.Event(), []

    def change_often():
        while not stop.is_set():
            statuses.append(change(net_server, session).status)
            statuses.append(change(net_server, session, "tcp://a.example.com:9000").status)

    thread = threading.Thread(target=change_often)
    thread.start()
    try:
        code = CLIENT + ECHO + """
found = {"a": set(), "c": set()}
for i in range(150):
    for name in found:
        try:
            s, status, _ = connect(f"{name}.example.com:9000")
            s.close()
        except OSError:
            status = 0
        found[name].add(status)
report(sorted(found["a"]), sorted(found["c"]))
"""
        result = net_server.run(code, session)["result"]
    finally:
        stop.set()
        thread.join()
    a, c = answers(result)
    assert set(a) <= {0, 200, 403} and set(c) <= {0, 403} and hosts["c"].accepted == 0, (a, c)
    assert set(statuses) == {200} and len(statuses) > 4, statuses
    change(net_server, session, *POLICY["network_allow"]).expect(200)
    assert answers(net_server.run(CLIENT + ECHO + "report(*(open_one(name) is not None for name in 'abc'))", session)["result"]) == [True, True, False]


def test_only_narrower_from_afar(internet, hosts):
    """A caller with a token gets no more than the operator's policy has."""
    policy = "network_mode: allowlist\nnetwork_allow:\n  - tcp://a.example.com:9000\n  - http://b.example.com/api/\nnetwork_requests: 100\n"
    with internet.server(tcp=True, policy=policy) as server:
        token = server.token("alfa")
        session = server.post("/v1/sessions", {}, token=token).expect(201).json["id"]
        path = f"/v1/sessions/{session}/network"
        for body in ({"allow": ["tcp://c.example.com:9000"]}, {"allow": ["tcp://*:9000"]}, {"allow": ["tcp://a.example.com:1-65535"]}, {"allow": ["http://b.example.com/other/"]},
                     {"allow": ["tcp://a.example.com:9000"], "ranges": ["10.0.0.0/8"]}, {"allow": ["tcp://a.example.com:9000"], "requests": 0}, {"allow": ["tcp://a.example.com:9000"], "requests": 101},
                     {"allow": [{"host": "a.example.com", "protocol": "tcp", "ports": [9000], "headers": {"X": "y"}}]}):
            answer = server.request("PUT", path, json=body, token=token)
            assert answer.status in (400, 403), (body, answer.explain())
        shown = server.request("PUT", path, json={"allow": ["http://b.example.com", "tcp://a.example.com:9000"]}, token=token).expect(200).json
        assert [rule["rule"] for rule in shown["rules"]] == ["http://b.example.com:80/api/", "tcp://a.example.com:9000"], shown  # all of it is what there is
        for fields in ({"network_mode": "host"}, {"network_mode": "allowlist", "network_allow": ["*"]}, {"network_ranges": ["0.0.0.0/0"]}):
            answer = server.post("/v1/sessions", {"policy": fields}, token=token)
            assert answer.status in (400, 403), (fields, answer.explain())
        code = CLIENT + ECHO + "report(*(open_one(name) is not None for name in 'abc'))"
        assert answers(server.post(f"/v1/sessions/{session}/runs", {"code": code}, token=token).result) == [True, False, False]
        assert server.request("PUT", path, json={"allow": []}, token=token).status == 200
        assert answers(server.post(f"/v1/sessions/{session}/runs", {"code": code}, token=token).result) == [False, False, False]
