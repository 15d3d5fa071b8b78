# SPDX-License-Identifier: Apache-2.0
"""199. A peer without a token asks for health, readiness, metrics, the description and for things that fail => it learns that there is a server, and no path, version, id,
tenant, name of a host or number of anything; no page may read it.
"""
import json
import os
import re
import socket

import pytest
from hostile_clients import answers, exchange, request_bytes, routes, tenants

OPEN = {row["pattern"] for row in routes() if row["open"]}


def ask(server, data):
    return exchange(server, data, source="127.199.0.1")


def test_what_is_open():
    """These, and no others. Whoever adds one says here that it may be."""
    assert OPEN == {"/healthz", "/readyz", "/openapi.json"}
    assert {row["method"] for row in routes() if row["open"]} == {"GET"}


@pytest.fixture(scope="module")
def busy(tenants):
    """There is something to be told about."""
    tenants.named = tenants.post("/v1/sessions", {"name": "canary-name", "metadata": {"canary": "metadata"}}, token=tenants.bravo).expect(201).json["id"]
    tenants.ran = tenants.post(f"/v1/sessions/{tenants.named}/runs", {"code": "print('canary-output')"}, token=tenants.bravo).expect(200).json["id"]
    yield tenants
    tenants.delete(f"/v1/sessions/{tenants.named}", token=tenants.bravo).expect(204)


def forbidden(server):
    """Words that strangers have no business with."""
    return [server.named, server.ran, "canary", "bravo", "alfa", server.bravo[4:12], str(server.directory), str(server.state), "/tmp/", "/usr/", "/home/", "/root", "/proc/", "/sys/", "/etc/", "/work", str(server.pid), socket.gethostname(), os.uname().release, "0.1.0",
            "Python", "python3", "libevent", "OpenSSL", "SQLite", "jansson", "Linux", "uid", ".c:", "errno", "Traceback", "x86_64", "Debian"]


def assert_tells_nothing(server, data, but=()):
    (status, fields, body), = answers(data)
    text = data.decode("utf-8", "replace")
    found = [word for word in forbidden(server) if word in text and word not in but]
    assert not found, (found, text[:500])
    assert fields["server"] == "glovebox" and fields["cache-control"] == "no-store" and fields["x-content-type-options"] == "nosniff"
    assert set(fields) <= {"server", "content-type", "content-length", "cache-control", "x-content-type-options", "connection", "www-authenticate", "retry-after", "allow"}, fields
    assert not [name for name in fields if name.startswith("access-control")]
    return status, json.loads(body)


def test_open_ones(busy):
    assert assert_tells_nothing(busy, ask(busy, request_bytes("GET", "/healthz"))) == (200, {"status": "ok"})
    assert assert_tells_nothing(busy, ask(busy, request_bytes("GET", "/readyz"))) == (200, {"status": "ready"})
    # The description is the same for every server of a version: it has that, and examples of words, and nothing of this one.
    data = ask(busy, request_bytes("GET", "/openapi.json"))
    words = [busy.named, busy.ran, "canary", "bravo", "alfa", str(busy.directory), str(busy.state), str(busy.tcp[1]), socket.gethostname(), os.uname().release]
    assert not [word for word in words if word in data.decode()]
    described = json.loads(answers(data)[0][2])
    assert described["openapi"].startswith("3.1") and all(server["url"].startswith("/") for server in described.get("servers", []))


def test_the_others(busy):
    """Metrics and whatever else there is: 401, in the same words."""
    seen = set()
    for path in ("/metrics", "/v1/info", "/v1/doctor", "/v1/policies", "/v1/languages", "/v1/templates", "/v1/audit", "/v1/stats", f"/v1/sessions/{busy.named}", f"/v1/runs/{busy.ran}", "/nothing", "/debug", "/server-status", "/actuator/env", "/.env"):
        data = exchange(busy, request_bytes("GET", path), source=f"127.199.1.{len(seen) % 200 + hash(path) % 50 + 1}")
        status, body = assert_tells_nothing(busy, data)
        assert status in (401, 429) and body["error"]["details"] == {}
        if status == 401:
            seen.add(data)
    assert len(seen) == 1


def test_errors(busy):
    """What is wrong with a request is said in general words; what was sent comes back shortened, as text in JSON."""
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET /x HTTP/9.9\r\n\r\n", b"A" * 100000, request_bytes("GET", "/healthz?x=1"), request_bytes("POST", "/healthz"), request_bytes("GET", "/healthz", host="attacker.test"), request_bytes("GET", "/healthz", [b"Origin: http://a"]),
                 request_bytes("GET", "/healthz", [b"Transfer-Encoding: gzip"]), request_bytes("GET", "/healthz", body=b"x"), request_bytes("DELETE", "/openapi.json"), request_bytes("GET", "/healthz/"), request_bytes("GET", "/" + "a" * 9000)):
        status, body = assert_tells_nothing(busy, exchange(busy, data, source="127.199.2.1"))
        assert status in (400, 401, 403, 404, 405, 413, 414, 429, 431, 505) and set(body) == {"error"} and set(body["error"]) == {"code", "message", "hint", "details"}
    long = request_bytes("GET", "/healthz?" + "x" * 7000 + "=1")
    assert len(ask(busy, long)) < 1000
    # A host's name that is markup comes back as no markup that a page could run: it is JSON, and never shown as anything else.
    (_, fields, body), = answers(ask(busy, request_bytes("GET", "/healthz?%3Cscript%3E=1")))
    assert fields["content-type"] == "application/json" and fields["x-content-type-options"] == "nosniff" and b"\n" not in body


def test_numbers_do_not_grow(busy):
    """Neither times nor counters: two looks with work between them are the same, byte for byte."""
    paths = ("/healthz", "/readyz", "/openapi.json", "/nothing")
    before = [exchange(busy, request_bytes("GET", path), source=f"127.199.3.{i + 1}") for i, path in enumerate(paths)]
    for _ in range(3):
        busy.post("/v1/runs", {"code": "1"}, token=busy.bravo).expect(200)
    assert [exchange(busy, request_bytes("GET", path), source=f"127.199.4.{i + 1}") for i, path in enumerate(paths)] == before


def test_no_page_may_read_it(busy):
    for path in ("/healthz", "/openapi.json", "/metrics", "/nothing"):
        for fields in ([b"Origin: http://attacker.test"], [b"Origin: null"], [b"Origin: http://attacker.test", b"Access-Control-Request-Method: GET"], [b"Cookie: a=b", b"Origin: http://localhost:1"]):
            for method in ("GET", "OPTIONS", "HEAD"):
                head = exchange(busy, request_bytes(method, path, fields), source="127.199.5.1").partition(b"\r\n\r\n")[0]
                assert head.startswith(b"HTTP/1.1 403 ") and b"Access-Control" not in head and b"Set-Cookie" not in head


def test_with_a_token_paths_are_nobodys(busy):
    """A tenant does not learn where the host keeps things either: not from what it is told about itself, nor from what fails."""
    words = [str(busy.directory), str(busy.state), "/tmp/gbtest"]
    for path in ("/v1/info", "/v1/doctor", "/v1/policies", "/v1/templates", "/v1/languages", "/v1/stats", f"/v1/sessions/{busy.named}", f"/v1/runs/{busy.ran}", "/v1/audit"):
        body = busy.get(path, token=busy.bravo).body.decode()
        assert not [word for word in words if word in body], path
    for answer in (busy.post("/v1/runs", {"code": "1", "template": "x"}, token=busy.bravo), busy.post("/v1/runs", {"code": "1", "files": {"a/b": "", "a": ""}}, token=busy.bravo), busy.get(f"/v1/sessions/{busy.named}/files/none", token=busy.bravo),
                   busy.post("/v1/sessions", {"workspace": "kept"}, token=busy.bravo), busy.post("/v1/runs", {"code": "1", "policy": {"env": {"A": "x" * 300000}}}, token=busy.bravo)):
        assert not [word for word in words if word in answer.body.decode()] and not re.search(r"/(tmp|root|home|work|proc)/", answer.body.decode()), answer.explain()
