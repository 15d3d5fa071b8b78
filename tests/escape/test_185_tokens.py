# SPDX-License-Identifier: Apache-2.0
"""185. A peer without a token, with an old one, another server's, a part of one, one with NUL or of 2 MiB, or one in the wrong place => the same
401 for all, whatever there is behind it; who tries often is put off, and his neighbours are not.
"""
import json
import re
import secrets
import subprocess

import pytest
from conftest import wait_until
from hostile_clients import answers, exchange, request_bytes, routes, statuses, tenants
from server import PATIENCE, PROGRAM, Server

ROUTES = [(row["method"], row["pattern"]) for row in routes() if not row["open"]]


class Strangers:
    """Each comes from an address of its own, since one that tries often is put off."""

    def __init__(self):
        self.n = 0

    def __call__(self):
        self.n += 1
        return f"127.{185 + self.n // 62500}.{self.n // 250 % 250}.{self.n % 250 + 1}"


stranger = Strangers()


def ask(server, fields=(), path="/v1/info", method="GET", body=b""):
    return exchange(server, request_bytes(method, path, fields, body), source=stranger())


@pytest.fixture(scope="module")
def refusal(tenants):
    """What somebody without anything gets."""
    data = ask(tenants)
    (status, fields, body), = answers(data)
    assert status == 401 and json.loads(body)["error"]["code"] == "unauthorized" and fields["www-authenticate"] == "Bearer"
    return data


def bearer(token):
    return b"Authorization: Bearer " + (token if isinstance(token, bytes) else token.encode())


def revoke(server, token):
    argv = [str(PROGRAM), "token", "revoke", token[4:12]]
    subprocess.run(argv, env=server.environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True)


def test_no_route_is_told_from_another(tenants, refusal):
    """Nobody learns without a token what there is: all addresses answer alike, byte for byte, those that are none too."""
    session = tenants.post("/v1/sessions", {"template": None}, token=tenants.bravo).expect(201).json["id"]
    run = tenants.post("/v1/runs", {"code": "1"}, token=tenants.bravo).expect(200).json["id"]
    tenants.put(f"/v1/sessions/{session}/files/there", b"x", token=tenants.bravo).expect(201)
    real, random = {"session": session, "run": run, "context": "1", "path...": "there"}, {"session": "0" * 32, "run": "0" * 32, "context": "9", "path...": "not"}
    for method, pattern in ROUTES:
        for ids in (real, random):
            path = re.sub(r"\{(.*?)\}", lambda match: ids[match[1]], pattern)
            assert ask(tenants, method=method, path=path) == refusal, (method, path)
            # With a body the connection ends, which is said. All of it: also what would be refused for its type, size or words.
            for fields, body in (((), b"{}"), ((b"Content-Type: text/html",), b"no json"), ((b"Accept: image/png",), b"{}")):
                assert ask(tenants, fields, path, method, body) == refusal, (method, path)
    for path in ("/", "/v1", "/v1/nothing", "/v2/runs", "/metrics/", "/%zz", "/v1/sessions/%00", "/v1/runs?x=%", "/favicon.ico", "/.git/config"):
        for method in ("GET", "POST", "BREW"):
            assert ask(tenants, path=path, method=method) == refusal, (method, path)
    tenants.delete(f"/v1/sessions/{session}", token=tenants.bravo).expect(204)


def test_tokens_that_do_not_count(tenants, refusal):
    good, other = tenants.alfa, tenants.bravo
    revoked, expired = tenants.token("alfa", "run"), tenants.token("alfa", "run", expires="1s")
    revoke(tenants, revoked)
    assert wait_until(lambda: tenants.get("/v1/info", token=expired).status == 401, PATIENCE, 0.1)
    with Server(tcp=True) as elsewhere:
        foreign = elsewhere.token("alfa", "run", "admin")
    tokens = [b"", b"x", revoked, expired, foreign, good[:13] + other[13:], other[:13] + good[13:], good.swapcase(), good + "A", good + good, f"{good},{other}", f'"{good}"', good[13:],
              "gbx_" + good[4:12], "gbx__" + good[13:], "gbx_aaaaaaaa_" + "A" * 43, "gbx_" + "?" * 8 + "_" + "?" * 43, "gbx_' OR 1=1_" + "A" * 40, good.replace("gbx_", "gbx-"), good[:20] + "\t" + good[21:],
              good.encode() + b"\xc3\xa9", b"\xff" * 56, b"gbx_" + b"\x80" * 52, "%67" + good[1:], "..", "null", "undefined", "local"]
    for token in tokens:
        assert ask(tenants, [bearer(token)]) == refusal, token
    wrong = [f"Authorization: {good}", f"Authorization: Basic {good}", f"Authorization: Bearer\t{good}", f"Authorization: Bearer,{good}", f"Authorization: Token {good}",
             f"Proxy-Authorization: Bearer {good}", f"X-Api-Key: {good}", f"Cookie: token={good}", f"X-Forwarded-Authorization: Bearer {good}", "X-Forwarded-For: 127.0.0.1",
             "X-Real-IP: 127.0.0.1", "X-Tenant: alfa", "Forwarded: for=127.0.0.1", "Authorization: Bearer", "Authorization:"]
    for line in wrong:
        assert ask(tenants, [line.encode()]) == refusal, line
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert statuses(ask(tenants, [f"Authorization: {scheme} {good}".encode()])) == [200]


def test_every_part_of_a_token(tenants, refusal):
    """Each shorter and each changed one is as wrong as any other."""
    good = tenants.alfa
    for n in range(len(good)):
        assert ask(tenants, [bearer(good[:n])]) == refusal, n
        changed = good[:n] + ("a" if good[n] != "a" else "b") + good[n + 1:]
        assert ask(tenants, [bearer(changed)]) == refusal, n
    # The last letter of 256 bits has two of no meaning. It is the text that counts, not the number.
    last = [good[:-1] + c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" if c != good[-1]]
    assert all(ask(tenants, [bearer(token)]) == refusal for token in last)


def test_in_the_address_or_the_body(tenants, refusal):
    good = tenants.alfa
    for path in (f"/v1/info?token={good}", f"/v1/info?access_token={good}", f"/v1/info?Authorization=Bearer%20{good}", f"/{good}/v1/info"):
        assert ask(tenants, path=path) == refusal
    body = json.dumps({"token": good, "access_token": good, "code": "1"}).encode()
    assert ask(tenants, [b"Content-Type: application/json"], "/v1/runs", "POST", body) == refusal
    assert ask(tenants, [b"Content-Type: application/x-www-form-urlencoded"], "/v1/runs", "POST", f"access_token={good}".encode()) == refusal
    # Userinfo has no place in a target or a Host.
    assert statuses(exchange(tenants, f"GET http://x:{good}@localhost/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), source=stranger())) == [400]
    assert statuses(exchange(tenants, f"GET /v1/info HTTP/1.1\r\nHost: x:{good}@localhost\r\n\r\n".encode(), source=stranger())) == [400]


def test_tokens_that_are_no_header(tenants):
    good = tenants.alfa.encode()
    for line, status in ((bearer(good[:20] + b"\0" + good[20:]), 400), (bearer(good + b"\0"), 400), (b"Authorization\0: Bearer " + good, 400), (bearer(good) + b"\r\n " + good, 400),
                         (bearer(good) + b"\r\n" + bearer(good), 400), (bearer(good) + b"\r\n" + bearer("x"), 400), (bearer(good + b"\x0b"), 400), (bearer(good + b"\x7f"), 400),
                         (bearer(b"gbx_" + b"a" * (2 << 20)), 431), (bearer(b" " * 20000 + good), 431)):
        data = exchange(tenants, request_bytes("GET", "/v1/info", [line]), source=stranger())
        assert statuses(data) == [status] and b"tenant" not in data, line[:80]


def test_who_tries_often_is_put_off(tenants):
    """20 wrong ones in a minute; after that 429. A token that counts is taken all the same, and other addresses do not notice."""
    here, there = "127.250.1.1", "127.250.1.2"

    def status(token, source):
        return statuses(exchange(tenants, request_bytes("GET", "/v1/info", [bearer(token)]), source=source))[0]

    seen = [status(f"gbx_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}", here) for _ in range(40)]
    assert seen == [401] * 20 + [429] * 20
    data = exchange(tenants, request_bytes("GET", "/v1/info", [bearer("x")]), source=here)
    assert answers(data)[0][1]["retry-after"]
    assert status(tenants.alfa, here) == 200 and status("x", there) == 401 and status(tenants.bravo, there) == 200
    # What needs no token is not counted, and neither is what was no request.
    assert statuses(exchange(tenants, request_bytes("GET", "/healthz"), source=here)) == [200]


def test_a_refused_body_is_no_request(tenants, refusal):
    """What came with a request that was refused is not looked at, even when it is a good request itself."""
    inner = request_bytes("POST", "/v1/runs", [bearer(tenants.alfa), b"Content-Type: application/json"], b'{"code": "print(185)"}')
    before = tenants.get("/v1/runs", token=tenants.alfa).json["runs"]
    for fields in ([], [bearer(tenants.bravo[:-1] + "!")]):
        assert ask(tenants, fields, "/v1/runs", "POST", inner) == refusal
        data = exchange(tenants, request_bytes("POST", "/v1/runs", [*fields, b"Content-Length: 5"], close=False) + b"hello" + inner, source=stranger())
        assert statuses(data) == [401]
    assert tenants.get("/v1/runs", token=tenants.alfa).json["runs"] == before


def test_scopes_are_no_way_in(tenants):
    """A token of less is told what it lacks, before anything about the address is."""
    reader, meter = tenants.token("alfa", "read"), tenants.token("alfa", "metrics")
    ids = {"session": "0" * 32, "run": "0" * 32, "context": "1", "path...": "x"}
    for row in routes():
        if row["open"] or not row["scopes"]:
            continue
        path = re.sub(r"\{(.*?)\}", lambda match: ids[match[1]], row["pattern"])
        for token, has in ((reader, "read"), (meter, "metrics")):
            answer = tenants.request(row["method"], path, body=b"not even json" if row["method"] in ("POST", "PUT", "PATCH") else None, token=token)
            if has in row["scopes"]:
                assert answer.status in (200, 404), answer.explain()
            else:
                assert (answer.status, answer.code) == (403, "denied") and row["scopes"][0] in answer.error["message"], answer.explain()
