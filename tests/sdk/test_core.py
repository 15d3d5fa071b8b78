# SPDX-License-Identifier: Apache-2.0
"""What needs no server: the protocol without input and output, models, and the agreement of tables with the source."""
import ast
import contextlib
import inspect
import pickle
import re
import socket
import sys

import pytest

import glovebox
from glovebox import _address, _body, _http, errors
from glovebox._drive import drive
from glovebox.events import Collector
from sdk_helpers import ROOT, SDK

PACKAGE = SDK / "src/glovebox"


# ---- tables ----

def rows(path, macro):
    """X(NAME, "text", number[, number]) of a header."""
    text = (ROOT / path).read_text()
    found = re.findall(rf'X\({macro}_\w+, "(\w+)", (-?\d+)(?:, (\d+))?\)', text)
    assert len(found) > 5, path
    return found


def test_errors_are_those_of_the_one_list():
    wanted = {text: int(status) for text, _, status in rows("include/glovebox/error.h", "GB_E") if text != "none"}
    assert {code: row.status for code, row in errors.CODES.items()} == wanted
    for code, row in errors.CODES.items():
        assert row.error.code == code and getattr(glovebox, row.error.__name__) is row.error


def test_every_verdict_but_ok_has_an_exception():
    wanted = {text for text, _, _ in rows("src/engine/verdict.h", "VERDICT")} - {"ok"}
    assert set(errors.VERDICTS) == wanted


def test_the_version_is_the_projects():
    found = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())
    assert glovebox.__version__ == found.group(1)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_it_is_written_for_python_3_9(path):
    ast.parse(path.read_text(), feature_version=(3, 9))


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the names of the standard library's modules are not installed")
def test_no_dependencies():
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                assert name.partition(".")[0] in sys.stdlib_module_names, f"{path}: {name}"


def public(cls):
    return {name: value for name, value in vars(cls).items() if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, classmethod))}


@pytest.mark.parametrize("name", ["Sandbox", "Client", "Context", "Files", "Run", "RunStream"])
def test_both_worlds_have_the_same_names_and_arguments(name):
    """Of callbacks and contexts the types differ, and nothing else."""
    plain, awaited = getattr(glovebox, name), getattr(glovebox, "Async" + name)
    names = set(public(plain)) | {"__init__"} if name in ("Sandbox", "Client") else set(public(plain))
    extra = set(public(awaited)) - set(public(plain))
    assert extra <= {"opened", "next_event"}, extra
    for method in names:
        mine = inspect.signature(getattr(plain, method))
        other = inspect.signature(getattr(awaited, method))
        assert [(p.name, p.kind, p.default) for p in mine.parameters.values()] == [
            (p.name, p.kind, p.default) for p in other.parameters.values() if p.name != "_transport"], method


def test_everything_public_is_documented():
    for name in glovebox.__all__:
        thing = getattr(glovebox, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__ and len(thing.__doc__) > 10, name
    page = (ROOT / "docs/python.md").read_text()
    for cls in [row.error for row in errors.CODES.values()] + list(errors.VERDICTS.values()):
        assert f"`{cls.__name__}`" in page, cls


# ---- exceptions ----

def test_errors_from_objects():
    error = errors.error_from_object({"code": "quota", "message": "enough", "hint": "wait", "details": {"a": 1}}, 429, 2.0)
    assert isinstance(error, glovebox.QuotaError)
    assert (error.code, error.message, error.hint, error.details, error.status, error.retry_after) == ("quota", "enough", "wait", {"a": 1}, 429, 2.0)
    assert str(error) == "enough (wait)"
    newer = errors.error_from_object({"code": "unheard_of", "message": "m"}, 499)
    assert type(newer) is glovebox.GloveboxError and newer.code == "unheard_of"
    for broken in (None, [], {"code": 1, "message": None, "hint": 3, "details": []}):
        assert isinstance(errors.error_from_object(broken, 500), glovebox.GloveboxError)


def test_exceptions_and_results_can_be_pickled():
    result = glovebox.Result({"verdict": {"kind": "timeout", "message": "m", "limit": 5, "peak": 6, "unit": "usec"}, "stdout": "a"}, "id")
    again = pickle.loads(pickle.dumps(result))
    assert (again.verdict, again.verdict.limit, again.verdict.unit, again.stdout, again.id) == ("timeout", 5, "usec", "a", "id")
    with pytest.raises(glovebox.TimeoutVerdict) as caught:
        result.raise_for_verdict()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is glovebox.TimeoutVerdict and copy.result.stdout == "a" and copy.verdict.peak == 6 and str(copy) == "m"
    error = errors.error_from_object({"code": "unavailable", "message": "full"}, 503, 7.0)
    assert pickle.loads(pickle.dumps(error)).retry_after == 7.0


def test_a_verdict_is_a_str():
    verdict = glovebox.Verdict("ok")
    assert verdict == "ok" and verdict in {"ok": 1} and verdict.kind == "ok" and verdict.ok and f"{verdict}" == "ok"
    assert type(verdict.kind) is str


# ---- HTTP ----

ANSWER = (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
          b"5;x=y\r\nhello\r\n3\r\n, w\r\n4\r\norld\r\n0\r\nTrailer: x\r\n\r\n")


def test_an_answer_in_pieces_of_any_size():
    for size in range(1, len(ANSWER) + 1):
        parser, body = _http.AnswerParser("GET"), b""
        for at in range(0, len(ANSWER), size):
            assert not parser.done
            body += parser.feed(ANSWER[at:at + size])
        assert parser.done and parser.reusable and body == b"hello, world"
        assert parser.head.status == 200 and parser.head.headers["content-type"] == "text/plain"


def test_an_answer_that_is_cut_is_never_whole():
    for at in range(len(ANSWER)):
        parser = _http.AnswerParser("GET")
        parser.feed(ANSWER[:at])
        with pytest.raises(EOFError):
            parser.eof()
    parser = _http.AnswerParser("GET")
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123456789")
    with pytest.raises(EOFError):
        parser.eof()


@pytest.mark.parametrize("data, method, body, reusable", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "GET", b"abc", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", "GET", b"abc", False),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", "GET", b"abc", False),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "DELETE", b"", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD", b"", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "GET", b"", True),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "GET", b"a", False),
])
def test_where_an_answer_ends(data, method, body, reusable):
    parser = _http.AnswerParser(method)
    assert parser.feed(data) == body and parser.done and parser.reusable == reusable


def test_an_answer_until_the_end_of_the_connection():
    parser = _http.AnswerParser("GET")
    assert parser.feed(b"HTTP/1.1 200 OK\r\n\r\nabc") == b"abc" and not parser.done
    parser.eof()
    assert parser.done and not parser.reusable


@pytest.mark.parametrize("data", [
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 20x OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", b"HTTP/1.1 200 OK\r\n bent: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n", b"x" * 70000,
])
def test_what_is_not_http(data):
    with pytest.raises(glovebox.ProtocolError):
        _http.AnswerParser("GET").feed(data)


def test_heads_of_requests():
    request = _http.Request.with_json("POST", _http.path_of("v1", "a b", "ü/x", query={"q": "1&2", "n": None, "t": True}), {"a": "ü"})
    head = request.head("localhost", "/prefix", "gbx_secret").decode()
    assert head.startswith("POST /prefix/v1/a%20b/%C3%BC%2Fx?q=1%262&t=true HTTP/1.1\r\nHost: localhost\r\n") and head.endswith("\r\n\r\n")
    assert "Authorization: Bearer gbx_secret\r\n" in head and f"Content-Length: {len(request.body)}\r\n" in head
    with pytest.raises(glovebox.UsageError):
        request.head("localhost", "", "gbx\r\nX: y")
    with pytest.raises(glovebox.UsageError):
        request.head("localhost", "", "gbx_\u20ac")
    assert b"Content-Length: 0\r\n" in _http.Request("POST", "/x").head("h", "", None)
    assert b"Content-Length" not in _http.Request("GET", "/x").head("h", "", None)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", {1, 2}, object()])
def test_what_is_not_json(value):
    with pytest.raises(glovebox.UsageError):
        _http.encode_json({"a": value})


def test_lines():
    lines = _http.Lines()
    for piece in (b"a", b"b\n\nc\nd", b"", b"e\n", b"f"):
        lines.feed(piece)
    assert [lines.take() for _ in range(4)] == [b"ab", b"c", b"de", None]


def test_drive_does_not_wait():
    async def answer():
        return 42

    class Never:
        def __await__(self):
            yield

    async def suspends():
        await Never()
    assert drive(answer()) == 42
    with pytest.raises(RuntimeError):
        drive(suspends())


# ---- events ----

EVENTS = [
    {"seq": 0, "event": "started", "t_usec": 0},
    {"seq": 1, "event": "stdout", "t_usec": 10, "offset": 0, "data": "a\u00fc"},
    {"event": "ping"},
    {"seq": 2, "event": "stdout", "t_usec": 20, "offset": 3, "data_base64": "/w=="},
    {"seq": 3, "event": "stderr", "t_usec": 30, "offset": 0, "data": "e"},
    {"seq": 4, "event": "result", "t_usec": 40, "value": {"main": True, "data": {"text/plain": "42"}}},
    {"seq": 5, "event": "from the future", "t_usec": 40},
    {"seq": 6, "event": "exception", "t_usec": 50, "error": {"name": "E", "value": "v", "traceback": "t"}},
    {"seq": 7, "event": "verdict", "verdict": {"kind": "error", "message": "m"}, "exit_code": 1},
]


def test_events_become_a_result_once_whatever_comes_twice():
    collector = Collector("id")
    seen = []
    for upto in range(len(EVENTS)):  # as if the connection was lost after each of them, and all came again
        seen += [collector.feed(event) for event in EVENTS[:upto + 1]]
    kinds = [type(event).__name__ for event in seen if event is not None]
    assert kinds == ["Started", "Output", "Output", "Output", "ResultValue", "ExceptionEvent", "VerdictEvent"]
    result = collector.result
    assert collector.ended and result.stdout_bytes == b"a\xc3\xbc\xff" and result.stdout == "a\u00fc\ufffd" and result.stderr == "e"
    assert result.stderr_bytes == b"e" and result.text == "42" and result.error.name == "E" and result.verdict == "error" and result.id == "id"
    assert "seq" not in result.raw and "event" not in result.raw


def test_a_gap_in_the_events_is_told():
    collector = Collector()
    collector.feed(EVENTS[0])
    with pytest.raises(glovebox.LostError):
        collector.feed(EVENTS[3])


def test_an_error_event_is_raised():
    collector = Collector()
    with pytest.raises(glovebox.ConflictError):
        collector.feed({"seq": 0, "event": "error", "error": {"code": "conflict", "message": "busy"}})
    assert collector.ended
    with pytest.raises(glovebox.ProtocolError):
        Collector().feed([])


# ---- addresses ----

@pytest.mark.parametrize("text, shown, host", [
    ("unix:/run/x.sock", "unix:/run/x.sock", "localhost"), ("unix:///run/x.sock", "unix:/run/x.sock", "localhost"),
    ("http://localhost:8080", "http://localhost:8080", "localhost:8080"), ("https://a.example", "https://a.example", "a.example"),
    ("https://a.example:8443/boxes/", "https://a.example:8443/boxes", "a.example:8443"), ("http://[::1]:8080", "http://[::1]:8080", "[::1]:8080"),
])
def test_addresses(text, shown, host):
    address = _address.parse_address(text)
    assert str(address) == shown and address.host_header == host


@pytest.mark.parametrize("text", ["", "unix:", "unix:relative", "localhost:8080", "ftp://x", "http://", "http://x:99999", "http://a:b@x", "http://x?a=b"])
def test_wrong_addresses(text):
    with pytest.raises(glovebox.UsageError):
        _address.parse_address(text)


def test_the_default_socket_is_where_the_command_has_it(tmp_path):
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    assert _address.runtime_socket({"GLOVEBOX_RUNTIME_DIR": str(own)}) == str(own / "glovebox.sock")
    own.chmod(0o777)
    assert _address.runtime_socket({"GLOVEBOX_RUNTIME_DIR": str(own)}) is None
    assert _address.runtime_socket({"GLOVEBOX_RUNTIME_DIR": str(tmp_path / "none")}) is None
    link = tmp_path / "link"
    own.chmod(0o700)
    link.symlink_to(own)
    assert _address.runtime_socket({"GLOVEBOX_RUNTIME_DIR": str(link)}) is None


@contextlib.contextmanager
def listener(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen(0)
        yield made


@contextlib.contextmanager
def full(path):
    """A server that accepts nobody, and has as many callers as its backlog takes."""
    with listener(path), contextlib.ExitStack() as callers:
        while True:
            caller = callers.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            try:
                caller.connect(str(path))
            except BlockingIOError:
                break
        yield


def test_a_server_with_many_callers_is_there(tmp_path, monkeypatch):
    path = tmp_path / "glovebox.sock"
    monkeypatch.setenv("GLOVEBOX_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("glovebox._private.ensure", lambda: "/a/private/one")
    assert _address.Target(None, None).address().path == "/a/private/one"
    with full(path):
        assert _address.somebody_listens(str(path))
        assert _address.Target(None, None).address().path == str(path)
    assert not _address.somebody_listens(str(path))  # the socket is there, and nobody listens
    path.unlink()
    with listener(path):
        assert _address.somebody_listens(str(path))


def test_nobody_listens(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("none", "file", "long" * 50):
        assert not _address.somebody_listens(str(tmp_path / name)), name


def test_whether_somebody_listens_is_not_guessed(tmp_path):
    path = tmp_path / "datagrams"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(glovebox.ConnectionFailed, match="cannot be told: .*wrong type"):
            _address.somebody_listens(str(path))


# ---- bodies ----

def test_the_policy_of_the_arguments():
    assert _body.policy_body(None, None, None, None, None) is None
    assert _body.policy_body({"pids_limit": 4}, "trusted", "1g", 5, {"A": "b"}) == {
        "pids_limit": 4, "trust": "trusted", "mem_limit": "1g", "timeout": 5, "env": {"A": "b"}}
    assert _body.policy_body(None, None, None, None, None, "docker", "team/py:3", "runsc") == {"backend": "docker", "image": "team/py:3", "runtime": "runsc"}
    with pytest.raises(glovebox.UsageError, match="mem_limit"):
        _body.policy_body({"mem_limit": "1g"}, None, "1g", None, None)
    with pytest.raises(glovebox.UsageError, match="image"):
        _body.policy_body({"image": "a"}, None, None, None, None, None, "b")


def test_the_usual_template_is_the_servers_to_take():
    """A box of an engine or of an image comes from none, and only the server knows which it will be."""
    assert "template" not in _body.session_body(None, "python", None, None, "private", None, None)
    assert _body.session_body(None, None, None, None, "private", None, None)["template"] is None
    assert _body.with_box({}, None, "python-data", None, "private")["template"] == "python-data"


def test_the_body_of_a_run():
    def body(code="x", **more):
        return _body.run_body(code, **{"language": "python", "name": None, "args": None, "stdin": None, "timeout": None, **more})
    assert body() == {"code": "x", "language": "python"}
    assert body(b"\xc3\xbc", stdin=b"\xff", args=("a", 1)) == {
        "code": "\u00fc", "language": "python", "stdin": {"base64": "/w=="}, "args": ["a", "1"]}
    assert _body.with_context(body(), None) == body()
    assert _body.with_context(body(), "fresh")["context"] is None and _body.with_context(body(), "3")["context"] == "3"
    for wrong in ({"code": b"\xff"}, {"stdin": 5}, {"stdin": "a", "interactive": True}):
        with pytest.raises(glovebox.UsageError):
            body(**wrong)


def test_the_body_of_a_session(tmp_path):
    def workspace(place):
        return _body.session_body(None, None, None, None, place, None, None).get("workspace")
    assert workspace("private") is None and workspace("kept") == "kept"
    assert workspace(tmp_path) == {"path": str(tmp_path)} and workspace(str(tmp_path)) == {"path": str(tmp_path)}
    with pytest.raises(glovebox.UsageError):
        workspace("relative")
