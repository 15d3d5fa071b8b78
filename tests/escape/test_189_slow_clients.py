# SPDX-License-Identifier: Apache-2.0
"""189. Peers send heads and bodies without end, a byte at a time, or nothing, close half of their connections, hold thousands of them and every thread =>
each has its deadline and costs a socket and no more; whoever comes meanwhile is served.

$GLOVEBOX_CONNECTIONS is how many there are of the many (2000); tests/e2e/test_http.py has 10,000 of those that idle, and deadlines one by one.
"""
import contextlib
import os
import resource
import socket
import threading
import time

import pytest
from conftest import wait_until
from hostile_clients import HOST, SANITIZED, answers, assert_works, descriptors, exchange, memory, read_all, request_bytes, send, statuses, tenants
from server import NDJSON, PATIENCE, SSE, Server, wait_for

MANY = int(os.environ.get("GLOVEBOX_CONNECTIONS", "2000"))
HASTY = {"header_timeout": "2s", "body_timeout": "3s", "keep_alive": "30s", "stalled_timeout": "2s"}


@pytest.fixture(scope="module")
def room():
    """For both ends of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY + 1000:
        pytest.skip(f"needs {MANY + 1000} descriptors, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def crowd(server, n, say=b"", tcp=True):
    """So many connections, on each of which something was said."""
    peers = []
    try:
        for _ in range(n):
            peers.append(server.raw(tcp))
            send(peers[-1], say)
        yield peers
    finally:
        for peer in peers:
            peer.close()


def authorized(server):
    return f"Authorization: Bearer {server.alfa}\r\n".encode()


@pytest.fixture(scope="module")
def hasty(room):
    with Server(tcp=True, threads=32, **HASTY) as server:
        server.alfa, server.bravo = server.token("alfa", "run"), server.token("bravo", "run")
        yield server


UNFINISHED = {
    "nothing": b"", "a letter": b"G", "a request line": b"GET /v1/info HTTP/1.1\r\n", "half a field": b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX: ", "a long head": b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 15000,
    "all but its end": b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r",
}


@pytest.mark.waits
@pytest.mark.parametrize("what", UNFINISHED)
def test_thousands_of_unfinished_heads(hasty, what):
    """Without a token. They get their time, and others are served before, meanwhile and after."""
    before = memory(hasty)
    with crowd(hasty, MANY // 4, UNFINISHED[what]) as peers:
        for token in (None, hasty.alfa, hasty.bravo):
            assert hasty.get("/v1/info", token=token).status == 200
        assert_works(hasty, hasty.bravo)
        if not SANITIZED:
            assert memory(hasty) - before < len(peers) * 64 << 10
        if what != "nothing":
            for peer in peers[::50]:
                assert read_all(peer).startswith(b"HTTP/1.1 408 ")


@pytest.mark.waits
def test_a_byte_at_a_time(hasty):
    """A head or a body that always goes on, and never ends: it is the whole that has a deadline."""
    head = b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1000
    body = b"POST /v1/runs HTTP/1.1\r\n" + HOST + authorized(hasty) + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    with hasty.raw(tcp=True) as slow_head, hasty.raw(tcp=True) as slow_body:
        send(slow_body, body)
        end, alive = time.monotonic() + PATIENCE, {slow_head, slow_body}
        i = 0
        while alive and time.monotonic() < end:
            for plain in list(alive):
                try:
                    plain.send(head[i:i + 1] if plain is slow_head else b" ", socket.MSG_DONTWAIT)
                except OSError:
                    alive.discard(plain)
            i += 1
            time.sleep(0.05)
            assert hasty.get("/healthz").status == 200
        assert not alive, "it goes on for ever"


def test_strangers_fill_no_disk(hasty):
    """What needs no token takes no body: not from the length it says, nor in chunks."""
    spool = hasty.state

    def spooled():
        found = 0
        for fd in os.listdir(f"/proc/{hasty.pid}/fd"):
            with contextlib.suppress(OSError):
                link = f"/proc/{hasty.pid}/fd/{fd}"
                if os.readlink(link).startswith(str(spool)) and "deleted" in os.readlink(link):
                    found += os.stat(link).st_size
        return found

    for path in ("/healthz", "/readyz", "/openapi.json", "/v1/info", "/nothing"):
        for fields, body in ((b"Content-Length: 50000000\r\n", b"x" * 5000000), (b"Transfer-Encoding: chunked\r\n", b"4c4b40\r\n" + b"x" * 5000000), (b"Content-Length: 50000000\r\nExpect: 100-continue\r\n", b"")):
            data = exchange(hasty, f"GET {path} HTTP/1.1\r\n".encode() + HOST + fields + b"\r\n" + body, source="127.189.0.1")
            assert data.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 401 ", b"HTTP/1.1 429 ")), data[:200]
            assert spooled() == 0
    # Neither does what only looks, of somebody with a token.
    data = exchange(hasty, b"GET /v1/runs HTTP/1.1\r\n" + HOST + authorized(hasty) + b"Content-Length: 5\r\n\r\nhello", tcp=True)
    assert statuses(data) == [413]


def test_strangers_hold_no_place(room):
    """More than there may be connections, in each state that one without a token can reach: who has one still comes in."""
    states = [b"", b"GET ", request_bytes("GET", "/healthz", close=False), request_bytes("GET", "/v1/info", close=False), b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
              b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{", b"no HTTP\r\n\r\n", request_bytes("GET", "/openapi.json", close=False) * 40]
    with Server(tcp=True, connections=64, keep_alive="10m", header_timeout="10m", body_timeout="10m") as server:
        bravo = server.token("bravo", "run")
        for say in states:
            with crowd(server, 200, say):
                for _ in range(5):
                    wait_for(lambda: answered(server, bravo))


def answered(server, token):
    with contextlib.suppress(OSError):
        return server.get("/v1/info", token=token).status == 200


def test_half_closed(hasty):
    """Who says that nothing more comes is answered if his request was whole; else there is nothing to answer. No thread or socket stays."""
    hasty.post("/v1/runs", {"code": "1"}, token=hasty.alfa).expect(200)  # from now on the template has its descriptors
    before = descriptors(hasty)
    whole = b"GET /v1/info HTTP/1.1\r\n" + HOST + authorized(hasty) + b"\r\n"
    run = b'{"code": "import time; time.sleep(0.3); print(189)"}'
    for data, found in ((whole, [200]), (whole * 3, [200] * 3), (whole + whole[:-1], [200]), (whole[:-1], []), (b"", []), (whole[:20], []),
                        (b"POST /v1/runs HTTP/1.1\r\n" + HOST + authorized(hasty) + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(run) + run, [200]),
                        (b"POST /v1/runs HTTP/1.1\r\n" + HOST + authorized(hasty) + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (len(run) + 1) + run, [])):
        for _ in range(3):
            with hasty.raw(tcp=True) as plain:
                send(plain, data)
                plain.shutdown(socket.SHUT_WR)
                assert statuses(read_all(plain)) == found, data
    assert wait_until(lambda: descriptors(hasty) <= before + 2, PATIENCE)


def streams_of(server, token, path, kind, most):
    """As many streams as one gets."""
    opened = []
    for _ in range(most):
        answer = server.get(path, token=token, stream=kind)
        if answer.status != 200:
            assert (answer.status, answer.code) == (429, "quota") and answer.headers["Retry-After"], answer.explain()
            return opened, answer
        opened.append(answer)
    return opened, None


@pytest.mark.parametrize("what", ["statistics", "events", "a run", "input"])
def test_one_tenant_has_not_every_thread(hasty, what):
    """Streams and what is waited for are threads. A tenant that has most of them is told so, and another one works on."""
    run = hasty.post("/v1/runs", {"code": "import time; time.sleep(1000)", "interactive": True, "detach": True, "timeout": 250}, token=hasty.alfa).expect(202).json["id"]
    held, refused, plains = [], None, []
    try:
        if what == "statistics":
            held, refused = streams_of(hasty, hasty.alfa, "/v1/stats?interval=60", NDJSON, 40)
        elif what == "events":
            held, refused = streams_of(hasty, hasty.alfa, f"/v1/runs/{run}/events", SSE, 40)
        else:
            body = b'{"code": "import time; time.sleep(1000)", "timeout": 250, "on_disconnect": "cancel", "template": null}' if what == "a run" else b"x" * 1000000
            path = b"/v1/runs" if what == "a run" else f"/v1/runs/{run}/stdin".encode()
            for _ in range(40):
                plains.append(hasty.raw(tcp=True))
                send(plains[-1], b"POST " + path + b" HTTP/1.1\r\n" + HOST + authorized(hasty) + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            refused = wait_for(lambda: next((plain for plain in plains if is_readable(plain)), None))
        assert refused, "nobody was told"
        assert hasty.get("/v1/info", token=hasty.alfa).status == 429
        for _ in range(3):
            assert_works(hasty, hasty.bravo)
        with hasty.get("/v1/stats?interval=0.1", token=hasty.bravo, stream=NDJSON) as stream:
            assert next(iter(stream))["event"] == "stats"
    finally:
        for one in [*held, *plains]:
            one.close()
        # What was given back is there again.
        wait_for(lambda: hasty.post(f"/v1/runs/{run}/cancel", {"kill": True}, token=hasty.alfa).status == 202)
    wait_for(lambda: hasty.get("/v1/info", token=hasty.alfa).json.get("used", {}).get("runs") == 0)
    assert_works(hasty, hasty.alfa)


def is_readable(plain):
    plain.setblocking(False)
    try:
        return plain.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return False
    finally:
        plain.settimeout(PATIENCE)


def test_several_tenants_leave_room(hasty):
    """Several take what they get: the next one finds a thread."""
    others = [hasty.token(f"other-{i}", "read") for i in range(3)]
    held = []
    try:
        for token in others:
            held += streams_of(hasty, token, "/v1/stats?interval=60", NDJSON, 40)[0]
        assert len(held) < 32
        assert_works(hasty, hasty.bravo)
    finally:
        for one in held:
            one.close()
    wait_for(lambda: answered(hasty, hasty.alfa))


def test_many_that_idle(room):
    """They cost a few hundred bytes each, and nobody waits for them."""
    with Server(tcp=True, keep_alive="10m") as server:
        bravo = server.token("bravo", "run")
        assert_works(server, bravo)
        before, files = memory(server), descriptors(server)
        with crowd(server, MANY // 2) as silent, crowd(server, MANY // 2, request_bytes("GET", "/healthz", close=False)) as used:
            for peer in used[::20]:
                assert peer.recv(65536).startswith(b"HTTP/1.1 200 ")
            if not SANITIZED:
                assert memory(server) - before < MANY * 4096
            results = []
            workers = [threading.Thread(target=lambda: results.append(server.post("/v1/runs", {"code": "print(1)"}, token=bravo).status)) for _ in range(8)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(PATIENCE)
            assert results == [200] * 8
            for peer in [*silent[::100], *used[::100]]:
                send(peer, request_bytes("GET", "/readyz"))
                assert b'{"status":"ready"}' in read_all(peer)
        assert wait_until(lambda: descriptors(server) <= files + 4, PATIENCE)
