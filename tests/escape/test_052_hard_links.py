# SPDX-License-Identifier: Apache-2.0
"""52. Code inside makes hard links from the workspace to files of the root and of other mounts => EXDEV or EPERM.
"""


def test_hard_links(box):
    give = box.directory("give")
    (give / "file").write_text("of the host")
    attack = box.attack("hard_links", mount=[f"{give}:/give"])
    attack.assert_refused("EXDEV", "EPERM", "EACCES", "ENOENT", "EROFS")
    assert attack.steps["link_mounted"] != "ENOENT"
    assert (give / "file").stat().st_nlink == 1
