# SPDX-License-Identifier: Apache-2.0
"""73. Code inside takes memory without end, by maps, by its stack, by copies in children => ended by the memory limit, and the verdict says memory.
"""
import pytest


def test_memory_bomb(box, no_leaks):
    attack = box.attack("memory_bomb", memory="64m", timeout="20s")
    assert attack.notes["start"] == "1"
    result = attack.result
    if box.has_cgroup:
        assert (result.verdict, result.returncode) == ("memory", 118), result.explain()
        assert result.json["verdict"]["limit"] == 64 << 20
        assert 48 << 20 <= result.json["verdict"]["peak"] <= 64 << 20
    else:
        assert attack.notes["refused"] == "ENOMEM" and result.verdict in ("error", "memory"), result.explain()


def test_copies_in_children(box, no_leaks):
    if not box.has_cgroup:
        pytest.skip("the sum over processes needs a cgroup, which this host does not give to this user")
    attack = box.attack("cow_bomb", memory="128m", timeout="20s")
    assert attack.notes["start"] == "1"
    assert attack.result.verdict == "memory", attack.result.explain()


def test_stack_bomb(box):
    attack = box.attack("stack_bomb", memory="256m", timeout="20s")
    assert attack.notes["start"] == "1"
    assert (attack.result.verdict, attack.result.signal) == ("error", "SIGSEGV"), attack.result.explain()


def test_tmpfs_counts_as_memory(box):
    """/tmp is memory: filling it cannot take more than the box has."""
    if not box.has_cgroup:
        pytest.skip("needs a cgroup, which this host does not give to this user")
    code = "print('token', flush=True)\nwith open('/tmp/big', 'wb') as f:\n    for _ in range(400): f.write(bytes(1 << 20))"
    result = box.run(code, memory="64m", tmp_size="500m")
    assert result.stdout == "token\n" and result.verdict in ("memory", "disk"), result.explain()


SOCKETS = """
import socket, time
kept, sent = [], 0
for i in range(400):
    receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    receiver.bind(('127.0.0.1', 0))
    sender.setblocking(False)
    kept.append(receiver)
    try:
        for _ in range(100):
            sent += sender.sendto(bytes(60000), receiver.getsockname())
    except OSError:
        pass
held = 0
for receiver in kept:
    receiver.setblocking(False)
    try:
        while True:
            held += len(receiver.recv(65536))
    except OSError:
        pass
print('sent', sent >> 20, 'held', held >> 20)
"""


def test_buffers_of_sockets(box):
    """Gigabytes sent to sockets nobody reads: what they hold is bounded, too."""
    if not box.has_cgroup:
        pytest.skip("without a cgroup, which this host does not give to this user, each socket has its own bound only")
    result = box.run(SOCKETS, memory="64m", timeout="20s")
    if result.verdict == "memory":
        return
    words = result.stdout.split()
    assert int(words[1]) > 500 and int(words[3]) <= 64, result.explain()
