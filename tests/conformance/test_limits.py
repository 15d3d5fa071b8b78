# SPDX-License-Identifier: Apache-2.0
"""Limits: each in turn is hit by a program in one and the same session, which must stay usable; the verdict is exact and so are the numbers."""
import pytest
from backends import told, verdict

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
CLEAN = "cd /sandbox && rm -rf * && cd /tmp && rm -rf * .[!.]*; true"


@pytest.fixture(scope="module")
def narrow(backend):
    with backend.session(policy=LIMITS) as session:
        yield session


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb(narrow, bomb):
    kind, code, limit, unit = BOMBS[bomb]
    result = narrow.program(code)
    assert verdict(result) == kind, told(result)
    assert (result["verdict"]["limit"], result["verdict"]["unit"]) == (limit, unit), told(result)
    peak = result["verdict"]["peak"]
    assert peak is None or peak >= limit * 0.5, told(result)
    assert result["verdict"]["message"], told(result)
    # It can be used on, and what was full is free again.
    after = narrow.program(CLEAN, "sh")
    assert verdict(after) == "ok", told(after)
    after = narrow.program("open('f', 'wb').write(bytes(1 << 20)); print('whole')")
    assert (verdict(after), after["stdout"]) == ("ok", "whole\n"), told(after)


def test_a_call_that_kills(backend):
    """A 32-bit system call from a 64-bit program: killed, and told."""
    code = ("import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('b814000000cd80c3'))\n"
            "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()")
    result = backend.run(code)
    assert (result.verdict, result.signal, result.returncode) == ("syscall", "SIGSYS", 123), result.explain()


def test_limits_and_peaks(narrow):
    result = narrow.program("x = bytearray(30 << 20); open('f', 'wb').write(bytes(3 << 20)); print('y' * 999)\nfor i in range(2000000): pass")
    assert verdict(result) == "ok", told(result)
    limits, peaks = result["limits"], result["peaks"]
    assert {k: limits[k] for k in ("memory_bytes", "pids", "disk_bytes", "tmp_bytes", "output_bytes", "inodes", "nofile", "cpu_time_usec", "timeout_usec")} == {
        "memory_bytes": 128 << 20, "pids": 24, "disk_bytes": 8 << 20, "tmp_bytes": 8 << 20, "output_bytes": 64 << 10, "inodes": 200, "nofile": 64,
        "cpu_time_usec": 1000000, "timeout_usec": 20000000}
    assert 33 << 20 < peaks["memory_bytes"] <= 160 << 20, peaks
    assert 3 << 20 <= peaks["disk_bytes"] <= 18 << 20 and peaks["output_bytes"] == 1000 and 1 <= peaks["pids"] <= 25, peaks
    assert 20000 < peaks["cpu_usec"] < 1200000 and peaks["inodes"] >= 1, peaks


def test_open_files(narrow):
    result = narrow.program("import os\nn = 0\ntry:\n  while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(e.strerror, 40 < n < 64)")
    assert result["stdout"] == "Too many open files True\n", told(result)


def test_a_limit_that_was_met_without_harm_is_a_note(narrow):
    result = narrow.program("import os\nfd = os.open('/tmp/big', os.O_CREAT | os.O_WRONLY)\ntry:\n  while True: os.write(fd, bytes(65536))\n"
                            "except OSError as e: print(e.strerror)\nos.unlink('/tmp/big')")
    assert (verdict(result), result["stdout"]) == ("ok", "No space left on device\n"), told(result)


def test_time_of_a_program(narrow):
    result = narrow.program("import time; time.sleep(30)", timeout="300ms")
    assert verdict(result) == "timeout" and 300 <= result["duration_ms"] < 3000, told(result)


def test_processor_share(backend):
    with backend.session(policy={"cpu_count": 0.5}) as session:
        result = session.program("import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time() < 1.1)")
        assert result["stdout"] == "True\n", told(result)
        assert result["limits"]["cpu_milli"] == 500
