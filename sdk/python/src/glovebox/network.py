# SPDX-License-Identifier: Apache-2.0
"""What code in a box may reach, and what it has reached: docs/network.md, with types."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .errors import UsageError

#: "pypi.org", "http://deb.debian.org/debian/", "tcp://github.com:22", a preset ("python-packages"), or {"host", "ports", "protocol", "methods", "paths", "headers",
#: "intercept"}.
Rule = Union[str, Mapping[str, Any]]

_PASSED = ("allowed", "unresolved", "unreached")  # the last two: the policy let it, and nobody was there


def _count(source: Mapping[str, Any], name: str) -> Optional[int]:
    """None: not known."""
    value = source.get(name)
    return value if isinstance(value, int) else None


def _text(source: Mapping[str, Any], name: str) -> Optional[str]:
    value = source.get(name)
    return value if isinstance(value, str) else None


def rules_body(allow: Sequence[Rule]) -> List[Any]:
    """As the API has them."""
    if isinstance(allow, (str, Mapping)):
        raise UsageError("allow is a list of rules", hint=f"allow=[{allow!r}]", details={"field": "allow"})
    return [each if isinstance(each, str) else dict(each) for each in allow]


def ranges_body(ranges: Sequence[str]) -> List[str]:
    if isinstance(ranges, str):
        raise UsageError("ranges of addresses are a list", hint=f"[{ranges!r}]", details={"field": "allow_ranges"})
    return [str(each) for each in ranges]


@dataclass(frozen=True)
class NetworkHost:
    """What was asked of one host and port, and what became of it.

    decision: "allowed"; "unresolved" or "unreached": allowed, and nobody was there; else why it was refused: "no-rule", "port", "protocol", "method", "path", "body",
    "address", "server-name", "not-tls", "malformed", "bytes", "requests", "connections". rule: by which it was decided; None: none.
    """

    host: str = ""
    port: Optional[int] = 0
    protocol: str = ""
    decision: str = ""
    rule: Optional[str] = None
    requests: Optional[int] = 0
    bytes_up: Optional[int] = 0
    bytes_down: Optional[int] = 0

    @classmethod
    def from_object(cls, o: Mapping[str, Any]) -> "NetworkHost":
        return cls(host=_text(o, "host") or "", port=_count(o, "port"), protocol=_text(o, "protocol") or "", decision=_text(o, "decision") or "",
                   rule=_text(o, "rule") or None, requests=_count(o, "requests"), bytes_up=_count(o, "bytes_up"), bytes_down=_count(o, "bytes_down"))

    @property
    def denied(self) -> bool:
        """Whether the policy said no."""
        return self.decision not in _PASSED

    def __str__(self) -> str:
        place = f"{f'[{self.host}]' if ':' in self.host else self.host or '(others)'}:{self.port}"
        return f"{place} {self.decision}, {self.requests} request{'' if self.requests == 1 else 's'}"


def _hosts(source: Any) -> List[NetworkHost]:
    return [NetworkHost.from_object(each) for each in source if isinstance(each, dict)] if isinstance(source, list) else []


@dataclass(frozen=True)
class NetworkUse:
    """The traffic of a run, by host. cut: the budget that ended its connections ("bytes", "requests"); None: none. A
    number that is None is not known."""

    requests: Optional[int] = 0
    denied: Optional[int] = 0
    bytes_up: Optional[int] = 0
    bytes_down: Optional[int] = 0
    cut: Optional[str] = None
    hosts: List[NetworkHost] = field(default_factory=list)

    @classmethod
    def from_object(cls, o: Mapping[str, Any]) -> "NetworkUse":
        return cls(requests=_count(o, "requests"), denied=_count(o, "denied"), bytes_up=_count(o, "bytes_up"), bytes_down=_count(o, "bytes_down"),
                   cut=_text(o, "cut"), hosts=_hosts(o.get("hosts")))

    @property
    def refused(self) -> List[NetworkHost]:
        """What the policy did not let through."""
        return [each for each in self.hosts if each.denied]


@dataclass(frozen=True)
class NetworkBudget:
    """Bytes up and down together, requests, connections at a time. 0: no limit. None: not known."""

    bytes: Optional[int] = 0
    requests: Optional[int] = 0
    connections: Optional[int] = 0


def _budget(source: Any) -> NetworkBudget:
    o: Mapping[str, Any] = source if isinstance(source, dict) else {}
    return NetworkBudget(bytes=_count(o, "bytes"), requests=_count(o, "requests"), connections=_count(o, "connections"))


@dataclass(frozen=True)
class NetworkInfo:
    """What a session may reach, and what it has reached so far. mode: "none", "allowlist" or "host"; without an allowlist the rest is
    empty; with "host" nobody counts, and numbers of what was used are None."""

    mode: str
    rules: List[Dict[str, Any]] = field(default_factory=list)
    ranges: List[str] = field(default_factory=list)
    limits: NetworkBudget = NetworkBudget()
    used: NetworkUse = NetworkUse()
    open: Optional[int] = 0  #: connections right now; None: not known
    raw: Dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def from_object(cls, o: Dict[str, Any]) -> "NetworkInfo":
        rules, ranges, used = o.get("rules"), o.get("ranges"), o.get("used")
        total: Dict[str, Any] = dict(used) if isinstance(used, dict) else {}
        return cls(mode=_text(o, "mode") or "", rules=[each for each in rules if isinstance(each, dict)] if isinstance(rules, list) else [],
                   ranges=[str(each) for each in ranges] if isinstance(ranges, list) else [], limits=_budget(o.get("limits")),
                   used=NetworkUse.from_object({**total, "cut": o.get("cut"), "hosts": o.get("hosts")}), open=_count(o, "open"), raw=o)

    @property
    def hosts(self) -> List[NetworkHost]:
        return self.used.hosts

    @property
    def cut(self) -> Optional[str]:
        """The budget that was used up; None: none."""
        return self.used.cut
