# SPDX-License-Identifier: Apache-2.0
"""The end of a run, by its limits and by its caller: verdicts, signals, sudden deaths, and what is left."""
import contextlib
import os
import pathlib
import signal
import time

import pytest
from conftest import IS_ROOT, best_of, box_cgroups, box_processes, process_stat, wait_until

WAITING = "import time, sys\ntry:\n    print('up', flush=True)\n    time.sleep(50)\nexcept KeyboardInterrupt:\n    print('interrupted', flush=True)\n    sys.exit(5)"
DEAF = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(50)"


def started(box, code, **options):
    process = box.start(code, json=False, **options)
    assert process.stdout.readline() == b"up\n", process.stderr.read()
    return process


def children(pid):
    """Everything below a process, as pids."""
    below, todo = set(), [pid]
    while todo:
        parent = todo.pop()
        try:
            with open(f"/proc/{parent}/task/{parent}/children") as file:
                found = [int(word) for word in file.read().split()]
        except OSError:
            continue
        below.update(found)
        todo.extend(found)
    return below


def alive(pids):
    return {pid for pid in pids if process_stat(pid)}


LIMITS = {
    "timeout": ("sleep 50", {"timeout": "300ms"}, 124, 300000, "usec"),
    "output": ("yes", {"output_limit": "64k"}, 121, 64 << 10, "bytes"),
    "disk": ("head -c 5000000 /dev/zero > /sandbox/f", {"disk": "1m"}, 120, 1 << 20, "bytes"),
    "memory": ("head -c 100000000 /dev/zero | tail", {"memory": "32m"}, 118, 32 << 20, "bytes"),
    "cpu": ("while :; do :; done", {"cpu_time": "300ms"}, 122, 300000, "usec"),
    "pids": ("for i in 1 2 3 4 5 6 7 8 9; do sleep 20 & done; wait", {"pids": 5}, 119, 5, "tasks"),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_verdicts(box, kind, no_leaks):
    code, options, status, limit, unit = LIMITS[kind]
    if kind in ("memory", "cpu", "pids") and not box.has_cgroup:
        pytest.skip("needs a cgroup, which this host does not give to this user")
    result = box.run(code, "sh", **options)
    verdict = result.json["verdict"]
    assert (verdict["kind"], result.returncode, verdict["limit"], verdict["unit"]) == (kind, status, limit, unit), result.explain()
    assert verdict["peak"] >= limit * 0.9, verdict
    assert verdict["message"].endswith(".") and "--" in verdict["message"], "says what to do"


def test_cpu_time_without_cgroup_is_refused(user_box):
    if user_box.has_cgroup:
        pytest.skip("this user has a cgroup on this host")
    result = user_box.run("print(1)", cpu_time="1s")
    assert result.returncode in (0, 112), result.explain()
    if result.returncode == 112:
        assert "cpu_time" in result.error["message"]


@pytest.mark.smoke
def test_interrupt(box, no_leaks):
    """Ctrl-C once: the program gets it, and the run counts as cancelled."""
    process = started(box, WAITING)
    process.send_signal(signal.SIGINT)
    result = box.finish(process)
    assert (result.returncode, result.out) == (130, b"interrupted\n"), result.explain()
    assert b"cancelled" in result.err


def test_interrupt_twice(box, no_leaks):
    def attempt():
        process = started(box, DEAF)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert box.finish(process).returncode == 130
        return time.monotonic() - start

    took = best_of(5, attempt, lambda took: took < 1.5)  # else it would be killed after two seconds
    assert took < 1.5


def test_interrupt_that_is_ignored(box, no_leaks):
    """After a grace of two seconds it is killed."""
    process = started(box, DEAF)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert box.finish(process).returncode == 130
    assert 1.8 < time.monotonic() - start < 15


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminate(box, number, no_leaks):
    process = started(box, DEAF)
    process.send_signal(number)
    result = box.finish(process)
    assert result.returncode == 130 and b"cancelled" in result.err, result.explain()


def test_early_signals(box, no_leaks):
    """At any moment of its start a signal ends it, and nothing is left."""
    for delay in range(0, 40, 2):
        process = box.start(WAITING, json=False)
        time.sleep(delay / 1000)
        process.send_signal(signal.SIGTERM if delay % 4 else signal.SIGKILL)
        box.finish(process, patience=10)


def test_errors_leave_no_process(box, no_leaks):
    for _ in range(100):
        assert box.run("print(1)", policy="/nowhere.yaml").returncode != 0


def test_killed_front(box, no_leaks):
    """SIGKILL to glovebox: what it ran is dead within a second."""
    process = started(box, DEAF)
    below = children(process.pid)
    assert len(below) >= 2
    process.kill()
    assert wait_until(lambda: not alive(below), 10), alive(below)
    box.finish(process)


@pytest.mark.skipif(not IS_ROOT, reason="cgroups are root's here")
def test_next_start_sweeps(own_box):
    """The warden is killed with its front: its cgroups are empty, and the next run removes them."""
    before = box_cgroups()
    process = started(own_box, DEAF)
    made = box_cgroups() - before
    below = children(process.pid)
    for pid in (process.pid, *below):
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            pass
    for pid in (process.pid, *sorted(below)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.communicate()
    assert wait_until(lambda: not alive(below), 10)
    assert own_box.run("print(1)").stdout == "1\n"
    assert made and wait_until(lambda: not made & box_cgroups(), 10), made & box_cgroups()


def test_killed_warden(box):
    """The outcome is unknown and said to be; nobody survives."""
    before = box_cgroups()
    process = started(box, DEAF)
    below = children(process.pid)
    wardens = []
    for pid in below:
        with open(f"/proc/{pid}/comm") as file:
            if file.read().strip() == "glovebox-warden" and os.stat(f"/proc/{pid}").st_uid in (0, box.uid):
                wardens.append(pid)
    assert len(wardens) == 1, wardens
    os.kill(wardens[0], signal.SIGKILL)
    result = box.finish(process, patience=10)
    assert result.returncode == 116 and b"lost" in result.err, result.explain()
    assert wait_until(lambda: not alive(below), 10), alive(below)
    assert box.run("print(1)").stdout == "1\n"
    assert wait_until(lambda: not box_cgroups() - before, 10), "the next start sweeps"


def test_stopped_front_does_not_stretch_the_time(box, no_leaks):
    process = started(box, DEAF, timeout="3s")
    below = children(process.pid)
    process.send_signal(signal.SIGSTOP)
    program_gone = wait_until(lambda: len(alive(below)) < len(below), 20)
    process.send_signal(signal.SIGCONT)
    assert box.finish(process).returncode == 124
    assert program_gone


def test_slow_reader_does_not_stretch_the_time(box):
    start = time.monotonic()
    process = box.start("yes", "sh", json=False, timeout="700ms", output_limit="1g")
    time.sleep(1.2)
    assert box.finish(process).returncode == 124
    assert time.monotonic() - start < 15


def test_descriptors_of_the_front(own_box):
    """What glovebox itself holds while it runs is a short list, however often it ran before."""
    process = started(own_box, DEAF)
    count = len(os.listdir(f"/proc/{process.pid}/fd"))
    process.terminate()
    own_box.finish(process)
    assert count < 32


def test_nothing_grows(own_box):
    before = box_processes()
    for _ in range(20):
        own_box.run("sleep 100 & sleep 100 &", "sh")
    new = box_processes() - before
    assert wait_until(lambda: not new & box_processes(), 10)


def test_warden_killed_at_any_moment(box):
    """With a workspace, which as root takes the warden a helper process: nothing outlives it, nobody hangs."""
    workspace = box.directory("workspace")
    before = box_processes()
    for i in range(40):
        process = box.start("import time; time.sleep(0.05)", workspace=workspace)
        time.sleep(0.0004 * i)
        for child in direct_children(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        box.finish(process, patience=10)
    assert wait_until(lambda: not box_processes() - before, 10), box_processes() - before


def direct_children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def test_caller_that_ignores_its_children(box):
    """An ignored SIGCHLD is inherited; the program's status must not get lost by it."""
    process = box.start("raise SystemExit(7)", popen={"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)})
    result = box.finish(process)
    assert (result.returncode, result.verdict, result.exit_code) == (7, "error", 7), result.explain()
