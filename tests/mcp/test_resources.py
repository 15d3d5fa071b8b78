# SPDX-License-Identifier: Apache-2.0
"""Resources: lists, reading, templates, and who wants to hear of changes."""
import base64
import contextlib
import json
import secrets
import socket
import threading

import pytest

from peer import Events, Peer, RpcError
from server import PATIENCE
from workspace import peer, run, server, session, uri_of  # noqa: F401

PARAMS, METHOD, RESOURCE = -32602, -32601, -32002
MIB = 1 << 20
PAGE, WALK_MAX, DEPTH_MAX, SUBSCRIPTIONS_MAX = 500, 2000, 16, 64
NOBODY = "0" * 32
UPDATED, LIST_CHANGED = "notifications/resources/updated", "notifications/resources/list_changed"


def refused(peer, method, **params):
    with pytest.raises(RpcError) as wrong:
        peer.call(method, params)
    return wrong.value


def listed(peer):
    """All pages: the resources, and how many each page had."""
    found, sizes, params = [], [], {}
    while params is not None:
        page = peer.call("resources/list", params)
        found += page["resources"]
        sizes.append(len(page["resources"]))
        params = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    return found, sizes


def titles(peer):
    return [r["title"] for r in listed(peer)[0]]


# ---- lists ----

def test_nothing_is_made_for_a_list(server):
    peer = Peer(server)
    assert peer.call("resources/list") == {"resources": []}
    before = server.used()["sessions"]
    assert peer.call("resources/list") == {"resources": []} and server.used()["sessions"] == before
    peer.good("list_files")
    assert server.used()["sessions"] == before + 1
    peer.end()
    assert Peer(server, era="stateless").call("resources/list")["resources"] == []


@pytest.mark.smoke
def test_list(peer, session, run):
    run("import os\nos.makedirs('b/c'); os.mkdir('empty'); os.symlink('/etc', 'link'); os.mkfifo('fifo')\n"
        "for path, text in (('z.txt', 'zz'), ('b/c/deep.py', 'print()'), ('b/a.PNG', ''), ('ümlaut x', 'y')): open(path, 'w').write(text)")
    found, sizes = listed(peer)
    assert sizes == [4]
    stamps = [r.pop("annotations") for r in found]
    assert all(list(s) == ["lastModified"] and s["lastModified"].endswith("Z") for s in stamps)
    assert found == [
        {"uri": uri_of(session, "b/a.PNG"), "name": "a.PNG", "title": "b/a.PNG", "mimeType": "image/png", "size": 0},
        {"uri": uri_of(session, "b/c/deep.py"), "name": "deep.py", "title": "b/c/deep.py", "mimeType": "text/x-python", "size": 7},
        {"uri": uri_of(session, "z.txt"), "name": "z.txt", "title": "z.txt", "mimeType": "text/plain", "size": 2},
        {"uri": uri_of(session, "%C3%BCmlaut%20x"), "name": "ümlaut x", "title": "ümlaut x", "mimeType": "application/octet-stream", "size": 1}]
    for resource in found:
        assert peer.call("resources/read", {"uri": resource["uri"]})["contents"][0]["uri"] == resource["uri"]


def test_what_is_left_out_is_readable(peer, session, run):
    run("import os\nfor d in ('.cache', 'pkg/__pycache__', 'pkg/.git/objects'): os.makedirs(d)\n"
        "for path in ('.cache/x', '.hidden', 'pkg/__pycache__/m.pyc', 'pkg/.git/objects/o', 'pkg/m.py', '__pycache__x'): open(path, 'w').write(path)")
    assert titles(peer) == ["__pycache__x", "pkg/m.py"]
    for path in (".cache/x", ".hidden", "pkg/__pycache__/m.pyc", "pkg/.git/objects/o"):
        assert peer.call("resources/read", {"uri": uri_of(session, path)})["contents"][0]["text"] == path
        assert peer.good("read_file", path=path)["text"] == path


def test_pages(peer, run):
    run("import os\nfor d in 'cab':\n os.mkdir(d)\n for i in range(401): open(f'{d}/{(i * 7) % 401:03}', 'w').close()")
    found, sizes = listed(peer)
    assert sizes == [PAGE, PAGE, 203]
    assert [r["title"] for r in found] == [f"{d}/{i:03}" for d in "abc" for i in range(401)]
    cursor = peer.call("resources/list")["nextCursor"]
    run("import os; os.unlink('a/000'); os.unlink('b/098'); open('a/0000', 'w').close(); open('b/0981', 'w').close()")
    after = peer.call("resources/list", {"cursor": cursor})["resources"]
    assert after[0]["title"] == "b/0981", "what comes and goes before it moves nothing"
    for wrong in ("", "x", "b/098", "====", base64.b64encode(b"b/098").decode(), base64.b64encode(b"after:").decode(), cursor[:-1], cursor + "\n", 5, None, {}):
        assert refused(peer, "resources/list", cursor=wrong).code == PARAMS, wrong


def test_the_walk_is_bounded(peer, run):
    run("import os\nos.makedirs('/'.join(['d'] * 30))\nfor n in range(1, 31): open('/'.join(['d'] * n) + '/f', 'w').close()")
    deep = titles(peer)
    assert deep == sorted("d/" * n + "f" for n in range(1, DEPTH_MAX + 1))
    run("import os\nfor i in range(60):\n os.mkdir(f'e{i:02}')\n for k in range(70): open(f'e{i:02}/{k:02}', 'w').close()")
    many = titles(peer)
    assert 1000 < len(many) <= WALK_MAX and many == sorted(many) and len(set(many)) == len(many)


def test_names_that_have_no_address(server):
    """Those that are not UTF-8, or have a secret in them: also in errors, however they are cut or encoded."""
    secret = "in two/" + secrets.token_hex(12)
    peer = Peer(server, options={"secrets": {"KEY": secret}})
    session = peer.good("write_file", path="plain", content="x")["session"]
    code = (f"import os\nos.mkdir('in two')\nfor n in (b'\\xff', b'new\\nline', b'd\\xe9', b'in two/other'): open(n, 'w').close()\n"
            f"for n in ({secret!r}, {secret!r} + 'x', 'a' + {secret.replace('/', '_')!r}): open(n, 'w').close()")
    assert server.run(code, session=session)["result"]["verdict"]["kind"] == "ok"
    page = peer.call("resources/list")
    assert [r["title"] for r in page["resources"]] == ["a" + secret.replace("/", "_"), "in two/other", "new\nline", "plain"]
    for directory in ("", "d/" * 45):
        uri = uri_of(session, directory + secret.replace(" ", "%20") + "/no")
        wrong = refused(peer, "resources/read", uri=uri)
        said = wrong.message + json.dumps(wrong.data)
        assert wrong.code == RESOURCE and secret[-12:] not in said and secret[7:19] not in said and "scrubbed" in wrong.data["uri"]
    peer.end()


def test_long_names(peer, run):
    """A page is as large as a message may be, and no larger; nothing is lost."""
    part = "\x01" * 250
    run(f"import os\np = '/'.join([{part!r}] * 15)\nos.makedirs(p)\nfor i in range(900): open(f'{{p}}/{{i:03}}', 'w').close()")
    found, sizes = listed(peer)
    assert [r["name"] for r in found] == [f"{i:03}" for i in range(900)] and len(sizes) > 2
    path, names, cursor = "/".join([part] * 15), [], {}
    while cursor is not None:
        answer = peer.stream("tools/call", {"name": "list_files", "arguments": {"path": path, "limit": 1000, **cursor}})
        page = peer.read(answer)["structuredContent"]
        size = max(len(event.data) for event in answer.seen if event.data) if isinstance(answer, Events) else len(answer.body)
        assert size < 8 * MIB
        names += [e["name"] for e in page["entries"]]
        cursor = {"cursor": page["next"]} if page["next"] else None
    assert names == [f"{i:03}" for i in range(900)]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_templates(server, era):
    found = Peer(server, era=era).call("resources/templates/list")["resourceTemplates"]
    assert [t["uriTemplate"] for t in found] == ["glovebox://sessions/{session}/files/{+path}", "glovebox://runs/{run}/{stream}"]
    assert all(t["name"] and t["description"] for t in found)


# ---- reading ----

def read(peer, uri):
    contents = peer.call("resources/read", {"uri": uri})["contents"]
    assert len(contents) == 1 and contents[0]["uri"] == uri and ("text" in contents[0]) != ("blob" in contents[0])
    return contents[0]


def put(peer, path, raw):
    return peer.good("write_file", path=path, content_base64=base64.b64encode(raw).decode())["uri"]


@pytest.mark.parametrize("name,raw,kind", [("a.txt", "grüß\n".encode(), "text/plain"), ("empty", b"", "text/plain"), ("b.bin", bytes(range(256)), "application/octet-stream"),
                                           ("c.csv", b"a,b\n1,2\n", "text/csv"), ("d.txt", b"\xff\xfe", "text/plain"), ("e.txt", b"nul\0", "text/plain"),
                                           ("Makefile", b"all:\n", "text/plain"),
                                           ("f.png", b"\x89PNG\r\n\x1a\n123", "image/png"), ("g.txt", "\u20ac".encode()[:2], "text/plain"), ("h", b"\x1b[31m\x7f", "text/plain")])
def test_read(peer, name, raw, kind):
    found = read(peer, put(peer, name, raw))
    assert found["mimeType"] == kind
    is_text = name not in ("b.bin", "d.txt", "e.txt", "f.png", "g.txt")
    assert ("text" in found) is is_text
    assert (found["text"].encode() if is_text else base64.b64decode(found["blob"])) == raw


def test_read_large(peer, session, run):
    """4 MiB are read whole, whatever is in them; a message has less than 8 MiB."""
    run(f"n = {4 * MIB}\nfor name, b in (('text', b'x'), ('lines', b'\\n'), ('quotes', b'\"'), ('control', b'\\x01'), ('bytes', b'\\xff')): open(name, 'wb').write(b * n)\n"
        "open('more', 'wb').write(b'x' * (n + 1)); open('huge', 'wb').truncate(1 << 40)")
    for name, byte, key in (("text", b"x", "text"), ("lines", b"\n", None), ("quotes", b'"', None), ("control", b"\1", "blob"), ("bytes", b"\xff", "blob")):
        answer = peer.stream("resources/read", {"uri": uri_of(session, name)})
        found = peer.read(answer)["contents"][0]
        size = max(len(event.data) for event in answer.seen if event.data) if isinstance(answer, Events) else len(answer.body)
        assert 4 * MIB < size < 8 * MIB and (key is None or key in found)
        assert (found["text"].encode() if "text" in found else base64.b64decode(found["blob"])) == byte * 4 * MIB
    for name in ("more", "huge"):
        wrong = refused(peer, "resources/read", uri=uri_of(session, name))
        assert wrong.code == PARAMS and "read_file" in wrong.message and "offset" in wrong.message


def test_read_outputs(server, peer, session):
    run = server.run("import sys; print('out'); sys.stderr.buffer.write(b'caf\\xe9\\n')", session=session)["id"]
    assert read(peer, f"glovebox://runs/{run}/stdout") == {"uri": f"glovebox://runs/{run}/stdout", "mimeType": "text/plain", "text": "out\n"}
    assert read(peer, f"glovebox://runs/{run}/stderr")["text"] == "caf\ufffd\n"
    quiet = server.run("pass")["id"]
    assert read(peer, f"glovebox://runs/{quiet}/stdout")["text"] == ""
    loud = server.run(f"import sys; sys.stdout.write('x' * {4 * MIB + 1})", policy={"output_limit": "8m"})["id"]
    wrong = refused(peer, "resources/read", uri=f"glovebox://runs/{loud}/stdout")
    assert wrong.code == PARAMS and "read_file" in wrong.message
    raw = server.run(f"import sys; sys.stdout.buffer.write(b'\\xff' * {4 * MIB})", policy={"output_limit": "8m"})["id"]
    assert base64.b64decode(read(peer, f"glovebox://runs/{raw}/stdout")["blob"]) == b"\xff" * 4 * MIB, "as text it would be three times as long"


def test_any_session_of_the_tenant(server, peer):
    other = server.session()
    server.put(f"/v1/sessions/{other}/files/a%20b", b"there").expect(201)
    assert read(peer, uri_of(other, "a%20b"))["text"] == "there"
    assert read(Peer(server, era="stateless"), uri_of(other, "a%20b"))["text"] == "there"
    assert peer.call("resources/list") == {"resources": []}, "only the client's own are listed"
    server.delete(f"/v1/sessions/{other}").expect(204)
    assert refused(peer, "resources/read", uri=uri_of(other, "a%20b")).code == RESOURCE


WRONG = ["", "x", "glovebox://", "file:///etc/passwd", "glovebox://sessions/SESSION/files/", "glovebox://sessions/SESSION/files/../x", "glovebox://sessions/SESSION/files/%2E%2E/x",
         "glovebox://sessions/SESSION/files/a%2Fb", "glovebox://sessions/SESSION/files/%61", "glovebox://sessions/SESSION/files/a?b", "glovebox://sessions/SESSION/files/nothing",
         "glovebox://sessions/SESSION/files/plain/x", "glovebox://sessions/SESSION/files/d", "glovebox://sessions/SESSION/files/fifo", "glovebox://sessions/SESSION/files/out",
         "glovebox://sessions/SESSION/files/root/etc/passwd", "glovebox://sessions/" + NOBODY + "/files/plain", "glovebox://sessions/zz/files/plain",
         "glovebox://runs/" + NOBODY + "/stdout", "glovebox://runs/SESSION/stdout", "glovebox://runs/SESSION/both", "GLOVEBOX://runs/" + NOBODY + "/stdout"]


@pytest.mark.parametrize("era,code", [("handshake", RESOURCE), ("stateless", PARAMS)])
def test_not_found(server, era, code):
    peer, session = Peer(server, era=era), server.session()
    server.run("import os\nos.mkdir('d'); os.mkfifo('fifo'); open('plain', 'w').close(); os.symlink('/etc/passwd', 'out'); os.symlink('/', 'root')", session=session)
    assert read(peer, uri_of(session, "plain"))["text"] == ""
    for uri in WRONG:
        uri = uri.replace("SESSION", session)
        wrong = refused(peer, "resources/read", uri=uri)
        assert wrong.code == code and wrong.data == {"uri": uri} and "root:" not in wrong.message, (uri, wrong)
    for uri in (5, None, ["x"]):
        assert refused(peer, "resources/read", uri=uri).code == PARAMS
    assert refused(peer, "resources/read").code == PARAMS
    server.delete(f"/v1/sessions/{session}").expect(204)


def test_what_others_have(server):
    mine, other = Peer(server, token=server.token("mine")), Peer(server, token=server.token("other"))
    made = other.good("write_file", path="private", content="of another")
    run = other.good("run_python", code="print('of another')")["run"]
    for uri, nobody in ((made["uri"], uri_of(NOBODY, "private")), (f"glovebox://runs/{run}/stdout", f"glovebox://runs/{NOBODY}/stdout")):
        wrong, never = refused(mine, "resources/read", uri=uri), refused(mine, "resources/read", uri=nobody)
        assert wrong.code == never.code == RESOURCE
        assert wrong.message.replace(made["session"], NOBODY).replace(run, NOBODY) == never.message
        assert "of another" in read(other, uri)["text"]
    assert refused(mine, "resources/subscribe", uri=made["uri"]).code == RESOURCE
    mine.end(), other.end()


# ---- what a run has changed ----

def test_changed_files(peer, run, session):
    run("import os\nopen('old', 'w').close(); os.utime('old', (1, 1))")
    code = "import os\nfor d in ('out', '.git', '__pycache__'): os.mkdir(d); open(d + '/f.csv', 'w').write('12')\nos.utime('out/f.csv', (4e9, 4e9)); open('new', 'w').close()"
    files = peer.good("run_python", code=code)["files"]
    assert files == [{"path": "out/f.csv", "uri": uri_of(session, "out/f.csv"), "type": "text/csv", "size": 2},
                     {"path": "new", "uri": uri_of(session, "new"), "type": "application/octet-stream", "size": 0}], "the newest first"
    assert len(peer.good("run_python", code="for i in range(30): open(f'n{i:02}', 'w').close()")["files"]) == 20


# ---- changes ----

@contextlib.contextmanager
def listening(peer):
    """What is told: an iterator over methods and addresses. It ends when what a test waits for never comes."""
    with peer.listen() as stream:
        assert isinstance(stream, Events)
        end = threading.Timer(PATIENCE, stream.response.fp.raw._sock.shutdown, [socket.SHUT_RDWR])
        end.start()
        try:
            yield ((m["method"], m.get("params", {}).get("uri")) for m in stream.messages())
        finally:
            end.cancel()


def updates(told, *uris):
    """Those up to the moment when each of these was told once: no more, no fewer."""
    missing, seen = set(uris), []
    while missing:
        method, uri = next(told)
        if method == UPDATED:
            seen.append(uri)
            missing.discard(uri)
    assert sorted(seen) == sorted(uris)


def replacing(directory, names, size):
    """Code that changes files so that nobody sees a half of it."""
    return f"import os\nfor n in {list(names)!r}:\n open('.new', 'w').write('x' * {size})\n os.rename('.new', os.path.join({directory!r}, n))"


def look(peer):
    """What may have changed something is followed by a look at once: who waits for the next one waits for a second."""
    peer.good("write_file", path=".look", content="")


def subscribe(peer, *uris):
    for uri in uris:
        assert peer.call("resources/subscribe", {"uri": uri}) == {}


def test_updates(server, peer, session, run):
    """A file that changes, comes, or goes; by whomever, and without a call of the client."""
    run("open('a', 'w').write('1'); open('.dot', 'w').close()")
    uris = {name: uri_of(session, name) for name in ("a", "new/b", ".dot")}
    subscribe(peer, *uris.values())
    with listening(peer) as told:
        run(replacing(".", ["a", ".dot"], 2) + "\nos.mkdir('new')")
        server.put(f"/v1/sessions/{session}/files/new/b", b"it is here").expect(201)
        updates(told, *uris.values())
        server.delete(f"/v1/sessions/{session}/files/a").expect(204)
        run("import shutil; shutil.rmtree('new')")
        look(peer)
        updates(told, uris["a"], uris["new/b"])
        run("import os; os.symlink('/etc/passwd', 'a')")
        peer.good("write_file", path="new/b", content="it is here again")
        updates(told, uris["a"], uris["new/b"])


def test_once_for_each_change(peer, session, run):
    """Nothing is told twice, nothing of what was given up, and nothing of others."""
    run(replacing(".", "abcz", 1))
    a, b, z = (uri_of(session, n) for n in "abz")
    subscribe(peer, a, a, b, z)
    assert peer.call("resources/unsubscribe", {"uri": b}) == {}
    with listening(peer) as told:
        for size in (2, 3, 4):
            run(replacing(".", "abcz", size))
            look(peer)
            updates(told, a, z)
        subscribe(peer, b)
        run(replacing(".", "bz", 5))
        look(peer)
        updates(told, b, z)


def test_many_in_one_directory(peer, session, run):
    """Also where a directory has more entries than are looked at at a time, and whatever the names are."""
    names = ["\x01", "0", "00", "0500", "0700x", "1", "absent", "zz", "\x7f", "ü", "a" * 255]
    run("import os\nos.mkdir('d')\nfor i in range(800): open(f'd/{i:04}', 'w').close()")
    run(replacing("d", [n for n in names if n != "absent"], 1))
    uris = {n: uri_of(session, "d/" + "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in n.encode())) for n in names}
    subscribe(peer, *uris.values())
    with listening(peer) as told:
        for size, some in enumerate((names[::2], names[1::2], names[-1:]), 2):
            run(replacing("d", some, size))
            look(peer)
            updates(told, *(uris[n] for n in some))
        run("import shutil; shutil.rmtree('d')")
        look(peer)
        updates(told, *uris.values())


def test_the_list_changes(peer, run):
    with listening(peer) as told:
        run("open('not told of', 'w').close()")
        peer.good("write_file", path="a", content="1")
        assert next(told) == (LIST_CHANGED, None)
        assert titles(peer) == ["a", "not told of"]
        uri = peer.good("write_file", path="a", content="22")["uri"]  # the same names
        subscribe(peer, uri)
        peer.good("write_file", path="a", content="333")
        assert next(told) == (UPDATED, uri)
        peer.good("run_python", code="import os; os.unlink('not told of')")
        assert next(told) == (LIST_CHANGED, None)
        assert titles(peer) == ["a"]


def test_a_session_that_ends(server, peer):
    """That is told once for each of its files, and then never again."""
    other, stays = server.session(), server.session()
    server.put(f"/v1/sessions/{other}/files/a", b"x").expect(201)
    gone = [uri_of(other, "a"), uri_of(other, "never")]
    mark = uri_of(stays, "mark")
    subscribe(peer, mark, *gone)
    with listening(peer) as told:
        server.delete(f"/v1/sessions/{other}").expect(204)
        look(peer)
        updates(told, *gone)
        for i in range(2):
            server.put(f"/v1/sessions/{stays}/files/mark", b"x" * (i + 1)).expect(201)
            look(peer)
            updates(told, mark)
    assert refused(peer, "resources/subscribe", uri=gone[0]).code == RESOURCE
    server.delete(f"/v1/sessions/{stays}").expect(204)


def test_how_many(peer, session):
    uris = [uri_of(session, f"f{i}") for i in range(SUBSCRIPTIONS_MAX)]
    subscribe(peer, *uris)
    subscribe(peer, *uris)
    one_more = uri_of(session, "one-more")
    wrong = refused(peer, "resources/subscribe", uri=one_more)
    assert wrong.code == PARAMS and str(SUBSCRIPTIONS_MAX) in wrong.message
    assert peer.call("resources/unsubscribe", {"uri": uris[7]}) == {}
    subscribe(peer, one_more)
    assert refused(peer, "resources/subscribe", uri=uris[7]).code == PARAMS
    assert peer.call("resources/unsubscribe", {"uri": uris[7]}) == {}, "what is not there need not be given up"


def test_subscriptions_that_are_refused(server, peer, session):
    run = server.run("print(1)", session=session)["id"]
    assert refused(peer, "resources/subscribe", uri=f"glovebox://runs/{run}/stdout").code == PARAMS
    for uri in ("", "x", uri_of(session, "a/../b"), uri_of(session, "%61"), uri_of(NOBODY, "a")):
        wrong = refused(peer, "resources/subscribe", uri=uri)
        assert wrong.code == RESOURCE and wrong.data == {"uri": uri}
    for method in ("resources/subscribe", "resources/unsubscribe"):
        assert refused(peer, method).code == PARAMS and refused(peer, method, uri=5).code == PARAMS
        assert refused(Peer(server, era="stateless"), method, uri=uri_of(session, "a")).code == METHOD
