# SPDX-License-Identifier: Apache-2.0
"""123. An allowed upstream is hostile: heads without an end, floods of 1xx, answers in drops, resets at any moment, lengths and chunks that lie, a second answer behind the
first, bodies without an end that nobody reads => an error or an answer that is cut off, nothing of one answer in another, and the proxy stays small and serves others.
"""
import pathlib

import pytest
from conftest import wait_until
from hostile_upstreams import BROKEN_BODIES, BROKEN_HEADS, OK, after_the_head, drip, flood, read_head
from internet import CLIENT, answers, internet, net_server, proxies  # noqa: F401

MEMORY = 48 << 20  # of the proxy, whatever they do


def peak_memory(pid):
    return max(int(line.split()[1]) * 1024 for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))


@pytest.fixture
def session(internet, net_server):
    policy = {"network_mode": "allowlist", "network_allow": ["http://*.example.com", "tcp://*.example.com:9000"], "network_connections": 128}
    made = net_server.session(policy=policy)
    yield made
    net_server.delete(f"/v1/sessions/{made}").expect(204)


def run(server, session, code, **fields):
    return answers(server.run(CLIENT + code, session, **fields)["result"])


def all_at_once(names):
    return f"""
found = {{}}
def one(i, name):
    found[name] = get(f"http://n{{i}}.example.com/")
threads = [threading.Thread(target=one, args=pair) for pair in enumerate({list(names)!r})]
[t.start() for t in threads]; [t.join() for t in threads]
report(found)
"""


def test_heads(internet, net_server, session):
    good = internet.site("good.example.com", tls=False)
    for i, function in enumerate(BROKEN_HEADS.values()):
        internet.raw(f"n{i}.example.com", after_the_head(function), port=80)
    [found] = run(net_server, session, all_at_once(BROKEN_HEADS))
    wrong = {name: (status, body[:200]) for name, (status, body) in found.items() if status not in (502, 504)}
    assert not wrong, wrong
    assert run(net_server, session, "report(get('http://good.example.com/'))") == [[200, "hello"]] and good.accepted == 1
    [proxy] = proxies(net_server.pid)
    assert peak_memory(proxy) < MEMORY


def test_bodies(internet, net_server, session):
    """What comes is the beginning of what was sent, and nothing that was not part of it."""
    for i, function in enumerate(BROKEN_BODIES.values()):
        internet.raw(f"n{i}.example.com", after_the_head(function), port=80)
    [found] = run(net_server, session, all_at_once(BROKEN_BODIES))
    assert not {name: body for name, (status, body) in found.items() if "poisoned" in body}, found
    assert {status for status, _ in found.values()} <= {200, 204, 304, 502}, found
    assert found["second answer"] == [200, "hello"], found["second answer"]
    [proxy] = proxies(net_server.pid)
    assert peak_memory(proxy) < MEMORY


def test_poisoned_connection(internet, net_server, session):
    """An answer that comes before it was asked for does not answer the next request on the same connection."""
    def speak(plain):
        read_head(plain)
        plain.sendall(OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"Content-Length: 8\r\n\r\npoisoned")
        while read_head(plain):
            plain.sendall(OK + b"Content-Length: 6\r\n\r\nsecond")

    internet.raw("a.example.com", speak, port=80)
    code = r"""
s = dial()
found = []
for path in ("/1", "/2"):
    s.sendall(f"GET http://a.example.com{path} HTTP/1.1\r\nHost: a.example.com\r\n\r\n".encode())
    status, text = head(s)
    found.append((status, s.recv(100).decode()))
report(found)
"""
    [found] = run(net_server, session, code)
    assert found[0] == [200, "hello"] and "poisoned" not in found[1][1], found


def test_nobody_reads(internet, net_server, session):
    """Upstreams that send without an end, to clients that do not read, by tunnels and by requests."""
    sent = []

    def endless(plain):
        if plain.getsockname()[1] == 80:
            read_head(plain)
            plain.sendall(OK + b"Content-Length: 99999999999\r\n\r\n")
        plain.settimeout(2)
        try:
            while True:
                sent.append(plain.send(b"x" * 65536))
        except OSError:
            pass

    address = internet.raw("big.example.com", endless, port=80).address
    internet.listen(address, 9000, endless)
    code = r"""
sockets = [connect("big.example.com:9000")[0] for i in range(30)]
for i in range(30):
    s = dial()
    s.sendall(b"GET http://big.example.com/ HTTP/1.1\r\nHost: big.example.com\r\n\r\n")
    sockets.append(s)
import time
time.sleep(1)
report(get("http://good.example.com/"))
"""
    internet.site("good.example.com", tls=False)
    assert run(net_server, session, code) == [[200, "hello"]]
    [proxy] = proxies(net_server.pid)
    assert peak_memory(proxy) < MEMORY, peak_memory(proxy)
    assert sum(sent) > 1 << 20


def test_drops(internet, net_server, session):
    """One that answers in drops has its own connection only; the others are served meanwhile."""
    slow = internet.raw("slow.example.com", after_the_head(drip), port=80)
    internet.site("good.example.com", tls=False)
    code = r"""
sockets = []
for i in range(20):
    s = dial()
    s.sendall(b"GET http://slow.example.com/ HTTP/1.1\r\nHost: slow.example.com\r\n\r\n")
    sockets.append(s)
report(*(get("http://good.example.com/") for i in range(5)))
"""
    assert run(net_server, session, code) == [[200, "hello"]] * 5  # the context keeps the connections
    assert wait_until(lambda: slow.accepted == 20, 30), slow.accepted
    change = {"allow": ["http://good.example.com"]}
    net_server.request("PUT", f"/v1/sessions/{session}/network", json=change).expect(200)
    assert wait_until(lambda: not slow.open, 10)  # and can be taken from it


def test_resets(internet, net_server, session):
    """Who closes first does not matter: hundreds of connections that end at every moment, from both sides."""
    def hasty(plain):
        flood(plain, b"x" * 1000, 1000)

    internet.raw("hasty.example.com", hasty, port=9000)
    internet.site("good.example.com", tls=False)
    code = r"""
import struct
def one(i):
    s = dial()
    data = b"CONNECT hasty.example.com:9000 HTTP/1.1\r\nHost: hasty.example.com:9000\r\n\r\nxxxxxxxxxxxxxxxxxx"
    s.sendall(data[:i])
    if i % 3 == 0:
        s.recv(1 + i % 50) if i >= len(data) - 18 else None
    if i % 2:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
for i in range(90):
    one(i)
    one(89 - i)
report(get("http://good.example.com/"))
"""
    before = proxies(net_server.pid)
    assert run(net_server, session, code) == [[200, "hello"]]
    assert before and proxies(net_server.pid) == before  # it is still the same one
