# SPDX-License-Identifier: Apache-2.0
"""124. Code inside opens thousands of connections to the proxy at once, sends requests in drops or not at all, and keeps tunnels open => no more than its own number at a
time, the others are told so; its neighbours at the same proxy are served, and when it is gone nothing of it is left.
"""
import os
import pathlib

import pytest
from conftest import wait_until
from internet import CLIENT, answers, internet, net_server, proxies  # noqa: F401

CONNECTIONS = int(os.environ.get("GLOVEBOX_CONNECTIONS", 10000))


@pytest.fixture
def boxes(internet, net_server):
    """Who attacks, and a neighbour."""
    policy = {"network_mode": "allowlist", "network_allow": ["http://*.example.com", "tcp://*.example.com:9000"], "network_connections": 64}
    made = [net_server.session(policy=policy) for _ in range(2)]
    yield made
    for session in made:
        net_server.delete(f"/v1/sessions/{session}").expect(204)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def flood(kind):
    """A hundred at a time of each process; they stay until the file is there."""
    return CLIENT + f"""
import os, time, resource
def one():
    s = dial()
    if {kind!r} == "tunnels":
        s.sendall(b"CONNECT open.example.com:9000 HTTP/1.1\\r\\nHost: open.example.com:9000\\r\\n\\r\\n")
    elif {kind!r} == "drops":
        s.sendall(b"GET http://good.example.com/ HT")
    return s
kept, n = [], 0
while n < {CONNECTIONS}:
    try:
        kept.append(one())
    except OSError:
        time.sleep(0.01)
    n += 1
    if len(kept) > 500:
        kept = [s for i, s in enumerate(kept) if i >= 100]
open("/workspace/full", "w").close()
deadline = time.time() + 100
while not os.path.exists("/workspace/end") and time.time() < deadline:
    time.sleep(0.02)
for s in kept[-100:]:
    s.setblocking(False)
    try:
        s.recv(4096)
    except OSError:
        pass
[s.close() for s in kept]
report(n)
"""


@pytest.mark.parametrize("kind", ["silent", "drops", "tunnels"])
def test_neighbours(internet, net_server, boxes, kind):
    attacker, neighbour = boxes
    internet.site("good.example.com", tls=False)
    internet.raw("open.example.com", lambda plain: plain.recv(1), port=9000)
    good = CLIENT + "report(*(get('http://good.example.com/') for i in range(10)))"
    assert answers(net_server.run(good, neighbour)["result"]) == [[200, "hello"]] * 10
    [proxy] = proxies(net_server.pid)
    before = descriptors(proxy)
    request = {"code": flood(kind), "detach": True, "timeout": 180}
    run = net_server.post(f"/v1/sessions/{attacker}/runs", request).expect(202).json["id"]
    assert wait_until(lambda: net_server.get(f"/v1/sessions/{attacker}/files/full").status == 200
                      or net_server.get(f"/v1/runs/{run}").json["state"] == "ended", 70)
    assert answers(net_server.run(good, neighbour)["result"]) == [[200, "hello"]] * 10
    assert descriptors(proxy) <= before + 2 * 64 + 200, descriptors(proxy)  # pipes of tunnels are the rest
    state = net_server.get(f"/v1/sessions/{attacker}/network").expect(200).json
    net_server.put(f"/v1/sessions/{attacker}/files/end").expect(201)
    result = net_server.wait_run(run)["result"]
    assert answers(result) == [CONNECTIONS], result
    assert 0 < state["open"] <= 64, state
    assert any(row["decision"] == "connections" for row in result["network"]["hosts"]), result["network"]
    assert wait_until(lambda: descriptors(proxy) <= before + 140, 10), (before, descriptors(proxy))
    assert proxies(net_server.pid) == [proxy]
    status = pathlib.Path(f"/proc/{proxy}/status").read_text()
    assert int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) < 64 << 10, status


def test_told_so(internet, net_server, boxes):
    """Who is one too many gets an answer, and can go on when others are closed."""
    internet.raw("open.example.com", lambda plain: plain.recv(1), port=9000)
    code = CLIENT + """
kept = [connect("open.example.com:9000") for i in range(64)]
first = sorted({status for _, status, _ in kept})
try:
    refused = split(read_all(dial()).decode())
except OSError as error:
    refused = (0, str(error))
for s, _, _ in kept[:10]:
    s.close()
import time
for i in range(100):
    status = connect("open.example.com:9000")[1]
    if status == 200:
        break
    time.sleep(0.05)
report(first, refused, status)
"""
    first, refused, after = answers(net_server.run(code, boxes[0])["result"])
    assert (first, after) == ([200], 200) and refused[0] == 503 and "connections" in refused[1], (first, refused, after)


@pytest.mark.parametrize("most", [300, 400])
def test_few_descriptors(internet, most):
    """The proxy may have few descriptors, and one box takes all it can get: the proxy stays, and so does the tunnel of another box."""
    def echo(plain):
        while data := plain.recv(100):
            plain.sendall(data)

    internet.raw("a.example.com", echo, port=9000)
    policy = {"network_mode": "allowlist", "network_allow": ["tcp://a.example.com:9000"], "network_connections": 256}
    victim_code = CLIENT + """
import os, time
s, status, _ = connect("a.example.com:9000")
s.sendall(b"x")
first = s.recv(1) == b"x"
open("/workspace/open", "w").close()
while not os.path.exists("/workspace/go"):
    time.sleep(0.02)
try:
    s.sendall(b"y")
    second = s.recv(1) == b"y"
except OSError as error:
    second = str(error)
report(status, first, second)
"""
    flood_code = CLIENT + """
import os, time
kept, failed = [], 0
while len(kept) < MOST and failed < 3:
    try:
        s = dial(2)
        s.sendall(b"CONNECT a.example.com:9000 HTTP/1.1\\r\\nHost: a.example.com:9000\\r\\n\\r\\nz")
        kept.append(s)
    except OSError:  # nobody takes it any more
        failed += 1
open("/workspace/full", "w").close()
while not os.path.exists("/workspace/go"):
    time.sleep(0.02)
report(len(kept) > 0)
""".replace("MOST", str(min(256, most - 30)))  # it has no more of them than the proxy
    server = internet.server()
    command = server.program()
    server.program = lambda: ["prlimit", f"--nofile={most}", *command]
    with server:
        sessions = victim, attacker = server.session(policy=policy), server.session(policy=policy)
        [proxy] = proxies(server.pid)
        assert f"{most}" in next(line for line in pathlib.Path(f"/proc/{proxy}/limits").read_text().splitlines() if line.startswith("Max open files"))
        runs = []
        for session, code, file in ((victim, victim_code, "open"), (attacker, flood_code, "full")):
            runs.append(server.post(f"/v1/sessions/{session}/runs", {"code": code, "detach": True}).expect(202).json["id"])
            assert wait_until(lambda: server.get(f"/v1/sessions/{session}/files/{file}").status == 200, 30), (file, server.output())
        third = server.post("/v1/sessions", {"policy": policy})  # its order needs descriptors, too
        assert third.status in (201, 500, 503) and proxies(server.pid) == [proxy], third.explain()
        for session in sessions:
            server.put(f"/v1/sessions/{session}/files/go").expect(201)
        assert [answers(server.wait_run(run)["result"]) for run in runs] == [[200, True, True], [True]]
        assert proxies(server.pid) == [proxy]
