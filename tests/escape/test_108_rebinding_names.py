# SPDX-License-Identifier: Apache-2.0
"""108. A name that an allowlist lets pass leads to a public address first and to 127.0.0.1 or 169.254.169.254 then, has public and private addresses at once, or is another
name for something internal; its answers may not be kept (TTL 0) => every address is looked at, and the one that was looked at is dialled; nothing internal gets a packet.
"""
import collections

from internet import A, AAAA, CLIENT, Alias, Late, Sequence, answers, internet, net_box, one_net_box  # noqa: F401

INTERNAL = ["127.0.0.1", "10.0.0.7", "169.254.169.254", "192.168.1.1", "100.64.0.1", "::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]


def test_public_first_then_internal(internet, net_box):
    """A connection each: to what the name leads to at that time, if it may."""
    site = internet.site("site.example.com", tls=False, port=8080)
    internet.names["rebound.example.com"] = Sequence([site.address], ["127.0.0.1"], ["169.254.169.254"], [site.address])
    before = internet.names.count("rebound.example.com")
    result = net_box.run(CLIENT + "report(*(get('http://rebound.example.com:8080/') for i in range(4)))", allow="http://rebound.example.com:8080")
    statuses = [status for status, _ in answers(result)]
    assert statuses == [200, 403, 403, 200] and site.accepted == 2, result.explain()
    assert internet.names.count("rebound.example.com") - before == 4  # once for each
    assert {row["decision"]: row["requests"] for row in result.json["network"]["hosts"]} == {"allowed": 2, "address": 2}


def test_looked_at_is_dialled(internet, net_box):
    """The second answer is internal, and is there before the dial: a proxy that asked twice would go there."""
    site = internet.raw("tunnel.example.com", lambda plain: plain.sendall(b"public"), port=8022)
    inner = [internet.listen(address, 8022, lambda plain: plain.sendall(b"inner")) for address in ("127.0.0.1", "169.254.169.254")] if net_box.is_root else []
    for i in range(8):
        internet.names[f"n{i}.example.com"] = Sequence([site.address], ["127.0.0.1"])
    code = CLIENT + """
found = []
for i in range(8):
    s, status, text = connect(f"n{i}.example.com:8022")
    found.append(read_all(s).decode())
report(*found)
"""
    result = net_box.run(code, allow="tcp://*.example.com:8022")
    assert answers(result) == ["public"] * 8, result.explain()
    assert [listener.accepted for listener in inner] == [0] * len(inner)


def test_mixed(internet, net_box):
    """One bad address among good ones, first or last: the name is not to be trusted."""
    site, trap = internet.raw("good.example.com", lambda plain: plain.recv(1), port=8023), internet.trap(8024)
    names = []
    for i, internal in enumerate(INTERNAL):
        for kind, addresses in {"first": [internal, site.address], "last": [site.address, internal], "only": [internal]}.items():
            names.append(f"{kind}{i}.example.com")
            internet.names[names[-1]] = addresses
    result = net_box.run(CLIENT + f"report(*(status_of(f'{{name}}:{{port}}')[0] for name in {names!r} for port in (8023, 8024)), status_of('good.example.com:8023')[0])",
                         allow="tcp://*.example.com:8023-8024")
    *refused, good = answers(result)
    assert set(refused) == {403} and good == 200, result.explain()
    assert site.accepted == 1 and trap.caught == [], trap.caught
    assert {row["decision"] for row in result.json["network"]["hosts"]} == {"address", "allowed"}


def test_other_names(internet, net_box):
    """CNAMEs lead inside, or outside by names that no rule has: what counts is the name that was asked for, and every address."""
    site = internet.raw("cdn.elsewhere.net", lambda plain: plain.sendall(b"public"), port=8025)
    trap = internet.trap(8026 if net_box.is_root else 8126)
    internet.names["alias.example.com"] = Alias("cdn.elsewhere.net", [site.address])
    internet.names["metadata.example.com"] = Alias("metadata.google.internal", ["169.254.169.254"])
    internet.names["self.example.com"] = Alias("localhost", ["127.0.0.1", "::1"])
    internet.names["loop.example.com"] = Alias("loop.example.com", [])
    code = CLIENT + """
names = ["alias.example.com", "metadata.example.com", "self.example.com", "loop.example.com", "cdn.elsewhere.net", "metadata.google.internal", "localhost"]
report(*(status_of(f"{name}:{port}")[0] for name in names for port in (8025, PORT)))
""".replace("PORT", str(trap.port))
    result = net_box.run(code, allow=f"tcp://*.example.com:8025,{trap.port}")
    statuses = answers(result)
    assert statuses[0] == 200 and statuses[2:6] == [403] * 4 and statuses[6:8] in ([502, 502], [403, 403]) and statuses[8:] == [403] * 6, statuses
    assert {address for address in trap.caught} <= {site.address} and site.accepted == 1


def test_names_of_the_host(internet, net_box):
    """The host's own file of names is one more way to an address, and the address is what counts."""
    trap = internet.trap(8027)
    internet.hosts("127.0.0.1 localhost\n10.0.0.8 inner.example.com\n93.184.3.3 outer.example.com\n")
    site = internet.listen("93.184.3.3", 8028, lambda plain: None) if net_box.is_root else None
    result = net_box.run(CLIENT + "report(status_of('inner.example.com:8027')[0], status_of('outer.example.com:8028')[0])", allow="tcp://*.example.com:8027-8028")
    internet.hosts("127.0.0.1 localhost\n")
    assert answers(result) == [403, 200], result.explain()
    assert trap.caught == [] and (not site or site.accepted == 1)


def test_listed_range(internet, one_net_box):
    """What the operator lists may be dialled, and nothing beside it."""
    inner = internet.raw("db.example.com", lambda plain: plain.sendall(b"inner"), port=8029, address="10.20.0.7")
    beside = internet.raw("beside.example.com", lambda plain: plain.sendall(b"beside"), port=8029, address="10.21.0.7")
    internet.names["both.example.com"] = ["10.20.0.7", "10.21.0.7"]
    code = CLIENT + "report(*(status_of(f'{name}.example.com:8029')[0] for name in ('db', 'beside', 'both')))"
    result = one_net_box.run(code, allow="tcp://*.example.com:8029", allow_range="10.20.0.0/16")
    assert answers(result) == [200, 403, 403] and inner.accepted == 1 and beside.accepted == 0, result.explain()


def test_answers_of_strangers(internet, one_net_box):
    """Who wants to answer in the place of the nameserver guesses: a box does not get him many questions for one name at once, nor the same port for long."""
    internet.names["shared.example.com"] = Late(1, [])
    code = CLIENT + """
kept = []
for i in range(60):
    kept.append(dial())
    kept[-1].sendall(b"CONNECT shared.example.com:443 HTTP/1.1\\r\\nHost: shared.example.com:443\\r\\n\\r\\n")
first = [head(s)[0] for s in kept]
report(sorted(set(first)), sorted({status_of(f"unknown{i}.example.com:443")[0] for i in range(250)}))
"""
    internet.names.ports.clear()
    result = one_net_box.run(code, allow="*.example.com")
    assert answers(result) == [[502], [502]], result.explain()
    for kind in (A, AAAA):  # more than one when it came too late
        assert 1 <= internet.names.count("shared.example.com", kind) <= 3
    ports = collections.Counter(internet.names.ports)
    assert sum(ports.values()) >= 500 and len(ports) >= 3 and max(ports.values()) <= 250, ports
