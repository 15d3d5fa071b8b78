# SPDX-License-Identifier: Apache-2.0
"""125. A rule lets the proxy put a credential into requests to one host; code inside asks for that host under other names, is redirected by it, asks it to send the request
back, names the field in Connection, sends its own, looks for the value in its box => the credential goes to that host and nowhere else, and is never seen inside.
"""
import json
import secrets

import pytest
from internet import CLIENT, answers, internet, net_server  # noqa: F401

ENTRY = {"protocol": "http", "ports": [80], "headers": {"Authorization": "Bearer ${secret:API_KEY}"}}


@pytest.fixture
def value():
    return "edge-" + secrets.token_hex(16)


@pytest.fixture
def make_session(net_server, value):
    made = []

    def make(*rules, **fields):
        made.append(net_server.session(policy={"network_mode": "allowlist", "network_allow": list(rules)}, secrets={"API_KEY": value}, **fields))
        return made[-1]

    yield make
    for session in made:
        net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_only_there(internet, net_server, make_session, value):
    a, b = internet.site("a.example.com", tls=False), internet.site("b.example.com", tls=False)
    other_port = internet.listen(a.address, 8080, lambda plain: plain.recv(1))
    session = make_session({"host": "a.example.com", **ENTRY}, "http://b.example.com", "tcp://a.example.com:8080")
    code = CLIENT + f"""
report(*(get(u, *fields)[0] for u, fields in [
    ("http://a.example.com/", ()), ("http://A.Example.COM/", ()), ("http://b.example.com/", ()), ("http://a.example.com./", ()), ("http://{a.address}/", ()),
    ("http://a.example.com/own", ("Authorization: Bearer mine",)), ("http://a.example.com/two", ("Authorization: one", "authorization: two")),
    ("http://a.example.com/hop", ("Connection: Authorization",)), ("http://b.example.com/own", ("Authorization: Bearer mine",))]))
"""
    result = net_server.run(code, session)["result"]
    statuses = answers(result)
    assert statuses[0] == statuses[1] == statuses[2] == 200 and statuses[4] == 403, statuses
    assert {tuple(r.headers.get_all("Authorization")) for r in a.requests} == {(f"Bearer {value}",)} and len(a.requests) >= 5, a.requests
    assert [r.headers.get_all("Authorization") for r in b.requests] == [None, ["Bearer mine"]] and value not in repr(b.requests)
    assert value not in json.dumps(result) and other_port.accepted == 0


def test_redirected(internet, net_server, make_session, value):
    """The proxy follows nothing; the client goes to the next host by itself, and without the credential."""
    b = internet.site("b.example.com", tls=False)
    a = internet.site("a.example.com", tls=False, reply=lambda request: (307, {"Location": f"http://b.example.com{request.path}"}, b""))
    session = make_session({"host": "a.example.com", **ENTRY}, "http://b.example.com")
    result = net_server.run("import urllib.request\nprint(urllib.request.urlopen('http://a.example.com/x').read())", session)["result"]
    assert result["stdout"] == "b'hello'\n", result
    assert a.requests[0].headers["Authorization"] == f"Bearer {value}" and "Authorization" not in b.requests[0].headers


def test_sent_back(internet, net_server, make_session, value):
    """TRACE and CONNECT are refused; what an upstream repeats by itself is taken out of the output."""
    a = internet.site("a.example.com", tls=False, reply=lambda request: repr(request).encode())
    session = make_session({"host": "a.example.com", **ENTRY})
    code = CLIENT + "report(get('http://a.example.com/', method='TRACE')[0], get('http://a.example.com/', method='trace')[0], get('http://a.example.com/')[1])"
    result = net_server.run(code, session)["result"]
    trace, lower, text = answers(result)
    assert trace == 403 and lower in (400, 403, 501) and [r.method for r in a.requests] == ["GET"], (trace, lower)
    assert value not in json.dumps(result) and "GET" in text


def test_not_inside(internet, net_server, make_session, value):
    """A secret that a rule uses is not given to the box."""
    session = make_session({"host": "a.example.com", **ENTRY})
    code = """
import os
found = [key for key, text in os.environ.items() if "edge-" in text or "API_KEY" in key]
for top, _, files in list(os.walk("/run")) + list(os.walk("/workspace")) + list(os.walk("/tmp")) + list(os.walk("/proc/self")):
    for name in files:
        try:
            with open(os.path.join(top, name), "rb") as file:
                if b"edge-" in file.read(1 << 20) and "cmdline" not in name and "mem" not in name:
                    found.append(os.path.join(top, name))
        except OSError:
            pass
print(found)
"""
    result = net_server.run(code, session)["result"]
    assert result["stdout"] == "[]\n", result
    shown = net_server.get(f"/v1/sessions/{session}/network").expect(200)
    assert value.encode() not in shown.body and b"authorization" in shown.body.lower(), shown.body
    for path in (f"/v1/sessions/{session}", "/v1/audit"):
        assert value.encode() not in net_server.get(path).body


def test_in_tls(internet, net_server, make_session, value):
    """Where the proxy ends TLS, the same; and an upstream that is not who it says gets nothing."""
    a, b = internet.site("a.example.com"), internet.site("b.example.com")
    internet.names["false.example.com"] = [b.address]  # its certificate is of b
    rule = {"intercept": True, "headers": {"X-Api-Key": "${secret:API_KEY}"}}
    session = make_session({"host": "a.example.com", **rule}, {"host": "false.example.com", **rule}, "b.example.com")
    code = CLIENT + """
import os
ca = os.environ.get("SSL_CERT_FILE")
found = ["PRIVATE" in open(ca).read()]
for host in ("a.example.com", "b.example.com", "false.example.com"):
    try:
        found.append(https(host, "/x", cafile=ca))
    except OSError as error:
        found.append([0, type(error).__name__])
s, status, text = connect("a.example.com:443")
with ssl.create_default_context(cafile=ca).wrap_socket(s, server_hostname="a.example.com") as t:
    t.sendall(b"GET /y HTTP/1.1\\r\\nHost: b.example.com\\r\\nConnection: close\\r\\n\\r\\n")
    found.append(split(read_all(t).decode())[0])
report(*found)
"""
    result = net_server.run(code, session)["result"]
    has_key, first, other, false, mismatch = answers(result)
    assert not has_key
    assert first == [200, "hello"] and other == [200, "hello"] and false[0] in (0, 502) and mismatch in (400, 421), (first, other, false, mismatch)
    assert [r.headers["X-Api-Key"] for r in a.requests] == [value]
    assert [r.headers.get("X-Api-Key") for r in b.requests] == [None] and value not in json.dumps(result)


@pytest.mark.parametrize("value", ["one\r\nX-Evil: two", "one\nX-Evil: two", "one\r\n\r\nGET /evil HTTP/1.1\r\nHost: a.example.com\r\n\r\n", "one\0two", "one\rtwo"])
def test_values_with_lines(internet, net_server, value):
    """Who may give a secret may not write requests with it."""
    a = internet.site("a.example.com", tls=False)
    answer = net_server.post("/v1/sessions", {"policy": {"network_allow": [{"host": "a.example.com", **ENTRY}]}, "secrets": {"API_KEY": value}})
    if answer.status == 201:
        session = answer.json["id"]
        net_server.run(CLIENT + "report(get('http://a.example.com/')[0])", session)
        net_server.delete(f"/v1/sessions/{session}").expect(204)
    else:
        assert answer.status == 400 and "Evil" not in answer.error["message"], answer.explain()
    assert all("X-Evil" not in r.headers and r.path == "/" for r in a.requests), a.requests


def test_rules_of_callers(net_server):
    """Files and variables of the server are the operator's; fields that make a request what it is are nobody's."""
    for headers in ({"X": "${file:/etc/passwd}"}, {"X": "${env:PATH}"}, {"X": "a\r\nY: b"}, {"X\r\nY": "b"}, {"Host": "b.example.com"}, {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"},
                    {"Connection": "close"}, {"X Y": "b"}, {"": "b"}, {"X": "${secret:ABSENT}"}):
        answer = net_server.post("/v1/sessions", {"policy": {"network_allow": [{"host": "a.example.com", "protocol": "http", "headers": headers}]}})
        assert answer.status in (400, 403), (headers, answer.explain())


def test_an_authority_each(internet, net_server, make_session):
    """Certificates of one session say nothing in another."""
    rule = {"host": "a.example.com", "intercept": True}
    code = "import os\nprint(open(os.environ['SSL_CERT_FILE']).read().split('-----BEGIN')[-1])"
    texts = [net_server.run(code, make_session(rule))["result"]["stdout"] for _ in range(2)]
    assert "CERTIFICATE" in texts[0] and texts[0] != texts[1]
