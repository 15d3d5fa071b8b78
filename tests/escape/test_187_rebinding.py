# SPDX-License-Identifier: Apache-2.0
"""187. A page in somebody's browser reaches the server by a name that leads here (DNS rebinding), or from an origin of its own, or of none => 403 before
routes and tokens are looked at, nothing is run, and no page may read what is said.
"""
import json

import pytest
from hostile_clients import answers, exchange, request_bytes, statuses
from server import Server

OURS = "https://pages.example.com"

# {port}: that of the server.
NAMES = ["attacker.test", "x.localhost.attacker.test", "localhost.attacker.test", "localhost.attacker.test:{port}", "127.0.0.1.nip.io", "127.0.0.1.nip.io:{port}", "attacker.test:{port}", "sub.localhost",
         "localhost.localdomain", "localhost6", "ip6-localhost", "0.0.0.0", "0.0.0.0:{port}", "[::]", "[::]:{port}", "127.0.0.2", "127.0.0.2:{port}", "127.1", "127.1:{port}", "127.0.1:{port}",
         "2130706433", "2130706433:{port}", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "0", "127.0.0.01", "127.000.000.001", "[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:{port}",
         "[::ffff:7f00:1]:{port}", "[::127.0.0.1]:{port}", "[64:ff9b::7f00:1]", "[fe80::1]", "[::2]", "localhost:1", "localhost:80", "localhost:443", "127.0.0.1:1", "[::1]:1", "box.example.com:1", "169.254.169.254",
         "xbox.example.com", "box.example.com.attacker.test", "ox.example.com", "example.com", "pages.example.com", "127-0-0-1.attacker.test", "localhos", "localhostt", "metadata.google.internal", "host.docker.internal", "a" * 63 + ".test", "xn--lcalhost-54a"]
NO_NAMES = ["", " ", "localhost.", "127.0.0.1.", "localhost:", "localhost:0", "localhost:65536", "localhost:{port}0", "localhost:+{port}", "localhost:0{port}x", "localhost:{port}:{port}", ":{port}", "user@localhost", "user:pass@localhost:{port}",
            "localhost/", "localhost/v1", "localhost#x", "localhost?x", "local host", "localhost, localhost", "localhost;attacker.test", "http://localhost", "//localhost", "[::1", "::1", "::1:{port}", "[::1]x", "[127.0.0.1]", "[localhost]",
            "[::1%25lo]", "[fe80::1%lo]", "..", ".localhost", "-localhost", "loc\\alhost", "l%6fcalhost", "l\u00f6calhost", "\u2460\u2461", "localhost\tx", "'", "*", "a" * 300]
ORIGINS = ["null", "NULL", "", "*", "http://attacker.test", "http://attacker.test:{port}", "https://attacker.test", "http://x.localhost.attacker.test:{port}", "http://127.0.0.1.nip.io:{port}", "http://localhost", "http://localhost:1",
           "https://localhost:{port}", "http://127.0.0.2:{port}", "http://[::ffff:127.0.0.1]:{port}", "http://0.0.0.0:{port}", "http://user@localhost:{port}", "http://localhost:{port}/", "http://localhost:{port}.attacker.test", "http://localhost:{port}@attacker.test",
           "//localhost:{port}", "localhost:{port}", "localhost", "file://", "file:///etc/passwd", "data:text/html,x", "blob:http://localhost:{port}/x", "chrome-extension://abcdefgh", "moz-extension://x", "app://localhost", "ws://localhost:{port}",
           "https://pages.example.com.attacker.test", "http://pages.example.com", "https://pages.example.com:444", "https://xpages.example.com", "https://pages.example.com/", "HTTPS://PAGES.EXAMPLE.COM", "https://pages.example.com https://attacker.test",
           "https://pages.example.com, https://attacker.test", "https://pages.example.com\x09", "http://local\u0068ost:{port}x", "\u00e9"]

PATHS = [("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json"), ("GET", "/v1/info"), ("GET", "/metrics"), ("POST", "/v1/runs"), ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("DELETE", "/v1/sessions/" + "0" * 32), ("GET", "/nothing"), ("BREW", "/v1/runs"), ("GET", "/%zz"), ("OPTIONS", "/v1/runs")]


@pytest.fixture(scope="module")
def guarded():
    with Server(tcp=True, hosts=["box.example.com"], origins=[OURS]) as made:
        made.alfa = made.token("alfa", "run", "admin")
        yield made


def ask(server, method, path, host, *fields, body=b""):
    port = str(server.tcp[1])
    lines = [f.replace("{port}", port).encode() for f in fields]
    return exchange(server, request_bytes(method, path, lines, body, host.replace("{port}", port)), tcp=True)


def credentials(server):
    """Nothing, something wrong, and what would be enough: it makes no difference."""
    return ((), ("Authorization: Bearer wrong",), (f"Authorization: Bearer {server.alfa}",))


@pytest.mark.parametrize("host", NAMES)
def test_foreign_names(guarded, host):
    seen = set()
    for method, path in PATHS:
        for fields in credentials(guarded):
            data = ask(guarded, method, path, host, *fields)
            (status, head, body), = answers(data)
            assert status == 403 and json.loads(body)["error"]["code"] == "denied", data
            seen.add(data)
            assert not [name for name in head if name.startswith("access-control")]
    assert len(seen) == 1, "nothing is to be learnt behind a foreign name"


@pytest.mark.parametrize("host", NO_NAMES, ids=range(len(NO_NAMES)))
def test_what_is_no_name(guarded, host):
    for method, path in PATHS[:6]:
        for fields in credentials(guarded):
            data = exchange(guarded, f"{method} {path} HTTP/1.1\r\nHost: {host.replace('{port}', str(guarded.tcp[1]))}\r\n{''.join(f + chr(13) + chr(10) for f in fields)}\r\n".encode(), tcp=True)
            assert statuses(data) == [400] and b'"protocol"' in data, data


@pytest.mark.parametrize("origin", ORIGINS, ids=range(len(ORIGINS)))
def test_foreign_origins(guarded, origin):
    seen = set()
    for method, path in PATHS:
        for fields in credentials(guarded):
            for more in ((), ("Access-Control-Request-Method: POST",)):
                data = ask(guarded, method, path, "localhost:{port}", f"Origin: {origin}", *more, *fields)
                (status, head, body), = answers(data)
                # What a browser strips before it sends it is ours without it.
                if origin.strip() == OURS:
                    assert status != 403
                    continue
                assert status == 403 and json.loads(body)["error"]["code"] == "denied", data
                assert not [name for name in head if name.startswith("access-control")]
                seen.add(data)
    assert len(seen) <= 1


def test_both_must_be_ours(guarded):
    """A name of ours does not help a foreign origin, nor an origin of ours a foreign name; the page's own host is not enough when it is foreign."""
    for host, origin in (("attacker.test:{port}", "http://attacker.test:{port}"), ("attacker.test", "http://attacker.test"), ("attacker.test:{port}", OURS), ("attacker.test", "http://localhost:{port}"),
                         ("localhost:{port}", "http://box.example.com:{port}"), ("127.0.0.1:{port}", "http://localhost:{port}"), ("box.example.com", "http://attacker.test")):
        assert statuses(ask(guarded, "GET", "/v1/info", host, f"Origin: {origin}", f"Authorization: Bearer {guarded.alfa}")) == [403], (host, origin)
    for twice in ((f"Origin: {OURS}", "Origin: null"), ("Host: attacker.test",)):
        assert statuses(ask(guarded, "GET", "/v1/info", "localhost:{port}", *twice)) == [400]
    assert statuses(exchange(guarded, b"GET http://attacker.test/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n", tcp=True)) == [400]
    assert statuses(exchange(guarded, b"GET /v1/info HTTP/1.0\r\n\r\n", tcp=True)) == [400]  # none at all is none of ours


def test_a_page_cannot_run_anything():
    """Where no tokens are wanted (loopback only) the names are what stands between a page and the machine."""
    body = json.dumps({"code": "print(187)"}).encode()
    with Server(tcp=True, tokens=False) as loose:
        for host in ("attacker.test:{port}", "127.0.0.1.nip.io:{port}", "[::ffff:127.0.0.1]:{port}"):
            for fields in ((), ("Origin: http://attacker.test:{port}",), ("Sec-Fetch-Site: same-origin",)):
                assert statuses(ask(loose, "POST", "/v1/runs", host, *fields, "Content-Type: application/json", body=body)) == [403]
        for origin in ("null", "http://attacker.test", "http://localhost:1"):
            # What a form or fetch(no-cors) can send without asking before.
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"):
                assert statuses(ask(loose, "POST", "/v1/runs", "127.0.0.1:{port}", f"Origin: {origin}", f"Content-Type: {kind}", body=body)) == [403]
        # And what comes from no page at all, as a form would send it, is no JSON.
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            assert statuses(ask(loose, "POST", "/v1/runs", "127.0.0.1:{port}", f"Content-Type: {kind}", body=body)) == [415]
        assert loose.get("/v1/runs").json["runs"] == []
        assert statuses(ask(loose, "POST", "/v1/runs", "127.0.0.1:{port}", "Content-Type: application/json", body=body)) == [200]


def test_what_pages_may_read(guarded):
    """Those of the configuration, by name, without cookies; there is no star."""
    for method, fields in (("OPTIONS", ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization, content-type, x-anything")), ("GET", (f"Authorization: Bearer {guarded.alfa}",)), ("GET", ())):
        (status, head, _), = answers(ask(guarded, method, "/v1/runs", "localhost:{port}", f"Origin: {OURS}", *fields))
        assert head["access-control-allow-origin"] == OURS and "Origin" in head["vary"]
        assert "access-control-allow-credentials" not in head and "access-control-allow-private-network" not in head and "*" not in head.get("access-control-allow-headers", "")
        assert "x-anything" not in head.get("access-control-allow-headers", "")
    # A preflight runs nothing and tells nothing of what there is.
    answers_ = {(ask(guarded, "OPTIONS", path, "localhost:{port}", f"Origin: {OURS}", "Access-Control-Request-Method: DELETE")) for path in ("/v1/runs", "/nothing", "/v1/sessions/x", "/%zz")}
    assert len(answers_) == 1


def test_names_are_not_tries_of_tokens(guarded):
    """A page cannot have its visitor put off."""
    def status(host, *fields):
        return statuses(exchange(guarded, request_bytes("GET", "/v1/info", [b"Authorization: Bearer wrong", *fields], host=host), source="127.187.0.1"))[0]

    assert {status("attacker.test") for _ in range(30)} == {status("localhost", b"Origin: null") for _ in range(30)} == {403}
    assert status("localhost") == 401
