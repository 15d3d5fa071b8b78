# SPDX-License-Identifier: Apache-2.0
"""What the attacks of the groups I and J on sessions have in common: hands for hostile code, and a witness.

`witness` is another session of the same warden. It was there before the attack and has to be whole after it, and a
session that is opened after the attack has to work as any other.
"""
import contextlib
import os
import threading

import pytest
from session_fixtures import sessions, warm_sessions
from sessions import wardens

# In front of hostile code: it speaks the language of its control channel (docs/design/control-channel.md).
FRAMES = """
import os as _os, sys as _sys
n = int(_sys._getframe().f_code.co_filename.split()[1].rstrip('>'))  # of this run
def part(name, value): return b'%s %d\\n%s' % (name, len(value), value)
def frame(kind, seq, payload=b''): return b'%s %d %d\\n%s' % (kind, seq, len(payload), payload)
def send(data):
    while data: data = data[_os.write(20, data):]
ok = part(b'status', b'ok')
"""


def good(context, code, **options):
    result = context.run(code, **options)
    assert (result.verdict, result.kept) == ("ok", True), result
    return result


def assert_works(context):
    assert good(context, "sum(range(10))").text == "45"


def _witness(opener):
    context = opener.context()
    good(context, "mine = 41")
    yield context
    result = good(context, "mine += 1\nprint('whole')\nmine")
    assert (result.text, result.out, result.restarted, result.error) == ("42", "whole\n", False, None), result
    with opener() as fresh:
        assert good(fresh.context(), "'mine' in globals()").text == "False"
    opener.opened.remove(fresh)


@pytest.fixture
def witness(sessions):
    yield from _witness(sessions)


@pytest.fixture
def warm_witness(warm_sessions):
    yield from _witness(warm_sessions)


def memory_of(pid):
    """Bytes that a process holds for itself: of its heap and stacks, not of files."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")) << 10


def own_warden_process():
    found = wardens()
    if not found:
        pytest.skip("a warm daemon of this host serves the sessions")
    assert len(found) == 1, found
    return found[0]


@contextlib.contextmanager
def cancel_after(seconds):
    """A descriptor that cancels a run, twice: the code is not asked, its interpreter is ended."""
    fd = os.eventfd(0)
    timer = threading.Timer(seconds, os.write, (fd, (2).to_bytes(8, "little")))
    timer.start()
    try:
        yield fd
    finally:
        timer.cancel()
        timer.join()
        os.close(fd)
