# SPDX-License-Identifier: Apache-2.0
"""Runs, without `await`: what these classes do is written in _async_runs.py."""
from __future__ import annotations

from types import TracebackType
from typing import Iterator, Optional, Type

from ._async_runs import AsyncRun, AsyncRunStream
from ._body import Data
from ._drive import drive
from .events import Event
from .records import RunInfo, Stats
from .results import Result


class RunStream:
    """The events of a run, as they come: an iterator. The run begins with the loop, or with `with`.

        >>> with box.stream("print(1); print(2)") as stream:
        ...     for event in stream:
        ...         if isinstance(event, glovebox.Output):
        ...             print(event.text, end="")
        1
        2
        >>> stream.result.verdict
        'ok'

    When the connection is lost it goes on behind the last event that was seen. Leaving the loop early cancels the run, or lets it go on with
    on_break="continue"; another loop goes on with the events.
    """

    def __init__(self, core: AsyncRunStream) -> None:
        self._core = core

    @property
    def id(self) -> str:
        """The run's id; "" until it has begun."""
        return self._core.id

    @property
    def ended(self) -> bool:
        return self._core.ended

    @property
    def result(self) -> Result:
        """The result, when the events were read to the end. UsageError when they were not; the error when nothing could be run."""
        return self._core.result

    def __next__(self) -> Event:
        event = drive(self._core.next_event())
        if event is None:
            raise StopIteration
        return event

    def __iter__(self) -> Iterator[Event]:
        # A generator is told when the loop is left.
        try:
            while True:
                event = drive(self._core.next_event())
                if event is None:
                    return
                yield event
        except GeneratorExit:
            self.close()
            raise

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Reads the rest of the events; the result. TimeoutError when it takes longer than so many seconds: the run goes on."""
        return drive(self._core.wait(timeout))

    def cancel(self, kill: bool = False) -> None:
        """Interrupts the run, as Ctrl-C; with kill it is killed. Its events go on to their end."""
        drive(self._core.cancel(kill))

    def close(self) -> None:
        """Ends the stream. A run that has not ended is cancelled, unless on_break="continue"."""
        drive(self._core.close())

    def __enter__(self) -> "RunStream":
        drive(self._core.__aenter__())
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._core).replace("<Async", "<", 1)


class Run:
    """A run that goes on by itself: of start(), or found by its id.

        >>> run = box.start("import time; time.sleep(60)")
        >>> run.cancel()
        >>> run.wait().verdict
        'cancelled'
    """

    def __init__(self, core: AsyncRun) -> None:
        self._core = core

    @property
    def id(self) -> str:
        return self._core.id

    def info(self) -> RunInfo:
        """What the journal has of it."""
        return drive(self._core.info())

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for its end; TimeoutError after so many seconds, and the run goes on."""
        return drive(self._core.wait(timeout))

    def events(self, from_: int = 0) -> RunStream:
        """Its events from that number on, those of the past first. Leaving the loop leaves the run alone."""
        return RunStream(self._core.events(from_))

    def cancel(self) -> None:
        """Interrupts it, as Ctrl-C. A second time kills it."""
        drive(self._core.cancel())

    def kill(self) -> None:
        drive(self._core.kill())

    def write_stdin(self, data: Data, close: bool = False) -> None:
        """Sends to the standard input of a run that was started with interactive=True; close: and ends it.

            >>> run = box.start("print(input() * 2)", context="fresh", interactive=True)
            >>> run.write_stdin("ab\\n")
            >>> run.wait().stdout
            'abab\\n'
        """
        drive(self._core.write_stdin(data, close))

    def close_stdin(self) -> None:
        """Ends its standard input."""
        drive(self._core.close_stdin())

    def stats(self) -> Stats:
        """What it uses now. An error when it has ended."""
        return drive(self._core.stats())

    def __repr__(self) -> str:
        return f"<Run {self.id}>"
