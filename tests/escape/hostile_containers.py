# SPDX-License-Identifier: Apache-2.0
"""Sessions in containers, by the library: for attacks from inside on what shares a container with the code.

    session = containers()                      # closed when the test is over
    assert session.run("python", "print(1)").out == "1\\n"

The code runs as the same user as the agent (process 1) and the supervisors above each program.
"""
import os
import threading

import pytest
from conftest import GIVEN, wait_until
from engine_fixtures import engines
from hostile_engines import OWNER
from session_fixtures import own_warden
from sessions import BUILD, Refused, Session

# Seconds from a limit to the verdict, with a container that has to be ended. A busy machine may take ten of them.
GRACE = 15.0
__all__ = ["containers", "engines", "own_warden"]


def own_of(engine, pid):
    """Containers of that process: others may use the engine, too."""
    return [c["Id"] for c in engine.containers() if c["Labels"].get(OWNER, "").split(":")[-2:-1] == [str(pid)]]


class Containers:
    def __init__(self, engines):
        self.engines, self.engine, self.opened = engines, engines.docker, []

    def __call__(self, runtime=None, **policy):
        chosen = {"backend": "docker", "allow_weaker": "pids" if runtime == "runsc" else "runtime", **({"runtime": runtime} if runtime else {}), **policy}
        session = Session(chosen, template="")
        self.opened.append(session)
        return session

    def own(self):
        return own_of(self.engine, os.getpid())


@pytest.fixture
def containers(own_warden, engines, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", engines.docker.host)
    if "GLOVEBOX_LIBEXEC_DIR" not in GIVEN and (BUILD / "src/agent").is_dir():
        monkeypatch.setenv("GLOVEBOX_LIBEXEC_DIR", str(BUILD / "src/agent"))  # where the library of a build tree finds the agent
    opener, before = Containers(engines), set(threading.enumerate())
    yield opener
    for thread in set(threading.enumerate()) - before:
        if thread.daemon:  # a run of a test that has failed: nobody may be inside a session that is closed
            thread.join(15)
    for session in opener.opened:
        session.close()
    assert wait_until(lambda: not opener.own(), 20), f"containers are left: {opener.own()}"


def is_late(result):
    """On a busy host a supervisor may not get far enough among many processes that all run: then that is what is told."""
    return result.verdict == "lost" and "its end did not come" in result.message


def is_lost(session):
    """Whether the session says that it is over; a run in it otherwise must do what it always does."""
    try:
        result = session.run("python", "print(6 * 7)")
    except Refused as refused:
        assert refused.code == "lost", refused
        return True
    if result.verdict == "lost":
        return True
    assert (result.verdict, result.out) == ("ok", "42\n"), result
    return False


def processes(session):
    """Command lines of what runs in it, but for who looks and the spares of the agent, which hold its share of the task limit."""
    code = """
import os
for pid in sorted(filter(str.isdigit, os.listdir('/proc')), key=int):
    if int(pid) in (1, os.getpid(), os.getppid()):
        continue
    try:
        with open(f'/proc/{pid}/stat') as file:
            stat = file.read()
            if stat.rpartition(')')[2].split()[0] not in 'ZX' and '(glovebox-spare)' not in stat:
                with open(f'/proc/{pid}/cmdline', 'rb') as words:
                    print(pid, words.read().replace(b'\\0', b' ').decode())
    except OSError:
        pass
"""
    return session.run("python", code).out.splitlines()
