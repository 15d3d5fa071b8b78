# SPDX-License-Identifier: Apache-2.0
"""What the server says of sessions, runs, files and itself, with types. `raw` is always the object as it was sent."""
from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from .errors import ProtocolError
from .results import Control, Result, controls_by_name

Json = Dict[str, Any]


def parse_time(text: Any) -> Optional[datetime.datetime]:
    """RFC 3339 in UTC, as the API writes it; None for null."""
    if not isinstance(text, str):
        return None
    # Before 3.11 fromisoformat() does not know "Z".
    return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def _text(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _count(source: Mapping[str, Any], name: str) -> Optional[int]:
    """None: not known."""
    value = source.get(name)
    return value if isinstance(value, int) else None


def _number(source: Mapping[str, Any], name: str) -> Optional[float]:
    value = source.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def objects_of(source: Mapping[str, Any], name: str) -> List[Json]:
    """A list of objects. An answer without it is an error, not an empty list."""
    value = source.get(name)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ProtocolError(f"the server's answer has no list {name}")
    return value


def _part(source: Mapping[str, Any], name: str) -> Json:
    value = source.get(name)
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class SessionInfo:
    """A session that lives."""

    id: str
    state: str
    name: Optional[str]
    template: Optional[str]
    warm: bool
    backend: str
    runtime: Optional[str]
    image: Optional[str]
    created_at: Optional[datetime.datetime]
    last_used_at: Optional[datetime.datetime]
    expires_at: Optional[datetime.datetime]
    idle_timeout: Optional[float]
    max_lifetime: Optional[float]
    metadata: Dict[str, str]
    policy: Json
    secrets: List[str]  #: their names
    workspace: Json
    runs_active: Optional[int]
    runs_total: Optional[int]
    controls: Dict[str, Control]
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "SessionInfo":
        runs, secrets = _part(o, "runs"), o.get("secrets")
        return cls(
            id=_text(o, "id"), state=_text(o, "state"), name=o.get("name"), template=o.get("template"), warm=o.get("warm") is True,
            backend=_text(o, "backend"), runtime=o.get("runtime"), image=o.get("image"), created_at=parse_time(o.get("created_at")),
            last_used_at=parse_time(o.get("last_used_at")),
            expires_at=parse_time(o.get("expires_at")), idle_timeout=_number(o, "idle_timeout"),
            max_lifetime=_number(o, "max_lifetime"), metadata=_part(o, "metadata"), policy=_part(o, "policy"),
            secrets=[str(each) for each in secrets] if isinstance(secrets, list) else [],
            workspace=_part(o, "workspace"), runs_active=_count(runs, "active"), runs_total=_count(runs, "total"),
            controls=controls_by_name(o.get("controls")), raw=o)


@dataclass(frozen=True)
class ContextInfo:
    """An interpreter of a session."""

    id: str
    language: str
    alive: bool
    busy: bool
    runs: Optional[int]
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "ContextInfo":
        return cls(id=_text(o, "id"), language=_text(o, "language"), alive=o.get("alive") is True, busy=o.get("busy") is True,
                   runs=_count(o, "runs"), raw=o)

    @property
    def default(self) -> Optional[bool]:
        """Whether it is what runs of its language get that name no context; None when the server does not say."""
        value = self.raw.get("default")
        return value if isinstance(value, bool) else None


@dataclass(frozen=True)
class RunInfo:
    """The record of a run. result: None until it has ended, and in lists."""

    id: str
    session: Optional[str]
    context: Optional[str]
    language: str
    state: str
    created_at: Optional[datetime.datetime]
    started_at: Optional[datetime.datetime]
    ended_at: Optional[datetime.datetime]
    code_sha256: str
    events: Optional[int]
    result: Optional[Result]
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "RunInfo":
        result = o.get("result")
        return cls(
            id=_text(o, "id"), session=o.get("session"), context=o.get("context"), language=_text(o, "language"), state=_text(o, "state"),
            created_at=parse_time(o.get("created_at")), started_at=parse_time(o.get("started_at")), ended_at=parse_time(o.get("ended_at")),
            code_sha256=_text(o, "code_sha256"), events=_count(o, "events"),
            result=Result(result, _text(o, "id")) if isinstance(result, dict) and "verdict" in result else None, raw=o)

    @property
    def ended(self) -> bool:
        return self.state == "ended"


@dataclass(frozen=True)
class FileEntry:
    """A file of a workspace. type: "file", "directory", "link" or "other". A size or mode that is None is not known."""

    name: str
    type: str
    size: Optional[int]
    mode: Optional[int]
    modified_at: Optional[datetime.datetime]
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "FileEntry":
        mode = o.get("mode")
        return cls(name=_text(o, "name"), type=_text(o, "type"), size=_count(o, "size"),
                   mode=int(mode, 8) if isinstance(mode, str) else _count(o, "mode"),
                   modified_at=parse_time(o.get("modified_at")), raw=o)

    @property
    def name_bytes(self) -> bytes:
        """The name as it is; `name` has U+FFFD for what is not UTF-8."""
        exact = self.raw.get("name_base64")
        return base64.b64decode(exact) if isinstance(exact, str) else self.name.encode("utf-8", "surrogatepass")

    @property
    def is_file(self) -> bool:
        return self.type == "file"

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"


@dataclass(frozen=True)
class Stats:
    """One sample of what a session or a run uses. None where the host has no counter, and for `cpu_percent` in a first sample."""

    time: Optional[datetime.datetime]
    session: Optional[str]
    run: Optional[str]
    cpu_usec: Optional[int]
    cpu_percent: Optional[float]
    cpu_limit_milli: Optional[int]
    memory_bytes: Optional[int]
    memory_peak_bytes: Optional[int]
    memory_limit_bytes: Optional[int]
    pids: Optional[int]
    pids_peak: Optional[int]
    pids_limit: Optional[int]
    disk_bytes: Optional[int]
    disk_inodes: Optional[int]
    disk_limit_bytes: Optional[int]
    io_read_bytes: Optional[int]
    io_write_bytes: Optional[int]
    network_requests: Optional[int]
    network_denied: Optional[int]
    network_bytes_up: Optional[int]
    network_bytes_down: Optional[int]
    network_open: Optional[int]
    output_bytes: Optional[int]
    output_bytes_per_second: Optional[float]
    runs_active: Optional[int]
    runs_total: Optional[int]
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "Stats":
        cpu, memory, pids, disk = _part(o, "cpu"), _part(o, "memory"), _part(o, "pids"), _part(o, "disk")
        io, network, output, runs = _part(o, "io"), _part(o, "network"), _part(o, "output"), _part(o, "runs")
        return cls(
            time=parse_time(o.get("time")), session=o.get("session"), run=o.get("run"),
            cpu_usec=cpu.get("usec"), cpu_percent=cpu.get("percent"), cpu_limit_milli=cpu.get("limit_milli"),
            memory_bytes=memory.get("bytes"), memory_peak_bytes=memory.get("peak_bytes"), memory_limit_bytes=memory.get("limit_bytes"),
            pids=pids.get("current"), pids_peak=pids.get("peak"), pids_limit=pids.get("limit"),
            disk_bytes=disk.get("bytes"), disk_inodes=disk.get("inodes"), disk_limit_bytes=disk.get("limit_bytes"),
            io_read_bytes=io.get("read_bytes"), io_write_bytes=io.get("write_bytes"),
            network_requests=network.get("requests"), network_denied=network.get("denied"), network_bytes_up=network.get("bytes_up"),
            network_bytes_down=network.get("bytes_down"), network_open=network.get("open"),
            output_bytes=output.get("bytes"), output_bytes_per_second=output.get("bytes_per_second"),
            runs_active=runs.get("active"), runs_total=runs.get("total"), raw=o)


@dataclass(frozen=True)
class ServerStats:
    """One sample of the server and of all that the tenant has alive."""

    server: Json
    samples: List[Stats]
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "ServerStats":
        return cls(server=_part(o, "server"), samples=[Stats.from_object(each) for each in objects_of(o, "samples")],
                   raw=o)


@dataclass(frozen=True)
class ServerInfo:
    """The server, and what this caller may do there."""

    version: str
    api: str
    backend: str
    backends: List[str]
    tenant: str
    scopes: List[str]
    quota: Json
    used: Json
    raw: Json = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Json) -> "ServerInfo":
        scopes, backends = o.get("scopes"), o.get("backends")
        return cls(version=_text(o, "version"), api=_text(o, "api"), backend=_text(o, "backend"),
                   backends=[str(each) for each in backends] if isinstance(backends, list) else [], tenant=_text(o, "tenant"),
                   scopes=[str(each) for each in scopes] if isinstance(scopes, list) else [], quota=_part(o, "quota"), used=_part(o, "used"), raw=o)
