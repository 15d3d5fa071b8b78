# SPDX-License-Identifier: Apache-2.0
"""Benchmarks as tests run them."""

import os
import subprocess
import sys

import pytest
from conftest import BINARY, ROOT

PATIENCE = 300


@pytest.fixture
def run_bench(no_leaks):
    """Runs a benchmark; its status, and everything that it printed. It must leave nothing behind."""

    def run(name, *arguments, **environ):
        command = [sys.executable, ROOT / f"bench/{name}.py", *arguments]
        own = {**os.environ, "GLOVEBOX": str(BINARY), **environ}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, text=True, timeout=PATIENCE, env=own, check=False, **streams)
        return done.returncode, done.stdout

    return run
