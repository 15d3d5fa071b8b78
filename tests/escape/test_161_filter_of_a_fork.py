# SPDX-License-Identifier: Apache-2.0
"""161. Code in a child of a template makes the calls that the template itself may still make (setns, capset, prctl, clone with
namespaces, seccomp, keyctl, raising limits) => the child has closed them: each attack on system calls answers in a warm
session as in a fresh one.
"""
import json
import os
import secrets

from conftest import Attack
from hostile_sessions import good
from session_fixtures import cold_sessions, own_warden, warm_sessions

ATTACKS = ["io_uring", "filter_everywhere", "new_namespaces", "administration", "mount_api", "odd_modes", "socket_options", "socket_families", "process_controls",
           "other_process 1", "own_child_memory", "more_filters", "landlock_ways", "processor", "clocks", "host_name", "identities", "inherited", "way_up", "proc_view",
           "terminals", "remounts", "root_writes", f"outside_signals {os.getpid()}", "page_cache", "kernel_objects", "huge_pages", "core_limit", "network_out"]
RUN = "import subprocess, json\ndef run(*words): return subprocess.run(['/attack/attack', *words], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout"


class Said:
    """What Attack wants of a result."""

    def __init__(self, text):
        self.stdout = text

    def explain(self):
        return self.stdout[-2000:]


def attack_all(sessions, attack_dir, names):
    token = secrets.token_hex(8)
    context = sessions.context({"mounts": f"{attack_dir}:/attack", "timeout": "30s"})
    good(context, RUN)
    words = [[name.split()[0], token, *name.split()[1:]] for name in names]
    answers = json.loads(good(context, f"print(json.dumps([run(*words) for words in {words!r}]))").out)
    return {name: Attack(name, token, Said(answer)) for name, answer in zip(names, answers)}


def test_attacks_answer_as_in_a_fresh_session(warm_sessions, cold_sessions, attack_dir):
    warm, cold = (attack_all(sessions, attack_dir, ATTACKS) for sessions in (warm_sessions, cold_sessions))
    different = {}
    for name in ATTACKS:
        assert warm[name].finished and cold[name].finished, (name, warm[name].result.explain())
        assert warm[name].steps or name == "filter_everywhere", f"{name} is vacuous"
        for step in warm[name].steps.keys() | cold[name].steps.keys():
            answers = warm[name].steps.get(step), cold[name].steps.get(step)
            if answers[0] != answers[1]:
                different[f"{name} {step}"] = answers
    assert not different, different
    assert sum(len(attack.steps) for attack in warm.values()) > 200
    opened = {f"{name} {step}" for name in ATTACKS for step in warm[name].opened}
    assert not opened, opened


def test_every_number(warm_sessions, cold_sessions, attack_dir):
    """All 601 calls with zero arguments, in a child each."""
    warm, cold = (attack_all(sessions, attack_dir, ["syscalls"])["syscalls"].notes for sessions in (warm_sessions, cold_sessions))
    assert len(warm) == 601
    assert {n: (warm[n], cold[n]) for n in warm if warm[n] != cold[n]} == {}


# Made by the interpreter itself, which was forked and not executed.
BY_ITSELF = r"""
import ctypes, errno, os, platform, json, resource
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
NR = dict(setns=(308, 268), unshare=(272, 97), clone=(56, 220), clone3=(435, 435), capset=(126, 91), capget=(125, 90), prctl=(157, 167), seccomp=(317, 277), keyctl=(250, 219),
          add_key=(248, 217), request_key=(249, 218), prlimit=(302, 261), setresuid=(117, 147), setresgid=(119, 149), setgroups=(116, 159), pidfd_getfd=(438, 438), pidfd_open=(434, 434),
          mount=(165, 40), pivot_root=(155, 41), chroot=(161, 51), ptrace=(101, 117), process_vm_writev=(311, 271), landlock=(444, 444), personality=(135, 92), setsid=(112, 157),
          kcmp=(312, 272), open_tree=(428, 428), move_mount=(429, 429), fsopen=(430, 430), userfaultfd=(323, 282), memfd_secret=(447, 447), set_mempolicy=(238, 237), io_uring=(425, 425))
said = {}
def call(label, name, *args):
    args = [a if isinstance(a, (int, ctypes.Array)) else ctypes.byref(a) for a in args]
    ctypes.set_errno(0)
    r = libc.syscall(NR[name][arm], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    said[label] = 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000, uts=0x4000000, cgroup=0x2000000, time=0x80).items():
    call('unshare ' + name, 'unshare', flag)
    if name != 'time':
        call('clone ' + name, 'clone', flag | 17, 0, 0, 0, 0)
    try: fd = os.open('/proc/self/ns/' + {'mount': 'mnt'}.get(name, name), os.O_RDONLY)
    except OSError as e: said['open ns ' + name] = errno.errorcode[e.errno]
    else: call('setns ' + name, 'setns', fd, 0); os.close(fd)
args = (ctypes.c_uint64 * 11)(0x10000000)
call('clone3', 'clone3', args, 88)
for flag in (0, 0x10000000, 0x7e020000): call('setns bad %x' % flag, 'setns', -1, flag); call('setns 20 %x' % flag, 'setns', 20, flag)
head = (ctypes.c_uint32 * 2)(0x20080522, 0); data = (ctypes.c_uint32 * 6)(0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff)
call('capset', 'capset', head, data)
call('capset nothing', 'capset', head, (ctypes.c_uint32 * 6)())
for label, args in {'capbset_drop': (24, 1), 'cap_ambient_raise': (47, 2, 21, 0, 0), 'cap_ambient_clear': (47, 4, 0, 0, 0), 'keepcaps': (8, 1), 'securebits': (28, 0), 'seccomp strict': (22, 1),
                    'seccomp filter': (22, 2, 0), 'set_mm': (35, 1, 0, 0, 0), 'set_mm_map': (35, 14, 0, 0, 0), 'set_ptracer': (0x59616d61, -1), 'get_tid_address': (40, id(data)), 'merge': (67, 1, 0, 0, 0),
                    'mce_kill': (33, 0, 0, 0, 0), 'tsc': (26, 2), 'io_flusher': (57, 1, 0, 0, 0), 'mdwe': (65, 1, 0, 0, 0), 'sched_core': (62, 1, 0, 0, 0)}.items():
    call('prctl ' + label, 'prctl', *args)
program = (ctypes.c_uint16 * 4)(6, 0, 0, 0)
for op in (0, 1, 2, 3): call('seccomp %d' % op, 'seccomp', op, 0, 0); call('seccomp listener %d' % op, 'seccomp', op, 8, 0)
for op in (0, 1, 2, 3, 5, 8, 11, 15, 18, 20): call('keyctl %d' % op, 'keyctl', op, 0, 0, 0, 0)
call('add_key', 'add_key', ctypes.create_string_buffer(b'user'), ctypes.create_string_buffer(b'a'), ctypes.create_string_buffer(b'b'), 1, -3)
call('request_key', 'request_key', ctypes.create_string_buffer(b'user'), ctypes.create_string_buffer(b'a'), 0, 0)
for limit in set(range(16)) - {4}:  # that of core files cannot even be asked
    soft, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY: call('raise %d' % limit, 'prlimit', 0, limit, (ctypes.c_uint64 * 2)(soft if soft >= 0 else 0, hard + 1), 0)
for pid in (1, 100, 1000): call('limit of %d' % pid, 'prlimit', pid, 7, (ctypes.c_uint64 * 2)(1, 1), 0)
for uid in (0, 1, 999, 1001, 65534): call('uid %d' % uid, 'setresuid', uid, uid, uid); call('gid %d' % uid, 'setresgid', uid, uid, uid)
call('groups', 'setgroups', 1, (ctypes.c_uint32 * 1)(0))
for name in ('mount', 'pivot_root', 'chroot', 'ptrace', 'process_vm_writev', 'kcmp', 'open_tree', 'move_mount', 'fsopen', 'userfaultfd', 'memfd_secret', 'set_mempolicy', 'pidfd_getfd', 'io_uring'):
    call(name, name, 0, 0, 0, 0, 0)
call('personality', 'personality', 0x40000)
print(json.dumps(said))
"""
RESIDUAL = {"limit of 1"}  # who has the uid of the box may lower limits of its init; what that breaks is his own box


def test_calls_of_the_interpreter_itself(warm_sessions, cold_sessions):
    warm, cold = (json.loads(good(sessions.context(), BY_ITSELF).out) for sessions in (warm_sessions, cold_sessions))
    assert len(warm) > 100
    assert {label: (warm[label], cold[label]) for label in warm if warm[label] != cold.get(label)} == {}
    assert {label for label, answer in warm.items() if answer == "ok"} <= RESIDUAL
