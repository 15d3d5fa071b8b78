# SPDX-License-Identifier: Apache-2.0
"""136. A client asks for set-user-id, set-group-id and sticky bits, in a request and in an archive, which also names owners => of a mode the
permissions are taken, and everything belongs to the box's user.
"""
import os
import tarfile

from file_fixtures import Workspace, files_server, tar_of, workspace
from server import Server

CHECK = "import os\nfor n in sorted(os.listdir('.')): s = os.stat(n); print(n, oct(s.st_mode & 0o7777), s.st_uid == os.getuid(), s.st_gid == os.getgid())"


def test_in_requests(workspace):
    for i, mode in enumerate(["4755", "2755", "1777", "07777", "06000"]):
        workspace.put(f"f{i}", b"x", mode=mode).expect(201)
        workspace.put(f"d{i}", directory=True, mode=mode).expect(201)
    rows = workspace.run(CHECK).splitlines()
    assert [row.split()[1] for row in rows] == ["0o755", "0o755", "0o777", "0o777", "0o0"] * 2
    assert all(row.endswith("True True") for row in rows)


def marked():
    """An archive whose entries have every mark that one can have."""
    entries = []
    for name, kind in (("d", tarfile.DIRTYPE), ("f", tarfile.REGTYPE)):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.uid, info.gid, info.uname, info.gname = kind, 0o7755, 0, 0, "root", "root"
        info.pax_headers = {"SCHILY.xattr.user.x": "1", "SCHILY.xattr.security.capability": "x", "SCHILY.acl.access": "user::rwx", "SCHILY.fflags": "immutable"}
        entries.append((info, None if kind == tarfile.DIRTYPE else b"x"))
    return tar_of(*entries)


def test_in_archives(workspace):
    workspace.unpack(marked()).expect(200)
    assert workspace.run(CHECK) == "d 0o755 True True\nf 0o755 True True\n"


def test_on_the_host(binary, scratch):
    """A kept workspace: the same, seen from the host."""
    with Server(workspaces=str(scratch / "kept")) as server:
        space = Workspace(server, workspace="kept")
        path = server.get(space.address).json["workspace"]["path"]
        space.put("suid", b"x", mode="4755").expect(201)
        space.unpack(marked()).expect(200)
        space.close()
        for name in ("suid", "d", "f"):
            info = os.stat(os.path.join(path, name))
            assert oct(info.st_mode & 0o7777) == "0o755" and info.st_uid == os.stat(path).st_uid
            assert os.listxattr(os.path.join(path, name)) == []
