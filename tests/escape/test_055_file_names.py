# SPDX-License-Identifier: Apache-2.0
"""55. Code inside makes files with hostile names in the workspace => they are there byte for byte, and the run is as any other.
"""
import os


NAMES = [b"new\nline", b"esc\x1b]52;c;x\x07", b"\xff\xfe not utf-8", b"-rf", b"x" * 255, "\u202efdp.exe".encode(), b" ", b"a;b $(id)", b"..."]


def test_file_names(box):
    workspace = box.directory("workspace")
    code = f"""
import os
for name in {NAMES!r}:
    open(os.path.join(b'/sandbox', name), 'w').close()
print('token')
"""
    result = box.run(code, workspace=workspace)
    assert (result.verdict, result.stdout) == ("ok", "token\n"), result.explain()
    assert sorted(os.listdir(os.fsencode(workspace))) == sorted(NAMES)
    again = box.run("import os; print(len(os.listdir(b'/sandbox')))", workspace=workspace)
    assert again.stdout == f"{len(NAMES)}\n"
