# SPDX-License-Identifier: Apache-2.0
"""188. A client sends what two programs would read in two ways: two lengths, a length and chunks, folded and unfinished lines, odd chunks, odd request
lines, and behind it a request that must not be seen => 400 and the connection ends; what lies behind it is never a request.

More of the same, with sizes and times, is in tests/e2e/test_http.py; the parser's own tests and its fuzzer are beside it (src/http).
"""
import json
import random

import pytest
from hostile_clients import HOST, answers, exchange, read_all, request_bytes, send, statuses, tenants

RUN = b'{"code": "print(188)"}'
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(fields, body=b"", target=b"/v1/runs", version=b"HTTP/1.1"):
    return b"POST " + target + b" " + version + b"\r\n" + HOST + JSON + fields + b"\r\n" + body


# A whole request of its own: when it is seen as one, a run is there.
HIDDEN = post(b"Content-Length: %d\r\n" % len(RUN), RUN)
SIZE = b"%d" % len(HIDDEN)


def line(text):
    return text + b"\r\n" + HOST + b"\r\n"


REFUSED = {
    # where the body ends, said twice or oddly
    "length of the hidden one, and chunks": post(b"Content-Length: " + SIZE + b"\r\n" + CHUNKED, b"0\r\n\r\n"),
    "chunks, and the length of the hidden one": post(CHUNKED + b"Content-Length: " + SIZE + b"\r\n", b"0\r\n\r\n"),
    "chunks and a length of 0": post(CHUNKED + b"Content-Length: 0\r\n", b"0\r\n\r\n"),
    "lengths that differ": post(b"Content-Length: 0\r\nContent-Length: " + SIZE + b"\r\n"),
    "lengths that differ, the other way round": post(b"Content-Length: " + SIZE + b"\r\nContent-Length: 0\r\n"),
    "lengths in other letters": post(b"content-length: 0\r\nCONTENT-LENGTH: " + SIZE + b"\r\n"),
    "lengths as a list": post(b"Content-Length: 0, " + SIZE + b"\r\n"),
    "the same length as a list": post(b"Content-Length: 0, 0\r\n"),
    "an empty length": post(b"Content-Length:\r\n"),
    "a blank length": post(b"Content-Length:   \r\n"),
    "a negative length": post(b"Content-Length: -1\r\n"),
    "a negative zero": post(b"Content-Length: -0\r\n"),
    "a length with a plus": post(b"Content-Length: +0\r\n"),
    "a length in hexadecimal digits": post(b"Content-Length: 0x0\r\n"),
    "a length with a point": post(b"Content-Length: 0.0\r\n"),
    "a length with an exponent": post(b"Content-Length: 0e0\r\n"),
    "a length with a blank inside": post(b"Content-Length: 0 0\r\n"),
    "a length with a vertical tab": post(b"Content-Length: \x0b0\r\n"),
    "a length with a form feed": post(b"Content-Length: 0\x0c\r\n"),
    "a length in other digits": post("Content-Length: \u0660\r\n".encode()),
    "a length of 2^64": post(b"Content-Length: 18446744073709551616\r\n"),
    "a length of 2^64 + 5": post(b"Content-Length: 18446744073709551621\r\n", b"hello"),
    "a length of 2^128": post(b"Content-Length: 340282366920938463463374607431768211456\r\n"),
    "a quoted length": post(b'Content-Length: "0"\r\n'),
    "a coding that is none": post(b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n"),
    "a coding, then another": post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    "another coding, then chunks": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "chunks twice": post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
    "a coding with a parameter": post(b"Transfer-Encoding: chunked;q=1\r\n", b"0\r\n\r\n"),
    "a quoted coding": post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"),
    "an empty coding": post(b"Transfer-Encoding:\r\n", b"0\r\n\r\n"),
    "a coding with a comma": post(b"Transfer-Encoding: ,chunked\r\n", b"0\r\n\r\n"),
    "a coding with a tail": post(b"Transfer-Encoding: chunkedx\r\n", b"0\r\n\r\n"),
    "a coding with a NUL": post(b"Transfer-Encoding: chunked\0\r\n", b"0\r\n\r\n"),
    "a coding in other letters": post(b"Transfer-Encoding: CHUNKED\r\n", b"0\r\n\r\n"),
    "a coding on two lines": post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
    "a coding behind a tab and a line": post(b"X: y\r\n\tTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "a coding with a blank name": post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    "a coding with a tab in its name": post(b"Transfer-Encoding\t: chunked\r\n", b"0\r\n\r\n"),
    "a coding in old HTTP": post(CHUNKED, b"0\r\n\r\n", version=b"HTTP/1.0"),
    # chunks
    "no size": post(CHUNKED, b"\r\n\r\n0\r\n\r\n"),
    "a size with a plus": post(CHUNKED, b"+0\r\n\r\n"),
    "a size with a minus": post(CHUNKED, b"-1\r\n\r\n"),
    "a size that is none": post(CHUNKED, b"g\r\n\r\n"),
    "a size in C": post(CHUNKED, b"0x0\r\n\r\n"),
    "a size with a blank before": post(CHUNKED, b" 0\r\n\r\n"),
    "a size with a blank behind": post(CHUNKED, b"0 \r\n\r\n"),
    "a size with a tab": post(CHUNKED, b"0\t\r\n\r\n"),
    "a size of 2^64": post(CHUNKED, b"10000000000000000\r\n"),
    "a size of 17 zeros": post(CHUNKED, b"0" * 17 + b"\r\n\r\n"),
    "a size with an extension": post(CHUNKED, b"0;x\r\n\r\n"),
    "a size with a quoted extension": post(CHUNKED, b'0;x="\r\n\r\n"\r\n\r\n'),
    "an extension of a line feed": post(CHUNKED, b"2;\nxx\r\n0\r\n\r\n"),
    "a size that ends with a line feed": post(CHUNKED, b"0\n\r\n"),
    "a size that ends with a carriage return": post(CHUNKED, b"0\rX\r\n"),
    "a last line of a line feed": post(CHUNKED, b"0\r\n\n"),
    "a chunk that goes on": post(CHUNKED, b"1\r\nab\r\n0\r\n\r\n"),
    "a chunk without its end": post(CHUNKED, b"1\r\na0\r\n\r\n"),
    "a chunk that ends with a line feed": post(CHUNKED, b"1\r\na\n0\r\n\r\n"),
    "a trailer": post(CHUNKED, b"0\r\nContent-Length: 0\r\n\r\n"),
    "a request for a trailer": post(CHUNKED, b"0\r\n" + HIDDEN),
    # lines
    "a line feed": post(b"X: y\nContent-Length: 0\r\n"),
    "a carriage return": post(b"X: y\rContent-Length: 0\r\n"),
    "two carriage returns": post(b"X: y\r\r\n"),
    "a head that ends with line feeds": b"GET /v1/info HTTP/1.1\r\nHost: localhost\n\n",
    "a NUL in a value": post(b"X: a\0b\r\n"),
    "a NUL in a name": post(b"Content-Length\0: 0\r\n"),
    "a name of more than ASCII": post("Content-L\u00e9ngth: 0\r\n".encode()),
    "a name with a slash": post(b"Content/Length: 0\r\n"),
    "a name in brackets": post(b"[x]: y\r\n"),
    "no colon": post(b"Content-Length 0\r\n"),
    "no name": post(b": y\r\n"),
    "a blank as a name": post(b" : y\r\n"),
    "a line without end": b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n" + b"X" * 20000,
    # the request line
    "two blanks": line(b"GET  /v1/info HTTP/1.1"),
    "a tab": line(b"GET\t/v1/info HTTP/1.1"),
    "a blank before": line(b" GET /v1/info HTTP/1.1"),
    "an empty line before": line(b"\r\nGET /v1/info HTTP/1.1"),
    "a blank in the target": line(b"GET /v1/info /x HTTP/1.1"),
    "a blank behind the version": line(b"GET /v1/info HTTP/1.1 "),
    "more behind the version": line(b"GET /v1/info HTTP/1.1 x"),
    "no version": line(b"GET /v1/info"),
    "no target": line(b"GET HTTP/1.1"),
    "an old version": line(b"GET /v1/info HTTP/0.9"),
    "a new version": line(b"GET /v1/info HTTP/1.2"),
    "a long version": line(b"GET /v1/info HTTP/1.10"),
    "a version of 2": line(b"GET /v1/info HTTP/2.0"),
    "a version in other letters": line(b"GET /v1/info http/1.1"),
    "another protocol": line(b"GET /v1/info ICY/1.1"),
    "a method with a NUL": line(b"G\0T /v1/info HTTP/1.1"),
    "a method in quotes": line(b'"GET" /v1/info HTTP/1.1'),
    "a method without end": line(b"G" * 17 + b" /v1/info HTTP/1.1"),
    "a target with a NUL": line(b"GET /v1/info\0 HTTP/1.1"),
    "a target with a line feed": line(b"GET /v1/info\nX: y HTTP/1.1"),
    "a target of more than ASCII": line("GET /v1/inf\u00f6 HTTP/1.1".encode()),
    "a target with a backslash": line(b"GET \\v1\\info HTTP/1.1"),
    "a target that is whole": line(b"GET http://localhost/v1/info HTTP/1.1"),
    "a target that is another's": line(b"GET https://attacker.test/v1/info HTTP/1.1"),
    "a target without a slash": line(b"GET v1/info HTTP/1.1"),
    "a target with a fragment": line(b"GET /v1/info#x HTTP/1.1"),
    "a target with a quote": line(b'GET /v1/"info" HTTP/1.1'),
    "a target with angles": line(b"GET /<v1> HTTP/1.1"),
    "an authority": line(b"CONNECT attacker.test:443 HTTP/1.1"),
    "a star": line(b"OPTIONS * HTTP/1.1"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + b"\0" * 100 + b"\r\n\r\n",
    "SOCKS": b"\x05\x01\x00\r\n\r\n",
    "an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
}


@pytest.fixture
def nothing_hidden(tenants):
    """Of the hidden requests none was seen."""
    before = [run["id"] for run in tenants.get("/v1/runs?limit=1000").json["runs"]]
    yield
    assert [run["id"] for run in tenants.get("/v1/runs?limit=1000").json["runs"]] == before
    assert tenants.get("/v1/info").json["used"]["runs"] == 0


def assert_one_refusal(data, name):
    found = answers(data)
    assert len(found) == 1, (name, data)
    status, fields, body = found[0]
    assert status in (400, 413, 414, 431, 505) and fields["connection"] == "close", (name, data)
    error = json.loads(body)["error"]
    assert error["code"] in ("protocol", "too_large") and error["message"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tenants, nothing_hidden, name):
    assert_one_refusal(exchange(tenants, REFUSED[name] + HIDDEN + HIDDEN), name)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_behind_a_good_one(tenants, nothing_hidden, name):
    """On a connection that was good until then: the good one is answered, the bad one refused, the one behind it never seen."""
    good = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    found = answers(exchange(tenants, good + good + REFUSED[name] + HIDDEN))
    assert [status for status, _, _ in found[:2]] == [200, 200] and len(found) == 3 and found[2][0] in (400, 413, 414, 431, 505), (name, found)


def test_refused_in_pieces(tenants, nothing_hidden):
    """Cut anywhere, it is the same."""
    chance = random.Random(188)
    for name, data in REFUSED.items():
        data += HIDDEN
        for _ in range(2):
            cuts = sorted(chance.sample(range(1, len(data)), 4))
            with tenants.raw() as plain:
                for start, end in zip([0, *cuts], [*cuts, len(data)]):
                    send(plain, data[start:end])
                assert_one_refusal(read_all(plain), name)


def test_a_length_that_swallows_the_next(tenants, nothing_hidden):
    """What a length says is a body is a body, whatever it looks like."""
    for target in (b"/v1/runs", b"/v1/sessions", b"/v1/runs/" + b"0" * 32 + b"/cancel"):
        found = answers(exchange(tenants, post(b"Content-Length: " + SIZE + b"\r\n", HIDDEN, target) + b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))
        assert [status for status, _, _ in found] == [400, 200], found
        found = answers(exchange(tenants, post(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN), target) + b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))
        assert [status for status, _, _ in found] == [400, 200], found


def test_bodies_of_what_was_refused(tenants, nothing_hidden):
    """The head was refused: its body is not looked at, and nothing behind it either."""
    body = b"Content-Length: " + SIZE + b"\r\n"
    heads = {
        "nothing there": (post(body, target=b"/v1/nothing"), 404), "another method": (b"PUT /v1/runs HTTP/1.1\r\n" + HOST + body + b"\r\n", 405),
        "a body for who looks": (b"GET /healthz HTTP/1.1\r\n" + HOST + body + b"\r\n", 413), "a body for who deletes nothing": (b"BREW /v1/runs HTTP/1.1\r\n" + HOST + body + b"\r\n", 405),
        "too large": (post(b"Content-Length: 99999999999\r\n"), 413), "a coding of the body": (post(body + b"Content-Encoding: gzip\r\n"), 415), "not to be written": (post(body + b"Accept: image/png\r\n"), 406),
        "an expectation": (post(body + b"Expect: magic\r\n"), 417), "an odd query": (post(body, target=b"/v1/runs?%zz"), 400), "chunks for who looks": (b"GET /healthz HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n10\r\n", 413),
        "a foreign token": (post(body + b"Authorization: Bearer x\r\n"), 401), "a preflight": (post(body + b"Origin: null\r\n"), 403),
    }
    for name, (head, status) in heads.items():
        found = answers(exchange(tenants, head + HIDDEN + HIDDEN))
        assert [s for s, _, _ in found] == [status] and found[0][1]["connection"] == "close", (name, found)
        # Who waits to be asked for the body is not asked.
        found = answers(exchange(tenants, head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1) + HIDDEN))
        assert [s for s, _, _ in found] == [status], (name, found)


def test_only_hints(tenants, nothing_hidden):
    """What other programs obey is nothing here: no other protocol, no other method, no other address."""
    upgrade = [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]
    for fields in (upgrade, [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13"], [b"X-HTTP-Method-Override: DELETE"], [b"X-HTTP-Method: POST"],
                   [b"X-Original-URL: /v1/sessions"], [b"X-Rewrite-URL: /v1/sessions"], [b"X-Forwarded-Host: attacker.test"], [b"Forwarded: host=attacker.test"], [b"Content_Length: 500"], [b"Content-Length-X: 500"], [b"TE: trailers, chunked"],
                   [b"Trailer: Content-Length"], [b"Connection: Content-Length, Host"], [b"Keep-Alive: timeout=9999"], [b"Range: bytes=0-1"], [b"If-None-Match: *"], [b"Max-Forwards: 0"]):
        found = answers(exchange(tenants, request_bytes("GET", "/v1/info", fields)))
        assert [status for status, _, _ in found] == [200] and json.loads(found[0][2])["tenant"] == "local", fields
    assert statuses(exchange(tenants, request_bytes("TRACE", "/v1/info"))) == [405]


def test_odd_addresses(tenants, nothing_hidden):
    """An address has one spelling; what a proxy before us might have let through is not this one."""
    for target in ("/v1//runs", "//v1/runs", "/./v1/runs", "/v1/./runs", "/v1/x/../runs", "/v1/%72uns", "/v1%2fruns", "/v1/runs/", "/v1/runs;x=y", "/V1/RUNS", "/v1/runs%00", "/v1/runs%20", "/v1/runs.json", "/v1/runs%3fx", "/%2e/v1/runs", "/v1/runs%0d%0aX:y"):
        found = answers(exchange(tenants, post(b"Content-Length: %d\r\nConnection: close\r\n" % len(RUN), RUN, target.encode())))
        assert found[0][0] in (400, 404, 405) and len(found) == 1, (target, found)


def test_answers_stay_in_step(tenants):
    """Requests of all kinds, with and without bodies, one behind the other: each gets its own answer."""
    data = b"".join([
        b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n", HIDDEN, b"GET /v1/runs/" + b"0" * 32 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        post(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(RUN), RUN)), b"DELETE /v1/sessions/x HTTP/1.1\r\n" + HOST + b"\r\n", post(b"Content-Length: 2\r\n", b"[]"), b"GET /v1/info HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", HIDDEN])
    before = len(tenants.get("/v1/runs?limit=1000").json["runs"])
    with tenants.raw() as plain:
        send(plain, data)
        got = read_all(plain)
    head, _, rest = got.partition(b"\r\n\r\n")  # that of HEAD has a length and no body
    assert head.startswith(b"HTTP/1.1 200 ") and b"Content-Length: " in head
    found = answers(rest)
    assert [status for status, _, _ in found] == [404, 200, 404, 200, 404, 400, 200]
    assert [json.loads(found[i][2])["result"]["stdout"] for i in (1, 3)] == ["188\n"] * 2
    assert len(tenants.get("/v1/runs?limit=1000").json["runs"]) == before + 2
