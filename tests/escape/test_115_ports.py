# SPDX-License-Identifier: Apache-2.0
"""115. A host that is allowed is asked for on other ports: 22, 25, 6379, 80, 8443, 0, 65536, and on 443 written in other ways => only the ports that are listed; nothing
else gets a packet.
"""
from internet import CLIENT, answers, internet, net_box  # noqa: F401

OTHERS = [22, 25, 80, 444, 6379, 8443, 65535]
FORMS = ["0", "65536", "65979", "0443", "+443", "-443", " 443", "443 ", "0x1bb", "443.0", "", "443:443", "４４３", "https"]


def test_ports(internet, net_box):
    site = internet.raw("a.example.com", lambda plain: plain.recv(1))
    others = [internet.listen(site.address, port, lambda plain: plain.recv(1)) for port in OTHERS]
    code = CLIENT + f"""
report([status_of("a.example.com:443")[0]], [status_of(f"a.example.com:{{port}}") for port in {OTHERS!r}], [status_of(f"a.example.com:{{form}}")[0] for form in {FORMS!r}],
       [socks("a.example.com", port)[1] for port in (443, 0, *{OTHERS!r})], [get(f"http://a.example.com:{{port}}/")[0] for port in (80, 443, 22, 0)])
"""
    result = net_box.run(code, allow="a.example.com")
    tunnel, refused, forms, socks, plain = answers(result)
    assert tunnel == [200] and [status for status, _ in refused] == [403] * len(OTHERS), (tunnel, refused)
    assert all(str(port) in text and "a.example.com" in text for port, (_, text) in zip(OTHERS, refused)), refused
    assert set(forms) <= {400, 403}, dict(zip(FORMS, forms))
    assert socks[0] == 0 and 0 not in socks[1:], socks
    assert set(plain) <= {400, 403}, plain
    assert site.accepted == 2 and [listener.accepted for listener in others] == [0] * len(others)
    assert {row["port"] for row in result.json["network"]["hosts"] if row["decision"] == "port"} >= set(OTHERS)


def test_ranges_of_ports(internet, net_box):
    site = internet.raw("a.example.com", lambda plain: plain.recv(1), port=8000)
    for port in (7999, 8001, 8010, 8011, 443):
        internet.listen(site.address, port, lambda plain: plain.recv(1))
    code = CLIENT + "report(*(status_of(f'a.example.com:{port}')[0] for port in (7999, 8000, 8001, 8010, 8011, 443)))"
    assert answers(net_box.run(code, allow="tcp://a.example.com:8000-8010")) == [403, 200, 200, 200, 403, 403]
