# SPDX-License-Identifier: Apache-2.0
"""181. Secrets are short, common, full of pattern characters, newlines and NUL, parts of each other, or stand in what is no text => short ones are refused, each is found as the
bytes that it is, and what is binary comes back byte for byte.
"""
import base64
import os
import struct
import zlib

import pytest
from hostile_secrets import new_secret, new_session, run, server


def given(server, **secrets):
    return server.post("/v1/runs", {"code": "1", "secrets": secrets})


@pytest.mark.parametrize("value", ["", "a", "root", "1234567", "é" * 3], ids=["empty", "a letter", "root", "seven bytes", "six bytes"])
def test_too_short(server, own_box, value):
    """It would be found everywhere; the message says what to do, and not what it is."""
    answer = given(server, KEY=value)
    assert answer.status == 400 and "8 bytes" in answer.error["message"], answer.explain()
    result = own_box.run("print(1)", secret="KEY", environ={"KEY": value})
    assert result.returncode == 110 and (len(value) < 4 or value not in result.error["message"]), result.explain()


@pytest.mark.parametrize("value", ["a" * 16384 + "b", "x" * 20000], ids=["a byte more", "more"])
def test_too_long(server, value):
    assert given(server, KEY=value).expect(400).error["code"] in ("limit", "usage")
    assert given(server, **{f"K{i}": f"{i:04}" + "x" * 16000 for i in range(9)}).expect(400).error["code"] in ("limit", "usage")
    assert given(server, **{f"K{i}": f"{i:08}" for i in range(257)}).expect(400).error["code"] in ("limit", "usage")


ODD = {
    "patterns": r".*[a-z]+(x|y){2}\d$^",
    "backslashes": "\\\\\\\\n\\x41",
    "format": "%s%n{0}{}{key}",
    "shell": "$(reboot)`id`;'\"",
    "newlines": "-----BEGIN OF IT-----\nline 2\r\nline 3\n",
    "control": "\x01\x1b[31mred\x07\x7f end",
    "our own mark": "[scrubbed:KEY]",
    "markup": "<b>&amp;</b>\"'>",
    "all the same": "aaaaaaaaaaaa",
    "no ASCII": "пароль密码🔑",
    "bidi": "\u202eabcdefgh\u2066\u200b",
    "separators": "\u2028\u2029\x85\xa0\ufeff bom",
    "blanks": "        ",
}


@pytest.mark.parametrize("name", ODD)
def test_as_it_is(server, name):
    """Between letters, and as JSON; what is around it stays."""
    value = ODD[name]
    result = run(server, "import json, os\nk = os.environ['KEY']\nprint('<' + k + '|' + json.dumps(k) + '>', end='')", value)
    assert result["stdout"] == '<[scrubbed:KEY]|"[scrubbed:KEY]">', result["stdout"]


def test_lines(server):
    """Of several lines: the whole is found, as it is and with CRLF; a single line is not, which is documented."""
    value = "first line of it\nsecond line of it\nthird line of it"
    code = "import os\nk = os.environ['KEY']\nprint(k + '|' + k.replace('\\n', '\\r\\n') + '|' + k.splitlines()[1], end='')"
    assert run(server, code, value)["stdout"] == "[scrubbed:KEY]|[scrubbed:KEY]|second line of it"


def test_a_file_of_bytes(own_box):
    """NUL cannot be in a variable; as a file it is whole."""
    path = own_box.directory() / "key"
    path.write_bytes(bytes(range(256)))
    assert own_box.run("print(1)", secret=f"KEY={path}").returncode == 110
    result = own_box.run("import sys\nd = open('/run/secrets/KEY', 'rb').read()\nsys.stdout.buffer.write(b'<' + d + b'|' + d.hex().encode() + b'>')\nprint(len(d))", secret_file=f"KEY={path}")
    assert result.stdout == "<[scrubbed:KEY]|[scrubbed:KEY]>256\n", result.explain()


def test_overlapping(server):
    """One in another, one at the end of another, one twice: nothing of any of them stays, however they lie."""
    short, long, tail = "correct-horse", "correct-horse-battery-staple", "staple-of-the-day"
    secrets = {"SHORT": short, "LONG": long, "TAIL": tail, "TWIN": short}
    code = "import os\ns, l, t = (os.environ[n] for n in ('SHORT', 'LONG', 'TAIL'))\nprint(s, l, t, l + t[6:], s + s, l[:-1], sep='\\n')"
    lines = server.post("/v1/runs", {"code": code, "secrets": secrets}).result["stdout"].splitlines()
    assert lines[0] in ("[scrubbed:SHORT]", "[scrubbed:TWIN]") and lines[1:3] == ["[scrubbed:LONG]", "[scrubbed:TAIL]"], lines
    for line in lines[3:]:
        assert not any(s in line for s in (short, long, tail, "horse", "staple")), lines
    assert lines[5].endswith("]-battery-stapl")


def png(width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[i * width:(i + 1) * width] for i in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def test_pictures(server):
    """A picture that has the secret in it, as bytes and as base64, is a picture when it comes back. (OpenHands once broke them.)"""
    secret = new_secret()
    raw = secret.encode()
    picture = png(32, 32, (raw + base64.b64encode(raw) + os.urandom(32)) * 20)
    session = new_session(server, secret)
    server.put(f"/v1/sessions/{session}/files/p.png", picture).expect(201)
    code = "data = open('p.png', 'rb').read()\nclass P:\n    def _repr_mimebundle_(self, **_): return {'image/png': data, 'text/plain': 'a picture'}\nP()"
    result = run(server, code, session=session)
    assert base64.b64decode(result["results"][0]["data"]["image/png"]["base64"]) == picture, result
    assert server.get(f"/v1/sessions/{session}/files/p.png").expect(200).body == picture
    server.delete(f"/v1/sessions/{session}").expect(204)


def test_bytes_without_secrets(server):
    """What has none comes through byte for byte: all bytes, beginnings of tokens, marks, half characters."""
    data = bytes(range(256)) * 50 + b"ghp_ ghp_short eyJ eyJ. -----BEGIN AKIA sk- [scrubbed: \xc3" + os.urandom(5000)
    result = run(server, "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", new_secret(), stdin={"base64": base64.b64encode(data).decode()})
    assert base64.b64decode(result["stdout_base64"]) == data and result["scrubbed"]["total"] == 0
