# SPDX-License-Identifier: Apache-2.0
"""A project without its credential files: which parts of it are mounted."""
from __future__ import annotations

import fnmatch
import os
import pathlib
import re
from typing import List, Optional, Tuple

from ..errors import LimitError, NotFoundError

#: Names that are never mounted.
HIDDEN = (".env", ".env.*", "*.env", ".ssh", ".aws", ".azure", ".kube", ".docker", ".gnupg", ".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc",
          "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "credentials*.json", "client_secret*.json",
          "service[_-]account*.json", "application_default_credentials.json", "secrets.*")
MOUNTS_MAX = 32     # of one policy
ENTRIES_MAX = 50000
ENV_BYTES_MAX = 1 << 20


def is_hidden(name: str) -> bool:
    return any(fnmatch.fnmatch(name.lower(), pattern) for pattern in HIDDEN)


def _entries(place: pathlib.Path) -> "List[os.DirEntry[str]]":
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise NotFoundError(f"the project directory {place} cannot be read: {error.strerror}") from error


def _holds_hidden(place: pathlib.Path, left: List[int]) -> bool:
    """Whether there is something to hide anywhere below."""
    for entry in _entries(place):
        left[0] -= 1
        if left[0] < 0:
            raise LimitError(f"the project has more than {ENTRIES_MAX} files", hint="name the directory of it that the code needs")
        if is_hidden(entry.name) or (entry.is_dir(follow_symlinks=False) and _holds_hidden(pathlib.Path(entry.path), left)):
            return True
    return False


def visible(project: pathlib.Path, target: str) -> List[Tuple[str, str]]:
    """(source, target) of what shows the project at target: itself where nothing in it is to be hidden, else its parts."""
    if not project.is_dir():
        raise NotFoundError(f"there is no project directory {project}")
    mounts: List[Tuple[str, str]] = []
    left = [ENTRIES_MAX]

    def show(place: pathlib.Path, at: str) -> None:
        if not _holds_hidden(place, left):
            mounts.append((str(place), at))
            return
        for entry in _entries(place):
            if is_hidden(entry.name) or entry.is_symlink():
                continue
            if entry.is_dir():
                show(pathlib.Path(entry.path), f"{at}/{entry.name}")
            elif entry.is_file():
                mounts.append((entry.path, f"{at}/{entry.name}"))
    show(project, target)
    if len(mounts) > MOUNTS_MAX:
        raise LimitError(f"credential files lie among {len(mounts)} files and directories of {project}, and {MOUNTS_MAX} can be shown one by one",
                         hint="keep .env and the like in a directory of their own, or name a part of the project")
    return mounts


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


def values_of_env_files(project: pathlib.Path) -> List[Tuple[str, str]]:
    """Names and values in the project's own .env files: secrets that must not leave."""
    values = []
    for entry in _entries(project) if project.is_dir() else []:
        if not entry.is_file(follow_symlinks=False) or not (entry.name == ".env" or entry.name.startswith(".env.")):
            continue
        try:
            with open(entry.path, encoding="utf-8", errors="replace") as file:
                text = file.read(ENV_BYTES_MAX + 1)
        except OSError:
            continue  # what we cannot read, the code cannot either
        if len(text) > ENV_BYTES_MAX:
            raise LimitError(f"{entry.path} is larger than {ENV_BYTES_MAX} bytes, so not all of its secrets are known")
        values += [value for value in map(_value, text.splitlines()) if value]
    return values
