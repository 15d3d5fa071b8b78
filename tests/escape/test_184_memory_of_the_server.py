# SPDX-License-Identifier: Apache-2.0
"""184. Another process of the same user looks into the server's memory, traces it, or makes it dump; somebody measures how long the comparison of a token takes => the
server cannot be looked into, dumps nothing, and compares hashes in constant time.
"""
import os
import pathlib
import re
import statistics
import subprocess
import time

import pytest
from conftest import USER, needs_root
from hostile_clients import exchange, request_bytes, tenants
from server import PATIENCE, PROGRAM, ROOT, Server

SPY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
for name in ("mem", "environ", "maps", "auxv", "fd", "root", "cwd", "exe", "syscall", "stack", "ns/mnt", "io"):
    path = f"/proc/{pid}/{name}"
    try:
        if name in ("root", "cwd", "exe", "ns/mnt"):
            os.readlink(path)
        elif name == "fd":
            os.listdir(path)
        else:
            with open(path, "rb") as file:
                file.read(1 if name == "mem" else -1)
        print(name, "open")
    except OSError as error:
        print(name, error.errno)
print("attach", libc.ptrace(16, pid, 0, 0))
print("seize", libc.ptrace(0x4206, pid, 0, 0))
class Vec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(16)
local, remote = Vec(ctypes.addressof(buffer), 16), Vec(0x400000, 16)
print("vm_readv", libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
pidfd = libc.syscall(434, pid, 0)
print("getfd", libc.syscall(438, pidfd, 0, 0))
"""


@pytest.fixture(scope="module", params=["drops", "user"])
def server(request):
    """One that root has started and that became somebody else, and one of an ordinary user."""
    if os.geteuid() != 0 and request.param == "user":
        pytest.skip("needs root to be somebody else; the other one is this user's")
    with Server(tcp=True, user=USER if request.param == "user" else None, policy="allow_weaker: [cgroup]\n" if request.param == "user" else None) as made:
        made.alfa = made.token("alfa", "run") if request.param == "drops" else None
        made.run("print(1)")
        yield made


def ours(server):
    """Its own processes: front, keeper, warden. Those of an ordinary user are his to look into, but for the front, which has secrets of others."""
    if not server.alfa:
        return {server.pid: "[glovebox-server]"}
    return {pid: command for pid, command in {server.pid: "[glovebox-server]", **server.processes()}.items() if command.startswith("[glovebox-")}


@needs_root
def test_same_user(server):
    """Whoever has its uid, and nothing else, gets nothing of it."""
    for pid, command in ours(server).items():
        done = subprocess.run(["/usr/bin/python3", "-c", SPY, str(pid)], user=server.uid, group=server.uid, extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
        got = dict(line.split() for line in done.stdout.splitlines())
        assert len(got) == 16 and not [name for name, value in got.items() if value == "open"], (command, got)
        assert {got[name] for name in ("attach", "seize", "vm_readv", "getfd")} == {"-1"}, (command, got)


def test_no_dumps(server):
    for pid, command in ours(server).items():
        try:
            # Of a process that may not be dumped these belong to root.
            assert os.stat(f"/proc/{pid}/maps").st_uid == 0, command
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        except (PermissionError, FileNotFoundError):
            continue
        core = re.search(r"Max core file size\s+(\S+)\s+(\S+)", limits)
        assert core[2] in ("0", "1") or command != "[glovebox-server]", (command, core[0])


def test_nothing_is_inherited_by_boxes(server):
    """Descriptors of the front are its own: code sees three and the channel."""
    held = server.run("import os\nprint(sorted(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else [])\nfor fd in range(3, 64):\n    try: print(fd, os.fstat(fd).st_mode)\n    except OSError: pass", template=None)
    lines = [line for line in held["result"]["stdout"].splitlines() if line and line[0].isdigit()]
    assert len(lines) <= 1, held["result"]["stdout"]  # one is that of the listing, if there is any


def test_comparison_is_constant():
    """What compares is OpenSSL's, over hashes of the whole; the source has no other comparison of them."""
    symbols = subprocess.run(["nm", "-D", str(PROGRAM)], stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False).stdout
    assert not symbols or "CRYPTO_memcmp" in symbols
    source = (ROOT / "src/journal/tokens.c").read_text()
    check = source[source.index("int tokens_check("):]
    check = check[:check.index("\n}\n")]
    assert "CRYPTO_memcmp(given, kept, sizeof(given))" in check and not re.search(r"\b(strcmp|strncmp|memcmp)\(", check.replace("CRYPTO_memcmp(", ""))
    assert "&&" not in re.search(r"bool counts = .*?;", check)[0], "every part of it is looked at"


def test_time_tells_nothing(tenants):
    """A weak look, so that a gross mistake is seen: tokens that are wrong in the first and in the last letter take as long, within what this host's noise allows."""
    good = tenants.alfa
    wrong = {"first": good[:13] + ("A" if good[13] != "A" else "B") + good[14:], "last": good[:-2] + ("AA" if good[-2:] != "AA" else "BB"), "unknown": "gbx_zzzzzzzz_" + good[13:]}
    took = {name: [] for name in wrong}
    for i in range(60):
        for name, token in wrong.items():
            data = request_bytes("GET", "/v1/info", [f"Authorization: Bearer {token}".encode()])
            start = time.perf_counter()
            assert exchange(tenants, data, source=f"127.184.{i}.{1 + list(wrong).index(name)}").startswith(b"HTTP/1.1 401 ")
            took[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in took.items()}
    assert max(medians.values()) - min(medians.values()) < 0.02, medians
