# SPDX-License-Identifier: Apache-2.0
"""The network of an allowlist, as it is used: what passes, what is said to who is refused, what is told of it afterwards, budgets, ranges, credentials, and rules that
change. In an internet of our own (tests/internet.py)."""
import json
import secrets
import socket
import struct

import pytest
from conftest import wait_until
from internet import CLIENT, Authority, answers, internet, net_box, net_server, one_net_box  # noqa: F401

GUARD_MODE = "off"  # most of these write what they send by hand


def hosts(network):
    return {(row["host"], row["port"]): row for row in network["hosts"]}


def policy_file(box, text):
    path = box.directory() / "policy.yaml"
    path.write_text(text)
    return path


@pytest.mark.smoke
def test_programs_find_the_way(internet, net_box):
    """By the variables that everybody reads; nothing has to be set."""
    secure, plain = internet.site("secure.example.com"), internet.site("plain.example.com", tls=False)
    code = """
import urllib.request, json
print(json.dumps([urllib.request.urlopen(url).read().decode() for url in ("https://secure.example.com/a?b=c", "http://plain.example.com/d")]))
"""
    result = net_box.run(code, allow=["secure.example.com", "http://plain.example.com"])
    assert answers(result) == ["hello", "hello"], result.explain()
    assert [r.path for r in secure.requests] == ["/a?b=c"] and [(r.path, r.headers["Host"]) for r in plain.requests] == [("/d", "plain.example.com")]
    assert not {"Proxy-Connection", "Proxy-Authorization", "Via", "X-Forwarded-For"} & set(plain.requests[0].headers)


@pytest.mark.smoke
def test_result(internet, net_box):
    """What was sent where, by which rule; what was refused, and why."""
    internet.site("a.example.com", tls=False)
    code = CLIENT + "report(get('http://a.example.com/'), get('http://a.example.com/'), get('http://b.example.com/')[0], status_of('a.example.com:443')[0])"
    result = net_box.run(code, allow="http://a.example.com")
    network = result.json["network"]
    assert answers(result) == [[200, "hello"], [200, "hello"], 403, 403] and (network["requests"], network["denied"], network["cut"]) == (4, 2, None), network
    rows = {(row["host"], row["port"], row["decision"]): row for row in network["hosts"]}
    assert set(rows) == {("a.example.com", 80, "allowed"), ("b.example.com", 80, "no-rule"), ("a.example.com", 443, "port")}, rows
    allowed = rows["a.example.com", 80, "allowed"]
    assert allowed["requests"] == 2 and allowed["protocol"] == "http" and "a.example.com" in allowed["rule"] and allowed["bytes_down"] > 0 and allowed["bytes_up"] > 0, allowed
    assert result.control("network")["state"] == "enforced" and result.json["policy"]["network"] == "allowlist", result.json


def test_without_an_allowlist(one_net_box):
    """Nothing of this is there where nothing of it was asked for."""
    result = one_net_box.run(CLIENT + "print(socket.socket().connect_ex(PROXY), [k for k in __import__('os').environ if 'proxy' in k.lower()])")
    assert result.stdout == "111 []\n" and "network" not in result.json, result.explain()


def test_refusal_is_for_who_reads_it(internet, net_box):
    """One sentence: what, why, and what to do."""
    code = CLIENT + "report(get('http://evil.example.net/'), status_of('evil.example.net:443'), status_of('a.example.com:22'), connect('evil.example.net:443')[2])"
    result = net_box.run(code, allow=["a.example.com", "*.b.example.com:443,8443"])
    for status, text in answers(result)[:2]:
        assert status == 403 and "evil.example.net" in text and "a.example.com" in text and "\n" not in text.strip(), text
    status, text = answers(result)[2]
    assert status == 403 and "22" in text and "443" in text, text
    first, *fields = answers(result)[3].split("\r\n")  # many clients show no more than the first line
    assert "not in the allowlist" in first and "evil.example.net" in first and "Glovebox-Denied: no-rule" in fields, (first, fields)


@pytest.mark.smoke
def test_socks(internet, net_box):
    internet.site("a.example.com")
    code = CLIENT + "s, code = socks('a.example.com', 443)\nreport(code, talk(s, 'a.example.com'), socks('b.example.com', 443)[1])"
    assert answers(net_box.run(code, allow="a.example.com")) == [0, [200, "hello"], 2]


def test_methods_and_paths(internet, one_net_box):
    site = internet.site("a.example.com", tls=False)
    policy = policy_file(one_net_box, """
network_mode: allowlist
network_allow:
  - {host: a.example.com, protocol: http, methods: [GET, HEAD], paths: [/api/, /public]}
""")
    code = CLIENT + """
report(*(get(f"http://a.example.com{path}", method=method)[0] for method, path in [
    ("GET", "/api/x"), ("HEAD", "/api/"), ("GET", "/public"), ("GET", "/public/x"), ("POST", "/api/x"), ("DELETE", "/api/x"), ("GET", "/"), ("GET", "/apix"), ("GET", "/publicx"),
    ("GET", "/api/../secret"), ("GET", "/api/%2e%2e/secret"), ("GET", "/api/..%2fsecret"), ("GET", "/API/x"), ("GET", "?/api/"), ("GET", "/api/..;/secret"),
    ("GET", "/api/%252e%252e/secret"), ("GET", "/api\\\\..\\\\secret"), ("GET", "/api/%5c..%5csecret"), ("GET", "/api//../secret"), ("GET", "/api/x?y=/../z")]))
"""
    result = one_net_box.run(code, policy=policy)
    statuses = answers(result)
    assert statuses[:4] == [200] * 4 and statuses[-1] == 200 and set(statuses[4:-1]) <= {400, 403}, statuses
    assert [r.path for r in site.requests] == ["/api/x", "/api/", "/public", "/public/x", "/api/x?y=/../z"]
    assert {row["decision"] for row in result.json["network"]["hosts"]} >= {"allowed", "method", "path"}


@pytest.mark.smoke
def test_bodies(internet, net_box):
    """Large ones, both ways, with a length and in chunks."""
    site = internet.site("a.example.com", tls=False, reply=lambda request: request.body[::-1])
    code = CLIENT + """
import http.client
def post(body, **options):
    c = http.client.HTTPConnection(*PROXY)
    c.request("POST", "http://a.example.com/", body, **options)
    return c.getresponse().read()
data = bytes(range(256)) * 8000
report(post(data) == data[::-1], post((data[i:i + 50000] for i in range(0, len(data), 50000)), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}) == data[::-1])
"""
    result = net_box.run(code, allow="http://a.example.com")
    assert answers(result) == [True, True] and [len(r.body) for r in site.requests] == [2048000] * 2, result.explain()
    assert result.json["network"]["bytes_up"] >= 4096000 <= result.json["network"]["bytes_down"]


@pytest.mark.smoke
def test_tunnels_carry_everything(internet, net_box):
    """Four megabytes there and back, and each side may end first."""
    def echo(plain):
        while data := plain.recv(65536):
            plain.sendall(data)

    internet.raw("a.example.com", echo, port=9000)
    internet.raw("b.example.com", lambda plain: plain.sendall(b"bye"), port=9000)
    code = CLIENT + """
data = bytes(range(256)) * 16384
s, _, _ = connect("a.example.com:9000")
def send():
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send)
t.start()
got = read_all(s)
t.join()
report(got == data, read_all(connect("b.example.com:9000")[0]).decode())
"""
    assert answers(net_box.run(code, allow="tcp://*.example.com:9000")) == [True, "bye"]


def reset(plain):
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()


RECEIVE = """
def receive(s):
    out = b""
    try:
        while piece := s.recv(65536):
            out += piece
        return len(out), "end"
    except ConnectionResetError:
        return len(out), "reset"
"""


def test_tunnels_carry_resets_down(internet, net_box):
    """Half of something does not look whole: a box sees a reset where its upstream was reset, an end where it ended."""
    def asked(plain):
        plain.sendall(b"half")
        plain.recv(1)
        reset(plain)

    def hasty(plain):
        plain.recv(1)
        plain.sendall(b"x" * 3000)
        reset(plain)

    internet.raw("asked.example.com", asked, port=9000)
    internet.raw("hasty.example.com", hasty, port=9000)
    internet.raw("whole.example.com", lambda plain: plain.sendall(b"whole"), port=9000)
    code = CLIENT + RECEIVE + """
s = connect("asked.example.com:9000")[0]
first = s.recv(4)
s.sendall(b"x")
def hasty():
    s = connect("hasty.example.com:9000")[0]
    s.sendall(b"x")
    return receive(s)[1]
report(len(first), receive(s), sorted({hasty() for _ in range(40)}), receive(connect("whole.example.com:9000")[0]))
"""
    assert answers(net_box.run(code, allow="tcp://*.example.com:9000")) == [4, [0, "reset"], ["reset"], [5, "end"]]


def test_tunnels_carry_resets_up(internet, net_box):
    """The same for the upstream of a box that resets."""
    seen, space = [], {}
    exec(RECEIVE, space)

    def upstream(plain):
        plain.sendall(b"go")
        seen.append(space["receive"](plain))

    internet.raw("up.example.com", upstream, port=9000)
    code = CLIENT + """
import struct
for is_whole in (False, True):
    s = connect("up.example.com:9000")[0]
    s.recv(2)
    s.sendall(b"bytes")
    if not is_whole:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
report(1)
"""
    assert answers(net_box.run(code, allow="tcp://up.example.com:9000")) == [1]
    assert wait_until(lambda: len(seen) == 2), seen
    assert {end for _, end in seen} == {"reset", "end"} and (5, "end") in seen, seen


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_addresses(internet, net_box, v6):
    """A rule may name an address; names with only an IPv6 address work, too."""
    address = f"2606:2800:220::{2 if net_box.is_root else 3}" if v6 else internet.address()
    site = internet.site("v6.example.com" if v6 else "v4.example.com", tls=False, address=address)
    shown = f"[{address}]" if v6 else address
    code = CLIENT + f"report(get('http://{shown}/'), get('http://{site.name}/'))"
    assert answers(net_box.run(code, allow=[f"http://{shown}", f"http://{site.name}"])) == [[200, "hello"]] * 2


def test_ranges(internet, net_box):
    """What is not public is dialled where the operator says so."""
    site = internet.site("db.corp.example", tls=False, address="10.9.8.7" if net_box.is_root else "10.9.8.8")
    code = CLIENT + f"report(get('http://db.corp.example/')[0], get('http://{site.address}/')[0])"
    allow = ["http://db.corp.example", f"http://{site.address}"]
    assert answers(net_box.run(code, allow=allow)) == [403, 403] and site.accepted == 0
    assert answers(net_box.run(code, allow=allow, allow_range="10.9.8.0/24")) == [200, 200]
    assert answers(net_box.run(code, allow=allow, allow_range="10.9.9.0/24")) == [403, 403]


@pytest.mark.smoke
def test_bytes_are_a_budget(internet, net_box):
    """When it is used up, everything is cut, and the result says so."""
    internet.raw("a.example.com", lambda plain: plain.sendall(b"x" * 4_000_000), port=9000)
    code = CLIENT + "s, _, _ = connect('a.example.com:9000')\nreport(len(read_all(s)), status_of('a.example.com:9000'))"
    result = net_box.run(code, allow="tcp://a.example.com:9000", network_bytes="1m")
    got, (status, text) = answers(result)
    network = result.json["network"]
    assert 1 << 18 < got <= 1 << 20 and status == 403 and "bytes" in text and network["cut"] == "bytes", (got, status, text, network)
    assert network["bytes_up"] + network["bytes_down"] <= (1 << 20) + (1 << 18), network


def test_requests_are_a_budget(internet, net_box):
    site = internet.site("a.example.com", tls=False)
    code = CLIENT + "report(*(get('http://a.example.com/')[0] for i in range(5)))"
    result = net_box.run(code, allow="http://a.example.com", network_requests=3)
    assert answers(result) == [200, 200, 200, 403, 403] and site.accepted == 3 and result.json["network"]["cut"] == "requests", result.json["network"]


def test_flags(internet, one_net_box):
    """Mistakes are told before anything runs."""
    for options, word in (({"allow": "no rule at all"}, "rule at all"), ({"allow": "a.example.com:99999"}, "99999"), ({"allow": "nothing-packages"}, "nothing-packages"), ({"allow": "ftp://a.example.com"}, "ftp"),
                          ({"allow": "a.example.com", "allow_range": "10.0.0.0/33"}, "10.0.0.0/33"), ({"network": "bridge"}, "bridge"), ({"allow": "a.example.com", "network": "none"}, "--network none"),
                          ({"allow": "a.example.com", "network": "host"}, "--network host"), ({"allow": "*.*.example.com"}, "*.*")):
        result = one_net_box.run("print(1)", **options)
        assert result.returncode != 0 and word in result.error["message"], (options, result.explain())


def test_trust(internet, net_box):
    """Code that nobody trusts may have an allowlist; the host's network it may not."""
    internet.site("a.example.com", tls=False)
    assert answers(net_box.run(CLIENT + "report(get('http://a.example.com/')[0])", allow="http://a.example.com", trust="untrusted")) == [200]
    assert "untrusted" in net_box.run("print(1)", network="host", trust="untrusted").error["message"]


@pytest.mark.parametrize("lang", ["sh", "bash", "python"])
def test_every_language(internet, one_net_box, lang):
    internet.site("a.example.com")
    shell = "curl -sS https://a.example.com/; curl -sS -o /dev/null -w ' %{http_connect}' https://b.example.com/ 2>/dev/null; true"
    code = {"python": f"import subprocess; subprocess.run({shell!r}, shell=True)"}.get(lang, shell)
    result = one_net_box.run(code, lang, allow="a.example.com")
    assert result.stdout == "hello 403", result.explain()


# ---- credentials, and TLS that ends at the proxy ----

@pytest.mark.smoke
def test_intercepted(internet, net_box):
    """Rules for methods and paths, and fields that are put in, hold within TLS, too; the box trusts the certificate by itself."""
    site = internet.site("a.example.com", reply=lambda request: request.headers.get("X-Key", "none").encode())
    other = internet.site("b.example.com")
    policy = policy_file(net_box, """
network_mode: allowlist
network_allow:
  - {host: a.example.com, methods: [GET], paths: [/api/], headers: {X-Key: "${env:EDGE_KEY}"}, intercept: true}
  - b.example.com
""")
    code = """
import urllib.request, urllib.error, json, ssl
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 has it by itself
def get(url, **options):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, **options), context=context).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([len(get("https://a.example.com/api/x")), get("https://a.example.com/other"), get("https://a.example.com/api/x", method="DELETE"), get("https://b.example.com/")]))
"""
    key = "edge-" + secrets.token_hex(8)
    result = net_box.run(code, policy=policy, environ={"EDGE_KEY": key})
    assert answers(result) == [len(key), 403, 403, "hello"], result.explain()
    assert [(r.path, r.headers["X-Key"]) for r in site.requests] == [("/api/x", key)] and "X-Key" not in other.requests[0].headers
    assert key not in json.dumps(result.json)


def test_roots_are_the_hosts(internet, one_net_box):
    """An upstream that nobody vouches for gets no request, also when the box does not look."""
    site = internet.site("a.example.com")
    site.context = Authority().context("a.example.com")
    policy = policy_file(one_net_box, "network_mode: allowlist\nnetwork_allow:\n  - {host: a.example.com, intercept: true}\n")
    code = CLIENT + """
s, status, text = connect("a.example.com:443")
context = ssl._create_unverified_context()
try:
    with context.wrap_socket(s, server_hostname="a.example.com") as t:
        t.sendall(b"GET / HTTP/1.1\\r\\nHost: a.example.com\\r\\nConnection: close\\r\\n\\r\\n")
        found = split(read_all(t).decode("latin-1"))
except OSError as error:
    found = [0, str(error)]
report(*found)
"""
    status, _ = answers(one_net_box.run(code, policy=policy))
    assert status in (0, 502) and site.requests == []


# ---- sessions of a server ----

def test_sessions(internet, net_server):
    """The ledger goes on from run to run, each run's result has its own part; rules can be replaced."""
    internet.site("a.example.com", tls=False)
    session = net_server.session(policy={"network_allow": ["http://a.example.com"], "network_requests": 100})
    code = CLIENT + "report(get('http://a.example.com/')[0], get('http://b.example.com/')[0])"
    for _ in range(2):
        result = net_server.run(code, session)["result"]
        assert answers(result) == [200, 403] and (result["network"]["requests"], result["network"]["denied"]) == (2, 1), result["network"]
    state = net_server.get(f"/v1/sessions/{session}/network").expect(200).json
    assert state["mode"] == "allowlist" and (state["used"]["requests"], state["used"]["denied"]) == (4, 2) and state["limits"]["requests"] == 100 and len(state["rules"]) == 1, state
    changed = net_server.request("PUT", f"/v1/sessions/{session}/network", json={"allow": ["http://b.example.com", "python-packages"], "requests": 5}).expect(200).json
    assert len(changed["rules"]) == 3 and changed["limits"]["requests"] == 5, changed
    internet.site("b.example.com", tls=False)
    assert answers(net_server.run(code, session)["result"]) == [403, 403]  # the first of them was the fifth
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_command_through_a_server(internet, net_server, one_net_box):
    """The flags mean the same there, and what was refused is told at the end."""
    internet.site("a.example.com", tls=False)
    code = CLIENT + "report(get('http://a.example.com/')[0], get('http://b.example.com/')[0])"
    result = one_net_box.run(code, allow="http://a.example.com", network_requests=10, json=False, environ={"GLOVEBOX_SERVER": f"unix:{net_server.socket}"})
    assert result.out == b"[200, 403]\n" and b"b.example.com:80" in result.err, result.explain()


def test_contexts(internet, net_server):
    """Interpreters that stay have the same network as everything in their session; a warm start changes nothing."""
    internet.site("a.example.com", tls=False)
    session = net_server.session(policy={"network_allow": ["http://a.example.com"]})
    context = net_server.post(f"/v1/sessions/{session}/contexts", {"language": "python"}).expect(201).json["id"]
    net_server.run("import urllib.request\ntext = urllib.request.urlopen('http://a.example.com/').read()", session, context=context)
    result = net_server.run("print(text)", session, context=context)["result"]
    assert result["stdout"] == "b'hello'\n", result
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_no_change_of_other_networks(internet, net_server):
    session = net_server.session()
    assert net_server.get(f"/v1/sessions/{session}/network").expect(200).json["mode"] == "none"
    assert net_server.request("PUT", f"/v1/sessions/{session}/network", json={"allow": ["*"]}).status == 409
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_live(internet, net_server, one_net_box):
    """While a run goes on: what it has sent so far, over the API and by the command."""
    internet.raw("a.example.com", lambda plain: plain.sendall(b"x" * 5000) or plain.recv(1), port=9000)
    session = net_server.session(policy={"network_allow": ["tcp://a.example.com:9000"]})
    code = CLIENT + "s, _, _ = connect('a.example.com:9000')\ns.recv(5000, socket.MSG_WAITALL)\nimport os, time\nwhile not os.path.exists('/workspace/end'): time.sleep(0.01)\ns.close()"
    run = net_server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"]
    path = f"/v1/sessions/{session}/network"
    assert wait_until(lambda: net_server.get(path).expect(200).json["used"]["bytes_down"] == 5000, 20), net_server.get(path).json
    assert net_server.get(path).json["open"] == 1
    shown = one_net_box.call("net", session, environ={"GLOVEBOX_SERVER": f"unix:{net_server.socket}", "GLOVEBOX_RUNTIME_DIR": str(net_server.directory / "run")})
    assert shown.returncode == 0 and b"a.example.com" in shown.out, shown.explain()
    net_server.put(f"/v1/sessions/{session}/files/end").expect(201)
    net_server.wait_run(run)
    assert wait_until(lambda: net_server.get(path).json["open"] == 0, 10)
    net_server.delete(f"/v1/sessions/{session}").expect(204)
