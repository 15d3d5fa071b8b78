# SPDX-License-Identifier: Apache-2.0
"""26. Code inside sets the host and domain name => EPERM, the host keeps its own, the box shows "glovebox".
"""
import os


def test_host_name(box):
    before = os.uname().nodename
    attack = box.attack("host_name")
    attack.assert_refused("EPERM")
    assert attack.notes["hostname"] == "glovebox"
    assert os.uname().nodename == before
