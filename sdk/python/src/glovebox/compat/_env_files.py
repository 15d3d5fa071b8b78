# SPDX-License-Identifier: Apache-2.0
"""The secrets in a project's own .env files."""
from __future__ import annotations

import pathlib
import re
from typing import List, Optional, Tuple

from ..errors import LimitError, NotFoundError

BYTES_MAX = 1 << 20

_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]{0,62})[ \t]*\Z")


def _value(line: str) -> Optional[Tuple[str, str]]:
    name, separator, value = line.partition("=")
    value = value.strip()
    if not separator or name.lstrip().startswith("#"):
        return None
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    named = _NAME.match(name)
    return (named.group(1) if named else "known", value) if value else None


def values(project: pathlib.Path) -> List[Tuple[str, str]]:
    """Names and values in the project's own .env files: secrets that must not leave."""
    values = []
    if not project.is_dir():
        raise NotFoundError(f"there is no project directory {project}")
    for entry in sorted([project / ".env", *project.glob(".env.*")]):
        if entry.is_symlink() or not entry.is_file():
            continue
        try:
            with open(entry, encoding="utf-8", errors="replace") as file:
                text = file.read(BYTES_MAX + 1)
        except OSError:
            continue  # what we cannot read, the code cannot either
        if len(text) > BYTES_MAX:
            raise LimitError(f"{entry} is larger than {BYTES_MAX} bytes, so not all of its secrets are known")
        values += [value for value in map(_value, text.splitlines()) if value]
    return values
