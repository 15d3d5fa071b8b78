# SPDX-License-Identifier: Apache-2.0
"""Mounts and the workspace: who owns what is made, what can be written, what is left."""
import os
import subprocess

import pytest
from conftest import IS_ROOT, needs_root


@pytest.mark.smoke
def test_mounts_are_read_only_unless_asked(box):
    directory = box.directory()
    (directory / "file").write_text("content")
    code = "print(open('/data/file').read())\ntry: open('/data/new', 'w')\nexcept OSError as e: print(e.errno)"
    result = box.run(code, mount=[f"{directory}:/data"])
    assert result.stdout in ("content\n30\n", "content\n13\n"), result.explain()
    result = box.run("open('/data/new', 'w').write('x')", mount=[f"{directory}:/data:rw"])
    assert result.verdict == "ok" and (directory / "new").read_text() == "x"


def test_mount_of_one_file(box):
    path = box.directory() / "file"
    path.write_text("one")
    assert box.run("print(open('/data/it').read())", mount=[f"{path}:/data/it"]).stdout == "one\n"


@pytest.mark.parametrize("place", ["workspace", "mount"])
def test_owner_of_new_files(box, place):
    directory = box.directory()
    options = {"workspace": directory} if place == "workspace" else {"mount": [f"{directory}:/sandbox2:rw"]}
    target = "/sandbox" if place == "workspace" else "/sandbox2"
    result = box.run(f"import os; os.mkdir('{target}/d'); open('{target}/d/f', 'w').close(); print(os.stat('{target}').st_uid)", **options)
    assert result.stdout == "1000\n", result.explain()
    for path in (directory / "d", directory / "d/f"):
        assert (path.stat().st_uid, path.stat().st_gid) == (directory.stat().st_uid, directory.stat().st_gid)


@needs_root
@pytest.mark.parametrize("owner", [12345, 65533, 0])
def test_owner_of_new_files_in_a_directory_of_another(own_box, owner):
    directory = own_box.directory(owner=owner)
    result = own_box.run("open('/sandbox/f', 'w').write('x'); print(open('/sandbox/f').read())", workspace=directory)
    assert result.stdout == "x\n", result.explain()
    stat = (directory / "f").stat()
    assert (stat.st_uid, stat.st_gid) == (owner, owner)


@needs_root
def test_ordinary_user_cannot_use_a_directory_of_another(user_box):
    directory = user_box.directory(owner=0, mode=0o755)
    result = user_box.run("open('/sandbox/f', 'w')", workspace=directory)
    assert result.returncode == 101 and "cannot write to the workspace" in result.error["message"], result.explain()


@needs_root
def test_ordinary_user_cannot_mount_what_is_closed_to_it(user_box):
    closed = user_box.directory(owner=0, mode=0o700)
    (closed / "inside").mkdir(mode=0o755)
    for mode in ("ro", "hide"):
        result = user_box.run(":", "sh", mount=f"{closed}/inside:/data:{mode}")
        assert result.returncode == 101 and result.error["code"] == "denied" and "cannot mount" in result.error["message"], result.explain()
    result = user_box.run(":", "sh", mount="/nowhere/at/all:/data")
    assert (result.returncode, result.error["code"]) == (113, "not_found"), result.explain()


def test_workspace_during_and_after(box):
    directory = box.directory()
    process = box.start("open('f', 'w').write('during'); print('up', flush=True); input(); open('g', 'w').write('after')", json=False,
                        stdin=subprocess.PIPE, workspace=directory)
    assert process.stdout.readline() == b"up\n"
    assert (directory / "f").read_text() == "during"
    box.finish(process, b"go\n")
    assert (directory / "g").read_text() == "after"
    assert box.run("print(open('/workspace/g').read())", workspace=directory).stdout == "after\n"


def test_modules_of_the_workspace(box):
    directory = box.directory()
    (directory / "mine.py").write_text("VALUE = 7")
    assert box.run("import mine; print(mine.VALUE)", workspace=directory).stdout == "7\n"
    assert os.listdir(directory) == ["mine.py"]


def test_private_workspace_is_gone(box, no_leaks):
    assert box.run("open('/sandbox/secret', 'w').write('x'); open('/tmp/secret', 'w').write('x')").verdict == "ok"
    assert box.run("import os; print(os.listdir('/sandbox'), os.listdir('/tmp'))").stdout == "[] []\n"


@needs_root
def test_workspace_on_a_read_only_disk(box):
    directory = box.directory()
    argv = box.command("open('f', 'w')", workspace=directory)
    drop = f"setpriv --reuid {box.uid} --regid {box.uid} --clear-groups" if not box.is_root else ""
    script = f'mount --bind "{directory}" "{directory}" && mount -o remount,bind,ro "{directory}" && exec {drop} "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *argv], capture_output=True, env=box.environ, timeout=60, check=False)
    assert done.returncode == 110 and b"Read-only file system" in done.stdout, done


@pytest.mark.smoke
def test_disk_limit_of_the_workspace(box):
    directory = box.directory()
    code = "import time\nprint('token', flush=True)\nfor i in range(100):\n    open(f'f{i}', 'wb').write(bytes(1 << 20)); time.sleep(0.02)"
    result = box.run(code, workspace=directory, disk="5m")
    assert (result.stdout, result.verdict, result.returncode) == ("token\n", "disk", 120), result.explain()
    assert result.json["verdict"]["limit"] == 5 << 20 <= result.json["verdict"]["peak"] < 50 << 20


def test_what_was_there_does_not_count(box):
    directory = box.directory()
    (directory / "old").write_bytes(bytes(20 << 20))
    if IS_ROOT:
        os.chown(directory / "old", box.uid, box.uid)
    result = box.run("open('new', 'w').write('x'); import time; time.sleep(0.2)", workspace=directory, disk="5m")
    assert result.verdict == "ok", result.explain()


def test_disk_verdicts_of_private_places(box):
    result = box.run("open('/sandbox/f', 'wb').write(bytes(3 << 20))", disk="1m")
    assert (result.verdict, result.json["verdict"]["limit"]) == ("disk", 1 << 20), result.explain()
    result = box.run("open('/tmp/f', 'wb').write(bytes(3 << 20))", tmp_size="1m")
    assert result.verdict == "disk", result.explain()
    result = box.run("for i in range(100): open(f'/sandbox/{i}', 'w').close()", inodes=50)
    assert (result.verdict, result.json["verdict"]["unit"]) == ("disk", "inodes"), result.explain()


@needs_root
def test_links_of_other_users_are_not_followed(box):
    """What is mounted becomes the box user's: nobody else may choose it by a link."""
    top, secret = box.directory("top", mode=0o777), box.directory("secret", owner=0, mode=0o700)
    link = top / "submission"
    link.symlink_to(secret)
    os.lchown(link, 12345, 12345)
    for options in ({"workspace": link}, {"mount": f"{link}:/data"}):
        result = box.run("print(1)", **options)
        assert result.returncode == 113 and "another user" in result.stderr, result.explain()


def test_one_file_can_be_written_to(box):
    top = box.directory("top")
    (top / "file").write_text("before")
    os.chown(top / "file", box.uid, box.uid)
    result = box.run("open('/data', 'a').write(' and after')", mount=f"{top / 'file'}:/data:rw")
    assert result.verdict == "ok", result.explain()
    assert (top / "file").read_text() == "before and after"
