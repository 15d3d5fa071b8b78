# SPDX-License-Identifier: Apache-2.0
"""151. The program prints sequences that drive a terminal (clipboard, titles, reports, C1) => neutralised on a terminal, raw on a pipe.
"""
import os
import pty
import re
import signal
import subprocess
import termios
import time

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


FLOOD = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
while not stop:
    os.write(1, b'\\x1b[m' * 1000)
    time.sleep(0.001)  # without it the output limit is reached before the signal arrives
time.sleep(0.5)
os.write(2, b']52;c;SEFDS0VE\\n')
time.sleep(0.2)
"""


def test_two_streams_make_no_sequence(own_box):
    """A slow terminal, an interrupt, and the rest of a sequence on the other stream: it does not come together."""
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    process = own_box.start(FLOOD, json=False, stdout=slave, stderr=slave, timeout="5s")
    os.close(slave)
    shown, began = bytearray(), time.monotonic()
    interrupted = False
    while True:
        try:
            piece = os.read(master, 700)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if not interrupted:
            time.sleep(0.002)
        if not interrupted and time.monotonic() - began > 0.5:
            process.send_signal(signal.SIGINT)
            interrupted = True
    os.close(master)
    process.wait(timeout=10)
    assert b"SEFDS0VE" in shown
    assert not re.search(rb"\x1b(?!\[[0-9;]*m)", shown), shown[-300:]
