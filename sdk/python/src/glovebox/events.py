# SPDX-License-Identifier: Apache-2.0
"""The events of a run (docs/api.md, Events), and what collects them into a result."""
from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

from .errors import GloveboxError, LostError, ProtocolError, error_from_object
from .results import Result, RunError, Value, Verdict, from_mapping


@dataclass(frozen=True)
class Started:
    """The code runs. time: seconds since then, as in all events."""

    seq: int
    time: float = 0.0


@dataclass(frozen=True)
class Output:
    """Something was printed. stream: "stdout" or "stderr"; offset: bytes of that stream before these."""

    seq: int
    time: float
    stream: str
    offset: int
    data: bytes = field(repr=False)
    text: str

    @property
    def is_stdout(self) -> bool:
        return self.stream == "stdout"


@dataclass(frozen=True)
class ResultValue:
    """A value: displayed, or that of the last expression."""

    seq: int
    time: float
    value: Value


@dataclass(frozen=True)
class ExceptionEvent:
    """The code ended by an exception."""

    seq: int
    time: float
    error: RunError


@dataclass(frozen=True)
class VerdictEvent:
    """The end. result: the whole of it, with all that was seen of the run."""

    seq: int
    result: Result

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict


Event = Union[Started, Output, ResultValue, ExceptionEvent, VerdictEvent]


class Collector:
    """Turns the objects of a stream into events, each once and in order, and at the end into a Result.

    What it has seen before (a stream that was begun anew) is passed over; a number that is missing is an error, as output would be missing
    with it. next_seq is where a stream has to go on.
    """

    def __init__(self, run_id: str = "", from_seq: int = 0) -> None:
        self.run_id = run_id
        self.first_seq = self.next_seq = from_seq
        self.result: Optional[Result] = None
        self.failure: Optional[GloveboxError] = None
        self._output: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        # Bytes of each stream so far; None when the first events were left out.
        first = 0 if from_seq == 0 else None
        self._sizes: Dict[str, Optional[int]] = {"stdout": first, "stderr": first}
        self._values: List[Any] = []
        self._error: Any = None

    @property
    def ended(self) -> bool:
        return self.result is not None or self.failure is not None

    def feed(self, o: Any) -> Optional[Event]:
        """The event of an object, or None for one that says nothing new. An `error` event is raised."""
        if not isinstance(o, dict):
            raise ProtocolError("the server sent an event that is not an object")
        kind, seq = o.get("event"), o.get("seq")
        if not isinstance(seq, int):
            return None  # ping
        if seq < self.next_seq:
            return None
        if seq > self.next_seq:
            raise LostError(f"events {self.next_seq} to {seq - 1} of the run are missing")
        self.next_seq = seq + 1
        t_usec = o.get("t_usec")
        time = t_usec / 1e6 if isinstance(t_usec, (int, float)) else 0.0
        if kind == "started":
            return Started(seq, time)
        if kind == "stdout" or kind == "stderr":
            return self._feed_output(o, seq, time, kind)
        if kind == "result":
            self._values.append(o.get("value"))
            return ResultValue(seq, time, Value.from_object(o.get("value")))
        if kind == "exception":
            self._error = o.get("error")
            return ExceptionEvent(seq, time, from_mapping(RunError, self._error))
        if kind == "verdict":
            self.result = self._build(o)
            return VerdictEvent(seq, self.result)
        if kind == "error":
            self.failure = error_from_object(o.get("error"))
            raise self.failure
        return None

    def _feed_output(self, o: Dict[str, Any], seq: int, time: float, stream: str) -> Output:
        text, offset = o.get("data"), o.get("offset")
        if isinstance(text, str):
            data = text.encode("utf-8", "surrogatepass")
        else:
            data = self._decode(o.get("data_base64"))
            text = data.decode("utf-8", "replace")
        if not isinstance(offset, int):
            raise ProtocolError("the server sent output without its offset")
        before = self._sizes[stream]
        if before is not None and offset != before:
            raise LostError(f"{offset - before} bytes of {stream} are missing")
        self._sizes[stream] = offset + len(data)
        self._output[stream].append(data)
        return Output(seq, time, stream, offset, data, text)

    @staticmethod
    def _decode(coded: Any) -> bytes:
        try:
            return base64.b64decode(coded, validate=True)
        except (TypeError, ValueError):
            raise ProtocolError("the server sent output that cannot be read") from None

    def _build(self, o: Dict[str, Any]) -> Result:
        raw = {name: value for name, value in o.items() if name not in ("event", "seq", "t_usec")}
        for stream, pieces in self._output.items():
            data = b"".join(pieces)
            try:
                raw[stream] = data.decode()
            except UnicodeDecodeError:
                raw[stream] = data.decode("utf-8", "replace")
                raw[stream + "_base64"] = base64.b64encode(data).decode()
        raw["results"], raw["error"] = self._values, self._error
        return Result(raw, self.run_id or None)
