# SPDX-License-Identifier: Apache-2.0
"""1. Code inside opens a ring of io_uring, a second way to most calls => refused (EPERM or ENOSYS).
"""
import shutil

import pytest


def test_io_uring(box):
    box.attack("io_uring").assert_refused("EPERM", "ENOSYS")


def test_event_loops_fall_back(box):
    """The refusal breaks nothing: node (libuv) reads a file by its thread pool."""
    if not shutil.which("node", path="/usr/bin:/usr/local/bin"):
        pytest.skip("node is not installed")
    result = box.run("require('fs').promises.readFile('/etc/passwd').then(t => console.log('read', t.length > 0))", "node",
                     memory="4g")
    assert result.stdout == "read true\n", result.explain()
