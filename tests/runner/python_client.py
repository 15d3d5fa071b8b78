# SPDX-License-Identifier: Apache-2.0
"""The host's side of a Python runner's channel (docs/design/control-channel.md), for the tests: without a box.

$GLOVEBOX_TEST_PYTHON names another interpreter than Debian's.
"""
import os
import pathlib
import select
import signal
import socket
import subprocess
import textwrap
import time

import pytest

RUNNER = pathlib.Path(__file__).resolve().parent.parent.parent / "src/runner/python/glovebox_runner.py"
PYTHON = os.environ.get("GLOVEBOX_TEST_PYTHON", "/usr/bin/python3")
VERSION = tuple(map(int, subprocess.run([PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], stdout=subprocess.PIPE,
                                        check=True).stdout.split()))
CHANNEL = 20
PATIENCE = 30
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="session", autouse=True)
def binary():
    """Instead of the one in conftest.py: no program of ours is needed."""


def has_module(name):
    return subprocess.run([PYTHON, "-c", f"import {name}"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def needs(name):
    return pytest.mark.skipif(not has_module(name), reason=f"{name} is not installed for {PYTHON}")


def pack(parts):
    return b"".join(b"%b %d\n%b" % (name.encode(), len(value), value) for name, value in parts)


def unpack(payload):
    parts = []
    while payload:
        head, _, payload = payload.partition(b"\n")
        name, size = head.split(b" ")
        assert len(payload) >= int(size), "a part is cut off"
        parts.append((name.decode(), payload[:int(size)]))
        payload = payload[int(size):]
    return parts


def clean_environ():
    """Nothing that would change the interpreter."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


class Ended(Exception):
    """The runner has closed the channel."""


class Run:
    def __init__(self):
        self.frames, self.status, self.exit, self.out, self.err = [], None, None, "", ""

    def of(self, kind):
        return [dict(parts) for k, parts in self.frames if k == kind]

    @property
    def value(self):
        """The text of the value; None when there was none."""
        found = self.of("R")
        assert len(found) <= 1
        return found[0]["text/plain"].decode() if found else None

    @property
    def error(self):
        (parts,) = self.of("X")
        assert list(parts) == ["name", "value", "traceback"]
        return {name: value.decode() for name, value in parts.items()}

    def __repr__(self):
        return f"{self.status} {self.frames} out={self.out!r} err={self.err!r}"


class Runner:
    """One runner and the host's side of its channel. Standard output and error are pipes."""

    def __init__(self, *config, mode=b"context", count=b"64", limit=b"4000000", environ=None, cwd=None, argv=None, pipelined=b""):
        self.here, there = socket.socketpair()
        os.dup2(there.fileno(), CHANNEL, inheritable=True)
        there.close()
        environ = dict(clean_environ(), **(environ or {}))
        self.process = subprocess.Popen(argv or [PYTHON, str(RUNNER), str(CHANNEL)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, pass_fds=(CHANNEL,), start_new_session=True, env=environ, cwd=cwd)
        os.close(CHANNEL)
        self.seq, self.buffer, self.descriptor = 0, b"", None
        self.send("C", 0, pack([("mode", mode), ("result_count", count), ("result_limit", limit), *config]), pipelined)
        kind, seq, payload = self.frame()
        assert (kind, seq) == ("Y", 0)
        self.version = dict(unpack(payload))["version"].decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.here.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def send(self, kind, seq, payload, more=b"", descriptors=()):
        data = b"%b %d %d\n" % (kind.encode(), seq, len(payload)) + payload + more
        sent = socket.send_fds(self.here, [data], list(descriptors))
        if sent < len(data):
            self.here.sendall(data[sent:])

    def receive(self, timeout):
        if not select.select([self.here], [], [], max(0, timeout))[0]:
            raise TimeoutError("no frame came")
        try:
            data = self.here.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Ended
        self.buffer += data

    def frame(self, timeout=PATIENCE):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            self.receive(end - time.monotonic())
        head, _, _ = self.buffer.partition(b"\n")
        kind, seq, size = head.decode("ascii").split(" ")
        stop = len(head) + 1 + int(size)
        while len(self.buffer) < stop:
            self.receive(end - time.monotonic())
        payload, self.buffer = self.buffer[len(head) + 1:stop], self.buffer[stop:]
        return kind, int(seq), payload

    def start(self, code, stdin=None):
        self.seq += 1
        code = textwrap.dedent(code).encode("utf-8", "surrogateescape") if isinstance(code, str) else code
        if stdin is None:
            self.send("E", self.seq, code)
            return
        read, write = os.pipe()
        os.write(write, stdin)
        os.close(write)
        self.send("E", self.seq, code, descriptors=[read])
        os.close(read)

    @staticmethod
    def drain(pipe):
        data = b""
        while select.select([pipe], [], [], 0)[0]:
            more = os.read(pipe.fileno(), 1 << 20)
            if not more:
                break
            data += more
        return data.decode("utf-8", "replace")

    def finish(self, timeout=PATIENCE):
        """Everything up to D. What was printed must be in the pipes by then."""
        run = Run()
        while run.status is None:
            kind, seq, payload = self.frame(timeout)
            assert seq == self.seq, (kind, seq, payload)
            parts = unpack(payload)
            if kind == "D":
                run.status, run.exit = dict(parts)["status"].decode(), dict(parts).get("exit")
            else:
                run.frames.append((kind, parts))
        run.out, run.err = self.drain(self.process.stdout), self.drain(self.process.stderr)
        return run

    def run(self, code, stdin=None):
        self.start(code, stdin)
        return self.finish()

    def good(self, code, stdin=None):
        """A run that must end well and print no error."""
        run = self.run(code, stdin)
        assert run.status == "ok" and run.err == "", run
        return run

    def wait_for(self, text):
        """Reads standard output until the text is there."""
        seen, end = "", time.monotonic() + PATIENCE
        while text not in seen:
            assert select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], f"only {seen!r} came"
            seen += os.read(self.process.stdout.fileno(), 65536).decode()

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupt_until_heard(self):
        """For code that cannot say that it has begun: an interrupt that comes before it has no effect."""
        end = time.monotonic() + PATIENCE
        while not select.select([self.here], [], [], 0.2)[0]:
            assert time.monotonic() < end, "nothing came"
            self.interrupt()

    def end(self):
        """Closes the channel; (exit status, standard output, standard error)."""
        self.here.close()
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def runner():
    with Runner() as made:
        yield made
