# SPDX-License-Identifier: Apache-2.0
"""What a session may reach, through the API: looked at and changed while it lives, from near and from afar."""
import json

import pytest

from internet import CLIENT, answers, internet  # noqa: F401
from server import wait_for
from session_fixtures import own_warden, sessions  # noqa: F401
from sessions import Refused

POLICY = """network_mode: allowlist
network_allow:
  - api.example.com
  - "*.files.example.com:443,8443"
  - {host: keyed.example.com, protocol: http, paths: [/v1/], headers: {Authorization: Bearer operators-own}}
network_bytes: 10m
network_connections: 32
trust_levels:
  closed:
    network_mode: none
  wide:
    network_mode: host
"""
RULES = ["https://api.example.com:443", "https://*.files.example.com:443,8443"]


@pytest.fixture(scope="module")
def server(internet):  # noqa: F811
    with internet.server(tcp=True, policy=POLICY) as made:
        yield made


@pytest.fixture(scope="module")
def token(server):
    return server.token("acme", "run")


@pytest.fixture(scope="module")
def site(internet):  # noqa: F811
    return internet.site("api.example.com")


@pytest.fixture
def session(server):
    identity = create(server)
    yield identity
    server.request("DELETE", f"/v1/sessions/{identity}")


@pytest.fixture
def far(server, token):
    """A session of somebody with a token."""
    identity = create(server, token)
    yield identity
    server.request("DELETE", f"/v1/sessions/{identity}", token=token)


def create(server, token=None, **policy):
    return server.request("POST", "/v1/sessions", {"policy": policy} if policy else {}, token=token).expect(201).json["id"]


def look(server, session, token=None):
    return server.request("GET", f"/v1/sessions/{session}/network", token=token).expect(200).json


def put(server, session, body, token=None):
    return server.request("PUT", f"/v1/sessions/{session}/network", body, token=token)


def run(server, session, code, token=None):
    return server.request("POST", f"/v1/sessions/{session}/runs", {"code": CLIENT + code}, token=token).expect(200).json["result"]


def rules(answer):
    return [rule["rule"] for rule in answer["rules"]]


def row(answer, host, decision):
    (found,) = [each for each in answer["hosts"] if each["host"] == host and each["decision"] == decision]
    return found


# ---- looking ----

def test_before_anything(server, session):
    answer = look(server, session)
    assert (answer["mode"], answer["ranges"], answer["open"], answer["cut"], answer["hosts"]) == ("allowlist", [], 0, None, [])
    assert rules(answer)[:2] == RULES and answer["rules"][1]["host"] == "*.files.example.com" and answer["rules"][1]["ports"] == [443, 8443]
    assert answer["limits"] == {"bytes": 10 << 20, "requests": 0, "connections": 32}
    assert answer["used"] == {"requests": 0, "denied": 0, "bytes_up": 0, "bytes_down": 0}
    assert server.get(f"/v1/sessions/{session}").json["policy"]["network"] == "allowlist"
    assert {p["trust"]: p["network"] for p in server.get("/v1/policies").json["policies"]} == {"standard": "allowlist", "closed": "none", "wide": "host"}


def test_what_was_reached(server, session, site):
    """The ledger of the session is the sum of its runs."""
    first = run(server, session, "report(https('api.example.com'), status_of('evil.example.com:443'))")
    assert answers(first)[0] == [200, "hello"] and answers(first)[1][0] == 403
    second = run(server, session, "report(https('api.example.com'), status_of('api.example.com:22'))")
    answer = look(server, session)
    reached = row(answer, "api.example.com", "allowed")
    assert (reached["port"], reached["protocol"], reached["rule"], reached["requests"]) == (443, "https", RULES[0], 2)
    assert reached["bytes_up"] > 0 and reached["bytes_down"] > len("hello")
    refused = row(answer, "evil.example.com", "no-rule")
    assert (refused["requests"], refused["rule"], refused["bytes_up"], refused["bytes_down"]) == (1, None, 0, 0)
    assert row(answer, "api.example.com", "port")["port"] == 22
    assert (answer["used"]["requests"], answer["used"]["denied"]) == (4, 2)
    for key in ("requests", "denied", "bytes_up", "bytes_down"):
        assert answer["used"][key] == first["network"][key] + second["network"][key]
    assert wait_for(lambda: look(server, session)["open"] == 0)


def test_values_of_headers_are_shown_to_nobody(server, session):
    text = json.dumps([look(server, session), server.get(f"/v1/sessions/{session}").json, server.get("/v1/policies").json])
    assert "operators-own" not in text and "Authorization" in text
    answer = put(server, session, {"allow": [{"host": "a.example.com", "protocol": "http", "headers": {"X-Key": "callers-own-key"}}]}).expect(200)
    assert answer.json["rules"][0]["headers"] == ["X-Key"] and b"callers-own-key" not in answer.body
    assert b"callers-own-key" not in server.get(f"/v1/audit?session={session}").body and "callers-own-key" not in server.output()


def test_without_an_allowlist(server):
    for trust, mode in (("closed", "none"), ("wide", "host")):
        session = create(server, trust=trust)
        answer = look(server, session)
        assert answer["mode"] == mode and not answer["rules"] and not answer["ranges"] and not answer["hosts"]
        amount = 0 if mode == "none" else None  # of the host's network nobody counts anything
        assert answer["used"] == dict.fromkeys(("requests", "denied", "bytes_up", "bytes_down"), amount)
        assert answer["open"] == amount
        refused = put(server, session, {"allow": ["api.example.com"]}).expect(409)
        assert refused.code == "conflict" and mode in refused.error["message"] and "allowlist" in refused.error["message"]
        assert look(server, session) == answer
        server.request("DELETE", f"/v1/sessions/{session}").expect(204)


# ---- changing ----

def test_other_rules_at_once(server, session, site, internet):  # noqa: F811
    internet.site("other.example.com")
    answer = put(server, session, {"allow": ["other.example.com"]}).expect(200).json
    assert rules(answer) == ["https://other.example.com:443"] and answer == look(server, session)
    before = site.accepted
    result = run(server, session, "report(https('other.example.com'), status_of('api.example.com:443'))")
    assert answers(result)[0] == [200, "hello"] and answers(result)[1][0] == 403 and site.accepted == before
    put(server, session, {"allow": []}).expect(200)
    assert answers(run(server, session, "report(status_of('other.example.com:443'))"))[0][0] == 403
    assert put(server, session, {"allow": ["api.example.com", "api.example.com:8443"]}).expect(200).json["used"]["denied"] == 2
    assert answers(run(server, session, "report(https('api.example.com'))"))[0] == [200, "hello"]


def test_what_is_open_is_cut_or_goes_on(server, session, internet):  # noqa: F811
    """A tunnel that is not allowed any more ends; one that still is goes on."""
    site = internet.raw("slow.example.com", lambda plain: [plain.sendall(b"x")] and plain.recv(1), port=9000)
    put(server, session, {"allow": ["tcp://slow.example.com:9000"]}).expect(200)
    code = CLIENT + """
s = connect('slow.example.com:9000')[0]
s.recv(1)
print('on', flush=True)
try:
    report(len(s.recv(1)))
except ConnectionResetError:
    report("reset")
"""
    started = server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"]
    assert wait_for(lambda: server.get(f"/v1/runs/{started}/events").json["next"] >= 2)
    assert site.accepted == 1 and look(server, session)["open"] == 1
    put(server, session, {"allow": ["tcp://*.example.com:9000"]}).expect(200)
    assert look(server, session)["open"] == 1
    put(server, session, {"allow": ["api.example.com"]}).expect(200)
    assert wait_for(lambda: server.get(f"/v1/runs/{started}").json["state"] == "ended")
    assert answers(server.get(f"/v1/runs/{started}").json["result"]) == ["reset"] and look(server, session)["open"] == 0


def test_what_is_left_out_stays(server, session):
    put(server, session, {"allow": [], "ranges": ["10.1.0.0/16", "fd00::/8"], "bytes": "1m", "requests": 7, "connections": "3"}).expect(200)
    answer = put(server, session, {"allow": ["a.example.com"]}).expect(200).json
    assert answer["ranges"] == ["10.1.0.0/16", "fd00::/8"] and answer["limits"] == {"bytes": 1 << 20, "requests": 7, "connections": 3}
    answer = put(server, session, {"allow": ["a.example.com"], "ranges": [], "requests": 0}).expect(200).json
    assert answer["ranges"] == [] and answer["limits"] == {"bytes": 1 << 20, "requests": 0, "connections": 3}


def test_a_budget(server, session, site):
    put(server, session, {"allow": ["api.example.com"], "requests": 2}).expect(200)
    result = run(server, session, "report([https('api.example.com')[0] for _ in range(4)])")
    assert answers(result)[0].count(200) == 2
    answer = look(server, session)
    assert answer["cut"] == "requests" and row(answer, "api.example.com", "requests")["requests"] == 2
    put(server, session, {"allow": ["api.example.com"], "requests": 0}).expect(200)
    assert answers(run(server, session, "report(https('api.example.com'))"))[0] == [200, "hello"]


@pytest.mark.parametrize("body, field", [
    ({}, "allow"), ({"allow": "api.example.com"}, "allow"), ({"allow": None}, "allow"), ({"allow": [7]}, "allow"), ({"allow": ["no such rule"]}, "allow"),
    ({"allow": ["a.example.com:0"]}, "allow"), ({"allow": [{"ports": 443}]}, "allow"), ({"allow": [{"host": "a.com", "colour": 1}]}, "allow"),
    ({"allow": [{"host": "a.com", "protocol": "http", "headers": {"A": "${file:/etc/passwd}"}}]}, "allow"),
    ({"allow": [], "ranges": "10.0.0.0/8"}, "ranges"), ({"allow": [], "ranges": ["10.0.0.1/8"]}, "ranges"), ({"allow": [], "bytes": 1.5}, "bytes"),
    ({"allow": [], "bytes": "many"}, "bytes"), ({"allow": [], "requests": -1}, "requests"), ({"allow": [], "requests": True}, "requests"),
    ({"allow": [], "connections": 0}, "connections"), ({"allow": [], "rules": []}, "rules"), ({"allow": [], "alow": []}, "alow"),
])
def test_wrong_bodies(server, session, body, field):
    before = look(server, session)
    refused = put(server, session, body)
    assert refused.status in (400, 403, 413) and refused.error["details"] == {"field": field}, refused.explain()
    assert look(server, session) == before


def test_a_rule_too_many(server, session):
    refused = put(server, session, {"allow": [f"h{i}.example.com" for i in range(300)]})
    assert refused.status in (400, 413) and refused.error["details"] == {"field": "allow"}


# ---- from afar ----

def test_from_afar_only_less(server, session, far, token):
    """What the level lets pass, or a part of it; whoever comes through the socket may have anything."""
    answer = put(server, far, {"allow": ["api.example.com", "a.files.example.com"], "bytes": "1m"}, token).expect(200).json
    assert rules(answer) == ["https://api.example.com:443", "https://a.files.example.com:443"]
    # It can have all of it again: the level counts, and not what the session has now.
    assert put(server, far, {"allow": ["api.example.com", "*.files.example.com:443,8443"], "bytes": "10m"}, token).expect(200).json["limits"]["bytes"] == 10 << 20
    before = look(server, far, token)
    for body, named in (({"allow": ["evil.example.com"]}, "evil.example.com"), ({"allow": ["api.example.com", "*.example.com"]}, "*.example.com"),
                        ({"allow": ["tcp://api.example.com:443"]}, "tcp://api"),
                        ({"allow": ["api.example.com:22"]}, "api.example.com:22"), ({"allow": [], "ranges": ["10.0.0.0/8"]}, "10.0.0.0/8"),
                        ({"allow": ["api.example.com"], "bytes": "11m"}, "network_bytes"), ({"allow": ["api.example.com"], "bytes": 0}, "network_bytes"),
                        ({"allow": ["api.example.com"], "connections": 33}, "network_connections")):
        refused = put(server, far, body, token).expect(403)
        assert refused.code == "denied" and named in refused.error["message"], refused.explain()
        assert look(server, far, token) == before
        put(server, session, body).expect(200)
    assert put(server, far, {"allow": []}, token).expect(200).json["rules"] == []


def test_credentials_stay_with_what_may_be_reached(server, far, token, internet):  # noqa: F811
    """A caller who does not know the operator's header has it, and cannot have it elsewhere."""
    site = internet.site("keyed.example.com", tls=False)
    put(server, far, {"allow": ["http://keyed.example.com/v1/a/"]}, token).expect(200)
    assert answers(run(server, far, "report(get('http://keyed.example.com/v1/a/x'), get('http://keyed.example.com/v1/b')[0])", token)) == [[200, "hello"], 403]
    assert [request.headers["Authorization"] for request in site.requests] == ["Bearer operators-own"]
    other = {"host": "keyed.example.com", "protocol": "http", "paths": ["/v1/"], "headers": {"Authorization": "Bearer callers"}}
    put(server, far, {"allow": [other]}, token).expect(403)


def test_scopes_and_tenants(server, far, token):
    reader, stranger = server.token("acme", "read"), server.token("stranger", "run")
    before = look(server, far, token)
    assert look(server, far, reader) == before
    assert put(server, far, {"allow": []}, reader).status == 403
    for other in (stranger, None):
        assert server.request("GET", f"/v1/sessions/{far}/network", token=other).status == 404
        assert put(server, far, {"allow": []}, other).status == 404
        assert put(server, far, {"nothing": 1}, other).status == 404
    assert look(server, far, token) == before


def test_the_audit(server, session, far, token):
    put(server, far, {"allow": ["api.example.com"], "requests": 5}, token).expect(200)
    put(server, far, {"allow": ["evil.example.com"]}, token).expect(403)
    put(server, session, {"allow": ["python-packages"], "ranges": ["10.0.0.0/8"]}).expect(200)

    def noted(identity):
        (record,) = [each for each in server.get(f"/v1/audit?session={identity}").json["records"] if each["action"] == "session.network"]
        return record
    near, distant = noted(session), noted(far)
    assert (distant["token"], near["token"]) == (token.split("_")[1], None) and (distant["tenant"], near["tenant"]) == ("acme", "local")
    assert distant["trust"] == "standard" and distant["session"] == far
    assert distant["network"] == {"rules": [RULES[0]], "ranges": [], "limits": {"bytes": 10 << 20, "requests": 5, "connections": 32}}
    assert "https://pypi.org:443" in near["network"]["rules"] and near["network"]["ranges"] == ["10.0.0.0/8"]


def test_intercept_needs_a_session_that_has_it(server, session):
    refused = put(server, session, {"allow": [{"host": "api.example.com", "intercept": True}]}).expect(409)
    assert "intercept" in refused.error["message"] and rules(look(server, session))[:2] == RULES


# ---- in C ----

def test_the_library(sessions):  # noqa: F811
    """Of a session in this process. Nothing is dialled: what is refused is refused before its name is looked up."""
    session = sessions({"network_mode": "allowlist", "network_allow": ["api.example.com"]})
    result = session.run("python", CLIENT + "report(status_of('evil.example.com:443')[0])")
    assert result.stdout == b"[403]\n"
    told = session.network()
    assert (told["requests"], told["denied"]) == (1, 1) and row(told, "evil.example.com", "no-rule")
    session.set_network({"network_mode": "allowlist", "network_allow": ["other.example.com"]})
    session.run("python", CLIENT + "report(status_of('api.example.com:443')[0])")
    assert row(session.network(), "api.example.com", "no-rule")["requests"] == 1
    plain = sessions()
    assert plain.network() is None
    with pytest.raises(Refused, match="allowlist"):
        plain.set_network({"network_mode": "allowlist", "network_allow": ["api.example.com"]})
