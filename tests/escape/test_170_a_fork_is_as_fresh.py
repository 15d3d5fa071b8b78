# SPDX-License-Identifier: Apache-2.0
"""170. Code looks at everything that a process inherits (signal mask and handlers, umask, priority, limits, timers, locale, directory,
descriptors, flags of the kernel) in a fork of a template => it is what a fresh exec has.
"""
import json
import os

from hostile_sessions import good
from session_fixtures import cold_sessions, own_warden, warm_sessions

LOOK = r"""
import ctypes, fcntl, gc, json, locale, os, re, resource, signal, stat, sys, time, threading
libc = ctypes.CDLL(None, use_errno=True)
seen = {}
def note(label, function, *args):
    try: value = function(*args)
    except Exception as e: value = 'raises ' + repr(e)
    seen[label] = str(value)
def read(path):
    with open(path) as file: return file.read()
def action(sig):
    a = (ctypes.c_ulong * 32)()
    libc.syscall(13 if os.uname().machine == 'x86_64' else 134, sig, None, a, 8)
    return [bool(a[0]) + (a[0] == 1), hex(a[1] & ~0x4000000), hex(a[3] if os.uname().machine == 'x86_64' else a[2])]
status = dict(line.split(':\t', 1) for line in read('/proc/self/status').splitlines() if ':\t' in line)
for key in ('Umask', 'Uid', 'Gid', 'Groups', 'SigQ', 'SigPnd', 'ShdPnd', 'SigBlk', 'SigIgn', 'SigCgt', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'THP_enabled', 'Threads',
            'Speculation_Store_Bypass', 'SpeculationIndirectBranch', 'Cpus_allowed', 'Mems_allowed_list', 'TracerPid', 'PPid', 'CoreDumping', 'VmLck', 'VmPin'):
    seen['status ' + key] = status.get(key, '').strip()
for sig in range(1, 65): note('action %d' % sig, action, sig)
for sig in range(1, 65):
    try: seen['handler %d' % sig] = getattr(signal.getsignal(sig), '__name__', str(signal.getsignal(sig)))
    except ValueError: pass
note('mask', signal.pthread_sigmask, signal.SIG_BLOCK, [])
note('wakeup', signal.set_wakeup_fd, -1)
for limit in range(16): note('limit %d' % limit, resource.getrlimit, limit)
for which in (0, 1, 2): note('timer %d' % which, signal.getitimer, which)
note('nice', os.getpriority, os.PRIO_PROCESS, 0); note('policy', os.sched_getscheduler, 0); note('affinity', lambda: sorted(os.sched_getaffinity(0))); note('parameter', lambda: os.sched_getparam(0).sched_priority)
note('ioprio', libc.syscall, 252 if os.uname().machine == 'x86_64' else 31, 1, 0)
note('personality', libc.personality, 0xffffffff)
for name, option in dict(pdeathsig=2, dumpable=3, keepcaps=7, timing=13, name=16, seccomp=21, securebits=27, timerslack=30, subreaper=37, no_new_privs=39, thp=42).items():
    place = ctypes.create_string_buffer(64)
    seen['prctl ' + name] = '%d %r' % (libc.prctl(option, place, 0, 0, 0), place.raw.rstrip(b'\0')) if name not in ('dumpable', 'keepcaps', 'timing', 'seccomp', 'securebits', 'timerslack', 'no_new_privs', 'thp') else str(libc.prctl(option, 0, 0, 0, 0))
altstack = (ctypes.c_ulong * 3)(); libc.sigaltstack(None, altstack); seen['altstack'] = str(list(altstack)[1])
note('umask', os.umask, 0o22); note('cwd', os.getcwd); note('root', lambda: sorted(os.listdir('/'))); note('locale', locale.setlocale, locale.LC_ALL, None); note('encoding', locale.getpreferredencoding, False)
note('codeset', locale.nl_langinfo, locale.CODESET); note('filesystem', sys.getfilesystemencoding); note('timezone', lambda: (time.tzname, time.timezone))
for fd in (0, 1, 2, 20):
    note('fd %d' % fd, lambda: (fcntl.fcntl(fd, fcntl.F_GETFD), fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETOWN), stat.S_IFMT(os.fstat(fd).st_mode), os.lseek(fd, 0, 1) if fd == 0 else 0))
note('pipe', fcntl.fcntl, 1, 1032)
for path in ('oom_score_adj', 'oom_adj', 'coredump_filter', 'timerslack_ns', 'sessionid', 'loginuid', 'autogroup', 'sched', 'limits', 'cgroup', 'uid_map', 'gid_map', 'setgroups', 'attr/current', 'arch_status', 'comm', 'personality', 'environ'):
    note('/proc/self/' + path, lambda: re.sub('glovebox-[0-9a-f]{16}', 'ours', read('/proc/self/' + path)) if path != 'sched' else '')
note('mounts', lambda: sorted({' '.join(line.split()[3:6]) for line in read('/proc/self/mountinfo').splitlines()}))
note('namespaces', lambda: sorted(os.listdir('/proc/self/ns')))
note('network', lambda: read('/proc/self/net/dev').count(':')); note('keys', read, '/proc/keys')
note('session', lambda: (os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid())); note('terminal', os.open, '/dev/tty', os.O_RDWR)
note('environment', lambda: sorted((k, v) for k, v in os.environ.items())); note('C environment', lambda: sorted(k for k in (ctypes.cast(libc.getenv(k.encode()), ctypes.c_void_p).value and k for k in os.environ) if k))
note('threads', threading.active_count); note('main thread', lambda: threading.current_thread() is threading.main_thread()); note('native id', lambda: threading.get_native_id() == os.getpid())
note('recursion', sys.getrecursionlimit); note('switch', sys.getswitchinterval); note('trace', sys.gettrace); note('collector', lambda: (gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_debug()))
note('flags', lambda: sys.flags); note('argv', lambda: (sys.argv, sys.orig_argv)); note('path', lambda: sys.path); note('executable', lambda: (sys.executable, sys.prefix, sys.version))
note('hooks', lambda: (sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, len(sys.path_hooks))); note('warnings', lambda: sys.warnoptions); note('digits', sys.get_int_max_str_digits)
note('main', lambda: sorted(k for k in globals() if k.startswith('__')))
note('floating point', libc.fegetround); note('times', lambda: sum(os.times()[2:4])); note('usage of children', lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0)
note('locks', lambda: read('/proc/locks')); note('groups', os.getgroups); note('resuid', os.getresuid); note('domain', lambda: os.uname()[:2])
print(json.dumps(seen))
"""
# What differs in good faith, and why.
EXPECTED = {
    "/proc/self/arch_status": "milliseconds since the processor's AVX-512 was used", "/proc/self/autogroup": "a number of each process session",
    "/proc/self/uid_map": "a fork is mapped to the template's range, a fresh one to the host's", "/proc/self/gid_map": "the same",
    "fd 0": "/dev/null for reading, or for both",
}


def test_diff(warm_sessions, cold_sessions):
    warm, cold = (json.loads(good(sessions.context(), LOOK).out) for sessions in (warm_sessions, cold_sessions))
    assert len(warm) > 200
    different = {label: (warm.get(label), cold.get(label)) for label in warm.keys() | cold.keys() if warm.get(label) != cold.get(label)}
    unexpected = {label: values for label, values in different.items() if label not in EXPECTED}
    assert not unexpected, "\n".join(f"{label}:\n  warm {warm}\n  cold {cold}" for label, (warm, cold) in sorted(unexpected.items()))


def test_diff_sees_something(warm_sessions):
    """What the code itself has changed is seen by it."""
    context = warm_sessions.context()
    good(context, "import os, signal, resource\nos.umask(0o77)\nos.nice(3)\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nsignal.alarm(100)\nresource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\nos.chdir('/tmp')")
    seen = json.loads(good(context, LOOK).out)
    assert ((seen["status Umask"], seen["nice"], seen["handler 10"], seen["limit 7"], seen["cwd"])
            == ("0077", str(min(os.nice(0) + 3, 19)), "1", "(100, 100)", "/tmp")), seen
    assert seen["timer 0"] != "(0.0, 0.0)"
