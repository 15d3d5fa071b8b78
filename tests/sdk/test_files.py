# SPDX-License-Identifier: Apache-2.0
"""Files of a sandbox."""
import io
import os

import pytest

import glovebox
from sdk_helpers import each_backend

pytestmark = each_backend


def test_there_and_back(box, tmp_path):
    files = box.files
    assert files.write("a/b/text", "gr\u00fc\u00df") == 6 and files.read_text("a/b/text") == "gr\u00fc\u00df"
    assert files.write("bytes", b"\x00\xff") == 2 and files.read("bytes") == b"\x00\xff"
    assert files.write("file", io.BytesIO(b"0123456789")) == 10
    source = io.BytesIO(b"0123456789")
    source.seek(4)
    assert files.write("rest", source) == 6 and files.read("rest") == b"456789"
    assert box.run("open('/sandbox/a/b/text').read() + open('/workspace/bytes', 'rb').read().hex()").text == "'gr\u00fc\u00df00ff'"
    box.run("open('inside', 'w').write('from inside')")
    assert files.read("inside") == b"from inside" == files.read("/sandbox/inside") == files.read("/workspace/inside")


def test_names(box):
    for name in ("with blank", "per%cent", "ques?tion", "#hash", "gr\u00fc\u00df", "-dash", "a&b=c", "plus+", "semi;colon", "back\\slash", "quote'\""):
        box.files.write(name, name)
        assert box.files.read_text(name) == name and box.files.exists(name)
    listed = {entry.name for entry in box.files.list()}
    assert {"with blank", "ques?tion", "gr\u00fc\u00df"} <= listed
    box.run("open(b'odd\\xff', 'w').write('x')")
    odd = next(entry for entry in box.files.list() if entry.name.startswith("odd"))
    assert odd.name_bytes == b"odd\xff"
    for name in ("../x", "a/../../x", "/etc/passwd", "", "/", "a//b"):
        with pytest.raises(glovebox.GloveboxError) as caught:
            box.files.read(name)
        assert caught.value.code in ("usage", "not_found"), (name, caught.value)


def test_lists(box):
    for i in range(5):
        box.files.write(f"d/{i}", "x" * i)
    box.files.mkdir("d/sub")
    box.run("import os; os.symlink('/etc/passwd', 'd/link')")
    entries = {entry.name: entry for entry in box.files.list("d")}
    assert set(entries) == {"0", "1", "2", "3", "4", "sub", "link"}
    assert entries["4"].is_file and entries["4"].size == 4 and entries["sub"].is_dir and entries["link"].type == "link"
    assert entries["4"].mode & 0o777 == 0o644 and entries["4"].modified_at is not None
    with pytest.raises(glovebox.NotFoundError):
        box.files.list("none")


def test_a_list_of_many_pages(box):
    assert box.run("import os\nos.mkdir('many')\nfor i in range(2345): open(f'many/{i:05}', 'w').close()").ok
    assert sorted(entry.name for entry in box.files.list("many")) == [f"{i:05}" for i in range(2345)]


def test_exists_remove_mkdir(box):
    files = box.files
    assert not files.exists("a") and not files.exists("a/b/c")
    files.mkdir("a/b")
    files.mkdir("a/b")
    with pytest.raises(glovebox.GloveboxError):
        files.mkdir("a/b", parents=False, exist_ok=False)
    with pytest.raises(glovebox.GloveboxError):
        files.mkdir("x/y", parents=False)
    files.write("a/b/c", "", mode=0o600)
    assert files.exists("a") and files.exists("a/b/c") and not files.exists("a/b/c/d") and files.list("a/b")[0].mode == 0o600
    with pytest.raises(glovebox.GloveboxError):
        files.remove("a")  # it is not empty
    files.remove("a/b/c")
    with pytest.raises(glovebox.NotFoundError):
        files.remove("a/b/c")
    files.remove("a/b/c", missing_ok=True)
    files.remove("a", recursive=True)
    assert files.list() == []
    with pytest.raises(glovebox.GloveboxError):
        files.write("no/parents", "", parents=False)


def test_what_cannot_be_seen_is_not_absent(box):
    files = box.files
    files.write("closed/in/file", "x")
    files.write("plain", "x")
    assert box.run("import os; os.symlink('plain', 'link'); os.symlink('closed', 'way'); os.chmod('closed', 0)").ok
    try:
        assert files.exists("closed") and files.exists("link") and files.exists("way")
        for path in ("closed/in", "closed/in/file", "closed/none", "way/in", "way/none", "way/in/file", "..", "../x"):
            with pytest.raises(glovebox.UsageError):
                files.exists(path)
        assert not files.exists("plain/x") and not files.exists("plain/x/y") and not files.exists("none/x/y")
        assert files.exists(".") and files.exists("./plain")
    finally:
        box.run("os.chmod('closed', 0o700)")
    assert files.exists("closed/in/file") and not files.exists("closed/none")


def test_names_are_compared_by_their_bytes(box):
    assert box.run("open(b'odd\\xff', 'w').close()").ok
    assert not box.files.exists("odd\ufffd") and box.files.exists("odd\udcff")
    box.files.write("odd\ufffd", "")
    assert box.files.exists("odd\ufffd")


def test_a_name_that_lists_do_not_show(client):
    secret = "correct-horse-battery"
    with client.sandbox(secrets={"KEY": secret}) as box:
        box.files.write("other", "")
        assert not box.files.exists(secret)
        box.files.write(secret, "")
        assert not [entry for entry in box.files.list() if entry.name == secret]
        assert box.files.exists(secret) and not box.files.exists(secret + "-2") and not box.files.exists("x" + secret)
        box.files.remove(secret)
        box.files.mkdir(f"{secret}/in")
        box.files.mkdir(secret, parents=False)
        assert box.files.exists(secret) and box.files.exists(f"{secret}/in") and not box.files.exists(f"{secret}/out")


@pytest.mark.parametrize("parents", [False, True])
def test_a_file_is_not_taken_for_the_directory_to_be_made(box, parents):
    box.files.write("file", "x")
    assert box.run("import os; os.symlink('file', 'link'); os.mkdir('closed'); os.chmod('closed', 0)").ok
    for name in ("file", "link"):
        with pytest.raises(glovebox.GloveboxError):
            box.files.mkdir(name, parents=parents)
    box.files.mkdir("made", parents=parents)
    box.files.mkdir("made", parents=parents)
    box.files.mkdir("closed", parents=False)
    assert box.files.read("file") == b"x"


def test_what_is_too_large(box):
    box.run("open('sparse', 'wb').truncate(50 << 20); open('small', 'wb').write(b'x' * 1000)")
    with pytest.raises(glovebox.TooLargeError):
        box.files.read("sparse", max_bytes=1 << 20)
    with pytest.raises(glovebox.TooLargeError):
        box.files.read("small", max_bytes=999)
    assert len(box.files.read("small", max_bytes=1000)) == 1000
    with pytest.raises((glovebox.DiskFullError, glovebox.TooLargeError)):
        box.files.write("large", bytes(200 << 20))  # the workspace has 100 MiB


def test_links_are_not_followed(box):
    box.run("import os; os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root')")
    for path in ("link", "root/etc/passwd"):
        with pytest.raises(glovebox.GloveboxError):
            box.files.read(path)


def test_upload_and_download(box, tmp_path):
    local = tmp_path / "local.bin"
    local.write_bytes(os.urandom(3_000_000))
    assert box.files.upload(local) == 3_000_000 and box.files.upload(str(local), "other/name", mode=0o755) == 3_000_000
    assert box.files.list("other")[0].mode == 0o755
    assert box.files.download("other/name", tmp_path / "back") == str(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    (tmp_path / "dir").mkdir()
    assert box.files.download("local.bin", tmp_path / "dir") == str(tmp_path / "dir/local.bin")
    with pytest.raises(glovebox.NotFoundError):
        box.files.download("none", tmp_path / "none")
    with pytest.raises(glovebox.TooLargeError):
        box.files.download("local.bin", tmp_path / "none", max_bytes=10)
    assert sorted(os.listdir(tmp_path)) == ["back", "dir", "local.bin"]  # nothing half done


def test_a_source_that_fails(box, tmp_path):
    """The error is the caller's own, at once, and the connection is not used again."""
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError(5, "broken disk")
    with pytest.raises(OSError, match="broken disk"):
        box.files.write("x", Broken(b"0123456789"))

    class Shrinking(io.BytesIO):
        def read(self, *_):
            return b""
    with pytest.raises(glovebox.UsageError, match="shorter"):
        box.files.write("x", Shrinking(b"0123456789"))
    with pytest.raises(IsADirectoryError):
        box.files.upload(tmp_path)
    assert not box.files.exists("x") and box.run("1").text == "1"


def test_directories(box, tmp_path):
    source = tmp_path / "source"
    (source / "pkg/deep").mkdir(parents=True)
    (source / "pkg/__init__.py").write_text("value = 5")
    (source / "pkg/deep/data").write_bytes(b"\x00" * 100_000)
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    (source / ".secret").write_text("s")
    assert box.files.push_dir(source, "project", wanted=lambda path: path != ".secret") > 0
    assert not box.files.exists("project/.secret")
    assert box.run("import sys; sys.path.insert(0, 'project'); import pkg; pkg.value").text == "5"
    assert box.run("./project/run.sh", language="bash").stdout == "ran\n"
    box.run("import os; open('project/made', 'w').write('m'); os.symlink('/etc/passwd', 'project/link')")
    pulled = box.files.pull_dir("project", tmp_path / "back")
    assert (tmp_path / "back/made").read_text() == "m" and (tmp_path / "back/pkg/deep/data").stat().st_size == 100_000
    assert os.access(tmp_path / "back/run.sh", os.X_OK) and not os.path.lexists(tmp_path / "back/link")
    assert pulled.files >= 4
    with pytest.raises(glovebox.TooLargeError):
        box.files.pull_dir("project", tmp_path / "no", max_bytes=1000)
    with pytest.raises(glovebox.NotFoundError):
        box.files.pull_dir("none", tmp_path / "no")
    with pytest.raises(FileNotFoundError):
        box.files.push_dir(tmp_path / "not there")
