# SPDX-License-Identifier: Apache-2.0
"""152, over HTTP. Code floods while the client that asked for it reads slowly, or not at all => the server stays small, the code is not held up, others are served; the
client is cut off in time, and can have every byte afterwards.
"""
import json
import os
import time

import pytest
from conftest import wait_until
from hostile_clients import SANITIZED, Outcome, assert_works, dechunked, memory, ndjson_events, peak, request_bytes, send, sse_events
from server import NDJSON, PATIENCE, SSE, Server, wait_for

MIB = 1 << 20
FLOODS = {
    "output": "import os\nblock = b'0123456789abcde\\n' * 4096\nwhile True: os.write(1, block)",
    "both": "import os\nblock = b'0123456789abcde\\n' * 4096\nwhile True: os.write(1, block); os.write(2, block)",
    "bytes": "import os\nblock = bytes(range(256)) * 256\nwhile True: os.write(1, block)",
    "small pieces": "import os\nwhile True: os.write(1, b'x')",
}


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True, stalled_timeout="2s", threads=32) as made:
        made.alfa, made.bravo = made.token("alfa", "run"), made.token("bravo", "run")
        assert_works(made, made.alfa)
        yield made


def ask(server, what, accept, limit="8m"):
    """A plain socket on which such a run was asked for, with buffers as small as they get."""
    plain = server.raw(tcp=True)
    body = ('{"code": %s, "policy": {"output_limit": "%s"}, "timeout": 60}' % (json.dumps(FLOODS[what]), limit)).encode()
    send(plain, request_bytes("POST", "/v1/runs", [f"Authorization: Bearer {server.alfa}".encode(), b"Content-Type: application/json", f"Accept: {accept}".encode()], body))
    return plain


@pytest.mark.parametrize("accept", [SSE, NDJSON])
@pytest.mark.parametrize("what", FLOODS)
def test_who_does_not_read(server, what, accept):
    before = peak(server, reset=True)
    limit = "8m" if what != "small pieces" else "64k"
    with ask(server, what, accept, limit) as plain:
        assert plain.recv(12) == b"HTTP/1.1 200"
        for token in (server.alfa, server.bravo):
            assert_works(server, token)
        # The run is not held up: it ends by its limit, as if nobody listened. Ours is the newest but those of the line above.
        run = next(line for line in plain.recv(4096).split(b"\r\n") if line.startswith(b"Glovebox-Run: ")).split()[1].decode()
        wait_for(lambda: server.get(f"/v1/runs/{run}/events?from=99999999", token=server.alfa).json["ended"])
        if not SANITIZED and os.geteuid() == 0:
            assert peak(server) - before < 24 * MIB
        # Everything is there for whoever asks.
        with server.get(f"/v1/runs/{run}/events", token=server.alfa, stream=accept) as stream:
            whole = Outcome.of_events(list(stream))
        assert whole.verdict == "output" and len(whole.out) + len(whole.err) == (8 * MIB if limit == "8m" else 65536)


def test_many_that_do_not_read(server):
    """Twenty of one run: what waits for them is bounded, and they are cut off; their threads are free then."""
    run = server.post("/v1/runs", {"code": FLOODS["output"], "policy": {"output_limit": "16m"}, "detach": True}, token=server.alfa).expect(202).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}/events?from=99999999", token=server.alfa).json["ended"])
    before, low = peak(server, reset=True), memory(server)
    stalled = []
    for _ in range(20):
        plain = server.raw(tcp=True)
        send(plain, request_bytes("GET", f"/v1/runs/{run}/events", [f"Authorization: Bearer {server.alfa}".encode(), f"Accept: {NDJSON}".encode()]))
        stalled.append(plain)
    assert_works(server, server.bravo)
    assert wait_until(lambda: server.get("/v1/stats").json["server"]["connections"] <= 1, PATIENCE, 0.1), "they are still held"
    for plain in stalled:
        plain.close()
    if not SANITIZED and os.geteuid() == 0:
        assert peak(server) - before < 64 * MIB and memory(server) - low < 32 * MIB
    assert_works(server, server.alfa)


@pytest.mark.parametrize("accept, parse", [(SSE, sse_events), (NDJSON, ndjson_events)])
def test_who_reads_slowly(server, accept, parse):
    """A little at a time, never stalled: all of it comes."""
    with ask(server, "output", accept, "2m") as plain:
        data = b""
        while True:
            piece = plain.recv(16384)
            if not piece:
                break
            data += piece
            if len(data) % 7 == 0:
                time.sleep(0.005)
    outcome = Outcome.of_events(parse(dechunked(data)))
    assert outcome.verdict == "output" and len(outcome.out) == 2 * MIB


def test_a_result_nobody_reads(server):
    """The same for an answer in one piece; its connection ends, and the run is what it was."""
    with ask(server, "output", "application/json", "8m") as plain:
        plain.recv(1)
        assert_works(server, server.bravo)
        assert wait_until(lambda: server.get("/v1/stats").json["server"]["connections"] <= 1, PATIENCE, 0.1)
    ended = next(run for run in server.get("/v1/runs?limit=5", token=server.alfa).json["runs"])
    assert server.get(f"/v1/runs/{ended['id']}", token=server.alfa).json["result"]["verdict"]["kind"] == "output"
