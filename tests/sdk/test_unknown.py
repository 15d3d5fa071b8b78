# SPDX-License-Identifier: Apache-2.0
"""A value that is not known is None or an error: never 0, never empty, never "ok". None of this needs a box: a server
with made-up answers is enough."""
import json
import os
import shutil
import socket
import tempfile
import threading

import pytest

import glovebox
from glovebox.adapters._text import text_of
from glovebox.events import Collector
from glovebox.findings import Findings
from glovebox.network import NetworkInfo, NetworkUse
from glovebox.records import FileEntry, SessionInfo

#: As the journal writes it for a run that was in progress when the server died.
LOST = {"id": "0" * 32,
        "verdict": {"kind": "lost", "message": "The server died while this ran; its outcome is not known.",
                    "limit": None, "peak": None, "unit": None},
        "exit_code": None, "signal": None, "phase": None, "duration_ms": None, "cpu_ms": None, "setup_ms": None,
        "truncated": None, "peaks": None, "limits": None, "backend": None, "controls": None, "stdout": "a\n",
        "stderr": "", "notes": [], "context": "1", "state": {"kept": False, "restarted": None}}


class Server:
    """Answers each request with the next of these objects, and repeats the last one; "cut": closes the connection
    without an answer; (status, object): with that status."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        self.directory = tempfile.mkdtemp(prefix="gbtest-unknown-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(self.directory, "s"))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self):
        return f"unix:{self.directory}/s"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()
        shutil.rmtree(self.directory)

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65536)
                self.requests.append(data.partition(b"\r\n")[0].decode())
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer == "cut":
                    continue
                status, answer = answer if isinstance(answer, tuple) else (200, answer)
                body = json.dumps(answer).encode()
                connection.sendall(b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (status, len(body), body))


def test_a_lost_run_has_no_numbers():
    result = glovebox.Result(LOST)
    assert result.verdict == "lost" and result.stdout == "a\n"
    for name in ("exit_code", "signal", "duration", "cpu_time", "truncated", "state_restarted"):
        assert getattr(result, name) is None, name
    assert result.state_kept is False
    assert all(value is None for value in vars(result.peak).values())
    assert all(value is None for value in vars(result.limits).values())
    with pytest.raises(glovebox.LostVerdict):
        result.raise_for_verdict()


def test_a_measured_zero_stays_zero():
    result = glovebox.Result({"verdict": {"kind": "ok"}, "duration_ms": 0.0, "truncated": False,
                              "peaks": {"memory_bytes": 0}, "limits": {"cpu_time_usec": 0}})
    assert (result.duration, result.truncated) == (0.0, False)
    assert (result.peak.memory_bytes, result.limits.cpu_time_usec) == (0, 0)
    assert result.peak.pids is None


@pytest.mark.parametrize("verdict", [None, {}, {"kind": None}, {"kind": ""}])
def test_without_a_verdict_it_is_lost(verdict):
    assert glovebox.Result({"verdict": verdict, "exit_code": 0}).verdict == "lost"


def test_output_that_cannot_be_read_is_an_error():
    with pytest.raises(glovebox.ProtocolError):
        glovebox.Result({"stdout": "\ufffd", "stdout_base64": "!"}).stdout_bytes


@pytest.mark.parametrize("event", [
    {"offset": 0}, {"offset": 0, "data_base64": None}, {"offset": 0, "data_base64": "!"}, {"data": "a"},
])
def test_an_event_without_its_output_is_an_error(event):
    with pytest.raises(glovebox.ProtocolError):
        Collector().feed({"seq": 0, "event": "stdout", "t_usec": 0, **event})


def test_output_that_is_missing_between_two_events_is_told():
    collector = Collector()
    collector.feed({"seq": 0, "event": "stdout", "t_usec": 0, "offset": 0, "data": "ab"})
    with pytest.raises(glovebox.LostError, match="3 bytes of stdout"):
        collector.feed({"seq": 1, "event": "stdout", "t_usec": 0, "offset": 5, "data": "f"})
    later = Collector(from_seq=7)  # one that begins later does not know the earlier output
    later.feed({"seq": 7, "event": "stdout", "t_usec": 0, "offset": 5, "data": "f"})
    with pytest.raises(glovebox.LostError):
        later.feed({"seq": 8, "event": "stdout", "t_usec": 0, "offset": 5, "data": "f"})


def test_counts_that_are_not_told_are_none():
    use = NetworkUse.from_object({"requests": 0})
    assert use.requests == 0 and use.denied is None and use.bytes_up is None
    info = NetworkInfo.from_object({"mode": "allowlist"})
    assert info.limits.bytes is None and info.open is None  # 0 would be "no limit"
    assert FileEntry.from_object({"name": "a", "type": "file"}).size is None
    assert SessionInfo.from_object({"id": "a"}).idle_timeout is None


@pytest.mark.parametrize("ask", [
    lambda client: client.check("import os"), lambda client: client.sessions(), lambda client: client.runs(),
    lambda client: client.audit(), lambda client: client.templates(), lambda client: client.languages(),
    lambda client: client.doctor(), lambda client: client.stats(),
    lambda client: client.attach("0" * 32).files.list(), lambda client: client.attach("0" * 32).contexts(),
    lambda client: client.attach("0" * 32).files.exists("a"),
], ids=["check", "sessions", "runs", "audit", "templates", "languages", "doctor", "stats", "files", "contexts",
        "exists"])
def test_an_answer_without_its_list_is_not_an_empty_one(ask):
    with Server({"blocked": False, "id": "0" * 32}) as server, glovebox.Client(server.address) as client:
        with pytest.raises(glovebox.ProtocolError):
            ask(client)


def test_the_answer_to_a_check_is_what_was_found():
    with Server({"blocked": False, "findings": [], "more": 0}) as server, glovebox.Client(server.address) as client:
        assert client.check("1") == Findings()


def test_standard_input_of_which_nothing_is_told():
    with Server({"id": "0" * 32, "state": "running"}) as server, glovebox.Client(server.address) as client:
        with pytest.raises(glovebox.ProtocolError):
            client.get_run("0" * 32).write_stdin("a")


def test_a_result_that_is_not_there_is_lost():
    ended = {"id": "0" * 32, "state": "ended", "result": None}
    with Server(ended) as server, glovebox.Client(server.address) as client:
        with pytest.raises(glovebox.LostError):
            client.run("1")


def test_a_session_that_may_still_live_is_not_deleted():
    ready = {"id": "0" * 32, "state": "ready"}
    with Server(ready, "cut") as server, glovebox.Client(server.address, retry_for=0) as client:
        box = client.attach("0" * 32)
        box.info()
        with pytest.raises(glovebox.ConnectionFailed):
            box.delete()


def failure(status, code):
    return status, {"error": {"code": code, "message": f"made up: {code}", "hint": "", "details": {}}}


BUSY = failure(409, "conflict")  # as for EAGAIN: somebody else is at it
EMPTY = {"entries": [], "next": None}


def entries(**types):
    return {"entries": [{"name": name, "type": type} for name, type in types.items()], "next": None}


def attached(server):
    return glovebox.Client(server.address, retry_for=0).attach("0" * 32)


def test_what_is_busy_may_exist():
    with Server(BUSY) as server, pytest.raises(glovebox.ConflictError):
        attached(server).files.exists("a/b")
    with Server(BUSY, EMPTY) as server, pytest.raises(glovebox.ConflictError):
        attached(server).files.exists("a/b")


@pytest.mark.parametrize("there", [EMPTY, entries(a="file"), entries(a="link"), entries(b="directory")])
@pytest.mark.parametrize("parents", [False, True])
def test_a_directory_that_was_not_made(there, parents):
    with Server(BUSY, there) as server, pytest.raises(glovebox.ConflictError):
        attached(server).files.mkdir("a", parents=parents)


def test_a_directory_that_is_there():
    with Server(BUSY, entries(a="directory")) as server:
        attached(server).files.mkdir("a", parents=False)
    with Server(BUSY, entries(a="directory")) as server, pytest.raises(glovebox.ConflictError):
        attached(server).files.mkdir("a", parents=False, exist_ok=False)


@pytest.mark.parametrize("answer, error", [
    (failure(401, "unauthorized"), glovebox.UnauthorizedError), (failure(404, "not_found"), glovebox.NotFoundError),
    ((401, {}), glovebox.UnauthorizedError), ((404, {"status": "ready"}), glovebox.NotFoundError),
    ((200, {}), glovebox.ProtocolError), ((200, {"status": None}), glovebox.ProtocolError),
    ((200, ["ready"]), glovebox.ProtocolError), (failure(503, "unavailable"), glovebox.UnavailableError),
    ((502, "a proxy"), glovebox.ConnectionFailed), ("cut", glovebox.ConnectionFailed),
])
def test_a_server_that_does_not_say_whether_it_is_ready(answer, error):
    with Server(answer) as server, glovebox.Client(server.address, retry_for=0) as client, pytest.raises(error):
        client.ready()


def test_a_server_that_says_whether_it_is_ready():
    for status, said in ((200, "ready"), (503, "starting"), (503, "draining"), (503, "degraded")):
        with Server((status, {"status": said})) as server, glovebox.Client(server.address) as client:
            assert client.ready() == said


def test_a_model_is_told_how_a_run_without_an_exception_ended():
    killed = glovebox.Result({"verdict": {"kind": "error", "message": "The program was ended by SIGSEGV."},
                              "stdout": "", "stderr": "", "error": None, "state": {"kept": False}})
    assert "SIGSEGV" in text_of(killed) and "variables of earlier calls are gone" in text_of(killed)
    assert "variables" not in text_of(glovebox.Result({"verdict": {"kind": "ok"}, "stdout": "a", "state": {}}))
