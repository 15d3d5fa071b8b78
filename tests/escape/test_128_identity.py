# SPDX-License-Identifier: Apache-2.0
"""128. Code in one box says to the proxy that it is another: ids, tokens, header fields, user names of SOCKS, addresses it comes from => who somebody is comes from where
its connections come from, and from nothing it says.
"""
import os

from conftest import wait_until
from internet import CLIENT, answers, internet, net_server, proxies  # noqa: F401


def test_stolen_names(internet, net_server):
    site = internet.site("open.example.com", tls=False)
    tunnel = internet.raw("open2.example.com", lambda plain: plain.recv(1), port=9000)
    rich = net_server.session(policy={"network_mode": "allowlist", "network_allow": ["http://open.example.com", "tcp://*:9000"]})
    poor = net_server.session(policy={"network_mode": "allowlist", "network_allow": ["http://other.example.com"]})
    assert answers(net_server.run(CLIENT + "report(get('http://open.example.com/')[0])", rich)["result"]) == [200]
    fields = [f"Proxy-Authorization: Basic {rich}", f"Proxy-Authorization: Bearer {rich}", f"Authorization: Bearer {rich}", f"X-Glovebox-Session: {rich}", f"Glovebox-Session: {rich}", f"Cookie: session={rich}",
              "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "Via: 1.1 glovebox"]
    code = CLIENT + f"""
fields, rich = {fields!r}, {rich!r}
found = [get("http://open.example.com/", field)[0] for field in fields] + [connect("open2.example.com:9000", field)[1] for field in fields]
found += [get(f"http://{{user}}@open.example.com/")[0] for user in (rich, rich + ":x", "root")]
s = dial()
s.sendall(b"\\5\\2\\0\\2")
found.append(s.recv(2).hex())
s.sendall(b"\\1" + bytes([len(rich)]) + rich.encode() + b"\\1x")
found.append(read_all(s)[:2].hex())
for i in range(2, 250, 13):
    with socket.socket() as s:
        s.bind((f"127.0.0.{{i}}", 0))
        s.connect(PROXY)
        s.sendall(b"GET http://open.example.com/ HTTP/1.1\\r\\nHost: open.example.com\\r\\n\\r\\n")
        found.append(head(s)[0])
report(*found)
"""
    found = answers(net_server.run(code, poor)["result"])
    assert set(found[:18]) == {403} and set(found[18:21]) <= {400, 403} and set(found[23:]) == {403}, found
    assert found[21] in ("0500", "05ff") and found[22] != "0500", found
    assert site.accepted == 1 and tunnel.accepted == 0
    for session in (rich, poor):
        net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_many_boxes_of_one_proxy(internet, net_server):
    """Twenty, each with one host of its own: each gets that and no other."""
    sites = [internet.site(f"s{i}.example.com", tls=False) for i in range(20)]
    sessions = [net_server.session(policy={"network_mode": "allowlist", "network_allow": [f"http://s{i}.example.com"]}) for i in range(20)]
    code = CLIENT + "report(*(get(f'http://s{i}.example.com/')[0] for i in range(20)))"
    for i, session in enumerate(sessions):
        assert answers(net_server.run(code, session)["result"]) == [200 if k == i else 403 for k in range(20)]
    assert [site.accepted for site in sites] == [1] * 20 and len(proxies(net_server.pid)) == 1
    for session in sessions:
        net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_gone_with_its_session(internet, net_server):
    """What was open when a session ended is closed, and its number is nobody else's."""
    site = internet.raw("long.example.com", lambda plain: plain.recv(1), port=9001)
    session = net_server.session(policy={"network_mode": "allowlist", "network_allow": ["tcp://long.example.com:9001"]})
    net_server.post(f"/v1/sessions/{session}/runs", {"code": CLIENT + "s = connect('long.example.com:9001')\n__import__('time').sleep(60)", "detach": True}).expect(202)
    assert wait_until(lambda: site.open, 20)
    [proxy] = proxies(net_server.pid)
    before = len(os.listdir(f"/proc/{proxy}/fd"))
    net_server.delete(f"/v1/sessions/{session}").expect(204)
    assert wait_until(lambda: not site.open and len(os.listdir(f"/proc/{proxy}/fd")) < before, 10)
