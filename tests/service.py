# SPDX-License-Identifier: Apache-2.0
"""`glovebox serve` for tests of the command line: a server at the default socket of a runtime directory of its own.

    with Service(box) as service:
        assert service.call("run", "-c", "print(1)").out == b"1\\n"

The server and the command run as the box's somebody. Flags are those of `glovebox serve`.
"""
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from conftest import PATIENCE, wait_until

WEAKER = "allow_weaker: [cgroup]\n"


class Service:
    def __init__(self, box, *flags, environ=None):
        self.box, self.flags, self.process = box, list(flags), None
        self.directory = box.directory("service")
        self.runtime, self.state = self.directory / "run", self.directory / "state"
        for path in (self.runtime, self.state):
            path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(path, box.uid, box.uid)
        self.socket = self.runtime / "glovebox.sock"
        self.environ = {"GLOVEBOX_RUNTIME_DIR": str(self.runtime), "GLOVEBOX_STATE_DIR": str(self.state), **(environ or {})}
        guard = f"guard: {os.environ['GLOVEBOX_GUARD']}\n" if "GLOVEBOX_GUARD" in os.environ else ""
        if box.weaker or guard:
            policy = self.directory / "policy.yaml"
            policy.write_text((WEAKER if box.weaker else "") + guard)
            self.flags += ["--policy", str(policy)]

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen([str(self.box.binary), "serve", *self.flags], env={**self.box.environ, **self.environ},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.box.ids)
        ready = wait_until(lambda: self.process.poll() is not None or self.call("ps").returncode == 0, PATIENCE, 0.05)
        assert ready and self.process.poll() is None, self.log()
        return self

    def log(self):
        return (self.directory / "log").read_text(errors="replace")

    def stop(self):
        if self.process:
            if self.process.poll() is None:
                self.process.terminate()
            status = self.process.wait(PATIENCE)
            self.process = None
            assert status == 0, self.log()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    # ---- the command ----

    def start_command(self, *argv, environ=None, **popen):
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        return subprocess.Popen([str(self.box.binary), *map(str, argv)],
                                env={**self.box.environ, **self.environ, **(environ or {})}, **popen, **self.box.ids)

    def call(self, *argv, input=None, environ=None, **popen):
        if input is not None:
            popen["stdin"] = subprocess.PIPE
        return self.box.finish(self.start_command(*argv, environ=environ, **popen), input)

    def json(self, *argv, **options):
        result = self.call(*argv, "--json", **options)
        assert result.json is not None, result.explain()
        return result.json

    def session(self, *flags):
        result = self.call("session", "create", *flags)
        assert result.returncode == 0, result.explain()
        return result.out.decode().strip()

    def runs(self):
        """Runs of the server, newest first."""
        return self.json("ps", "--all")["recent"]


class Screen:
    """The command on a terminal of its own."""

    def __init__(self, service, *argv, rows=24, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave, self.out = slave, b""
        self.process = service.start_command(*argv, environ={"TERM": "xterm"}, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                             preexec_fn=self._take)

    def _take(self):
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.out += os.read(self.master, 65536)
        return self.out

    def wait_for(self, text, seconds=PATIENCE):
        """Until it was written since the last call of forget()."""
        assert wait_until(lambda: text in self.read(), seconds, 0.02), self.out[-3000:]

    def forget(self):
        self.read()
        self.out = b""

    def type(self, keys):
        os.write(self.master, keys)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """The status, and whether the terminal is as it was."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
            time.sleep(0.02)
        assert self.process.poll() is not None, self.out[-3000:]
        self.read()
        return self.process.returncode, termios.tcgetattr(self.slave) == self.before


INTERRUPT, TERMINATE = signal.SIGINT, signal.SIGTERM
