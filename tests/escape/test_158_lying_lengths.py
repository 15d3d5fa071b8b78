# SPDX-License-Identifier: Apache-2.0
"""158. The lengths of frames and parts lie: negative, 4 GiB, more digits than there are numbers, no end of the line, a frame that is
never whole => the interpreter is ended or times out, the host's memory is bounded, and it goes on.
"""
import pytest
from hostile_sessions import FRAMES, cancel_after, good, memory_of, own_warden_process, witness
from session_fixtures import own_warden, sessions, warm_sessions

LINES = {
    "negative size": b"D 1 -1\n", "sign": b"D 1 +5\n", "4 GiB": b"P 1 4294967296\n", "largest": b"P 1 9999999999\n", "64 bits": b"P 1 18446744073709551616\n",
    "minus in disguise": b"P 1 18446744073709551615\n", "one too many": b"P 1 16777217\n", "hexadecimal": b"P 1 0x10\n", "zeros": b"P 1 0000000001\n", "leading zero": b"P 1 01\n",
    "fraction": b"P 1 1.5\n", "exponent": b"P 1 1e3\n", "no size": b"P 1\n", "no number": b"P  5\n", "empty line": b"\n", "two spaces": b"P 1  5\n", "space at the end": b"P 1 0 \n",
    "tab": b"P\t1\t0\n", "carriage return": b"P 1 0\r\n", "NUL": b"P 1 0\0\n", "small letter": b"p 1 0\n", "another letter": b"Z 1 0\n", "not ASCII": "\u00d0 1 0\n".encode(),
    "other digits": "P 1 \u0661\n".encode(), "negative run": b"D -1 0\n", "run of 11 digits": b"D 10000000000 0\n", "no end of the line": b"P 1 " + b"1" * 100, "long kind": b"PP 1 0\n",
}
PARTS = {
    "more than there is": "b'text/plain 100\\nx'", "less than there is": "b'text/plain 1\\nxyz'", "negative": "b'text/plain -1\\n'", "4 GiB": "b'text/plain 4294967297\\nx'",
    "64 bits": "b'text/plain 18446744073709551615\\nx'", "no size": "b'text/plain\\nx'", "no line": "b'x' * 1000", "only a space": "b' 1\\nx'", "no number": "b'text/plain \\nx'",
    "a second one that is cut": "part(b'text/plain', b'x') + b'text/html 5'", "name of 128": "part(b'x' * 128, b'')",
}
WAIT = "\nimport time\ntime.sleep(9)"


def assert_ended(context, code):
    result = context.run(FRAMES + "mark = 1\n" + code + WAIT)
    assert (result.verdict, result.kept, result.results) == ("error", False, []) and "control" in result.message, result
    assert good(context, "'mark' in globals()").text == "False"


@pytest.mark.parametrize("what", LINES)
def test_lines(warm_sessions, what):
    assert_ended(warm_sessions.context(), f"send({LINES[what]!r})")


@pytest.mark.parametrize("what", PARTS)
def test_parts(warm_sessions, what):
    assert_ended(warm_sessions.context(), f"send(frame(b'P', n, {PARTS[what]}))")


def test_some_of_them_in_both(sessions, witness):
    context = sessions.context()
    for code in (f"send({LINES['negative size']!r})", f"send({LINES['4 GiB']!r})", f"send(frame(b'R', n, {PARTS['64 bits']}))", f"send(frame(b'X', n, {PARTS['negative']}))",
                 f"send(frame(b'D', n, {PARTS['more than there is']}))"):
        assert_ended(context, code)


def test_digits_without_end(sessions, witness):
    """Ten megabytes of them: the line is refused after its first bytes."""
    before = memory_of("self")
    context = sessions.context()
    assert_ended(context, "send(b'P 1 ' + b'1' * 10000000)")
    assert memory_of("self") - before < 8 << 20


def test_largest_frames(sessions, witness):
    """What is allowed: 16 MiB in one frame. It is held once, and given back after the run."""
    warden = own_warden_process()
    context = sessions.context({"result_limit": "1m", "mem_limit": "256m"})
    good(context, "1")
    before = memory_of("self"), memory_of(warden)
    for _ in range(2):
        result = good(context, FRAMES + "send(frame(b'P', n, part(b'text/plain', b'x' * (16777216 - 20))))\n1")
        assert (result.text, result.dropped, len(result.results)) == ("1", 1, 1), result
    assert memory_of("self") - before[0] < 24 << 20 and memory_of(warden) - before[1] < 4 << 20
    assert_ended(context, "send(frame(b'P', n, part(b'text/plain', b'x' * (16777216 - 19))) + b'x' * 100)")


def test_frame_that_is_never_whole(sessions, witness):
    """A byte now and then: what came is no result, and the end that lies within it is none. It is our doing that ends the run."""
    context = sessions.context()
    with cancel_after(0.15) as cancel:
        result = context.run(FRAMES + "import time\nsend(b'P %d 1000\\ntext/plain 900\\n' % n)\nfor i in range(9): send(b'x'); time.sleep(0.01)", cancel_fd=cancel)
    assert (result.verdict, result.results, result.kept) == ("cancelled", [], False), result
    fresh = good(context, "'n' in globals()")
    assert (fresh.text, fresh.restarted) == ("False", True)


# Bash keeps its channel aside while code runs; a descriptor that is a socket can only be that.
BASH = "for f in /proc/$$/fd/*; do case $(readlink $f) in socket*) fd=${f##*/}; printf 'P 1 4294967296\\n' >&$fd;; esac; done; sleep 9"
NODE = "require('fs').writeSync(20, 'D 1 -1\\n'); while (true);"


@pytest.mark.parametrize("language, code, sign", [("bash", BASH, "echo 7"), ("node", NODE, "console.log(7)")], ids=["bash", "node"])
def test_others(sessions, language, code, sign):
    context = sessions.context({"mem_limit": "1g"}, language=language)
    result = context.run(code)
    assert (result.verdict, result.kept) == ("error", False) and "control" in result.message, result
    assert good(context, sign).out == "7\n"
