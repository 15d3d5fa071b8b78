# SPDX-License-Identifier: Apache-2.0
"""The host's side of docs/design/control-channel.md, for the tests of the runners."""

import os
import select
import signal
import socket
import subprocess
import tempfile
import time


class Ended(Exception):
    """The runner closed its end of the channel."""


class Run:
    def __init__(self):
        self.frames, self.status, self.exit, self.stdout, self.stderr = [], None, None, "", ""

    def of(self, kind):
        return [parts for k, parts in self.frames if k == kind]

    @property
    def error(self):
        """The parts of X, as text."""
        (parts,) = self.of("X")
        return {name: value.decode() for name, value in parts}

    @property
    def result(self):
        (parts,) = self.of("R")
        return {name: value.decode() for name, value in parts}

    def explain(self):
        return f"{self.status}: {self.frames}\n{self.stdout}\n{self.stderr}"


def pack(parts):
    return b"".join(name.encode() + b" %d\n" % len(value) + value for name, value in parts)


def unpack(payload):
    parts = []
    while payload:
        head, _, payload = payload.partition(b"\n")
        name, size = head.split(b" ")
        assert len(payload) >= int(size), "a part is cut off"
        parts.append((name.decode(), payload[: int(size)]))
        payload = payload[int(size):]
    return parts


class Context:
    """One runner, with pipes for its output as the real host has them."""

    def __init__(self, argv, env=(), cwd=None, environ=None, fill=False):
        self.here, there = socket.socketpair()
        self.pipes = [os.pipe(), os.pipe()]
        self.cwd = cwd or tempfile.mkdtemp(prefix="glovebox-test-")

        # Bash moves the channel to 20, whatever is there in this process, and fills the gap before it as the host does.
        fill = "exec 16</dev/null 17<&16 18<&16 19<&16;" if fill else ""
        move = ["bash", "-c", f'exec 20<&{there.fileno()} {there.fileno()}<&-; {fill} exec "$@"', "move"]
        self.process = subprocess.Popen(move + argv, stdin=subprocess.DEVNULL, stdout=self.pipes[0][1], stderr=self.pipes[1][1], cwd=self.cwd,
                                        env=environ, pass_fds=(there.fileno(),), start_new_session=True)
        there.close()
        for _, write in self.pipes:
            os.close(write)
        self.seq, self.buffer = 0, b""
        self.send("C", 0, pack([("mode", b"context"), ("result_count", b"64"), ("result_limit", b"65536")] + [("env", e.encode()) for e in env]))
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
        for read, _ in self.pipes:
            os.close(read)
        subprocess.run(["rm", "-rf", self.cwd], check=False)

    def send(self, kind, seq, payload=b""):
        self.here.sendall(b"%s %d %d\n" % (kind.encode(), seq, len(payload)) + payload)

    def receive(self, timeout):
        if not select.select([self.here], [], [], max(0, timeout))[0]:
            raise TimeoutError("no frame came")
        try:
            data = self.here.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Ended
        self.buffer += data

    def frame(self, timeout=20):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            self.receive(end - time.monotonic())
        head, _, rest = self.buffer.partition(b"\n")
        kind, seq, size = head.decode("ascii").split(" ")
        while len(rest) < int(size):
            self.receive(end - time.monotonic())
            rest = self.buffer[len(head) + 1:]
        self.buffer = rest[int(size):]
        return kind, int(seq), rest[: int(size)]

    def output(self, read):
        text = b""
        while select.select([read], [], [], 0)[0]:
            data = os.read(read, 1 << 20)
            if not data:
                break
            text += data
        return text.decode("utf-8", "replace")

    def start(self, code, stdin=None):
        self.seq += 1
        if stdin is not None:
            self.send("I", self.seq, stdin)
        self.send("E", self.seq, code if isinstance(code, bytes) else code.encode())

    def finish(self, timeout=20):
        """Everything up to D. What was printed before D must be in the pipes by then."""
        run = Run()
        while run.status is None:
            kind, seq, payload = self.frame(timeout)
            assert seq == self.seq, (kind, seq)
            parts = unpack(payload)
            if kind == "D":
                run.status, run.exit = dict(parts)["status"].decode(), dict(parts).get("exit")
            else:
                run.frames.append((kind, parts))
        run.stdout, run.stderr = (self.output(read) for read, _ in self.pipes)
        return run

    def run(self, code, stdin=None, timeout=20):
        self.start(code, stdin)
        return self.finish(timeout)

    def interrupt(self, after=0.3):
        time.sleep(after)
        os.killpg(self.process.pid, signal.SIGINT)

    def wait_for(self, text, timeout=20):
        """Reads standard output until text is in it."""
        seen, end = "", time.monotonic() + timeout
        while text not in seen:
            assert select.select([self.pipes[0][0]], [], [], max(0, end - time.monotonic()))[0], f"only {seen!r} came"
            seen += os.read(self.pipes[0][0], 65536).decode()
        return seen
