# SPDX-License-Identifier: Apache-2.0
"""HTTP as hostile clients speak it, against the real server, over plain sockets. Numbers are those of the attack catalogue."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import resource
import select
import socket
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import USER, needs_root  # noqa: E402
from server import PATIENCE, Server, wait_for  # noqa: E402

HOST = b"Host: localhost\r\n"
RUN = b'{"code": "print(1)"}'


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True, hosts=["box.example.com"], origins=["https://pages.example.com"]) as made:
        made.all = made.token("acme", "run", "admin")
        yield made


def read_all(plain):
    """Until the other side closes."""
    out = b""
    while True:
        try:
            piece = plain.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def exchange(server, data, tcp=False):
    """What comes back until the server closes."""
    with server.raw(tcp) as plain:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            plain.sendall(data)
        return read_all(plain)


def answers(data):
    """Status and body of each answer in the bytes of a connection."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields.get(b"Content-Length", b"0"))
        found.append((int(head.split()[1]), rest[:size]))
        data = rest[size:]
    return found


def one_refusal(data, *statuses):
    found = answers(data)
    assert len(found) == 1, data  # nothing behind the bad request was looked at
    status, body = found[0]
    assert status in statuses, data
    assert b"\r\nConnection: close\r\n" in data, data
    error = json.loads(body)["error"]
    assert error["code"] in ("protocol", "too_large") and error["message"] and error["hint"]
    return error


def peak(server, reset=False):
    """The most memory of the server's process, in KiB."""
    if reset:
        pathlib.Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


# ---- 187: names ----

FOREIGN_HOSTS = ["evil.example.com", "localhost.evil.com", "127.0.0.1.nip.io", "127.0.0.1:1", "0.0.0.0", "[::2]", "box.example.com:1", "localhost:99999", "a b", ""]
FOREIGN_ORIGINS = ["null", "http://evil.example.com", "https://pages.example.com.evil.com", "https://localhost", "file://", "http://pages.example.com", "*", ""]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize("path", ["/healthz", "/v1/info", "/nothing"])
def test_187_foreign_host(server, host, path):
    for fields in ("", f"Authorization: Bearer {server.all}\r\n"):
        found = answers(exchange(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n".encode(), tcp=True))
        assert [status for status, _ in found] in ([403], [400]), found
        assert json.loads(found[0][1])["error"]["code"] in ("denied", "protocol")


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_187_foreign_origin(server, origin):
    for path in ("/healthz", "/v1/info", "/nothing"):
        data = exchange(server, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.tcp[1]}\r\nOrigin: {origin}\r\nAuthorization: Bearer {server.all}\r\n"
                                "Connection: close\r\n\r\n".encode(), tcp=True)
        assert [status for status, _ in answers(data)] == [403], data
        assert b"Access-Control" not in data


def test_187_nothing_was_run(server):
    """A page that got a name of ours (DNS rebinding) sends a run; it has no token, but a server without tokens would have taken it."""
    with Server(tcp=True, tokens=False) as loose:
        body = b"POST /v1/runs HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" + RUN
        for host, fields in ((b"evil.example.com:%d" % loose.tcp[1], b""), (b"127.0.0.1:%d" % loose.tcp[1], b"Origin: http://evil.example.com\r\n"),
                             (b"127.0.0.1:%d" % loose.tcp[1], b"Origin: null\r\n")):
            assert [status for status, _ in answers(exchange(loose, body % (host, fields, len(RUN)), tcp=True))] == [403]
        assert loose.get("/v1/runs").expect(200).json["runs"] == []
        good = exchange(loose, body % (b"127.0.0.1:%d" % loose.tcp[1], b"", len(RUN)), tcp=True)
        assert answers(good)[0][0] == 200, good


def test_187_names_of_ours(server):
    port = server.tcp[1]
    for host, origin in ((f"localhost:{port}", None), ("127.0.0.1", None), ("[::1]", None), ("box.example.com", None), (f"LOCALHOST:{port}", f"http://localhost:{port}"),
                         (f"127.0.0.1:{port}", "https://pages.example.com")):
        fields = f"Origin: {origin}\r\n" if origin else ""
        data = exchange(server, f"GET /v1/info HTTP/1.1\r\nHost: {host}\r\n{fields}Authorization: Bearer {server.all}\r\nConnection: close\r\n\r\n".encode(), tcp=True)
        assert answers(data)[0][0] == 200, data
        assert (b"Access-Control-Allow-Origin: https://pages.example.com\r\n" in data) == (origin == "https://pages.example.com")


# ---- 188: requests that two programs would read in two ways ----

def post(fields, body=b"", method=b"POST", target=b"/v1/runs"):
    return method + b" " + target + b" HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n" + fields + b"\r\n" + body


SECOND = post(b"Content-Length: %d\r\n" % len(RUN), RUN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = {
    "length and chunks": post(b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n"),
    "chunks and length": post(CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n"),
    "two lengths": post(b"Content-Length: 0\r\nContent-Length: 5\r\n", b"hello"),
    "the same length twice": post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"),
    "a list of lengths": post(b"Content-Length: 5, 5\r\n", b"hello"),
    "a signed length": post(b"Content-Length: +5\r\n", b"hello"),
    "a length that overflows": post(b"Content-Length: 18446744073709551621\r\n", b"hello"),
    "an odd coding": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "a coding in capitals": post(b"Transfer-Encoding: Chunked\r\n", b"0\r\n\r\n"),
    "a hidden coding": post(b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    "a coding twice": post(CHUNKED + CHUNKED, b"0\r\n\r\n"),
    "a chunk extension": post(CHUNKED, b"5;x=y\r\nhello\r\n0\r\n\r\n"),
    "a chunk size with a blank": post(CHUNKED, b"5 \r\nhello\r\n0\r\n\r\n"),
    "a chunk size in C": post(CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk longer than it says": post(CHUNKED, b"4\r\nhello\r\n0\r\n\r\n"),
    "a chunk with a bare line feed": post(CHUNKED, b"5\nhello\r\n0\r\n\r\n"),
    "a trailer": post(CHUNKED, b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    "a folded line": post(b"X: a\r\n b\r\n"),
    "bare line feeds": b"GET /v1/info HTTP/1.1\nHost: localhost\n\n",
    "a bare line feed in a field": post(b"X: a\nY: b\r\n"),
    "a bare carriage return": post(b"X: a\rY: b\r\n"),
    "a blank before a colon": post(b"Content-Length : 5\r\n", b"hello"),
    "a blank before a field": b"GET /v1/info HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a NUL": post(b"X: a\0b\r\n"),
    "a NUL in a name": post(b"X\0: a\r\n"),
    "a control character": post(b"X: a\x1b[2J\r\n"),
    "no name": post(b": a\r\n"),
    "two hosts": post(b"Host: other\r\n"),
    "no host": b"GET /v1/info HTTP/1.1\r\n\r\n",
    "an absolute target": b"GET http://localhost/v1/info HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /v1/info#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "an empty line before": b"\r\n" + post(b""),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_188_smuggling(server, name):
    """Refused and closed; the run behind it, which another reader might see as a request, is not run."""
    before = len(server.get("/v1/runs").expect(200).json["runs"])
    one_refusal(exchange(server, SMUGGLED[name] + SECOND), 400, 505)
    assert len(server.get("/v1/runs").expect(200).json["runs"]) == before


@pytest.mark.parametrize("pause", [0, 1])
def test_188_smuggling_in_pieces(server, pause):
    """The same, when it comes byte by byte."""
    for name in ("length and chunks", "a chunk extension", "a folded line", "a bare carriage return"):
        with server.raw() as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for i in range(len(SMUGGLED[name])):
                    plain.sendall(SMUGGLED[name][i:i + 1])
                    if pause and i % 16 == 0:
                        time.sleep(0.001)
            one_refusal(read_all(plain), 400)


def test_188_sizes(server):
    one_refusal(exchange(server, b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\n" + HOST + b"\r\n"), 414)
    one_refusal(exchange(server, b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 65536 + b"\r\n\r\n"), 431)
    one_refusal(exchange(server, b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 64 + b"\r\n"), 431)
    one_refusal(exchange(server, b"A" * 1000000), 400)
    one_refusal(exchange(server, os.urandom(100000) + b"\r\n\r\n"), 400)


def test_188_every_request_is_answered_once(server):
    """What belongs together stays together: requests of all kinds on one connection."""
    data = b"".join([
        SECOND, b"GET /v1/nothing HTTP/1.1\r\n" + HOST + b"\r\n", post(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(RUN), RUN)), b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"BREW /v1/runs HTTP/1.1\r\n" + HOST + b"\r\n", post(b"Content-Length: 2\r\n", b"{}"), b"GET /v1/info HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"])
    assert [status for status, _ in answers(exchange(server, data))] == [200, 404, 200, 200, 405, 400, 200]


# ---- 189: slow clients, and many ----

@pytest.fixture(scope="module")
def hasty():
    with Server(tcp=True, tokens=False, header_timeout="1s", body_timeout="2s", keep_alive="3s", stalled_timeout="2s", threads=16) as made:
        yield made


def test_189_slow_heads(hasty):
    """They hold nothing but their sockets, get 408, and others do not notice."""
    slow = [hasty.raw(tcp=i % 2 == 0) for i in range(200)]
    for plain in slow:
        plain.sendall(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX: ")
    for _ in range(20):
        assert hasty.get("/v1/info").status == 200
    for plain in slow:
        data = read_all(plain)
        assert data.startswith(b"HTTP/1.1 408 "), data
        plain.close()


def test_189_slow_bodies_hold_no_thread(hasty):
    slow = [hasty.raw() for _ in range(64)]  # four times as many as there are threads
    for plain in slow:
        plain.sendall(b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    assert hasty.post("/v1/runs", {"code": "print(1)"}).result["stdout"] == "1\n"
    for plain in slow:
        assert read_all(plain).startswith(b"HTTP/1.1 408 ")
        plain.close()


def test_189_half_closed(hasty):
    """Who closes its half after the request is answered; who does so before its end is not."""
    for tcp in (False, True):
        with hasty.raw(tcp) as plain:
            plain.sendall(b"GET /v1/info HTTP/1.1\r\n" + HOST + b"\r\n")
            plain.shutdown(socket.SHUT_WR)
            assert answers(read_all(plain))[0][0] == 200
        with hasty.raw(tcp) as plain:
            plain.sendall(b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n{")
            plain.shutdown(socket.SHUT_WR)
            assert read_all(plain) == b""


@pytest.mark.waits
def test_189_idle_ones_are_closed(hasty):
    with hasty.raw() as silent, hasty.raw() as used:
        used.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert answers(read_all(used))[0][0] == 200
        assert read_all(silent) == b""


def hung_up(plain):
    """Whether the other side has closed it, whatever there is still to read."""
    poll = select.poll()
    poll.register(plain, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def test_189_clients_that_do_not_read(hasty):
    """Answers to them wait in memory of bounded size, and then they are cut off; their threads are free again."""
    session = hasty.session()
    hasty.put(f"/v1/sessions/{session}/files/big", b"x" * 30000000).expect(201)
    before = peak(hasty, reset=os.geteuid() == 0)
    stalled = []
    for _ in range(12):
        plain = hasty.raw()
        plain.sendall(f"GET /v1/sessions/{session}/files/big HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        stalled.append(plain)
    assert hasty.get("/healthz").status == 200
    for plain in stalled:
        wait_for(lambda: hung_up(plain))
        assert len(read_all(plain)) < 30000000
        plain.close()
    assert peak(hasty) - before < 400 * 1024
    assert hasty.get(f"/v1/sessions/{session}/files/big").body == b"x" * 30000000
    hasty.delete(f"/v1/sessions/{session}").expect(204)


def test_189_ten_thousand_idle_connections():
    count = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * count:
        pytest.skip(f"needs {2 * count} descriptors, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle = []
    try:
        with Server(tcp=True, tokens=False, keep_alive="10m") as server:
            before = rss(server)
            for i in range(count):
                idle.append(server.raw(tcp=i % 2 == 0))
                if i % 4 == 0:  # some have asked before
                    idle[-1].sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
                    assert idle[-1].recv(65536).startswith(b"HTTP/1.1 200 ")
            assert (rss(server) - before) * 1024 / count < 4096
            took = []
            for _ in range(20):
                start = time.monotonic()
                assert server.get("/v1/info").status == 200
                took.append(time.monotonic() - start)
            assert min(took) < 0.2, took
            # And all of them can still be served.
            for plain in idle[::100]:
                plain.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
                assert plain.recv(65536).startswith(b"HTTP/1.1 200 ")
            for plain in idle:
                plain.close()
            idle.clear()
    finally:
        for plain in idle:
            plain.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def rss(server):
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


def test_189_more_connections_than_there_may_be():
    """Idle ones make room; when none is idle the new one is told."""
    with Server(connections=16, threads=32) as server:
        idle = [server.raw() for _ in range(64)]
        assert server.get("/v1/info").status == 200
        for plain in idle:
            plain.close()
        busy = []

        def one_more():  # the last answer's connection may not be gone yet
            plain = server.raw()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                plain.sendall(post(b"Content-Length: 10\r\nExpect: 100-continue\r\n"))
            taken = plain.recv(4096).startswith(b"HTTP/1.1 100 ")
            busy.append(plain) if taken else plain.close()
            return taken

        for _ in range(16):
            wait_for(one_more)
        data = exchange(server, b"GET /v1/info HTTP/1.1\r\n" + HOST + b"\r\n")
        assert data.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: " in data, data
        for plain in busy:
            plain.close()
        wait_for(lambda: server_answers(server))


def server_answers(server):
    with contextlib.suppress(OSError):
        return server.get("/v1/info").status == 200


# ---- 190: bodies ----

def deep(n):
    return b'{"code": ' + b"[" * n


BOMBS = {
    "depth": deep(100000),
    "depth of objects": b'{"a":' * 100000,
    "keys": b"{" + b",".join(b'"k%d":1' % i for i in range(1000000)) + b"}",
    "items": b'{"args": [' + b"1," * 1000000 + b"1]}",
    "empty arrays": b'{"args": [' + b"[]," * 1000000 + b"1]}",
    "the same key": b'{"code": "1", "code": "2"}',
    "an overflowing number": b'{"code": "1", "timeout": 1e400}',
    "a number without end": b'{"timeout": ' + b"9" * 5000000 + b"}",
    "no UTF-8": b'{"code": "\xff"}',
    "much that is no UTF-8": b'{"code": "' + b"\xff" * 5000000,
    "a byte-order mark": b'\xef\xbb\xbf{"code": "1"}',
    "UTF-16": '{"code": "1"}'.encode("utf-16"),
    "a lone surrogate": b'{"code": "\\ud800"}',
    "a NUL": b'{"code": "\\u0000"}',
    "an open text": b'{"code": "' + b"x" * 10000000,
    "no object": b"[" * 50 + b"]" * 50,
    "nothing": b"",
    "something": b"\0" * 100000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_190_bombs(server, name):
    before = peak(server, reset=os.geteuid() == 0)
    answer = server.request("POST", "/v1/runs", body=BOMBS[name], headers={"Content-Type": "application/json"})
    assert answer.status == 400 and answer.code == "usage", answer.explain()
    if os.geteuid() == 0 and "ASAN_OPTIONS" not in os.environ:
        assert peak(server) - before < 8 * 1024
    assert server.post("/v1/runs", {"code": "print(1)"}).result["stdout"] == "1\n"


def test_190_too_large(server):
    """By its length before a byte of it is read, in chunks as soon as it is clear."""
    before = peak(server, reset=os.geteuid() == 0)
    one_refusal(exchange(server, post(b"Content-Length: 1073741824\r\n")), 413)
    one_refusal(exchange(server, post(b"Content-Length: 1073741824\r\nExpect: 100-continue\r\n")), 413)
    one_refusal(exchange(server, post(CHUNKED, b"40000000\r\n")), 413)
    with server.raw() as plain:
        plain.sendall(post(CHUNKED))
        chunk = b"100000\r\n" + b" " * 1048576 + b"\r\n"
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 1024:
                plain.sendall(chunk)
                sent += 1
        assert sent < 128  # the most is 64 MiB
        one_refusal(read_all(plain), 413)
    if os.geteuid() == 0:
        assert peak(server) - before < 8 * 1024


def test_190_at_the_same_time(server):
    """Many of them together, beside somebody who works."""
    stop = threading.Event()
    failures = []

    def work():
        while not stop.is_set():
            answer = server.post("/v1/runs", {"code": "print(1)"})
            if answer.status != 200:
                failures.append(answer.explain())

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            names = ["depth", "keys", "items", "an open text", "no UTF-8", "the same key"] * 8
            done = pool.map(lambda name: server.request("POST", "/v1/runs", body=BOMBS[name], headers={"Content-Type": "application/json"}).status, names)
            assert set(done) == {400}
    finally:
        stop.set()
        worker.join(PATIENCE)
    assert not failures


def test_large_code_is_taken(server):
    """What is allowed is allowed: a body that goes through a file."""
    code = "x = '" + "y" * 4000000 + "'\nprint(len(x))"
    assert server.post("/v1/runs", {"code": code}).result["stdout"] == "4000000\n"


# ---- 200: whose the unix socket is ----

@needs_root
def test_200_other_users_are_turned_away(server):
    """The socket's mode keeps them out; when somebody opens that, the server still looks who they are."""
    assert server.socket.stat().st_mode & 0o777 == 0o600

    def as_user(user):
        os.seteuid(user)
        try:
            return exchange(server, b"GET /v1/info HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        finally:
            os.seteuid(0)

    with pytest.raises(PermissionError):
        as_user(USER)
    server.socket.chmod(0o666)
    try:
        refused = as_user(USER)
        assert refused.startswith(b"HTTP/1.1 403 ") and b'"denied"' in refused, refused
        for user in (0, server.uid):
            assert as_user(user).startswith(b"HTTP/1.1 200 "), user
    finally:
        server.socket.chmod(0o600)


# ---- answers ----

def test_heads_of_answers(server):
    for path, status in (("/v1/info", 200), ("/nothing", 404), ("/v1/runs?x=1", 400)):
        answer = server.get(path).expect(status)
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Type"] == "application/json" and answer.headers["Server"] == "glovebox"
        assert not [name for name in answer.headers if name.startswith("Access-Control")]


def test_head_requests(server):
    with contextlib.closing(server.connection()) as connection:
        for path in ("/v1/info", "/nothing", "/healthz", "/openapi.json"):
            got, head = server.get(path), server.request("HEAD", path, connection=connection)
            assert head.status == got.status and head.body == b""
            assert head.headers["Content-Length"] == str(len(got.body))
