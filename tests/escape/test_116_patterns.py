# SPDX-License-Identifier: Apache-2.0
"""116. Names that look like the ones of a rule: the domain of "*.a.com" itself, names that end alike, with a dot at their end, in capitals, with a port in them, twins in
other scripts, empty labels, too long ones => exact labels; what is refused is not even looked up. (The table of all forms is a unit test.)
"""
from internet import CLIENT, answers, internet, net_box  # noqa: F401

LONG = ".".join(["a" * 61] * 4) + ".wild.example"
PASS = ["exact.example:443", "EXACT.Example:443", "exact.example.:443", "x.wild.example:443", "a.b.wild.example:443", "X.WILD.EXAMPLE.:443", "xn--e1afmkfd.wild.example:443"]
REFUSED = [
    "www.exact.example:443", "xexact.example:443", "exact.example.evil.net:443", "exact-example:443", "exact.exampl:443", "exact.examples:443",
    "wild.example:443", "xwild.example:443", "wild.example.evil.net:443", "x.wild.example.evil.net:443", "xn--exct-loa.example:443",
    ".wild.example:443", "x..wild.example:443", "exact.example..:443", "..exact.example:443", "*.wild.example:443", "x.wild.example:443:443", "exact.example:443@evil.net:443",
    "еxact.example:443", "exact。example:443", "exact%2eexample:443", "exact.example%00.evil.net:443", "exact.example\x00.evil.net:443", "exact.example evil.net:443", "[exact.example]:443",
    "a" * 64 + ".wild.example:443", LONG + ":443", "-.wild.example.evil.net:443", "user@exact.example:443", "exact.example/:443", "exact.example#:443", "exact.example,evil.net:443",
]


def test_names(internet, net_box):
    site = internet.raw("exact.example", lambda plain: plain.recv(1))
    for name in ("x.wild.example", "a.b.wild.example", "xn--e1afmkfd.wild.example", *(target.rpartition(":")[0] for target in REFUSED)):
        internet.names[name] = [site.address]
    before = len(internet.names.asked)
    code = CLIENT + f"report([status_of(name)[0] for name in {PASS!r}], [status_of(name)[0] for name in {REFUSED!r}])"
    passed, refused = answers(net_box.run(code, allow=["exact.example", "*.wild.example"]))
    assert passed == [200] * len(PASS), dict(zip(PASS, passed))
    wrong = {name: status for name, status in zip(REFUSED, refused) if status not in (400, 403)}
    assert not wrong and site.accepted == len(PASS), wrong
    assert {name for name, _ in internet.names.asked[before:]} <= {"exact.example", "x.wild.example", "a.b.wild.example", "xn--e1afmkfd.wild.example"}


def test_any_name(internet, net_box):
    """"*" is every name, and no address."""
    site = internet.raw("anything.example", lambda plain: plain.recv(1))
    code = CLIENT + f"report(*(status_of(name)[0] for name in ('anything.example:443', '{site.address}:443', '[2606:2800:220::1]:443', '0x5db8d822:443')))"
    assert answers(net_box.run(code, allow="*")) == [200, 403, 403, 403]
