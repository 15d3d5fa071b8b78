# SPDX-License-Identifier: Apache-2.0
"""155. Results have hostile MIME types, thousands of parts, pictures that are none => names are plain ASCII, numbers and sizes are
bounded, bytes are handed on as they are, and nothing is decoded on the host.
"""
import base64
import pickle

import pytest
from hostile_sessions import FRAMES, assert_works, good, witness
from session_fixtures import own_warden, sessions
from sessions import wardens

NAMES = ["text/plain\nD 1 11", 'text/"html"', "text/html\0", "x" * 10240, "", " ", "text/\u00e9", "\ud800", "a b", "text/plain;\r\nX: y", "../../etc", "<script>"]


def test_names(sessions, witness):
    """By display(): what is no MIME type is left out, or has the characters of one."""
    context = sessions.context()
    bundle = {name: "x" for name in NAMES}
    result = good(context, f"display({{**{bundle!a}, 'text/plain': 'true'}}, raw=True)\nclass A:\n    def _repr_mimebundle_(self, **k): return {bundle!a}\n    def __repr__(self): return 'a'\nA()")
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+/;=-")
    assert [v["parts"]["text/plain"] for v in result.results] == [b"true", b"a"]
    for value in result.results:
        assert all(0 < len(name) <= 127 and set(name) <= allowed for name in value["parts"]), value


@pytest.mark.parametrize("name", [n for n in NAMES if n != "../../etc"], ids=lambda n: ascii(n)[:20])
def test_names_by_frames(sessions, name):
    """Whoever writes them into the channel himself has broken its rules."""
    context = sessions.context()
    result = context.run(FRAMES + f"send(frame(b'P', n, part({name.encode('utf-8', 'surrogatepass')!r}, b'x')))\nimport time\ntime.sleep(9)")
    assert (result.verdict, result.kept, result.results) == ("error", False, []) and "control" in result.message, result
    assert_works(context)


PICTURES = {
    "image/png": [b"", b"\x89PNG\r\n\x1a\n" + b"\xff" * 100, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\xff\xff\xff\xff\x08\x06\0\0\0", b"GIF89a", b"not a picture"],
    "image/jpeg": [b"\xff\xd8\xff", b"<svg/>"],
    "image/svg+xml": [b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg>&b;</svg>', b"<svg onload='x'>", b"\xff"],
    "application/json": [b"{not json", b"[" * 10000, b'{"a": 1e999999}', b"\xff"],
    "application/pdf": [b"%PDF-"], "text/html": [b"<script>alert(1)</script>"], "application/x-python-pickle": [pickle.dumps(OSError)],
    "application/yaml": [b"!!python/object/apply:os.system ['true']"],
}


def test_bytes_are_not_looked_at(sessions, witness):
    context = sessions.context()
    for mime, cases in PICTURES.items():
        for case in cases:
            # A frame of the code's own: the runner turns text that should be a picture into bytes.
            result = good(context, FRAMES + f"send(frame(b'R', n, part({mime.encode()!r}, {case!r})))")
            assert result.value == {mime: case}
            given = result.json["results"][0]["data"][mime]
            assert (base64.b64decode(given["base64"]) if isinstance(given, dict) else given.encode()) == case
    # Text that claims to be a picture and is no base64.
    assert good(context, "display({'image/png': 'not base64 \\xff', 'text/plain': 't'}, raw=True)").displayed[0]["text/plain"] == b"t"


def test_no_library_for_pictures_is_here(sessions):
    """The host's side has nothing that could decode what comes."""
    good(sessions.context(), "1")
    wanted = ("png", "jpeg", "jpg", "tiff", "webp", "rsvg", "xml", "pickle", "magic", "freetype")
    for warden in wardens():
        with open(f"/proc/{warden}/maps") as file:
            files = {line.split()[-1] for line in file if ".so" in line}
        assert not [f for f in files if any(word in f.rsplit("/", 1)[-1] for word in wanted)], files


def test_many_parts(sessions, witness):
    """A frame of ten thousand parts, honest ones and empty ones: a bounded number is kept."""
    context = sessions.context()
    result = good(context, FRAMES + "send(frame(b'P', n, b''.join(part(b'a/%d' % i, b'x') for i in range(10000))))\nsend(frame(b'P', n, part(b'a/a', b'') * 10000))\n1")
    assert result.text == "1" and all(0 < len(v["parts"]) <= 64 for v in result.results), [len(v["parts"]) for v in result.results]


def test_many_results(sessions, witness):
    context = sessions.context({"result_count": "8", "result_limit": "64k"})
    result = good(context, "for i in range(5000): display(i)\n7")
    assert len(result.results) == 8 and result.text is None
    result = good(context, FRAMES + "for i in range(5000): send(frame(b'P', n, part(b'text/plain', b'%d' % i)))")
    assert (len(result.results), result.dropped) == (8, 4992)
    assert any("4992 results were dropped" in note for note in result.json["notes"])
    result = good(context, FRAMES + "for i in range(100): send(frame(b'P', n, part(b'text/plain', b'x' * 60000)))")
    assert (len(result.results), result.dropped) == (1, 99)
    flood = context.run(FRAMES + "block = frame(b'P', n) * 1000\nwhile True: send(block)")
    assert (flood.verdict, flood.kept) == ("error", False) and "flood" in flood.message, flood
    assert_works(context)
