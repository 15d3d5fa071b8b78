# SPDX-License-Identifier: Apache-2.0
"""105. Code inside connects to the host's loopback, to public, private and metadata addresses and to abstract sockets of the host => unreachable. By TCP, UDP, ICMP, SCTP,
DCCP, multicast and broadcast, of IPv4 and IPv6, also where an allowlist lets a host pass => no route.
"""
import os
import socket

import pytest
from internet import internet, net_box  # noqa: F401

NO_WAY = ("ENETUNREACH", "EPERM", "EACCES", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EAFNOSUPPORT", "EADDRNOTAVAIL", "EINVAL")


def test_network(box):
    server, local = socket.socket(), socket.socket(socket.AF_UNIX)
    with server, local:
        server.bind(("127.0.0.1", 0))
        server.listen()
        local.bind(f"\0glovebox-test-{os.getpid()}")
        local.listen()
        attack = box.attack("network_out", server.getsockname()[1], f"glovebox-test-{os.getpid()}")
    attack.assert_refused("ENETUNREACH", "ECONNREFUSED", "EPERM")


@pytest.mark.parametrize("options", [{"network": "none"}, {"network": "allowlist", "allow": ["api.example.com:80,443", "tcp://93.184.216.34:80"]}], ids=["none", "allowlist"])
def test_every_protocol(internet, net_box, options):
    trap = internet.trap(80)
    attack = net_box.attack("network_ways", **options)
    attack.assert_refused(*NO_WAY)
    routed = {step: how for step, how in attack.steps.items() if step.startswith(("tcp_", "udp_")) and not step.endswith(("link6", "multicast6"))}
    assert set(routed.values()) == {"ENETUNREACH"}, routed  # there is no route, and not: somebody said no
    assert trap.caught == []


def test_no_device(net_box):
    """Nothing but the loopback device is there."""
    code = """
import fcntl, socket, struct
found = []
with socket.socket() as s:
    for index in range(1, 100):
        try:
            found.append(fcntl.ioctl(s, 0x8910, struct.pack("16si20x", b"", index))[:16].rstrip(b"\\0").decode())  # SIOCGIFNAME
        except OSError:
            pass
print(found)
"""
    result = net_box.run(code, allow="api.example.com")
    assert result.stdout == "['lo']\n", result.explain()
