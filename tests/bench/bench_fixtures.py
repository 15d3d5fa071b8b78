# SPDX-License-Identifier: Apache-2.0
"""Benchmarks as tests run them."""
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import BINARY, ROOT, wait_until

PATIENCE = 300


def processes_of(place):
    """Those that have a path in the directory among their words or in their environment."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = b"".join(pathlib.Path(f"/proc/{entry}/{name}").read_bytes() for name in ("cmdline", "environ"))
        except OSError:  # it has ended
            continue
        if f"{place}/".encode() in text:
            found.append((int(entry), text[:200]))
    return found


@pytest.fixture
def run_bench(scratch):
    """Runs a benchmark with its own directory for temporary files; its status, and all that it printed. Afterwards
    nothing is in that directory, and no process that was started with it is left."""
    place = scratch / "tmp"
    place.mkdir()

    def run(name, *arguments, **environ):
        command = [sys.executable, ROOT / f"bench/{name}.py", *arguments]
        own = {"GLOVEBOX": str(BINARY), "TMPDIR": f"{place}/", **environ}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE, env={**os.environ, **own}, check=False)
        return done.returncode, done.stdout

    yield run
    assert not os.listdir(place)
    assert wait_until(lambda: not processes_of(place)), processes_of(place)
