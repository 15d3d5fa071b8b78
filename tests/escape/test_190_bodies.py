# SPDX-License-Identifier: Apache-2.0
"""190. A client sends JSON of a hundred thousand levels, a million keys, the same key twice, numbers without end, no UTF-8, a gigabyte; asks for answers of
which each needs much memory, many at a time; sends input that nobody reads => 400, 413 or 503, and the server's memory stays what it was.

tests/e2e/test_http.py has the same for one address in more forms; here it is every address that reads JSON.
"""
import gzip
import json
import os
import re
import threading

import pytest
from conftest import wait_until
from hostile_clients import HOST, SANITIZED, answers, assert_works, exchange, memory, peak, read_all, request_bytes, routes, send, statuses, tenants
from server import PATIENCE, wait_for

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
READERS = [(row["method"], row["pattern"]) for row in routes() if row["method"] in ("POST", "PATCH") and not row["bytes"] and not row["pattern"].endswith(("/restart", "/interrupt"))]


def around(text):
    return b'{"code": "1", "metadata": ' + text + b"}"


BOMBS = {
    "lists in lists": b"[" * 100000, "closed ones": b"[" * 100000 + b"]" * 100000, "objects in objects": b'{"a":' * 100000, "deep in a field": around(b"[" * 65 + b"]" * 65), "deep, as text": around(b'{"a":' * 65 + b"1" + b"}" * 65),
    "a million keys": b"{" + b",".join(b'"k%d":1' % i for i in range(1000000)) + b"}", "a million items": around(b"[" + b"1," * 1000000 + b"1]"), "a million empty lists": around(b"[" + b"[]," * 1000000 + b"1]"), "a million commas": b"{" + b"," * 1000000 + b"}",
    "the same key": b'{"code": "1", "code": "2"}', "the same key, spelt otherwise": b'{"code": "1", "c\\u006fde": "2"}', "the same key deep inside": around(b'{"a": {"b": 1, "b": 2}}'), "the same key thousands of times": b"{" + b",".join([b'"a":1'] * 10000) + b"}",
    "1e400": around(b"1e400"), "-1e400": around(b"-1e400"), "2^64": around(b"18446744073709551616"), "a number of a million digits": around(b"9" * 1000000), "a fraction of a million digits": around(b"0." + b"9" * 1000000), "NaN": around(b"NaN"), "Infinity": around(b"-Infinity"), "01": around(b"01"),
    "no UTF-8": around(b'"\xff"'), "an overlong form": around(b'"\xc0\xaf"'), "a surrogate as bytes": around(b'"\xed\xa0\x80"'), "a character cut off": around(b'"\xf0\x9f\x98"'), "a megabyte of no UTF-8": around(b'"' + b"\xff" * MIB + b'"'), "half of a surrogate": around(b'"\\ud83d"'),
    "the wrong halves": around(b'"\\ude00\\ud83d"'), "a NUL": around(b'"\\u0000"'), "a NUL in a key": around(b'{"a\\u0000b": "1"}'), "a raw NUL": around(b'"a\0b"'), "a raw line feed": around(b'"a\nb"'), "a byte-order mark": b'\xef\xbb\xbf{"code": "1"}',
    "UTF-16": '{"code": "1"}'.encode("utf-16"), "UTF-32": '{"code": "1"}'.encode("utf-32"), "a text without end": b'{"code": "' + b"x" * (5 * MIB), "a list": b"[]", "a text": b'"code"', "null": b"null", "two objects": b"{}{}", "a tail": b'{"code": "1"} x', "a comment": b'{"code": "1" /* */}',
    "a comma too many": b'{"code": "1",}', "quotes of the wrong kind": b"{'code': '1'}", "no quotes": b"{code: 1}", "blanks": b" " * (2 * MIB), "zeros": b"\0" * (2 * MIB), "half of it": b'{"code": "1"', "YAML": b"code: 1\n", "a pickle": b"\x80\x04\x95\x0b\0\0\0\0\0\0\0",
}


def path_of(pattern):
    return re.sub(r"\{.*?\}", "0" * 32, pattern)


@pytest.fixture(scope="module")
def living(tenants):
    """Addresses with things that are there: the body is what is wrong."""
    session = tenants.post("/v1/sessions", {}).expect(201).json["id"]
    tenants.run("1", session)
    run = tenants.post("/v1/runs", {"code": "import time; time.sleep(1000)", "detach": True, "timeout": 300}).expect(202).json["id"]
    yield {pattern: re.sub(r"\{run\}", run, re.sub(r"\{session\}", session, re.sub(r"\{context\}", "1", pattern))) for _, pattern in READERS}
    assert tenants.get(f"/v1/runs/{run}").json["state"] in ("queued", "running"), "a body that was refused has cancelled it"
    tenants.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
    tenants.delete(f"/v1/sessions/{session}").expect(204)


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(tenants, living, name):
    for method, pattern in READERS:
        before, low = peak(tenants, reset=True), memory(tenants)
        answer = tenants.request(method, living[pattern], body=BOMBS[name], headers=JSON)
        codes = (-32700, -32600) if pattern == "/mcp" else ("usage",)
        assert answer.status == 400 and answer.code in codes and len(answer.body) < 2048, (pattern, answer.explain())
        if not SANITIZED:
            assert memory(tenants) - low < 8 * MIB and (os.geteuid() != 0 or peak(tenants) - before < 8 * MIB), pattern


def test_a_gigabyte(tenants):
    """By its length before a byte is read; in chunks as soon as it is too much; as a coding that would become one not at all."""
    before = peak(tenants, reset=True)
    for method, pattern in READERS:
        head = f"{method} {path_of(pattern)} HTTP/1.1\r\n".encode() + HOST + b"Content-Type: application/json\r\n"
        assert statuses(exchange(tenants, head + b"Content-Length: 1073741824\r\n\r\n" + b" " * 100000)) == [413], pattern
        assert statuses(exchange(tenants, head + b"Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n")) == [413], pattern
        bomb = gzip.compress(b" " * (64 * MIB))
        assert statuses(exchange(tenants, head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb)) == [415], pattern
    with tenants.raw() as plain:
        send(plain, b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
        sent = 0
        try:
            while sent < 1024:
                plain.sendall(chunk)
                sent += 1
        except OSError:
            pass
        assert sent < 128
        assert statuses(read_all(plain)) == [413]
    if not SANITIZED and os.geteuid() == 0:
        assert peak(tenants) - before < 8 * MIB


def test_many_at_once(tenants):
    """Large ones together are refused before they are too much, and somebody who works does not notice."""
    body = json.dumps({"code": "x" * (16 * MIB), "nothing": 1}).encode()
    before, low, found, stop, failures = peak(tenants, reset=True), memory(tenants), [], threading.Event(), []

    def work():
        while not stop.is_set():
            answer = tenants.post("/v1/runs", {"code": "print(1)"}, token=tenants.bravo)
            if answer.status != 200:
                failures.append(answer.explain())

    def flood():
        answer = tenants.request("POST", "/v1/runs", body=body, headers=JSON, token=tenants.alfa)
        found.append((answer.status, answer.code))

    worker, floods = threading.Thread(target=work), [threading.Thread(target=flood) for _ in range(24)]
    for thread in [worker, *floods]:
        thread.start()
    for thread in floods:
        thread.join(PATIENCE)
    stop.set()
    worker.join(PATIENCE)
    assert not failures and set(found) <= {(400, "usage"), (503, "unavailable")} and len(found) == 24
    if not SANITIZED and os.geteuid() == 0:
        assert peak(tenants) - before < 1024 * MIB  # all of them together would be several times that
    assert wait_until(lambda: SANITIZED or memory(tenants) - low < 32 * MIB, PATIENCE)


def test_names_without_end(tenants):
    """What is quoted in an error is shortened, whatever it has in it."""
    for key in ("k" * MIB, "\u00e9" * MIB, "\U0001f600" * 100000, "\x1b[2J\r\nSet-Cookie: a=b\r\n\r\n", "\u202e\u2028\ufeff", "'\"\\" * 1000):
        for body in ({"code": "1", key: 1}, {"code": "1", "policy": {key: 1}}, {"code": "1", "policy": {"env": {key + "=": "x"}}}, {"code": "1", "language": key}, {"code": "1", "template": key}, {"code": "1", "policy": {"trust": key}},
                     {"code": "1", "files": {"../" + key: ""}}, {"code": "1", "timeout": key}, {"code": "1", "on_disconnect": key}, {"code": "1", "workspace": key}):
            answer = tenants.post("/v1/runs", body)
            assert answer.status == 400 and len(answer.body) < 4096 and "Set-Cookie" not in answer.headers, answer.explain()
            assert b"\x1b" not in answer.body and b"\n" not in answer.body


def test_large_results(tenants):
    """As JSON a result is many times its output. Those that ask for it at once get it one after the other, or are told to come again."""
    code = "import os\nfor _ in range(6): os.write(1, b'\\xff' * 1000000)"
    run = tenants.post("/v1/runs", {"code": code, "policy": {"output_limit": "8m"}, "detach": True, "timeout": 100}, token=tenants.alfa).expect(202).json["id"]
    assert wait_until(lambda: tenants.get("/v1/runs?limit=1", token=tenants.alfa).json["runs"][0]["state"] == "ended", PATIENCE, 0.1)
    before = peak(tenants, reset=True)
    ask = request_bytes("GET", f"/v1/runs/{run}", [f"Authorization: Bearer {tenants.alfa}".encode()])
    readers = []
    try:
        for _ in range(16):
            readers.append(tenants.raw(tcp=True))
            send(readers[-1], ask)
        heads = [plain.recv(12) for plain in readers]
        assert set(heads) <= {b"HTTP/1.1 200", b"HTTP/1.1 503"} and b"HTTP/1.1 200" in heads and b"HTTP/1.1 503" in heads
        assert_works(tenants, tenants.bravo)
        if not SANITIZED and os.geteuid() == 0:
            assert peak(tenants) - before < 1000 * MIB  # of 16 it would be more
        whole = next(plain for plain, head in zip(readers, heads) if head == b"HTTP/1.1 200")
        (_, _, body), = answers(b"HTTP/1.1 200" + read_all(whole))
        assert len(json.loads(body)["result"]["stdout"]) == 6000000
    finally:
        for plain in readers:
            plain.close()
    assert wait_until(lambda: tenants.get(f"/v1/runs/{run}", token=tenants.alfa).status == 200, PATIENCE, 0.1)


def test_large_results_of_who_waits(tenants):
    """The same for those that wait for their runs."""
    before, found = peak(tenants, reset=True), []
    body = {"code": "import os\nfor _ in range(5): os.write(1, b'\\xff' * 1000000)", "timeout": 100}
    waiters = [threading.Thread(target=lambda: found.append(tenants.post("/v1/runs", body, token=tenants.alfa))) for _ in range(10)]
    for waiter in waiters:
        waiter.start()
    for waiter in waiters:
        waiter.join(PATIENCE)
    assert len(found) == 10 and {answer.status for answer in found} <= {200, 503}
    for answer in found:
        run = answer.headers["Glovebox-Run"]
        if answer.status == 200:
            assert answer.json["id"] == run and len(answer.result["stdout"]) == 5000000
        else:  # it was run all the same, and is there
            assert wait_until(lambda: tenants.get(f"/v1/runs/{run}", token=tenants.alfa).status == 200, PATIENCE, 0.1)
    if not SANITIZED and os.geteuid() == 0:
        assert peak(tenants) - before < 1000 * MIB
    assert tenants.get("/v1/info", token=tenants.alfa).json["used"]["runs"] == 0


def test_input_nobody_reads(tenants):
    """It waits on the disk, not in memory; it neither holds up the run's end, nor those who come after it."""
    run = tenants.post("/v1/runs", {"code": "import time; print(1, flush=True); time.sleep(200)", "interactive": True, "detach": True, "timeout": 250}).expect(202).json["id"]
    tenants.wait_run(run, "running")
    before, found = peak(tenants, reset=True), []
    senders = [threading.Thread(target=lambda: found.append(tenants.request("POST", f"/v1/runs/{run}/stdin", body=b"x" * (50 * MIB)))) for _ in range(4)]
    for sender in senders:
        sender.start()
    assert wait_until(lambda: tenants.get(f"/v1/runs/{run}").json["state"] == "running" and tenants.get("/v1/stats").json["server"]["connections"] >= 5, PATIENCE)
    tenants.post(f"/v1/runs/{run}/cancel", {"kill": True}).expect(202)
    assert tenants.wait_run(run)["result"]["verdict"]["kind"] == "cancelled"
    for sender in senders:
        sender.join(PATIENCE)
    assert len(found) == 4 and {answer.status for answer in found} <= {200, 409}
    assert all(answer.json["accepted"] < 50 * MIB for answer in found if answer.status == 200)
    if not SANITIZED and os.geteuid() == 0:
        assert peak(tenants) - before < 32 * MIB
