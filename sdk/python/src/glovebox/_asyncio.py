# SPDX-License-Identifier: Apache-2.0
"""The transport of asyncio. Only this file imports asyncio."""
from __future__ import annotations

import asyncio
import collections
import functools
import socket
from typing import Any, AsyncContextManager, Callable, Deque, List, Optional, TypeVar

from ._address import Address
from ._transport import CONNECT_TIMEOUT, PIECE, Stream, Transport, tune_tcp

T = TypeVar("T")

_forgotten: List[Stream] = []


class AsyncioStream(Stream, asyncio.Protocol):
    """A connection as a protocol of asyncio's. Not its streams: they lose what has come when a write fails, and that is how the answer comes to a request
    which the server refuses in its middle."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._pieces: Deque[bytes] = collections.deque()
        self._size = 0
        self._ended = self._lost = False
        self._error: Optional[BaseException] = None
        self._may_write = True
        self._reader: Optional["asyncio.Future[None]"] = None
        self._writer: Optional["asyncio.Future[None]"] = None

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > 4 * PIECE:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, error: Optional[BaseException]) -> None:
        self._ended = self._lost = True
        self._error = error
        self.resume_writing()
        self._wake()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # What we call

    async def send(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the connection was closed")
        self._transport.write(data)
        if len(data) >= PIECE:
            await asyncio.sleep(0)  # an answer that is there already is taken before the next piece
        while not self._may_write and not self._ended:
            self._writer = self.loop.create_future()
            await self._writer

    async def receive(self, timeout: Optional[float] = None) -> bytes:
        until = None if timeout is None else self.loop.time() + timeout
        while not self._pieces:
            if self._error is not None:
                raise self._error if isinstance(self._error, OSError) else ConnectionResetError(str(self._error))
            if self._ended:
                return b""
            await self._wait(until)
        data = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        self._pieces.clear()
        if self._size > 4 * PIECE and not self._ended:
            self._transport.resume_reading()
        self._size = 0
        return data

    async def _wait(self, until: Optional[float]) -> None:
        self._reader = self.loop.create_future()
        timer = self.loop.call_at(until, self._wake) if until is not None else None
        try:
            await self._reader
        finally:
            if timer is not None:
                timer.cancel()
        if until is not None and not self._pieces and not self._ended and self.loop.time() >= until:
            raise TimeoutError

    def is_stale(self) -> bool:
        return bool(self._pieces) or self._ended or self._transport.is_closing()

    def close(self) -> None:
        try:
            if not self._lost:
                self._transport.abort()
        except RuntimeError:
            pass  # its loop has ended, and the connection with it

    def forget(self) -> None:
        # Closing it would take it out of the epoll set, which is the parent's as well.
        _forgotten.append(self)


class AsyncioTransport(Transport):
    interrupts = (asyncio.CancelledError,)

    async def connect(self, address: Address, ssl_context: Any) -> Stream:
        try:
            return await asyncio.wait_for(self._open(address, ssl_context), CONNECT_TIMEOUT)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no connection within {CONNECT_TIMEOUT:g} s") from None

    async def _open(self, address: Address, ssl_context: Any) -> AsyncioStream:
        loop = asyncio.get_running_loop()
        if not address.is_unix:
            transport, stream = await loop.create_connection(AsyncioStream, address.host, address.port, ssl=ssl_context,
                                                             server_hostname=address.host if ssl_context else None)
            tune_tcp(transport.get_extra_info("socket"))
            return stream
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            while True:
                try:
                    sock.connect(address.path)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.005)  # the backlog is full; asyncio itself would take that for a connection
            _, stream = await loop.create_unix_connection(AsyncioStream, sock=sock)
            return stream
        except BaseException:
            sock.close()
            raise

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *args))

    def lock(self) -> AsyncContextManager[Any]:
        return asyncio.Lock()

    def may_use(self, stream: Stream) -> bool:
        return isinstance(stream, AsyncioStream) and stream.loop is asyncio.get_running_loop()

    async def settle(self) -> None:
        # A connection that was aborted is closed by the loop in its next turn.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
