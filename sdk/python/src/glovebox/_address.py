# SPDX-License-Identifier: Apache-2.0
"""Where a server is: addresses as text, and the rules by which one is found (docs/python.md, Which server)."""
from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from dataclasses import dataclass
from typing import Mapping, Optional
from urllib.parse import urlsplit

from .errors import ConnectionFailed, UsageError

SOCKET_NAME = "glovebox.sock"
SOCKET_PATH_SIZE = 108  # of a unix socket's address, with the NUL at its end
NOBODY = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK)
FORMS = "unix:/path, http://host:port, or https://host:port"


@dataclass(frozen=True)
class Address:
    """path: of a unix socket; else host and port. prefix: what stands before the paths of the API, behind a proxy."""

    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool = False
    prefix: str = ""

    @property
    def is_unix(self) -> bool:
        return bool(self.path)

    @property
    def host_header(self) -> str:
        if self.is_unix:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.is_unix else f"{'https' if self.tls else 'http'}://{self.host_header}{self.prefix}"


def parse_address(text: str) -> Address:
    """unix:/path, http://host:port, https://host:port.

        >>> parse_address("unix:/run/glovebox/glovebox.sock").path
        '/run/glovebox/glovebox.sock'
    """
    if text.startswith("unix:"):
        path = text[5:]
        if path.startswith("//"):
            path = "/" + path.lstrip("/")
        if not path.startswith("/") or "\0" in path:
            raise UsageError(f"the address {text!r} has no absolute path", hint=FORMS)
        return Address(path=path)
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise UsageError(f"the address {text!r} is wrong: {error}", hint=FORMS) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username is not None:
        raise UsageError(f"the address {text!r} is not one of a server", hint=FORMS)
    tls = parts.scheme == "https"
    return Address(host=host, port=port or (443 if tls else 80), tls=tls, prefix=parts.path.rstrip("/"))


def runtime_socket(environ: Optional[Mapping[str, str]] = None) -> Optional[str]:
    """The socket that a server of this user has by default, by the rules of the command. None when its directory cannot be trusted."""
    environ = os.environ if environ is None else environ
    uid = os.geteuid()
    if environ.get("GLOVEBOX_RUNTIME_DIR"):
        directory = environ["GLOVEBOX_RUNTIME_DIR"]
    elif uid == 0:
        directory = "/run/glovebox"
    elif environ.get("XDG_RUNTIME_DIR"):
        directory = os.path.join(environ["XDG_RUNTIME_DIR"], "glovebox")
    else:
        directory = f"/tmp/glovebox-{uid}"
    try:
        found = os.lstat(directory)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o022:
        return None
    return os.path.join(directory, SOCKET_NAME)


def somebody_listens(path: str) -> bool:
    """Whether there is a server at a unix socket. An error when that cannot be told."""
    if len(os.fsencode(path)) >= SOCKET_PATH_SIZE:
        return False  # no socket can be there
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a connection is there at once, or never
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # and has many callers: its backlog is full
        except OSError as error:
            if error.errno in NOBODY:
                return False
            raise ConnectionFailed(f"whether a server listens at {path} cannot be told: {error.strerror or error}",
                                   hint="name a server in $GLOVEBOX_SERVER") from error
        return True


class Target:
    """The server of a client. Found when it is first needed, and then it stays that one; but a private server that has died is replaced."""

    def __init__(self, server: Optional[str], token: Optional[str]) -> None:
        given = server if server is not None else os.environ.get("GLOVEBOX_SERVER") or None
        self.token = token if token is not None else os.environ.get("GLOVEBOX_TOKEN") or None
        self._address = parse_address(given) if given is not None else None
        self._private = False
        self._lock = threading.Lock()

    @property
    def private(self) -> bool:
        """Whether it is the server that this interpreter has for itself."""
        return self._private

    def known(self) -> Optional[Address]:
        """The address, when it takes no time to say."""
        return None if self._private else self._address

    def address(self) -> Address:
        """May start a server, and so takes a moment at times."""
        with self._lock:
            if self._address is None and not self._private:
                path = runtime_socket()
                if path is not None and somebody_listens(path):
                    self._address = Address(path=path)
                else:
                    self._private = True
            if not self._private:
                assert self._address is not None
                return self._address
        from . import _private
        return Address(path=_private.ensure())

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return str(self._address) if self._address is not None else "a private server"
