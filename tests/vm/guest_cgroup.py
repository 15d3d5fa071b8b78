# SPDX-License-Identifier: Apache-2.0
"""glovebox on control groups v2: limits, verdicts, peaks and cleaning up, in each layout that systems
have; and the refusals where it may not make groups."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import time

from guest_host import (CGROUP, USER, Place, Skip, box_groups, delegate, expect_nothing_left, finish, group, kill, occupy,
                        processes, wait_for)

MIB = 1 << 20
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
        assert control["state"] == "enforced" and "cgroup v2" in control["how"], control
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


def start_is_told(place):
    """Every run says when its program started."""
    missed = [n for n in range(20) if place.run("true", lang="sh").expect("ok").json["setup_ms"] == 0]
    assert not missed, f"setup_ms is 0 in {len(missed)} of 20 runs"


def own_namespace(place):
    result = place.run("print(open('/proc/self/cgroup').read().strip())").expect("ok")
    assert result.json["stdout"] == "0::/\n", f"the box sees where it is on the host: {result}"


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
    assert len(box_groups()) == 1, f"one group should be left for the sweep: {box_groups()}"
    place.run("print(1)").expect("ok")
    expect_nothing_left()


def living_not_swept(place):
    process = start_family(place)
    place.run("print(1)").expect("ok")
    assert len(box_groups()) == 1, f"a second run swept the first one's group: {box_groups()}"
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


def in_a_container(place):
    """All processes in the root of a cgroup namespace, which is not the real root: nothing can be divided."""
    prefix = ["unshare", "--cgroup", "--mount", "sh", "-c", "umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"", "sh"]
    return refused(place, "GLOVEBOX_CGROUP", prefix=prefix)


def read_only_tree(place):
    prefix = ["unshare", "--mount", "sh", "-c", "mount -o remount,bind,ro /sys/fs/cgroup && exec \"$@\"", "sh"]
    return refused(place, "read-only", prefix=prefix)


def without_cpu(place):
    """A tree that has no cpu controller to give, as older systemd delegates: named, not silently dropped."""
    notes = refused(place, "cpu", "--allow-weaker cpu")
    result = place.run("print(1)", "--allow-weaker", "cpu").expect("ok")
    assert "cgroup v2" in result.control("memory")["how"] and result.control("cpu")["state"] == "weaker" or \
        "affinity" in result.control("cpu")["how"], result
    return notes


def tight_parent(place):
    """A limit of whoever started us still binds; it is smaller than ours here."""
    (place.group.parent / "memory.max").write_text(str(48 * MIB))
    try:
        result = place.run("x = b'1' * (300 << 20)", "--memory", "256m")
        assert result.verdict in ("memory", "lost", "error"), result
        return [f"verdict {result.verdict}: {result.json['verdict']['message']}"]
    finally:
        (place.group.parent / "memory.max").write_text("max")
        expect_nothing_left(1)


LIMITS = [ran_well, start_is_told, peaks, peak_of_tasks, own_namespace, memory, memory_of_a_child, memory_in_files, memory_with_swap, pids,
          pids_at_once, fork_bomb, cpu_quota, cpu_time, timeout, disk, disk_of_the_host, workspace_on_tmpfs, output, cancelled, many_at_once,
          front_killed, warden_killed, both_killed, living_not_swept, doctor, verify]
UNDELEGATED = [undelegated_is_refused, undelegated_by_name, undelegated_pids, undelegated_doctor]


def make_places():
    """A process stays in every leaf: a group with processes cannot be divided (but the real root)."""
    service, leaf, nothing = group("system.slice/test.service"), group("user/leaf", CONTROLLERS), group("nobody/leaf")
    session = group(f"user.slice/user-{USER}.slice/user@{USER}.service", CONTROLLERS)
    delegate(CGROUP / "user", USER)
    delegate(leaf, USER)
    delegate(session, USER)
    # The user's own service manager makes what is below, as the user, and passes on less than it has.
    scope, old = session / "app.slice/run.scope", group(f"old.slice/user-{USER}.slice/run.scope")
    for path in [session / "app.slice", scope]:
        path.mkdir()
        delegate(path, USER)
    (session / "cgroup.subtree_control").write_text(CONTROLLERS)
    for path in [CGROUP / "old.slice"]:
        (path / "cgroup.subtree_control").write_text("+memory +pids")
    for path in [old, old.parent]:
        delegate(path, USER)
    for path in [service, leaf, nothing, scope, old]:
        occupy(path)
    for path in ["/srv", "/tmp"]:
        os.chmod(path, 0o1777)
    return {place.name: place for place in [
        Place("root", 0, ""), Place("root-service", 0, "system.slice/test.service"), Place("user", USER, "user/leaf"),
        Place("user-systemd", USER, scope.relative_to(CGROUP)), Place("user-undelegated", USER, "nobody/leaf"),
        Place("user-without-cpu", USER, old.relative_to(CGROUP))]}


def tests():
    places = make_places()
    for name in ["root", "root-service", "user", "user-systemd"]:
        for test in LIMITS:
            yield f"{name}/{test.__name__}", test, places[name]
    for test in UNDELEGATED:
        yield f"user-undelegated/{test.__name__}", test, places["user-undelegated"]
    yield "user-without-cpu/without_cpu", without_cpu, places["user-without-cpu"]
    for test in [named_group, in_a_container, read_only_tree, tight_parent]:
        yield f"root-service/{test.__name__}", test, places["root-service"]
    yield "user-systemd/tight_parent", tight_parent, places["user-systemd"]
