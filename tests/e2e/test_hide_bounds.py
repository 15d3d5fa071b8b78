# SPDX-License-Identifier: Apache-2.0
"""Mounts without credential files: what a box can make the program do that serves them, which is outside of the box's limits."""
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest
from conftest import IS_ROOT, NOT_ROOT
from session_fixtures import cold_sessions, own_warden  # noqa: F401
from test_hide import Talk, helpers, hiding_box, own, run  # noqa: F401

GUARD_MODE = "off"
MIB = 1 << 20


def memory(pid, field="VmHWM"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} of {pid}")


def lines_until_first(talk):
    lines = []
    for line in talk.process.stdout:
        if line.decode().strip() == "first":
            return lines
        lines.append(line.decode().strip())
    raise AssertionError(f"ended with {lines}: {talk.process.stderr.read().decode()}")


OPEN_MANY = """
import ctypes, errno, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
buffer = ctypes.create_string_buffer(32768)
def many(path, flags, most):
    kept, why = [], None
    try:
        while len(kept) < most:
            kept.append(os.open(path, flags))
            if flags & os.O_DIRECTORY:
                ctypes.CDLL(None).syscall(217 if os.uname().machine == 'x86_64' else 61, kept[-1], buffer, 32768)
    except OSError as error:
        why = errno.errorcode[error.errno]
    return len(kept), why, [os.close(fd) for fd in kept] and None
"""


def test_open_directories_are_bounded(hiding_box, no_leaks):  # noqa: F811
    """Each one took 63 KB: what was read of it, by libc and by libfuse."""
    place = hiding_box.directory("many")
    for i in range(2000):
        (place / f"a-file-with-a-rather-long-name-{i}").touch()
    own(place, hiding_box)
    talk = Talk(hiding_box, place, OPEN_MANY + """
print(*many('/project', os.O_RDONLY | os.O_DIRECTORY, 1000)[:2], flush=True)
kept = [os.open('/project', os.O_RDONLY) for _ in range(600)]
if os.fork() == 0:
    for fd in kept: os.close(fd)
    print(*many('/project', os.O_RDONLY | os.O_DIRECTORY, 1000)[:2], flush=True)
    os._exit(0)
os.wait()
for fd in kept: os.close(fd)
step('first')
print(len(os.listdir('/project')))
""")
    lines = lines_until_first(talk)
    assert lines[0] == "1000 None" and lines[1] == "424 ENFILE", lines
    assert max(memory(pid) for pid in helpers()) < 64 * MIB
    talk.go_on()
    assert talk.end()[0].split()[-1] == "2000"


def test_open_small_certificates_cost_what_they_hold(hiding_box, no_leaks):  # noqa: F811
    """Each one kept 4096 bytes for 30, and counted 30."""
    place = hiding_box.directory("certificates")
    (place / "c.pem").write_text("-----BEGIN CERTIFICATE-----\nM\n")
    own(place, hiding_box)
    talk = Talk(hiding_box, place, OPEN_MANY + """
kept = []
for i in range(8):
    reader, writer = os.pipe()
    if os.fork() == 0:
        held = [os.open('/project/c.pem', os.O_RDONLY) for _ in range(900)]
        os.write(writer, b'x')
        time.sleep(60)
    os.read(reader, 1)
step('first')
os._exit(0)
""")
    talk.until("first")
    assert max(memory(pid) for pid in helpers()) < 16 * MIB
    talk.go_on()
    talk.end()


@pytest.fixture
def many_names(own_box):
    """In memory, where they are made in a second."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-names-", dir="/dev/shm"))
    for i in range(200):
        os.mkdir(place / f"d{i}")
        directory = os.open(place / f"d{i}", os.O_RDONLY)
        for j in range(1000):
            os.mknod(f"file_{j}", dir_fd=directory)
        os.close(directory)
    yield place
    shutil.rmtree(place)


def test_a_walk_over_many_names_works_within_the_limit(own_box, many_names, no_leaks):
    """The program keeps something for each name that the kernel knows, and its memory has a limit."""
    talk = Talk(own_box, many_names, """
n = 0
for directory, _, files in os.walk('/project'):
    for name in files:
        os.stat(directory + '/' + name); n += 1
print(n)
step('first')
""")
    lines = lines_until_first(talk)
    [pid] = [pid for pid in helpers() if memory(pid, "VmRSS") > 4 * MIB]
    data = [line.split() for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max data size")]
    assert lines == ["200000"] and data == [["Max", "data", "size", str(256 * MIB), str(256 * MIB), "bytes"]]
    assert memory(pid) < 128 * MIB
    talk.go_on()
    talk.end()


@pytest.fixture
def slow_project(hiding_box):  # noqa: F811
    """Many files that have to be read to be hidden: as many as take some seconds."""
    place = hiding_box.directory("slow")
    (place / "pem").mkdir()
    head = "-----BEGIN CERTIFICATE-----\n"
    for i in range(2000):
        path = place / f"pem/{i}.pem"
        path.write_text(head)
        with open(path, "r+") as file:
            file.truncate(MIB - 32)
            file.seek(MIB - 32)
            file.write("PRIVATE KEY")
    own(place, hiding_box)
    yield place
    shutil.rmtree(place)


def test_code_that_waits_for_a_list_gets_it_in_parts(hiding_box, slow_project, no_leaks):  # noqa: F811
    """One request read all of them, and its caller could not be killed until it had an answer."""
    result = run(hiding_box, slow_project, """
import ctypes, os, time
buffer, directory, took = ctypes.create_string_buffer(32768), os.open('/project/pem', os.O_RDONLY), []
while True:
    before = time.monotonic()
    n = ctypes.CDLL(None).syscall(217 if os.uname().machine == 'x86_64' else 61, directory, buffer, 32768)
    took.append(time.monotonic() - before)
    if n <= 0: break
print(n, len(took) > 4, max(took) < sum(took) / 2, max(took), sum(took))
""")
    assert result.stdout.startswith("0 True True "), result.explain()


def test_a_list_that_takes_long_is_whole(hiding_box, slow_project, no_leaks):  # noqa: F811
    """It comes in parts; a part without a file has a dot, which programs pass over."""
    (slow_project / "pem/last.txt").touch()
    own(slow_project, hiding_box)
    result = run(hiding_box, slow_project, "import os; print(os.listdir('/project/pem'), [e.name for e in os.scandir('/project/pem')])")
    assert result.stdout == "['last.txt'] ['last.txt']\n", result.explain()


def test_code_that_waits_for_ever_can_be_cancelled(hiding_box, slow_project, no_leaks):  # noqa: F811
    """What serves the mount is ended before the box is: its end is the answer that the code waits for."""
    talk = Talk(hiding_box, slow_project, "step('first'); os.listdir('/project/pem')")
    talk.until("first")
    talk.go_on()
    time.sleep(0.3)
    for pid in helpers():
        os.kill(pid, signal.SIGSTOP)
    before = time.monotonic()
    talk.process.send_signal(signal.SIGINT)
    talk.end()
    assert time.monotonic() - before < 4


def test_a_session_is_closed_at_once(hiding_box, cold_sessions, slow_project):  # noqa: F811
    """What still waits for an answer cannot be killed: its close took 5 seconds, and its end was not known."""
    if hiding_box.who == "user":
        pytest.skip("the library opens sessions as whoever runs the suite: as root there are none of a user")
    session = cold_sessions({"mounts": f"{slow_project}:/project:hide", "guard": "off"})
    context = session.context()
    assert context.run("import os\nif os.fork() == 0:\n    os.listdir('/project/pem')\n    os._exit(0)").verdict == "ok"
    time.sleep(0.3)
    for pid in helpers():
        os.kill(pid, signal.SIGSTOP)
    before = time.monotonic()
    session.close()
    assert time.monotonic() - before < 3


def test_signals_of_the_caller_do_not_fail_a_mount(cold_sessions, tmp_path):
    """The library waits for an answer of glovebox-hide in a process that may have handlers of its own."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for _ in range(5):
            cold_sessions({"mounts": f"{tmp_path}:/project:hide"}).close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Attached:
    """glovebox-hide with a mount that an engine could find, as the front asks for it (hide/wire.h)."""

    def __init__(self, program, runtime, project):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([program, f"{runtime}/"], stdin=theirs)
        theirs.close()
        directory = os.open(project, os.O_PATH | os.O_DIRECTORY)
        socket.send_fds(self.socket, [struct.pack("III16384s", 1, 0, 0, b"h.env\n")], [directory])
        os.close(directory)
        answer, fds, _, _ = socket.recv_fds(self.socket, 8192, 4)
        assert struct.unpack_from("i", answer)[0] == 0, answer[8:512]
        for fd in fds:
            os.close(fd)
        self.path = pathlib.Path(answer[512:].split(b"\0")[0].decode())

    def children(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def end(self):
        self.socket.close()
        self.process.wait(timeout=10)


def mounts(runtime):
    return [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(runtime) in line]


@pytest.mark.skipif(not IS_ROOT, reason=NOT_ROOT)
def test_a_dead_mount_is_taken_off_by_the_next(own_box, tmp_path):
    """Of a program that was killed with its parent: nobody else would."""
    program = own_box.binary.parents[1] / "hide/glovebox-hide"
    runtime, project = tmp_path / "runtime", tmp_path / "project"
    runtime.mkdir(mode=0o700)
    project.mkdir()
    (project / "a.txt").write_text("a")
    first = Attached(program, runtime, project)
    assert (first.path / "a.txt").read_text() == "a" and len(mounts(runtime)) == 1
    [child] = first.children()
    assert os.readlink(f"/proc/{child}/cwd") == "/"
    assert [fd for fd in os.listdir(f"/proc/{child}/fd") if os.readlink(f"/proc/{child}/fd/{fd}").startswith(str(runtime))] == []
    for pid in (first.process.pid, child):
        os.kill(pid, signal.SIGKILL)
    first.end()
    assert len(mounts(runtime)) == 1
    second = Attached(program, runtime, project)
    assert len(mounts(runtime)) == 1 and not first.path.parent.exists()
    assert (second.path / "a.txt").read_text() == "a"
    second.end()
    assert mounts(runtime) == [] and list(runtime.iterdir()) == []
