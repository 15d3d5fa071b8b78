# SPDX-License-Identifier: Apache-2.0
"""Input and output: what the rest needs of it (Transport, Stream), and the transport that blocks. That of asyncio is in _asyncio.py."""
from __future__ import annotations

import select
import socket
import struct
import threading
import time
from typing import Any, AsyncContextManager, Callable, Optional, Tuple, Type, TypeVar

from ._address import Address

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
PIECE = 262144  # bytes that are read or sent at a time

# A peer whose machine is gone is noticed after about a minute, although a run may be silent for hours.
KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Stream:
    """A connection. address: where it leads; idle_since: when it was given back to the pool."""

    address: Address
    idle_since = 0.0

    async def send(self, data: bytes) -> None:
        raise NotImplementedError

    async def receive(self, timeout: Optional[float] = None) -> bytes:
        """What comes, b"" at its end. TimeoutError when nothing came for so long."""
        raise NotImplementedError

    def is_stale(self) -> bool:
        """Of one that nothing is expected from: whether it has ended, or something came."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """In a forked child: lets go of it, without the parent's noticing."""
        self.close()


class Transport:
    """How to wait."""

    #: What ends a wait from outside: Ctrl-C, or the cancelling of a task.
    interrupts: Tuple[Type[BaseException], ...] = ()

    async def connect(self, address: Address, ssl_context: Any) -> Stream:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls something that may block."""
        raise NotImplementedError

    def lock(self) -> AsyncContextManager[Any]:
        raise NotImplementedError

    def may_use(self, stream: Stream) -> bool:
        """Whether that connection can be used from here."""
        return True

    async def settle(self) -> None:
        """Lets closed connections finish."""


def tune_tcp(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Lock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *exc: Any) -> None:
        self._lock.release()


class BlockingStream(Stream):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: bytes) -> None:
        # As long as the server takes to read: it has a limit of its own for that.
        self._sock.settimeout(None)
        self._sock.sendall(data)

    async def receive(self, timeout: Optional[float] = None) -> bytes:
        if timeout is not None and timeout <= 0:
            timeout = 0.001  # 0 would mean not to block at all, which is another error
        self._sock.settimeout(timeout)
        try:
            return self._sock.recv(PIECE)
        except socket.timeout:
            raise TimeoutError from None

    def is_stale(self) -> bool:
        try:
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        self._sock.close()


class BlockingTransport(Transport):
    interrupts = (KeyboardInterrupt,)

    async def connect(self, address: Address, ssl_context: Any) -> Stream:
        if address.is_unix:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                # Not settimeout(): with it a full backlog is an error at once.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(CONNECT_TIMEOUT), 0))
                sock.connect(address.path)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
            except BaseException:
                sock.close()
                raise
            return BlockingStream(sock)
        sock = socket.create_connection((address.host, address.port), CONNECT_TIMEOUT)
        try:
            tune_tcp(sock)
            if ssl_context is not None:
                sock = ssl_context.wrap_socket(sock, server_hostname=address.host)
        except BaseException:
            sock.close()
            raise
        return BlockingStream(sock)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        return function(*args)

    def lock(self) -> AsyncContextManager[Any]:
        return _Lock()
