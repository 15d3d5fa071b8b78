# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as a client needs it for this API, without input and output: requests become bytes, bytes become answers."""
from __future__ import annotations

import collections
import json
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Deque, Dict, List, Mapping, Optional, Union
from urllib.parse import quote, urlencode

from ._version import __version__
from .errors import ProtocolError, UsageError

HEAD_MAX = 65536
CHUNK_LINE_MAX = 4096

JSON = "application/json"
NDJSON = "application/x-ndjson"
OCTETS = "application/octet-stream"
TAR = "application/x-tar"

Query = Mapping[str, Union[None, bool, int, float, str]]


def path_of(*segments: str, query: Optional[Query] = None) -> str:
    """An address below the server's; each segment is encoded, also its slashes. Parameters that are None are left out."""
    path = "".join("/" + quote(segment.encode("utf-8", "surrogateescape"), safe="") for segment in segments)
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (query or {}).items() if value is not None}
    return path + ("?" + urlencode(given, quote_via=quote, errors="surrogateescape") if given else "")


def encode_json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"this cannot be sent as JSON: {error}") from None


@dataclass
class Request:
    """One request. repeat: it does no harm when it is done twice, or the server takes care of that by a key. waits: the answer comes when
    something has ended, whenever that is."""

    method: str
    path: str
    accept: str = JSON
    body: Union[None, bytes, BinaryIO] = field(default=None, repr=False)  # may hold secrets
    size: int = 0  # of a body that is a file
    content_type: str = JSON
    headers: Dict[str, str] = field(default_factory=dict)
    repeat: bool = True
    waits: bool = False
    sent: bool = False  # at least once, whole

    @classmethod
    def with_json(cls, method: str, path: str, body: Any, **more: Any) -> "Request":
        return cls(method, path, body=encode_json(body), **more)

    def head(self, host: str, prefix: str, token: Optional[str]) -> bytes:
        lines = [f"{self.method} {prefix}{self.path} HTTP/1.1", f"Host: {host}", f"User-Agent: glovebox-python/{__version__}",
                 f"Accept: {self.accept}"]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        if self.body is not None:
            size = len(self.body) if isinstance(self.body, bytes) else self.size
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {size}"]
        elif self.method not in ("GET", "HEAD", "DELETE"):
            lines.append("Content-Length: 0")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise UsageError("a token, a key or an address cannot have line ends in it")
        try:
            return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        except UnicodeEncodeError:
            raise UsageError("a token, a key or an address has characters that HTTP does not take there") from None


@dataclass(frozen=True)
class Head:
    """The head of an answer; names of fields in small letters."""

    status: int
    headers: Dict[str, str]
    keep_alive: bool

    @property
    def retry_after(self) -> Optional[float]:
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() else None


def parse_head(data: bytes) -> Head:
    lines = data.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit() and len(status) == 3):
        raise ProtocolError("what answers there does not speak HTTP/1.1", hint="is this the address of a glovebox server?")
    headers: Dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ProtocolError("the head of the answer is broken")
        headers[name.lower()] = value.strip(" \t")
    words = [word.strip() for word in headers.get("connection", "").lower().split(",")]
    return Head(int(status), headers, version == "HTTP/1.1" and "close" not in words)


class AnswerParser:
    """Takes bytes as they come. `head` is there when it is known, `done` when the body has ended; feed() gives what is of the body.

    An answer that ends too early is never taken for a whole one: eof() raises unless that is where the body ends.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._buffer = bytearray()
        self._step = self._read_head
        self._left = 0
        self.head: Optional[Head] = None
        self.done = False
        self._until_close = False

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        pieces: List[bytes] = []
        while not self.done and self._step(pieces):
            pass
        return b"".join(pieces)

    def eof(self) -> None:
        if self._until_close:
            self.done = True
        if not self.done:
            raise EOFError("the answer was cut off")

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request: the answer is over, nothing came behind it, and the server wants to."""
        return self.done and not self._until_close and not self._buffer and self.head is not None and self.head.keep_alive

    def _take_line(self, end: bytes, most: int) -> Optional[bytes]:
        at = self._buffer.find(end)
        if at > most or (at < 0 and len(self._buffer) > most):
            raise ProtocolError("a line of the answer is too long")
        if at < 0:
            return None
        line = bytes(self._buffer[:at])
        del self._buffer[:at + len(end)]
        return line

    # Steps: each takes what it can from the buffer, and returns whether the next one may be tried.

    def _read_head(self, pieces: List[bytes]) -> bool:
        data = self._take_line(b"\r\n\r\n", HEAD_MAX)
        if data is None:
            return False
        head = parse_head(data)
        if 100 <= head.status < 200:
            return True
        self.head = head
        self._begin_body(head)
        return True

    def _begin_body(self, head: Head) -> None:
        length, coding = head.headers.get("content-length"), head.headers.get("transfer-encoding")
        if self._method == "HEAD" or head.status in (204, 304):
            self.done = True
        elif coding is not None:
            if coding.lower() != "chunked":
                raise ProtocolError(f"the answer has an encoding that is not known here: {coding!r}")
            self._step = self._read_chunk_size
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise ProtocolError("the length of the answer is not a number")
            self._left, self._step = int(length), self._read_length
            self.done = self._left == 0
        else:
            self._until_close, self._step = True, self._read_rest

    def _take_left(self, pieces: List[bytes]) -> None:
        piece = bytes(self._buffer[:self._left])
        del self._buffer[:self._left]
        self._left -= len(piece)
        if piece:
            pieces.append(piece)

    def _read_length(self, pieces: List[bytes]) -> bool:
        self._take_left(pieces)
        self.done = self._left == 0
        return False

    def _read_rest(self, pieces: List[bytes]) -> bool:
        self._left = len(self._buffer)
        self._take_left(pieces)
        return False

    def _read_chunk_size(self, pieces: List[bytes]) -> bool:
        line = self._take_line(b"\r\n", CHUNK_LINE_MAX)
        if line is None:
            return False
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
            raise ProtocolError("the answer is not well chunked")
        self._left = int(digits, 16)
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self, pieces: List[bytes]) -> bool:
        if self._left:
            self._take_left(pieces)
        if self._left or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise ProtocolError("the answer is not well chunked")
        del self._buffer[:2]
        self._step = self._read_chunk_size
        return True

    def _read_trailer(self, pieces: List[bytes]) -> bool:
        line = self._take_line(b"\r\n", HEAD_MAX)
        if line is None:
            return False
        self.done = line == b""
        return True


class Lines:
    """Splits a body into lines: bytes in, whole lines out."""

    def __init__(self) -> None:
        self._pieces: List[bytes] = []
        self._ready: Deque[bytes] = collections.deque()

    def feed(self, data: bytes) -> None:
        lines = data.split(b"\n")
        if len(lines) > 1:
            self._ready.append(b"".join(self._pieces) + lines[0])
            self._ready += lines[1:-1]
            self._pieces = []
        if lines[-1]:
            self._pieces.append(lines[-1])

    def take(self) -> Optional[bytes]:
        """The next line that is not empty, or None when more has to come."""
        while self._ready:
            line = self._ready.popleft()
            if line.strip():
                return line
        return None


def decode_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise ProtocolError("the server sent something that is not JSON", hint="is this the address of a glovebox server?") from None
