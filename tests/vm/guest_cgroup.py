# SPDX-License-Identifier: Apache-2.0
"""glovebox on control groups: limits, verdicts, peaks and cleaning up, in each layout that systems
have; and the refusals where it may not make groups."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import time

from guest_host import (CGROUP, HIERARCHIES, IS_V1, USER, Place, Skip, box_groups, delegate, expect_nothing_left, finish, group,
                        kill, occupy, processes, silent_starts, wait_for)
from guest_session import SESSIONS

MIB = 1 << 20
VERSION = "v1" if IS_V1 else "v2"
CONTROLLERS = "+memory +pids +cpu"
FORK_UNTIL_REFUSED = """
import os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        n += 1
except BlockingIOError:
    print(n, flush=True)
    os._exit(1)
"""
SPIN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def ran_well(place):
    result = place.run("print(1)").expect("ok")
    assert result.json["stdout"] == "1\n" and result.status == 0, result
    assert result.err == "", f"something on standard error: {result.err}"
    for name in ["memory", "pids", "cpu"]:
        control = result.control(name)
        assert control["state"] == "enforced" and f"cgroup {VERSION}" in control["how"], control
    expect_nothing_left()
    return [f"setup {result.json['setup_ms']} ms, run {result.json['duration_ms']} ms"]


def peaks(place):
    code = "import time\nx = b'1' * (40 << 20)\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    found = place.run(code).expect("ok").peaks
    assert 40 * MIB < found["memory_bytes"] < 80 * MIB, found
    assert 300_000 < found["cpu_usec"] < 5_000_000, found
    assert found["pids"] == 1, f"one process ran: {found}"


def peak_of_tasks(place):
    code = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        time.sleep(0.5)\n        os._exit(0)\n" \
           "for _ in range(4): os.wait()"
    found = place.run(code).expect("ok").peaks
    assert found["pids"] == 5, f"five processes ran: {found}"


def own_namespace(place):
    result = place.run("print(open('/proc/self/cgroup').read().strip())").expect("ok")
    paths = [line.split(":", 2)[2] for line in result.json["stdout"].splitlines()]
    # On v1 the program joins its groups after the namespace was made: their own name shows, nothing above it.
    seen = [path for path in paths if path != "/" and not (IS_V1 and re.fullmatch("/glovebox-[0-9a-f]+", path))]
    assert paths and not seen, f"the box sees where it is on the host: {result}"


def memory(place):
    result = place.run("x = b'1' * (300 << 20)", "--memory", "64m").expect("memory")
    assert result.json["signal"] == "SIGKILL" or result.json["signal"] == 9, result
    assert result.json["verdict"]["limit"] == 64 * MIB and 48 * MIB < result.peaks["memory_bytes"] <= 64 * MIB, result
    expect_nothing_left()


def memory_of_a_child(place):
    """The box dies as a whole, although its first process needs little."""
    code = "import os, time\nif os.fork() == 0:\n    x = b'1' * (300 << 20)\ntime.sleep(30)"
    result = place.run(code, "--memory", "64m").expect("memory")
    assert result.json["duration_ms"] < 25_000, result
    expect_nothing_left()


def memory_in_files(place):
    code = "f = open('/tmp/x', 'wb')\nfor _ in range(150): f.write(b'1' * (1 << 20))"
    place.run(code, "--memory", "64m", "--tmp-size", "200m").expect("memory")


def memory_with_swap(place):
    """With swap on the limit is the same: nothing of a box is swapped."""
    swap = pathlib.Path("/srv/swap")
    subprocess.run(["dd", "if=/dev/zero", f"of={swap}", "bs=1M", "count=256", "status=none"], check=True)
    swap.chmod(0o600)
    subprocess.run(["mkswap", str(swap)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", str(swap)], check=True)
    try:
        result = place.run("x = b'1' * (200 << 20)", "--memory", "64m").expect("memory")
        assert result.control("memory")["state"] == "enforced", result
    finally:
        subprocess.run(["swapoff", str(swap)], check=True)
        swap.unlink()


def pids(place):
    result = place.run(FORK_UNTIL_REFUSED, "--pids", "20").expect("pids")
    assert result.json["stdout"] == "19\n", f"20 tasks are the program and 19 children: {result}"
    assert result.peaks["pids"] == 20, f"the peak is the limit: {result.peaks}"
    expect_nothing_left()


def pids_at_once(place):
    """The limit holds from the first instruction on."""
    code = "i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i+1)); done; echo never"
    result = place.run(code, "--pids", "8", "--timeout", "20s", lang="sh").expect("pids")
    assert result.peaks["pids"] == 8, result.peaks
    expect_nothing_left()


def fork_bomb(place):
    result = place.run("f() { f | f & }; f; sleep 30", "--pids", "32", "--timeout", "5s", lang="bash")
    assert result.verdict in ("pids", "timeout"), result
    assert result.peaks["pids"] <= 32, result.peaks
    expect_nothing_left()
    return [f"verdict {result.verdict}"]


def cpu_quota(place):
    result = place.run(SPIN.format(2), "--cpus", "0.5").expect("ok")
    share = result.peaks["cpu_usec"] / 1000 / result.json["duration_ms"]
    assert 0.4 < share < 0.6, f"share of a cpu {share:.2f}: {result}"
    return [f"{result.peaks['cpu_usec'] / 1e6:.2f} s of cpu in {result.json['duration_ms'] / 1000:.2f} s"]


def cpu_time(place):
    result = place.run(SPIN.format(60), "--cpu-time", "1s").expect("cpu")
    assert 1_000_000 <= result.peaks["cpu_usec"] < 1_600_000, result.peaks


def timeout(place):
    result = place.run("import time; time.sleep(60)", "--timeout", "1s").expect("timeout")
    assert 1000 <= result.json["duration_ms"] < 1500, result
    expect_nothing_left()
    return [f"after {result.json['duration_ms']:.0f} ms"]


def disk(place):
    code = "f = open('x', 'wb')\nfor _ in range(40): f.write(b'1' * (1 << 20))"
    place.run(code, "--disk", "8m").expect("disk")


def disk_of_the_host(place):
    """On ext4: as root by an idmapped mount, measured and then killed."""
    work = place.directory("disk")
    code = "import time\nf = open('x', 'wb', 0)\nfor _ in range(400):\n    f.write(b'1' * (1 << 18))\n    time.sleep(0.02)"
    place.run(code, "--disk", "8m", "-w", str(work)).expect("disk")
    file = work / "x"
    assert file.stat().st_uid == place.uid, f"{file} belongs to {file.stat().st_uid}"


def workspace_on_tmpfs(place):
    """As root it needs idmapped mounts, which tmpfs has since Linux 6.3: refused before that, and told."""
    work = pathlib.Path("/dev/shm/work")
    work.mkdir(exist_ok=True)
    os.chown(work, place.uid, place.uid)
    result = place.run("open('x', 'w').write('1')", "-w", str(work))
    if result.status == 112:
        assert place.uid == 0 and "idmapped" in result.json["error"]["message"], result
        return [result.json["error"]["message"]]
    result.expect("ok")
    assert (work / "x").stat().st_uid == place.uid
    expect_nothing_left()


def output(place):
    result = place.run("while True: print('x' * 1000)", "--output-limit", "1m").expect("output")
    assert len(result.json["stdout"]) == MIB and result.json["truncated"], result.json["truncated"]


def cancelled(place):
    process = place.start("run", "--json", "-c", "import time; time.sleep(60)")
    assert wait_for(box_groups, 20) is not None, "no group was made"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    finish(process).expect("cancelled")
    expect_nothing_left()


def many_at_once(place):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: place.run(f"print({n})"), range(12)))
    for n, result in enumerate(results):
        assert result.expect("ok").json["stdout"] == f"{n}\n", result
    expect_nothing_left()


# Deaths.

def start_family(place):
    """A run with children that outlive signals, up to the point where all of them are there."""
    code = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" \
           "for _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        break\ntime.sleep(600)"
    process = place.start("run", "--json", "--timeout", "5m", "-c", code)

    def there():
        return box_groups() and len(processes()) >= 9  # front, warden, init, the program and its five

    if wait_for(there, 30) is None:
        process.kill()
        raise AssertionError(f"the run did not come up: {processes()}, {finish(process)}")
    return process


def warden_pid():
    return next(pid for pid, name in processes() if name == "glovebox-warden")


def front_killed(place):
    process = start_family(place)
    process.kill()
    process.communicate()
    took = wait_for(lambda: not processes(), 1)
    assert took is not None, f"alive 1 s after the front was killed: {processes()}"
    expect_nothing_left(1)
    return [f"all gone after {took * 1000:.0f} ms"]


def warden_killed(place):
    process = start_family(place)
    kill(warden_pid())
    result = finish(process).expect("lost")
    took = wait_for(lambda: not processes(), 1)
    assert took is not None, f"alive 1 s after the warden was killed: {processes()}"
    left = box_groups()
    place.run("print(1)").expect("ok")
    expect_nothing_left()
    return [f"all gone after {took * 1000:.0f} ms, status {result.status}; {len(left)} group left until the next start"]


def both_killed(place):
    process = start_family(place)
    warden = warden_pid()
    kill(warden, signal.SIGSTOP)  # so that it cannot clean up
    process.kill()
    process.communicate()
    kill(warden)
    assert wait_for(lambda: not processes(), 1) is not None, f"alive 1 s after both were killed: {processes()}"
    assert box_groups(), "nothing was left for the sweep to do"
    place.run("print(1)").expect("ok")
    expect_nothing_left()


def living_not_swept(place):
    process = start_family(place)
    before = box_groups()
    place.run("print(1)").expect("ok")
    assert box_groups() == before, f"a second run swept the first one's group: {before}, {box_groups()}"
    process.kill()
    process.communicate()
    expect_nothing_left(2)


# The verbs that look at the host.

def verb(place, name):
    result = place.call(name)
    if result.status == 0 and not result.out.strip():
        raise Skip(f"glovebox {name} says nothing: not written yet")
    assert result.status == 0, result
    expect_nothing_left()
    return [line for line in result.out.splitlines() if re.search("cgroup|memory|pids|passed|failed", line)][:8]


def doctor(place):
    return verb(place, "doctor")


def verify(place):
    return verb(place, "verify")


# Where it must refuse, and other layouts.

def refused(place, *texts, **options):
    result = place.call("run", "-c", "print(1)", **options)
    assert result.status == 112 and result.out == "", f"it should refuse with 112: {result}"
    for text in texts:
        assert text in result.err, f"the message does not say {text!r}: {result.err}"
    expect_nothing_left()
    return [result.err.strip()]


def undelegated_is_refused(place):
    return refused(place, "memory", "Delegate", "--allow-weaker")


def v1_user_is_refused(place):
    return refused(place, "memory", "v1", "root", "--allow-weaker")


def undelegated_by_name(place):
    result = place.run("print(1)", "--allow-weaker", "memory,cpu").expect("ok")
    assert result.control("memory")["state"] == "weaker" and "rlimit" in result.control("memory")["how"], result
    for name in ["memory", "pids", "cpu"]:
        assert "cgroup" not in result.control(name)["how"], result.control(name)
    expect_nothing_left()
    return [f"{name}: {result.control(name)['how']}" for name in ["memory", "pids", "cpu"]]


def undelegated_pids(place):
    result = place.run(FORK_UNTIL_REFUSED, "--pids", "20", "--allow-weaker", "memory,cpu").expect("pids")
    assert result.json["stdout"] == "19\n", result


def undelegated_doctor(place):
    result = place.call("doctor")
    if result.status == 0 and not result.out.strip():
        raise Skip("glovebox doctor says nothing: not written yet")
    return [f"status {result.status}", *[line for line in result.out.splitlines() if re.search("cgroup|memory|pids", line)][:8]]


def named_group(place):
    """GLOVEBOX_CGROUP, in both spellings, and one that is not there."""
    group("elsewhere", CONTROLLERS)
    for name in ["/elsewhere", "/sys/fs/cgroup/elsewhere"]:
        process = place.start("run", "-c", "import time; time.sleep(60)", environ={"GLOVEBOX_CGROUP": name})
        found = wait_for(box_groups, 20) is not None and box_groups()
        process.kill()
        process.communicate()
        assert found and found[0].startswith("elsewhere/"), found
        expect_nothing_left(1)
    return refused(place, "GLOVEBOX_CGROUP", environ={"GLOVEBOX_CGROUP": "/nowhere"})


CONTAINER = "umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && cd /sys/fs/cgroup && "


def container(script):
    return ["unshare", "--cgroup", "--mount", "sh", "-c", CONTAINER + script + 'exec "$@"', "sh"]


def in_a_container(place):
    """All processes in the root of a cgroup namespace, which is not the real root: nothing can be divided."""
    return refused(place, "container", prefix=container(""))


def in_a_container_with_a_leaf(place):
    """The remedy: the processes go to a group below."""
    result = place.run("print(1)", prefix=container("mkdir main && echo $$ > main/cgroup.procs && ")).expect("ok")
    assert "cgroup v2" in result.control("memory")["how"], result
    expect_nothing_left()


def read_only_tree(place):
    prefix = ["unshare", "--mount", "sh", "-c", "mount -o remount,bind,ro /sys/fs/cgroup && exec \"$@\"", "sh"]
    return refused(place, "read-only", prefix=prefix)


def without_cpu(place):
    """A tree that has no cpu controller to give, as older systemd delegates: whole processors by affinity, and
    for a part of one it refuses."""
    result = place.run("print(1)").expect("ok")
    for name in ["memory", "pids"]:
        assert "cgroup v2" in result.control(name)["how"], result
    assert "affinity" in result.control("cpu")["how"], result
    result = place.call("run", "--cpus", "0.5", "-c", "print(1)")
    assert result.status == 112 and '"cpu"' in result.err and "--allow-weaker cpu" in result.err, result
    expect_nothing_left()
    return [result.err.strip()]


def tight_parent(place):
    """A limit of whoever started us still binds; it is smaller than ours here."""
    limit = (CGROUP / place.path).parent / "memory.max"
    limit.write_text(str(128 * MIB))
    try:
        result = place.run("x = b'1' * (300 << 20)", "--memory", "256m").expect("memory")
        assert result.peaks["memory_bytes"] < 140 * MIB, result  # charges come in batches
        return [f"verdict {result.verdict}: {result.json['verdict']['message']}"]
    finally:
        limit.write_text("max")
        expect_nothing_left(1)


LIMITS = [ran_well, peaks, peak_of_tasks, own_namespace, memory, memory_of_a_child, memory_in_files, memory_with_swap, pids,
          pids_at_once, fork_bomb, cpu_quota, cpu_time, timeout, disk, disk_of_the_host, workspace_on_tmpfs, output, cancelled, many_at_once,
          front_killed, warden_killed, both_killed, living_not_swept, doctor, verify]
UNDELEGATED = [undelegated_is_refused, undelegated_by_name, undelegated_pids, undelegated_doctor]


def stay(path):
    """A process stays in every leaf: on v2 a group with processes cannot be divided (but the real root)."""
    for hierarchy in HIERARCHIES:
        occupy(hierarchy / path)


def make_user_tree():
    """As systemd has it: the user's service manager makes the lower part, as the user."""
    session = group(f"user.slice/user-{USER}.slice/user@{USER}.service", CONTROLLERS)
    for path in [session, session / "app.slice", session / "app.slice/run.scope"]:
        path.mkdir(exist_ok=True)
        delegate(path, USER)
    (session / "cgroup.subtree_control").write_text(CONTROLLERS)
    return str((session / "app.slice/run.scope").relative_to(CGROUP))


def make_places():
    leaf, old = group("user/leaf", CONTROLLERS), group(f"old.slice/user-{USER}.slice/run.scope")
    group("system.slice/test.service")
    group("nobody/leaf")
    group("container")
    (CGROUP / "old.slice/cgroup.subtree_control").write_text("+memory +pids")
    for path in [leaf.parent, leaf, old.parent, old]:
        delegate(path, USER)
    places = [Place("root", 0, ""), Place("root-service", 0, "system.slice/test.service"), Place("user", USER, "user/leaf"),
              Place("user-systemd", USER, make_user_tree()), Place("user-undelegated", USER, "nobody/leaf"),
              Place("user-without-cpu", USER, str(old.relative_to(CGROUP)))]
    for place in places[1:]:
        stay(place.path)
    return {place.name: place for place in [*places, Place("container", 0, "container")]}


def start_is_told():
    """Every run of all these tests said when its program started."""
    assert not silent_starts, f"setup_ms is 0 in {len(silent_starts)} runs, such as {silent_starts[0]}"


def v1_tests():
    for hierarchy in HIERARCHIES:
        (hierarchy / "service").mkdir()
    stay("service")
    for place in [Place("v1-root", 0, ""), Place("v1-root-service", 0, "service")]:
        for test in LIMITS + SESSIONS:
            yield f"{place.name}/{test.__name__}", test, place
    user = Place("v1-user", USER, "service")
    yield "v1-user/refused", v1_user_is_refused, user
    for test in UNDELEGATED[1:]:
        yield f"v1-user/{test.__name__}", test, user


def v2_tests():
    places = make_places()
    for name in ["root", "root-service", "user", "user-systemd"]:
        for test in LIMITS + SESSIONS:
            yield f"{name}/{test.__name__}", test, places[name]
    for test in UNDELEGATED:
        yield f"user-undelegated/{test.__name__}", test, places["user-undelegated"]
    yield "user-without-cpu/without_cpu", without_cpu, places["user-without-cpu"]
    for test in [in_a_container, in_a_container_with_a_leaf]:
        yield f"container/{test.__name__}", test, places["container"]
    for test in [named_group, read_only_tree, tight_parent]:
        yield f"root-service/{test.__name__}", test, places["root-service"]
    yield "user-systemd/tight_parent", tight_parent, places["user-systemd"]


def tests():
    for path in ["/srv", "/tmp"]:
        os.chmod(path, 0o1777)
    yield from v1_tests() if IS_V1 else v2_tests()
    yield f"{VERSION}/start_is_told", start_is_told
