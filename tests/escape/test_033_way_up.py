# SPDX-License-Identifier: Apache-2.0
"""33. Code inside leaves by chroot, "..", descriptors of directories and /proc links => it stays inside.
"""


def test_way_up(box):
    marker = box.directory("outside") / "marker"
    marker.write_text("outside")
    attack = box.attack("way_up", marker)
    attack.assert_refused("EPERM", "ENOENT", "EACCES")
    assert attack.notes == {"same_root": "1", "same_dots": "1"}
