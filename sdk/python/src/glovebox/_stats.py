# SPDX-License-Identifier: Apache-2.0
"""Statistics as they come, without `await`."""
from __future__ import annotations

from types import TracebackType
from typing import Generic, Iterator, Optional, Type, TypeVar

from ._async_stats import AsyncSamples
from ._drive import drive

T = TypeVar("T")


class Samples(Generic[T]):
    """An iterator of samples, until what they are about has ended, or until it is closed.

        >>> with box.stats_stream(interval=0.5) as samples:
        ...     print(next(samples).pids_limit)
        128
    """

    def __init__(self, core: AsyncSamples[T]) -> None:
        self._core = core

    def __iter__(self) -> Iterator[T]:
        try:
            while True:
                try:
                    sample = next(self)
                except StopIteration:
                    return
                yield sample
        finally:
            self.close()

    def __next__(self) -> T:
        try:
            return drive(self._core.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """No more of them."""
        drive(self._core.close())

    def __enter__(self) -> "Samples[T]":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()
