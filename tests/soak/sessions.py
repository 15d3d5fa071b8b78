#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sessions: opened and closed one after the other, then alive at the same time.

    tests/soak/sessions.py [--sessions 10000] [--alive 1000]

Between a first reading, taken when everything is warm, and a last one nothing may have grown: descriptors, memory,
processes, cgroups, mounts. Prints a table; the exit status is 1 when a row is bad. $GLOVEBOX is the program whose
library is used.
"""
import argparse
import ctypes
import os
import pathlib
import re
import resource
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import isolation  # noqa: E402
from sessions import Refused, Session, template_processes, wardens  # noqa: E402

WORKERS = 2
WARM_UP = 300  # sessions before the first reading: pools fill, heaps and tables get their size
REST = 10.0  # seconds that taking down the last session may last
DESCRIPTORS_EACH = 16  # of the front, for a session with a context

# What may grow, and by how much; all else by nothing.
SLACK = {"front: memory, KB": 4096, "warden: memory, KB": 2048, "template: memory, KB": 4096}

LIBC = ctypes.CDLL(None)
M_ARENA_MAX = -8  # of malloc.h


def read(path):
    with open(path) as file:
        return file.read()


def memory_of(pid):
    """What it has for itself, in KB: pages it shares with others are no leak of its own."""
    rollup = read(f"/proc/{pid}/smaps_rollup")
    return sum(int(n) for n in re.findall(r"^Private_(?:Clean|Dirty): *(\d+)", rollup, re.M))


def children_of(pid):
    found = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += int(read(f"/proc/{entry}/stat").rpartition(")")[2].split()[1]) == pid
        except OSError:
            continue
    return found


def cgroups_of(pid):
    """Groups that a process holds open."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        match = re.match("/sys/fs/cgroup/.*/glovebox-[0-9a-f]{16}", link)
        if match:
            found.add(match.group())
    return found


def take_reading():
    [warden] = wardens()
    LIBC.malloc_trim(0)  # what is free is no leak
    reading = {
        "front: descriptors": len(os.listdir("/proc/self/fd")), "front: memory, KB": memory_of("self"), "front: threads": len(os.listdir("/proc/self/task")),
        "warden: descriptors": len(os.listdir(f"/proc/{warden}/fd")), "warden: memory, KB": memory_of(warden), "warden: children": children_of(warden),
        "warden: cgroups": len(cgroups_of(warden)), "mounts": len(isolation.current.mounts()),
    }
    for process in template_processes():
        reading["template: memory, KB"] = memory_of(process)
        reading["template: descriptors"] = len(os.listdir(f"/proc/{process}/fd"))
    return reading


def rest():
    """The reading when it has come to rest."""
    last, same, end = None, 0, time.monotonic() + REST
    while same < 5 and time.monotonic() < end:
        time.sleep(0.1)
        now = {k: v for k, v in take_reading().items() if "memory" not in k}
        same, last = (same + 1 if now == last else 0), now
    return take_reading()


class Failed(Exception):
    pass


def expect(what, wanted, got):
    if got != wanted:
        raise Failed(f"{what}: expected {wanted!r}, got {got!r}")


def one_session(i, template, weaker):
    """Mostly what is usual, and now and then what is not."""
    policy = {"allow_weaker": weaker} if weaker else None
    with Session(policy, "" if i % 25 == 7 else template) as session:
        if i % 10 == 3:
            expect("bash", f"{i}\n", session.context("bash").run(f"sleep 99 & echo {i}").out)
            return
        context = session.context()
        expect("python", str(i), context.run(f"{i}").text)
        if i % 50 == 11:
            expect("the end of an interpreter", 3, context.run("import os\nos._exit(3)").exit_code)
            expect("a fresh one", "True", context.run("True").text)
        if i % 50 == 23:
            session.write("f", b"x" * 1000)
            expect("a program", "1000\n", session.run("sh", "wc -c < f").out)


def work_off(n, function):
    """Calls the function with 0..n-1 from some threads; the first failure is raised."""
    numbers, lock, failures = iter(range(n)), threading.Lock(), []

    def work():
        while not failures:
            with lock:
                i = next(numbers, None)
            if i is None:
                return
            try:
                function(i)
            except (Refused, Failed, AssertionError, OSError) as failure:
                failures.append(failure)
    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def one_after_the_other(n, template, weaker):
    work_off(min(WARM_UP, max(n // 3, 20)), lambda i: one_session(i, template, weaker))
    before = rest()
    began = time.monotonic()
    seen = set()

    def step(i):
        one_session(i, template, weaker)
        if i % 97 == 0:
            seen.update(cgroups_of(wardens()[0]))
    work_off(n, step)
    took = time.monotonic() - began
    after = rest()
    after["cgroups left"] = sum(map(os.path.exists, seen - cgroups_of(wardens()[0])))
    before["cgroups left"] = 0
    print(f"\n{n} sessions one after the other, {WORKERS} at a time: {took:.1f} s, {n / took:.0f} in a second")
    return before, after


def open_all(n, policy, template):
    """Opens them, asks each twice, closes them: how long each of these took, and what one costs."""
    available, times, sessions = memory_available(), [time.monotonic()], [None] * n

    def open_one(i):
        session = Session(policy, template)
        sessions[i] = (session, session.context())
    steps = (open_one, lambda i: expect(f"session {i}", str(i), sessions[i][1].run(f"x = {i}\nx").text),
             lambda i: expect(f"session {i} again", str(i * 2), sessions[i][1].run("x * 2").text))
    try:
        for step in steps:
            work_off(n, step)
            times.append(time.monotonic())
        each = (available - memory_available()) // n
        [warden] = wardens()
        held = f"{len(os.listdir('/proc/self/fd'))} descriptors here, {len(os.listdir(f'/proc/{warden}/fd'))} in the warden"
    finally:
        for pair in filter(None, sessions):
            pair[0].close()
    times.append(time.monotonic())
    took = [f"{b - a:.1f} s" for a, b in zip(times, times[1:])]
    return f"opened in {took[0]}, answered in {took[1]}, again in {took[2]}, closed in {took[3]}; {each} KB of the host each; {held}"


def all_at_once(n, template, weaker):
    """Twice: the first time heaps and tables grow to what this many need, and keep it."""
    policy = {"allow_weaker": weaker, "mem_limit": "64m"} if weaker else {"mem_limit": "64m"}
    open_all(n, policy, template)
    before = rest()
    text = open_all(n, policy, template)
    print(f"\n{n} sessions alive, for the second time: {text}")
    return before, rest()


def memory_available():
    return int(re.search(r"MemAvailable: *(\d+)", read("/proc/meminfo")).group(1))


def show(before, after):
    """The table; whether all is well."""
    good = True
    print(f"{'':28}{'before':>10}{'after':>10}{'may grow':>10}")
    for name in before:
        grown = after.get(name, 0) - before[name]
        bad = grown > SLACK.get(name, 0)
        good = good and not bad
        print(f"{name:28}{before[name]:>10}{after.get(name, 0):>10}{SLACK.get(name, 0):>10}{'   BAD' if bad else ''}")
    return good


def choose_template():
    """What this host can give: a template needs cgroups."""
    for weaker, template in ((None, "python"), ("cgroup", "")):
        try:
            with Session({"allow_weaker": weaker} if weaker else None, template) as session:
                return weaker, template if session.context().run("1").is_warm else ""
        except Refused as refused:
            if refused.code != "unenforceable" or weaker:
                raise
    return None, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=10000, help="how many are opened and closed (default 10000)")
    parser.add_argument("--alive", type=int, default=1000, help="how many live at the same time (default 1000)")
    options = parser.parse_args()

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.alive * DESCRIPTORS_EACH > hard:
        sys.exit(f"soak: {options.alive} sessions alive need {options.alive * DESCRIPTORS_EACH} descriptors and the limit is {hard}: "
                 "raise it (ulimit -Hn), or ask for fewer with --alive")
    LIBC.mallopt(M_ARENA_MAX, 1)  # with more of them much stays in pieces
    weaker, template = choose_template()
    print(f"template: {template or 'none: this host gives no cgroup to this user'}")
    good = True
    try:
        if options.sessions:
            good = show(*one_after_the_other(options.sessions, template, weaker)) and good
        if options.alive:
            good = show(*all_at_once(options.alive, template, weaker)) and good
    except (Failed, Refused) as failure:
        sys.exit(f"soak: {failure}")
    print("\nwell" if good else "\nBAD: something grew")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
