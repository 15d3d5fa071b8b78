# SPDX-License-Identifier: Apache-2.0
"""45. Code inside opens terminals and devices, types into terminals, makes device files => its own terminals only, no device.
"""


def test_terminals_and_devices(box):
    attack = box.attack("terminals")
    attack.assert_refused("EPERM", "ENOENT", "ENXIO", "EACCES")
    assert attack.notes == {"openpty": "/dev/pts/0", "number": "0", "others": "0"}
