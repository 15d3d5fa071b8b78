# SPDX-License-Identifier: Apache-2.0
"""121. Addresses that are not of the public internet, in every form in which one can be written, asked for as they are and behind names: loopback, private, link-local,
shared, metadata, multicast, reserved, and IPv4 in IPv6 (::ffff:, ::/96, 64:ff9b::, 2002::, Teredo), although a rule names them => refused, and no packet goes there. (In
the internet of these tests there is somebody at every address who would answer.)
"""
from internet import CLIENT, TRAP_PORT, answers, internet, net_box, one_net_box  # noqa: F401

# Ways to write 127.0.0.1, or what a parser might take for it.
FORMS = [
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0x7f.1", "0x7f.0.0.1", "0x7f000001", "0X7F000001", "2130706433", "017700000001", "0177.0.0.1", "127.000.000.001", "00000177.1",
    "0", "0.0.0.0", "localhost", "LOCALHOST.", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    "[fe80::1%25lo]", "[::ffff:0:127.0.0.1]",
]
TARGETS = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "169.254.169.254", "169.254.170.2", "172.16.0.1",
    "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1", "2001::1", "2001:10::1", "2001:20::1", "3fff::1", "5f00::1",
    "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "::ffff:0:169.254.169.254",
]


def bracketed(address):
    return f"[{address}]" if ":" in address else address


def test_forms(internet, net_box):
    trap = internet.trap()
    allow = [f"tcp://{host}:{TRAP_PORT}" for host in ("127.0.0.1", "0.0.0.0", "localhost", "[::1]", "[::]", "*")] + [f"http://{host}:{TRAP_PORT}" for host in ("127.0.0.1", "localhost", "*")]
    internet.names["localhost"] = ["127.0.0.1", "::1"]
    code = CLIENT + f"""
forms = {FORMS!r}
report([status_of(f"{{form}}:{TRAP_PORT}")[0] for form in forms], [get(f"http://{{form}}:{TRAP_PORT}/")[0] for form in forms],
       [socks(form, {TRAP_PORT})[1] for form in forms], [socks(form.strip("[]"), {TRAP_PORT})[1] for form in forms])
"""
    for found in answers(net_box.run(code, allow=allow)):
        passed = {form: status for form, status in zip(FORMS, found) if status in (0, 200, 502, 504)}
        assert not passed, passed
    assert trap.caught == []


def test_targets(internet, net_box):
    """By their addresses, and by names that lead to them."""
    trap = internet.trap()
    for i, target in enumerate(TARGETS):
        internet.names[f"t{i}.example.com"] = [target]
    # What wraps one of IPv4 is that one, or has no rule by its own text.
    allow = [f"tcp://*:{TRAP_PORT}", *(f"tcp://{bracketed(target)}:{TRAP_PORT}" for target in TARGETS)]
    code = CLIENT + f"""
import socket as net
targets = {TARGETS!r}
raw = [net.inet_pton(net.AF_INET6 if ":" in t else net.AF_INET, t) for t in targets]
report([status_of(f"[{{t}}]:{TRAP_PORT}" if ":" in t else f"{{t}}:{TRAP_PORT}")[0] for t in targets], [status_of(f"t{{i}}.example.com:{TRAP_PORT}")[0] for i in range(len(targets))],
       [socks(address, {TRAP_PORT})[1] for address in raw], [socks(f"t{{i}}.example.com", {TRAP_PORT})[1] for i in range(len(targets))])
"""
    result = net_box.run(code, allow=allow)
    direct, named, socks_direct, socks_named = answers(result)
    for found, refused in ((direct, 403), (named, 403), (socks_direct, 2), (socks_named, 2)):
        passed = {target: status for target, status in zip(TARGETS, found) if status != refused}
        assert not passed, passed
    assert trap.caught == []
    assert {row["decision"] for row in result.json["network"]["hosts"]} == {"address"}, result.json["network"]


def test_public_ones_pass(internet, one_net_box):
    """The same ways, with addresses that everybody may dial: the test above could fail."""
    public = ["93.184.216.34", "8.8.8.8", "1.1.1.1", "223.255.255.254", "2606:2800:220::1", "2a00:1450:4001::1"]
    internet.listen("0.0.0.0", TRAP_PORT + 1, lambda plain: plain.recv(1))
    internet.listen("::", TRAP_PORT + 1, lambda plain: plain.recv(1))
    for i, address in enumerate(public):
        internet.names[f"p{i}.example.com"] = [address]
    code = CLIENT + f"""
report(*(status_of(t)[0] for t in {[f"{bracketed(a)}:{TRAP_PORT + 1}" for a in public] + [f"p{i}.example.com:{TRAP_PORT + 1}" for i in range(len(public))]!r}))
"""
    allow = [f"tcp://{bracketed(address)}:{TRAP_PORT + 1}" for address in public] + [f"tcp://*:{TRAP_PORT + 1}"]
    assert answers(one_net_box.run(code, allow=allow)) == [200] * 2 * len(public)
