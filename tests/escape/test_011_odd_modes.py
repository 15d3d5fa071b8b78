# SPDX-License-Identifier: Apache-2.0
"""11. Code inside switches off address randomisation, makes reads executable, uses segments and hardware ports => refused.
"""


def test_odd_modes(box):
    box.attack("odd_modes").assert_refused("EPERM", "EINVAL")


def test_addresses_differ(box):
    """The promise behind it: two runs have two layouts."""
    code = "print(next(l for l in open('/proc/self/maps') if 'stack' in l).split('-')[0])"
    addresses = {box.run(code).stdout for _ in range(3)}
    assert len(addresses) == 3
