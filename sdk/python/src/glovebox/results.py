# SPDX-License-Identifier: Apache-2.0
"""What a run came to: the result object of docs/results.md, with types.

Everything here is read from one dict, the object as the server sent it (Result.raw). A key that a newer server adds is there in `raw` and
nowhere else. A number that is missing or null was not measured: it is None, never 0.
"""
from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, TypeVar, Union, cast

from . import _display
from .errors import ProtocolError, verdict_error
from .findings import Findings
from .network import NetworkUse

T = TypeVar("T")


def from_mapping(cls: Type[T], source: Any) -> T:
    """A dataclass from an object of the API: what is missing or null keeps its default."""
    mapping: Mapping[str, Any] = source if isinstance(source, dict) else {}
    names = [field.name for field in fields(cast(Any, cls))]
    return cls(**{name: mapping[name] for name in names if mapping.get(name) is not None})


class Verdict(str):
    """Why a run ended. It is the kind as a str, with more to know.

        >>> verdict = box.run("while True: pass", timeout=0.5).verdict
        >>> verdict == "timeout", verdict.message, verdict.limit, verdict.unit
        (True, 'Stopped by the time limit of 500 ms: ...', 500000, 'usec')

    limit and peak are of the resource it is about, in `unit` ("bytes", "inodes", "usec", "tasks"); None when it is about none.
    """

    message: str
    limit: Optional[int]
    peak: Optional[int]
    unit: Optional[str]

    def __new__(cls, kind: str, message: str = "", limit: Optional[int] = None, peak: Optional[int] = None,
                unit: Optional[str] = None) -> "Verdict":
        self = super().__new__(cls, kind)
        self.message, self.limit, self.peak, self.unit = message, limit, peak, unit
        return self

    def __getnewargs__(self) -> Any:  # more of them than str has
        return str(self), self.message, self.limit, self.peak, self.unit

    @classmethod
    def from_object(cls, source: Any) -> "Verdict":
        if not isinstance(source, dict):
            return cls("lost", "the server said nothing about the end of this run")
        return cls(str(source.get("kind") or "lost"), str(source.get("message") or ""), source.get("limit"),
                   source.get("peak"),
                   source.get("unit"))

    @property
    def kind(self) -> str:
        """ok, error, timeout, cpu, memory, pids, disk, output, syscall, blocked, cancelled or lost."""
        return str.__str__(self)

    @property
    def ok(self) -> bool:
        return self == "ok"


@dataclass(frozen=True)
class RunError:
    """The exception that ended the code, as the code's own process told it."""

    name: str = ""
    value: str = ""
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" if self.value else self.name


@dataclass(frozen=True)
class Image:
    """A picture: its bytes and their MIME type."""

    data: bytes
    mime: str

    def __repr__(self) -> str:
        return f"<Image {self.mime}, {len(self.data)} bytes>"

    @property
    def extension(self) -> str:
        """For a file's name: "png"."""
        return {"image/svg+xml": "svg", "image/jpeg": "jpg"}.get(self.mime, self.mime.partition("/")[2])

    def _repr_html_(self) -> str:
        return _display.image_html(self.mime, self.data)


def _bytes_of(part: Any) -> Optional[bytes]:
    """Bytes of a part of a value: {"base64": ...}, or text."""
    if isinstance(part, dict) and isinstance(part.get("base64"), str):
        try:
            return base64.b64decode(part["base64"], validate=True)
        except (binascii.Error, ValueError):
            return None
    return part.encode("utf-8", "surrogatepass") if isinstance(part, str) else None


class Value:
    """A value that a run gave: that of the last expression (main), or one that was displayed.

    data: its forms by MIME type, as the server sent them: text, JSON, or {"base64": ...}.

        >>> value = box.run("display({'text/html': '<b>1</b>', 'text/plain': '1'}, raw=True)").results[0]
        >>> value.html, value.text, value.main
        ('<b>1</b>', '1', False)
    """

    __slots__ = ("data", "main")

    def __init__(self, data: Mapping[str, Any], main: bool = False) -> None:
        self.data: Dict[str, Any] = dict(data)
        self.main = main

    @classmethod
    def from_object(cls, source: Any) -> "Value":
        source = source if isinstance(source, dict) else {}
        data = source.get("data")
        return cls(data if isinstance(data, dict) else {}, source.get("main") is True)

    def _text(self, mime: str) -> Optional[str]:
        part = self.data.get(mime)
        if isinstance(part, str):
            return part
        found = _bytes_of(part)
        return found.decode("utf-8", "replace") if found is not None else None

    @property
    def mimes(self) -> List[str]:
        return list(self.data)

    def content(self, mime: str) -> Optional[bytes]:
        """The form of that type as bytes, or None."""
        return _bytes_of(self.data.get(mime))

    @property
    def text(self) -> Optional[str]:
        return self._text("text/plain")

    @property
    def html(self) -> Optional[str]:
        """As the code made it: not to be put into a page as it is."""
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._text("text/markdown")

    @property
    def latex(self) -> Optional[str]:
        return self._text("text/latex")

    @property
    def svg(self) -> Optional[str]:
        """As the code made it: SVG can hold scripts."""
        return self._text("image/svg+xml")

    @property
    def png(self) -> Optional[bytes]:
        return self.content("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self.content("image/jpeg")

    @property
    def json(self) -> Any:
        """What application/json has: parsed where it came as text. None when there is none."""
        part = self.data.get("application/json")
        if isinstance(part, str):
            import json
            try:
                return json.loads(part)
            except ValueError:
                return part
        return part

    @property
    def images(self) -> List[Image]:
        found = ((mime, self.content(mime)) for mime in self.data if mime.startswith("image/"))
        return [Image(data, mime) for mime, data in found if data is not None]

    def __repr__(self) -> str:
        text = self.text
        return f"<Value {_display.shorten(text)}>" if text is not None else f"<Value {', '.join(self.data)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and (self.data, self.main) == (other.data, other.main)

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        return _display.value_html(self)


@dataclass(frozen=True)
class Peak:
    """The most that was used. None: not known, as after a run that was lost."""

    memory_bytes: Optional[int] = None
    cpu_usec: Optional[int] = None
    pids: Optional[int] = None
    disk_bytes: Optional[int] = None
    inodes: Optional[int] = None
    output_bytes: Optional[int] = None


@dataclass(frozen=True)
class Limits:
    """What was allowed. 0: no limit (cpu_time_usec alone can have none). None: not known."""

    memory_bytes: Optional[int] = None
    cpu_milli: Optional[int] = None
    timeout_usec: Optional[int] = None
    cpu_time_usec: Optional[int] = None
    pids: Optional[int] = None
    tmp_bytes: Optional[int] = None
    disk_bytes: Optional[int] = None
    inodes: Optional[int] = None
    output_bytes: Optional[int] = None
    nofile: Optional[int] = None


@dataclass(frozen=True)
class Control:
    """A control of the box, and whether it was enforced. state: enforced, weaker, off or unknown."""

    name: str = ""
    state: str = "unknown"
    how: str = ""

    @property
    def enforced(self) -> bool:
        return self.state == "enforced"


def controls_by_name(source: Any) -> Dict[str, Control]:
    found = (from_mapping(Control, each) for each in source) if isinstance(source, list) else ()
    return {control.name: control for control in found}


class Result:
    """How a run ended, and what it gave.

        >>> result = box.run("print('a'); 6 * 7")
        >>> result.stdout, result.text, result.verdict
        ('a\\n', '42', 'ok')
        >>> result.controls["network"].state
        'enforced'

    In a notebook it shows itself; see docs/python.md.
    """

    def __init__(self, raw: Mapping[str, Any], id: Optional[str] = None) -> None:
        self.raw: Dict[str, Any] = dict(raw)
        self.id: str = id or str(self.raw.get("id") or "")
        self.verdict = Verdict.from_object(self.raw.get("verdict"))
        listed = self.raw.get("results")
        self.results: List[Value] = [Value.from_object(each) for each in listed] if isinstance(listed, list) else []

    @property
    def ok(self) -> bool:
        """Whether the verdict is ok."""
        return self.verdict == "ok"

    # What it printed

    def _stream(self, name: str) -> Tuple[str, Optional[bytes]]:
        text, exact = self.raw.get(name), self.raw.get(name + "_base64")
        data = _bytes_of({"base64": exact})
        if exact is not None and data is None:
            raise ProtocolError(f"the server sent {name} in a form that cannot be read")
        return text if isinstance(text, str) else "", data

    @property
    def stdout(self) -> str:
        return self._stream("stdout")[0]

    @property
    def stderr(self) -> str:
        return self._stream("stderr")[0]

    @property
    def stdout_bytes(self) -> bytes:
        text, exact = self._stream("stdout")
        return text.encode() if exact is None else exact

    @property
    def stderr_bytes(self) -> bytes:
        text, exact = self._stream("stderr")
        return text.encode() if exact is None else exact

    @property
    def backend(self) -> str:
        """Who isolated: "native" or "docker"."""
        return str(self.raw.get("backend") or "")

    @property
    def truncated(self) -> Optional[bool]:
        """Whether more was written than the limit of output let through; None when that is not known."""
        return _flag(self.raw, "truncated")

    # What it gave

    @property
    def main(self) -> Optional[Value]:
        """The value of the last expression, or None."""
        return next((value for value in self.results if value.main), None)

    @property
    def text(self) -> Optional[str]:
        """The value of the last expression as text, or None."""
        value = self.main
        return value.text if value is not None else None

    @property
    def images(self) -> List[Image]:
        """All pictures among the values; of one that comes in several forms the first."""
        return [value.images[0] for value in self.results if value.images]

    @property
    def error(self) -> Optional[RunError]:
        source = self.raw.get("error")
        return from_mapping(RunError, source) if isinstance(source, dict) else None

    # How it ended

    @property
    def exit_code(self) -> Optional[int]:
        return self.raw.get("exit_code")

    @property
    def signal(self) -> Optional[str]:
        return self.raw.get("signal")

    @property
    def duration(self) -> Optional[float]:
        """Seconds by the wall clock; None when that is not known, as after a run that was lost."""
        return _seconds(self.raw.get("duration_ms"))

    @property
    def cpu_time(self) -> Optional[float]:
        """Seconds of processor time; None when that is not known."""
        return _seconds(self.raw.get("cpu_ms"))

    @property
    def state_kept(self) -> Optional[bool]:
        """Whether the interpreter lives on with its variables; None for a program of its own, and when it is not
        known."""
        return _flag(self.raw.get("state"), "kept")

    @property
    def state_restarted(self) -> Optional[bool]:
        """Whether the run began with a new interpreter, because the one before was lost; None as for state_kept."""
        return _flag(self.raw.get("state"), "restarted")

    @property
    def context(self) -> Optional[str]:
        """The id of the interpreter, or None."""
        return self.raw.get("context")

    @property
    def language(self) -> str:
        return str(self.raw.get("language") or "")

    @property
    def peak(self) -> Peak:
        return from_mapping(Peak, self.raw.get("peaks"))

    @property
    def limits(self) -> Limits:
        return from_mapping(Limits, self.raw.get("limits"))

    @property
    def controls(self) -> Dict[str, Control]:
        """What was enforced, by name."""
        return controls_by_name(self.raw.get("controls"))

    @property
    def guard(self) -> Findings:
        """What the guard found in the code, the strongest first. With the verdict "blocked" nothing was run, and the first says why.

            >>> result = box.run("open('/var/run/docker.sock')")
            >>> result.verdict, result.guard[0].rule, result.guard[0].line
            ('blocked', 'container-socket', 1)
        """
        return Findings.from_object(self.raw.get("guard"))

    @property
    def scrubbed(self) -> Dict[str, int]:
        """How often [scrubbed:NAME] stands in output, values and errors, by name: of a secret, or of a shape ("github-token")."""
        source = self.raw.get("scrubbed")
        names = source.get("names") if isinstance(source, dict) else None
        return {str(name): count for name, count in names.items() if isinstance(count, int)} if isinstance(names, dict) else {}

    @property
    def network(self) -> Optional[NetworkUse]:
        """What the run has sent where, and what was refused; None unless the network is an allowlist.

            >>> result = glovebox.run("import urllib.request as r; r.urlopen('https://example.com')", allow=["pypi.org"])
            >>> [(each.host, each.port, each.decision) for each in result.network.refused]
            [('example.com', 443, 'no-rule')]
        """
        source = self.raw.get("network")
        return NetworkUse.from_object(source) if isinstance(source, dict) else None

    @property
    def notes(self) -> List[str]:
        """Sentences: limits that were hit although the verdict is another, controls that were not enforced in full."""
        listed = self.raw.get("notes")
        return [str(each) for each in listed] if isinstance(listed, list) else []

    def raise_for_verdict(self) -> "Result":
        """Raises a VerdictError unless the verdict is ok; the result itself when it is.

            >>> box.run("1 / 0").raise_for_verdict()
            Traceback (most recent call last):
            glovebox.errors.ErrorVerdict: ZeroDivisionError: division by zero
        """
        if not self.ok:
            raise verdict_error(self)
        return self

    # How it shows itself

    def __repr__(self) -> str:
        parts = [f"{name}={_display.shorten(text)}" for name, text in
                 (("stdout", self.stdout), ("stderr", self.stderr), ("text", self.text)) if text]
        if self.images:
            parts.append(f"images={len(self.images)}")
        if self.error:
            parts.append(f"error={_display.shorten(str(self.error))}")
        if self.verdict == "blocked" and self.guard:
            parts.append(f"rule={self.guard[0].rule} line={self.guard[0].line}")
        if self.scrubbed:
            parts.append(f"scrubbed={sum(self.scrubbed.values())}")
        if self.network is not None and self.network.denied:
            parts.append(f"network_denied={self.network.denied}")
        return " ".join(["<Result", self.verdict.kind, *parts]) + ">"

    def _repr_html_(self) -> str:
        return _display.result_html(self)

    def _repr_png_(self) -> Optional[bytes]:
        pictures = self.images
        return pictures[0].data if len(pictures) == 1 and pictures[0].mime == "image/png" else None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Union[str, bytes]]:
        bundle: Dict[str, Union[str, bytes]] = {"text/plain": _display.result_text(self), "text/html": self._repr_html_()}
        picture = self._repr_png_()
        if picture is not None:
            bundle["image/png"] = picture
        return {mime: part for mime, part in bundle.items()
                if (not include or mime in include) and not (exclude and mime in exclude)}


def _seconds(milliseconds: Any) -> Optional[float]:
    return milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None


def _flag(source: Any, name: str) -> Optional[bool]:
    value = source.get(name) if isinstance(source, dict) else None
    return value if isinstance(value, bool) else None
