# SPDX-License-Identifier: Apache-2.0
"""A server with tests/shim.c in it: allocations that fail, and a wall clock that jumps.

    with ShimServer() as server:
        n = server.allocations(lambda: server.run("print(1)"))
        with server.failing(n // 2):
            ...
"""
import contextlib
import mmap
import os
import pathlib
import shutil
import struct
import subprocess

from server import PROGRAM, Server

SOURCE = pathlib.Path(__file__).resolve().parent / "shim.c"
ALLOCATIONS, FAIL_AT, FAIL_COUNT, FAILED, WALL_SEC = range(5)
IS_SANITIZED = PROGRAM.exists() and b"__asan_init" in PROGRAM.read_bytes()


def compile_shim(directory):
    """The library; None where nothing can compile it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return None
    library = pathlib.Path(directory) / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    library.chmod(0o755)
    return library


class ShimServer(Server):
    def __init__(self, library, **options):
        super().__init__(**options)
        file = self.directory / "shim"
        file.write_bytes(bytes(4096))
        with open(file, "r+b") as mapped:
            self.control = mmap.mmap(mapped.fileno(), 4096)
        self.trace = self.directory / "trace"
        self.environ.update({"LD_PRELOAD": str(library), "GLOVEBOX_SHIM": str(file), "GLOVEBOX_SHIM_TRACE": str(self.trace)})
        if IS_SANITIZED:  # it wants to be the first
            self.environ["ASAN_OPTIONS"] = ":".join(filter(None, (self.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))

    def _get(self, place):
        return struct.unpack_from("=q", self.control, 8 * place)[0]

    def _set(self, place, value):
        struct.pack_into("=q", self.control, 8 * place, value)

    def start(self, wait=True, **options):
        self._set(ALLOCATIONS, 0)
        return super().start(wait, **options)

    def allocations(self, step=None):
        """How many there were, or how many something needs."""
        before = self._get(ALLOCATIONS)
        if not step:
            return before
        step()
        return self._get(ALLOCATIONS) - before

    def fail(self, at, count=1):
        """The allocation of that number fails, counted from the start of the process; `count` of them do."""
        if self.trace.exists():
            os.truncate(self.trace, 0)
        self._set(FAILED, 0)
        self._set(FAIL_COUNT, count)
        self._set(FAIL_AT, at)

    @contextlib.contextmanager
    def failing(self, after, count=1):
        """The one that comes so many after now."""
        self.fail(self._get(ALLOCATIONS) + after, count)
        try:
            yield
        finally:
            self._set(FAIL_AT, 0)

    @property
    def failed(self):
        return self._get(FAILED)

    def where(self):
        """Of the allocations that failed: where."""
        return self.trace.read_text() if self.trace.exists() else ""

    def wall(self, seconds):
        """The wall clock is so much ahead from now on."""
        self._set(WALL_SEC, seconds)
