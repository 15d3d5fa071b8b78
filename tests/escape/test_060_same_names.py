# SPDX-License-Identifier: Apache-2.0
"""60. Two boxes use the same abstract socket, port, System V key and shared memory name at once => no clash, no crosstalk.
"""
import subprocess


CODE = """
import socket, sys, ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
mine = sys.argv[1].encode()
a = socket.socket(socket.AF_UNIX); a.bind('\\0glovebox-test'); a.listen()
t = socket.socket(); t.bind(('127.0.0.1', 5555)); t.listen()
key = libc.shmget(0x5EC4E7, 4096, 0o1666)
p = libc.shmat(key, None, 0)
ctypes.memmove(p, mine, len(mine))
open('/dev/shm/name', 'xb').write(mine)
open('/tmp/name', 'xb').write(mine)
print('ready', flush=True)
sys.stdin.readline()
print(ctypes.string_at(p, len(mine)).decode(), open('/dev/shm/name').read(), open('/tmp/name').read(), flush=True)
c = socket.create_connection(('127.0.0.1', 5555)); print('connected')
"""


def test_same_names(box):
    runs = [box.start(CODE, json=False, args=[word], stdin=subprocess.PIPE) for word in ("first", "other")]
    for run in runs:
        line = run.stdout.readline()
        assert line == b"ready\n", (line, run.stderr.read())
    for run, word in zip(runs, ("first", "other")):
        result = box.finish(run, b"go\n")
        assert result.out.decode() == f"{word} {word} {word}\nconnected\n", result.explain()
