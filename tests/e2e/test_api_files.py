# SPDX-License-Identifier: Apache-2.0
"""Files of a session over HTTP: in, out, lists, directories, room."""
import base64
import concurrent.futures
import hashlib
import http.client
import os
import stat
import tempfile
import time

import pytest

from conftest import wait_until
from file_fixtures import Workspace, files_server, workspace
from server import Server

MIB = 1 << 20
NAMES = ["a", "with blank", "ünï©ode", "new\nline", "per%cent%2e", "query?x=1#y", "-rf", "...", "a;b $(id)", "back\\slash", "x" * 255, "\u202efdp.exe", "'\"<>&"]


@pytest.mark.smoke
def test_there_and_back(workspace):
    done = workspace.put("data.bin", bytes(range(256))).expect(201)
    assert done.json == {"path": "data.bin", "size": 256}
    got = workspace.get("data.bin").expect(200)
    assert got.body == bytes(range(256))
    assert (got.headers["Content-Type"], got.headers["Content-Length"]) == ("application/octet-stream", "256")
    assert workspace.run("print(len(open('data.bin', 'rb').read()))") == "256\n"
    workspace.run("open('out', 'w').write('from inside')")
    assert workspace.get("out").expect(200).body == b"from inside"
    assert workspace.get("/sandbox/out").expect(200).body == b"from inside"
    workspace.put("data.bin", b"").expect(201)
    assert workspace.get("data.bin").expect(200).body == b""
    workspace.delete("data.bin").expect(204)
    assert workspace.get("data.bin").expect(404).code == "not_found"
    assert workspace.delete("data.bin").expect(404).code == "not_found"


def test_names(workspace):
    """Whatever a name has in it, it arrives."""
    for name in NAMES:
        workspace.put(name, name.encode()).expect(201)
    assert workspace.run("import os, json; print(json.dumps(sorted(os.listdir('.'), key=os.fsencode)))").strip() != ""
    assert sorted(workspace.names()) == sorted(NAMES)
    for name in NAMES:
        assert workspace.get(name).expect(200).body == name.encode()
        workspace.delete(name).expect(204)
    assert workspace.names() == []


def test_names_that_are_not_utf8(workspace):
    names = [b"\xff\xfe", b"caf\xe9", b"ok", b"\xed\xa0\x80"]
    workspace.run(f"import os\nfor n in {names!r}: open(n, 'w').close()")
    entries = workspace.list().expect(200).json["entries"]
    found = {base64.b64decode(e["name_base64"]) if "name_base64" in e else e["name"].encode(): e["name"] for e in entries}
    assert set(found) == set(names)
    assert found[b"ok"] == "ok" and "\ufffd" in found[b"\xff\xfe"]


def test_modes_and_times(workspace):
    before = time.time()
    workspace.put("plain", b"x").expect(201)
    workspace.put("script", b"#!/bin/sh\n", mode="0755").expect(201)
    workspace.put("secret", b"x", mode="600").expect(201)
    entries = {e["name"]: e for e in workspace.list().expect(200).json["entries"]}
    assert {n: e["mode"] for n, e in entries.items()} == {"plain": "0644", "script": "0755", "secret": "0600"}
    assert all(e["type"] == "file" for e in entries.values())
    stamp = time.strptime(entries["plain"]["modified_at"][:19] + " UTC", "%Y-%m-%dT%H:%M:%S %Z")
    assert abs(time.mktime(stamp) - time.timezone - before) < 3600
    for mode in ("8", "abc", "-1", "0o644", "", "177777777"):
        assert workspace.put("x", b"", mode=mode).expect(400).code == "usage"
    assert workspace.run("import os; print(os.stat('plain').st_uid == os.getuid())") == "True\n"


def test_kinds(workspace):
    workspace.run("import os, socket\nos.mkdir('d'); os.symlink('d', 'l'); os.mkfifo('f'); socket.socket(socket.AF_UNIX).bind('s')")
    assert {e["name"]: e["type"] for e in workspace.list().expect(200).json["entries"]} == {"d": "directory", "l": "link", "f": "other", "s": "other"}


def test_directories(workspace):
    assert workspace.put("a/b/c", b"x").expect(404).code == "not_found"
    workspace.put("a/b/c", b"x", parents=True).expect(201)
    assert workspace.put("a/b", directory=True).expect(409).code == "conflict"
    workspace.put("a/b", directory=True, parents=True).expect(201)
    assert workspace.put("d", directory=True, mode="0700").expect(201).json == {"path": "d", "size": 0}
    workspace.put("e/f/g", directory=True, parents=True).expect(201)
    assert workspace.put("h", b"bytes", directory=True).expect(400).code == "usage"
    assert workspace.put("a/b", b"x").expect(400).code == "usage", "a file in the place of a directory"
    assert workspace.put("a/b/c/d", b"x", parents=True).expect(400).code == "usage", "below a file"
    assert workspace.names() == ["a", "d", "e"] and workspace.names("a/b") == ["c"]
    assert workspace.list("a/b").json["path"] == "a/b" and workspace.list("/sandbox/a//b/").json["path"] == "a/b"
    assert workspace.list("a/b/c").expect(400).code == "usage"
    assert workspace.list("nothing").expect(404).code == "not_found"
    assert workspace.get("a").expect(400).code == "usage"
    assert workspace.delete("a").expect(409).code == "conflict"
    workspace.delete("d").expect(204)
    workspace.delete("a", recursive=True).expect(204)
    assert workspace.delete("a", recursive=True).expect(404).code == "not_found"
    assert workspace.names() == ["e"]


def test_pages(workspace):
    """Each name once and in order, whatever the size of the pages; also while others come and go."""
    workspace.run("for i in range(2500): open(f'{(i * 7) % 2500:04}', 'w').close()")
    expected = [f"{i:04}" for i in range(2500)]
    for limit in (7, 100, 999, 1000):
        found, query, pages = [], {}, 0
        while True:
            page = workspace.list(limit=limit, **query).expect(200).json
            assert len(page["entries"]) <= limit
            found += [e["name"] for e in page["entries"]]
            pages += 1
            if page["next"] is None:
                break
            query = {"cursor": page["next"]}
        assert found == expected and pages == -(-2500 // limit)
    first = workspace.list(limit=100).json
    workspace.run("import os\nfor i in range(50, 150): os.unlink(f'{i:04}')")
    rest = workspace.list(limit=100, cursor=first["next"]).json
    assert [e["name"] for e in rest["entries"]] == expected[150:250]
    for wrong in ("zz", "0", "", "g0", "41" * 300):
        assert workspace.list(cursor=wrong).expect(400).code == "usage"
    for wrong in ("0", "1001", "-1", "x", "1.5"):
        assert workspace.list(limit=wrong).expect(400).code == "usage"


def test_unknown_parameters(workspace):
    for answer in (workspace.list(recursive=True), workspace.put("x", b"", owner="0"), workspace.delete("x", force=True),
                   workspace.server.get(f"{workspace.address}/files/x?mode=1"), workspace.server.get(f"{workspace.address}/archive?format=zip")):
        assert answer.expect(400).code == "usage"
    assert workspace.names() == []


def memory_of(server):
    with open(f"/proc/{server.pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def test_large_files(files_server):
    """Larger than what fits into memory at once, in both directions; the server stays small."""
    space = Workspace(files_server, policy={"disk_limit": "400m", "mem_limit": "1g"})
    block = os.urandom(MIB)
    before = memory_of(files_server)
    space.put("large", block * 150).expect(201)
    assert space.run("import hashlib, os; print(os.path.getsize('large'), hashlib.sha256(open('large', 'rb').read()).hexdigest())").split() == [
        str(150 * MIB), hashlib.sha256(block * 150).hexdigest()]
    connection = files_server.connection()
    connection.request("GET", f"{space.address}/files/large")
    response, digest, size = connection.getresponse(), hashlib.sha256(), 0
    while True:
        piece = response.read(MIB)
        if not piece:
            break
        digest.update(piece)
        size += len(piece)
    assert (size, digest.hexdigest()) == (150 * MIB, hashlib.sha256(block * 150).hexdigest())
    assert memory_of(files_server) - before < 64 * MIB
    space.close()


def begin_download(server, address):
    """A download that has begun and is not read on."""
    connection = server.connection()
    connection.request("GET", address)
    response = connection.getresponse()
    assert response.status == 200 and len(response.read(1000)) == 1000
    return connection, response


def test_file_that_shrinks(files_server):
    space = Workspace(files_server, policy={"disk_limit": "80m"})
    space.run("open('f', 'wb').write(bytes(60 << 20))")
    connection, response = begin_download(files_server, f"{space.address}/files/f")
    space.run("import os; os.truncate('f', 0)")
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    connection.close()
    assert files_server.get("/healthz").status == 200
    space.close()


def test_file_that_grows(files_server):
    space = Workspace(files_server, policy={"disk_limit": "200m"})
    space.run("open('f', 'wb').write(b'1' * (60 << 20))")
    connection, response = begin_download(files_server, f"{space.address}/files/f")
    space.run("open('f', 'ab').write(b'2' * (60 << 20))")
    rest = response.read()
    assert len(rest) == (60 << 20) - 1000 and rest.count(b"1") == len(rest)
    connection.close()
    space.close()


def test_a_stalled_download_holds_no_session(files_server):
    space = Workspace(files_server, policy={"disk_limit": "80m"})
    space.run("open('f', 'wb').write(bytes(60 << 20))")
    connection, response = begin_download(files_server, f"{space.address}/files/f")
    start = time.monotonic()
    space.close()
    assert time.monotonic() - start < 10
    assert files_server.get(space.address).status == 404
    connection.close()


def test_head(workspace):
    workspace.put("f", b"12345").expect(201)
    answer = workspace.server.request("HEAD", f"{workspace.address}/files/f")
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "5", b"")


def test_two_writers(workspace):
    """The last one wins as a whole."""
    bodies = [bytes([65 + i]) * (700_000 + i) for i in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for answer in pool.map(lambda body: workspace.put("shared", body), bodies * 4):
            answer.expect(201)
    assert workspace.get("shared").expect(200).body in bodies
    assert workspace.names() == ["shared"]


# ---- room ----

def test_full_workspace(files_server):
    space = Workspace(files_server, policy={"disk_limit": "1m", "inode_limit": 100})
    space.put("small", b"old").expect(201)
    for path in ("big", "new/dir/big", "small"):
        answer = space.put(path, bytes(2 * MIB), parents=True).expect(507)
        assert answer.code == "disk_full" and "full" in answer.error["message"]
    assert space.names() == ["small"] and space.get("small").body == b"old", "nothing was left"
    for i in range(200):
        answer = space.put(f"f{i}", b"")
        if answer.status != 201:
            break
    assert answer.expect(507).code == "disk_full" and i < 100
    assert not [name for name in space.names() if name.startswith(".")]
    space.close()


@pytest.fixture(scope="module")
def keeping_server(binary):
    with tempfile.TemporaryDirectory(prefix="gbtest-kept-") as directory:
        os.chmod(directory, 0o755)
        with Server(workspaces=f"{directory}/kept") as server:  # which it makes
            yield server


def test_kept_workspace(keeping_server):
    """A directory of the host: its limit counts for uploads, too, and its files stay."""
    space = Workspace(keeping_server, workspace="kept", policy={"disk_limit": "1m"})
    place = keeping_server.get(space.address).json["workspace"]
    assert place["kind"] == "kept" and space.id in place["path"]
    space.put("a", b"a" * 600_000).expect(201)
    assert space.run("print(len(open('a').read())); open('b', 'w').write('b')") == "600000\n"
    for path in ("c", "a"):
        assert space.put(path, bytes(600_000)).expect(507).code == "disk_full"
    assert space.names() == ["a", "b"] and len(space.get("a").body) == 600_000
    disk = wait_until(lambda: (s := keeping_server.get(f"{space.address}/stats").json["disk"])["bytes"] > 600_000 and s, 20, 0.2)
    assert disk["bytes"] < 700_000 and disk["limit_bytes"] == MIB
    space.delete("a").expect(204)
    space.put("c", bytes(600_000)).expect(201)
    space.close()
    assert sorted(os.listdir(place["path"])) == ["b", "c"]
    info = os.stat(os.path.join(place["path"], "c"))
    assert stat.S_IMODE(info.st_mode) == 0o644 and info.st_uid == os.stat(place["path"]).st_uid


@pytest.mark.waits
def test_who_reads_slowly_keeps_no_workspace(files_server):
    """An open file keeps all the memory of a workspace whose session has ended, and which nobody counts any more: it is cut after a while."""
    space = Workspace(files_server, policy={"disk_limit": "64m"})
    space.put("big", bytes(48 * MIB)).expect(201)
    with files_server.raw() as plain:
        plain.sendall(f"GET {space.address}/files/big HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        got = len(plain.recv(1000))
        space.close()
        until = time.monotonic() + 60
        while (piece := read_or_end(plain)) and time.monotonic() < until:
            got += len(piece)
            time.sleep(0.1)  # it never stalls, and would take many minutes
    assert not piece and got < 48 * MIB


def read_or_end(plain):
    try:
        return plain.recv(32768)
    except ConnectionResetError:
        return b""
