# SPDX-License-Identifier: Apache-2.0
"""86. Code inside flushes all disks of the host a thousand times => sync does nothing there and answers 0.
"""


def test_sync(box):
    attack = box.attack("flush_host")
    assert attack.finished and attack.notes["syncfs"] == "0"
    assert int(attack.notes["msec"]) < 100
