# SPDX-License-Identifier: Apache-2.0
"""Directories of a workspace as archives, in and out. What hostile ones do is in tests/escape/test_137 and 138."""
import gzip
import io
import os
import random
import subprocess
import tarfile

import pytest

from file_fixtures import GZIP, TAR, Workspace, files_server, tar_of, tar_open, workspace

MIB = 1 << 20


def contents(body):
    """Of an archive: name to bytes, None for directories."""
    with tar_open(body) as archive:
        members = archive.getmembers()
        assert len({m.name for m in members}) == len(members)
        return {m.name: archive.extractfile(m).read() if m.isreg() else None for m in members}


@pytest.mark.smoke
def test_there_and_back(workspace):
    given = {"a": None, "a/b.txt": b"hello", "a/deep": None, "a/deep/er": None, "a/deep/er/x": bytes(range(256)) * 5, "empty": b""}
    done = workspace.unpack(tar_of(*given.items())).expect(200)
    assert done.json == {"entries": 6, "bytes": 5 + 1280}
    assert workspace.run("print(open('a/b.txt').read(), len(open('a/deep/er/x', 'rb').read()))") == "hello 1280\n"
    answer = workspace.archive().expect(200)
    assert answer.headers["Content-Type"] == TAR and answer.headers["Glovebox-Skipped"] == "0"
    assert contents(answer.body) == given
    assert contents(workspace.archive("a/deep").expect(200).body) == {"er": None, "er/x": given["a/deep/er/x"]}


def test_into_a_directory(workspace):
    workspace.put("there/old", b"old", parents=True).expect(201)
    workspace.unpack(tar_of(("./", None), ("./x", b"1"), ("old", b"new")), "there").expect(200)
    workspace.unpack(tar_of(("y/z", b"2")), "not/yet").expect(200)
    assert workspace.names("there") == ["old", "x"] and workspace.get("there/old").body == b"new"
    assert workspace.get("not/yet/y/z").body == b"2"
    assert workspace.unpack(tar_of(("x", b"")), "there/old").expect(409).code == "conflict"
    assert workspace.unpack(tar_of(("x", b"")), "../up").expect(400).code == "usage"
    assert workspace.archive("nothing").expect(404).code == "not_found"
    assert workspace.archive("there/old").expect(400).code == "usage"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_forms(workspace, form):
    long_name = "/".join(["directory" * 5] * 4) + "/file"
    workspace.unpack(tar_of(("plain", b"1"), (long_name if form != tarfile.USTAR_FORMAT else "d/" * 40 + "file", b"2"), form=form)).expect(200)
    assert workspace.get("plain").body == b"1"


def test_compressed(workspace):
    body = gzip.compress(tar_of(("a", b"x" * 100_000)))
    for kind in (GZIP, TAR):
        workspace.unpack(body, kind=kind).expect(200)
        assert workspace.get("a").body == b"x" * 100_000
        workspace.delete("a").expect(204)
    for kind in ("application/zip", "application/json", "text/plain", "application/octet-stream"):
        assert workspace.unpack(body, kind=kind).expect(415).code == "media"


def test_modes(workspace):
    entries = []
    for name, mode in (("plain", 0o644), ("script", 0o755), ("closed", 0o000)):
        info = tarfile.TarInfo(name)
        info.mode = mode
        entries.append((info, b"x"))
    directory = tarfile.TarInfo("locked")
    directory.type, directory.mode = tarfile.DIRTYPE, 0o500
    workspace.unpack(tar_of(*entries, (directory, None), ("locked/in", b"y"))).expect(200)
    modes = {e["name"]: e["mode"] for e in workspace.list().json["entries"]}
    assert modes == {"plain": "0644", "script": "0755", "closed": "0000", "locked": "0700"}
    assert workspace.archive().expect(400).code == "usage", "a file that its owner has closed cannot be read"
    workspace.delete("closed").expect(204)
    with tar_open(workspace.archive().expect(200).body) as archive:
        assert {m.name: (m.mode, m.uid, m.gid, m.uname, m.gname) for m in archive} == {
            "plain": (0o644, 1000, 1000, "", ""), "script": (0o755, 1000, 1000, "", ""), "locked": (0o700, 1000, 1000, "", ""),
            "locked/in": (0o644, 1000, 1000, "", "")}


def test_names(workspace):
    names = [b"\xff" * 10, b"caf\xe9" * 60, b"new\nline", "ü".encode() * 120, b"x" * 255, b"y" * 200 + b"/" + b"z" * 200, b"100" + b"a" * 97, b"101" + b"a" * 98,
             b"p" * 155 + b"/" + b"n" * 100, b"p" * 156 + b"/" + b"n" * 99]
    workspace.run(f"import os\nfor n in {names!r}:\n    os.makedirs(os.path.dirname(n) or b'.', exist_ok=True)\n    open(n, 'wb').write(n)")
    body = workspace.archive().expect(200).body
    found = {os.fsencode(name): data for name, data in contents(body).items() if data is not None}
    assert found == {name: name for name in names}
    other = Workspace(workspace.server)
    other.unpack(body).expect(200)
    assert {os.fsencode(n): d for n, d in contents(other.archive().expect(200).body).items() if d is not None} == found
    other.close()


def test_the_system_reads_it(workspace):
    """What others make of our archives, and we of theirs."""
    workspace.run("import os\nos.makedirs('a/b')\nopen('a/b/' + 'x' * 200, 'w').write('long')\nopen('a/c', 'wb').write(bytes(100000))")
    listed = subprocess.run(["tar", "tvf", "-"], input=workspace.archive().body, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    assert b"x" * 200 in listed.stdout and listed.stderr == b"" and len(listed.stdout.splitlines()) == 4
    made = subprocess.run(["tar", "cf", "-", "-C", "/usr/share/common-licenses", "Apache-2.0"], stdout=subprocess.PIPE, check=False)
    if made.returncode == 0:
        workspace.unpack(made.stdout).expect(200)
        with open("/usr/share/common-licenses/Apache-2.0", "rb") as file:
            assert workspace.get("Apache-2.0").body == file.read()


def test_what_is_left_out(workspace):
    workspace.run("import os, socket\nopen('f', 'w').write('1'); os.symlink('/etc/passwd', 'l'); os.mkfifo('p'); socket.socket(socket.AF_UNIX).bind('s'); os.link('f', 'h')")
    answer = workspace.archive().expect(200)
    assert answer.headers["Glovebox-Skipped"] == "3" and contents(answer.body) == {"f": b"1", "h": b"1"}


def random_tree(rng, depth=0):
    tree = {}
    for _ in range(rng.randrange(1, 5)):
        name = "".join(rng.choice("abcü .\\'-") for _ in range(rng.randrange(1, 30))).strip(".") or "x"
        tree[name] = random_tree(rng, depth + 1) if depth < 4 and rng.random() < 0.4 else rng.randbytes(rng.choice([0, 1, 511, 512, 513, 5000]))
    return tree


def flat(tree, prefix=""):
    for name, value in tree.items():
        yield prefix + name, None if isinstance(value, dict) else value
        if isinstance(value, dict):
            yield from flat(value, prefix + name + "/")


@pytest.mark.parametrize("seed", range(5))
def test_round_trip(files_server, seed):
    given = dict(flat(random_tree(random.Random(seed))))
    space, copy = Workspace(files_server), Workspace(files_server)
    space.unpack(tar_of(*given.items())).expect(200)
    body = space.archive().expect(200).body
    assert contents(body) == given
    copy.unpack(gzip.compress(body), kind=GZIP).expect(200)
    assert contents(copy.archive().expect(200).body) == given
    space.close()
    copy.close()


def test_large(files_server):
    """Larger than what is kept in memory."""
    space = Workspace(files_server, policy={"disk_limit": "200m", "mem_limit": "512m"})
    data = os.urandom(MIB) * 70
    assert space.unpack(tar_of(("large", data), ("small", b"1"))).expect(200).json == {"entries": 2, "bytes": len(data) + 1}
    assert contents(space.archive().expect(200).body) == {"large": data, "small": b"1"}
    space.close()


def test_no_archive(workspace):
    for body in (b"", b"no archive at all", os.urandom(3000), b"PK\3\4" + bytes(1000), gzip.compress(b"not a tar"), b"\x1f\x8b" + bytes(100)):
        answer = workspace.unpack(body).expect(400)
        assert answer.code == "usage" and "archive" in answer.error["message"]
    whole = tar_of(("a", b"x"), ("b", b"y" * 100_000), ("c", b"z"))
    for cut in (600, 1024, 1200, 2000, 60_000, 101_888):  # also between two entries
        assert workspace.unpack(whole[:cut]).expect(400).code == "usage", cut
        assert workspace.unpack(gzip.compress(whole[:cut])).expect(400).code == "usage", cut
    assert workspace.unpack(gzip.compress(whole)[:-20]).expect(400).code == "usage"
    damaged = bytearray(whole)
    damaged[100] ^= 0xff
    assert workspace.unpack(bytes(damaged)).expect(400).code == "usage"
    assert workspace.names() == [], "nothing of them was unpacked"
    assert workspace.unpack(bytes(10240)).expect(200).json == {"entries": 0, "bytes": 0}, "an empty one is one"


def test_too_much(files_server):
    space = Workspace(files_server, policy={"disk_limit": "1m", "inode_limit": 64})
    answer = space.unpack(tar_of(("a", b"1"), ("big", bytes(2 * MIB)), ("b", b"2"))).expect(507)
    assert answer.code == "disk_full" and answer.error["details"] == {"entry": "big"}
    answer = space.unpack(tar_of(*[(f"f{i}", b"") for i in range(100)])).expect(400)
    assert answer.code == "limit" and answer.error["details"]["entry"] == "f64"
    assert space.names() == []
    space.put("half", bytes(700_000)).expect(201)
    assert space.unpack(tar_of(*[(f"f{i}", bytes(50_000)) for i in range(10)])).expect(507).code == "disk_full"
    assert space.names() == ["half"], "it was found before the first was written"
    space.close()


def test_conflicts(workspace):
    """What is in the way is found before anything is written."""
    workspace.put("file", b"x").expect(201)
    workspace.put("dir/in", b"x", parents=True).expect(201)
    for entries, bad in (([("new", b"1"), ("dir", b"2")], "dir"), ([("new", b"1"), ("file/below", b"2")], "file/below"), ([("new", b"1"), ("file", None)], "file/")):
        answer = workspace.unpack(tar_of(*entries))
        assert answer.status in (400, 409) and answer.error["details"] == {"entry": bad}, answer.explain()
    assert workspace.names() == ["dir", "file"]
