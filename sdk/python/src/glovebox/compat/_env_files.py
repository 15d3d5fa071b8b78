# SPDX-License-Identifier: Apache-2.0
"""The secrets in a project's own .env files."""
from __future__ import annotations

import errno
import os
import pathlib
import re
from typing import List, Optional, Tuple

from ..errors import LimitError, NotFoundError
from ._options import NotReadable

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
    for entry in _files(project):
        try:
            with open(entry, "rb") as file:
                data = file.read(BYTES_MAX + 1)
        except OSError:
            continue  # what we cannot read, the code cannot either
        if len(data) > BYTES_MAX:
            raise LimitError(f"{entry} is larger than {BYTES_MAX} bytes, so not all of its secrets are known")
        values += [value for value in map(_value, data.decode("utf-8", "replace").splitlines()) if value]
    return values


def _files(project: pathlib.Path) -> List[pathlib.Path]:
    """The .env files of a project. One that is a link counts as far as it leads to a file of the project: others are not in the sandbox."""
    try:
        if not project.is_dir():
            raise NotFoundError(f"there is no project directory {project}")
        names = sorted(name for name in os.listdir(project) if name == ".env" or name.startswith(".env."))
        return [project / name for name in names if _is_of(project, project / name)]
    except PermissionError as error:
        raise NotReadable(f"the project directory {project} cannot be read by this user", place=project, number=error.errno or errno.EACCES,
                          hint="name a directory that this user can read") from error


def _is_of(project: pathlib.Path, entry: pathlib.Path) -> bool:
    try:
        return entry.is_file() and (not entry.is_symlink() or project.resolve() in entry.resolve().parents)
    except (OSError, RuntimeError):
        return False  # a link that leads to itself, or to where this user cannot look
