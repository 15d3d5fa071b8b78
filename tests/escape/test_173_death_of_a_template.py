# SPDX-License-Identifier: Apache-2.0
"""173. A template is killed, stopped, or ends, while sessions are open and others are asked for => the next session is there within
two seconds, each request is answered by its own session, and open sessions go on.
"""
import os
import signal
import threading
import time

import pytest
from conftest import needs_root, wait_until
from hostile_sessions import good
from session_fixtures import own_warden, warm_sessions
from sessions import Refused, serving_template, template_processes

pytestmark = needs_root


@pytest.fixture
def sessions(warm_sessions):
    warm_sessions.may_be_cold = True
    return warm_sessions


def assert_served(sessions, mark, seconds=10.0):
    began = time.monotonic()
    with sessions() as session:
        result = good(session.context(), f"{mark!r}")
        assert result.text == repr(mark), "somebody else's answer"
    sessions.opened.remove(session)
    assert time.monotonic() - began < seconds, f"it took {time.monotonic() - began:.1f} s"
    return result


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_killed(sessions, number):
    open_one = sessions().context()
    good(open_one, "x = 1")
    [template] = template_processes()
    for i in range(1 + (number == signal.SIGKILL)):
        os.kill(template, number)
        for k in range(4):
            assert_served(sessions, f"{i}-{k}")
        assert good(open_one, "x").text == "1"
        template = serving_template(lambda: assert_served(sessions, "warm"), dead=[template])
    # An open session that outlived its template can still start an interpreter.
    assert good(open_one.session.context(), "'new'").text == "'new'"
    assert good(open_one, "x").restarted is False


def test_stopped(sessions):
    """It is there and does nothing: nobody waits for it longer than for one that is gone."""
    open_one = sessions().context()
    good(open_one, "x = 1")
    [template] = template_processes()
    os.kill(template, signal.SIGSTOP)
    try:
        for k in range(6):
            assert_served(sessions, f"stopped-{k}")
    finally:
        if template in template_processes():
            os.kill(template, signal.SIGCONT)
    assert good(open_one, "x").text == "1"
    assert wait_until(lambda: assert_served(sessions, "warm").is_warm, 20)


def test_killed_while_many_ask(sessions):
    """Four threads ask, and the template is killed again and again: each answer is the asker's own."""
    answers, failures, over = [], [], threading.Event()

    def ask(thread):
        try:
            for i in range(12):
                assert_served(sessions, f"{thread}/{i}", 10)
                answers.append((thread, i))
        except Refused as refused:
            failures.append(refused)
        except Exception as failure:
            failures.append(failure)

    def kill():
        while not over.wait(0.08):
            for template in template_processes():
                try:
                    os.kill(template, signal.SIGKILL)
                except ProcessLookupError:
                    continue
    good(sessions.context(), "1")
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    killer = threading.Thread(target=kill)
    for thread in [killer, *threads]:
        thread.start()
    for thread in threads:
        thread.join(60)
    over.set()
    killer.join()
    assert not failures, failures
    assert len(set(answers)) == 48


def test_killed_under_a_run(sessions):
    """A run that goes on in a session does not need the template."""
    context = sessions.context()
    running = context.start("import time\nprint('on', flush=True)\ntime.sleep(0.4)\n'done'")
    running.wait_for("stdout")
    killed = template_processes()
    for template in killed:
        os.kill(template, signal.SIGKILL)
    result = running.join(10)
    assert (result.verdict, result.text, result.kept) == ("ok", "'done'", True), result
    assert wait_until(lambda: not set(killed) & set(template_processes())), "it is still there"


def test_out_of_memory(sessions):
    """A child that takes all memory of its session does not take the template with it."""
    if sessions.weaker:
        pytest.skip("this host gives no cgroup to this user")
    before = serving_template(lambda: good(sessions.context(), "1"))  # the test before has killed one
    for _ in range(3):
        result = sessions.context({"mem_limit": "48m"}).run("hog = []\nwhile True: hog.append(bytearray(b'x' * (4 << 20)))")
        assert result.verdict == "memory", result
    assert template_processes() == [before]
    assert assert_served(sessions, "after").is_warm
