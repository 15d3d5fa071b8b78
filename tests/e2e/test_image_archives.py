# SPDX-License-Identifier: Apache-2.0
"""Archives of images that are cut, come late, are taken slowly or not at all, or are of an image that goes away meanwhile."""
import gzip
import os
import signal
import stat
import subprocess
import termios
import threading
import time
from fcntl import ioctl
from struct import unpack

import pytest

from conftest import wait_until
from images import Store, docker_save, entry, hardlink, layout, layout_tar, symlink, tar

LARGE = tar(entry("0", os.urandom(1 << 20)), *(entry(f"d{i}/x", b"1") for i in range(50)))
PIPE_BYTES = 65536


@pytest.fixture
def store(box):
    return Store(box)


def start(store, *words, **popen):
    return subprocess.Popen([str(store.box.binary), "image", *map(str, words)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            **{"stdout": subprocess.PIPE, **popen}, env={**store.box.environ, **store.environ}, **store.box.ids)


def stalled(process):
    """Until it waits for somebody to read."""
    def held():
        return unpack("i", ioctl(process.stdout, termios.FIONREAD, bytes(4)))[0]
    assert wait_until(lambda: held() >= PIPE_BYTES - 4096), held()


# ---- export ----

@pytest.mark.parametrize("how", ["rm", "import"])
@pytest.mark.parametrize("flags", [[], ["--oci"]], ids=["tar", "oci"])
def test_export_of_what_goes_away(store, flags, how):
    """Not an archive that looks whole, and has less in it."""
    assert store.bring(LARGE).returncode == 0
    process = start(store, "export", *flags, "it", "-", "-q")
    stalled(process)
    assert (store.call("rm", "it") if how == "rm" else store.bring(tar(entry("new", b"1")))).returncode == 0
    out, err = process.communicate(timeout=60)
    assert process.returncode == 102 and b"changes while it is read" in err, err
    assert not out.endswith(bytes(1024))


@pytest.mark.parametrize("flags", [[], ["--oci"]], ids=["tar", "oci"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_export_to_who_does_not_read(store, flags, number):
    assert store.bring(LARGE).returncode == 0
    process = start(store, "export", *flags, "it", "-", "-q")
    stalled(process)
    time.sleep(0.2)
    process.send_signal(number)
    try:
        assert process.wait(20) == 130
    finally:
        process.kill()
        err = process.communicate()[1]
    assert b"interrupted" in err


def test_export_to_who_has_gone(store):
    assert store.bring(LARGE).returncode == 0
    process = start(store, "export", "it", "-", "-q")
    stalled(process)
    process.stdout.close()
    assert process.wait(20) == 141
    process.stderr.close()


def test_export_behind_a_link(own_box):
    """The file that links lead to is written, be it there or not; the links stay."""
    store, place, other = Store(own_box), own_box.directory("archives"), own_box.directory("other")
    assert store.bring(tar(entry("x", b"1"))).returncode == 0
    whole = store.call("export", "it", "-").out
    (other / "file").write_bytes(b"old")
    for name, target in (("there", other / "file"), ("far", "there"), ("nothing", f"../{other.name}/new"), ("loop", "loop")):
        (place / name).symlink_to(target)
    for name, written in (("far", other / "file"), ("nothing", other / "new")):
        assert store.call("export", "it", place / name).returncode == 0
        assert (place / name).is_symlink() and written.read_bytes() == whole and not written.is_symlink()
    assert store.call("export", "it", place / "loop").returncode == 110 and (place / "loop").is_symlink()
    assert sorted(p.name for p in place.iterdir()) == ["far", "loop", "nothing", "there"] and sorted(p.name for p in other.iterdir()) == ["file", "new"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of somebody else")
def test_export_behind_the_link_of_somebody_else(own_box):
    """In a directory for all nobody chooses for others what is overwritten."""
    store, place = Store(own_box), own_box.directory("for-all")
    assert store.bring(tar(entry("x", b"1"))).returncode == 0
    victim = own_box.directory("other") / "victim"
    place.chmod(0o1777)
    victim.write_text("mine")
    for owner, status in ((64001, 110), (0, 0)):
        link = place / f"link-{owner}"
        link.symlink_to(victim)
        os.chown(link, owner, owner, follow_symlinks=False)
        assert store.call("export", "it", link).returncode == status
        assert (victim.read_bytes() == b"mine") == (status != 0) and link.is_symlink()



def test_export_of_files_that_may_not_be_read(store):
    """Who imports as an ordinary user can read what he has; root keeps what the archive says."""
    assert store.bring(tar(entry("none", b"1", mode=0), entry("run", b"2", mode=0o4111))).returncode == 0
    modes = [stat.S_IMODE((store.root() / name).stat().st_mode) for name in ("none", "run")]
    assert modes == ([0, 0o111] if store.box.is_root else [0o400, 0o511])
    assert store.call("export", "it", "-").returncode == 0
    if not store.box.is_root:  # one of an older version
        (store.root() / "none").chmod(0)
        result = store.call("export", "it", "-")
        assert result.returncode == 115 and b"cannot read \"none\"" in result.err, result.explain()


# ---- import ----

def test_cut_between_two_entries(own_box):
    """Only the zeros at its end tell that a plain tar is whole; one block of them is enough."""
    store, whole = Store(own_box), tar(entry("a", b"1"), entry("b", b"x" * 600), entry("n" * 200, b"2"), symlink("l", "a"), hardlink("h", "a"), entry("c"))
    heads = [1024, 2560, 4608, 5120, 5632, 6144]  # where an entry ends
    for end in range(512, heads[-1] + 1, 512):
        for data in (whole[:end], gzip.compress(whole[:end])):
            result = store.bring(data)
            assert result.error["code"] == "usage" and "cannot be read" in result.error["message"], (end, result.explain())
            assert end not in heads or "ends too early" in result.error["message"], (end, result.explain())
            assert store.left() == []
    for data in (whole[:heads[-1]] + bytes(512), whole[:heads[-1]] + bytes(1024), gzip.compress(whole)):
        assert store.bring(data).returncode == 0
        assert sorted(p.name for p in store.root().iterdir()) == ["a", "b", "c", "h", "l", "n" * 200]


def test_layers_without_an_end(own_box):
    """Their digest tells that they are whole, as it does for the archive around them."""
    store, layer = Store(own_box), tar(entry("a", b"1"))[:1024]
    for data in (layout_tar(layout(layer)), docker_save(layer), docker_save(layer).rstrip(b"\0")):
        data += bytes(-len(data) % 512)
        result = store.bring(data)
        assert result.returncode == 0 and result.json["verified"], result.explain()


def waiting(store, fifo):
    process = start(store, "import", fifo, "it", "-q")

    def waits():
        with open(f"/proc/{process.pid}/status") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt"))
        return caught & 1 << (signal.SIGINT - 1)
    assert wait_until(waits)
    time.sleep(0.2)
    return process


@pytest.fixture
def fifo(box):
    path = box.directory("archives") / "fifo"
    os.mkfifo(path)
    path.chmod(0o666)
    return path


def test_interrupted_before_anybody_writes(store, fifo):
    process = waiting(store, fifo)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=20)[1]
    assert process.returncode == 130 and b"interrupted" in err, err
    assert store.left() == []


def test_from_a_fifo(store, fifo):
    process = waiting(store, fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=[LARGE])
    writer.start()
    err = process.communicate(timeout=60)[1]
    writer.join()
    assert process.returncode == 0, err
    assert (store.root() / "d7/x").read_bytes() == b"1"
