# SPDX-License-Identifier: Apache-2.0
"""9. Code inside uses the mount calls that work on descriptors => EPERM.
"""


def test_mount_api(box):
    box.attack("mount_api").assert_refused("EPERM")
