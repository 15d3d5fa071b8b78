# SPDX-License-Identifier: Apache-2.0
"""Files of a session's workspace."""
from __future__ import annotations

import io
import os
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Callable, Dict, List, Optional, Union, cast

from . import _archive
from ._archive import Pulled
from ._body import Data
from ._http import OCTETS, TAR, Request, path_of
from .errors import ConflictError, NotFoundError, ProtocolError, UsageError
from .records import FileEntry, Json, objects_of

if TYPE_CHECKING:
    from ._async_sandbox import AsyncSandbox

READ_MAX = 256 << 20   # bytes that read() takes into memory unless asked for more: a sparse file has any size at no cost
PULL_MAX = 1 << 30
ENTRIES_MAX = 100_000
PACK_MEMORY = 4 << 20  # a tar larger than this goes to a file first

LocalPath = Union[str, "os.PathLike[str]"]


def _segments(path: str) -> List[str]:
    """Parts of a path in the workspace. Whether they are good is for the server to say; but an empty one names nothing."""
    for prefix in ("/sandbox/", "/workspace/", "/tmp/sandbox/"):
        if path.startswith(prefix):
            path = path[len(prefix):]
    if not path.strip("/"):
        raise UsageError("the path of a file cannot be empty", details={"field": "path"})
    if path.startswith("/"):
        raise UsageError(f"{path!r} is not a path of the workspace: it is relative, or begins with /sandbox/ or /workspace/", details={"field": "path"})
    return path.rstrip("/").split("/")


class AsyncFiles:
    """The workspace, which is /sandbox and /workspace in the box. Paths are relative to it.

        await box.files.write("data/a.csv", "1,2\\n")
        await box.files.read_text("data/a.csv")
    """

    def __init__(self, box: "AsyncSandbox") -> None:
        self._box = box

    async def _path(self, path: str, **query: Union[None, bool, int, str]) -> str:
        return path_of("v1", "sessions", await self._box.opened(), "files", *_segments(path), query=query)

    async def read(self, path: str, max_bytes: Optional[int] = READ_MAX) -> bytes:
        """The bytes of a file. TooLargeError when there are more than max_bytes of them; download() takes any."""
        sink = io.BytesIO()
        await self._box._caller.fetch(Request("GET", await self._path(path), accept="*/*"), sink, max_bytes)
        return sink.getvalue()

    async def read_text(self, path: str, encoding: str = "utf-8", errors: str = "strict", max_bytes: Optional[int] = READ_MAX) -> str:
        return (await self.read(path, max_bytes)).decode(encoding, errors)

    async def write(self, path: str, data: Union[Data, BinaryIO], mode: Optional[int] = None, parents: bool = True) -> int:
        """Writes a file, whole or not at all; how many bytes. data: text (as UTF-8), bytes, or a binary file. parents: makes directories."""
        target = await self._path(path, parents=parents or None, mode=f"{mode:04o}" if mode is not None else None)
        request = Request("PUT", target, content_type=OCTETS)
        if isinstance(data, str):
            request.body = data.encode()
        elif isinstance(data, (bytes, bytearray, memoryview)):
            request.body = bytes(data)
        else:
            return await self._write_file(request, data)
        await self._box._caller.json(request)
        return len(request.body)

    async def _write_file(self, request: Request, file: BinaryIO) -> int:
        def measure() -> int:
            at = file.tell()
            end = file.seek(0, os.SEEK_END)
            file.seek(at)
            return end - at
        if not file.seekable():
            request.body = await self._box._caller.transport.call(file.read)
            await self._box._caller.json(request)
            return len(request.body)
        request.body, request.size = file, await self._box._caller.transport.call(measure)
        await self._box._caller.json(request)
        return request.size

    async def list(self, path: str = "") -> List[FileEntry]:
        """What is in a directory."""
        found: List[FileEntry] = []
        cursor: Optional[str] = None
        while True:
            page = await self._page(path, 1000, cursor)
            found += [FileEntry.from_object(each) for each in objects_of(page, "entries")]
            cursor = page.get("next")
            if cursor is None:
                return found

    async def _page(self, path: str, limit: int, cursor: Optional[str] = None) -> Json:
        query: Dict[str, Union[None, bool, int, str]] = {"path": path or None, "limit": limit, "cursor": cursor}
        request = Request("GET", path_of("v1", "sessions", await self._box.opened(), "files", query=query))
        page: Json = await self._box._caller.object(request)
        return page

    async def exists(self, path: str) -> bool:
        """Whether there is a file, a directory or anything else of that name. An error when that cannot be seen: in a
        directory that is closed to its owner, or behind a link, which is not followed."""
        return await self._type([part for part in _segments(path) if part not in ("", ".")]) is not None

    async def _type(self, parts: List[str]) -> Optional[str]:
        """What there is, as FileEntry has it; None: nothing, and that was seen. What cannot be seen is an error."""
        if ".." in parts:
            raise UsageError("the path has \"..\" in it: give it without", details={"field": "path"})
        if not parts:
            await self._box.info()
            return "directory"  # the workspace itself
        try:
            entries = await self.list("/".join(parts[:-1]))
        except NotFoundError:
            await self._box.info()  # the session itself may be what is not there
            return None
        except UsageError:
            # Nothing is below a file. What is behind a link, or in a closed directory, was not seen.
            if await self._type(parts[:-1]) in (None, "file", "other"):
                return None
            raise
        name = parts[-1].encode("utf-8", "surrogateescape")
        hidden = False
        for entry in entries:
            if entry.raw.get("scrubbed"):
                hidden = True  # the list does not tell its name
            elif entry.name_bytes == name:
                return entry.type
        return await self._type_of_hidden("/".join(parts)) if hidden else None

    async def _type_of_hidden(self, path: str) -> Optional[str]:
        """The same for a name that a list may not show: it is asked for."""
        try:
            try:
                await self._page(path, 1)
                return "directory"
            except UsageError:
                await self._box._caller.json(Request("HEAD", await self._path(path), accept="*/*"))
                return "file"
        except NotFoundError:
            await self._box.info()
            return None

    async def remove(self, path: str, recursive: bool = False, missing_ok: bool = False) -> None:
        """Removes a file or an empty directory; recursive: a directory with all that is in it."""
        try:
            await self._box._caller.json(Request("DELETE", await self._path(path, recursive=recursive or None)))
        except NotFoundError:
            if not missing_ok:
                raise

    async def mkdir(self, path: str, parents: bool = True, exist_ok: bool = True, mode: Optional[int] = None) -> None:
        """Makes a directory. exist_ok: one that is there already is no error; anything else of that name is."""
        target = await self._path(path, directory=True, parents=parents or None, mode=f"{mode:04o}" if mode is not None else None)
        try:
            await self._box._caller.json(Request("PUT", target, content_type=OCTETS))
        except ConflictError:
            if not exist_ok or await self._type(_segments(path)) != "directory":
                raise

    async def upload(self, local: LocalPath, path: Optional[str] = None, mode: Optional[int] = None) -> int:
        """Copies a file of this host into the workspace, by its own name unless told another. How many bytes."""
        with open(local, "rb") as file:
            return await self.write(path or os.path.basename(os.fspath(local)), file, mode)

    async def download(self, path: str, local: Optional[LocalPath] = None, max_bytes: Optional[int] = None) -> str:
        """Copies a file of the workspace to this host, whole or not at all; where it is then."""
        target = os.path.abspath(os.fspath(local) if local is not None else _segments(path)[-1])
        if os.path.isdir(target):
            target = os.path.join(target, _segments(path)[-1])
        request = Request("GET", await self._path(path), accept="*/*")
        fd, temporary = tempfile.mkstemp(prefix=".glovebox-", dir=os.path.dirname(target))
        try:
            with os.fdopen(fd, "wb") as sink:
                await self._box._caller.fetch(request, sink, max_bytes)
            umask = os.umask(0o077)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        return target

    async def push_dir(self, local: LocalPath, path: str = "", wanted: Optional[Callable[[str], bool]] = None) -> int:
        """Copies what is in a directory of this host into one of the workspace; how many files and directories.
        wanted: called with each path relative to `local`; what it does not want is left out."""
        call, session = self._box._caller.transport.call, await self._box.opened()
        with tempfile.SpooledTemporaryFile(PACK_MEMORY) as spool:
            sink: BinaryIO = spool  # type: ignore[assignment]
            await call(_archive.pack, os.fspath(local), sink, wanted)
            size = await call(sink.tell)
            await call(sink.seek, 0)
            request = Request("PUT", path_of("v1", "sessions", session, "archive", query={"path": path or None}), body=sink, size=size,
                              content_type=TAR, waits=True)
            answer = await self._box._caller.object(request)
        entries = answer.get("entries")
        if not isinstance(entries, int):
            raise ProtocolError("the server does not say how many files it has unpacked")
        return entries

    async def pull_dir(self, path: str, local: LocalPath, max_bytes: int = PULL_MAX, max_entries: int = ENTRIES_MAX) -> Pulled:
        """Copies a directory of the workspace ("": all of it) into one of this host. What is there already stays, unless it has the same name.
        Only files and directories are copied, and no link is followed: what is in the workspace is not to be trusted."""
        call, session = self._box._caller.transport.call, await self._box.opened()
        with tempfile.TemporaryFile() as file:
            spool = cast(BinaryIO, file)  # which it is, but not for all type checkers
            request = Request("GET", path_of("v1", "sessions", session, "archive", query={"path": path or None}), accept="*/*")
            await self._box._caller.fetch(request, spool, max_bytes + max_entries * 2048)
            await call(spool.seek, 0)
            return await call(_archive.unpack, spool, os.fspath(local), max_entries, max_bytes)
