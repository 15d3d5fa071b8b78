# SPDX-License-Identifier: Apache-2.0
"""180. Code encodes a secret before it prints it: base64 in every alignment, hexadecimal, percent, JSON, quoted for shells and languages => replaced. What nobody can
recognize (reversed, compressed, xored, encoded twice) comes through: that is documented (docs/guard.md), and asserted here, so that it stays true.
"""
import base64
import codecs
import html
import json
import shlex
import urllib.parse
import zlib

import pytest
from hostile_secrets import MARK, new_secret, new_session, run, server

ENCODINGS = {
    "plain": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64, one byte on": lambda s: base64.b64encode(b"?" + s.encode() + b"?").decode(),
    "base64, two bytes on": lambda s: base64.b64encode(b"??" + s.encode() + b"??").decode(),
    "base64 without padding": lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
    "base64url": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64url, two bytes on": lambda s: base64.urlsafe_b64encode(b"~~" + s.encode()).decode(),
    "basic authentication": lambda s: "Basic " + base64.b64encode(b"somebody:" + s.encode()).decode(),
    "hexadecimal": lambda s: s.encode().hex(),
    "HEXADECIMAL": lambda s: s.encode().hex().upper(),
    "hexadecimal with colons": lambda s: s.encode().hex(":"),
    "hexadecimal with blanks": lambda s: s.encode().hex(" "),
    "quote": urllib.parse.quote,
    "quote_plus": urllib.parse.quote_plus,
    "urlencode": lambda s: urllib.parse.urlencode({"key": s, "b": 1}),
    "encodeURIComponent": lambda s: urllib.parse.quote(s, safe="!~*'()"),
    "percent, lower": lambda s: "".join(f"%{b:02x}" for b in s.encode()),
    "PERCENT": lambda s: "".join(f"%{b:02X}" for b in s.encode()),
    "JSON": json.dumps,
    "JSON, not ASCII": lambda s: json.dumps({"a": [s]}, ensure_ascii=False),
    "JSON with slashes": lambda s: json.dumps(s).replace("/", "\\/"),
    "\\u": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "repr": repr,
    "ascii": ascii,
    "repr of bytes": lambda s: repr(s.encode()),
    "\\x": lambda s: "".join(f"\\x{b:02x}" for b in s.encode()),
    "shell": shlex.quote,
    "HTML": html.escape,
}

HIDDEN = {
    "reversed": lambda s: s[::-1],
    "rot13": lambda s: codecs.encode(s, "rot13"),
    "other case": str.swapcase,
    "compressed": lambda s: zlib.compress(s.encode()).hex(),
    "xored": lambda s: bytes(b ^ 1 for b in s.encode()).hex(),
    "twice": lambda s: base64.b64encode(s.encode().hex().encode()).decode(),
    "octal": lambda s: "".join(f"\\{b:03o}" for b in s.encode()),
    "numbers": lambda s: str(list(s.encode())),
}


@pytest.fixture(scope="module")
def mine(server):
    secret = new_secret()
    session = new_session(server, secret)
    yield secret, session
    server.delete(f"/v1/sessions/{session}").expect(204)


def echo(server, session, text):
    """Standard input comes back: what the code would have made of it was made here."""
    return run(server, "import sys\nprint('<' + sys.stdin.read() + '>', end='')", session=session, stdin=text)["stdout"]


@pytest.mark.parametrize("name", ENCODINGS)
def test_found(server, mine, name):
    """Alone, and between other letters. What stays is what stood around it, and a character at each end of base64, which has a few bits."""
    secret, session = mine
    text = ENCODINGS[name](secret)
    for around in ("", "zz", "0a"):
        whole = around + text + around
        before, mark, after = echo(server, session, whole)[1:-1].partition(MARK)
        assert mark and whole.startswith(before) and whole.endswith(after), (name, text, before, after)
        assert len(before + after) <= 2 * len(around) + (22 if "authentication" in name else 11), (name, before, after)


@pytest.mark.parametrize("name", HIDDEN)
def test_not_found(server, mine, name):
    secret, session = mine
    text = HIDDEN[name](secret)
    assert echo(server, session, text) == f"<{text}>"


def test_made_inside(server, mine):
    """The same by the code itself, with what the box has: one of each kind."""
    code = "import base64, json, os, urllib.parse\nk = os.environ['KEY']\nprint(base64.b64encode(b'a' + k.encode()).decode(), k.encode().hex(), urllib.parse.quote(k), json.dumps(k), repr(k), sep='\\n')"
    result = run(server, code, session=mine[1])
    assert [MARK in line for line in result["stdout"].splitlines()] == 5 * [True] and result["scrubbed"]["total"] == 5, result["stdout"]
