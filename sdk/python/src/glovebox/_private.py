# SPDX-License-Identifier: Apache-2.0
"""The private server: `glovebox serve` for this interpreter alone.

Theory of operation: it is started once, by whoever needs it first, on a socket in a temporary directory of mode 0700. It holds the read end of a pipe
(--parent-fd) whose write end only this process has: however the interpreter ends, the pipe closes, and the server ends with all its boxes. A shell stands
between the two and removes the directory after it, so that nothing is left even then. It has a session of its own, as Ctrl-C at a terminal is
for the interpreter. $GLOVEBOX_BACKEND, $GLOVEBOX_RUNTIME, $GLOVEBOX_IMAGE and $GLOVEBOX_ALLOW_WEAKER are part of its policy.

After fork() the child closes its copy of the write end: the server's life is the parent's. The child may use it as long as it is there.
"""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import IO, Optional

from ._address import somebody_listens
from .errors import ConnectionFailed, NotInstalled

START_SECONDS = 60.0
STOP_SECONDS = 15.0
SOCKET_PATH_MAX = 100  # of the 108 bytes that a unix socket's address has
LOG_SHOWN = 2000       # bytes at the end of the log that an error shows

# $0 is the directory. The shell waits for the server, also when a signal comes that is meant for both.
_SCRIPT = 'trap "" INT TERM HUP; "$@"; status=$?; rm -rf -- "$0"; exit "$status"'

# It is this user's alone, and can do no more than he can: he may choose whatever there is.
_CHOICE = [word for key, names in (("backends", ("native", "docker")), ("runtimes", ("*",)), ("images", ("*",))) for name in names
           for word in ("--set", f"{key}={name}")]

_lock = threading.Lock()
_server: Optional["_Server"] = None


def program() -> str:
    """The program glovebox: $GLOVEBOX, or the one in $PATH."""
    named = os.environ.get("GLOVEBOX")
    found = shutil.which(named or "glovebox")
    if found is None:
        raise NotInstalled(
            f"there is no server, and $GLOVEBOX names no program: {named}" if named else
            "there is no glovebox server, and no program glovebox in $PATH to start one",
            hint="install glovebox, name the program in $GLOVEBOX, or name a server in $GLOVEBOX_SERVER")
    return os.path.abspath(found)


def _directory() -> str:
    for place in (None, "/tmp"):
        path = tempfile.mkdtemp(prefix="glovebox-python-", dir=place)
        if len(os.fsencode(path)) < SOCKET_PATH_MAX - 20:
            return path
        os.rmdir(path)
    raise ConnectionFailed("there is no place for a socket: the path of the temporary directory is too long", hint="set TMPDIR")


class _Server:
    def __init__(self) -> None:
        name = program()
        self.directory = _directory()
        self.socket = os.path.join(self.directory, "glovebox.sock")
        self._log: IO[bytes] = tempfile.TemporaryFile()
        read_end, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, self.directory, name, "serve", "--listen", f"unix:{self.socket}", "--directory", self.directory,
                 "--parent-fd", str(read_end), *_CHOICE],
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, cwd="/", pass_fds=(read_end,), start_new_session=True)
        except BaseException:
            os.close(self._pipe)
            self._log.close()
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        finally:
            os.close(read_end)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def alive(self) -> bool:
        return self._process.poll() is None

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not somebody_listens(self.socket):
            if not self.alive() or time.monotonic() > until:
                self._log.seek(max(0, os.fstat(self._log.fileno()).st_size - LOG_SHOWN))
                said = self._log.read().decode("utf-8", "replace").strip()
                what = "did not start" if self.alive() else f"ended with status {self._process.returncode}"
                raise ConnectionFailed(f"the private server {what}: {said or 'it said nothing'}", hint="`glovebox doctor` tells what this host lacks")
            time.sleep(0.005)

    def stop(self) -> None:
        os.close(self._pipe)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)  # when the shell had no time to

    def disown(self) -> None:
        """In a forked child. The log's and the pipe's descriptors are copies; the process is not ours to wait for."""
        os.close(self._pipe)
        self._process.returncode = 0
        self._log.close()


def ensure() -> str:
    """The path of its socket; starts it when it does not run."""
    global _server
    with _lock:
        if _server is None and _inherited is not None and somebody_listens(_inherited):
            return _inherited
        if _server is not None and not _server.alive():
            _server.stop()
            _server = None
        if _server is None:
            _server = _Server()
        return _server.socket


def stop() -> None:
    """Ends it, when it is this process's own. Called when the interpreter ends."""
    global _server
    with _lock:
        server, _server = _server, None
        if server is not None:
            server.stop()


_inherited: Optional[str] = None  # in a forked child: the parent's


def _after_fork() -> None:
    global _lock, _server, _inherited
    _lock = threading.Lock()
    if _server is not None:
        _server.disown()
        _inherited, _server = _server.socket, None


os.register_at_fork(after_in_child=_after_fork)
