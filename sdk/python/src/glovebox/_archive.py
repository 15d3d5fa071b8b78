# SPDX-License-Identifier: Apache-2.0
"""Directories as tar: packing what is ours, and unpacking what comes from a box, which is not to be trusted.

Unpacking goes down from a descriptor of the target directory, name by name, and follows no link: neither one in the archive (they are
passed over) nor one that lies in the target already. Only files and directories are made; modes lose what is beyond 0777.
"""
from __future__ import annotations

import errno
import os
import tarfile
from dataclasses import dataclass, field
from typing import BinaryIO, Callable, List, Optional

from .errors import ProtocolError, TooLargeError, UsageError

PIECE = 1 << 18


@dataclass
class Pulled:
    """What was unpacked. skipped: names of links and the like, which were not made."""

    files: int = 0
    directories: int = 0
    bytes: int = 0
    skipped: List[str] = field(default_factory=list)


def pack(directory: str, sink: BinaryIO, wanted: Optional[Callable[[str], bool]] = None) -> None:
    """Writes files and directories below a directory as tar; links, sockets and so on are an error. wanted: by path relative to it."""
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for top, directories, files in os.walk(directory, onerror=_raise):
            directories.sort()
            place = os.path.relpath(top, directory)
            for name in sorted(directories + files):
                path, inside = os.path.join(top, name), os.path.normpath(os.path.join(place, name))
                if wanted is not None and not wanted(inside):
                    if name in directories:
                        directories.remove(name)
                    continue
                _pack_one(tar, path, inside)


def _raise(error: OSError) -> None:
    raise error


def _pack_one(tar: tarfile.TarFile, path: str, inside: str) -> None:
    entry = tar.gettarinfo(path, inside)
    # Two names of one file are two files in the box.
    if entry is not None and entry.islnk():
        entry.type, entry.linkname = tarfile.REGTYPE, ""
        entry.size = os.stat(path).st_size
    if entry is None or not (entry.isreg() or entry.isdir()):
        raise UsageError(f"{path} is no file and no directory", hint="leave it out with `wanted`")
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode &= 0o777
    if entry.isreg():
        with open(path, "rb") as file:
            tar.addfile(entry, file)
    else:
        tar.addfile(entry)


def unpack(source: BinaryIO, directory: str, max_entries: int, max_bytes: int) -> Pulled:
    """Unpacks below a directory, which is made when it is not there."""
    os.makedirs(directory, exist_ok=True)
    pulled = Pulled()
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with tarfile.open(fileobj=source, mode="r:") as tar:
            for entry in tar:
                if pulled.files + pulled.directories + len(pulled.skipped) >= max_entries:
                    raise TooLargeError(f"the archive has more than {max_entries} entries", hint="ask for more with max_entries")
                _unpack_one(tar, entry, root, pulled, max_bytes)
    except tarfile.TarError as error:
        raise ProtocolError(f"the server sent no tar: {error}") from None
    finally:
        os.close(root)
    return pulled


def _unpack_one(tar: tarfile.TarFile, entry: tarfile.TarInfo, root: int, pulled: Pulled, max_bytes: int) -> None:
    names = [name for name in entry.name.split("/") if name not in ("", ".")]
    if entry.name.startswith("/") or ".." in names or "\0" in entry.name:
        raise ProtocolError(f"the archive has an entry that leads out of it: {entry.name!r}")
    if not (entry.isreg() or entry.isdir()):
        pulled.skipped.append(entry.name)
        return
    if entry.isreg() and pulled.bytes + entry.size > max_bytes:
        raise TooLargeError(f"the archive has more than {max_bytes} bytes", hint="ask for more with max_bytes")
    above = _enter(root, names[:-1] if entry.isreg() else names)
    try:
        if entry.isdir():
            pulled.directories += 1
            return
        if not names:
            raise ProtocolError("the archive has a file without a name")
        _write_file(tar, entry, above, names[-1])
        pulled.files += 1
        pulled.bytes += entry.size
    finally:
        os.close(above)


def _enter(root: int, names: List[str]) -> int:
    """A descriptor of the directory with that path, each part of it made when it is not there."""
    here = os.dup(root)
    for name in names:
        try:
            try:
                os.mkdir(name, 0o777, dir_fd=here)
            except FileExistsError:
                pass
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UsageError(f"{name!r} in the target is no directory; links are not followed") from None
            raise
        finally:
            os.close(here)
        here = below
    return here


def _write_file(tar: tarfile.TarFile, entry: tarfile.TarInfo, above: int, name: str) -> None:
    # A link of that name is replaced, not written through; so is a file, since another name of it may lie elsewhere.
    try:
        os.unlink(name, dir_fd=above)
    except FileNotFoundError:
        pass
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, entry.mode & 0o777, dir_fd=above)
    with os.fdopen(fd, "wb") as file:
        content = tar.extractfile(entry)
        if content is None:
            raise ProtocolError(f"the archive has no content for {entry.name!r}")
        while True:
            piece = content.read(PIECE)
            if not piece:
                return
            file.write(piece)
