# SPDX-License-Identifier: Apache-2.0
"""Directories as tar: what comes from a box is hostile."""
import io
import os
import tarfile

import pytest

import glovebox
from glovebox import _archive


def tar_of(*entries):
    """(name, content or None for a directory, changes of the TarInfo)"""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content, *changes in entries:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            info.mode = 0o755 if content is None else 0o644
            for change in changes:
                for key, value in change.items():
                    setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content) if content else None)
    data.seek(0)
    return data


def unpack(data, directory, entries=1000, size=1 << 20):
    return _archive.unpack(data, str(directory), entries, size)


def test_there_and_back(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "a/b").mkdir(parents=True)
    (source / "a/b/file").write_bytes(b"content")
    (source / "script").write_bytes(b"#!")
    (source / "script").chmod(0o755)
    os.link(source / "script", source / "twin")
    (source / "empty").mkdir()
    sink = io.BytesIO()
    _archive.pack(str(source), sink)
    sink.seek(0)
    pulled = unpack(sink, target)
    assert (pulled.files, pulled.directories, pulled.bytes, pulled.skipped) == (3, 3, 11, [])
    assert (target / "a/b/file").read_bytes() == b"content" and (target / "twin").read_bytes() == b"#!"
    assert os.stat(target / "script").st_mode & 0o700 == 0o700 and (target / "empty").is_dir()


def test_what_is_wanted(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/x").write_text("x")
    (tmp_path / "kept").write_text("k")
    sink = io.BytesIO()
    _archive.pack(str(tmp_path), sink, lambda path: not path.startswith(".git"))
    sink.seek(0)
    assert tarfile.open(fileobj=sink).getnames() == ["kept"]


def test_links_are_not_packed(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(glovebox.UsageError, match="link"):
        _archive.pack(str(tmp_path), io.BytesIO())


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/tmp/out", "a/..", ".."])
def test_ways_out(tmp_path, name):
    inside = tmp_path / "inside"
    with pytest.raises(glovebox.ProtocolError):
        unpack(tar_of((name, b"x")), inside)
    assert os.listdir(tmp_path) == ["inside"] and os.listdir(inside) == []


def test_links_of_the_archive_are_passed_over(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    data = tar_of(("link", b"", {"type": tarfile.SYMTYPE, "linkname": str(outside)}), ("hard", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}),
                  ("fifo", b"", {"type": tarfile.FIFOTYPE}), ("device", b"", {"type": tarfile.CHRTYPE}), ("link/file", b"x"))
    pulled = unpack(data, tmp_path / "target")
    assert pulled.skipped == ["link", "hard", "fifo", "device"]
    assert os.listdir(outside) == [] and not os.path.islink(tmp_path / "target/link")


def test_links_of_the_target_are_not_followed(tmp_path):
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (outside / "victim").write_text("untouched")
    (target / "dir").symlink_to(outside)
    (target / "file").symlink_to(outside / "victim")
    os.link(outside / "victim", target / "twin")
    with pytest.raises(glovebox.UsageError, match="links are not followed"):
        unpack(tar_of(("dir/new", b"x")), target)
    unpack(tar_of(("file", b"x"), ("twin", b"y")), target)
    assert (outside / "victim").read_text() == "untouched" and os.listdir(outside) == ["victim"]
    assert (target / "file").read_bytes() == b"x" and not (target / "file").is_symlink() and (target / "twin").read_bytes() == b"y"


def test_modes_lose_what_is_dangerous(tmp_path):
    unpack(tar_of(("suid", b"x", {"mode": 0o6777})), tmp_path)
    assert os.stat(tmp_path / "suid").st_mode & 0o7000 == 0


def test_amounts_are_bounded(tmp_path):
    with pytest.raises(glovebox.TooLargeError):
        unpack(tar_of(*((str(i), b"") for i in range(11))), tmp_path, entries=10)
    with pytest.raises(glovebox.TooLargeError):
        unpack(tar_of(("a", b"x" * 60), ("b", b"x" * 60)), tmp_path, size=100)


def test_what_is_no_tar(tmp_path):
    with pytest.raises(glovebox.ProtocolError):
        unpack(io.BytesIO(b"x" * 2000), tmp_path)
