# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of a server whose policy has the docker backend: what is only so there. (What is everywhere the same: the marker each_backend.)"""
import pytest

import glovebox
from sdk_helpers import each_backend

pytestmark = each_backend("docker")


def test_a_sandbox_says_what_it_is_made_of(box):
    info = box.info()
    assert (info.backend, info.image, info.warm) == ("docker", None, False) and info.controls["identity"].enforced
    assert box.run("import os; os.getuid()").text != "0"


def test_memory_that_ended_one_run_does_not_end_the_next(client):
    with client.sandbox(memory="64m") as box:
        for context in ("fresh", None, "fresh"):
            assert box.run("a = bytearray(500 << 20)\nfor i in range(0, len(a), 4096): a[i] = 1", context=context).verdict in ("memory", "error")
            assert [box.run("import time; time.sleep(0.06)").verdict.kind for _ in range(2)] == ["ok", "ok"]  # longer than anybody takes to notice


def test_the_server_says_what_may_be_chosen(client):
    """Its policy has docker, and lists nothing besides."""
    with pytest.raises(glovebox.DeniedError, match="image"):
        client.sandbox(image="another").open()
    with pytest.raises(glovebox.DeniedError, match="runtime"):
        client.sandbox(runtime="another").open()
