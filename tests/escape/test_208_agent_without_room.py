# SPDX-License-Identifier: Apache-2.0
"""208, from inside: code uses up what the agent shares with it: processes, memory, places for files => what is asked next is refused with the limit's name
or done; a stop works; what the kernel kills is the code's, and the verdict is memory.
"""
import time

import pytest
from conftest import wait_until
from hostile_containers import GRACE, containers, engines, is_late, is_lost, own_of, own_warden, processes
from hostile_engines import begin, docker_box
from sessions import Refused


def refusal(function, *args):
    """The code of the error; None when it was done."""
    try:
        function(*args)
    except Refused as refused:
        return refused.code


def test_processes(containers):
    session = containers(pids_limit=32, timeout="8s")
    session.write("before", b"x")
    bomb = session.start("python", "import os, time\ntry:\n  while os.fork(): pass\n  time.sleep(100)\nexcept OSError:\n  print('full', flush=True)\n  time.sleep(100)")
    bomb.wait_for("stdout")
    assert refusal(session.run, "python", "print(1)") in ("limit", None)
    assert refusal(session.write, "during", b"x") in ("limit", "lost", None)
    opened = refusal(session.context, "python")
    assert opened in ("limit", "lost", None)
    assert not bomb.is_over
    bomb_ends = bomb.join(8 + GRACE)
    assert bomb_ends.verdict in ("timeout", "pids") or is_late(bomb_ends), bomb_ends
    # A context that got in between is two processes: who watches it, and its interpreter.
    assert is_lost(session) or (len(processes(session)) == (2 if opened is None else 0) and session.read("before") == b"x")


FILL = """
import os
def fill(place):
    try:
        with open(f'{place}/fill', 'wb') as file:
            while True: file.write(b'x' * 65536); file.flush()
    except OSError: pass
    try:
        for i in range(200000): os.close(os.open(f'{place}/n{i}', os.O_WRONLY | os.O_CREAT))
    except OSError: pass
"""


def test_places_for_files(containers):
    """All of them full, of bytes and of names: the place of the code, too."""
    session = containers(timeout="20s", disk_limit="4m", tmp_size="4m", inode_limit=2000)
    result = session.run("python", f"{FILL}\nfor place in ('/run/glovebox', '/tmp', '/sandbox', '/dev/shm'): fill(place)\nprint('full')")
    assert "full" in result.out, result
    try:
        again = session.run("python", "print(6 * 7)")
        assert (again.verdict, again.out) in (("ok", "42\n"), ("disk", "42\n")), again
    except Refused as refused:
        assert refused.code == "limit" and "/run/glovebox" in refused.message, refused
    # Room is made from outside: in the workspace, and an interpreter needs no file for its code.
    session.remove("fill")
    context = session.context("python")
    context.run("import os, glob\nfor place in ('/run/glovebox', '/tmp', '/sandbox', '/dev/shm'):\n  for name in glob.glob(place + '/*'):\n    if os.path.isfile(name): os.unlink(name)")
    assert not is_lost(session)


EATERS = {
    "one": "x = []\nwhile True: x.append(b'x' * 1000000)",
    "many-small": "import os, time\nfor i in range(60):\n  if os.fork() == 0:\n    x = []\n    while len(x) < 40: x.append(b'x' * 100000); time.sleep(0.01)\n    time.sleep(100)\ntime.sleep(100)",
    "as-dear-as-the-agent": "open('/proc/self/oom_score_adj', 'w').write('0')\nx = []\nwhile True: x.append(b'x' * 1000000)",
    "shared": "import mmap, os, time\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1",
}


@pytest.mark.parametrize("eater", EATERS)
def test_memory(containers, eater):
    """The kernel kills the code before the agent; and when it does not, the verdict is the same."""
    session = containers(mem_limit="64m", timeout="20s")
    code = EATERS[eater]
    if eater == "as-dear-as-the-agent":
        code = code.replace("open(", "try: open(", 1).replace("\nx =", "\nexcept OSError: pass\nx =", 1)
    began = time.monotonic()
    result = session.run("python", code)
    assert result.verdict == "memory" and time.monotonic() - began < 20, result
    assert is_lost(session) or processes(session) == []


def test_memory_that_stays(containers):
    """Files count as memory, and outlive the program that wrote them: what comes next is ended for memory or refused, never hangs, and removing them helps or is refused, too."""
    session = containers(mem_limit="48m", disk_limit="100m", tmp_size="100m", timeout="10s")
    result = session.run("python", f"{FILL}\nfill('/sandbox')")
    assert result.verdict in ("memory", "disk", "lost"), result
    began = time.monotonic()
    try:
        again = session.run("python", "print(1)")
        assert again.verdict in ("memory", "ok", "lost", "error"), again
    except Refused as refused:
        assert refused.code in ("lost", "limit"), refused
    assert refusal(session.remove, "fill") in (None, "lost", "limit", "not_found")
    assert time.monotonic() - began < 10 + GRACE


FLOOD = """
import array, os, socket, time
keep = []
reading, writing = os.pipe()
try:
    for i in range(400):
        pair = socket.socketpair()
        keep.append(pair)
        try:
            while True: pair[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [reading] * 200))], socket.MSG_DONTWAIT)
        except BlockingIOError: pass
except OSError: pass
print('full', flush=True)
while not os.path.exists('/sandbox/enough'): time.sleep(0.05)
"""


def test_what_is_counted_for_a_user(containers):
    """Descriptors that are under way count for the user on the whole host, and boxes have the same: the agent of another one has room all the same."""
    session, other = containers(timeout="60s"), containers(timeout="5s")
    context = other.context("python")
    assert context.run("1").text == "1"
    flood = session.start("python", FLOOD)
    flood.wait_for("stdout")
    result = context.run("input()", stdin=b"hello\n")
    assert (result.verdict, result.text) == ("ok", "'hello'"), result
    other.write("file", b"x")
    assert other.run("python", "print(open('file').read())").out == "x\n"
    session.write("enough", b"")
    assert flood.join().verdict == "ok"


def test_few_descriptors(containers):
    """The limit is the program's; the agent has its own."""
    session = containers(nofile=32)
    for i in range(3):
        assert session.context("python").run("import resource\nresource.getrlimit(resource.RLIMIT_NOFILE)").text == "(32, 32)"
    session.write("file", b"x")
    assert session.list() == {b"file": session.list()[b"file"]}


def test_its_share_of_the_others_memory(containers):
    """A context that floods all its channels at once, and one that goes on beside it."""
    session = containers(timeout="10s", output_limit="4m")
    other, flooder = session.context("python"), session.context("python")
    assert other.run("1").text == "1"
    running = flooder.start("""
import os, threading
def flood(n):
    while True:
        try: os.write(n, b'x' * 65536)
        except OSError: return
for n in (1, 2, 20) * 2: threading.Thread(target=flood, args=(n,), daemon=True).start()
while True: pass
""")
    running.wait_for("started")
    for i in range(10):
        assert other.run(f"{i} + 1").text == str(i + 1)
    began = time.monotonic()
    result = running.join()
    # What was under way when nobody listened any more did not stand before its end.
    assert result.verdict in ("output", "error") and time.monotonic() - began < 15, result
    assert other.run("2 + 2").text == "4"


@pytest.mark.parametrize("how", ["garbage", "closed", "descriptors", "deaf"])
def test_its_own_control_channel(containers, how):
    session = containers(timeout="4s")
    other, context = session.context("python"), session.context("python")
    code = {"garbage": "os.write(20, os.urandom(100000))",
            "closed": "os.close(20)",
            "descriptors": "import array, socket\ns = socket.socket(fileno=os.dup(20))\nr, w = os.pipe()\nfor i in range(100):\n  s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [r] * 250))], socket.MSG_DONTWAIT)",
            "deaf": "time.sleep(100)"}[how]
    began = time.monotonic()
    try:
        result = context.run(f"import os, time\n{code}", stdin=b"x" * 3000000)
        assert result.verdict in ("error", "timeout", "lost"), result
    except Refused as refused:
        assert refused.code in ("lost", "protocol"), refused
    assert time.monotonic() - began < 4 + GRACE
    assert other.run("20 + 22").text == "42"
    assert context.run("20 + 23").text == "43"


def test_memory_of_glovebox(docker_box):
    """Floods on both streams, and nobody reads what comes of it: what is kept of them has bounds."""
    code = "import os, threading\nprint('on', flush=True)\ndef flood(n):\n  while True: os.write(n, b'x' * 65536)\nfor n in (1, 2) * 4: threading.Thread(target=flood, args=(n,)).start()"
    process = begin(docker_box, code, timeout="2s", output_limit="100m")
    peak = 0
    try:
        for _ in range(20):
            with open(f"/proc/{process.pid}/status") as file:
                peak = max([peak, *(int(line.split()[1]) for line in file if line.startswith("VmHWM"))])
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()
    assert wait_until(lambda: not own_of(docker_box.engine, process.pid), 20)
    assert 0 < peak < 32 * 1024, f"{peak} kB"
