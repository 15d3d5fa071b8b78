# SPDX-License-Identifier: Apache-2.0
"""179. Code writes a secret in pieces: byte by byte, over the borders of reads, in turns with the other stream, with pauses between => it is found all the same, and of what
has been shown before it was known at most three bytes are its. With other bytes between (colours of a terminal), or in halves on two streams, it is not: that is documented
(docs/guard.md), and asserted here, so that it stays true.
"""
import pytest
from hostile_secrets import MARK, new_secret, new_session, run, server

WRITE = "import os\nkey = os.environb[b'KEY']\ndef out(data, fd=1):\n    while data: data = data[os.write(fd, data):]\n"


@pytest.fixture(scope="module")
def mine(server):
    secret = new_secret()
    session = new_session(server, secret)
    yield secret, session
    server.delete(f"/v1/sessions/{session}").expect(204)


def both(server, mine, code):
    """In a box of its own, and in a context. Where a busy host lets the code wait in the middle of a secret, three bytes of
    it are shown (test_pauses): then the two differ, and it is tried again."""
    secret, session = mine
    for _ in range(3):
        alone, context = run(server, WRITE + code, secret), run(server, WRITE + code, session=session)
        if (alone["stdout"], alone["stderr"]) == (context["stdout"], context["stderr"]):
            return alone
    raise AssertionError(f"{alone} is not {context}")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9])
def test_pieces(server, mine, size):
    result = both(server, mine, f"text = b'before ' + key + b' between ' + key + key[:-1] + b' end'\nfor i in range(0, len(text), {size}): out(text[i:i + {size}])")
    assert result["stdout"] == f"before {MARK} between {MARK}{mine[0].encode()[:-1].decode(errors='replace')} end", result


def test_streams_in_turns(server, mine):
    """Each stream by itself: what the other gets meanwhile does not matter."""
    result = both(server, mine, "for i in range(len(key)): out(key[i:i + 1]); out(b'.', 2)\nfor i in range(len(key)): out(key[i:i + 1], 2); out(b'.')")
    n = len(mine[0].encode())
    assert (result["stdout"], result["stderr"]) == (MARK + "." * n, "." * n + MARK)


def test_borders(server, mine):
    """A read takes 64 KiB, a pipe holds as much; the secret lies across the border in every way."""
    n = len(mine[0].encode())
    result = both(server, mine, f"for i in range({n} + 2): out(b'x' * (65536 - i) + key + b'\\n')")
    lines = result["stdout"].splitlines()
    assert [len(line) for line in lines] == [65536 - i + len(MARK) for i in range(n + 2)] and all(line.endswith("x" + MARK) for line in lines)
    assert result["scrubbed"] == {"total": n + 2, "names": {"KEY": n + 2}}


def test_the_limit_of_output(server, mine):
    """Cut in the midst of it: that is not the end of the text, and what may be a part of a secret is not shown."""
    secret, session = mine
    for cut in (5, 12, len(secret.encode()) - 1):
        result = run(server, WRITE + f"out(b'x' * (1024 - {cut}) + key * 3)", secret, policy={"output_limit": "1k"})
        assert result["truncated"] and result["verdict"]["kind"] == "output", result["verdict"]
        assert secret[:4] not in result["stdout"], (cut, result["stdout"][-60:])


def test_pauses(server, mine):
    """Somebody may wait at a prompt: what is held back is shown, three bytes of it at most."""
    secret, session = mine
    code = WRITE + "import time\nout(b'<' + key[:12])\ntime.sleep(0.2)\nout(key[12:] + b'>')"
    for result in (run(server, code, secret), run(server, code, session=session)):
        text = result["stdout"]
        assert text.startswith("<") and text.endswith(f"{MARK}>") and len(text) <= len(f"<{MARK}>") + 3, text


def test_end_of_run(server, mine):
    """The end of a stream decides: a beginning is no secret. It goes on in the next run of the session, which is another stream."""
    secret, session = mine
    raw = secret.encode()
    assert run(server, WRITE + "out(key[:9])", session=session)["stdout"] == raw[:9].decode()
    assert run(server, WRITE + "out(key[9:])", session=session)["stdout"] == raw[9:].decode()


@pytest.mark.parametrize("code, what", [
    ("out(b''.join(b'\\x1b[0m' + key[i:i + 1] for i in range(len(key))))", lambda raw: b"".join(b"\x1b[0m" + raw[i:i + 1] for i in range(len(raw)))),
    ("out(b' '.join(key[i:i + 1] for i in range(len(key))))", lambda raw: b" ".join(raw[i:i + 1] for i in range(len(raw)))),
    ("out(key[:8] + b'\\n' + key[8:])", lambda raw: raw[:8] + b"\n" + raw[8:])], ids=["colours", "blanks", "lines"])
def test_not_found(server, mine, code, what):
    result = both(server, mine, code)
    assert result["stdout"].encode() == what(mine[0].encode()).decode(errors="replace").encode() and result["scrubbed"]["total"] == 0


def test_halves_on_two_streams(server, mine):
    result, raw = both(server, mine, "out(key[:10]); out(key[10:], 2)"), mine[0].encode()
    assert (result["stdout"], result["stderr"]) == (raw[:10].decode(), raw[10:].decode())
