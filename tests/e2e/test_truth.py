# SPDX-License-Identifier: Apache-2.0
"""Results are true although the warden is late.

The warden learns of a program from a message and of its end from the kernel, and both may have come when it looks. On
an idle machine it is never late. Here it is stopped for moments, or each of its system calls of one kind is delayed, so
that programs begin and end behind its back; every status must still be the one of the program. The expected
results are in tests/endings.py, and `./dev soak truth` is the long version."""

import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import endings  # noqa: E402
from cgroups import OwnGroups  # noqa: E402
from conftest import needs_root, wait_until  # noqa: E402
from ending import Ending, exited, gone, killed  # noqa: E402
from server import PATIENCE, Server, in_threads, wait_for  # noqa: E402
from serving import who  # noqa: E402
from session_fixtures import cold_sessions, own_warden  # noqa: E402
from sessions import wardens  # noqa: E402

pytestmark = pytest.mark.waits

LANGUAGES = ("bash", "sh", "perl", "python")
STOPPED, GOING = (0.005, 0.06), (0.001, 0.01)  # seconds, from and to
DELAY_USEC = 5000


def stat(pid):
    """State and parent of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], int(fields[1])


def name_of(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


def warden_below(pid):
    """The first warden among a process and its descendants; its own children may have its name. None: there is none."""
    try:
        if name_of(pid) == "glovebox-warden":
            return pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return next(filter(None, (warden_below(int(child)) for child in children)), None)


class Stopper(threading.Thread):
    """Stops a process again and again. `stops` counts how often it stood still."""

    def __init__(self, find, seed):
        super().__init__(daemon=True)
        self.find, self.chance, self.over, self.stops = find, random.Random(seed), threading.Event(), 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        pid = None
        while not self.over.is_set():
            pid = pid or self.find()
            try:
                if pid:
                    self.stop(pid)
            except (
                ProcessLookupError,
                FileNotFoundError,
            ):  # the command of the warden is over, and the warden with it
                pid = None
            self.over.wait(self.chance.uniform(*GOING))

    def stop(self, pid):
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self.chance.uniform(*STOPPED))
            self.stops += stat(pid)[0] == "T"
        finally:
            os.kill(pid, signal.SIGCONT)


class Late:
    """Each call of this name that a process makes begins late. strace does it, and writes down that it did."""

    def __init__(self, pid, call, scratch):
        self.pid, self.log = pid, scratch / "strace"
        self.command = [
            "strace",
            "-q",
            "-o",
            str(self.log),
            "-p",
            str(pid),
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:delay_enter={DELAY_USEC}",
        ]

    def is_attached(self):
        return (
            int(pathlib.Path(f"/proc/{self.pid}/status").read_text().partition("TracerPid:")[2].split()[0])
            == self.process.pid
        )

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if (
            not wait_until(lambda: self.is_attached() or self.process.poll() is not None, PATIENCE)
            or self.process.poll() is not None
        ):
            self.process.kill()
            pytest.fail(f"strace: {self.process.communicate()[1].decode()}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    @property
    def delays(self):
        return self.log.read_text().count("DELAYED")


# ---- clients: each returns the wrong results ----


def run_once(server, seed, n):
    """Runs in boxes of their own: a box that goes is a moment in which ends are looked for."""
    chance, wrong, connection = random.Random(seed), [], server.connection()
    for _ in range(n):
        ending = endings.draw_short(chance, LANGUAGES)
        fresh = {"template": None} if chance.random() < 0.5 else {}
        answer = server.post("/v1/runs", {**ending.request(), **fresh}, connection=connection).expect(200)
        wrong.append(ending.problem(answer.json["result"]))
    connection.close()
    return wrong


def run_in_sessions(server, seed, n):
    """Programs and contexts in sessions that are short themselves."""
    chance, wrong = random.Random(seed), []
    for _ in range(n // 4):
        path = "/v1/sessions/" + server.session(template=None)
        for _ in range(2):
            ending = endings.draw_short(chance, LANGUAGES)
            wrong.append(
                ending.problem(
                    server.post(f"{path}/runs", {**ending.request(), "context": None}).expect(200).json["result"]
                )
            )
            ending = chance.choice((endings.context_exit, endings.context_signal))(
                chance, chance.choice(("bash", "python")), ""
            )
            wrong.append(ending.problem(server.post(f"{path}/runs", ending.request()).expect(200).json["result"]))
        server.delete(path).expect(204)
    return wrong


def all_true(results, n):
    """Asserts that so many were compared, and that none was wrong."""
    problems = [problem for some in results for problem in some]
    wrong = [problem for problem in problems if problem]
    assert (
        len(problems) == n and not wrong
    ), f"{len(wrong)} of {len(problems)} wrong: {collections.Counter(wrong).most_common(5)}"


# ---- a server ----


def test_a_server_whose_warden_stands_still(who):
    with Server(**who) as server:
        with Stopper(lambda: warden_below(server.pid), 1) as stopper:
            results = in_threads(
                [lambda i=i: run_once(server, i, 25) for i in range(8)]
                + [lambda i=i: run_in_sessions(server, i, 24) for i in range(8, 14)]
            )
        all_true(results, 8 * 25 + 6 * 24)
        assert stopper.stops > 20


@needs_root
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("call", ["recvmsg", "waitid"])
def test_a_server_whose_warden_is_slow(call, scratch):
    """recvmsg: it reads late which program was started. waitid: it looks late for ended processes."""
    with Server() as server:
        with Late(warden_below(server.pid), call, scratch) as late:
            results = in_threads([lambda i=i: run_once(server, i, 5) for i in range(12)])
        all_true(results, 12 * 5)
        assert late.delays > 60


@pytest.fixture(scope="module")
def held():
    """Runs an ending that the warden reports late: it is stopped from the first output on, for a second."""
    with Server() as server:
        warden = warden_below(server.pid)

        def run(path, ending):
            answer = server.post(path, {**ending.request(), "detach": True}).expect(202)
            number = answer.json["id"]
            wait_for(lambda: server.get(f"/v1/runs/{number}/events").json["next"] >= 2)
            os.kill(warden, signal.SIGSTOP)
            try:
                time.sleep(1)
            finally:
                os.kill(warden, signal.SIGCONT)
            problem = ending.problem(server.wait_run(number)["result"])
            assert not problem, problem

        run.session = f"/v1/sessions/{server.session()}/runs"
        yield run


ENDS = pytest.mark.parametrize(
    "end, outcome",
    [
        ("exit 0", exited(0)),
        ("exit 7", exited(7)),
        ("kill -TERM $$", killed("SIGTERM")),
        ("kill -SYS $$", killed("SIGSYS")),
    ],
)


@ENDS
def test_a_context_whose_end_is_told_late(held, end, outcome):
    """The front sees the control channel close long before the warden tells how the interpreter has ended."""
    code = f"echo on; sleep 0.1; {end}"
    held(held.session, Ending("a context ends", "bash", code, gone(outcome), stdout="on\n"))


@ENDS
@pytest.mark.parametrize("in_session", [False, True], ids=["once", "session"])
def test_an_end_within_the_time_limit_that_is_told_late(held, in_session, end, outcome):
    """The front's clock reaches the limit after the program has ended by itself, and before the warden tells so."""
    code = f"echo on; sleep 0.1; {end}"
    held(
        held.session if in_session else "/v1/runs",
        Ending("ends", "sh", code, outcome, stdout="on\n", timeout=2),
    )


@needs_root
@pytest.mark.parametrize("fields", [{"context": None}, {}], ids=["program", "context"])
def test_a_run_after_one_that_was_ended_for_memory(fields):
    """An interpreter that was made ahead for the session is not taken for a run that met the limit."""
    with OwnGroups() as groups, Server(environ=groups.environ, warm=["python"]) as server:
        for _ in range(3):
            session = server.session(policy={"mem_limit": "64m"})
            hog = "my $x = 'x' x 300_000_000;"
            first = server.run(hog, session, language="perl", context=None)["result"]
            assert first["verdict"]["kind"] == "memory", first
            second = server.run("print('on')", session, **fields)["result"]
            assert (second["verdict"]["kind"], second["stdout"]) == ("ok", "on\n"), second["verdict"]
            server.delete(f"/v1/sessions/{session}").expect(204)


# ---- the library and the command, each with a warden of its own ----


def test_a_library_whose_warden_stands_still(cold_sessions):
    with cold_sessions() as first:
        first.run("sh", "exit 0")  # then it has a warden

    def work(seed):
        chance, wrong = random.Random(seed), []
        for _ in range(8):
            with cold_sessions() as session:
                for _ in range(3):
                    ending = endings.draw_short(chance, LANGUAGES)
                    wrong.append(ending.problem(session.run(ending.language, ending.code).json))
                ending = endings.context_exit(chance, "bash", "")
                wrong.append(ending.problem(session.context("bash").run(ending.code).json))
        return wrong

    with Stopper(lambda: wardens()[0], 2) as stopper:
        results = in_threads([lambda i=i: work(i) for i in range(8)])
    all_true(results, 8 * 8 * 4)
    assert stopper.stops > 20


def test_commands_whose_wardens_stand_still(own_box):
    stops = []

    def work(seed):
        chance, wrong = random.Random(seed), []
        for i in range(15):
            ending = endings.draw_short(chance, LANGUAGES)
            process = own_box.start(ending.code, ending.language)
            with Stopper(lambda: warden_below(process.pid), f"{seed} {i}") as stopper:
                result = own_box.finish(process)
            wrong.append(ending.problem(result.json))
            stops.append(stopper.stops)
        return wrong

    results = in_threads([lambda i=i: work(i) for i in range(6)])
    all_true(results, 6 * 15)
    assert sum(map(bool, stops)) > 45, stops


def test_the_end_of_a_session_that_is_not_seen():
    """The session is told to end, and nobody hears that it has: that is not "gone"."""
    with Server() as server:
        session, warden = server.session(), warden_below(server.pid)
        os.kill(warden, signal.SIGSTOP)
        try:
            answer = server.delete(f"/v1/sessions/{session}").expect(500)
        finally:
            os.kill(warden, signal.SIGCONT)
        assert answer.code == "lost" and "was not seen" in answer.json["error"]["message"], answer.explain()
        assert server.get(f"/v1/sessions/{session}").status == 404
        records = server.get(f"/v1/audit?session={session}").expect(200).json["records"]
        assert [record["end"] for record in records if record["action"] == "session.end"] == ["lost"], records
        server.delete(f"/v1/sessions/{server.session()}").expect(204)
