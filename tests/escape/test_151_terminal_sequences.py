# SPDX-License-Identifier: Apache-2.0
"""151. The program prints sequences that drive a terminal (clipboard, titles, reports, C1) => neutralised on a terminal, raw on a pipe.
"""
import os
import pty
import re
import subprocess

import pytest


HOSTILE = {
    "clipboard": b"\x1b]52;c;cGF5bG9hZA==\x07", "title": b"\x1b]0;owned\x07", "link": b"\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\",
    "report": b"\x1b[6n", "dcs": b"\x1bP$qm\x1b\\", "c1": b"\x9b6n", "c1_utf8": b"\xc2\x9b6n", "reset": b"\x1bc", "alternate": b"\x1b[?1049h",
    "backspace": b"safe\x08\x08\x08\x08evil", "carriage": b"good\revil", "bell": b"\x07", "direction": "\u202e".encode(),
}


def on_a_terminal(box, code, *flags):
    master, slave = pty.openpty()
    process = subprocess.Popen([str(box.binary), "run", "--allow-weaker", "cgroup", *flags, "-c", code], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=box.environ, **box.ids)
    os.close(slave)
    out = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:
            break
        if not block:
            break
        out += block
    os.close(master)
    assert process.wait(30) == 0, out
    return out


@pytest.mark.parametrize("name", HOSTILE)
def test_neutralised_on_a_terminal(box, name):
    code = f"import os; os.write(1, b'<' + {HOSTILE[name]!r} + b'>\\n')"
    out = on_a_terminal(box, code).replace(b"\r\n", b"\n")
    shown = out[out.index(b"<"):out.rindex(b">") + 1] if b">" in out else out
    assert shown.startswith(b"<"), out
    for bad in (b"\x1b]", b"\x1bP", b"\x1bc", b"\x1b[6n", b"\x1b[?", b"\x07", b"\x08", b"\r", b"\xc2\x9b", "\u202e".encode()):
        assert bad not in shown, shown
    assert not re.search(rb"(?<![\xc2-\xf4\x80-\xbf])[\x80-\x9f]", shown), shown


def test_colours_stay(box):
    out = on_a_terminal(box, "print('\\x1b[31mred\\x1b[0m')")
    assert b"\x1b[31mred\x1b[0m" in out


def test_raw_on_request(box):
    out = on_a_terminal(box, "import os; os.write(1, b'\\x1b]0;mine\\x07')", "--raw")
    assert b"\x1b]0;mine\x07" in out


def test_raw_on_a_pipe(box):
    everything = b"".join(HOSTILE.values())
    result = box.run(f"import os; os.write(1, {everything!r})", json=False)
    assert result.out == everything
