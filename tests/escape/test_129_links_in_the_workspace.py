# SPDX-License-Identifier: Apache-2.0
"""129. Code inside puts symbolic links to files and directories of the host into its workspace, and the API is asked for
them => refused, and no byte of the host comes; a link itself is replaced or removed, never what it leads to.
"""
import os

import pytest

from file_fixtures import files_server, tar_of, tar_open, workspace

SECRET = b"a secret of the host"


@pytest.fixture
def outside(scratch):
    """A directory of the host that everybody may read and write."""
    place = scratch / "outside"
    place.mkdir()
    (place / "secret").write_bytes(SECRET)
    place.chmod(0o777)
    (place / "secret").chmod(0o666)
    return place


def make_links(workspace, outside):
    links = {"file": outside / "secret", "dir": outside, "passwd": "/etc/passwd", "etc": "/etc", "up": "../../../../../..", "root": "/proc/self/root", "self": "/proc/self",
             "loop": "loop", "cwd": "/proc/1/cwd", "inside": "real", "indir": "realdir", "twice": "file"}
    code = "import os\nopen('real', 'w').write('real'); os.mkdir('realdir'); open('realdir/f', 'w').write('f')\n"
    workspace.run(code + "\n".join(f"os.symlink({str(target)!r}, {name!r})" for name, target in links.items()))
    return list(links)


def test_reading(workspace, outside):
    links = make_links(workspace, outside)
    below = ["dir/secret", "etc/passwd", "up/etc/passwd", "root/etc/passwd", "self/environ", "cwd/etc/passwd", "indir/f", "loop/x"]
    for path in links + below:
        answer = workspace.get(path)
        assert answer.status in (400, 404) and SECRET not in answer.body and b"root:" not in answer.body, (path, answer.explain())
    for path in links:
        answer = workspace.list(path)
        assert answer.status in (400, 404), (path, answer.explain())
        assert workspace.archive(path).status in (400, 404)
    listed = {e["name"]: e for e in workspace.list().expect(200).json["entries"]}
    assert all(listed[name]["type"] == "link" and listed[name]["size"] < 200 for name in links)


def test_archive(workspace, outside):
    links = make_links(workspace, outside)
    answer = workspace.archive().expect(200)
    assert answer.headers["Glovebox-Skipped"] == str(len(links)) and SECRET not in answer.body and b"root:x:" not in answer.body
    with tar_open(answer.body) as archive:
        assert {m.name for m in archive.getmembers()} == {"real", "realdir", "realdir/f"}


def test_writing(workspace, outside):
    make_links(workspace, outside)
    for path in ("dir/new", "etc/glovebox-new", "up/tmp/glovebox-new", "root/tmp/glovebox-new", "indir/new"):
        assert workspace.put(path, b"x").status in (400, 404), path
        assert workspace.put(path, b"x", parents=True).status in (400, 404), path
        assert workspace.put(path, directory=True, parents=True).status in (400, 404), path
        assert workspace.unpack(tar_of((path, b"x"))).status in (400, 404, 409), path
    assert workspace.unpack(tar_of(("x", b"x")), "dir").status in (400, 409)
    for path in ("file", "twice"):
        workspace.put(path, b"mine").expect(201)
        assert workspace.get(path).body == b"mine"
    workspace.unpack(tar_of(("passwd", b"mine"))).expect(200)
    assert sorted(os.listdir(outside)) == ["secret"] and (outside / "secret").read_bytes() == SECRET
    assert not os.path.exists("/etc/glovebox-new") and not os.path.exists("/tmp/glovebox-new")


def test_removing(workspace, outside):
    links = make_links(workspace, outside)
    for path in ("dir/secret", "indir/f", "root/etc/passwd"):
        assert workspace.delete(path).status in (400, 404) and workspace.delete(path, recursive=True).status in (400, 404)
    for path in links:
        workspace.delete(path, recursive=True).expect(204)
    assert workspace.names() == ["real", "realdir"]
    assert (outside / "secret").read_bytes() == SECRET and os.path.exists("/etc/passwd")
