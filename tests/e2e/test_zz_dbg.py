import time, os, random, threading, signal
from conftest import *
from internet import CLIENT, answers, internet, net_server, one_net_box, proxies
GUARD_MODE="off"
def test_fuzz(internet, net_server, one_net_box):
    internet.site("a.example.com", tls=False, reply=lambda r: os.urandom(random.randrange(3000)))
    def nasty(plain):
        plain.recv(65536)
        base = random.choice([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nbody"])
        b = bytearray(base)
        for _ in range(random.randrange(4)):
            i = random.randrange(len(b)); b[i] = random.randrange(256)
        b = bytes(b)
        k = random.randrange(len(b))
        plain.sendall(b[:k]); time.sleep(random.random()*0.01); plain.sendall(b[k:])
    internet.raw("b.example.com", nasty, port=80)
    internet.raw("c.example.com", nasty, port=443)
    internet.site("s.example.com")
    session = net_server.session(policy={"network_allow": ["http://a.example.com", "http://b.example.com", "c.example.com", "tcp://a.example.com:80", {"host": "s.example.com", "intercept": True}], "timeout": 100, "network_connections": 300})
    code = CLIENT + r"""
import random, os, struct, time
random.seed(int(time.time()*1000))
hello = None
def tls_hello(name):
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    o = ssl._create_unverified_context().wrap_bio(a, b, server_hostname=name)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    return b.read()
H = {n: tls_hello(n) for n in ("c.example.com", "s.example.com", "x.example.com")}
bases = [
 b"GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n" * 2,
 b"POST http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET http://b.example.com/ HTTP/1.1\r\nHost: b.example.com\r\nConnection: close\r\n\r\n",
 b"POST http://b.example.com/x HTTP/1.1\r\nHost: b.example.com\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
 b"CONNECT c.example.com:443 HTTP/1.1\r\nHost: c.example.com:443\r\n\r\n" + H["c.example.com"],
 b"CONNECT s.example.com:443 HTTP/1.1\r\nHost: s.example.com:443\r\n\r\n" + H["s.example.com"],
 b"CONNECT a.example.com:80 HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n",
 b"\5\1\0\5\1\0\3\x0dc.example.com\1\xbb" + H["c.example.com"],
 b"\5\1\0\5\1\0\3\x0ds.example.com\1\xbb" + H["s.example.com"],
]
def one():
    b = bytearray(random.choice(bases))
    for _ in range(random.choice([0, 0, 1, 1, 2, 5])):
        i = random.randrange(len(b))
        r = random.random()
        if r < .5: b[i] = random.randrange(256)
        elif r < .7: del b[i:i+random.randrange(10)]
        elif r < .9: b[i:i] = bytes(random.randrange(256) for _ in range(random.randrange(10)))
        else: b[i:i] = b[:random.randrange(len(b) + 1)]
        if not b: b = bytearray(b"x")
    b = bytes(b)
    s = dial(3)
    try:
        n = random.choice([1, 1, 2, 3, 8])
        for k in range(n):
            s.sendall(b[len(b) * k // n:len(b) * (k + 1) // n])
            if n > 1: time.sleep(0.001)
        r = random.random()
        if r < .3: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif r < .6: s.shutdown(socket.SHUT_WR)
        if r > .25:
            s.settimeout(0.2)
            s.recv(65536)
    except OSError:
        pass
    s.close()
end = time.time() + 22
n = [0]
def work():
    while time.time() < end:
        one(); n[0] += 1
ts = [threading.Thread(target=work) for _ in range(24)]
[t.start() for t in ts]; [t.join() for t in ts]
report(n[0], get("http://a.example.com/")[0])
"""
    net_server.run(CLIENT + "report(1)", session)
    before = proxies(net_server.pid)
    for i in range(2):
        r = net_server.run(code, session, timeout=60)["result"]
        print(r["stdout"], r["stderr"][-500:], r["verdict"], {k: v for k, v in r["network"].items() if k != "hosts"})
    print(before, proxies(net_server.pid), len(os.listdir(f"/proc/{proxies(net_server.pid)[0]}/fd")))
    time.sleep(1)
    print(net_server.get(f"/v1/sessions/{session}/network").json["open"])
    assert 0
