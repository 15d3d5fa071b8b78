# SPDX-License-Identifier: Apache-2.0
"""One warden serves many: it waits neither for a front that does not read, nor for a process that does not die."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

import pytest
import isolation
from conftest import ROOT, needs_root, wait_until
from session_fixtures import make_sessions, own_warden
from warm_fixtures import Server, warm_box

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")
PATIENCE = 30  # seconds that a busy machine may take for what takes milliseconds
CLOSING = 5  # CLOSE_USEC: so long does the library wait for the end of a session


@pytest.fixture(scope="module")
def deaf_front(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler to build a front with")
    program = tmp_path_factory.mktemp("front") / "deaf_front"
    subprocess.run([compiler, "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}/src", f"-I{ROOT}/include", "-o", str(program),
                    str(pathlib.Path(__file__).with_name("deaf_front.c"))], check=True)
    return program


@needs_root
def test_front_that_does_not_read(warm_box, deaf_front):
    """Its answers pile up until its channel is closed. Others are served all the while, from the same warden."""
    server = Server(warm_box, "python")
    try:
        server.wait_ready()
        assert server.run_warm("print(1)").stdout == "1\n"
        deaf = [subprocess.Popen([str(deaf_front), str(server.directory / "warm.sock"), "2000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for _ in range(3)]
        try:
            assert server.run_warm("print(2)").stdout == "2\n"
            for front in deaf:
                sent, why = front.stdout.readline().split(None, 1)
                assert int(sent) < 2000, "it was listened to without end"
                assert why.strip() in ("Broken pipe", "Connection reset by peer"), why
            assert server.run_warm("print(3)").stdout == "3\n"
        finally:
            for front in deaf:
                front.stdin.close()
                assert front.wait(PATIENCE) == 0
                front.stdout.close()
        assert server.run_warm("print(4)").stdout == "4\n"
    finally:
        server.stop()


@contextlib.contextmanager
def frozen(pid):
    """As a process is that waits in the kernel, for a file system that does not answer: SIGKILL does nothing to it. Yields how to let it go."""
    group = FREEZER / f"test-{os.getpid()}-{pid}"
    group.mkdir()

    def thaw():
        (group / "freezer.state").write_text("THAWED")
    try:
        (group / "tasks").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        assert wait_until(lambda: (group / "freezer.state").read_text().strip() == "FROZEN")
        yield thaw
    finally:
        thaw()
        assert wait_until(lambda: not (group / "tasks").read_text(), PATIENCE)
        group.rmdir()


def host_pid(context):
    """The interpreter's process number on the host: the only one in its session's cgroup."""
    name = re.search(r"glovebox-[0-9a-f]{16}", context.run("print(open('/proc/self/cgroup').read())").out).group()
    tasks, = (group / "tasks" for group in isolation.current.trees() if group.name == name and "pids" in group.parts)
    pid, = map(int, tasks.read_text().split())
    return pid


@pytest.fixture(params=["python", ""], ids=["warm", "cold"])
def opener(request, missing_controls, own_warden):
    if not (FREEZER / "tasks").exists():
        pytest.skip("needs the freezer of cgroup v1, which alone can make a process that SIGKILL does not end")
    opener = make_sessions(request.param, missing_controls)
    yield opener
    opener.finish()


@pytest.mark.waits
@needs_root
def test_process_that_does_not_die(opener):
    """A context is closed, and then its session, while its interpreter cannot end: others go on, and when it can, it does."""
    stuck, other = opener(), opener()
    context, witness = stuck.context(), other.context()
    assert witness.run("mine = 6").verdict == "ok"
    pid = host_pid(context)
    with frozen(pid) as thaw:
        context.close()  # the warden has killed it, and is told nothing of its end
        began = time.monotonic()
        assert witness.run("mine * 7").text == "42"
        assert opener().context().run("1 + 1").text == "2"
        assert stuck.context().run("2 + 2").text == "4", "the session itself is whole"
        closing = threading.Thread(target=stuck.close)
        closing.start()
        assert witness.run("mine * 8").text == "48"
        assert time.monotonic() - began < PATIENCE
        closing.join(CLOSING + PATIENCE)
        assert not closing.is_alive() and os.path.exists(f"/proc/{pid}")
        thaw()
        assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"), PATIENCE), "it outlives its session"
    assert witness.run("mine * 9").text == "54"
