# SPDX-License-Identifier: Apache-2.0
"""What tests of glovebox-server as a process have in common."""
import contextlib
import http.client
import os
import pathlib
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import IS_ROOT, USER, process_stat, wait_until  # noqa: E402
from server import PATIENCE, PROGRAM, Server  # noqa: E402

USAGE, CONFLICT = 110, 102
IS_SANITIZED = PROGRAM.exists() and b"__asan_init" in PROGRAM.read_bytes()
GONE = 2.0  # seconds after which nothing of a killed server may live; a busy machine gets five times that


@pytest.fixture(params=["root", "user"])
def who(request):
    """Arguments of Server for both ways to run one: dropped from root, and as an ordinary user."""
    if request.param == "root" and not IS_ROOT:
        pytest.skip("needs root")
    if request.param == "root":
        return {}
    if IS_SANITIZED:
        pytest.skip("a sanitizer wants more address space than the rlimit allows that stands in for cgroups")
    # Where cgroups are not delegated to him, an ordinary user has rlimits.
    return {"user": USER if IS_ROOT else None, "policy": "allow_weaker: [cgroup]\n"}


def call(*arguments, environ=None, **popen):
    return subprocess.run([str(PROGRAM), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=PATIENCE, env={"PATH": os.environ["PATH"], **(environ or {})}, check=False, **popen)


def refused(server, status=USAGE):
    """Starts a server that must not come up; what it said."""
    server.start(wait=False)
    assert server._wait(PATIENCE) == status, server.output()
    return server.output()


def close(server):
    """Of a server that ended as it should not, or was killed."""
    if server.process:
        server.kill()
    server.close()


def descendants(pid):
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        found = process_stat(entry)
        if found:
            children.setdefault(int(found[1][1]), []).append((int(entry), found[0], found[1][19]))
    wanted, result = [pid], []
    while wanted:
        for child in children.get(wanted.pop(), []):
            result.append(child)
            wanted.append(child[0])
    return result


def lives(process):
    found = process_stat(process[0])
    return bool(found) and found[1][19] == process[2]


def child_named(pid, name):
    return next((p for p in descendants(pid) if p[1].startswith(name)), None)


def status_of(pid):
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        fields[key] = value.split()
    return fields


@contextlib.contextmanager
def in_background(function):
    result = {}

    def run():
        try:
            result["value"] = function()
        except BaseException as error:  # handed to the test
            result["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield result
    finally:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def readiness(server):
    """The status of /readyz; None while there is no answer: a connection may come in the moment when idle ones are closed."""
    try:
        return server.get("/readyz").status
    except (OSError, http.client.HTTPException):
        return None


def started_run(server, code, **fields):
    """A run that goes on: its id."""
    run = server.post("/v1/runs", {"code": code, "detach": True, **fields}).expect(202).json["id"]
    assert wait_until(lambda: server.get(f"/v1/runs/{run}").json["state"] == "running", PATIENCE)
    return run
