# SPDX-License-Identifier: Apache-2.0
"""Runs: waiting for one, following its events, one that goes on by itself."""
from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Optional, Type, Union

from ._body import Data, new_key
from ._caller import Caller, Events, Patience
from ._http import NDJSON, OCTETS, Request, path_of
from .errors import ConflictError, ConnectionFailed, GloveboxError, LostError, NotFoundError, ProtocolError, UsageError
from .events import Collector, Event, Output, ResultValue
from .records import RunInfo, Stats
from .results import Result, Value

SILENCE_MAX = 60.0   # seconds: a stream has a sign of life every 15
CANCEL_GRACE = 3.0   # from the interrupt to the kill of a run that nobody wants any more
KILL_GRACE = 5.0

#: What callbacks return is awaited in asyncio when it can be.
TextCallback = Callable[[str], Union[None, Awaitable[None]]]
ValueCallback = Callable[[Value], Union[None, Awaitable[None]]]


@dataclass
class Callbacks:
    on_stdout: Optional[Callable[[str], Any]] = None
    on_stderr: Optional[Callable[[str], Any]] = None
    on_result: Optional[Callable[[Value], Any]] = None

    def __bool__(self) -> bool:
        return any((self.on_stdout, self.on_stderr, self.on_result))

    async def tell(self, event: Event) -> None:
        answer: Any = None
        if isinstance(event, Output):
            callback = self.on_stdout if event.stream == "stdout" else self.on_stderr
            answer = callback(event.text) if callback else None
        elif isinstance(event, ResultValue) and self.on_result:
            answer = self.on_result(event.value)
        if inspect.isawaitable(answer):
            await answer


def run_request(path: str, body: Dict[str, Any], accept: str) -> Request:
    return Request.with_json("POST", path, body, accept=accept, headers={"Idempotency-Key": new_key()}, waits=True)


async def execute(caller: Caller, path: str, body: Dict[str, Any], callbacks: Callbacks) -> Result:
    """Runs something and waits for its end. Who is interrupted while waiting cancels the run first."""
    if callbacks:
        stream = AsyncRunStream(caller, run_request(path, body, NDJSON))
        try:
            async for event in stream:
                await callbacks.tell(event)
        except GloveboxError:
            raise
        except BaseException as error:
            if not isinstance(error, GeneratorExit):  # nothing can be awaited then
                await stream.close()
            raise
        return stream.result
    request = run_request(path, body, "application/json")
    try:
        run = await caller.object(request)
    except caller.transport.interrupts:
        # The same key again joins the run, and its id comes first.
        request.accept = NDJSON
        await AsyncRunStream(caller, request, begun=request.sent).close()
        raise
    return _result_of(run)


def _result_of(run: Dict[str, Any]) -> Result:
    result = run.get("result")
    if not isinstance(result, dict):
        raise LostError("the server has no result of this run")
    if "error" in result and "verdict" not in result:
        from .errors import error_from_object
        raise error_from_object(result["error"])
    return Result(result, run.get("id"))


class AsyncRunStream:
    """The events of a run, as they come. It begins with the loop, or with `async with`.

        async with box.stream("print(1); print(2)") as stream:
            async for event in stream:
                if isinstance(event, Output):
                    print(event.text, end="")
        stream.result.verdict

    When the connection is lost it goes on behind the last event that was seen. Leaving early, through `async with` or close(), cancels the
    run, or lets it go on with on_break="continue"; iterating again goes on with the events.
    """

    def __init__(self, caller: Caller, request: Optional[Request] = None, run_id: str = "", from_seq: int = 0, on_break: str = "cancel",
                 begun: bool = False) -> None:
        if on_break not in ("cancel", "continue"):
            raise UsageError(f"on_break is \"cancel\" or \"continue\", not {on_break!r}", details={"field": "on_break"})
        self._caller, self._request, self._on_break = caller, request, on_break
        self._collector = Collector(run_id, from_seq)
        self._events: Optional[Events] = None
        self._patience = Patience(caller.retry_for)
        self._begun = begun  # the server may know of it

    @property
    def id(self) -> str:
        """The run's id; "" until it has begun."""
        return self._collector.run_id

    @property
    def ended(self) -> bool:
        return self._collector.ended

    @property
    def result(self) -> Result:
        """The result, when the run has ended."""
        if self._collector.failure is not None:
            raise self._collector.failure
        if self._collector.result is None:
            raise UsageError("the run has not ended, or its events were not read to the end", hint="wait() does that")
        if self._collector.first_seq > 0:
            raise UsageError("the first events of the run were left out, so there is no whole result here")
        return self._collector.result

    # Events

    async def _connect(self) -> Events:
        known = self.id
        if known:
            request = Request("GET", path_of("v1", "runs", known, "events", query={"from": self._collector.next_seq}), accept=NDJSON)
        else:
            assert self._request is not None
            request = self._request
        self._begun = True
        try:
            events = await self._caller.events(request, self._patience)
        except NotFoundError as error:
            if known and self._request is not None:
                raise LostError(f"the server does not know the run {known} any more", status=error.status) from error
            raise
        self._collector.run_id = known or events.exchange.head.headers.get("glovebox-run", "")
        return events

    async def next_event(self, deadline: Optional[float] = None) -> Optional[Event]:
        """The next event; None when there are no more. TimeoutError at the deadline (of time.monotonic()); it can be called again then."""
        collector = self._collector
        while not collector.ended:
            try:
                if self._events is None:
                    self._events = await self._connect()
                left = SILENCE_MAX if deadline is None else min(deadline - time.monotonic(), SILENCE_MAX)
                o = await self._events.next(left)
                if o is None:
                    raise self._caller.failed("the stream of events was cut off", True)
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError("the run goes on") from None
                await self._again(self._caller.failed("the stream of events is silent", True))
                continue
            except ConnectionFailed as error:
                await self._again(error)
                continue
            before = collector.next_seq
            try:
                event = collector.feed(o)
            except GloveboxError:
                self._drop()
                raise
            if collector.next_seq > before:
                self._patience.reset()
            if collector.ended:
                await self._finish()
            if event is not None:
                return event
        return None

    async def _again(self, error: ConnectionFailed) -> None:
        self._drop()
        delay = self._patience.next_delay()
        if delay is None:
            raise error
        await self._caller.transport.sleep(delay)

    async def _finish(self) -> None:
        """Reads the end of the body, so that the connection can be used again."""
        try:
            if self._events is not None:
                await self._events.next(1.0)
        except (GloveboxError, TimeoutError):
            pass
        self._drop()

    def _drop(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.exchange.close()

    def __aiter__(self) -> "AsyncIterator[Event]":
        return self

    async def __anext__(self) -> Event:
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def wait(self, timeout: Optional[float] = None) -> Result:
        """Reads the rest of the events; the result. TimeoutError when it takes longer than so many seconds: the run goes on."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while await self.next_event(deadline) is not None:
            pass
        return self.result

    # Its end before the end

    async def cancel(self, kill: bool = False) -> None:
        """Interrupts the run, as Ctrl-C; with kill it is killed."""
        if not self._begun or self.ended:
            return
        if not self.id:
            self._events = await self._connect()
        await cancel_run(self._caller, self.id, kill)

    async def close(self) -> None:
        """Ends the stream. A run that has not ended is cancelled, unless on_break="continue"; its last events are waited for a moment.

        Trouble with the server is not raised here: the run has a time limit in any case."""
        try:
            if self._begun and not self.ended and self._on_break == "cancel":
                for kill, grace in ((False, CANCEL_GRACE), (True, KILL_GRACE)):
                    await self.cancel(kill)
                    try:
                        await self.wait(grace)
                        break
                    except TimeoutError:
                        continue
        except GloveboxError:
            pass
        finally:
            self._drop()

    async def __aenter__(self) -> "AsyncRunStream":
        if not self.ended and self._events is None:
            self._events = await self._connect()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id or 'not begun'}{', ended' if self.ended else ''}>"


async def cancel_run(caller: Caller, run_id: str, kill: bool) -> None:
    # A second interrupt would be a kill, so only that is sent again when the connection is lost.
    await caller.json(Request.with_json("POST", path_of("v1", "runs", run_id, "cancel"), {"kill": kill}, repeat=kill))


class AsyncRun:
    """A run that goes on by itself: of start(), or found by its id.

        run = await box.start("import time; time.sleep(60)")
        await run.cancel()
        (await run.wait()).verdict          # 'cancelled'
    """

    def __init__(self, caller: Caller, run_id: str) -> None:
        self._caller, self.id = caller, run_id
        self._stream = AsyncRunStream(caller, run_id=run_id, on_break="continue", begun=True)

    async def info(self) -> RunInfo:
        """What the journal has of it."""
        return RunInfo.from_object(await self._caller.object(Request("GET", path_of("v1", "runs", self.id))))

    async def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for its end; TimeoutError after so many seconds, and the run goes on."""
        try:
            return await self._stream.wait(timeout)
        finally:
            self._stream._drop()

    def events(self, from_: int = 0) -> AsyncRunStream:
        """Its events from that number on, those of the past first. Leaving the loop leaves the run alone."""
        return AsyncRunStream(self._caller, run_id=self.id, from_seq=from_, on_break="continue", begun=True)

    async def cancel(self) -> None:
        """Interrupts it, as Ctrl-C. A second time kills it."""
        await cancel_run(self._caller, self.id, False)

    async def kill(self) -> None:
        await cancel_run(self._caller, self.id, True)

    async def write_stdin(self, data: Data, close: bool = False) -> None:
        """Sends to the standard input of a run that was started with interactive=True; close: and ends it."""
        left = data.encode() if isinstance(data, str) else bytes(data)
        while True:
            request = Request("POST", path_of("v1", "runs", self.id, "stdin", query={"close": close or None}), body=left, content_type=OCTETS,
                              repeat=False)
            taken = (await self._caller.object(request)).get("accepted")
            if not isinstance(taken, int):
                raise ProtocolError("the server does not say how much of the standard input it has taken")
            if taken >= len(left):
                return
            if taken == 0:
                # The server has waited for a while.
                raise ConflictError(f"the run {self.id} does not read its standard input", details={"left": len(left)})
            left = left[taken:]

    async def close_stdin(self) -> None:
        """Ends its standard input."""
        await self.write_stdin(b"", close=True)

    async def stats(self) -> Stats:
        """What it uses now. NotFoundError or ConflictError when it has ended."""
        return Stats.from_object(await self._caller.object(Request("GET", path_of("v1", "runs", self.id, "stats"))))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
