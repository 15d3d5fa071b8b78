# SPDX-License-Identifier: Apache-2.0
"""Sessions as a whole: where their interpreters come from, that forks share no randomness, that nothing outlives them,
and what happens when a part of glovebox dies."""
import json
import os
import re
import signal
import threading
import time

import pytest
from conftest import box_cgroups, box_mounts, needs_root, wait_until
from session_fixtures import PYTHON, cold_sessions, has_module, own_warden, sessions, warm_sessions
from sessions import Refused, Session, forget, serving_template, template_processes, wardens


def good(context, code):
    result = context.run(code)
    assert (result.verdict, result.kept) == ("ok", True), result
    return result


def command_lines():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found[int(pid)] = file.read()
        except OSError:
            continue
    return found


def processes_named(mark):
    return [pid for pid, line in command_lines().items() if mark in line]


def own_warden_process():
    found = wardens()
    if not found:
        pytest.skip("a warm daemon of this host serves the sessions")
    assert len(found) == 1, found
    return found[0]


# Where an interpreter comes from

def test_controls_say_which_template(warm_sessions):
    result = good(warm_sessions.context(), "1")
    assert result.control("layout") == {"name": "layout", "state": "weaker", "how": "forked from the template python: shared with its other sessions"}
    assert any("the control layout was weaker" in note for note in result.json["notes"])
    others = {c["name"]: c["state"] for c in result.json["controls"] if c["name"] not in ("layout", "apparmor")}
    assert set(others.values()) == {"enforced"} and "seccomp" in others


def test_fresh_exec(cold_sessions, missing_controls):
    plain = good(cold_sessions.context(), "1").control("layout")
    assert plain == {"name": "layout", "state": "enforced", "how": "fresh exec"}
    if not cold_sessions.weaker:
        refused = good(cold_sessions.context({"warm": False}, template="python"), "1").control("layout")
        assert refused == {"name": "layout", "state": "enforced", "how": "fresh exec; no template: the policy says warm: false"}
    by_default = good(cold_sessions(({"warm": False}), template=None).context(), "1").control("layout")
    assert by_default["how"] == "fresh exec"
    with pytest.raises(Refused) as caught:
        cold_sessions(template="nonsense")
    assert caught.value.code == "not_found" and "nonsense" in caught.value.message


def test_address_layout_differs_when_fresh(cold_sessions):
    code = "[line.split('-')[0] for line in open('/proc/self/maps')][0], id(object())"
    assert len({good(cold_sessions.context(), code).text for _ in range(3)}) == 3


def test_looks_the_same_warm_and_cold(missing_controls):
    """What code can see of where it runs does not depend on how its interpreter came to be."""
    code = """
import os, re, sys, json
def read(path):
    with open(path) as f: return f.read()
status = dict(line.split(':\\t', 1) for line in read('/proc/self/status').splitlines() if ':\\t' in line)
seen = {
    'ids': [os.getuid(), os.getgid(), os.getgroups(), os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid()],
    'cwd': os.getcwd(), 'argv': sys.argv, 'path': sys.path, 'flags': list(sys.flags), 'main': sorted(k for k in globals() if k.startswith('__')),
    'environ': sorted(k for k in os.environ), 'name': os.uname().nodename, 'executable': sys.executable,
    'fds': sorted(int(f) for f in os.listdir('/proc/self/fd'))[:3], 'root': sorted(os.listdir('/')),
    'status': {k: status[k] for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'SigIgn', 'SigBlk')},
    'limits': read('/proc/self/limits'), 'oom': read('/proc/self/oom_score_adj'), 'umask': os.umask(0o22),
    'net': sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else None,
    'mounts': sorted({l.split()[4] + ' ' + l.split()[5] for l in read('/proc/self/mountinfo').splitlines()}),
    'cgroup': re.sub('glovebox-[0-9a-f]{16}', 'ours', read('/proc/self/cgroup')),
}
print(json.dumps(seen))
"""
    if missing_controls("root" if os.geteuid() == 0 else "user"):
        pytest.skip("this host gives no cgroup to this user, and so no template")
    seen = {}
    for template in ("python", ""):
        with Session(template=template) as session:
            seen[template] = json.loads(good(session.context(), code).out)
    different = {key: (seen["python"][key], seen[""][key]) for key in seen[""] if seen["python"][key] != seen[""][key]}
    assert not different, "\n".join(f"{key}:\n  {warm}\n  {cold}" for key, (warm, cold) in different.items())


# Randomness

RANDOM = """
import random, secrets, uuid, tempfile, ssl, os, hashlib, time, string
got = {
    'random': random.random(), 'instance': random.Random().random(), 'secrets': secrets.token_hex(16), 'uuid1': str(uuid.uuid1()), 'uuid4': str(uuid.uuid4()),
    'mktemp': tempfile.mktemp(), 'mkstemp': tempfile.mkstemp()[1], 'ssl': ssl.RAND_bytes(16).hex(), 'urandom': os.urandom(16).hex(),
    'system': random.SystemRandom().random(), 'shuffle': ''.join(random.sample(string.ascii_letters, 30)),
}
"""
RANDOM_DATA = """
import numpy as np
got.update({'legacy': np.random.rand(), 'legacy ints': np.random.randint(1 << 62), 'rng': np.random.default_rng().random(),
            'RandomState': np.random.RandomState().rand(), 'permutation': str(np.random.permutation(50))})
"""


def assert_all_differ(contexts, code, n):
    seen = [json.loads(good(context, code + "import json\nprint(json.dumps(got))").out) for context in contexts]
    assert len(seen) == n
    for name in seen[0]:
        assert len({one[name] for one in seen}) == n, f"{name} is the same in two sessions"


def test_forks_share_no_randomness(warm_sessions):
    """One after the other, then alive at the same time, then in contexts of one session."""
    def one_by_one():
        for _ in range(25):
            with warm_sessions() as session:
                yield session.context()
    alive = (warm_sessions().context() for _ in range(15))
    session = warm_sessions()
    same = (session.context() for _ in range(10))
    assert_all_differ((context for part in (one_by_one(), alive, same) for context in part), RANDOM, 50)


@pytest.mark.skipif(not has_module("numpy"), reason=f"numpy is not installed for {PYTHON}")
def test_forks_share_no_randomness_of_numpy(warm_sessions):
    def one_by_one():
        for _ in range(50):
            with warm_sessions(template="python-data") as session:
                yield session.context()
    assert_all_differ(one_by_one(), RANDOM + RANDOM_DATA, 50)


# The end

DAEMON = """
import os, subprocess, time
subprocess.Popen(['bash', '-c', 'exec -a {mark}-child sleep 1000'])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        os.execvp('bash', ['bash', '-c', 'trap "" TERM INT HUP; exec -a {mark}-daemon sleep 1000'])
    os._exit(0)
os.wait()
"""


def test_nothing_outlives_a_session(sessions):
    session = sessions()
    mark = f"m{os.getpid()}-{session.id[:8]}"
    python, bash = session.context(), session.context("bash")
    good(python, DAEMON.format(mark=mark))
    good(bash, f"(setsid bash -c 'exec -a {mark}-bash sleep 1000' >/dev/null 2>&1 &)")
    assert wait_until(lambda: len(processes_named(mark.encode())) == 3), "the test has started nothing"
    # A context that goes takes its own processes with it, at least when it is alone in its session; the session takes all.
    running = python.start("import time\nprint('on', flush=True)\ntime.sleep(60)")
    running.wait_for("stdout")
    python.interrupt()
    running.join()
    session.close()
    assert wait_until(lambda: not processes_named(mark.encode()), 10), processes_named(mark.encode())


def counts(pid):
    """What a process holds: descriptors by what they are, and tasks."""
    kinds = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            kind = re.sub("glovebox-[0-9a-f]{16}", "box", os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0])
        except OSError:
            continue
        kinds[kind] = kinds.get(kind, 0) + 1
    kinds["threads"] = len(os.listdir(f"/proc/{pid}/task"))
    return kinds


def holdings(warden):
    children = [p for p in os.listdir("/proc") if p.isdigit() and parent(p) == warden]
    return {"front": counts("self"), "warden": counts(warden), "children": len(children)}


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            return int(fields[1])
    except OSError:
        return None


def test_sessions_leave_nothing(sessions):
    """A hundred of them, fewer when each starts an interpreter: processes, descriptors of both sides and mounts are as many as
    before, and their cgroups are gone."""
    cgroups = set()

    def once(i):
        with sessions() as session:
            cgroups.update(own_cgroups())
            context = session.context()
            session.write("f", b"x")
            context.run(("x = 1", "1 / 0", "import os\nos._exit(1)", "print(open('f').read())")[i % 4])
            if i % 3 == 0:
                session.context("bash").run("sleep 100 & echo")
            if i % 5 == 0:
                session.run("sh", "true")
        sessions.opened.clear()
    for i in range(8):
        once(i)
    warden = own_warden_process()
    settle()
    before, mounts = holdings(warden), box_mounts()
    for i in range(100 if sessions.is_warm else 30):
        once(i)
    after = {}

    def same():
        after.update(holdings(warden))
        return after == before
    assert wait_until(same, 5, 0.1), "\n".join(f"{key}: {before[key]}\n{after[key]}" for key in before if before[key] != after[key])
    assert wait_until(lambda: not any(map(os.path.exists, cgroups)), 5), [c for c in cgroups if os.path.exists(c)]
    assert len(cgroups) >= 30 or sessions.weaker
    assert box_mounts() == mounts


def own_cgroups():
    """Groups of the sessions that are open here, by the descriptors we have of them."""
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]
    return {match.group() for match in (re.match("/sys/fs/cgroup/.*/glovebox-[0-9a-f]{16}", link) for link in links) if match}


def settle():
    """Until what is made ahead is made, and what is taken down is down."""
    last = [None, 0]

    def still():
        now = holdings(own_warden_process())
        last[1] = last[1] + 1 if now == last[0] else 0
        last[0] = now
        return last[1] >= 5
    assert wait_until(still, 10, 0.1), "it does not come to rest"


def test_failed_opens_leave_nothing(sessions):
    good(sessions.context(), "1")
    settle()
    warden = own_warden_process()
    before = holdings(warden)
    for _ in range(20):
        for arguments in ({"workspace": "/nonexistent"}, {"rootfs": "/nonexistent"}, {"policy": {"mounts": "/nonexistent:/data"}}):
            with pytest.raises(Refused):
                sessions(**arguments)
    assert wait_until(lambda: holdings(warden) == before, 5, 0.1), (before, holdings(warden))


def test_closing_is_quick(missing_controls):
    """With a warden of its own, so that warm and cold sessions come in every order after its start."""
    weaker = missing_controls("root" if os.geteuid() == 0 else "user")
    for order in (("",) * 3,) if weaker else (("", "python", "", ""), ("python", "", "", "python")):
        forget()
        for i, template in enumerate(order):
            session = Session({"allow_weaker": "cgroup"} if weaker else None, template)
            good(session.context(), "1")
            began = time.monotonic()
            session.close()
            assert time.monotonic() - began < 8, f"session {i} of {order}"


def test_closing_while_others_open(sessions):
    """From several threads at once."""
    failures = []

    def work(n):
        try:
            for i in range(10):
                with sessions() as session:
                    result = session.context().run(f"{n} * 100 + {i}")
                    assert result.text == str(n * 100 + i), result
        except Exception as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(t.is_alive() for t in threads), failures
    sessions.opened.clear()


# When a part dies

def test_warden_dies(sessions):
    session = sessions()
    context, bash = session.context(), session.context("bash")
    mark = f"w{os.getpid()}-{session.id[:8]}"
    good(bash, f"(exec -a {mark} sleep 1000) >/dev/null 2>&1 &")
    warden = own_warden_process()
    running = [context.start("import time\nprint('on', flush=True)\ntime.sleep(60)"), session.start("sh", "echo on; sleep 60")]
    for run in running:
        run.wait_for("stdout")
    os.kill(warden, signal.SIGKILL)
    died = time.monotonic()
    for run in running:
        result = run.join(10)
        assert (result.verdict, result.kept, result.out) == ("lost", False, "on\n"), result
    assert time.monotonic() - died < 10
    for use in (lambda: context.run("1"), lambda: session.context(), lambda: session.run("sh", "true")):
        with pytest.raises(Refused) as caught:
            use()
        assert caught.value.code == "lost", caught.value
    assert wait_until(lambda: not processes_named(mark.encode()), 10), "the box outlives its warden"
    fresh = sessions().context()
    assert good(fresh, "6 * 7").text == "42"
    session.close()
    assert good(fresh, "1").text == "1"
    assert own_warden_process() != warden
    assert wait_until(lambda: not left_by(warden), 5), left_by(warden)


def left_by(warden):
    """Processes whose parent it was have another one now; those of boxes are dead."""
    return [pid for pid in command_lines() if parent(pid) == warden]


@needs_root
def test_cgroups_of_a_dead_warden_are_removed(warm_sessions):
    warm_sessions.may_be_cold = True
    before = box_cgroups()
    good(warm_sessions.context(), "1")
    warden = own_warden_process()
    made = box_cgroups() - before
    assert made
    os.kill(warden, signal.SIGKILL)

    def swept():
        with warm_sessions() as session:
            good(session.context(), "1")
        return not made & box_cgroups()
    assert wait_until(swept, 10, 0.2), made & box_cgroups()


def test_template_dies(warm_sessions):
    alive = warm_sessions().context()
    good(alive, "x = 1")
    [process] = template_processes()
    os.kill(process, signal.SIGKILL)
    assert good(alive, "x").text == "1", "a session does not need its template any more"
    # A session that is opened before the death is noticed may have a fresh interpreter. Soon there is a new template.
    warm_sessions.may_be_cold = True
    serving_template(lambda: good(warm_sessions.context(), "1"), dead=[process])
    assert good(alive, "x").text == "1"
    again = alive.session.context()
    assert good(again, "2").text == "2"


def test_template_dies_under_load(warm_sessions):
    """Sessions are opened while templates are killed: each opens, warm or with a fresh exec."""
    warm_sessions.may_be_cold = True
    good(warm_sessions.context(), "1")
    over = threading.Event()

    def kill():
        while not over.wait(0.05):
            for process in template_processes():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for i in range(20):
            with warm_sessions() as session:
                assert good(session.context(), f"{i}").text == str(i)
    finally:
        over.set()
        killer.join()
    warm_sessions.opened.clear()
    assert wait_until(lambda: good(warm_sessions.context(), "1").is_warm)
