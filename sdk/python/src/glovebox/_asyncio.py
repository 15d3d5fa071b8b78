# SPDX-License-Identifier: Apache-2.0
"""The transport of asyncio. Only this file imports asyncio."""
from __future__ import annotations

import asyncio
import functools
from typing import Any, AsyncContextManager, Callable, List, Optional, TypeVar

from ._address import Address
from ._transport import CONNECT_TIMEOUT, PIECE, Stream, Transport, tune_tcp

T = TypeVar("T")

_forgotten: List[Stream] = []


class AsyncioStream(Stream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self, timeout: Optional[float] = None) -> bytes:
        if timeout is None:
            return await self._reader.read(PIECE)
        try:
            return await asyncio.wait_for(self._reader.read(PIECE), max(timeout, 0.001))
        except asyncio.TimeoutError:
            raise TimeoutError from None

    def is_stale(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing() or self._reader.exception() is not None

    def close(self) -> None:
        try:
            self._writer.transport.abort()
        except RuntimeError:
            pass  # its loop has ended, and the connection with it

    def forget(self) -> None:
        # Closing it would take it out of the epoll set, which is the parent's as well.
        _forgotten.append(self)


class AsyncioTransport(Transport):
    interrupts = (asyncio.CancelledError,)

    async def connect(self, address: Address, ssl_context: Any) -> Stream:
        if address.is_unix:
            opening = asyncio.open_unix_connection(address.path)
        else:
            opening = asyncio.open_connection(address.host, address.port, ssl=ssl_context, server_hostname=address.host if ssl_context else None)
        try:
            reader, writer = await asyncio.wait_for(opening, CONNECT_TIMEOUT)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no connection within {CONNECT_TIMEOUT:g} s") from None
        sock = writer.get_extra_info("socket")
        if not address.is_unix and sock is not None:
            tune_tcp(sock)
        return AsyncioStream(reader, writer)

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
