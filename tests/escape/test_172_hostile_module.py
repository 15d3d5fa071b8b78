# SPDX-License-Identifier: Apache-2.0
"""172. A module that a template imports is hostile: it reads the host's files, opens the network, mounts, unshares, kills, looks for the
warden, and speaks to it in the template's name => a template is in a box as any code; what it breaks is itself and its own sessions.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
from conftest import ROOT, needs_root, process_stat, wait_until
from hostile_sessions import good, own_warden_process
from session_fixtures import NO_TEMPLATE, PYTHON, own_warden
from sessions import Refused, Session, forget

pytestmark = needs_root

LIBRARY = f"/usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
LEFT_OUT = ("test", "idlelib", "tkinter", "lib2to3", "ensurepip", "pydoc_data", "turtledemo", "dist-packages", "config-*")

# At its import: what it tries, and what came of it. Its children have the list.
HOSTILE = r'''
import ctypes, errno, os, platform, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
said, seen = {}, {}
def attempt(label, function, *args):
    try: function(*args)
    except OSError as e: said[label] = errno.errorcode.get(e.errno, str(e))
    else: said[label] = 'ok'
def call(label, numbers, *args):
    ctypes.set_errno(0)
    r = libc.syscall(numbers[arm], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    said[label] = 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]
def text(t): return ctypes.create_string_buffer(t.encode())
for path in ('/etc/shadow', '/root', '/home', '/var', '/boot', '/sys/kernel', '/sys/fs/cgroup', MARKER, '/proc/1/environ', '/proc/1/root', '/proc/1/mem', '/proc/1/maps', '/proc/1/fd', '/proc/1/ns/mnt',
             '/proc/kcore', '/proc/sys/kernel/core_pattern', '/dev/mem', '/dev/kmsg', '/proc/kallsyms'):
    attempt('read ' + path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(10))
for path in ('/usr/planted', '/planted', '/etc/planted', '/run/runner/planted', os.__file__, '/proc/sys/kernel/hostname', '/sys/planted'):
    attempt('write ' + path, os.open, path, os.O_WRONLY | os.O_CREAT)
for address in (('127.0.0.1', 22), ('1.1.1.1', 80), ('169.254.169.254', 80)):
    with socket.socket() as s:
        s.settimeout(1)
        attempt('connect %s' % address[0], s.connect, address)
for family, kind, protocol in ((16, 3, 0), (17, 3, 3), (40, 1, 0), (38, 5, 0), (2, 3, 1)): attempt('socket %d' % family, socket.socket, family, kind, protocol)
call('mount', (165, 40), text('none'), text('/tmp'), text('tmpfs'), 0, 0)
call('bind', (165, 40), text('/'), text('/tmp'), 0, 4096, 0)
call('umount', (166, 39), text('/proc'), 2)
call('pivot_root', (155, 41), text('/'), text('/tmp'))
call('chroot', (161, 51), text('/tmp'))
call('open_tree', (428, 428), -100, text('/'), 1)
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000, uts=0x4000000, cgroup=0x2000000).items(): call('unshare ' + name, (272, 97), flag)
for name in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup'):
    try: fd = os.open('/proc/self/ns/' + name, 0)
    except OSError as e: said['setns ' + name] = errno.errorcode[e.errno]
    else: call('setns ' + name, (308, 268), fd, 0); os.close(fd)
call('sethostname', (170, 161), text('x'), 1)
call('setresuid', (117, 147), 0, 0, 0)
call('capset', (126, 91), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(0xffffffff, 0xffffffff, 0, 0xffffffff, 0xffffffff, 0))
call('ambient', (157, 167), 47, 2, 21, 0, 0)
# Places of its own, which no session may have.
seen['planted'] = []
for place in ('/sandbox', '/tmp', '/dev/shm', '/run/glovebox'):
    try: open(place + '/planted', 'w').close()
    except OSError: continue
    seen['planted'].append(place + '/planted')
# Beside it there are its init and the foreman, who makes the namespaces of sessions.
seen['signals'] = []
for pid in set(range(1, 9)) - {os.getpid()}:
    call('ptrace %d' % pid, (101, 117), 0x4206, pid, 0, 0); call('read memory of %d' % pid, (310, 270), pid, 0, 0, 0, 0, 0); call('fd of %d' % pid, (438, 438), 0, 0, 0)
    for name in ('mem', 'environ', 'fd', 'maps', 'root', 'ns/user', 'cwd', 'exe'): attempt('read /proc/%d/%s' % (pid, name), lambda: os.listdir('/proc/%d/%s' % (pid, name)) if name in ('fd', 'root', 'cwd') else open('/proc/%d/%s' % (pid, name), 'rb').read(1))
    try: os.kill(pid, 0)
    except OSError: continue
    seen['signals'].append(pid)
call('bpf', (321, 280), 0, 0, 0); call('perf', (298, 241), 0, 0, 0, 0, 0); call('keyctl', (250, 219), 0, 0, 0); call('io_uring', (425, 425), 1, 0); call('userfaultfd', (323, 282), 0); call('kexec', (246, 104), 0, 0, 0, 0)
for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'Seccomp', 'NoNewPrivs', 'Uid'):
    seen[name] = next(line.split()[1] for line in open('/proc/self/status') if line.startswith(name + ':'))
seen['processes'] = [open('/proc/%s/comm' % p).read().strip() for p in os.listdir('/proc') if p.isdigit()]
seen['environ'] = dict(os.environ)
seen['fds'] = [os.readlink('/proc/self/fd/' + f).split(':')[0] for f in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + f)]
'''
# It leaves a process behind that speaks to the warden on the template's own socket: whole answers with numbers and
# descriptors that are lies, and bytes that are none.
NOISY = r'''
import array, os, random, socket, struct, sys
if os.fork() == 0:
    s = socket.socket(fileno=os.dup(21))
    s.setblocking(True)
    own = [os.open('/dev/null', os.O_RDWR), os.open('/proc/self', os.O_RDONLY)]
    try: own.append(os.pidfd_open(os.getpid()))
    except OSError: pass
    try: own.append(os.pidfd_open(os.getppid()))
    except OSError: pass
    import time
    for i in range(100000):
        kind = random.choice([0, 2, 3, 4, 5, 6, 2 ** 32 - 1])
        data = struct.pack('<IIi116s', kind, random.choice([0, 1, 2, 3, i % 50, random.getrandbits(32)]), random.randrange(-5, 200), random.choice([b'', b'x' * 116, b'%s%n%s', os.urandom(116)]))
        if i % 7 == 0: data = os.urandom(random.randrange(1, 300))
        fds = random.sample(own, random.randrange(0, min(3, len(own)) + 1)) if i % 3 else []
        if kind == 3 and own[-1] in fds: fds = []  # it would only end itself
        try: s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else [])
        except OSError: os._exit(0)
        time.sleep(0.0005)
    os._exit(0)
'''
MODULES = {
    "hostile": HOSTILE, "noisy": NOISY, "exits": "import os\nos._exit(3)\n", "raises": "raise SystemExit(7)\n", "killed": "import os\nos.kill(os.getpid(), 9)\n",
    "foreman_killed": "import os\nfor pid in range(2, 9):\n    try: pid == os.getpid() or os.kill(pid, 9)\n    except OSError: pass\n",
    "foreman_stopped": "import os\nfor pid in range(2, 9):\n    try: pid == os.getpid() or os.kill(pid, 19)\n    except OSError: pass\n",
    # It forbids itself and its children setns(): none of them can go where it is told to.
    "unforkable": r'''
import ctypes, platform, struct
number = 268 if platform.machine() == 'aarch64' else 308
rows = (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *row) for row in rows))
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('rows', ctypes.c_void_p)]
program = Program(len(rows), ctypes.addressof(code))
assert ctypes.CDLL(None, use_errno=True).prctl(22, 2, ctypes.byref(program)) == 0
''',
    "orders_closed": "import os\nos.close(21)\n",
    "threaded": "import threading, time\nfor i in range(3): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
    "patched": "import json, os, sys, builtins\nbuiltins.print = os.kill = json.dumps = lambda *a, **k: 0\nsys.settrace(lambda *a: None)\n",
}


def libraries_of(*files):
    found = set()
    for file in files:
        lines = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout.split("\n")
        found.update(word for line in lines for word in line.split() if word.startswith("/"))
    return found


@pytest.fixture(scope="module")
def image(session_dir):
    """A root with this Python, its library, and the modules."""
    if not pathlib.Path(LIBRARY, "os.py").exists() or not shutil.which("ldd"):
        pytest.skip(f"no Python in {LIBRARY}, or no ldd to find its libraries")
    root = session_dir / "image-of-a-template"
    (root / "usr/bin").mkdir(parents=True)
    executable = os.path.realpath(PYTHON)
    shutil.copy(executable, root / "usr/bin/python3")
    shutil.copytree(LIBRARY, f"{root}{LIBRARY}", symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    extension = next(pathlib.Path(LIBRARY, "lib-dynload").glob("_ctypes.*"))
    for file in libraries_of(executable, extension):
        target = root / file[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    for name, code in MODULES.items():
        pathlib.Path(f"{root}{LIBRARY}", name + ".py").write_text(f"MARKER = {str(session_dir / 'marker')!r}\n" + code)
    return root


@pytest.fixture(scope="module", autouse=True)
def configured(session_dir, missing_controls):
    """A configuration of our own, with a template for each module, for this file alone."""
    if missing_controls("root"):
        pytest.skip(NO_TEMPLATE)
    (session_dir / "marker").write_text("of the host")
    directory = session_dir / "config-of-templates"
    shutil.copytree(os.environ.get("GLOVEBOX_CONFIG_DIR", ROOT / "config"), directory)
    rows = ["templates:", "  python: {modules: [json]}"]
    rows += [f"  t-{name.replace('_', '-')}: {{rootfs: {session_dir}/image-of-a-template, modules: [{name}]}}" for name in MODULES]
    (directory / "templates.yaml").write_text("\n".join(rows) + "\n")
    before = os.environ.get("GLOVEBOX_CONFIG_DIR")
    forget()
    os.environ["GLOVEBOX_CONFIG_DIR"] = str(directory)
    yield
    forget()
    if before is None:
        del os.environ["GLOVEBOX_CONFIG_DIR"]
    else:
        os.environ["GLOVEBOX_CONFIG_DIR"] = before


@pytest.fixture
def honest(configured):
    """A session of a template of the host's own Python, on the same warden: it notices nothing."""
    with Session(template="python") as session:
        context = session.context()
        assert good(context, "mine = 1").is_warm
        warden = own_warden_process()
        yield context
        assert good(context, "mine").text == "1" and own_warden_process() == warden
        with Session(template="python") as fresh:
            assert good(fresh.context(), "6 * 7").text == "42"


def test_import(image, honest):
    with Session(template="t-hostile", rootfs=image) as session:
        result = good(session.context(), "import sys, json\nhostile = sys.modules['hostile']\nprint(json.dumps([hostile.said, hostile.seen]))")
        assert result.is_warm, "it was not imported by the template"
        said, seen = json.loads(result.out)
        assert seen["planted"], "it has no place of its own"
        left = good(session.context(), f"import os\n[path for path in {seen['planted']!r} if os.path.exists(path)]")
        assert left.text == "[]", left
    assert len(said) > 70
    assert not {label for label, answer in said.items() if answer == "ok"}, said
    assert {seen[key] for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16} and (seen["Seccomp"], seen["NoNewPrivs"]) == ("2", "1"), seen
    assert not [name for name in seen["processes"] if "warden" in name or "forema" in name], seen["processes"]
    assert not [name for name in seen["environ"] if "GLOVEBOX" in name or "SECRET" in name or name == "HOME" and seen["environ"][name].startswith("/root")], seen["environ"]
    # Those two have its uid and may be signalled: the end of its foreman is the end of what it is good for.
    assert len(seen["signals"]) <= 2, seen["signals"]
    assert set(seen["fds"]) <= {"/dev/null", "pipe", "socket", "/proc/self/fd"} | {name for name in seen["fds"] if name.startswith("/proc/")}, seen["fds"]


def test_false_answers(image, honest):
    """The warden hears lies about forks that nobody asked for: the template's own sessions may fail, and fail in time."""
    for i in range(5):
        began = time.monotonic()
        try:
            with Session({"timeout": "3s"}, template="t-noisy", rootfs=image) as session:
                result = session.context().run(f"{i}")
                assert result.verdict != "ok" or result.text == str(i), result
        except Refused:
            pass
        assert time.monotonic() - began < 20
        assert good(honest, "mine").text == "1"


@pytest.mark.parametrize("name", ["exits", "raises", "killed", "orders-closed", "patched", "threaded", "foreman-killed", "foreman-stopped"])
def test_broken_templates(image, honest, name):
    """One that does not come up, or comes up broken: a session is opened without it, or refused, soon."""
    for i in range(1 if name == "foreman-stopped" else 2):
        began = time.monotonic()
        try:
            with Session({"timeout": "3s"}, template=f"t-{name}", rootfs=image) as session:
                result = session.context().run(f"import os\n{i}")
                assert result.verdict != "ok" or result.text == str(i), result
        except Refused as refused:
            assert refused.message
        assert time.monotonic() - began < 20, name
    assert wait_until(lambda: good(honest, "mine").text == "1")


@pytest.mark.parametrize("name", ["python", "t-threaded"])
def test_forks_share_no_memory(image, honest, name):
    """Nothing that one session of a template writes another one sees: not in memory that a fork does not copy, either, not even when
    the template could not make itself cheap to fork."""
    with Session(template=name, rootfs=image if name != "python" else None) as session:
        result = good(session.context(), "[line for line in open('/proc/self/maps') if line.split()[1][1] == 'w' and line.split()[1][3] == 's']")
        assert result.is_warm and result.text == "[]", result


def wakes_of_foremen():
    """How often each foreman of this suite's warden has been woken, by its process. One may end meanwhile."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        comm, fields = process_stat(entry) or ("", [])
        if comm == "glovebox-forema" and int(fields[1]) == own_warden_process():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/status", encoding="utf-8") as status:
                found[entry, fields[19]] = next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches:"))
    return found


def test_children_that_all_fail(image, honest):
    """Sessions of it start by a fresh exec. What is made ahead for the next one fails, too: it is tried now and then, not without
    pause, and what has failed does not stay in the way."""
    with Session(template="t-unforkable", rootfs=image) as session:
        result = session.context().run("6 * 7")
        assert result.text == "42" and not result.is_warm, result
        before = wakes_of_foremen()
        time.sleep(4)
        # 0.1 s after the first, then 0.2 and so on: half a dozen, each of which wakes its foreman a few times. Foremen of
        # the broken templates of other tests may end meanwhile.
        woken = [wakes - before[foreman] for foreman, wakes in wakes_of_foremen().items() if foreman in before]
        assert any(woken) and max(woken) < 60, woken
        assert good(honest, "mine").text == "1"
