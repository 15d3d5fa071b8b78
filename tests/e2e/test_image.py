# SPDX-License-Identifier: Apache-2.0
"""glovebox image: import, export, list, rm and build, and runs from an image of the store."""
import gzip
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tarfile

import pytest
import base_image
from conftest import IS_ROOT, box_processes, process_stat, wait_until
from engine_fixtures import engines
from images import Store, docker_save, entry, hardlink, layout, layout_tar, symlink, tar

FILES = [entry("etc"), entry("etc/motd", b"hello\n", mode=0o640, uid=7, gid=8), symlink("motd", "etc/motd"), hardlink("etc/again", "etc/motd"),
         entry("empty", b""), entry("zeros", bytes(200000)), entry("mixed", bytes(8192) + b"x" * 5000 + bytes(9000)), entry("tmp/", mode=0o1777),
         entry("a/" + "long-" * 40 + "/" + "name-" * 20, b"deep"), entry("caf\u00e9", b"name"), entry("locked/", mode=0o555), entry("locked/in", b"1", mode=0o444)]


@pytest.fixture
def store(box):
    return Store(box)


def names(root):
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*"))


def same_as_files(store, name="it"):
    root = store.root(name)
    assert (root / "etc/motd").read_bytes() == b"hello\n" and os.readlink(root / "motd") == "etc/motd"
    assert (root / "etc/again").stat().st_ino == (root / "etc/motd").stat().st_ino
    assert (root / "zeros").read_bytes() == bytes(200000) and (root / "zeros").stat().st_blocks < 100
    assert (root / "mixed").read_bytes() == bytes(8192) + b"x" * 5000 + bytes(9000)
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777 and stat.S_IMODE((root / "etc/motd").stat().st_mode) == 0o640
    assert (root / ("a/" + "long-" * 40 + "/" + "name-" * 20)).read_bytes() == b"deep" and (root / "caf\u00e9").read_bytes() == b"name"
    info = (root / "etc/motd").stat()
    assert (info.st_uid, info.st_gid) == ((7, 8) if store.box.is_root else (store.box.uid, store.box.uid)) and info.st_mtime == 1_600_000_000
    assert (root / "locked/in").read_bytes() == b"1"


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("form", ["tar", "oci", "docker"])
def test_import(store, form, pack):
    if pack is zstd and not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    one = tar(*FILES)
    result = store.bring(pack({"tar": lambda: one, "oci": lambda: layout_tar(layout(one, packed={0})), "docker": lambda: docker_save(one)}[form]()))
    assert result.returncode == 0 and result.err == b"", result.explain()
    about = result.json
    assert (about["name"], about["kind"], about["verified"], about["owners"]) == ("it", form, form != "tar", "archive" if store.box.is_root else "caller")
    assert about["entries"] == len(names(store.root())) + 1 and about["bytes"] > 0
    same_as_files(store)
    assert store.left() == ["it"] and json.loads((store.path / "it/image.json").read_text())["created"] == about["created"]
    listed = store.call("list", "--json").json["images"]
    assert [(i["name"], i["source"], i["verified"]) for i in listed] == [("it", "import of standard input", form != "tar")]


def test_layout_directory(store):
    place = store.box.directory("layout")
    for name, data in layout(tar(*FILES)).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    result = store.call("import", place, "it:1.2", "--json")
    assert result.returncode == 0 and result.json["name"] == "it:1.2" and result.json["verified"], result.explain()
    same_as_files(store, "it+1.2")


LAYERS = [
    tar(entry("keep", b"1"), entry("gone", b"1"), entry("dir"), entry("dir/old", b"1"), entry("dir/sub"), entry("dir/sub/old", b"1"), entry("tree"), entry("tree/x", b"1"),
        entry("file", b"1"), entry("was-dir"), entry("was-dir/x", b"1"), entry("was-file", b"1"), symlink("link", "keep"), entry("again", b"1")),
    # The mark of a whole directory may stand behind what is new in it.
    tar(entry(".wh.gone", b""), entry("dir"), entry("dir/sub"), entry("dir/sub/new", b"2"), entry("dir/new", b"2"), entry("dir/.wh..wh..opq", b""), entry(".wh.tree", b""),
        entry("file", b"two"), entry("was-dir", b"2"), entry("was-file"), entry("was-file/x", b"2"), entry("link", b"2"), entry(".wh.nothing", b""), entry(".wh.again", b"")),
    tar(entry("again", b"3"), hardlink("hard", "keep")),
]


@pytest.mark.parametrize("form", ["oci", "docker"])
def test_layers(store, form):
    """Later layers replace, remove and bring back; what they do not name stays."""
    empty = tar()
    data = layout_tar(layout(*LAYERS, empty, empty, packed={1})) if form == "oci" else docker_save(*LAYERS, empty, empty)
    result = store.bring(data)
    assert result.returncode == 0 and result.json["verified"], result.explain()
    root = store.root()
    assert names(root) == ["again", "dir", "dir/new", "dir/sub", "dir/sub/new", "file", "hard", "keep", "link", "was-dir", "was-file", "was-file/x"]
    assert {n: (root / n).read_bytes() for n in ("file", "again", "link", "hard")} == {"file": b"two", "again": b"3", "link": b"2", "hard": b"1"}
    assert (root / "keep").read_bytes() == b"1" and not (root / "link").is_symlink()


def test_marks_in_a_plain_tar_are_files(own_box):
    store = Store(own_box)
    assert store.bring(tar(entry("x", b"1"), entry(".wh.x", b""))).returncode == 0
    assert names(store.root()) == [".wh.x", "x"]


@pytest.mark.parametrize("oci", [False, True], ids=["tar", "oci"])
def test_round_trip(store, oci):
    """What is exported is imported as the same, to the byte."""
    flags, place = ["--oci"] if oci else [], store.box.directory("archives")
    assert store.bring(tar(*FILES), "first").returncode == 0
    assert store.call("export", *flags, "first", place / "1").returncode == 0
    result = store.call("import", place / "1", "second", "--json")
    assert result.returncode == 0 and result.json["verified"] is oci, result.explain()
    assert store.call("export", "first", place / "a").returncode == store.call("export", "second", place / "b").returncode == 0
    assert (place / "a").read_bytes() == (place / "b").read_bytes()
    piped = store.call("export", *flags, "first", "-")
    assert piped.returncode == 0 and piped.out == (place / "1").read_bytes()
    assert sorted(p.name for p in place.iterdir()) == ["1", "a", "b"] and stat.S_IMODE((place / "1").stat().st_mode) == 0o644
    with tarfile.open(place / "a") as archive:
        members = {m.name: m for m in archive}
    assert len(members) >= len(FILES) and members["etc/motd"].islnk() != members["etc/again"].islnk()
    assert (members["etc/again"].uid, members["etc/again"].gid) == ((7, 8) if store.box.is_root else (0, 0))


def test_names_and_words(store):
    for name in ("A", "../x", "x/y", "", "x:", ".x"):
        result = store.call("import", "-", name, "--json")
        assert result.returncode == 110 and result.error["code"] == "usage", result.explain()
    assert store.left() == []
    assert store.call("import", "/nonexistent", "x").returncode == 113
    assert store.call("import", "x").returncode == store.call("import").returncode == store.call("rm").returncode == store.call("export").returncode == 110
    empty = store.call("list")
    assert empty.returncode == 0 and empty.out == b"" and b"glovebox image build" in empty.err
    assert store.call("list", "--json").json == {"backend": "native", "images": []}

    assert store.bring(tar(entry("x", b"1")), "work:latest").returncode == 0
    for verb in (["rm"], ["export"]):
        result = store.call(*verb, "wurk")
        assert result.returncode == 113 and b"did you mean 'work'" in result.err, result.explain()
    assert store.call("list", "-q").out == b"work\n" and b"NAME" in store.call("list").out
    assert store.call("export", "work", "--json").returncode == 110
    assert store.call("rm", "work", "--json").json == {"removed": ["work"]} and store.left() == []


def test_replaced_at_once(store):
    """An import that fails leaves the image of that name as it was."""
    assert store.bring(tar(entry("old", b"1"))).returncode == 0
    assert store.bring(tar(entry("new", b"1"), entry("../x", b"1"))).returncode == 110
    assert names(store.root()) == ["old"]
    assert store.bring(tar(entry("new", b"1"))).returncode == 0
    assert names(store.root()) == ["new"] and store.left() == ["it"]


def started(store, name="it", **popen):
    """An import that waits in the middle of its archive."""
    process = subprocess.Popen([str(store.box.binary), "image", "import", "-", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**store.box.environ, **store.environ}, **store.box.ids, **popen)
    process.stdin.write(tar(entry("x", b"1"), entry("y", bytes(1 << 20)))[:1 << 19])
    process.stdin.flush()
    assert wait_until(lambda: list(store.path.glob(".making/*/rootfs/x")))
    return process


def test_two_at_once(store):
    first = started(store)
    second = store.bring(tar(entry("z", b"1")))
    assert second.returncode == 102 and second.error["code"] == "conflict", second.explain()
    assert store.bring(tar(entry("z", b"1")), "other").returncode == 0
    assert len(list(store.path.glob(".making/*"))) == 1
    first.stdin.write(tar(entry("x", b"1"), entry("y", bytes(1 << 20)))[1 << 19:])
    assert first.communicate()[1] == b"" and first.returncode == 0
    assert store.left() == ["it", "other"]


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_interrupted(store, number, status):
    process = started(store)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == status
    if number == signal.SIGKILL:
        assert len(store.left()) == 1  # until somebody looks
        assert store.bring(tar(entry("z", b"1")), "other").returncode == 0
        assert store.left() == ["other"]
    else:
        assert store.left() == []


LEFT_OUT = ("usr/lib/python3/", "usr/share/", "usr/lib/git-core", "usr/include", "var/lib/dpkg", "var/cache", "usr/lib/python3.11/test", "boot", "usr/sbin", "usr/libexec")
LARGE = 1 << 20  # programs and libraries that Python does not need; it is larger itself


@pytest.fixture(scope="session")
def small_tar(session_dir):
    """A Debian with Python and a shell, and little else."""
    path = session_dir / "small.tar"
    with tarfile.open(base_image.base_tar()) as whole, tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as part:
        for info in whole:
            name = info.name.removeprefix("./")
            if name and not info.islnk() and not name.startswith(LEFT_OUT) and (info.size < LARGE or "python3" in name or "libc" in name):
                part.addfile(info, whole.extractfile(info) if info.isreg() else None)
    path.chmod(0o644)
    return path


def test_runs_from_an_image(box, small_tar):
    """A Debian from a tar, and code in it; files of the host are not there."""
    store = Store(box)
    result = store.call("import", small_tar, "debian:test", "--json")
    assert result.returncode == 0 and result.json["entries"] > 500, result.explain()
    root = store.root("debian+test")
    marker = f"etc/{os.urandom(4).hex()}"
    (root / marker).write_text("only here")
    os.chmod(root / marker, 0o644)
    run = box.run(f"import os; print(open('/{marker}').read(), os.getuid()); open('/etc/x', 'w')", "python", image="debian:test", environ=store.environ)
    assert run.stdout == "only here 1000\n" and "Read-only file system" in run.stderr, run.explain()
    missing = box.run("1", "python", image="debian:tset", environ=store.environ)
    assert missing.returncode == 113 and "did you mean 'debian:test'" in missing.error["message"], missing.explain()


# ---- build, native: with a mmdebstrap that is played ----

PLAYED = """#!/bin/sh
printf '%s\\n' "$@" >"$PLAY/arguments"
mkdir -p "$TMPDIR/mmdebstrap.x/var/cache/apt/archives" 2>/dev/null && echo deb >"$TMPDIR/mmdebstrap.x/var/cache/apt/archives/fetched_1_all.deb"
"""


class Play:
    """`script` follows what every one of them does: telling its arguments, and fetching a package."""

    def __init__(self, box, script, packages="python3  # comes with it\n\n# nothing\ncurl\n", check=None):
        self.store, self.place, recipe = Store(box), box.directory("play"), box.directory("recipe")
        program = self.place / "mmdebstrap"
        program.write_text(PLAYED + script)
        program.chmod(0o755)
        (recipe / "packages").write_text(packages)
        if check:
            (recipe / "check.py").write_text(check)
        self.store.environ |= {"PATH": f"{self.place}:{box.environ['PATH']}", "PLAY": str(self.place)}
        self.words = ["build", "mine", "--directory", str(recipe), "--suite", "bookworm", "--json", "--allow-weaker", "cgroup"]

    def build(self):
        return self.store.call(*self.words)

    def arguments(self):
        return (self.place / "arguments").read_text()


@pytest.fixture
def root_box(own_box):
    if not IS_ROOT:
        pytest.skip("needs root, and the suite does not run as root")
    return own_box


def test_build(root_box, small_tar):
    play = Play(root_box, f"exec cat {small_tar}", check="import json, os\nassert os.getuid() == 1000\n")
    result = play.build()
    assert result.returncode == 0, result.explain()
    assert (result.json["name"], result.json["kind"], result.json["verified"]) == ("mine", "build", True)
    arguments = play.arguments()
    assert "--include=python3,curl" in arguments and "\nbookworm\n-\n" in arguments and f"sync-in '{play.store.path}/.cache/apt'" in arguments
    assert sorted(p.name for p in (play.store.path / "mine").iterdir()) == ["image.json", "rootfs"] and play.store.left() == ["mine"]


def test_build_whose_check_is_interrupted(root_box, small_tar):
    """Whether the image is good is not known then."""
    play = Play(root_box, f"exec cat {small_tar}", check="import time\nprint('on', flush=True)\ntime.sleep(1000)\n")
    before = set(box_processes())
    process = subprocess.Popen([str(root_box.binary), "image", *play.words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**root_box.environ, **play.store.environ})
    assert wait_until(lambda: any(p.name.startswith("python") for p in box_processes() - before), 60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"interrupted" in err and b"check failed" not in err, (out, err)
    assert play.store.left() == []


def test_build_whose_check_fails(root_box, small_tar):
    play = Play(root_box, f"exec cat {small_tar}", check="import no_such_module\n")
    result = play.build()
    assert result.returncode == 113 and "no_such_module" in result.error["message"], result.explain()
    assert play.store.left() == []


@pytest.mark.parametrize("script, words", [
    ("echo 'I: fine' >&2; echo 'E: no such suite' >&2; exit 2", "status 2"),
    ("echo 'E: no such suite' >&2; printf garbage; exit 2", "no such suite"),
    ("head -c 100000 /dev/zero | tr '\\0' x", "cannot be read"),
    ("exit 0", "archive"),
])
def test_build_that_fails(root_box, script, words):
    play = Play(root_box, script)
    result = play.build()
    assert result.returncode in (105, 110) and words in result.error["message"], result.explain()
    assert play.store.left() == []
    assert [p.name for p in (play.store.path / ".cache/apt").iterdir()] == ["fetched_1_all.deb"]


def test_build_that_is_interrupted(root_box):
    """Ctrl-C ends it with all it has started; what was fetched is there the next time."""
    play = Play(root_box, "echo $$ >\"$PLAY/pid\"; sleep 1000 & echo $! >\"$PLAY/child\"; wait")
    process = subprocess.Popen([str(root_box.binary), "image", *play.words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**root_box.environ, **play.store.environ})
    assert wait_until((play.place / "child").exists) and wait_until(lambda: (play.place / "child").read_text())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, (out, err)
    for name in ("pid", "child"):
        number = (play.place / name).read_text().strip()
        assert wait_until(lambda number=number: not process_stat(number), 20), name
    assert play.store.left() == [] and [p.name for p in (play.store.path / ".cache/apt").iterdir()] == ["fetched_1_all.deb"]


def test_build_without_what_it_needs(own_box, user_box):
    store = Store(own_box)
    store.environ["PATH"] = str(own_box.directory("empty"))
    result = store.call("build", "glovebox-python", "--json")
    assert result.returncode == 113 and "apt install mmdebstrap" in result.error["message"], result.explain()
    result = store.call("build", "no-such-recipe", "--json")
    assert result.returncode == 113 and "glovebox-python" in result.error["message"], result.explain()
    assert store.call("build").returncode == 110
    if IS_ROOT:  # a user without ids of his own
        play = Play(user_box, "exit 0")
        result = play.build()
        assert result.returncode == 105 and "/etc/subuid" in result.error["message"], result.explain()
    for bad in ("a;b", "--include", "../x"):
        play = Play(own_box, "exit 0", packages=f"{bad}\n")
        if IS_ROOT:
            assert play.build().returncode == 110


# ---- build, by an engine ----

@pytest.fixture(params=["docker", "podman"])
def engine(request, engines):
    return engines.get(request.param)


def by_engine(own_box, engine, *words):
    return own_box.call("image", *words, "--backend", "docker", environ={"DOCKER_HOST": engine.host})


def recipe(box, text):
    place = box.directory("recipe")
    (place / "Dockerfile").write_text(text)
    (place / "data").write_text("of the context")
    return place


def derived(engine):
    """Ids of the images that were made of others for containers."""
    return {image["Id"] for image in engine.ask("GET", "/images/json")[1] if "org.glovebox.runner" in (image.get("Labels") or {})}


def test_engine_build(own_box, engine):
    """By the Dockerfile of a directory, with base and name; the engine's list has it."""
    place = recipe(own_box, "ARG BASE=nothing\nFROM ${BASE}\nCOPY data /data\n")
    built = by_engine(own_box, engine, "build", "mine", "--directory", place, "--base", base_image.NAME, "--tag", "images-test:1", "--network", "none", "--json")
    try:
        assert built.returncode == 0 and b"COPY data" in built.err, built.explain()
        assert built.json["name"] == "images-test:1" and built.json["bytes"] > 1 << 20
        assert engine.has_image("images-test:1")
        listed = by_engine(own_box, engine, "list", "--json").json["images"]
        assert [i["source"] for i in listed if i["name"] == "images-test:1"] == ["build"], listed
        quiet = by_engine(own_box, engine, "build", "mine", "--directory", place, "--base", base_image.NAME, "--tag", "images-test:1", "-q")
        assert quiet.returncode == 0 and quiet.err == b"", quiet.explain()
    finally:
        engine.ask("DELETE", "/images/images-test:1?force=1")


def test_engine_remove(own_box, engine):
    """An image goes with what was made of it for containers; another one's stays."""
    place = recipe(own_box, "ARG BASE\nFROM ${BASE}\nLABEL removed=soon\n")
    for tag in ("images-rm:1", "images-stay:1"):
        assert by_engine(own_box, engine, "build", "mine", "--directory", place, "--base", base_image.NAME, "--tag", tag, "--network", "none", "-q").returncode == 0
        place = recipe(own_box, "ARG BASE\nFROM ${BASE}\nLABEL removed=never\n")
    try:
        for tag in ("images-rm:1", "images-stay:1"):
            ran = own_box.call("run", "-q", "--backend", "docker", "--allow-weaker", "runtime,pids", "--image", tag, "-c", "print(1)", environ={"DOCKER_HOST": engine.host})
            assert ran.out == b"1\n", ran.err
        made = derived(engine)
        assert by_engine(own_box, engine, "rm", "images-rm:1", "--json").json == {"removed": ["images-rm:1"]}
        assert not engine.has_image("images-rm:1") and engine.has_image("images-stay:1")
        assert len(made - derived(engine)) == 1
        assert by_engine(own_box, engine, "rm", "images-rm:1").returncode == 113
    finally:
        by_engine(own_box, engine, "rm", "images-stay:1")


def test_engine_image_is_prepared(engine, engines):
    """glovebox-python, as the fixture built it by this command: user, directories, tools."""
    body = {"Image": "glovebox-python", "Cmd": ["sh", "-c", "id -u; stat -c '%u %a' /sandbox /workspace /tmp/sandbox; for c in curl git ps python3; do command -v $c; done | wc -l"],
            "HostConfig": {"NetworkMode": "none", "Ulimits": [{"Name": "nproc", "Soft": 512, "Hard": 512}, {"Name": "nofile", "Soft": 256, "Hard": 256}]}}
    status, made = engine.ask("POST", "/containers/create", body)
    assert status == 201, made
    try:
        engine.ask("POST", f"/containers/{made['Id']}/start")
        engine.ask("POST", f"/containers/{made['Id']}/wait")
        said = engine.ask("GET", f"/containers/{made['Id']}/logs?stdout=1&stderr=1")[1]
        text = bytes(b for b in (said if isinstance(said, bytes) else str(said).encode()) if b >= 10).decode(errors="replace")
        assert "1000\n" in text and "1000 1777\n" in text and "1000 755\n" in text and text.rstrip().endswith("4"), text
    finally:
        engine.remove(made["Id"])


def test_engine_build_that_fails(own_box, engine):
    """The engine answers 200 and then says that it failed."""
    for text in (f"FROM {base_image.NAME}\nRUN exit 3\n", "FROM\n", f"FROM {base_image.NAME}\nCOPY missing /x\n"):
        result = by_engine(own_box, engine, "build", "mine", "--directory", recipe(own_box, text), "--tag", "images-failed", "--network", "none", "--json")
        assert result.returncode != 0 and len(result.error["message"]) > 20, (text, result.explain())
    assert not engine.has_image("images-failed")
    assert by_engine(own_box, engine, "build", "mine", "--directory", recipe(own_box, "FROM x"), "--network", "bridge").returncode == 110


def test_engine_takes_what_is_exported(own_box, engines):
    """An OCI layout that docker of 20.10 loads, and what it saves of it."""
    store, engine = Store(own_box), engines.docker
    assert store.bring(tar(*FILES), "images-load").returncode == 0
    archive = own_box.directory("archives") / "x"
    assert store.call("export", "--oci", "images-load", archive).returncode == 0
    with open(archive, "rb") as file:
        status, answer = engine.ask("POST", "/images/load", file, kind="application/x-tar")
    assert status == 200 and engine.has_image("images-load"), answer
    status, saved = engine.ask("GET", "/images/images-load/get")
    engine.ask("DELETE", "/images/images-load?force=1")
    result = store.bring(saved, "back")
    assert result.returncode == 0 and result.json["verified"], result.explain()
    a, b = store.call("export", "images-load", "-"), store.call("export", "back", "-")
    assert a.returncode == b.returncode == 0 and a.out == b.out
