# SPDX-License-Identifier: Apache-2.0
"""171. Code asks the kernel to merge equal pages (KSM), to learn from the time of a write what others hold => refused in forks and in
fresh sessions, by madvise and by prctl, and none of their pages is merged.
"""
import json
import os

import pytest
from conftest import needs_root
from hostile_sessions import good, own_warden_process
from session_fixtures import own_warden, sessions
from sessions import template_processes

ASK = """
import ctypes, errno, mmap, platform
libc = ctypes.CDLL(None, use_errno=True)
block = mmap.mmap(-1, 1 << 20)
block.write(b'x' * (1 << 20))
where = ctypes.addressof(ctypes.c_char.from_buffer(block))
said = []
for advice in (12, 13):  # MADV_MERGEABLE, MADV_UNMERGEABLE
    said.append('ok' if libc.madvise(ctypes.c_void_p(where), ctypes.c_size_t(1 << 20), advice) == 0 else errno.errorcode[ctypes.get_errno()])
number = 440  # process_madvise
said.append('ok' if libc.syscall(number, -1, 0, 0, 12, 0) >= 0 else errno.errorcode[ctypes.get_errno()])
said.append('ok' if libc.prctl(67, 1, 0, 0, 0) == 0 else errno.errorcode[ctypes.get_errno()])
said.append('ok' if libc.prctl(68, 0, 0, 0, 0) > 0 else 'off')
import os
said.append(str(os.path.exists('/sys/kernel/mm/ksm')))
try: said.append(open('/proc/self/ksm_stat').read())
except OSError as e: said.append('hidden')
import json
print(json.dumps(said))
"""


def test_refused(sessions):
    said = json.loads(good(sessions.context(), ASK).out)
    assert said[0] in ("EINVAL", "EPERM", "EACCES") and said[3] in ("EINVAL", "EPERM"), said
    assert "ok" not in (said[0], said[2], said[3], said[4]) and said[5] == "False", said
    assert said[6] == "hidden" or "ksm_rmap_items 0" in said[6], said


@needs_root
def test_nothing_is_merged(sessions):
    """Seen from outside: neither the template, nor the warden, nor a session's process has merged pages or asks for them."""
    good(sessions.context(), ASK)
    pids = [own_warden_process(), *template_processes()]
    children = [p for p in filter(str.isdigit, os.listdir("/proc")) if parent(p) == pids[0]]
    looked = 0
    for pid in [*pids, *children]:
        try:
            with open(f"/proc/{pid}/ksm_stat") as file:
                stat = dict(line.split() for line in file if len(line.split()) == 2)
        except OSError:
            continue
        looked += 1
        assert stat.get("ksm_rmap_items", "0") == "0" and stat.get("ksm_merge_any", "no") in ("no", "0") and stat.get("ksm_mergeable", "no") in ("no", "0"), (pid, stat)
    if not looked:
        pytest.skip("this kernel does not tell what is merged")


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None
