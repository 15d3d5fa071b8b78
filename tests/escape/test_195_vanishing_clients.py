# SPDX-License-Identifier: Apache-2.0
"""195. A client vanishes at any byte: of what it sends, of the answer it waits for, of a stream, a file or an archive => the run goes on or is cancelled, as was asked;
no descriptor, thread, run or session is left.

$GLOVEBOX_CUTS is how often each kind of answer is cut (120; up to 900).
"""
import itertools
import json
import os
import socket
import struct
import threading

import pytest
from conftest import wait_until
from hostile_clients import assert_works, descriptors, read_all, request_bytes, send, threads
from server import NDJSON, PATIENCE, SSE, Server, wait_for

CUTS = int(os.environ.get("GLOVEBOX_CUTS", "120"))
AT_A_TIME = 6
OUTPUT = "".join(f"line {i} \u00e9\n" for i in range(20))
FINITE = f"import sys\nfor line in {OUTPUT!r}.splitlines(True): sys.stdout.write(line); sys.stdout.flush()"
ENDLESS = f"{FINITE}\nimport time\ntime.sleep(1000)"


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True, threads=64) as made:
        made.alfa = made.token("alfa", "run")
        made.session = made.post("/v1/sessions", {}, token=made.alfa).expect(201).json["id"]
        made.put(f"/v1/sessions/{made.session}/files/file", b"x" * 3000000, token=made.alfa).expect(201)
        for token in (made.alfa, None):
            assert_works(made, token)
        made.baseline = settle(made, 10**9, 10**9)
        yield made
        # After all of it: what there was before.
        files, tasks = made.baseline
        assert settle(made, files, tasks) <= (files + 4, tasks + 4)
        assert_works(made, made.alfa)


def settle(server, files, tasks):
    """Threads that have nothing to do end after ten seconds."""
    wait_for(lambda: counts(server) == (0, 1, 0))
    wait_until(lambda: descriptors(server) <= files and threads(server) <= tasks, 15, 0.2)
    return descriptors(server), threads(server)


def used_by(server):
    """A tenant that has many requests under way is put off, and so are those that the server does not know yet to be gone."""
    return wait_for(lambda: server.get("/v1/info", token=server.alfa).json.get("used"))


def counts(server):
    """Runs and sessions that are alive, and connections besides ours."""
    used = used_by(server)
    return used["runs"], used["sessions"], server.get("/v1/stats").json["server"]["connections"] - 1



def vanish(plain, how):
    """Quietly, with a reset, or one half after the other."""
    if how % 3 == 1:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how % 3 == 2:
        try:
            plain.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    plain.close()


def read_exactly(plain, n, last=None):
    """Or less, when the last words have come: how output is divided into events is as it happens."""
    data = b""
    while len(data) < n and not (last and last in data):
        piece = plain.recv(min(n - len(data), 65536))
        if not piece:
            break
        data += piece
    return data


def cut_after(server, data, n, how, last=None):
    """Asks, reads so many bytes of the answer, and is gone. What it has read. Not faster than runs end: there is a limit to them."""
    wait_for(lambda: used_by(server)["runs"] < 32)
    plain = server.raw(tcp=True)
    try:
        send(plain, data)
        return read_exactly(plain, n, last)
    finally:
        vanish(plain, how)


def many(numbers, function):
    """A few at a time."""
    todo, errors = iter(numbers), []
    lock = threading.Lock()

    def work():
        while not errors:
            with lock:
                n = next(todo, None)
            if n is None:
                return
            try:
                function(n)
            except BaseException as error:  # told below
                errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(AT_A_TIME)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def ask(server, body, accept, path="/v1/runs"):
    fields = [f"Authorization: Bearer {server.alfa}".encode(), b"Content-Type: application/json", f"Accept: {accept}".encode()]
    return request_bytes("POST", path, fields, json.dumps(body).encode())


def newest(server, n):
    return server.get(f"/v1/runs?limit={n}", token=server.alfa).expect(200).json["runs"][:n]


@pytest.mark.parametrize("where", ["alone", "in a session"])
@pytest.mark.parametrize("accept", [SSE, NDJSON, "application/json"])
def test_a_run_that_goes_on(server, accept, where):
    """Its output is whole, whenever the client went: nobody else notices."""
    path = "/v1/runs" if where == "alone" else f"/v1/sessions/{server.session}/runs"
    body = {"code": FINITE, "on_disconnect": "continue", **({} if where == "alone" else {"context": None})}
    data = ask(server, body, accept, path)
    with server.raw(tcp=True) as plain:
        send(plain, data)
        whole = len(read_all(plain))
    assert whole > 600
    before = newest(server, 1)[0]["id"]
    cuts = sorted({whole * i // CUTS for i in range(CUTS)} | {0, 1, whole - 1})
    many(cuts, lambda n: cut_after(server, data, n, n))
    wait_for(lambda: counts(server)[0] == 0)
    listed = server.get("/v1/runs?limit=1000", token=server.alfa).json["runs"]
    begun = list(itertools.takewhile(lambda run: run["id"] != before, listed))
    assert len(begun) == len(cuts)
    for run in begun:
        result = server.get(f"/v1/runs/{run['id']}", token=server.alfa).expect(200).json["result"]
        assert "verdict" in result, result
        assert (result["verdict"]["kind"], result["stdout"]) == ("ok", OUTPUT), result


@pytest.mark.parametrize("accept", [SSE, NDJSON, "application/json"])
def test_a_run_that_is_to_be_cancelled(server, accept):
    """It would sleep for a quarter of an hour."""
    data = ask(server, {"code": ENDLESS, "on_disconnect": "cancel", "timeout": 250}, accept)
    before = newest(server, 1)[0]["id"]
    with server.raw(tcp=True) as plain:  # how much there is to read before it sleeps
        send(plain, data)
        there = b""
        if accept != "application/json":
            while b"line 19" not in there:
                there += plain.recv(65536)
        plain.settimeout(0.2)
        try:
            there += plain.recv(65536)
        except TimeoutError:
            pass
    most = len(there)
    cuts = sorted({most * i // CUTS for i in range(CUTS)} | {0}) if most else [0] * 12
    many(cuts, lambda n: cut_after(server, data, n, n, b"line 19"))
    wait_for(lambda: counts(server)[2] == 0)  # what was sent has been taken
    wait_for(lambda: counts(server)[0] == 0)
    listed = server.get("/v1/runs?limit=1000", token=server.alfa).json["runs"]
    begun = list(itertools.takewhile(lambda run: run["id"] != before, listed))
    assert len(begun) == len(cuts) + 1
    for run in begun:
        result = server.get(f"/v1/runs/{run['id']}", token=server.alfa).expect(200).json["result"]
        assert "verdict" in result, result
        assert result["verdict"]["kind"] == "cancelled" and OUTPUT.startswith(result["stdout"]), result


@pytest.mark.parametrize("accept", [SSE, NDJSON])
def test_who_only_looks_on(server, accept):
    """Whoever follows a run of somebody else's request has no say in it."""
    run = server.post("/v1/runs", {"code": f"{FINITE}\nsys.stdin.read()", "interactive": True, "detach": True, "timeout": 250, "on_disconnect": "cancel"}, token=server.alfa).expect(202).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}", token=server.alfa).json["events"] > 1)
    data = request_bytes("GET", f"/v1/runs/{run}/events", [f"Authorization: Bearer {server.alfa}".encode(), f"Accept: {accept}".encode()])
    many(range(0, 600, max(1, 600 // CUTS)), lambda n: cut_after(server, data, n, n, b"line 19"))
    assert server.get(f"/v1/runs/{run}", token=server.alfa).json["state"] == "running"
    server.request("POST", f"/v1/runs/{run}/stdin?close=true", body=b"", token=server.alfa).expect(200)
    wait_for(lambda: server.get(f"/v1/runs/{run}", token=server.alfa).json["state"] == "ended")
    assert server.get(f"/v1/runs/{run}", token=server.alfa).json["result"]["verdict"]["kind"] == "ok"


def test_every_byte_of_a_request(server):
    """One that did not come to its end was never made; the last byte makes it."""
    data = ask(server, {"code": "print(195)"}, "application/json")
    before = newest(server, 1)[0]["id"]

    def leave(n):
        plain = server.raw(tcp=True)
        send(plain, data[:n])
        vanish(plain, n)

    many(range(len(data)), leave)
    wait_for(lambda: counts(server) == (0, 1, 0))
    assert newest(server, 1)[0]["id"] == before
    leave(len(data) * 3)  # all of it, and quietly
    wait_for(lambda: newest(server, 1)[0]["id"] != before)


@pytest.mark.parametrize("path", ["files/file", "archive", "stats?interval=0.1", "files"])
def test_other_answers(server, path):
    data = request_bytes("GET", f"/v1/sessions/{server.session}/{path}", [f"Authorization: Bearer {server.alfa}".encode(), f"Accept: {NDJSON if 'stats' in path else '*/*'}".encode()])
    most = {"files/file": 2900000, "archive": 2900000, "files": 300}.get(path, 1500)
    many(sorted({most * i // CUTS for i in range(CUTS)}), lambda n: cut_after(server, data, n, n))
    wait_for(lambda: counts(server)[2] == 0)
    assert server.get(f"/v1/sessions/{server.session}/files/file", token=server.alfa).body == b"x" * 3000000


@pytest.mark.waits
def test_every_byte_of_an_upload(server):
    """A file is there whole, or as it was."""
    head = request_bytes("PUT", f"/v1/sessions/{server.session}/files/upload", [f"Authorization: Bearer {server.alfa}".encode(), b"Content-Length: 300000"], close=False)
    data = head + b"n" * 300000
    server.put(f"/v1/sessions/{server.session}/files/upload", b"old", token=server.alfa).expect(201)

    def leave(n):
        plain = server.raw(tcp=True)
        send(plain, data[:n])
        vanish(plain, n)

    many([len(data) * i // CUTS for i in range(CUTS)], leave)
    wait_for(lambda: counts(server)[2] == 0)
    assert server.get(f"/v1/sessions/{server.session}/files/upload", token=server.alfa).body == b"old"
    entries = server.get(f"/v1/sessions/{server.session}/files", token=server.alfa).json["entries"]
    assert sorted(entry["name"] for entry in entries) == ["file", "upload"]
