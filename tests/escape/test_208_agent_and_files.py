# SPDX-License-Identifier: Apache-2.0
"""208, files: the agent's server of files has the user of the code, and works in a tree that the code changes meanwhile (129 to 135, in a container)
=> whole answers or errors, and nothing from outside the workspace.
"""
import pytest
from hostile_containers import containers, engines, is_lost, own_warden
from sessions import Refused

SWAP = """
import os, time
print('on', flush=True)
os.makedirs('real', exist_ok=True)
open('real/hostname', 'w').write('inside')
end = time.monotonic() + 4
while time.monotonic() < end and not os.path.exists('enough'):
    for target in ('/etc', '/run/glovebox', '/proc/1', '..', 'real'):
        try:
            os.symlink(target, 'half')
            os.replace('half', 'swapped')
        except OSError: pass
        try:
            os.unlink('swapped')
            os.rename('real', 'swapped')
            os.rename('swapped', 'real')
        except OSError: pass
"""


def answer(function, *args):
    try:
        return function(*args)
    except Refused as refused:
        assert refused.code in ("not_found", "usage", "policy", "denied", "conflict", "limit"), refused
        return None


def test_swapped_directories(containers):
    session = containers(timeout="10s")
    swapper = session.start("python", SWAP)
    swapper.wait_for("stdout")
    outside = {b"passwd", b"hostname", b"environ", b"main.py", b"0", b"sandbox"}
    for _ in range(60):
        assert answer(session.read, "swapped/hostname") in (None, b"inside", b"")
        assert answer(session.read, "swapped/environ") is None
        assert not set(answer(session.list, "swapped") or ()) & (outside - {b"hostname"})
        answer(session.write, "swapped/planted", b"x")
        answer(session.remove, "swapped/planted")
    session.write("enough", b"")
    assert swapper.join().verdict == "ok"
    assert session.run("bash", "ls /etc/planted /run/glovebox/planted 2>&1 | grep -v 'cannot access'").out == ""
    assert not is_lost(session)


SPECIAL = """
import os, socket
os.symlink('/proc/1/environ', 'environ'); os.symlink('/dev/zero', 'zero'); os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
os.symlink('loop', 'loop'); os.mkdir('locked', 0)
"""


def test_what_is_no_file(containers):
    session = containers(timeout="10s")
    assert session.run("python", SPECIAL).verdict == "ok"
    for name in ("environ", "zero", "fifo", "socket", "loop", "locked/x", "../etc/passwd", "/etc/passwd"):
        with pytest.raises(Refused):
            session.read(name)
    session.write("file", b"x")
    assert session.read("file") == b"x"


HUNT = """
import os, signal
print('on', flush=True)
while not os.path.exists('/tmp/enough'):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/comm') as file:
                if file.read() == 'glovebox-files\\n': os.kill(int(pid), signal.SIGKILL)
        except OSError: pass
"""


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_the_server_is_killed(containers, runtime):
    """Where Landlock does not forbid it: in gVisor."""
    if runtime == "runsc" and not containers.engines.has_runsc:
        pytest.skip("runsc is not installed")
    session = containers("runsc" if runtime == "runsc" else None, timeout="4s")
    hunter = session.start("python", HUNT)
    hunter.wait_for("stdout")
    for i in range(10):
        try:
            session.write(f"file{i}", b"x" * 1000000)
            assert session.read(f"file{i}") == b"x" * 1000000
        except Refused as refused:
            assert refused.code in ("lost", "not_found"), refused
    session.run("bash", "touch /tmp/enough")
    assert hunter.join().verdict in ("ok", "timeout")
    session.write("file", b"x")
    assert session.read("file") == b"x" and not is_lost(session)
