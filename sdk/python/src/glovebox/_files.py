# SPDX-License-Identifier: Apache-2.0
"""Files of a session's workspace, without `await`: what this class does is written in _async_files.py."""
from __future__ import annotations

from typing import BinaryIO, Callable, List, Optional, Union

from ._archive import Pulled
from ._async_files import ENTRIES_MAX, PULL_MAX, READ_MAX, AsyncFiles, LocalPath
from ._body import Data
from ._drive import drive
from .records import FileEntry


class Files:
    """The workspace, which is /sandbox and /workspace in the box. Paths are relative to it.

        >>> box.files.write("data/a.csv", "1,2\\n")
        4
        >>> box.run("print(open('data/a.csv').read())").stdout
        '1,2\\n\\n'
        >>> [entry.name for entry in box.files.list("data")]
        ['a.csv']
    """

    def __init__(self, core: AsyncFiles) -> None:
        self._core = core

    def read(self, path: str, max_bytes: Optional[int] = READ_MAX) -> bytes:
        """The bytes of a file. TooLargeError when there are more than max_bytes of them; download() takes any."""
        return drive(self._core.read(path, max_bytes))

    def read_text(self, path: str, encoding: str = "utf-8", errors: str = "strict", max_bytes: Optional[int] = READ_MAX) -> str:
        return drive(self._core.read_text(path, encoding, errors, max_bytes))

    def write(self, path: str, data: Union[Data, BinaryIO], mode: Optional[int] = None, parents: bool = True) -> int:
        """Writes a file, whole or not at all; how many bytes. data: text (as UTF-8), bytes, or a binary file. parents: makes directories."""
        return drive(self._core.write(path, data, mode, parents))

    def list(self, path: str = "") -> List[FileEntry]:
        """What is in a directory."""
        return drive(self._core.list(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file, a directory or anything else of that name. An error when that cannot be seen: in a
        directory that is closed to its owner, or behind a link, which is not followed."""
        return drive(self._core.exists(path))

    def remove(self, path: str, recursive: bool = False, missing_ok: bool = False) -> None:
        """Removes a file or an empty directory; recursive: a directory with all that is in it."""
        drive(self._core.remove(path, recursive, missing_ok))

    def mkdir(self, path: str, parents: bool = True, exist_ok: bool = True, mode: Optional[int] = None) -> None:
        """Makes a directory. exist_ok: one that is there already is no error; anything else of that name is."""
        drive(self._core.mkdir(path, parents, exist_ok, mode))

    def upload(self, local: LocalPath, path: Optional[str] = None, mode: Optional[int] = None) -> int:
        """Copies a file of this host into the workspace, by its own name unless told another. How many bytes."""
        return drive(self._core.upload(local, path, mode))

    def download(self, path: str, local: Optional[LocalPath] = None, max_bytes: Optional[int] = None) -> str:
        """Copies a file of the workspace to this host, whole or not at all; where it is then."""
        return drive(self._core.download(path, local, max_bytes))

    def push_dir(self, local: LocalPath, path: str = "", wanted: Optional[Callable[[str], bool]] = None) -> int:
        """Copies what is in a directory of this host into one of the workspace; how many files and directories.
        wanted: called with each path relative to `local`; what it does not want is left out.

            >>> box.files.push_dir("project", "src", wanted=lambda path: not path.startswith(".git"))
            1
        """
        return drive(self._core.push_dir(local, path, wanted))

    def pull_dir(self, path: str, local: LocalPath, max_bytes: int = PULL_MAX, max_entries: int = ENTRIES_MAX) -> Pulled:
        """Copies a directory of the workspace ("": all of it) into one of this host. What is there already stays, unless it has the same name.
        Only files and directories are copied, and no link is followed: what is in the workspace is not to be trusted."""
        return drive(self._core.pull_dir(path, local, max_bytes, max_entries))
