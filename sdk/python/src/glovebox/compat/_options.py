# SPDX-License-Identifier: Apache-2.0
"""Options of container engines, as values of a policy."""
from __future__ import annotations

import errno
import os
import pathlib
import re
from typing import Any, Dict, Optional, Sequence, Union

from ..errors import UsageError
from ..network import Rule, rules_body

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
CONTAINER_USER = 1000
DISK = "10g"  # by how much a workspace on the host may grow in a session, where that class of container had no limit
_SIZE = re.compile(r"(\d+)([kmgt]?)i?b?\Z", re.I)
CPU_PERIOD = 100_000  # microseconds, of which a quota is a part
DEPENDENCIES = ("dependencies",)  # what a whitelist lets pass that names nothing: packages can be fetched, nothing can be sent


def check_name(what: str, name: str) -> str:
    """A name that becomes a directory's: never a path."""
    if not isinstance(name, str) or not NAME.match(name):
        raise UsageError(f"{what} {name!r} is no name", hint="letters, digits, '.', '_' and '-', not first, up to 64 of them")
    return name


def size(value: Any) -> Any:
    """A size in bytes: 134217728 and "128m" are the same. What is none is returned as it is."""
    found = _SIZE.match(str(value).strip())
    return int(found.group(1)) << 10 * " kmgt".index(found.group(2).lower() or " ") if found else value


class _NotUsable(UsageError, PermissionError):
    """It is a PermissionError as well, with errno and filename."""

    def __init__(self, message: str, *, place: pathlib.Path, number: int = errno.EACCES, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.errno, self.strerror, self.filename = number, os.strerror(number), str(place)


class NotWritable(_NotUsable):
    """A directory for files cannot be made, or cannot be written to."""


class NotReadable(_NotUsable):
    """A directory cannot be read."""


def directory(path: Union[str, "os.PathLike[str]"], in_container: bool = False, mode: int = 0o700) -> pathlib.Path:
    """A directory of the caller's, made when it is not there. The error says what to do.

    in_container: it will be that of a container, where nothing is root's: made by root, it is given to the user that code has there."""
    place = pathlib.Path(path).expanduser().absolute()
    try:
        if _make(place, mode) and in_container and os.geteuid() == 0:
            os.chown(place, CONTAINER_USER, CONTAINER_USER, follow_symlinks=False)
    except OSError as error:
        raise NotWritable(f"the directory {place} cannot be made: {error.strerror}", place=place, number=error.errno or errno.EACCES,
                          hint="choose a directory that this user can write to") from error
    if not os.access(place, os.W_OK | os.X_OK):
        raise NotWritable(f"the directory {place} is not writable for this user", place=place, hint=f"chown or chmod {place}, or choose another one")
    return place


def _make(place: pathlib.Path, mode: int) -> bool:
    """Whether it was not there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.mkdir(mode=0o700)
        place.chmod(mode)  # whatever the umask is
    except FileExistsError:
        if not place.is_dir():
            raise
        return False
    return True


def limits(*, cpus: Optional[float] = None, pids: Optional[int] = None, tmp: Optional[str] = None, disk: Optional[str] = None,
           network: str = "none", allow: Optional[Sequence[Rule]] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
    """Keys of a policy; what is None stays as the server has it.

    network: "none"; "host"; "whitelist": the hosts of dependencies, or those of allow; "allowlist": those of allow. allow alone means the last."""
    values: Dict[str, Any] = {"cpu_count": cpus, "pids_limit": pids, "tmp_size": tmp, "disk_limit": disk, "timeout": timeout}
    if network not in ("none", "host", "whitelist", "allowlist"):
        raise UsageError(f"there is no network mode {network!r}", hint='take "none", "host", "whitelist" or "allowlist"')
    if network == "host":
        if allow is not None:
            raise UsageError('allow and network="host" exclude each other', hint="everything that the host can reach needs no rules")
        values["network_mode"] = "host"
    elif network != "none" or allow is not None:
        values["network_mode"] = "allowlist"
        values["network_allow"] = rules_body(allow if allow is not None else DEPENDENCIES if network == "whitelist" else ())
    return {key: value for key, value in values.items() if value is not None}
