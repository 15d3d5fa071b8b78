# SPDX-License-Identifier: Apache-2.0
"""What the guard found in code: the object `guard` of docs/results.md, with types."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List

from . import _display


@dataclass(frozen=True)
class Finding:
    """A rule that code meets. action: "block", "warn" or "log". line and column count from 1; 0: not known."""

    rule: str = ""
    set: str = ""
    action: str = ""
    line: int = 0
    column: int = 0
    message: str = ""
    remedy: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the code is not run because of it."""
        return self.action == "block"

    @property
    def place(self) -> str:
        """"line 3, column 7", or "" where that is not known."""
        return f"line {self.line}, column {self.column}" if self.line > 0 else ""

    def __str__(self) -> str:
        what = " ".join(part for part in (self.message, self.remedy) if part)
        return ": ".join(part for part in (self.place, what) if part) + f" [{self.rule}]"


class Findings(List[Finding]):
    """A list of findings, the strongest first. more: how many were found beyond those that are listed."""

    def __init__(self, findings: Any = (), more: int = 0) -> None:
        super().__init__(findings)
        self.more = more

    @classmethod
    def from_object(cls, source: Any) -> "Findings":
        from .results import from_mapping
        source = source if isinstance(source, dict) else {}
        listed, more = source.get("findings"), source.get("more")
        found = [from_mapping(Finding, each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        return cls(found, more if isinstance(more, int) else 0)

    @property
    def blocked(self) -> bool:
        """Whether such code is not run."""
        return any(finding.blocks for finding in self)

    @property
    def blocking(self) -> List[Finding]:
        """Those for which it is not run."""
        return [finding for finding in self if finding.blocks]

    @property
    def warnings(self) -> List[Finding]:
        """Those that whoever wrote the code should know."""
        return [finding for finding in self if finding.action == "warn"]

    def _repr_html_(self) -> str:
        return _display.findings_html(self)
