# SPDX-License-Identifier: Apache-2.0
"""153, in sessions. The code closes, replaces and reconfigures its standard streams and its control channel, fills a pipe and exits
=> nothing happens to the host, the last bytes are kept, the next run works in the same interpreter or in a fresh one.
"""
import os

import pytest
from hostile_sessions import FRAMES, assert_works, good, witness
from session_fixtures import cold_sessions, own_warden, sessions, warm_sessions

# The interpreter goes on, and the next run prints as any other.
MENDED = {
    "objects closed": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): s.close()",
    "objects replaced": "import sys, io\nsys.stdout, sys.stderr, sys.stdin = 7, None, 7",
    "objects deleted": "import sys\ndel sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, sys.__stdin__",
    "detached": "import sys\nsys.stdout.detach(); sys.stderr.detach(); sys.stdin.detach()",
    "writes raise": "import sys\nclass A:\n    def write(self, t): raise MemoryError\n    flush = write\nsys.stdout = sys.stderr = A()",
}


@pytest.mark.parametrize("what", MENDED)
def test_streams_of_python(sessions, what):
    context = sessions.context()
    context.run(MENDED[what])
    result = context.run("print('whole')\n7")
    assert (result.verdict, result.kept, result.out, result.text) == ("ok", True, "whole\n", "7"), result


# The descriptors themselves: code that takes its own pipes away prints nothing any more, which is its own affair.
DESCRIPTORS = {
    "0 to 2 closed": "for fd in range(3): os.close(fd)",
    "0 to 2 are the channel": "for fd in range(3): os.dup2(20, fd)",
    "all of them /dev/null": "null = os.open('/dev/null', os.O_RDWR)\nfor fd in range(3): os.dup2(null, fd)",
    "1 reads, 0 writes": "os.dup2(0, 9); os.dup2(1, 0); os.dup2(9, 1)",
    "not blocking": "for fd in (0, 1, 2, 20): fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)",
    "asynchronous, and ours": "for fd in (1, 2, 20): fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid()); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)",
    "tiny pipes": "for fd in (1, 2): fcntl.fcntl(fd, 1031, 4096)",
    "huge pipes": "for fd in (1, 2):\n    try: fcntl.fcntl(fd, 1031, 1 << 30)\n    except OSError: pass",
    "channel closed": "os.close(20)",
    "channel closed for writing": "import socket\nsocket.socket(fileno=os.dup(20)).shutdown(socket.SHUT_WR)",
    "channel closed for reading": "import socket\nsocket.socket(fileno=os.dup(20)).shutdown(socket.SHUT_RD)",
    "channel is /dev/null": "os.dup2(os.open('/dev/null', os.O_RDWR), 20)",
    "channel is a pipe of its own": "os.dup2(os.pipe()[1], 20)",
    "channel is an endless file": "os.dup2(os.open('/dev/zero', os.O_RDWR), 20)",
    "channel with a tiny buffer": "import socket\ns = socket.socket(fileno=os.dup(20)); s.setsockopt(1, socket.SO_SNDBUF, 1); s.setsockopt(1, socket.SO_RCVBUF, 1); s.settimeout(0.001)",
    "everything closed": "os.closerange(0, 1000)",
}


@pytest.mark.parametrize("what", DESCRIPTORS)
def test_descriptors(warm_sessions, what):
    assert_goes_on(warm_sessions({"timeout": "5s"}), what)


@pytest.mark.parametrize("what", ["0 to 2 closed", "channel closed", "channel is an endless file", "everything closed"])
def test_descriptors_of_a_fresh_one(cold_sessions, what):
    assert_goes_on(cold_sessions({"timeout": "5s"}), what)


def assert_goes_on(session, what):
    """Whatever the run says of itself, its interpreter or a fresh one takes the next code, and runs it."""
    context = session.context()
    good(context, "import os, fcntl")
    first = context.run(DESCRIPTORS[what])
    assert first.verdict in ("ok", "error"), first
    results = [context.run(f"open('mark{i}', 'w').close()\n{i}") for i in range(3)]
    for i, result in enumerate(results):
        # An interpreter without a channel ends by itself, or is ended, under the next run. Then that has no value, and its
        # state is not kept.
        done = f"mark{i}".encode() in session.list()
        assert (result.verdict == "ok" and result.kept) == (done and result.text == str(i)), result
        assert result.verdict == "error" or (result.verdict == "ok" and (result.kept or result.exit_code == 0)), result
    assert [r.kept for r in results].count(False) <= 1, results
    assert_works(session.context())


def test_flags_of_a_pipe_do_not_reach_the_host(sessions, witness):
    """O_NONBLOCK is of the open file, which both ends of a pipe have for themselves; the pipe's size is shared."""
    context = sessions.context()
    code = "import fcntl, os\nfor fd in (1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)\nfcntl.fcntl(1, 1031, 4096)"
    good(context, code)
    flood = """
sent = 0
while sent < 300000:
    try: sent += os.write(1, b'x' * (300000 - sent))
    except BlockingIOError: pass
os.write(2, b'token')
"""
    result = good(context, flood)
    assert (len(result.stdout), result.stderr) == (300000, b"token")


def test_last_bytes_are_kept(sessions, witness):
    context = sessions.context()
    result = context.run("import os\nos.write(1, b'x' * 65535 + b'!')\nos.write(2, b'y' * 65536)\nos._exit(3)")
    assert (len(result.stdout), result.stdout[-1:], len(result.stderr), result.exit_code) == (65536, b"!", 65536, 3), result
    result = context.run(FRAMES + "send(frame(b'R', n, part(b'text/plain', b'last')))\nos = _os\nos.write(1, b'x' * 65536)\nos._exit(0)")
    assert (result.verdict, result.text, len(result.stdout), result.kept) == ("ok", "last", 65536, False), result
    assert_works(context)


def test_standard_input_of_the_caller(sessions, witness):
    """The box has a pipe, never the caller's own descriptor: its offset and flags are his."""
    fd = os.memfd_create("mine")
    os.write(fd, b"abcdef")
    os.lseek(fd, 0, os.SEEK_SET)
    code = "import os, fcntl\nfcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)\nprint(os.fstat(0).st_mode & 0o170000 == 0o010000)\ntry: os.ftruncate(0, 0)\nexcept OSError as e: print('refused')"
    result = good(sessions.context(), code, stdin=fd)
    assert result.out == "True\nrefused\n"
    assert os.fstat(fd).st_size == 6 and os.get_blocking(fd)
    os.close(fd)


def test_descriptors_sent_to_the_host(sessions, witness):
    """By SCM_RIGHTS, with frames and without: none arrives in our process."""
    context = sessions.context()
    good(context, "1")
    before = sorted(os.listdir("/proc/self/fd"))
    code = """
import socket, array, os
s = socket.socket(fileno=os.dup(20))
own = [os.open('/proc/self/exe', os.O_RDONLY) for i in range(50)]
for i in range(20):
    s.sendmsg([b'Y 0 0\\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', own))])
"""
    result = context.run(code)
    assert result.verdict == "ok", result
    assert sorted(os.listdir("/proc/self/fd")) == before
