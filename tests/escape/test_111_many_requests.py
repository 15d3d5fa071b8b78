# SPDX-License-Identifier: Apache-2.0
"""111. A connection to the proxy begins with a request for a host that is allowed, and goes on with one for another; requests are sent in one piece; the address of a
request and its Host field name two hosts; lengths of bodies are told in two ways => each request is judged by itself, what can be understood in two ways is refused with
400.
"""
import pytest
from internet import CLIENT, answers, internet, net_box, one_net_box  # noqa: F401

ALLOW = "http://a.example.com"


def request(host, path="/", method="GET", fields=(), body=""):
    return "\r\n".join((f"{method} http://{host}{path} HTTP/1.1", f"Host: {host}", *fields, "", body))


@pytest.fixture
def sites(internet):
    return internet.site("a.example.com", tls=False), internet.site("b.example.com", tls=False)


@pytest.mark.parametrize("together", [True, False], ids=["in-one-piece", "one-by-one"])
def test_second_host(sites, net_box, together):
    a, b = sites
    first, second = request("a.example.com", "/1"), request("b.example.com", "/2", fields=("Connection: close",))
    if together:
        code = f"report(ask({first + second!r}))"
    else:
        code = f"""
s = dial()
s.sendall({first!r}.encode())
status, text = head(s)
body = s.recv(5)
s.sendall({second!r}.encode())
report(text + body.decode() + read_all(s).decode())
"""
    [text] = answers(net_box.run(CLIENT + code, allow=ALLOW))
    assert text.startswith("HTTP/1.1 200") and "hello" in text, text
    assert "HTTP/1.1 403" in text and "b.example.com" in text, text
    assert [r.path for r in a.requests] == ["/1"] and b.accepted == 0


def test_many_on_one_connection(sites, net_box):
    """Ten for hosts that pass, each to its own host."""
    a, b = sites
    text = "".join(request(f"{'ab'[i % 2]}.example.com", f"/{i}") for i in range(9)) + request("a.example.com", "/end", fields=("Connection: close",))
    [answer] = answers(net_box.run(CLIENT + f"report(ask({text!r}))", allow=[ALLOW, "http://b.example.com"]))
    assert answer.count("HTTP/1.1 200") == 10, answer
    assert [r.path for r in a.requests] == ["/0", "/2", "/4", "/6", "/8", "/end"] and [r.path for r in b.requests] == ["/1", "/3", "/5", "/7"]
    assert {r.headers["Host"] for r in a.requests} == {"a.example.com"} and {r.headers["Host"] for r in b.requests} == {"b.example.com"}


OVERRIDES = ("X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-Original-URI: /admin",
             "X-Forwarded-URI: /admin", "X-Forwarded-Path: /admin")


@pytest.mark.parametrize(("rule", "passes"), [(ALLOW, True), (f"GET {ALLOW}", False), (f"{ALLOW}/ok/", False)], ids=["whole-host", "method", "path"])
def test_second_address_in_a_field(sites, one_net_box, rule, passes):
    """Some servers do what such a field says, and not the first line. Where a rule says what may be asked for they do not get there."""
    fields = (*OVERRIDES, "x-oRIGINAL-url: /admin", "X-Other: stays", "Connection: close")
    text = request("a.example.com", "/ok/x", fields=fields)
    [answer] = answers(one_net_box.run(CLIENT + f"report(ask({text!r}))", allow=rule))
    assert answer.startswith("HTTP/1.1 200"), answer
    [got] = sites[0].requests
    names = {name.lower() for name in got.headers.keys()}
    assert (got.method, got.path) == ("GET", "/ok/x") and "x-other" in names, got
    overrides = {field.partition(":")[0].lower() for field in OVERRIDES}
    assert names & overrides == (overrides if passes else set()), got


def test_refused_first(sites, one_net_box):
    """After a refusal nothing of what was sent with it is taken for something else."""
    a, b = sites
    smuggled = request("b.example.com", "/hidden")
    text = request("b.example.com", "/1", "POST", (f"Content-Length: {len(smuggled)}",), smuggled) + request("b.example.com", "/2", fields=("Connection: close",))
    [answer] = answers(one_net_box.run(CLIENT + f"report(ask({text!r}))", allow=ALLOW))
    assert answer.startswith("HTTP/1.1 403") and answer.count("HTTP/1.1 ") <= 2 and b.accepted == 0 and a.accepted == 0, answer


def test_bodies_are_bodies(sites, one_net_box):
    a, b = sites
    inner = request("b.example.com", "/hidden")
    chunks = f"{len(inner):x}\r\n{inner}\r\n0\r\n\r\n"
    text = request("a.example.com", "/1", "POST", (f"Content-Length: {len(inner)}",), inner) + request("a.example.com", "/2", "POST", ("Transfer-Encoding: chunked",), chunks) + \
        request("a.example.com", "/3", fields=("Connection: close",))
    [answer] = answers(one_net_box.run(CLIENT + f"report(ask({text!r}))", allow=ALLOW))
    assert answer.count("HTTP/1.1 200") == 3 and b.accepted == 0, answer
    assert [(r.path, r.body.decode()) for r in a.requests] == [("/1", inner), ("/2", inner), ("/3", "")]


HOST = "Host: a.example.com"
AMBIGUOUS = {
    "other host": ["GET http://a.example.com/ HTTP/1.1", "Host: b.example.com"],
    "other host asked for": ["GET http://b.example.com/ HTTP/1.1", "Host: a.example.com"],
    "no host": ["GET http://a.example.com/ HTTP/1.1"],
    "empty host": ["GET http://a.example.com/ HTTP/1.1", "Host:"],
    "two hosts": ["GET http://a.example.com/ HTTP/1.1", HOST, "Host: b.example.com"],
    "the same host twice": ["GET http://a.example.com/ HTTP/1.1", HOST, HOST],
    "other port": ["GET http://a.example.com/ HTTP/1.1", HOST + ":81"],
    "user": ["GET http://a.example.com@b.example.com/ HTTP/1.1", HOST],
    "user of a": ["GET http://b.example.com@a.example.com/ HTTP/1.1", HOST],
    "backslash": ["GET http://b.example.com\\@a.example.com/ HTTP/1.1", HOST],
    "backslash path": ["GET http://a.example.com\\.b.example.com/ HTTP/1.1", HOST],
    "fragment": ["GET http://a.example.com#@b.example.com/ HTTP/1.1", HOST],
    "space in target": ["GET http://a.example.com/ http://b.example.com/ HTTP/1.1", HOST],
    "tab": ["GET http://a.example.com\t.b.example.com/ HTTP/1.1", HOST],
    "encoded dot": ["GET http://a%2eexample.com/ HTTP/1.1", HOST],
    "null": ["GET http://a.example.com\0.b.example.com/ HTTP/1.1", HOST],
    "two lengths": ["POST http://a.example.com/ HTTP/1.1", HOST, "Content-Length: 5", "Content-Length: 6"],
    "list of lengths": ["POST http://a.example.com/ HTTP/1.1", HOST, "Content-Length: 5, 6"],
    "signed length": ["POST http://a.example.com/ HTTP/1.1", HOST, "Content-Length: +5"],
    "hex length": ["POST http://a.example.com/ HTTP/1.1", HOST, "Content-Length: 0x5"],
    "huge length": ["POST http://a.example.com/ HTTP/1.1", HOST, "Content-Length: 99999999999999999999999"],
    "length and chunks": ["POST http://a.example.com/ HTTP/1.1", HOST, "Content-Length: 5", "Transfer-Encoding: chunked"],
    "chunks twice": ["POST http://a.example.com/ HTTP/1.1", HOST, "Transfer-Encoding: chunked, chunked"],
    "chunks not last": ["POST http://a.example.com/ HTTP/1.1", HOST, "Transfer-Encoding: chunked, identity"],
    "unknown coding": ["POST http://a.example.com/ HTTP/1.1", HOST, "Transfer-Encoding: xchunked"],
    "space before colon": ["POST http://a.example.com/ HTTP/1.1", HOST, "Transfer-Encoding : chunked"],
    "folded": ["POST http://a.example.com/ HTTP/1.1", HOST, "X: y", " Transfer-Encoding: chunked"],
    "folded host": ["GET http://a.example.com/ HTTP/1.1", "Host:", " b.example.com"],
    "carriage return": ["GET http://a.example.com/ HTTP/1.1", HOST, "X: y\rTransfer-Encoding: chunked"],
    "null in field": ["GET http://a.example.com/ HTTP/1.1", HOST, "X: y\0z"],
    "no colon": ["GET http://a.example.com/ HTTP/1.1", HOST, "X y"],
    "http 0.9": ["GET http://a.example.com/"],
    "http 2.0": ["GET http://a.example.com/ HTTP/2.0", HOST],
    "origin form": ["GET / HTTP/1.1", HOST],
    "other scheme": ["GET ftp://a.example.com/ HTTP/1.1", HOST],
    "file": ["GET file:///etc/passwd HTTP/1.1", HOST],
    "https": ["GET https://a.example.com/ HTTP/1.1", HOST],
}


def test_two_meanings(sites, one_net_box):
    a, b = sites
    code = "report(*(split(ask('\\r\\n'.join(lines) + '\\r\\n\\r\\n')) for lines in %r))" % list(AMBIGUOUS.values())
    result = one_net_box.run(CLIENT + code, allow=[ALLOW, "http://b.example.com"])
    statuses = dict(zip(AMBIGUOUS, (status for status, _ in answers(result))))
    wrong = {name: status for name, status in statuses.items() if status not in (400, 403, 411, 413, 501, 505)}
    assert not wrong and a.requests == [] and b.requests == [], (wrong, a.requests, b.requests)
    assert all(statuses[name] == 400 for name in list(AMBIGUOUS)[:22]), statuses


SMUGGLED = request("a.example.com", "/smuggled")
TRICKS = {
    "length named in Connection": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close, Content-Length", f"Content-Length: {len(SMUGGLED)}", "", SMUGGLED],
    "coding named in Connection": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close, Transfer-Encoding", "Transfer-Encoding: chunked", "", f"{len(SMUGGLED):x}", SMUGGLED + "\r\n0", "", ""],
    "host named in Connection": ["GET http://a.example.com/1 HTTP/1.1", HOST, "Connection: close, Host", "", ""],
    "trailer": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "Trailer: Content-Length, Host", "Transfer-Encoding: chunked", "", "1", "x", "0", "Content-Length: 5", "Host: b.example.com", "", ""],
    "chunk extension": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "Transfer-Encoding: chunked", "", "1;a=\"\n0\n\n" + "GET /smuggled HTTP/1.1\"", "x", "0", "", ""],
    "chunk line by line feed": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "Transfer-Encoding: chunked", "", "1\nx", "0", "", SMUGGLED],
    "chunk too long": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "Transfer-Encoding: chunked", "", "1", "xGET", "0", "", SMUGGLED],
    "http 1.0 and chunks": ["POST http://a.example.com/1 HTTP/1.0", HOST, "Transfer-Encoding: chunked", "", f"{len(SMUGGLED):x}", SMUGGLED + "\r\n0", "", ""],
    "body of GET": ["GET http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", f"Content-Length: {len(SMUGGLED)}", "", SMUGGLED],
    "expect": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "Expect: 100-continue", f"Content-Length: {len(SMUGGLED)}", "", SMUGGLED],
    "underscores": ["POST http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "Content_Length: 5", "Transfer_Encoding: chunked", "", SMUGGLED],
    "long head": ["GET http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", "X: " + "y" * 500000, "", ""],
    "many fields": ["GET http://a.example.com/1 HTTP/1.1", HOST, "Connection: close", *["X: y"] * 5000, "", ""],
    "long target": ["GET http://a.example.com/" + "y" * 100000 + " HTTP/1.1", HOST, "Connection: close", "", ""],
}


def test_smuggled(internet, sites, one_net_box):
    """An upstream that keeps its connection sees one request for each, and no other host's name."""
    a, b = sites
    file = one_net_box.directory() / "tricks.py"
    file.write_text(CLIENT + "report(*(int(('HTTP/1.1 0' + ask('\\r\\n'.join(lines))).rsplit('HTTP/1.1 ', 1)[1].split()[0]) for lines in %r))" % list(TRICKS.values()))
    result = one_net_box.run(file=file, allow=ALLOW)
    statuses = dict(zip(TRICKS, answers(result)))
    assert set(statuses.values()) <= {200, 400, 403, 413, 414, 431, 501}, statuses
    assert {statuses[name] for name in ("long head", "many fields", "long target")} <= {400, 413, 414, 431}, statuses
    assert {r.path for r in a.requests} <= {"/1"} and len(a.requests) == list(statuses.values()).count(200) and b.accepted == 0, (statuses, a.requests)
    assert {tuple(r.headers.get_all("Host")) for r in a.requests} == {("a.example.com",)}
