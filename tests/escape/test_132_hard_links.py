# SPDX-License-Identifier: Apache-2.0
"""132. Code inside gives a file several names, and the API writes to one of them => a new file takes that name; the others keep
what they had, and nobody who holds the old one open sees the new bytes.
"""
from file_fixtures import files_server, tar_of, workspace


def test_hard_links(workspace):
    workspace.run("import os\nopen('a', 'w').write('old'); os.link('a', 'b'); os.link('a', 'c'); held = open('a', 'r+')")
    workspace.put("a", b"new").expect(201)
    assert [workspace.get(name).body for name in "abc"] == [b"new", b"old", b"old"]
    assert workspace.run("print(held.read(), os.stat('a').st_nlink, os.stat('b').st_nlink)") == "old 1 2\n"
    workspace.run("held.seek(0); held.write('from inside'); held.flush()")
    assert workspace.get("a").body == b"new", "the writer of before writes elsewhere"
    workspace.unpack(tar_of(("b", b"unpacked"))).expect(200)
    assert [workspace.get(name).body for name in "abc"] == [b"new", b"unpacked", b"from inside"]
