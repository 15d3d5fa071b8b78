# SPDX-License-Identifier: Apache-2.0
"""51. Code inside marks files of the workspace: immutable, project id, capabilities, a flood of
attributes, set-user-id bits => refused; what stays on the host is plain and can be deleted.
"""
import os
import stat
import subprocess

import pytest


def test_marks_on_files(box):
    workspace = box.directory("workspace")
    attack = box.attack("file_marks", workspace=workspace)
    attack.assert_refused("EOPNOTSUPP", "ENOTSUP", "EPERM", "EINVAL")
    assert attack.notes == {"workspace_writable": "1", "xattrs_stored": "0"}
    for path in workspace.rglob("*"):
        assert not os.listxattr(path)
    subprocess.run(["rm", "-rf", str(workspace)], check=True)


@pytest.mark.parametrize("place", ["workspace", "mount"])
def test_no_set_id_bits_on_the_host(box, place):
    """The files belong to somebody of the host: with the bit anybody there could become that somebody."""
    directory = box.directory("workspace")
    if place == "workspace":
        attack = box.attack("set_id_bits", workspace=directory)
        assert attack.finished and attack.notes["workspace_writable"] == "1", attack.result.explain()
    else:
        code = "import os; f = os.open('/out/bits', os.O_CREAT | os.O_RDWR, 0o755); print('token')\ntry: os.fchmod(f, 0o6755)\nexcept OSError: pass"
        assert box.run(code, mount=[f"{directory}:/out:rw"]).stdout == "token\n"
    made = list(directory.rglob("*"))
    assert made
    marked = [p.name for p in made if p.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not marked
