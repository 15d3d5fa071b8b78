# SPDX-License-Identifier: Apache-2.0
"""164. A child of a template tries to rewrite it: by shared mappings, /proc, ptrace, its memory file, signals, caches of modules =>
refused, and after hundreds of hostile children the memory of the template is what it was.
"""
import hashlib
import json

from conftest import needs_root
from hostile_sessions import good, warm_witness
from session_fixtures import own_warden, warm_sessions
from sessions import template_processes

PAGE = 4096

ATTACK = r"""
import ctypes, errno, glob, json, os, platform, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
said = {}
def attempt(label, function, *args):
    try: function(*args)
    except OSError as e: said[label] = errno.errorcode[e.errno]
    else: said[label] = 'ok'
def call(label, numbers, *args):
    r = libc.syscall(numbers[arm], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    said[label] = 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]
maps = [line.split() for line in open('/proc/self/maps')]
facts = {'shared and writable': [m for m in maps if 's' in m[1] and 'w' in m[1]], 'parent': os.getppid(), 'processes': [p for p in os.listdir('/proc') if p.isdigit()],
         'own': os.getpid(), 'fds': sorted(int(f) for f in os.listdir('/proc/self/fd'))}
image = [m for m in maps if len(m) > 5 and 'glovebox-image' in m[5]]
facts['image'] = len(image)
for m in image[:3] + [m for m in maps if len(m) > 5 and m[5].endswith('.so.6')][:1]:
    for mode in (os.O_RDONLY, os.O_RDWR): attempt('map_files %s %d' % (m[0], mode), os.open, '/proc/self/map_files/' + m[0], mode)
    start, end = (int(x, 16) for x in m[0].split('-'))
    call('MADV_REMOVE ' + m[0], (28, 233), start, 4096, 9)
    call('MADV_MERGEABLE ' + m[0], (28, 233), start, 4096, 12)
    call('MADV_HWPOISON ' + m[0], (28, 233), start, 4096, 100)
    call('remap_file_pages ' + m[0], (216, 234), start, 4096, 0, 0, 0)
    call('move_pages ' + m[0], (279, 239), 1, 0, 0, 0, 0, 0)
    call('userfaultfd', (323, 282), 0)
for pid in [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 50, 100]:
    if pid == os.getpid(): continue
    for name, mode in (('mem', os.O_RDWR), ('mem', os.O_RDONLY), ('maps', 0), ('environ', 0), ('root', 0), ('cwd', 0), ('exe', 0), ('fd', 0), ('ns/mnt', 0), ('clear_refs', 1), ('oom_score_adj', 1), ('comm', 1)):
        attempt('%d %s %d' % (pid, name, mode), os.open, '/proc/%d/%s' % (pid, name), mode)
    call('ptrace %d' % pid, (101, 117), 16, pid, 0, 0)
    call('seize %d' % pid, (101, 117), 0x4206, pid, 0, 0)
    call('process_vm_writev %d' % pid, (311, 271), pid, 0, 0, 0, 0, 0)
    call('process_vm_readv %d' % pid, (310, 270), pid, 0, 0, 0, 0, 0)
    call('process_madvise %d' % pid, (440, 440), 20, 0, 0, 21, 0)
    call('pidfd_getfd %d' % pid, (438, 438), 20, 0, 0)
    call('kcmp %d' % pid, (312, 272), pid, os.getpid(), 0, 0, 0)
    if pid:
        for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1, 0): attempt('kill %d %d' % (pid, sig), os.kill, pid, sig)
        for sig in (signal.SIGKILL, signal.SIGSTOP): attempt('kill group %d %d' % (pid, sig), os.kill, -pid, sig)
for fd in range(3, 64):
    if fd == 20: continue
    attempt('lseek %d' % fd, os.lseek, fd, 0, 0)
for path in [*sys.path, '/run', '/run/runner', os.path.dirname(os.__file__) + '/__pycache__', os.path.dirname(json.__file__) + '/__pycache__', '/usr/bin', '/etc', '/proc/sys/kernel', '/sys']:
    if path not in ('', '/sandbox'): attempt('write ' + path, os.open, path + '/planted.py', os.O_CREAT | os.O_WRONLY)
for path in glob.glob(os.path.dirname(json.__file__) + '/__pycache__/*')[:2] + [os.__file__, sys.executable, '/proc/self/exe']:
    attempt('rewrite ' + path, os.open, path, os.O_WRONLY); attempt('append ' + path, os.open, path, os.O_WRONLY | os.O_APPEND); attempt('truncate ' + path, os.truncate, path, 0)
    attempt('touch ' + path, os.utime, path)
print(json.dumps({'said': said, 'facts': facts}))
"""
# Every page that it has from the template, written to; at last its own code, so that it dies of it.
STORM = r"""
import ctypes, os, signal
ranges = [tuple(int(x, 16) for x in line.split()[0].split('-')) for line in open('/proc/self/maps') if 'glovebox-image' in line and line.split()[1][1] == 'w']
libc = ctypes.CDLL(None)
for sig in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL): signal.signal(sig, signal.SIG_DFL)
for start, end in ranges:
    for page in range(start, end, 4096):
        where = ctypes.c_ubyte.from_address(page + 4095)
        where.value = where.value
    libc.msync(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 4)
    libc.msync(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 2)
touched = sum(end - start for start, end in ranges)
print(touched, flush=True)
for start, end in ranges: ctypes.memset(start, 0xcc, end - start)
"""
SHARED = """
import ctypes, mmap, multiprocessing.shared_memory as shm
libc = ctypes.CDLL(None)
found = []
for key in range(1, 5):
    at = libc.shmget(key, 4096, 0)
    if at >= 0: found.append(key)
    libc.shmget(key, 4096, 0o1666)
try: found.append(shm.SharedMemory('planted').name)
except FileNotFoundError: shm.SharedMemory('planted', create=True, size=4096)
anonymous = mmap.mmap(-1, 4096)
anonymous[:4] = b'evil'
print(found)
"""


class Memory:
    """Hashes of the pages of a process, from outside."""

    def __init__(self, pid):
        self.pages = {}
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
            for line in maps:
                words = line.split()
                if len(words) > 5 and words[5] in ("[vvar]", "[vvar_vclock]", "[vsyscall]", "[stack]"):
                    continue
                start, end = (int(x, 16) for x in words[0].split("-"))
                mem.seek(start)
                try:
                    data = mem.read(end - start)
                except OSError:
                    continue
                for at in range(0, len(data), PAGE):
                    self.pages[start + at] = hashlib.blake2b(data[at:at + PAGE], digest_size=8).digest()

    def changed(self, other):
        return {page for page in self.pages.keys() | other.pages.keys() if self.pages.get(page) != other.pages.get(page)}


@needs_root
def test_template_is_what_it_was(warm_sessions, warm_witness):
    def open_close(code, n, check):
        for _ in range(n):
            with warm_sessions() as session:
                check(session.context().run(code))
            warm_sessions.opened.remove(session)

    open_close("1", 3, lambda result: None)
    [template] = template_processes()
    first = Memory(template)
    assert len(first.pages) > 1000
    open_close("1", 20, lambda result: None)
    second = Memory(template)
    by_itself = first.changed(second)
    assert len(by_itself) <= 16, "pages that serving changes: its order, and what lies beside"
    answers = []
    open_close(ATTACK, 40, lambda result: answers.append(json.loads(result.out)))
    open_close(SHARED, 130, lambda result: answers.append(result.out))
    dead = []
    open_close(STORM, 30, lambda result: dead.append((result.verdict, result.signal > 0, int(result.out or 0) > 1 << 20)))
    assert set(dead) == {("error", True, True)}, dead
    assert template_processes() == [template]
    third = Memory(template)
    changed = second.changed(third) - by_itself
    assert not changed, [hex(page) for page in sorted(changed)]
    assert {a for a in answers if isinstance(a, str)} == {"[]\n"}, "something was shared between two sessions"
    holes = {label for a in answers if not isinstance(a, str) for label, answer in a["said"].items() if answer == "ok"}
    assert not holes, holes


def test_what_a_child_sees(warm_sessions):
    """As an ordinary user, too: the same attack, and what it finds to begin with."""
    context = warm_sessions.context()
    answer = json.loads(good(context, ATTACK).out)
    facts, said = answer["facts"], answer["said"]
    assert facts["shared and writable"] == [] and facts["parent"] == 0 and facts["processes"] == [str(facts["own"])], facts
    assert facts["image"] > 0, "no image: what is tried on it was vacuous"
    assert facts["fds"][:4] == [0, 1, 2, 3] and facts["fds"][4:] == [20], "3 is the directory that is being listed"
    assert len(said) > 250
    assert not {label for label, value in said.items() if value == "ok"}
