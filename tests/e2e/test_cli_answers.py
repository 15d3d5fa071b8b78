# SPDX-License-Identifier: Apache-2.0
"""The command at a server that answers wrongly, or in part: a missing answer is an error, and never "ok", "empty" or
"not found"."""
import base64
import json
import os
import socket
import subprocess
import threading

import pytest
from conftest import BINARY

RUN, SESSION = "1" * 32, "2" * 32
LOST = 116
VERDICT = {"event": "verdict", "id": RUN, "verdict": {"kind": "ok", "message": "The program ended well."},
           "exit_code": 0, "signal": None, "controls": [], "notes": []}


class Server:
    """answers: by method and path (without the query). An object; (status, object); a list: a stream of these events,
    which goes on unless the last one is a verdict, and breaks there with {"event": "cut"}; None: the connection is
    closed without an answer. A function is called with the request's body first."""

    def __init__(self, directory, answers):
        self.path, self.answers, self.requests = str(directory / "s"), answers, []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.unlink(self.path)

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            file = connection.makefile("rb")
            line = file.readline().decode()
            if not line:
                return
            size = 0
            for header in iter(file.readline, b"\r\n"):
                name, _, value = header.decode().partition(":")
                size = int(value) if name.lower() == "content-length" else size
            method, target, _ = line.split()
            body = file.read(size)
            self.requests.append((method, target, body))
            answer = self.answers[method, target.partition("?")[0]]
            answer = answer(body) if callable(answer) else answer
            if answer is None:
                return
            try:
                cut = isinstance(answer, list) and answer[-1]["event"] == "cut"
                connection.sendall(self._bytes(answer[:-1] if cut else answer))
                if isinstance(answer, list) and answer[-1]["event"] not in ("verdict", "error", "cut"):
                    file.read(1)  # it goes on
            except OSError:
                pass

    @staticmethod
    def _bytes(answer):
        if isinstance(answer, list):
            body = b"".join(json.dumps(each).encode() + b"\n" for each in answer)
            last = b"0\r\n\r\n" if answer[-1]["event"] in ("verdict", "error") else b""
            head = (f"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nGlovebox-Run: {RUN}\r\n"
                    f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n")
            return head.encode() + body + b"\r\n" + last
        status, o = answer if isinstance(answer, tuple) else (200, answer)
        body = json.dumps(o).encode()
        head = (f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n")
        return head.encode() + body


def events(*rows):
    return [{"seq": number, **row} for number, row in enumerate(rows)]


def text(data, offset=0, stream="stdout"):
    return {"event": stream, "t_usec": 1, "offset": offset, "data": data}


STARTED = {"event": "started", "t_usec": 0}


@pytest.fixture
def ask(tmp_path):
    def call(answers, *argv, stdin=subprocess.DEVNULL):
        with Server(tmp_path, answers) as server:
            done = subprocess.run([str(BINARY), *argv], stdin=stdin, capture_output=True, timeout=30,
                                  env={**os.environ, "GLOVEBOX_SERVER": f"unix:{server.path}"})
            done.requests = server.requests
        return done
    return call


def stream_of(*rows):
    return {("POST", "/v1/runs"): events(*rows), ("GET", f"/v1/runs/{RUN}/events"): events(*rows)}


def test_a_whole_stream(ask):
    done = ask(stream_of(STARTED, text("a\n"), VERDICT), "run", "-c", "print('a')")
    assert (done.returncode, done.stdout) == (0, b"a\n"), done.stderr


def test_events_that_are_missing(ask):
    rows = events(STARTED, text("a\n"), text("b\n", 2), VERDICT)
    done = ask({("POST", "/v1/runs"): rows[:2] + rows[3:]}, "run", "-c", "")
    assert done.returncode == LOST and b"events 2 to 2 of the run are missing" in done.stderr, done


@pytest.mark.parametrize("row", [
    {"event": "stdout", "t_usec": 1, "offset": 0},
    {"event": "stdout", "t_usec": 1, "offset": 0, "data_base64": "!"},
])
def test_output_that_cannot_be_read(ask, row):
    done = ask(stream_of(STARTED, row, VERDICT), "run", "-c", "")
    assert done.returncode == LOST and b"cannot be read" in done.stderr, done
    page = {"events": events(STARTED, row, VERDICT), "next": 3, "ended": True}
    done = ask({("GET", f"/v1/runs/{RUN}/events"): page}, "logs", RUN)
    assert done.returncode == LOST and b"cannot be read" in done.stderr, done


def test_bytes_are_output_as_well(ask):
    row = {"event": "stdout", "t_usec": 1, "offset": 0, "data_base64": base64.b64encode(b"\xff\n").decode()}
    done = ask(stream_of(STARTED, row, VERDICT), "run", "-c", "")
    assert (done.returncode, done.stdout) == (0, b"\xff\n")


@pytest.mark.parametrize("result", [None, "text", []])
def test_a_result_that_is_not_there(ask, result):
    answers = {**stream_of(STARTED, VERDICT),
               ("GET", f"/v1/runs/{RUN}"): {"id": RUN, "state": "ended", "result": result}}
    done = ask(answers, "run", "--json", "-c", "")
    assert done.returncode == LOST and json.loads(done.stdout)["error"]["code"] == "lost", done
    answers["POST", f"/v1/sessions/{SESSION}/runs"] = answers["POST", "/v1/runs"]
    done = ask(answers, "session", "exec", SESSION, "--json", "-c", "1")
    assert done.returncode == LOST and json.loads(done.stdout)["error"]["code"] == "lost", done


@pytest.mark.parametrize("answer", [
    None, (500, {"error": {"code": "internal", "message": "m"}}), {}, {"accepted": "1"},
])
def test_standard_input_that_did_not_arrive(ask, answer):
    """The program would go on with a part of it."""
    read, write = os.pipe()
    os.write(write, b"part")
    answers = {("POST", "/v1/runs"): events(STARTED), ("POST", f"/v1/runs/{RUN}/stdin"): answer,
               ("POST", f"/v1/runs/{RUN}/cancel"): (202, {})}
    try:
        done = ask(answers, "run", "-c", "input()", stdin=read)
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == LOST and b"standard input did not reach the run whole" in done.stderr, done


def test_standard_input_that_nobody_reads_is_no_error(ask):
    read, write = os.pipe()
    os.write(write, b"part")
    refused = threading.Event()

    def stdin(body):
        refused.set()
        return 409, {"error": {"code": "conflict", "message": "the standard input of this run is closed"}}

    def rest(body):
        assert refused.wait(20)
        return events(STARTED, VERDICT)
    # The stream breaks after its first event, and the rest comes when the input was refused.
    answers = {("POST", "/v1/runs"): [*events(STARTED), {"event": "cut"}],
               ("POST", f"/v1/runs/{RUN}/stdin"): stdin, ("GET", f"/v1/runs/{RUN}/events"): rest}
    try:
        done = ask(answers, "run", "-c", "", stdin=read)
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == 0, done


@pytest.mark.parametrize("page", [
    {}, {"events": [], "ended": False}, {"next": 0, "ended": True}, {"events": [], "next": 1},
])
def test_logs_of_which_a_part_is_missing(ask, page):
    done = ask({("GET", f"/v1/runs/{RUN}/events"): page}, "logs", RUN)
    assert done.returncode == LOST and b"no page of events" in done.stderr, done


@pytest.mark.parametrize("answer", [
    {}, {"blocked": False}, {"blocked": False, "findings": None, "more": 0}, {"blocked": False, "findings": []},
])
def test_a_check_that_says_nothing_found_nothing_out(ask, answer):
    done = ask({("POST", "/v1/guard/check"): answer}, "guard", "check", "-c", "import os")
    assert done.returncode == LOST and b"does not say what was found" in done.stderr, done


def test_a_check_that_found_nothing(ask):
    answers = {("POST", "/v1/guard/check"): {"blocked": False, "findings": [], "more": 0}}
    assert ask(answers, "guard", "check", "-c", "import os").returncode == 0


def test_the_network_of_a_session_is_told_or_it_is_not_known(ask):
    done = ask({("GET", f"/v1/sessions/{SESSION}/network"): {}}, "net", SESSION)
    assert done.returncode == LOST and b"none" not in done.stdout, done


@pytest.mark.parametrize("answer", [{"sessions": []}, {"sessions": [], "next": 3}, {"next": None}])
def test_a_list_without_its_end(ask, answer):
    done = ask({("GET", "/v1/sessions"): answer}, "session", "ls")
    assert done.returncode == LOST, done


def test_a_list_that_does_not_end(ask):
    done = ask({("GET", "/v1/sessions"): {"sessions": [], "next": "1"}}, "session", "ls")
    assert done.returncode == 114 and b"not all of them" in done.stderr, done


def test_a_name_that_could_not_be_looked_up_is_not_one_that_is_not_there(tmp_path):
    """getent is a program; one that fails has said nothing about the name."""
    def call(script):
        (tmp_path / "getent").write_text("#!/bin/sh\n" + script)
        (tmp_path / "getent").chmod(0o755)
        environ = {**os.environ, "GLOVEBOX_SERVER": "http://name.test:1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run([str(BINARY), "ps"], capture_output=True, timeout=60, env=environ)
    done = call("exit 2\n")
    assert done.returncode == 105 and b"there is no host" in done.stderr, done
    for script in ("exit 1\n", "kill -9 $$\n", "echo nonsense\n"):
        done = call(script)
        assert done.returncode == 105 and b"could not be looked up" in done.stderr, done
