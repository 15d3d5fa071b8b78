# SPDX-License-Identifier: Apache-2.0
"""The network in the policy of a request: from afar only what the trust level has, or less; a secret that a rule uses is nowhere in the box."""
import pytest

from internet import CLIENT, answers, internet  # noqa: F401

POLICY = """network_mode: allowlist
network_allow:
  - "*.example.com"
  - {host: keyed.test, protocol: http, paths: [/v1/], headers: {Authorization: Bearer operators-own}}
network_ranges: [10.1.0.0/16]
network_bytes: 10m
network_requests: 100
network_connections: 32
trust_levels:
  closed: {network_mode: none}
  wide: {network_mode: host}
  keyed:
    network_allow:
      - {host: secret.example.com, protocol: http, headers: {Authorization: "Bearer ${secret:API_TOKEN}"}}
"""
TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def server(internet):  # noqa: F811
    with internet.server(tcp=True, policy=POLICY) as made:
        yield made


@pytest.fixture(scope="module")
def token(server):
    return server.token("acme", "run")


def create(server, policy, token=None, **more):
    return server.request("POST", "/v1/sessions", {"policy": policy, **more}, token=token)


def rules(server, policy, token=None):
    """Those of a session that was made with this policy."""
    session = create(server, policy, token).expect(201).json["id"]
    shown = server.request("GET", f"/v1/sessions/{session}/network", token=token).expect(200).json
    server.request("DELETE", f"/v1/sessions/{session}", token=token)
    return [rule["rule"] for rule in shown["rules"]]


def test_less(server, token):
    assert rules(server, {}, token) == ["https://*.example.com:443", "http://keyed.test:80/v1/"]
    assert rules(server, {"network_allow": ["a.example.com"]}, token) == ["https://a.example.com:443"]
    assert rules(server, {"network_allow": []}, token) == []
    # What a rule leaves open it has from the one that it is within.
    assert rules(server, {"network_allow": ["http://keyed.test"]}, token) == ["http://keyed.test:80/v1/"]
    assert rules(server, {"network_mode": "allowlist", "network_bytes": "1m", "network_requests": 5, "network_ranges": ["10.1.2.0/24"]}, token) \
        == ["https://*.example.com:443", "http://keyed.test:80/v1/"]
    assert rules(server, {"trust": "wide", "network_mode": "allowlist", "network_allow": ["anything.test"], "network_bytes": "1m", "network_requests": 1}, token) \
        == ["https://anything.test:443"]
    create(server, {"network_mode": "none"}, token).expect(201)


MORE = [
    ({"network_allow": ["evil.test"]}, "network_allow"),
    ({"network_allow": ["a.example.com", "*"]}, "network_allow"),
    ({"network_allow": ["tcp://a.example.com:443"]}, "network_allow"),
    ({"network_allow": ["a.example.com:22"]}, "network_allow"),
    ({"network_allow": [{"host": "a.example.com", "intercept": True, "headers": {"X": "y"}}]}, "network_allow"),
    ({"network_allow": [{"host": "keyed.test", "protocol": "http", "headers": {"Authorization": "mine"}}]}, "network_allow"),
    ({"network_ranges": ["10.0.0.0/8"]}, "network_ranges"),
    ({"network_bytes": "11m"}, "network_bytes"),
    ({"network_bytes": "none"}, "network_bytes"),
    ({"network_requests": 0}, "network_requests"),
    ({"network_connections": 33}, "network_connections"),
    ({"network_mode": "host"}, "network_mode"),
    ({"trust": "closed", "network_mode": "allowlist"}, "network_mode"),
    ({"trust": "closed", "network_allow": ["a.example.com"]}, "network_mode"),
    ({"trust": "wide", "network_mode": "host"}, "network_mode"),
]


@pytest.mark.parametrize(("policy", "field"), MORE, ids=[str(policy) for policy, _ in MORE])
def test_more_is_for_the_socket(server, token, policy, field):
    refused = create(server, policy, token).expect(403)
    assert refused.code == "denied" and refused.error["details"]["field"] == f"policy.{field}", refused.explain()
    if policy != {"trust": "wide", "network_mode": "host"}:
        session = create(server, policy).expect(201).json["id"]
        server.request("DELETE", f"/v1/sessions/{session}")


@pytest.mark.parametrize(("policy", "field", "why"), [
    ({"network_allow": "a.com"}, "network_allow", "a list of rules"),
    ({"network_allow": [5]}, "network_allow", "a rule is a text"),
    ({"network_allow": ["a*.com"]}, "network_allow", "is not a host"),
    ({"network_allow": ["a.com"], "network_mode": "none"}, "network_allow", "leave one of them out"),
    ({"network_allow": ["a.com"], "network_mode": "host"}, "network_allow", "leave one of them out"),
    ({"network_ranges": ["10.0.0.1/8"]}, "network_ranges", "not a range"),
    ({"network_ranges": "10.0.0.0/8"}, "network_ranges", ""),
], ids=str)
def test_wrong(server, policy, field, why):
    refused = create(server, policy).expect(400)
    assert refused.error["details"]["field"] == f"policy.{field}" and why in refused.error["message"], refused.explain()


def test_no_file_of_the_host(server):
    """Also who comes through the socket does not have the server read files, or its environment, for him."""
    for value in ("${file:/etc/passwd}", "${env:PATH}"):
        rule = {"host": "a.example.com", "protocol": "http", "headers": {"X": value}}
        refused = create(server, {"network_allow": [rule]}).expect(403)
        assert "for policy files" in refused.error["message"], refused.explain()


def test_a_secret_of_a_rule_stays_outside(server, internet):  # noqa: F811
    site = internet.site("secret.example.com", tls=False)
    secrets = {"API_TOKEN": TOKEN, "OTHER_TOKEN": "another-one-of-them"}
    session = create(server, {"trust": "keyed"}, secrets=secrets).expect(201).json["id"]
    code = CLIENT + """
import glob, os
report(sorted(name for name in os.environ if name.endswith("_TOKEN")), glob.glob("/run/secrets/*"), get("http://secret.example.com/"))
"""
    done = server.request("POST", f"/v1/sessions/{session}/runs", {"code": code}).expect(200).json["result"]
    assert answers(done) == [["OTHER_TOKEN"], [], [200, "hello"]]
    assert [request.headers["Authorization"] for request in site.requests] == [f"Bearer {TOKEN}"]
    server.request("DELETE", f"/v1/sessions/{session}")


def test_a_secret_that_is_not_there(server):
    refused = create(server, {"trust": "keyed"}).expect(400)
    assert "API_TOKEN" in refused.error["message"], refused.explain()


# ---- flags ----

def test_flags(own_box, tmp_path):
    shown = own_box.call("policy", "show", "--json", "--allow", "python-packages", "--allow-range", "10.1.0.0/16", "--network-bytes", "1m").json
    assert shown["network_mode"] == "allowlist" and shown["network_ranges"] == ["10.1.0.0/16"] and shown["network_bytes"] == 1 << 20
    assert [rule["rule"] for rule in shown["network_allow"]] == ["https://pypi.org:443", "https://files.pythonhosted.org:443"]
    assert own_box.call("policy", "show", "--json", "--allow", "a.com", environ={"GLOVEBOX_NETWORK": "host"}).json["network_mode"] == "allowlist"
    for mode in ("none", "host"):
        refused = own_box.call("policy", "show", "--allow", "a.com", "--network", mode)
        assert refused.returncode == 110 and f"--network {mode} says otherwise" in refused.err.decode()
    for flag in ("--allow-range=10.1.0.0/16", "--network-bytes=1m", "--network-requests=5", "--network-connections=5"):
        for more in ((), ("--network", "host")):
            refused = own_box.call("policy", "show", flag, *more)
            assert refused.returncode == 110 and f"{flag.partition('=')[0]} is for a network with an allowlist" in refused.err.decode(), refused.err
            assert "add --allow RULE or --network allowlist" in refused.err.decode()
        for more in (("--network", "allowlist"), ("--allow", "a.com")):
            assert own_box.call("policy", "show", flag, *more).returncode == 0
    quiet = tmp_path / "quiet.yaml"
    quiet.write_text("network_ranges: [10.1.0.0/16]\nnetwork_bytes: 1m\n")  # for who adds the list
    assert own_box.call("policy", "show", "--policy", quiet).returncode == 0
    # What is shown can be read again.
    rule = '{host: "[2001:db8::1]", intercept: true, paths: [/a, /b], headers: {X-Key: value-of-it}}'
    file = tmp_path / "first.yaml"
    file.write_text(f'network_mode: allowlist\nnetwork_allow: ["GET http://a.com/x", {rule}]\n')
    text = own_box.call("policy", "show", "--policy", file).out
    assert b"value-of-it" not in text and b"X-Key" in text
    again = tmp_path / "again.yaml"
    again.write_bytes(text)
    first, second = (own_box.call("policy", "show", "--json", "--policy", each).json["network_allow"] for each in (file, again))
    assert first[1].pop("headers") == ["X-Key"]
    assert first == second
