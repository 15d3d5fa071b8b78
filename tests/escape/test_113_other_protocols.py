# SPDX-License-Identifier: Apache-2.0
"""113. Code inside asks the proxy for another protocol: Upgrade to WebSocket, h2c or CONNECT-UDP, HTTP/2 at once, SOCKS4, commands of SOCKS5 other than CONNECT, TLS to the
proxy itself; an upstream answers 101 without being asked => refused, and nothing of it reaches anybody.
"""
from conftest import wait_until
from internet import CLIENT, answers, internet, net_box  # noqa: F401

WEB = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
H2C = ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"]
UDP = ["Upgrade: connect-udp", "Connection: Upgrade", "Capsule-Protocol: ?1"]


def lines(first, *fields):
    return "\r\n".join((first, "Host: a.example.com", *fields, "", ""))


def test_upgrades(internet, net_box):
    """The request ends at the proxy."""
    site = internet.site("a.example.com", tls=False)
    asked = [lines("GET http://a.example.com/ HTTP/1.1", *fields) for fields in (WEB, H2C, UDP)]
    asked.append(lines("GET http://a.example.com/.well-known/masque/udp/10.0.0.1/53/ HTTP/1.1", *UDP))
    result = net_box.run(CLIENT + f"report(*(ask(text) for text in {[text.replace('Connection: ', 'Connection: close, ') for text in asked]!r}))", allow="http://a.example.com")
    assert [text.split("\r\n")[0] for text in answers(result)] == ["HTTP/1.1 403 Forbidden"] * 4, result.explain()
    assert site.requests == []


def test_switched_by_upstream(internet, net_box):
    """101 that nobody asked for does not make a tunnel."""
    got = []

    def switch(plain):
        plain.recv(65536)
        plain.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: anything\r\nConnection: Upgrade\r\n\r\nfrom-upstream")
        got.append(plain.recv(65536))

    internet.raw("a.example.com", switch, port=80)
    code = CLIENT + f"""
s = dial()
s.sendall({lines("GET http://a.example.com/ HTTP/1.1", "Connection: close")!r}.encode())
status, text = head(s)
try:
    s.sendall(b"from-inside")
except OSError:
    pass
report(status, read_all(s).decode())
"""
    status, rest = answers(net_box.run(code, allow="http://a.example.com"))
    assert wait_until(lambda: got, 10), "the upstream was not asked"
    assert status == 502 and got == [b""] and "from-upstream" not in rest, (status, rest, got)


def test_other_first_bytes(internet, net_box):
    trap = internet.trap(7443)
    address = bytes(map(int, "93.184.216.34".split(".")))
    port = (7443).to_bytes(2, "big")
    cases = {
        "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
        "socks4": b"\4\1" + port + address + b"user\0",
        "socks4a": b"\4\1" + port + b"\0\0\0\1user\0a.example.com\0",
        "tls": b"\x16\3\1\0\5\1\0\0\1\0",
        "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
        "proxy protocol": b"PROXY TCP4 93.184.216.34 93.184.216.34 1 7443\r\nGET / HTTP/1.1\r\n\r\n",
        "proxy protocol 2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + address + address + port + port,
        "password only": b"\5\1\2",
        "no method": b"\5\0",
        "zeros": b"\0" * 4096,
        "options": b"OPTIONS * HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
        "connect without port": b"CONNECT a.example.com HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
        "connect with path": b"CONNECT a.example.com:7443/x HTTP/1.1\r\nHost: a.example.com:7443\r\n\r\n",
        "connect with scheme": b"CONNECT https://a.example.com:7443 HTTP/1.1\r\nHost: a.example.com:7443\r\n\r\n",
    }
    internet.names["a.example.com"] = ["93.184.216.34"]
    code = CLIENT + f"""
import threading
cases, found = {cases!r}, {{}}
def one(name, data):
    with dial() as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        found[name] = read_all(s).decode("latin-1")
threads = [threading.Thread(target=one, args=case) for case in cases.items()]
[t.start() for t in threads]; [t.join() for t in threads]
report(found)
"""
    [found] = answers(net_box.run(code, allow=["a.example.com:7443", "93.184.216.34:7443"]))
    assert set(found) == set(cases)
    bad = {name: text for name, text in found.items() if text and not text.startswith(("HTTP/1.1 400", "HTTP/1.1 403", "HTTP/1.1 405", "HTTP/1.1 501", "HTTP/1.1 505", "\5\xff", "\4", "\0\x5b"))}
    assert not bad and trap.caught == [], (bad, trap.caught)


def test_socks_commands(internet, net_box):
    """BIND and UDP ASSOCIATE are no tunnels."""
    internet.raw("a.example.com", lambda plain: plain.recv(1))
    code = CLIENT + "report(*(socks('a.example.com', 443, command)[1] for command in (1, 2, 3, 0, 255)), socks('b.example.com', 443)[1], socks('a.example.com', 22)[1])"
    found = answers(net_box.run(code, allow="a.example.com"))
    assert found[0] == 0 and found[1:5] == [7] * 4 and found[5:] == [2, 2], found
