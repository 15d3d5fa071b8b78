# SPDX-License-Identifier: Apache-2.0
"""Secrets that the code is not given: those of a project's .env file, say. They are not in the box, so all that can happen to them is that somebody writes them
into code or input; they are looked for as they are. Everything else (rules about code, secrets that the code is given, and what has the shape of
a secret) is the guard's, in the server: docs/guard.md."""
from __future__ import annotations

from typing import Optional, Sequence, Tuple

#: Name and value.
Known = Tuple[str, str]
SECRET_MIN = 8  # bytes; what is shorter is too common to be looked for


def is_long_enough(value: str) -> bool:
    return len(value.encode("utf-8", "surrogatepass")) >= SECRET_MIN


def refusal(what: str, text: str, known: Sequence[Known]) -> Optional[str]:
    """Why it is not run; None: nothing is in it. what: "the code"."""
    for name, value in known:
        at = text.find(value)
        if at >= 0 and is_long_enough(value):
            line = text.count("\n", 0, at) + 1
            return f"refused: line {line} of {what} holds a secret of this project ({name}). Leave it out: ask for it to be given to the sandbox instead."
    return None


def scrub(text: str, known: Sequence[Known]) -> str:
    """The text with [scrubbed:NAME] in the place of secrets."""
    for name, value in sorted(known, key=lambda each: len(each[1]), reverse=True):
        if is_long_enough(value):
            text = text.replace(value, f"[scrubbed:{name}]")
    return text
