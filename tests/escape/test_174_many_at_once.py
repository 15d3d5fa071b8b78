# SPDX-License-Identifier: Apache-2.0
"""174. Two hundred sessions are asked for at once => all are served, or refused with a reason; what glovebox holds is bounded, who
asks for one among them is served, and afterwards nothing is left.
"""
import os
import threading
import time

from conftest import wait_until
from hostile_sessions import good, memory_of, own_warden_process
from session_fixtures import cold_sessions, own_warden, warm_sessions
from sessions import Refused

ASKERS = 4


def children_of(pid):
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.add(entry)
    return found


def count_at_rest(warden):
    """How many children the warden has when what is made ahead is made."""
    last = [None, 0]

    def still():
        now = len(children_of(warden))
        last[:] = [now, last[1] + 1 if now == last[0] else 0]
        return last[1] >= 5
    assert wait_until(still, 10, 0.03), "it does not come to rest"
    return last[0]


def ask_for(sessions, n, keep):
    """n sessions by four threads; with keep all of them are open at the same time."""
    answers, refusals, failures, opened = [], [], [], []

    def ask(first):
        for i in range(first, n, ASKERS):
            try:
                session = sessions()
                opened.append(session)
                result = session.context().run(f"{i}")
                assert (result.verdict, result.text) == ("ok", str(i)), result
                answers.append(i)
                if not keep:
                    session.close()
            except Refused as refused:
                refusals.append(refused)
            except Exception as failure:
                failures.append(failure)
    threads = [threading.Thread(target=ask, args=(k,)) for k in range(ASKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    assert all(r.code in ("limit", "unenforceable") and r.message for r in refusals), refusals
    assert len(set(answers)) == len(answers) and len(answers) + len(refusals) == n
    return answers, opened


def test_two_hundred_open(warm_sessions):
    with warm_sessions() as first:
        good(first.context(), "1")
    warden = own_warden_process()
    processes, memory = count_at_rest(warden), memory_of(warden)
    began = time.monotonic()
    answers, opened = ask_for(warm_sessions, 200, True)
    assert len(answers) > 100 and time.monotonic() - began < 90
    # One init and one interpreter for each, and those that are made ahead.
    assert len(children_of(warden)) <= processes + 2 * len(opened) + 8
    assert memory_of(warden) - memory < 16 << 20 and len(os.listdir("/proc/self/fd")) < 200 * 24
    began = time.monotonic()
    first = good(opened[0].contexts[0], "'first'").text
    assert first == "'first'" and time.monotonic() - began < 10, "the first is not forgotten"
    for session in opened:
        session.close()
    warm_sessions.opened.clear()
    assert wait_until(lambda: len(children_of(warden)) <= processes + 8, 10), (processes, len(children_of(warden)))
    assert good(warm_sessions.context(), "1").text == "1"


def test_two_hundred_in_turn(warm_sessions):
    """Opened and closed as fast as it goes: each has its own answer."""
    good(warm_sessions.context(), "1")
    answers, _ = ask_for(warm_sessions, 200, False)
    warm_sessions.opened.clear()
    assert len(answers) == 200


def test_one_among_many(warm_sessions):
    """While three threads ask without end, the fourth is served soon each time."""
    over, failures = threading.Event(), []

    def storm():
        while not over.is_set():
            try:
                with warm_sessions() as session:
                    session.context().run("1")
            except Exception as failure:
                failures.append(failure)
                return
    threads = [threading.Thread(target=storm) for _ in range(3)]
    for thread in threads:
        thread.start()
    slowest = 0
    for i in range(15):
        began = time.monotonic()
        with warm_sessions() as session:
            assert good(session.context(), f"{i}").text == str(i)
        slowest = max(slowest, time.monotonic() - began)
    over.set()
    for thread in threads:
        thread.join(30)
    warm_sessions.opened.clear()
    assert not failures and slowest < 2, (failures, slowest)


def test_many_fresh_ones(cold_sessions):
    with cold_sessions() as first:
        good(first.context(), "1")
    answers, opened = ask_for(cold_sessions, 24, True)
    assert len(answers) == 24
    for session in opened:
        session.close()
    cold_sessions.opened.clear()


def test_contexts_of_one_session(warm_sessions):
    """There is a largest number, and who asks for more is told so."""
    session = warm_sessions({"pids_limit": "256"})
    opened, refused = [], None
    for _ in range(40):
        try:
            opened.append(session.context())
        except Refused as reason:
            refused = reason
            break
    assert refused and refused.code == "limit" and len(opened) == 32, (refused, len(opened))
    assert [good(context, f"{i}").text for i, context in enumerate(opened)] == [str(i) for i in range(32)]
    opened[0].close()
    assert good(session.context(), "1").text == "1"
