# SPDX-License-Identifier: Apache-2.0
"""A run, as a model reads it."""
from __future__ import annotations

from ..results import Result

NAME = "run_python"
DESCRIPTION = ("Runs Python code in a sandbox and returns what it prints, the value of its last expression, and errors. Variables and files in /sandbox last from one "
               "call to the next. There is no network, or only to hosts that were allowed. Figures of matplotlib are returned as pictures.")
TEXT_MAX = 50_000  # characters; what is left out is said
REFUSED_MAX = 8    # hosts that are named

PARAMETERS = {"type": "object", "properties": {"code": {"type": "string", "description": "the Python code to run"}}, "required": ["code"], "additionalProperties": False}


def _cut(text: str) -> str:
    if len(text) <= TEXT_MAX:
        return text
    half = TEXT_MAX // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def text_of(result: Result) -> str:
    """Output, value and errors as one text; never empty."""
    parts = []
    if result.stdout:
        parts.append(result.stdout.rstrip("\n"))
    if result.stderr:
        parts.append("stderr:\n" + result.stderr.rstrip("\n"))
    if result.text is not None and result.text != "None":
        parts.append(result.text)
    if result.error is not None:
        parts.append(result.error.traceback.rstrip("\n") or f"{result.error.name}: {result.error.value}")
    if result.verdict == "blocked" and result.guard.blocked:
        parts.append("blocked, nothing was run:\n" + "\n".join(str(finding) for finding in result.guard.blocking))
    elif not result.ok and (result.error is None or result.verdict.kind != "error"):
        parts.append(f"{result.verdict.kind}: {result.verdict.message}")
    parts += [f"warning: {finding}" for finding in result.guard.warnings]
    if result.network is not None and result.network.refused:
        parts.append("not allowed by the network policy: " + ", ".join(str(each) for each in result.network.refused[:REFUSED_MAX]))
    if result.state_kept is False and result.verdict != "blocked":
        parts.append("The interpreter has ended: variables of earlier calls are gone.")
    return _cut("\n".join(parts)) if parts else "(no output)"
