# SPDX-License-Identifier: Apache-2.0
"""Sends requests and gets answers: connections that are kept, and what is tried again.

A connection carries one request at a time and goes back to the pool when the answer was read to its end; anything else closes it.
The pool's lock is never held over a wait, so one kind of lock does for threads and for asyncio. After fork() the child forgets the connections it
inherited: two processes on one connection would read each other's answers.

What is tried again, for at most `retry_for` seconds from the first failure on:
  * nobody listens, but somebody did before (a server that is started anew);
  * the connection was lost before all of the request was sent: the server does nothing with a part of one;
  * it was lost later, and the request may be repeated: it only looks, or it comes with an Idempotency-Key;
  * the server says `quota` or `unavailable`: nothing was done. Its Retry-After is kept to.
"""
from __future__ import annotations

import os
import random
import re
import threading
import time
import weakref
from typing import Any, Awaitable, BinaryIO, Callable, List, Optional, TypeVar

from ._address import Target
from ._http import NDJSON, AnswerParser, Head, Lines, Request, decode_json
from ._transport import PIECE, Stream, Transport
from .errors import CODES, ConnectionFailed, GloveboxError, ProtocolError, QuotaError, TooLargeError, UnavailableError, UnenforceableError, UsageError, error_from_object

T = TypeVar("T")

IDLE_CONNECTIONS_MAX = 16
IDLE_SECONDS_MAX = 30.0  # the server closes them, too, at some time
FRESH_SECONDS = 1.0      # so young they are not closed yet: for what cannot be repeated
ANSWER_SECONDS = 120.0   # in which the server begins to answer what does not wait for a run
ERROR_BODY_MAX = 1 << 20
DELAY_MIN, DELAY_MAX = 0.05, 2.0
LASTING_SECONDS = 5.0    # a connection that lasted so long is no part of the same trouble


class Patience:
    """How long to try again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        self._until: Optional[float] = None
        self._delay = DELAY_MIN

    def next_delay(self, at_least: Optional[float] = None) -> Optional[float]:
        """How long to wait before the next attempt; None: no more of them."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._seconds
        delay = max(self._delay * random.uniform(0.5, 1.0), at_least or 0.0)
        self._delay = min(self._delay * 2, DELAY_MAX)
        return delay if now + delay < self._until else None


class Exchange:
    """A request that is under way on a connection, and its answer."""

    def __init__(self, caller: "Caller", stream: Stream, method: str, reused: bool) -> None:
        self._caller, self._stream = caller, stream
        self._parser = AnswerParser(method)
        self._early: List[bytes] = []  # of the body, came with the head
        self._open = True
        self.reused = reused
        self.answered = False  # something came
        self.sent = False

    @property
    def head(self) -> Head:
        assert self._parser.head is not None
        return self._parser.head

    async def begin(self, request: Request, head: bytes) -> None:
        """Sends the request and reads the head of the answer."""
        if await self._send(request, head):
            self.sent = request.sent = True
        while self._parser.head is None:
            try:
                await self._receive(None if request.waits else ANSWER_SECONDS)
            except TimeoutError:
                error = self._caller.failed(f"it has taken the request, and said nothing for {ANSWER_SECONDS:.0f} seconds", self.sent)
                error.hangs = True
                raise error from None

    async def _put(self, data: bytes) -> bool:
        """Whether it could be sent. A server that refuses a request closes before it has read all of it: then its answer may be there."""
        try:
            await self._stream.send(data)
            return True
        except OSError:
            return False

    async def _send(self, request: Request, head: bytes) -> bool:
        """Whether all of it was sent; not when an answer comes before."""
        body = request.body
        if body is None or isinstance(body, bytes) and len(body) <= PIECE:
            return await self._put(head + (body or b""))
        if not await self._put(head):
            return False
        at, size = 0, len(body) if isinstance(body, bytes) else request.size
        while at < size:
            if isinstance(body, bytes):
                piece = body[at:at + PIECE]
            else:
                piece = await self._caller.transport.call(body.read, min(size - at, PIECE))
            if not piece:
                raise UsageError("the file has become shorter while it was sent")
            if self._stream.is_stale() or not await self._put(piece):
                return False
            at += len(piece)
        return True

    async def _receive(self, timeout: Optional[float]) -> None:
        try:
            data = await self._stream.receive(timeout)
            if data:
                self.answered = True
                body = self._parser.feed(data)
                if body:
                    self._early.append(body)
            else:
                self._parser.eof()
        except TimeoutError:
            # On some systems a connection's own timeout is one, too; then it is as good as lost.
            if timeout is None:
                self.close()
                raise self._caller.failed("the connection timed out", self.sent) from None
            raise
        except (OSError, EOFError) as error:
            self.close()
            raise self._caller.failed(_reason(error), self.sent) from None
        except GloveboxError:
            self.close()
            raise
        if self._parser.done:
            self._finish()

    async def read(self, timeout: Optional[float] = None) -> bytes:
        """The next piece of the body; b"" at its end. TimeoutError leaves the exchange as it is."""
        while not self._early:
            if self._parser.done:
                return b""
            if not self._open:
                raise self._caller.failed("the connection was closed", self.sent)
            await self._receive(timeout)
        return self._early.pop(0)

    async def read_all(self, most: Optional[int] = None) -> bytes:
        pieces: List[bytes] = []
        size = 0
        while True:
            piece = await self.read()
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            if most is not None and size > most:
                self.close()
                raise TooLargeError(f"the answer has more than {most} bytes")
            pieces.append(piece)

    def _finish(self) -> None:
        if self._open:
            self._open = False
            if self._parser.reusable and self.sent:
                self._caller.give_back(self._stream)
            else:
                self._stream.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._stream.close()

    def __del__(self) -> None:
        # Of a loop that was left without a word: asyncio does not tell us.
        self.close()


class Events:
    """The objects of an NDJSON body."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._lines = Lines()

    async def next(self, timeout: Optional[float] = None) -> Any:
        """The next one; None when the body has ended."""
        while True:
            line = self._lines.take()
            if line is not None:
                return decode_json(line)
            piece = await self.exchange.read(timeout)
            if not piece:
                return None
            self._lines.feed(piece)


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


_callers: "weakref.WeakSet[Caller]" = weakref.WeakSet()


class Caller:
    """The connections of a client to its server."""

    def __init__(self, transport: Transport, target: Target, retry_for: float, ssl_context: Any = None) -> None:
        self.transport, self.target, self.retry_for = transport, target, retry_for
        self._ssl_context = ssl_context
        self._lock = threading.Lock()
        self._idle: List[Stream] = []
        self._reached = False
        self._closed = False
        _callers.add(self)

    def failed(self, why: str, sent: bool) -> ConnectionFailed:
        error = ConnectionFailed(f"no answer from {self.target}: {why}")
        error.sent = sent
        return error

    # Connections

    def _take_idle(self, repeat: bool) -> Optional[Stream]:
        most = IDLE_SECONDS_MAX if repeat else FRESH_SECONDS
        while True:
            with self._lock:
                found = next((each for each in reversed(self._idle) if self.transport.may_use(each)), None)
                if found is None:
                    return None
                self._idle.remove(found)
            if time.monotonic() - found.idle_since < most and not found.is_stale():
                return found
            found.close()

    def give_back(self, stream: Stream) -> None:
        stream.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(stream)
            surplus = self._idle if self._closed else self._idle[:-IDLE_CONNECTIONS_MAX]
            self._idle = self._idle[len(surplus):]
        for each in surplus:
            each.close()

    async def _connect(self) -> Stream:
        address = self.target.known()
        if address is None:
            address = await self.transport.call(self.target.address)
        try:
            stream = await self.transport.connect(address, self._tls(address.tls))
        except (OSError, UnicodeError) as error:
            hint = "" if self._reached else "does the server run, and is this its address?"
            failure = self.failed(_reason(error), False)
            failure.hint = hint
            raise failure from error
        self._reached, stream.address = True, address
        return stream

    def _tls(self, wanted: bool) -> Any:
        if wanted and self._ssl_context is None:
            import ssl
            self._ssl_context = ssl.create_default_context()
        return self._ssl_context if wanted else None

    def close(self) -> None:
        """Closes the connections that are not in use; others are closed when they are given back."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for stream in idle:
            stream.close()

    def after_fork(self) -> None:
        idle, self._idle, self._lock = self._idle, [], threading.Lock()
        self.target.after_fork()
        for stream in idle:
            stream.forget()

    # Requests

    async def _begin(self, request: Request) -> Exchange:
        stream = self._take_idle(request.repeat)
        reused = stream is not None
        if stream is None:
            stream = await self._connect()
        exchange = Exchange(self, stream, request.method, reused)
        try:
            await exchange.begin(request, request.head(stream.address.host_header, stream.address.prefix, self.target.token))
        except BaseException as error:
            exchange.close()
            if isinstance(error, ConnectionFailed):
                # A connection that was kept too long says nothing about the server.
                error.stale = reused and not exchange.answered and not error.hangs
            raise
        return exchange

    async def _error_of(self, exchange: Exchange) -> GloveboxError:
        return self._error_from(exchange.head, await exchange.read_all(ERROR_BODY_MAX))

    def _error_from(self, head: Head, body: bytes) -> GloveboxError:
        try:
            answer = decode_json(body)
        except ProtocolError:
            answer = None
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            return self._for_this_program(error_from_object(answer["error"], head.status, head.retry_after))
        if head.status in (502, 503, 504) and body:
            return self.failed(f"a proxy answered with status {head.status}", True)
        code = next((code for code, row in CODES.items() if row.status == head.status), None)
        return error_from_object({"code": code, "message": f"the server answered with status {head.status}"}, head.status, head.retry_after)

    def _for_this_program(self, error: GloveboxError) -> GloveboxError:
        """The server means the operator, by options of the command. Of a private server that is whoever started this program."""
        weaker = re.search(r"--allow-weaker ([a-z,]+)", error.message) if self.target.private and isinstance(error, UnenforceableError) else None
        if weaker:
            error.hint = f"set GLOVEBOX_ALLOW_WEAKER={weaker.group(1)} in the environment before this program starts"
        return error

    async def attempt(self, request: Request, use: Callable[[Exchange], Awaitable[T]], patience: Optional[Patience] = None) -> T:
        """Sends a request, again when that may be, until `use` has got through the answer. An answer that is an error is raised."""
        patience = patience or Patience(self.retry_for)
        start = request.body.tell() if request.body is not None and not isinstance(request.body, bytes) else 0
        while True:
            began, delay = time.monotonic(), None
            try:
                exchange = await self._begin(request)
                if exchange.head.status < 300:
                    try:
                        return await use(exchange)
                    except BaseException:
                        exchange.close()
                        raise
                raise await self._error_of(exchange)
            except ConnectionFailed as error:
                if error.hangs or error.sent and not request.repeat or not error.sent and not self._reached:
                    raise
                if error.stale:
                    delay = 0.0
                else:
                    if time.monotonic() - began > LASTING_SECONDS:
                        patience.reset()
                    delay = patience.next_delay()
                if delay is None:
                    raise
            except (QuotaError, UnavailableError) as error:
                if error.hint and error.retry_after is None:  # a server of ours that names no time: an engine is missing, say
                    raise
                delay = patience.next_delay(error.retry_after)
                if delay is None:
                    raise
            if delay:
                await self.transport.sleep(delay)
            if request.body is not None and not isinstance(request.body, bytes):
                request.body.seek(start)

    async def status(self, request: Request) -> str:
        """Sends a request that only looks, once: "status" of the answer, which 503 may have as well as 200."""
        while True:
            try:
                exchange = await self._begin(request)
            except ConnectionFailed as error:
                if error.stale:
                    continue
                raise
            head, body = exchange.head, await exchange.read_all(ERROR_BODY_MAX)
            try:
                answer = decode_json(body) if head.status in (200, 503) else None
            except ProtocolError:
                answer = None
            said = answer.get("status") if isinstance(answer, dict) else None
            if isinstance(said, str):
                return said
            if head.status < 300:
                raise ProtocolError("the server does not say what its status is")
            raise self._error_from(head, body)

    async def open(self, request: Request, patience: Optional[Patience] = None) -> Exchange:
        """The answer's head is there and no error; the body is the caller's to read, and the exchange to close."""
        async def use(exchange: Exchange) -> Exchange:
            return exchange
        return await self.attempt(request, use, patience)

    async def events(self, request: Request, patience: Optional[Patience] = None) -> Events:
        exchange = await self.open(request, patience)
        if not exchange.head.headers.get("content-type", "").startswith(NDJSON):
            exchange.close()
            raise ProtocolError("the server did not answer with a stream of events")
        return Events(exchange)

    async def json(self, request: Request) -> Any:
        """The body as JSON; None when there is none."""
        async def use(exchange: Exchange) -> Any:
            body = await exchange.read_all()
            return decode_json(body) if body else None
        return await self.attempt(request, use)

    async def object(self, request: Request) -> Any:
        """The body as a JSON object."""
        found = await self.json(request)
        if not isinstance(found, dict):
            raise ProtocolError("the server answered with something that is not an object")
        return found

    async def fetch(self, request: Request, sink: BinaryIO, most: Optional[int]) -> int:
        """Writes the body into a file, from its beginning also when that takes several attempts. How many bytes."""
        async def use(exchange: Exchange) -> int:
            declared = exchange.head.headers.get("content-length", "")
            if most is not None and declared.isdigit() and int(declared) > most:
                raise TooLargeError(f"it has {declared} bytes, and at most {most} are wanted", hint="ask for more with max_bytes")
            await self.transport.call(sink.seek, 0)
            await self.transport.call(sink.truncate, 0)
            size = 0
            while True:
                piece = await exchange.read()
                if not piece:
                    return size
                size += len(piece)
                if most is not None and size > most:
                    raise TooLargeError(f"it has more than {most} bytes", hint="ask for more with max_bytes")
                await self.transport.call(sink.write, piece)
        return await self.attempt(request, use)


def _after_fork() -> None:
    for caller in list(_callers):
        caller.after_fork()


os.register_at_fork(after_in_child=_after_fork)
