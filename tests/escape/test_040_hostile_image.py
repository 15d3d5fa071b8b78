# SPDX-License-Identifier: Apache-2.0
"""40. Somebody gives an image whose /dev, /proc, /tmp, /etc, /run, /sandbox are links to the host, loops or
files => the box has its own directories there, and the host's are untouched.
"""
import shutil

import pytest


@pytest.fixture
def image(box):
    """A root file system whose only program is the attack, as its shell."""
    root = box.directory("image")
    (root / "bin").mkdir()
    shutil.copy(box.attack_dir / "attack", root / "bin/sh")
    return root


@pytest.fixture
def host(box):
    path = box.directory("host")
    for name in ("null", "marker", "passwd"):
        (path / name).write_text("of the host")
    return path


def tree(path):
    return sorted((str(p.relative_to(path)), p.lstat().st_mode, p.lstat().st_size, p.lstat().st_mtime_ns) for p in path.rglob("*"))


def judge(attack):
    assert attack.finished, attack.result.explain()
    for name in ("null_is_device", "proc_is_proc", "tmp_writable", "workspace_writable"):
        assert attack.notes[name] == "1", attack.notes
    for name in ("/dev", "/proc", "/tmp", "/sandbox"):
        assert attack.notes[name] == "directory", attack.notes
    assert attack.notes["seccomp"] == "2"
    assert not attack.opened, attack.opened


@pytest.mark.parametrize("kind", ["links", "relative_links", "loops", "files", "nothing"])
def test_hostile_image(box, image, host, kind):
    for name in ("dev", "proc", "sys", "tmp", "run", "etc", "sandbox", "workspace"):
        if kind == "links":
            (image / name).symlink_to(host)
        elif kind == "relative_links":
            (image / name).symlink_to("../" * 20 + str(host)[1:])
        elif kind == "loops":
            (image / name).symlink_to(name)
        elif kind == "files":
            (image / name).write_text("a file")
    before = tree(host)
    judge(box.attack("image_view", host / "marker", rootfs=image))
    assert tree(host) == before


def test_links_inside_its_directories(box, image, host):
    """Deeper links: the device, the pts, resolv.conf."""
    for name in ("dev", "etc", "dev/pts", "proc"):
        (image / name).mkdir(exist_ok=True)
    (image / "dev/null").symlink_to(host / "null")
    (image / "dev/pts/0").symlink_to(host / "null")
    (image / "etc/resolv.conf").symlink_to(host / "marker")
    (image / "etc/passwd").symlink_to(host / "passwd")
    before = tree(host)
    judge(box.attack("image_view", host / "marker", rootfs=image))
    assert tree(host) == before


@pytest.mark.parametrize("target", ["/data", "/data/deeper/still", "/mnt/x"])
def test_mount_through_a_link_of_the_image(box, image, host, target):
    """A mount whose way leads over a link of the image: refused, or made inside the box."""
    (image / "data").symlink_to(host)
    (image / "mnt").symlink_to(host)
    before = tree(host)
    result = box.run(f"exec /attack/attack image_view 1234 {host}/marker", "sh", rootfs=image, mount=[f"{box.attack_dir}:{target}"])
    assert tree(host) == before
    if "verdict" in (result.json or {}):
        assert "try marker=ok" not in result.stdout
    else:
        assert result.returncode in (110, 112), result.explain()
