# SPDX-License-Identifier: Apache-2.0
"""54. Code inside makes whiteouts and opaque marks for overlay file systems in the workspace => refused; none is on the host.
"""
import stat


def test_overlay_marks(box):
    workspace = box.directory("workspace")
    attack = box.attack("file_marks", workspace=workspace)
    for step in ("whiteout", "rename_whiteout", "xattr_overlay_opaque", "xattr_trusted"):
        assert attack.steps[step] != "ok"
    assert not [p for p in workspace.rglob("*") if stat.S_ISCHR(p.lstat().st_mode)]
