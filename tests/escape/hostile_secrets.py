# SPDX-License-Identifier: Apache-2.0
"""What the attacks on secrets (group K) have in common."""
import contextlib
import os
import pathlib
import resource
import secrets

import pytest
from server import Server

MARK = "[scrubbed:KEY]"


def new_secret():
    """One that was never there before: what is found of it is found because it leaked."""
    return f"s3cr'\"/\\ &{secrets.token_urlsafe(12)}é"


def plain(secret):
    """Without what JSON escapes: as it would be found in a file or in memory."""
    return secret.partition("&")[2].removesuffix("é")


@pytest.fixture(scope="module")
def server():
    with Server() as made:
        yield made


def run(server, code, secret=None, session=None, **fields):
    """The result of a run; the secret is the variable KEY."""
    path = f"/v1/sessions/{session}/runs" if session else "/v1/runs"
    return server.post(path, {"code": code, **({"secrets": {"KEY": secret}} if secret else {}), **fields}).result


def new_session(server, secret=None, **fields):
    return server.post("/v1/sessions", {**({"secrets": {"KEY": secret}} if secret else {}), **fields}).expect(201).json["id"]


def processes_outside():
    """Of the host, not of boxes: number, and what can be read of it."""
    own = os.readlink("/proc/self/ns/pid")
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(entry) != os.getpid() and os.readlink(f"/proc/{entry}/ns/pid") == own:
                yield int(entry), {name: pathlib.Path(f"/proc/{entry}/{name}").read_bytes() for name in ("environ", "cmdline")}
        except OSError:
            continue  # it has ended, or is not ours to look at


def files_with(secret, *places):
    """Also as JSON, which escapes some of it."""
    found, needle = [], plain(secret)
    assert len(needle) > 8
    for path in (p for place in places for p in pathlib.Path(place).rglob("*")):
        try:
            if path.is_file() and needle.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found


@contextlib.contextmanager
def processor_time():
    """Of the programs that are called meanwhile: a list of one number, in seconds. A busy machine changes it little."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before, seconds = used(), []
    yield seconds
    seconds.append(used() - before)


def assert_grows_as_the_text(small, large):
    """Of a text and one of eight times its size. What is quadratic takes 64 times as long."""
    assert large[0] < 28 * max(small[0], 0.03), (small, large)
