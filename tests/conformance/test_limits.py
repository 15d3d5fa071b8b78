# SPDX-License-Identifier: Apache-2.0
"""Limits: each in turn is hit by a program in one and the same session, which must stay usable; the verdict is exact and so are the numbers."""
import os
import time

import pytest
from backends import CANNOT, can, told, verdict
from suite import wait_until

LIMITS = {"mem_limit": "128m", "pids_limit": 24, "disk_limit": "8m", "tmp_size": "8m", "output_limit": "64k", "cpu_time": "1s", "inode_limit": 200, "nofile": 64, "timeout": "20s"}

# verdict, program, limit and unit of the verdict. Peaks are the session's, so files are counted before bytes are.
BOMBS = {
    "memory": ("memory", "x = []\nwhile True: x.append(bytearray(1 << 20))", 128 << 20, "bytes"),
    "memory-of-a-child": ("memory", "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 20) * 500']).returncode and 1)", 128 << 20, "bytes"),
    "pids": ("pids", "import os\nr, w = os.pipe()\nfor i in range(100):\n  if os.fork() == 0: os.close(w); os.read(r, 1); os._exit(0)", 24, "tasks"),
    "inodes": ("disk", "for i in range(1000): open(f'/tmp/f{i}', 'w').close()", 200, "inodes"),
    "disk": ("disk", "with open('big', 'wb') as f:\n  while True: f.write(bytes(65536))", 8 << 20, "bytes"),
    "disk-of-tmp": ("disk", "with open('/tmp/big', 'wb') as f:\n  while True: f.write(bytes(65536))", 8 << 20, "bytes"),
    "output": ("output", "while True: print('y' * 1000)", 64 << 10, "bytes"),
    "cpu": ("cpu", "while True: pass", 1000000, "usec"),
}
CGROUP = ["memory", "memory-of-a-child", "pids"]
CONTROL = {"inodes": "tmp", "pids": "pids"}
CLEAN = "cd /sandbox && rm -rf * && cd /tmp && rm -rf * .[!.]*; true"


@pytest.fixture(scope="module")
def narrow(backend):
    with backend.session(policy=LIMITS) as session:
        yield session


def explode(session, bomb):
    """False: the container was gone before its counters could be read, so that nobody knows why; that is told."""
    kind, code, limit, unit = BOMBS[bomb]
    result = session.program(code)
    if bomb.startswith("memory") and not can("kept", session.backend.name) and verdict(result) == "lost":
        assert "ended with status 137" in result["verdict"]["message"], told(result)
        return False
    if bomb in CANNOT and not can(bomb, session.backend.name):  # then that is told, in the result of every run
        control = next(c for c in result["controls"] if c["name"] == CONTROL[bomb])
        assert control["state"] == "weaker" or "no limit" in control["how"], control
        assert verdict(result) != kind, f"it can by now, and CANNOT says that it cannot: {told(result)}"
        return True
    assert verdict(result) == kind, told(result)
    assert (result["verdict"]["limit"], result["verdict"]["unit"]) == (limit, unit), told(result)
    assert result["verdict"]["peak"] is None or result["verdict"]["peak"] >= limit * 0.5, told(result)
    assert result["verdict"]["message"] and result["duration_ms"] > 0, told(result)
    if bomb.startswith("disk"):  # the place that was full, and its own flag
        assert ("in /tmp" in result["verdict"]["message"], "--tmp-size" in result["verdict"]["message"]) == ((bomb == "disk-of-tmp"),) * 2, told(result)
    return True


def still_works(session):
    """It can be used on, and what was full is free again."""
    # What it had started dies by itself, when it sees that the program has ended.
    assert wait_until(lambda: verdict(session.program(CLEAN, "sh")) == "ok", 5), "nothing can be run any more"
    after = session.program("open('f', 'wb').write(bytes(1 << 20)); print('whole')")
    assert (verdict(after), after["stdout"]) == ("ok", "whole\n"), told(after)


@pytest.mark.parametrize("bomb", [b for b in BOMBS if b not in CGROUP])
def test_bomb(narrow, bomb):
    explode(narrow, bomb)
    still_works(narrow)


def test_a_context_that_fills_tmp(narrow):
    """The interpreter goes on, and the place is named all the same; a run that comes after it is not blamed."""
    result = narrow.run("open('/tmp/big', 'wb').write(bytes(16 << 20))")
    assert (verdict(result), result["verdict"]["limit"], result["verdict"]["unit"]) == ("disk", 8 << 20, "bytes"), told(result)
    assert "in /tmp" in result["verdict"]["message"] and "--tmp-size" in result["verdict"]["message"], told(result)
    after = narrow.run("undefined")
    assert verdict(after) == "error" and any("full before" in note for note in after["notes"]), told(after)
    still_works(narrow)


@pytest.mark.parametrize("bomb", CGROUP)
def test_bomb_that_the_cgroup_stops(backend, bomb):
    assert any(is_seen(backend, bomb) for _ in range(3)), "it is never seen why the container has ended"


def is_seen(backend, bomb):
    with backend.session(policy=LIMITS) as session:
        seen = explode(session, bomb)
        if can("kept", backend.name):
            still_works(session)
        elif wait_until(lambda: session.server.get(session.address).status == 404, 5):
            session.id = None  # all of it is gone
        else:
            assert bomb == "pids", "it is kept by now, and CANNOT says that it is not"  # of tasks nothing may have been hit
            still_works(session)
        return seen


def test_a_call_that_kills(backend):
    """A 32-bit system call from a 64-bit program: killed, and told."""
    code = ("import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('b814000000cd80c3'))\n"
            "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()")
    result = backend.run(code)
    if can("compat_calls", backend.name):
        assert (result.verdict, result.signal, result.returncode) == ("syscall", "SIGSYS", 123), result.explain()
    else:
        assert result.verdict in ("ok", "error"), result.explain()


def test_limits_and_peaks(narrow, backend):
    result = narrow.program("x = bytearray(30 << 20); open('f', 'wb').write(bytes(3 << 20)); print('y' * 999)\nfor i in range(2000000): pass")
    assert verdict(result) == "ok", told(result)
    limits, peaks = result["limits"], result["peaks"]
    assert {k: limits[k] for k in ("memory_bytes", "pids", "disk_bytes", "tmp_bytes", "output_bytes", "inodes", "nofile", "cpu_time_usec", "timeout_usec")} == {
        "memory_bytes": 128 << 20, "pids": 24, "disk_bytes": 8 << 20, "tmp_bytes": 8 << 20, "output_bytes": 64 << 10, "inodes": 200, "nofile": 64,
        "cpu_time_usec": 1000000, "timeout_usec": 20000000}
    assert 33 << 20 < peaks["memory_bytes"] <= 160 << 20, peaks
    assert 3 << 20 <= peaks["disk_bytes"] <= 18 << 20 and peaks["output_bytes"] == 1000 and 20000 < peaks["cpu_usec"] < 1200000, peaks
    assert not can("pids", backend.name) or 1 <= peaks["pids"] <= limits["pids"], peaks
    assert not can("inodes", backend.name) or peaks["inodes"] >= 1, peaks


# Of a megabyte each: a single one would meet the limit of a file's size. Growth is measured every 50 ms.
FILL = "import time\nfor i in range(%d): open(f'%s/f{i}', 'wb').write(bytes(1 << 20)); time.sleep(0.01)"


@pytest.mark.parametrize("kind", ["workspace", "mount"])
def test_disk_of_the_host(backend, scratch, kind):
    """What a directory of the host may grow by; what was in it does not count."""
    (scratch / "before").write_bytes(bytes(16 << 20))
    if os.geteuid() == 0:
        os.chown(scratch, backend.server.uid, backend.server.uid)
    scratch.chmod(0o777)  # in a container the code is the owner of a workspace, but not of a mount
    fields, place = ({"workspace": {"path": str(scratch)}}, "/sandbox") if kind == "workspace" else ({}, "/place")
    mounts = {} if kind == "workspace" else {"mounts": [f"{scratch}:/place:rw"]}
    with backend.session(policy={"disk_limit": "8m", **mounts}, **fields) as session:
        small = session.program(FILL % (4, place))
        assert verdict(small) == "ok", told(small)
        result = session.program(FILL % (300, place))
        assert (verdict(result), result["verdict"]["limit"], result["verdict"]["unit"]) == ("disk", 8 << 20, "bytes"), told(result)
        assert 8 << 20 < result["verdict"]["peak"] < 200 << 20, told(result)
    assert (scratch / "f7").stat().st_size == 1 << 20 and not (scratch / "f299").exists()


def test_open_files(narrow):
    result = narrow.program("import os\nn = 0\ntry:\n  while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(e.strerror, 40 < n < 64)")
    assert result["stdout"] == "Too many open files True\n", told(result)


def test_a_limit_that_was_met_without_harm_is_a_note(narrow):
    result = narrow.program("import os\nfd = os.open('/tmp/big', os.O_CREAT | os.O_WRONLY)\ntry:\n  while True: os.write(fd, bytes(65536))\n"
                            "except OSError as e: print(e.strerror)\nos.unlink('/tmp/big')")
    assert (verdict(result), result["stdout"]) == ("ok", "No space left on device\n"), told(result)


def test_time_of_a_program(narrow):
    result = narrow.program("import time; time.sleep(30)", timeout="300ms")
    assert verdict(result) == "timeout" and 300 <= result["duration_ms"] < 10000, told(result)


def test_processor_share(backend):
    with backend.session(policy={"cpu_count": 0.5}) as session:
        result = session.program("import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass")
        assert verdict(result) == "ok" and 50 < result["cpu_ms"] < 1100, told(result)
        assert result["limits"]["cpu_milli"] == 500, told(result)


@pytest.fixture
def place_of_the_host(backend, scratch):
    """A workspace on the host, and by how many megabytes it may grow. A runner uses some processor time after a run, and gVisor's own kernel a few milliseconds: each
    explains 32 MB."""
    if os.geteuid() == 0:
        os.chown(scratch, backend.server.uid, backend.server.uid)
    scratch.chmod(0o777)
    limit = 512 if backend.name == "runsc" else 64
    with backend.session(policy={"disk_limit": f"{limit}m"}, workspace={"path": str(scratch)}) as session:
        yield scratch, session, limit


def of_the_host(path, megabytes):
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, megabytes << 20)


def test_what_the_host_adds_is_not_the_growth_of_the_code(backend, place_of_the_host):
    """Files that the host puts into a workspace never count as the code's own growth."""
    place, session, limit = place_of_the_host
    of_the_host(place / "first", 600)
    assert session.run("print(1)")["stdout"] == "1\n"
    for i in range(3):
        of_the_host(place / f"from-the-host-{i}", 600)
        result = session.run(f"import os; print(os.path.getsize('from-the-host-{i}'))")
        assert (verdict(result), result["stdout"]) == ("ok", f"{600 << 20}\n"), told(result)
    # Its own growth counts as before.
    result = session.program(FILL % (limit * 4, "."))
    assert verdict(result) == "disk" and result["verdict"]["peak"] > limit << 20 and not (place / f"f{limit * 4 - 1}").exists(), told(result)


def test_what_the_host_adds_while_the_code_waits(backend, place_of_the_host):
    place, session, limit = place_of_the_host
    if backend.name == "runsc":
        pytest.skip("gVisor's own kernel computes while the code waits")
    run = session.begin("print('waits', flush=True)\nimport time; time.sleep(2); print('done')")
    time.sleep(0.3)  # the code has begun to wait, and somebody has looked since
    of_the_host(place / "during", 600)
    result = session.end(run)
    assert (verdict(result), result["stdout"]) == ("ok", "waits\ndone\n"), told(result)


def test_no_way_to_write_without_the_processor(backend):
    """Growth would not be seen to be the code's."""
    code = ("import fcntl, os\nfd = os.open('f', os.O_CREAT | os.O_RDWR)\n"
            "for attempt in (lambda: os.open('g', os.O_CREAT | os.O_RDWR | os.O_DIRECT), lambda: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)):\n"
            "  try: attempt(); print('done')\n  except OSError as e: print(e.strerror)")
    assert backend.run(code).stdout == "Invalid argument\n" * 2


def test_no_file_without_a_name(backend):
    """The walk that measures growth would miss it, and it could get a name later. Programs have another way."""
    code = ("import os, tempfile\ntry: os.open('.', os.O_TMPFILE | os.O_RDWR)\nexcept OSError as e: print(e.strerror)\n"
            "with tempfile.TemporaryFile(dir='.') as f: print(f.write(b'x'))")
    assert backend.run(code).stdout == "Operation not supported\n1\n"


def test_what_a_process_writes_between_two_runs_is_its_own(backend, place_of_the_host):
    """The other side: nobody looks between two runs, and a process that a run left behind writes then."""
    place, session, limit = place_of_the_host
    code = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', '''" \
           f"import os, time\ntime.sleep(1)\nfor i in range({limit * 2}): open(f'late{{i}}', 'wb').write(bytes(1 << 20))\nopen('written', 'w')''']) and None"
    result = session.run(code)
    assert verdict(result) == "ok", told(result)
    assert wait_until(lambda: (place / "written").exists(), 60)
    result = session.run("import time; time.sleep(3)")  # a look every 50 ms, and one at the end
    assert verdict(result) == "disk", told(result)
