# SPDX-License-Identifier: Apache-2.0
"""166. Hostile code in a session watches for a context or program that is being started in the same session, and attacks it by
/proc, signals and ptrace while it is not locked in yet => nothing of it can be opened, it cannot be signalled, and the host and
other sessions do not notice.
"""
import json
import os
import time

import pytest
from conftest import host_mounts, wait_until
from hostile_sessions import good, own_warden_process, witness
from session_fixtures import own_warden, sessions
from sessions import Refused, Session, call_as_user

# A process that tries every number near its own. What it finds is written to a file, each kind once.
HUNT = r"""
import ctypes, errno, json, os, platform, time
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
def hunt(me):
    holes, tries, seen = set(), 0, set()
    def attempt(label, function, *args):
        try: value = function(*args)
        except OSError as e:
            if e.errno not in (errno.ENOENT, errno.ESRCH): seen.add(label + ' ' + errno.errorcode[e.errno])
            return
        holes.add(label)
        if isinstance(value, int) and value > 20: os.close(value)
    def call(label, numbers, *args):
        if libc.syscall(numbers[arm], *[ctypes.c_long(a) for a in args]) >= 0: holes.add(label)
        elif ctypes.get_errno() not in (errno.ENOENT, errno.ESRCH): seen.add(label + ' ' + errno.errorcode[ctypes.get_errno()])
    own = {os.getpid(), os.getppid()}
    while not os.path.exists('stop'):
        for pid in [p for p in range(2, max(own) + 60) if p not in own]:
            tries += 1
            for name in ('mem', 'environ', 'maps', 'status', 'cmdline', 'auxv'): attempt(name, os.open, '/proc/%d/%s' % (pid, name), os.O_RDONLY)
            for name in ('fd', 'ns', 'task', 'map_files', 'fdinfo'): attempt(name, os.listdir, '/proc/%d/%s' % (pid, name))
            for name in ('exe', 'cwd', 'root', 'fd/20', 'fd/21', 'fd/5', 'ns/user', 'ns/mnt'): attempt(name, os.readlink, '/proc/%d/%s' % (pid, name))
            attempt('mem for writing', os.open, '/proc/%d/mem' % pid, os.O_RDWR)
            for sig in (0, 9, 19, 2, 10): attempt('signal %d' % sig, os.kill, pid, sig); attempt('group %d' % sig, os.kill, -pid, sig)
            call('ptrace', (101, 117), 0x4206, pid, 0, 0)
            call('process_vm_readv', (310, 270), pid, 0, 0, 0, 0, 0)
            call('tgkill', (234, 131), pid, pid, 9)
    open('part of ' + me, 'w').write(json.dumps([tries, sorted(holes), sorted(seen)]))
    os.rename('part of ' + me, me)
    os._exit(0)
"""


def facts_of_the_host():
    return {"mounts": host_mounts(), "hostname": os.uname().nodename, "cwd": os.getcwd(), "uid": os.getuid(), "cgroup": open("/proc/self/cgroup").read()}


FACTS = "[l.split()[1] for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNewPrivs', 'Seccomp:'))]"


def hunt_starts(session, n):
    """Starts n contexts, and programs, under the eyes of two hunters. What the hunters say, and how many targets were not locked in."""
    hunters = [session.context() for _ in range(2)]  # who are strangers to each other as well
    for name, hunter in zip(("report1", "report2"), hunters):
        good(hunter, HUNT + f"if os.fork() == 0: hunt({name!r})")
    wrong = []
    for i in range(n):
        context = session.context("python" if i % 3 else "bash")
        if i % 3:
            result = good(context, f"{i}, {FACTS}")
            wrong += [result.text] if result.text != f"({i}, {['0' * 16] * 5 + ['1', '2']})" else []
        else:
            assert good(context, f"echo {i}").out == f"{i}\n"
        context.close()
        if i % 5 == 0:
            assert session.run("sh", "echo here").out == "here\n"
    session.write("stop", b"")
    assert wait_until(lambda: {b"report1", b"report2"} <= session.list().keys()), "a hunter is dead"
    return [json.loads(session.read(name)) for name in ("report1", "report2")], wrong


def judge(reports, wrong):
    assert not wrong, wrong
    for tries, holes, seen in reports:
        assert tries > 100, "the attack was too slow to mean anything"
        assert holes == [], (holes, seen)
        assert "signal 9 EPERM" in seen, "it has met nobody"


def test_starts_under_attack(sessions, witness):
    host, warden = facts_of_the_host(), own_warden_process()
    judge(*hunt_starts(sessions({"timeout": "10s"}), 30 if sessions.is_warm else 15))
    assert facts_of_the_host() == host and own_warden_process() == warden


def user_hunt(weaker):
    """Runs as the user: see call_as_user()."""
    with Session({"timeout": "10s", "allow_weaker": weaker} if weaker else {"timeout": "10s"}) as session:
        return hunt_starts(session, 10)


def test_starts_of_an_ordinary_user(user_box, missing_controls):
    """His boxes, and whoever starts in them, have one uid from the first moment on."""
    judge(*call_as_user("test_166_attacks_on_a_start", "user_hunt", missing_controls("user"), environ={"PYTHONPATH": os.path.dirname(__file__)}))


def test_hunters_see_a_target(sessions):
    """The hunt itself works: on a process of its own it finds what it looks for, so that nothing found means something."""
    code = HUNT + """
target = os.fork()
if target == 0:
    time.sleep(30)
os.readlink('/proc/%d/exe' % target), os.open('/proc/%d/environ' % target, 0) > 0, os.kill(target, 0), os.kill(target, 9)
"""
    assert good(sessions.context(), code).text.endswith("True, None, None)")


STORMS = {
    "signals to all": "import os\nfor i in range(3):\n    if os.fork() == 0:\n        while True:\n            try: os.kill(-1, 0)\n            except OSError: pass",
    "forks": "import os\nif os.fork() == 0:\n    while True:\n        try:\n            if os.fork() == 0: os._exit(0)\n            os.wait()\n        except OSError: pass",
    "files": "import os\nif os.fork() == 0:\n    while True:\n        for name in ('/run/glovebox/0', '/run/glovebox/1', '/run/glovebox/main.py'):\n            for act in (os.unlink, os.rmdir, lambda n: os.symlink('/proc/1/mem', n), os.mkfifo):\n                try: act(name)\n                except OSError: pass",
}


@pytest.mark.parametrize("what", STORMS)
def test_starts_in_a_storm(sessions, witness, what):
    """A start may fail in a session that is made a mess of; it fails in time, says so, and hurts nobody else."""
    session = sessions({"timeout": "5s", "pids_limit": "64"})
    good(session.context(), STORMS[what])
    done = 0
    for i in range(6):
        began = time.monotonic()
        try:
            context = session.context()
            result = context.run(f"{i}")
            assert result.verdict != "ok" or result.text == str(i), result
            done += result.verdict == "ok"
            context.close()
            program = session.run("sh", f"echo {i}")
            assert program.verdict != "ok" or program.out == f"{i}\n", program
        except Refused:
            pass
        assert time.monotonic() - began < 20
    assert done > 0
