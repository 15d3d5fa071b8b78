# SPDX-License-Identifier: Apache-2.0
"""The store of images: who gets into it, on a full disk, and with an umask that keeps everything from others."""
import os
import pathlib
import stat
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import needs_root  # noqa: E402
from images import Store, entry, tar  # noqa: E402
from server import Server  # noqa: E402

NOBODY = 65534
DISK_FULL, NOT_FOUND = 106, 113

SHELL = """
#include <fcntl.h>
#include <unistd.h>
int main(void)
{
        char text[64];
        int fd = open("/marker", O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
        return n > 0 && write(1, text, (size_t)n) == n ? 0 : 1;
}
"""


@pytest.fixture
def shell_tar(own_box):
    """A root whose shell says what is in /marker, which everybody may write to."""
    place = own_box.directory("shell")
    (place / "sh.c").write_text(SHELL)
    subprocess.run(["cc", "-static", "-O1", "-o", place / "sh", place / "sh.c"], check=True)
    (place / "tar").write_bytes(tar(entry("bin/sh", (place / "sh").read_bytes(), mode=0o755), entry("marker", b"of the image\n", mode=0o666),
                                    entry("theirs", b"1", mode=0o644, uid=NOBODY, gid=NOBODY)))
    return place / "tar"


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def as_nobody(*words):
    return subprocess.run(list(map(str, words)), user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False)


def test_closed_to_others(box, shell_tar):
    """A new one, and one that was open: what everybody may write to in an image is out of reach, and boxes see it all the same."""
    store = Store(box)
    assert mode_of(store.path) == 0o755
    for name in ("a", "b"):
        assert store.call("import", shell_tar, name).returncode == 0
        assert mode_of(store.path) == 0o700 and os.stat(store.path).st_uid == box.uid
        os.chmod(store.path, 0o777)
    assert store.call("import", shell_tar, "a").returncode == 0
    run = box.run("x", "sh", image="a", environ=store.environ)
    assert run.stdout == "of the image\n", run.explain()
    store.environ["GLOVEBOX_IMAGES"] = str(store.path / "own/images")
    assert store.call("import", shell_tar, "a").returncode == 0 and mode_of(store.path / "own/images") == 0o700


@needs_root
def test_nobody_reaches_roots_images(own_box, shell_tar):
    store = Store(own_box)
    assert store.call("import", shell_tar, "it").returncode == 0
    assert mode_of(store.root() / "marker") == 0o666 and os.stat(store.root() / "theirs").st_uid == NOBODY
    for words in (["cat", store.root() / "marker"], ["tee", "-a", store.root() / "theirs"], ["ls", store.path]):
        done = as_nobody(*words)
        assert done.returncode != 0 and b"Permission denied" in done.stderr, (words, done)
    assert own_box.run("x", "sh", image="it", environ=store.environ).stdout == "of the image\n"


def test_a_directory_for_other_things_is_not_closed(own_box):
    store = Store(own_box)
    (store.path / "other").mkdir()
    result = store.bring(tar(entry("x", b"1")))
    assert result.error["code"] == "usage" and "a directory of its own" in result.error["message"], result.explain()
    assert mode_of(store.path) == 0o755 and store.left() == ["other"]
    store.path.chmod(0o700)
    assert store.bring(tar(entry("x", b"1"))).returncode == 0


@needs_root
@pytest.mark.parametrize("first", ["the image", "the server"])
def test_a_server_of_root_gets_in(own_box, shell_tar, first):
    """As the account it becomes; whoever made the store, and after another import too. Nobody else does."""
    store = Store(own_box)
    store.environ["GLOVEBOX_IMAGES"] = str(store.path / "images")
    place = store.path / "images"
    if first == "the image":
        assert store.call("import", shell_tar, "it").returncode == 0 and mode_of(place) == 0o700
    with Server(environ=store.environ, images=["it", "later"]) as server:
        if first == "the server":
            assert store.call("import", shell_tar, "it").returncode == 0
        body = {"code": "x", "language": "sh", "policy": {"image": "it"}}
        assert server.post("/v1/runs", body).result["stdout"] == "of the image\n"
        assert (mode_of(place), os.stat(place).st_uid, os.stat(place).st_gid) == (0o750, 0, server.uid)
        assert store.call("import", shell_tar, "later").returncode == 0
        assert server.post("/v1/runs", {**body, "policy": {"image": "later"}}).result["stdout"] == "of the image\n"
        assert server.post("/v1/runs", {**body, "policy": {"image": "nothing"}}).status in (403, 404)
        assert as_nobody("cat", place / "it/rootfs/marker").returncode != 0


@needs_root
def test_a_server_without_images_leaves_the_store(own_box):
    store = Store(own_box)
    assert store.bring(tar(entry("x", b"1"))).returncode == 0
    with Server(environ=store.environ) as server:
        assert server.run("print(1)")["result"]["stdout"] == "1\n"
        assert mode_of(store.path) == 0o700 and os.stat(store.path).st_gid == 0


# A disk without room for one more file, or directory.
FULL = """
set -e
mount -t tmpfs -o size=4m,nr_inodes=60 none "$GLOVEBOX_IMAGES"
"$1" image import "$2" it
i=0
while : >"$GLOVEBOX_IMAGES/.fill$i"; do i=$((i + 1)); done 2>/dev/null
set +e
"$1" image import "$2" it --json; echo "status $?"
"$1" image import "$2" other --json; echo "status $?"
[ "$3" = lock ] || rm "$GLOVEBOX_IMAGES/.locks/it"
[ "$3" = lock ] || : >"$GLOVEBOX_IMAGES/.fill"
"$1" image rm it; echo "status $?"
"$1" image rm it; echo "status $?"
ls -A "$GLOVEBOX_IMAGES" "$GLOVEBOX_IMAGES/.making" | grep -v fill
"""


@needs_root
@pytest.mark.parametrize("lock", ["lock", "no lock"])
def test_full_disk(own_box, lock):
    """Importing says that it is full, and removing makes room; also without a file to lock."""
    store, archive = Store(own_box), own_box.directory("archives") / "tar"
    archive.write_bytes(tar(*(entry(f"f{i}", b"1") for i in range(10))))
    done = subprocess.run(["unshare", "--mount", "bash", "-c", FULL, "bash", str(own_box.binary), str(archive), lock], capture_output=True, text=True, timeout=60,
                          env={**own_box.environ, **store.environ}, check=False)
    status = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("status")]
    assert status == [DISK_FULL, DISK_FULL, 0, NOT_FOUND], done
    left = done.stdout.split("status")[-1].split()[1:]
    assert done.stdout.count('"disk_full"') == 2 and sorted(left) == sorted([f"{store.path}:", ".locks", ".making", f"{store.path}/.making:"]), done.stdout


def test_umask(box):
    """Of who keeps everything from others: directories that the archive does not name are for programs in a box."""
    store, archive = Store(box), box.directory("archives") / "tar"
    archive.write_bytes(tar(entry("usr/lib/x", b"1", mode=0o644), entry("named/", mode=0o750)))
    assert store.call("import", archive, "it", umask=0o077).returncode == 0
    root = store.root()
    assert {name: mode_of(root / name) for name in (".", "usr", "usr/lib", "usr/lib/x", "named")} == \
        {".": 0o755, "usr": 0o755, "usr/lib": 0o755, "usr/lib/x": 0o644, "named": 0o750}
    assert store.call("export", "it", archive.parent / "mine", umask=0o077).returncode == 0 and mode_of(archive.parent / "mine") == 0o600


def test_remove_several(own_box):
    """What is there is removed, what is not is told, and the command fails."""
    store = Store(own_box)
    for name in ("a", "b", "c", "d"):
        assert store.bring(tar(entry("x", b"1")), name).returncode == 0
    result = store.call("rm", "a", "nope", "c", "neither")
    assert result.returncode == NOT_FOUND and b"no image nope" in result.err and b"no image neither" in result.err, result.explain()
    assert store.left() == ["b", "d"]
    result = store.call("rm", "b", "nope", "d", "--json")
    assert result.returncode == NOT_FOUND and result.json["removed"] == ["b", "d"] and result.error["code"] == "not_found", result.explain()
    assert store.left() == []


def test_what_is_no_image_stays(own_box):
    """In a directory that has other things as well, names of images may be theirs."""
    store = Store(own_box)
    (store.path / "docs").mkdir()
    (store.path / "docs" / "letter").write_text("mine")
    (store.path / "notes").write_text("mine")
    (store.path / "link").symlink_to("docs")
    store.path.chmod(0o700)
    for name in ("docs", "notes", "link"):
        for result in (store.call("rm", name, "--json"), store.bring(tar(entry("x", b"1")), name)):
            assert result.error["code"] == "conflict" and "not an image" in result.error["message"], result.explain()
    assert (store.path / "docs" / "letter").read_text() == (store.path / "notes").read_text() == "mine" and (store.path / "link").is_symlink()


@pytest.mark.parametrize("words", [["--base", "x"], ["--network", "none"], ["--suite", "trixie", "--backend", "docker"]])
def test_flags_of_the_other_backend(own_box, words):
    result = Store(own_box).call("build", "glovebox-python", *words, "--json")
    assert result.error["code"] == "usage" and words[0] in result.error["message"] and "backend" in result.error["message"], result.explain()
