# SPDX-License-Identifier: Apache-2.0
"""120. Code inside asks the proxy for a tunnel to the proxy itself, to that of another box, or asks within a tunnel for the next one => the same rules at each hop: loopback
is never dialled, and what is no TLS does not leave a tunnel that is for TLS.
"""
import pytest
from conftest import wait_until
from internet import CLIENT, answers, internet, net_box, one_net_box  # noqa: F401

SELF = ["127.0.0.1:3128", "localhost:3128", "[::1]:3128", "0.0.0.0:3128", "127.1:3128", "[::ffff:127.0.0.1]:3128", "self.example.com:3128", "127.0.0.2:3128"]


def test_itself(internet, net_box):
    """Also where rules name it: its address is that of the host's loopback, where others may listen."""
    trap = internet.trap(3128)
    internet.names["self.example.com"] = ["127.0.0.1"]
    allow = ["tcp://127.0.0.1:3128", "tcp://localhost:3128", "tcp://[::1]:3128", "tcp://0.0.0.0:3128", "tcp://self.example.com:3128", "tcp://127.0.0.2:3128"]
    code = CLIENT + f"report([status_of(t)[0] for t in {SELF!r}], [socks(t.rpartition(':')[0], 3128)[1] for t in {SELF!r} if '[' not in t], [get(f'http://{{t}}/')[0] for t in {SELF!r}])"
    tunnels, socks, plain = answers(net_box.run(code, allow=allow))
    assert set(tunnels) == {403} and set(socks) == {2} and set(plain) == {403}, (tunnels, socks, plain)
    assert trap.caught == []


def test_other_boxes(internet, one_net_box):
    """The proxy's place is the same address in every box, and another one each time."""
    open_site, workspace = internet.raw("open.example.com", lambda plain: plain.recv(1), port=9010), one_net_box.directory()
    wait = CLIENT + "connect('open.example.com:9010')\nimport os, time\nwhile not os.path.exists('/workspace/end'): time.sleep(0.01)"
    other = one_net_box.start(wait, allow="tcp://*:9010", workspace=workspace)
    assert wait_until(lambda: open_site.accepted, 20), one_net_box.finish(other).explain()
    code = CLIENT + f"report(*(status_of(t)[0] for t in ('open.example.com:9010', *{SELF!r})))"
    result = one_net_box.run(code, network="allowlist")
    (workspace / "end").touch()
    assert one_net_box.finish(other).verdict == "ok"
    assert set(answers(result)) == {403} and open_site.accepted == 1, result.explain()


@pytest.mark.parametrize("words", ["CONNECT b.example.com:443 HTTP/1.1\r\nHost: b.example.com:443\r\n\r\n", "GET http://b.example.com/ HTTP/1.1\r\nHost: b.example.com\r\n\r\n",
                                   "\5\1\0\5\1\0\3\x0db.example.com\1\xbb", "SSH-2.0-x\r\n", "\0"])
@pytest.mark.parametrize("how", ["connect", "socks", "together"])
def test_within_a_tunnel(internet, one_net_box, words, how):
    """An allowed host that is a proxy, too, does not see them."""
    got = []
    relay = internet.raw("a.example.com", lambda plain: got.append(plain.recv(4096)))
    begin = {"connect": "s, status, _ = connect('a.example.com:443')", "socks": "s, status = socks('a.example.com', 443)",
             "together": "s = dial(); status = 0"}[how]
    first = "CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\n\r\n" if how == "together" else ""
    code = CLIENT + f"{begin}\ns.sendall({first + words!r}.encode('latin-1'))\nreport(status, read_all(s).decode('latin-1'))"
    result = one_net_box.run(code, allow="a.example.com")
    status, text = answers(result)
    assert status in (0, 200) and relay.accepted <= 1 and set(got) <= {b""}, (status, text, got)
    assert [row["decision"] for row in result.json["network"]["hosts"] if row["decision"] != "allowed"] == ["not-tls"], result.json["network"]


def test_relay_by_paths(internet, one_net_box):
    """Requests that an upstream could take for its own proxying get there in origin form only."""
    site = internet.site("a.example.com", tls=False)
    code = CLIENT + "report(*(get(u)[0] for u in ('http://a.example.com/http://b.example.com/', 'http://a.example.com//b.example.com/', 'http://a.example.com/?http://b.example.com')))"
    assert answers(one_net_box.run(code, allow="http://a.example.com")) == [200, 200, 200]
    assert [r.path for r in site.requests] == ["/http://b.example.com/", "//b.example.com/", "/?http://b.example.com"]
    assert {r.headers["Host"] for r in site.requests} == {"a.example.com"}
