# SPDX-License-Identifier: Apache-2.0
"""Statistics as they come."""
from __future__ import annotations

from types import TracebackType
from typing import Any, AsyncIterator, Callable, Generic, Optional, Type, TypeVar

from ._caller import Caller, Events, Patience
from ._http import NDJSON, Request
from .errors import ConnectionFailed

T = TypeVar("T")

SILENCE_MAX = 75.0  # seconds: more than the longest interval, and than the 15 of a sign of life


class AsyncSamples(Generic[T]):
    """An iterator of samples, until what they are about has ended, or until it is closed.

        async with box.stats_stream(interval=0.5) as samples:
            async for sample in samples:
                print(sample.memory_bytes)
    """

    def __init__(self, caller: Caller, path: str, convert: Callable[[Any], T]) -> None:
        self._caller, self._path, self._convert = caller, path, convert
        self._events: Optional[Events] = None
        self._patience = Patience(caller.retry_for)
        self._closed = False

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self._closed:
            try:
                if self._events is None:
                    self._events = await self._caller.events(Request("GET", self._path, accept=NDJSON), self._patience)
                o = await self._events.next(SILENCE_MAX)
            except (ConnectionFailed, TimeoutError) as error:
                self._drop()
                delay = self._patience.next_delay()
                if delay is None:
                    raise error if isinstance(error, ConnectionFailed) else self._caller.failed("the statistics are silent", True) from None
                await self._caller.transport.sleep(delay)
                continue
            if o is None:
                await self.close()
            elif isinstance(o, dict) and o.get("event") != "ping":
                self._patience.reset()
                return self._convert(o)
        raise StopAsyncIteration

    def _drop(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.exchange.close()

    async def close(self) -> None:
        """No more of them."""
        self._closed = True
        self._drop()

    async def __aenter__(self) -> "AsyncSamples[T]":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()
