# SPDX-License-Identifier: Apache-2.0
"""The examples of the SDK do what they say."""
import os
import subprocess
import sys

import pytest

from compat_helpers import BINARY, ROOT, on_each_backend
from promises import promise

pytestmark = on_each_backend

EXPECTED = {
    "annie": ["0 sum: 285 picture", "refused: line 1, column 6: ", "124"],
    "ironclaw": ["from Python", "1000", "ok - runs as an ordinary user", "ok - has a root of its own", "ok - cannot read /etc/shadow", "ok - a file made in /workspace"],
    "dolphin": ["10", "['n', '0', '1', '2', '3', '4']"],
    "policy": ["untrusted 499500 256 MiB, network enforced", "trusted 499500 1024 MiB, network enforced", "False "],
    "agentcore": ["['0', '1', '4', '9']", "error"],
}


def test_every_example_is_run():
    assert {path.stem for path in (ROOT / "sdk/python/examples").glob("*.py")} == set(EXPECTED)


@promise("dolphin-21", "The example program runs.")
@pytest.mark.parametrize("name", EXPECTED)
def test_example(name):
    done = subprocess.run([sys.executable, ROOT / f"sdk/python/examples/{name}.py"], capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src"), "GLOVEBOX": str(BINARY), "PYTHONDONTWRITEBYTECODE": "1"})
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == len(EXPECTED[name]), done.stdout + done.stderr
    assert all(line.startswith(begin) for line, begin in zip(lines, EXPECTED[name])), lines
