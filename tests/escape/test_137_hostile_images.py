# SPDX-License-Identifier: Apache-2.0
"""137. Archives of images that climb out, are absolute, write through links, link to files of the host, bring devices and set-user-id programs, are bombs,
lie about their digests, or lead in circles => refused with the name of the entry; nothing stays, nothing outside is touched.
"""
import gzip
import io
import json
import os
import subprocess
import tarfile

import pytest

from conftest import needs_root
from images import Store, TAR, digest, docker_save, entry, hardlink, layout, layout_tar, symlink, tar, zeros_tar

GOOD = entry("good", b"1")
DEEP = "/".join("d" * 129)


@pytest.fixture
def store(box):
    return Store(box)


def refused(store, data, *words, code=("usage",)):
    result = store.bring(data)
    assert result.error["code"] in code, result.explain()
    for word in words:
        assert word in result.error["message"], result.explain()
    assert store.left() == []
    return result


# What is in it, and what is named in the refusal.
ENTRIES = {
    "slip": ([entry("../evil", b"x")], "../evil"),
    "slip in the middle": ([entry("a/../../evil", b"x")], "a/../../evil"),
    "slip that stays": ([entry("a/../evil", b"x")], "a/../evil"),
    "directory up": ([entry("..")], ".."),
    "absolute": ([entry("/tmp/glovebox-evil", b"x")], "/tmp/glovebox-evil"),
    "a file through a link": ([symlink("d", "/tmp"), entry("d/glovebox-evil", b"x")], "d/glovebox-evil"),
    "a file through a link inside": ([entry("e"), symlink("d", "e"), entry("d/evil", b"x")], "d/evil"),
    "a directory through a link": ([symlink("d", "/tmp"), entry("d/glovebox-evil")], "d/glovebox-evil"),
    "a link through a link": ([symlink("d", "/tmp"), symlink("d/glovebox-evil", "x")], "d/glovebox-evil"),
    "a file in a link's place": ([symlink("d", "/tmp/glovebox-evil"), entry("d", b"x")], "\"d\""),
    "hard link out": ([hardlink("h", "/etc/passwd")], "\"h\""),
    "hard link up": ([hardlink("h", "../../../../../../etc/passwd")], "\"h\""),
    "hard link to a link": ([symlink("l", "/etc/passwd"), hardlink("h", "l")], "\"h\""),
    "hard link through a link": ([symlink("l", "/etc"), hardlink("h", "l/passwd")], "\"h\""),
    "hard link to a directory": ([entry("a"), hardlink("h", "a")], "\"h\""),
    "hard link to nothing": ([hardlink("h", "nothing")], "\"h\""),
    "hard link to itself": ([hardlink("h", "h")], "\"h\""),
    "twice": ([entry("x", b"1"), entry("x", b"2")], "\"x\""),
    "twice, written differently": ([entry("a/x", b"1"), entry("./a//x", b"2")], "./a//x"),
    "file, then a directory": ([entry("x", b"1"), entry("x")], "\"x"),
    "file, then below it": ([entry("x", b"1"), entry("x/y", b"2")], "x/y"),
    "directory, then a file": ([entry("x/"), entry("x", b"2")], "\"x\""),
    "long part": ([entry("n" * 300, b"x")], "nnnnnn"),
    "too deep": ([entry(DEEP, b"x")], "d/d/d"),
    "an owner that nobody is": ([entry("x", b"1", uid=0xFFFFFFFF)], "\"x\""),
}


@pytest.mark.parametrize("row", ENTRIES)
@pytest.mark.parametrize("form", ["tar", "layer"])
def test_entries(own_box, row, form):
    entries, name = ENTRIES[row]
    data = tar(GOOD, *entries)
    refused(Store(own_box), data if form == "tar" else layout_tar(layout(data)), name)
    assert not os.path.lexists("/tmp/glovebox-evil")


def test_links_of_an_earlier_layer(box):
    """A link that a first layer brings leads a second one nowhere: it is refused, or replaced where it stands."""
    first = tar(symlink("d", "/tmp"), symlink("f", "/tmp/glovebox-evil"))
    refused(Store(box), layout_tar(layout(first, tar(entry("d/glovebox-evil", b"x")))), "d/glovebox-evil", "layer 2 of 2")
    refused(Store(box), layout_tar(layout(first, tar(entry("d/.wh.glovebox-evil", b"")))), "d/.wh.glovebox-evil")
    store = Store(box)
    result = store.bring(layout_tar(layout(first, tar(entry("f", b"mine"), entry("d"), entry("d/x", b"1")))))
    assert result.returncode == 0, result.explain()
    assert (store.root() / "f").read_bytes() == b"mine" and not (store.root() / "f").is_symlink() and (store.root() / "d/x").read_bytes() == b"1"
    assert not os.path.lexists("/tmp/glovebox-evil") and not os.path.lexists("/tmp/x")


def test_devices_and_bits(box):
    """Neither devices nor set-user-id bits come through, whoever imports."""
    store = Store(box)
    special = [entry(f"dev{i}", kind=kind, devmajor=1, devminor=5) for i, kind in enumerate((tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE))]
    result = store.bring(tar(GOOD, *special, entry("su", b"x", mode=0o6755), entry("shared/", mode=0o2777)))
    assert result.returncode == 0 and (result.json["skipped"], result.json["set_id_removed"]) == (3, 1), result.explain()
    assert sorted(p.name for p in store.root().iterdir()) == ["good", "shared", "su"]
    assert store.root().joinpath("su").stat().st_mode & 0o7777 == 0o755 and store.root().joinpath("shared").stat().st_mode & 0o7000 == 0


WHITEOUTS = {"of nothing": ".wh.", "of itself": ".wh..", "of the parent": ".wh...", "of a whiteout": ".wh..wh.x", "as a directory": ".wh.x/"}


@pytest.mark.parametrize("row", WHITEOUTS)
def test_whiteouts(own_box, row):
    """Marks that name what is not theirs."""
    name = WHITEOUTS[row]
    mark = entry(f"a/{name}") if name.endswith("/") else entry(f"a/{name}", b"")
    refused(Store(own_box), layout_tar(layout(tar(entry("a"), GOOD), tar(mark))), ".wh.")


def edit(path_of, how):
    def change(files):
        name = next(n for n in files if path_of(n, files[n]))
        files[name] = how(files[name])
    return change


LAYER = tar(entry("etc"), entry("etc/x", os.urandom(9000)))
BIG = tar(entry("x", os.urandom(30000)))


def is_layer(name, data):
    return data == LAYER


def circle(files):
    """An index by whose digest an index is found, and so on; the digests cannot be right, and nobody waits for that."""
    name = "0" * 64
    index = json.dumps({"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": f"sha256:{name}", "size": 1}]}).encode()
    files["index.json"] = files[f"blobs/sha256/{name}"] = index


def nested(files):
    index = files["index.json"]
    for _ in range(6):
        files[f"blobs/sha256/{digest(index)}"] = index
        index = json.dumps({"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": f"sha256:{digest(index)}", "size": len(index)}]}).encode()
    files["index.json"] = index


LAYOUTS = {
    "a byte of a layer": (layout(LAYER, change=edit(is_layer, lambda d: d[:-1] + b"x")), "digest"),
    "a layer that is longer": (layout(LAYER, change=edit(is_layer, lambda d: d + b"x")), "bytes"),
    "another manifest": (layout(LAYER, change=edit(lambda n, d: b"schemaVersion" in d and b"layers" in d, lambda d: d.replace(b"2", b"3", 1))), "digest"),
    "another configuration": (layout(LAYER, change=edit(lambda n, d: b"diff_ids" in d, lambda d: d.replace(b"linux", b"linuX"))), "digest"),
    "a layer that is missing": (layout(LAYER, change=lambda files: files.pop(next(n for n in files if is_layer(n, files[n])))), "is not there"),
    "a digest that is a path": (layout(LAYER, manifest={"layers": [{"mediaType": TAR, "digest": "sha256:../../../../../etc/passwd", "size": 1}]}), "digest"),
    "layers of another kind": (layout(LAYER, manifest={"layers": [{"mediaType": "text/plain", "digest": f"sha256:{digest(LAYER)}", "size": len(LAYER)}]}), "text/plain"),
    "no layers": (layout(LAYER, manifest={"layers": []}), "no layer"),
    "a layer twice": (layout(BIG, BIG), "twice"),
    "300 layers": (layout(*(tar(entry(f"f{i}", b"")) for i in range(300))), "300 layers"),
    "a configuration of fewer layers": (layout(LAYER, config={"rootfs": {"diff_ids": []}}), "as many layers"),
    "another architecture": (layout(LAYER, config={"architecture": "vax", "os": "linux", "rootfs": {"diff_ids": [f"sha256:{digest(LAYER)}"]}}), "vax"),
    "an index in a circle": (layout(LAYER, change=circle), "refused"),
    "an index of indexes": (layout(LAYER, change=nested), "again and again"),
    "two images": (layout(LAYER, index={"manifests": [{"digest": f"sha256:{digest(LAYER)}", "size": 1}] * 2}), "2 images"),
    "no JSON": (layout(LAYER, change=lambda files: files.update({"index.json": b"{" * 100000})), "JSON"),
    "too much JSON": (layout(LAYER, change=lambda files: files.update({"index.json": b" " * (5 << 20)})), "larger"),
    "a file that is none of an image": (layout(LAYER, change=lambda files: files.update({"etc/passwd": b"x"})), "etc/passwd"),
    "neither one nor the other": ({"blobs/sha256/" + digest(b"x"): b"x"}, "oci-layout"),
}


@pytest.mark.parametrize("row", LAYOUTS)
def test_layouts(own_box, row):
    files, word = LAYOUTS[row]
    refused(Store(own_box), layout_tar(files), word, code=("usage", "limit"))


def test_layout_directory_with_links(box):
    """A directory whose files are links to elsewhere: they are not followed."""
    store, place = Store(box), box.directory("layout")
    for name, data in layout(LAYER).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    index = place / "index.json"
    elsewhere = box.directory("elsewhere") / "index.json"
    index.rename(elsewhere)
    index.symlink_to(elsewhere)
    os.chmod(place, 0o755)
    result = store.call("import", place, "it", "--json")
    assert result.error["code"] == "usage" and "index.json" in result.error["message"], result.explain()
    assert store.left() == []


def test_docker_links(own_box):
    """Links in an archive of docker save that lead anywhere but to a layer."""
    for target in ("/etc/passwd", "../../../../etc/passwd", "../etc/passwd", "x"):
        name = digest(b"0")
        refused(Store(own_box), tar(entry(f"{name}/"), symlink(f"{name}/layer.tar", target)), "layer.tar")


BOMBS = {
    "a file of 17 GiB": zeros_tar("big", 17 << 30),
    "zeros in gzip": None,
    "sizes that add up": zeros_tar("first", 0) + zeros_tar("second", 17 << 30),
}


@pytest.mark.parametrize("row", BOMBS)
def test_bombs(own_box, row):
    data = BOMBS[row]
    if data is None:
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as file:
            file.write(zeros_tar("bomb", 20 << 30))
            file.write(bytes(64 << 20))
        data = out.getvalue()
    refused(Store(own_box), data, code=("limit",))


def test_many_entries(own_box):
    """A head that comes again and again: one path, so it ends at the second."""
    head = entry("x", b"")[0].tobuf()
    refused(Store(own_box), head * 100000, "\"x\"")


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 1024, os.urandom(4096), b"\x1f\x8b\x08" + os.urandom(2000), b"\x28\xb5\x2f\xfd" + os.urandom(2000), tar(GOOD)[:700],
                                  tar(entry("f", b"x" * 5000))[:3000], tar(GOOD, entry("f", b"1"))[:1024]],
                         ids=["nothing", "a letter", "zeros", "noise", "noise in gzip", "noise in zstd", "half a head", "half a file", "half of the files"])
def test_nonsense(own_box, data):
    refused(Store(own_box), data)


def test_cut_and_changed(own_box):
    """An archive of docker save with each of many bytes changed: refused, or the same files."""
    whole = docker_save(tar(entry("a", b"1"), symlink("l", "a")), tar(entry(".wh.a", b""), entry("b", b"2")))
    store = Store(own_box)
    for at in range(0, len(whole), len(whole) // 40):
        result = store.bring(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1:])
        if result.returncode == 0:
            assert sorted(p.name for p in store.root().iterdir()) == ["b", "l"]
            assert store.call("rm", "it").returncode == 0
        assert store.left() == [], result.explain()


@needs_root
def test_files_that_everybody_may_write_to(own_box):
    """An archive whose files are for all, or are another user's: he cannot change what root runs."""
    store = Store(own_box)
    store.path.chmod(0o777)  # as somebody may have made it
    assert store.bring(tar(entry("open", b"1", mode=0o666), entry("theirs", b"1", uid=4711, gid=4711), entry("wide/", mode=0o777))).returncode == 0
    for name in ("open", "theirs", "wide/new"):
        done = subprocess.run(["sh", "-c", 'echo evil >"$1"', "sh", str(store.root() / name)], user=4711, group=4711, extra_groups=[], capture_output=True, check=False)
        assert done.returncode != 0, name
    assert sorted((p.name, p.read_bytes()) for p in store.root().iterdir() if p.is_file()) == [("open", b"1"), ("theirs", b"1")]
