# SPDX-License-Identifier: Apache-2.0
"""12. Code inside attaches filters and protocols to sockets, writes packet filter tables, joins ten
thousands of groups, sends sockets full of sockets => refused or bounded. Families of sockets other
than local and internet => refused.
"""


def test_socket_options(box):
    attack = box.attack("socket_options")
    attack.assert_refused("EPERM", "ENOPROTOOPT")
    assert attack.notes["inet"] == "1"
    assert int(attack.notes["multicast"]) < 100
    assert int(attack.notes["nested_messages"]) < 2000


def test_socket_families(box):
    box.attack("socket_families").assert_refused("EAFNOSUPPORT", "EPERM", "EPROTONOSUPPORT")
