# SPDX-License-Identifier: Apache-2.0
"""208, from inside: memory, descriptors and files of the agent, its supervisors and its server of files => none is open to the code, which has the same
user. What a program inherits is its own; every program is under both filters; there is no network, not even a socket without a name.
"""
import ast
import os
import socket

import pytest
from hostile_containers import containers, engines, own_warden

REACH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
reached = []
targets = [1, os.getppid()] + [int(p) for p in filter(str.isdigit, os.listdir('/proc'))
                               if int(p) != os.getpid() and open(f'/proc/{p}/comm').read().startswith(('agent', 'glovebox-'))]
def attempt(name, act):
    try:
        act()
        reached.append(name)
    except (OSError, ValueError):
        pass
for pid in sorted(set(targets)):
    top = f'/proc/{pid}'
    for name in ('mem', 'environ', 'maps', 'smaps', 'auxv', 'syscall', 'stack', 'pagemap', 'io', 'clear_refs', 'oom_score_adj', 'timerslack_ns', 'attr/current',
                 'coredump_filter', 'loginuid', 'autogroup', 'sched', 'make-it-fail', 'uid_map', 'gid_map', 'setgroups', 'projid_map', 'timens_offsets', 'comm'):
        for way, flags in (('r', os.O_RDONLY), ('w', os.O_WRONLY)):
            # What everybody may know, of everybody.
            if (name, way) in (('coredump_filter', 'r'), ('oom_score_adj', 'r'), ('loginuid', 'r'), ('autogroup', 'r'), ('sched', 'r'), ('uid_map', 'r'), ('gid_map', 'r'),
                               ('setgroups', 'r'), ('projid_map', 'r'), ('comm', 'r'), ('timens_offsets', 'r'), ('make-it-fail', 'r'), ('attr/current', 'r')):
                continue
            def act():
                fd = os.open(f'{top}/{name}', flags)
                try:
                    if way == 'r' and name != 'mem':
                        if not os.read(fd, 64): raise ValueError
                    elif way == 'w':
                        os.write(fd, b'1\\n')
                    else:
                        os.pread(fd, 16, 0x400000)
                finally:
                    os.close(fd)
            attempt(f'{way} {name} of {pid}', act)
    for name in ('fd', 'map_files', 'fdinfo', 'task/%d/fd' % pid):
        attempt(f'{name} of {pid}', lambda: os.listdir(f'{top}/{name}')[0])
    for name in ('fd/0', 'fd/1', 'fd/2', 'cwd/etc/hostname', 'root/etc/hostname', 'exe', 'ns/mnt'):
        attempt(f'{name} of {pid}', lambda: os.close(os.open(f'{top}/{name}', os.O_RDONLY)))
    attempt(f'write fd/1 of {pid}', lambda: os.close(os.open(f'{top}/fd/1', os.O_WRONLY)))
    def check(result):
        if result < 0:
            raise OSError
    buffer = ctypes.create_string_buffer(64)
    class Vector(ctypes.Structure):
        _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
    here, there = Vector(ctypes.addressof(buffer), 16), Vector(0x400000, 16)
    attempt(f'process_vm_readv of {pid}', lambda: check(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)))
    attempt(f'process_vm_writev of {pid}', lambda: check(libc.process_vm_writev(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)))
    for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
        attempt(f'ptrace {request:#x} of {pid}', lambda: check(libc.ptrace(request, pid, None, None)))
    try: pidfd = os.pidfd_open(pid)
    except OSError: pidfd = -1  # gVisor has none
    for fd in range(8):
        attempt(f'pidfd_getfd {fd} of {pid}', lambda: check(libc.syscall(438, pidfd, fd, 0)))
    attempt(f'setns to {pid}', lambda: check(libc.setns(pidfd, 0x20000000)))
    attempt(f'kcmp of {pid}', lambda: check(libc.syscall(312, pid, os.getpid(), 0, 1, 1)))
    attempt(f'process_madvise of {pid}', lambda: check(libc.syscall(440, pidfd, ctypes.byref(there), 1, 21, 0)))
for path in ('/dev/console', '/dev/tty', '/dev/pts/0', '/dev/kmsg', '/dev/mem', '/dev/fuse', '/dev/kvm', '/dev/vsock', '/dev/vhost-vsock', '/dev/net/tun'):
    attempt(f'open {path}', lambda: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)))
print('targets', len(set(targets)))
print('reached', reached)
"""


# gVisor asks only for the same user there. So frames carry tags (agent/wire.h), and what is in those files is no secret.
IN_GVISOR = {*(f"r {name}" for name in ("environ", "maps", "smaps", "auxv")), "fd", "fdinfo", "task", "fd/0", "fd/1", "fd/2", "write fd/1", "open /dev/fuse", "open /dev/net/tun"}


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_memory_and_descriptors_of_others(containers, runtime):
    if runtime == "runsc" and not containers.engines.has_runsc:
        pytest.skip("runsc is not installed")
    session = containers("runsc" if runtime == "runsc" else None)
    result = session.run("python", REACH)
    lines = dict(line.split(" ", 1) for line in result.out.splitlines())
    assert int(lines.get("targets", 0)) >= 2, result
    names = [name.partition(" of ")[0] for name in ast.literal_eval(lines["reached"])]
    reached = {"task" if name.startswith("task/") else name for name in names}
    assert reached <= (IN_GVISOR if runtime == "runsc" else set()), reached


FDS = "import os\nfor fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n  try: print(fd, os.readlink(f'/proc/self/fd/{fd}').partition(':')[0], flush=True)\n  except OSError: pass\n"


def test_what_is_inherited(containers):
    session = containers()
    assert session.run("python", FDS).out.split() == ["0", "/dev/null", "1", "pipe", "2", "pipe"]
    assert session.run("python", FDS, stdin=b"x").out.split() == ["0", "pipe", "1", "pipe", "2", "pipe"]
    # A context has its control channel, and what it starts has not.
    context = session.context("python")
    assert context.run(FDS).out.split() == ["0", "/dev/null", "1", "pipe", "2", "pipe", "20", "socket"]
    assert context.run(f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {FDS!r}], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout)").out.split() == [
        "0", "/dev/null", "1", "pipe", "2", "pipe"]
    found = session.context("bash").run("for f in /proc/self/fd/*; do readlink $f; done").out
    assert "socket" not in found, found


def test_what_a_server_of_files_has(containers):
    """Seen from inside while it works: it is under the filters, and out of reach like the agent."""
    session = containers(timeout="20s")
    watcher = session.start("python", """
import os
print('on', flush=True)
while True:
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if open(f'/proc/{pid}/comm').read() != 'glovebox-files\\n': continue
            status = dict(l.split(':\\t') for l in open(f'/proc/{pid}/status').read().splitlines())
            try: fds = os.listdir(f'/proc/{pid}/fd')
            except OSError: fds = 'closed'
            print(status['Seccomp'], status.get('Seccomp_filters', '2'), status['NoNewPrivs'], int(status['CapEff'], 16), fds)
            raise SystemExit
        except (OSError, KeyError, ValueError): pass
""")
    watcher.wait_for("stdout")
    for i in range(200):
        session.write("file", b"x" * 3000000)
        if watcher.is_over:
            break
    assert watcher.join().out.splitlines()[1:] == ["2 2 1 0 closed"], watcher.value


def test_every_program_is_under_both_filters(containers):
    session = containers()
    code = "import subprocess\nprint(*[l.split(':')[1].strip() for l in open('/proc/self/status') if l.startswith(('Seccomp', 'NoNewPrivs', 'Cap'))])"
    expected = f"{'0' * 16} " * 5 + "1 2 2\n"
    assert session.run("python", code).out == expected
    assert session.context("python").run(code).out == expected
    assert session.run("bash", "grep -E '^(Seccomp|NoNewPrivs|Cap)' /proc/self/status | cut -f2 | xargs").out == expected


NETWORK = """
import ctypes, os, socket, sys
reached = []
def attempt(name, act):
    try:
        act()
        reached.append(name)
    except OSError:
        pass
def connect(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        s.connect(address)
attempt('abstract', lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, sys.argv[1].encode().replace(b'@', b'\\0')))
attempt('loopback of the host', lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', int(sys.argv[2]))))
attempt('outside', lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ('192.0.2.1', 80)))
attempt('outside, without an answer', lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53)))
attempt('outside 6', lambda: connect(socket.AF_INET6, socket.SOCK_DGRAM, ('2001:db8::1', 53)))
for name, family, kind, protocol in (('vsock', 40, 1, 0), ('netlink', 16, 3, 0), ('raw', 2, 3, 1), ('packet', 17, 3, 768), ('raw 6', 10, 3, 58), ('alg', 38, 5, 0), ('xdp', 44, 3, 0),
                                     ('bluetooth', 31, 3, 1), ('can', 29, 3, 1), ('key', 15, 3, 2), ('rds', 21, 5, 0), ('tipc', 30, 1, 0), ('smc', 43, 1, 0), ('qipcrtr', 42, 2, 0)):
    attempt(name, lambda: socket.socket(family, kind, protocol).close())
print(reached)
"""


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_no_network(containers, runtime):
    if runtime == "runsc" and not containers.engines.has_runsc:
        pytest.skip("runsc is not installed")
    session = containers("runsc" if runtime == "runsc" else None)
    name = f"@glovebox-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        abstract.bind(name.replace("@", "\0"))
        abstract.listen(1)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(1)
        assert session.run("python", NETWORK, args=[name, str(tcp.getsockname()[1])]).out == "[]\n"
