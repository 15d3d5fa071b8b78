# SPDX-License-Identifier: Apache-2.0
"""186. A tenant uses every address of the server with another tenant's ids: of sessions and runs that live and that have ended, of contexts, of files;
his keys, his cursors, spellings of his ids => exactly what an id gets that never was, and nothing of the other changes or is mentioned.

The cases come from the server's own table of routes. A route that has no row here fails the test: whoever adds one says how it is asked.
"""
import datetime
import json
import re
import secrets
import threading
import time

import pytest
from hostile_clients import answers, exchange, request_bytes, routes, tenants
from server import NDJSON, PATIENCE, SSE, wait_for

JSON = "application/json"
TAR = "application/x-tar"
RUN, CODE = {"code": "open('touched', 'w').write('by alfa')"}, {"code": "1"}

# How an address with ids is asked so that it would work: (body, content type), or nothing.
REQUESTS = {
    ("GET", "/v1/runs/{run}"): None,
    ("GET", "/v1/runs/{run}/events"): None,
    ("POST", "/v1/runs/{run}/cancel"): ({"kill": True}, JSON),
    ("POST", "/v1/runs/{run}/stdin"): (b"from alfa\n", "application/octet-stream"),
    ("GET", "/v1/runs/{run}/stats"): None,
    ("GET", "/v1/sessions/{session}"): None,
    ("PATCH", "/v1/sessions/{session}"): ({"name": "alfa's", "idle_timeout": 1, "metadata": {"of": "alfa"}}, JSON),
    ("DELETE", "/v1/sessions/{session}"): None,
    ("POST", "/v1/sessions/{session}/runs"): (RUN, JSON),
    ("GET", "/v1/sessions/{session}/network"): None,
    ("PUT", "/v1/sessions/{session}/network"): ({"allow": []}, JSON),
    ("GET", "/v1/sessions/{session}/stats"): None,
    ("POST", "/v1/sessions/{session}/contexts"): ({"language": "python"}, JSON),
    ("GET", "/v1/sessions/{session}/contexts"): None,
    ("DELETE", "/v1/sessions/{session}/contexts/{context}"): None,
    ("POST", "/v1/sessions/{session}/contexts/{context}/restart"): None,
    ("POST", "/v1/sessions/{session}/contexts/{context}/interrupt"): None,
    ("GET", "/v1/sessions/{session}/files"): None,
    ("GET", "/v1/sessions/{session}/files/{path...}"): None,
    ("PUT", "/v1/sessions/{session}/files/{path...}"): (b"from alfa", "application/octet-stream"),
    ("DELETE", "/v1/sessions/{session}/files/{path...}"): None,
    ("GET", "/v1/sessions/{session}/archive"): None,
    ("PUT", "/v1/sessions/{session}/archive"): (b"\0" * 1024, TAR),
}
# Those without ids: lists and what the server says of itself (looked through for traces of the other), and what makes something.
LOOKED_THROUGH = {"/v1/runs", "/v1/sessions", "/v1/stats", "/v1/info", "/v1/policies", "/v1/templates", "/v1/languages", "/v1/doctor", "/v1/audit", "/metrics", "/openapi.json", "/healthz", "/readyz"}
MAKE = {("POST", "/v1/runs"), ("POST", "/v1/sessions")}
NOTHING = {("POST", "/v1/guard/check")}  # looks at what was sent, and at nobody's
MCP = {(method, "/mcp") for method in ("POST", "GET", "DELETE")}  # ids are in headers and messages: test_197_mcp_clients.py

TABLE = routes()
WITH_IDS = [row for row in TABLE if "{" in row["pattern"]]
NAMES = sorted({name for row in WITH_IDS for name in re.findall(r"\{(.*?)\}", row["pattern"])})


def test_every_route_is_covered():
    unknown = [(row["method"], row["pattern"]) for row in WITH_IDS if (row["method"], row["pattern"]) not in REQUESTS]
    unknown += [(row["method"], row["pattern"]) for row in TABLE
                if "{" not in row["pattern"] and (row["method"], row["pattern"]) not in MAKE | NOTHING | MCP and not (row["method"] == "GET" and row["pattern"] in LOOKED_THROUGH)]
    assert not unknown, "say above how these are asked"
    gone = set(REQUESTS) - {(row["method"], row["pattern"]) for row in TABLE}
    assert not gone and NAMES == ["context", "path...", "run", "session"]


class Victim:
    """The tenant bravo, with one of each kind, and words that would be known again."""

    def __init__(self, server):
        self.server, self.token = server, server.bravo
        self.word = "bravo" + secrets.token_hex(6)
        self.session = self.make("/v1/sessions", {"name": f"name-{self.word}", "metadata": {f"key-{self.word}": f"value-{self.word}"}}, 201)
        self.kept = self.run(f"secret = 'value-{self.word}'", self.session)
        self.put(f"{self.word}.txt", f"inside-{self.word}".encode())
        self.put(f"{self.word}.d/deep", b"deep")
        self.idle = self.make("/v1/sessions", {"template": None}, 201)  # nobody uses it: nobody's request counts as a use
        self.ended_session = self.make("/v1/sessions", {"template": None}, 201)
        self.ended_run = self.run(f"print('out-{self.word}')", self.ended_session, context=None)
        server.delete(f"/v1/sessions/{self.ended_session}", token=self.token).expect(204)
        self.ended_alone = self.run(f"print('out-{self.word}')")
        self.going = self.begin(f"/v1/sessions/{self.session}/runs", context=None)
        self.going_alone = self.begin("/v1/runs")
        self.key = f"key-{self.word}"
        self.key_body = {"code": f"print('keyed-{self.word}')"}
        self.keyed = self.make("/v1/runs", self.key_body, 200, {"Idempotency-Key": self.key})
        self.sessions = {"living": self.session, "idle": self.idle, "ended": self.ended_session, "a run": self.ended_run}
        self.runs = {"going": self.going, "going alone": self.going_alone, "ended": self.ended_run, "ended alone": self.ended_alone, "a session": self.session}
        self.traces = [self.word, *self.sessions.values(), *self.runs.values(), self.kept, self.keyed, "bravo", server.bravo[4:12]]

    def make(self, path, body, status, headers=None):
        return self.server.post(path, body, token=self.token, headers=headers).expect(status).json["id"]

    def run(self, code, session=None, **fields):
        return self.make(f"/v1/sessions/{session}/runs" if session else "/v1/runs", {"code": code, **fields}, 200)

    def begin(self, path, **fields):
        """One that reads until it is told to end."""
        code = f"import sys\nprint('begun-{self.word}', flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)"
        run = self.make(path, {"code": code, "interactive": True, "detach": True, "timeout": 250, **fields}, 202)
        wait_for(lambda: self.get(f"/v1/runs/{run}")["events"] >= 2)
        return run

    def put(self, path, body):
        self.server.put(f"/v1/sessions/{self.session}/files/{path}?parents=true", body, token=self.token).expect(201)

    def get(self, path, **options):
        return self.server.get(path, token=self.token, **options).expect(200).json

    def look(self):
        """Everything that could have changed."""
        session = self.get(f"/v1/sessions/{self.session}")
        session.pop("last_used_at"), session.pop("expires_at")  # below
        return {
            "session": session, "used": self.get("/v1/info")["used"], "sessions": [s["id"] for s in self.get("/v1/sessions")["sessions"]],
            "runs": [(r["id"], r["state"], r["events"]) for r in self.get("/v1/runs")["runs"]], "results": [self.get(f"/v1/runs/{r}") for r in (self.ended_run, self.ended_alone, self.kept)],
            "network": self.get(f"/v1/sessions/{self.session}/network"), "contexts": self.get(f"/v1/sessions/{self.session}/contexts"), "files": self.get(f"/v1/sessions/{self.session}/files"),
            "deep": self.get(f"/v1/sessions/{self.session}/files?path={self.word}.d"), "audit": self.get("/v1/audit?limit=1000")["records"],
            "bytes": self.server.get(f"/v1/sessions/{self.session}/files/{self.word}.txt", token=self.token).expect(200).body,
        }

    def last_used(self):
        return datetime.datetime.fromisoformat(self.get(f"/v1/sessions/{self.idle}")["last_used_at"].replace("Z", "+00:00"))

    def finish(self):
        """What went on all the time still listens, and ends as it should."""
        for run in (self.going, self.going_alone):
            self.server.request("POST", f"/v1/runs/{run}/stdin?close=true", body=f"echo-{self.word}\n".encode(), token=self.token).expect(200)
            wait_for(lambda: self.get(f"/v1/runs/{run}")["state"] == "ended")
            result = self.get(f"/v1/runs/{run}")["result"]
            assert result["verdict"]["kind"] == "ok" and result["stdout"] == f"begun-{self.word}\necho-{self.word}\n", result
        again = self.server.post(f"/v1/sessions/{self.session}/runs", {"code": "secret"}, token=self.token).result
        assert again["results"][0]["data"]["text/plain"] == f"'value-{self.word}'"
        for session in (self.session, self.idle):
            self.server.delete(f"/v1/sessions/{session}", token=self.token).expect(204)


@pytest.fixture(scope="module")
def bravo(tenants):
    made = Victim(tenants)
    yield made
    made.finish()


@pytest.fixture(scope="module")
def hostile(tenants):
    """Those who ask: with all scopes of their own tenant, and through the unix socket."""
    return {"alfa": tenants.alfa, "admin": tenants.token("alfa", "admin", "run", "metrics"), "reader": tenants.token("alfa", "read"), "local": None}


def ask(server, token, method, path, request=None, accept=None):
    """Status, fields and body, as they came."""
    body, kind = request if request else (b"", None)
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = [f"Content-Type: {kind}".encode()] if kind else []
    fields += [f"Accept: {accept}".encode()] if accept else []
    fields += [f"Authorization: Bearer {token}".encode()] if token else []
    (answer,) = answers(exchange(server, request_bytes(method, path, fields, body), tcp=bool(token)))
    return answer


def fill(pattern, ids):
    return re.sub(r"\{(.*?)\}", lambda match: ids[match[1]], pattern)


def victims(row, bravo):
    """Each of the other's ids that could stand in this address, with a path of his."""
    for kind, session in bravo.sessions.items():
        for what, run in bravo.runs.items():
            for path in (f"{bravo.word}.txt", f"{bravo.word}.d", "nothing"):
                for context in ("1", "7"):
                    yield f"{kind}, {what}", {"session": session, "run": run, "path...": path, "context": context}


def twin(ids):
    return {**ids, "session": secrets.token_hex(16), "run": secrets.token_hex(16)}


def hidden(answer, ids):
    """The answer with the ids that were asked for taken out."""
    status, fields, body = answer
    for name in ("session", "run"):
        body = body.replace(ids[name].encode(), b"ID")
    return status, fields, body


@pytest.mark.parametrize("row", WITH_IDS, ids=[f"{row['method']} {row['pattern']}" for row in WITH_IDS])
def test_as_if_it_never_was(tenants, bravo, hostile, row):
    method, pattern = row["method"], row["pattern"]
    request = REQUESTS[method, pattern]
    accepts = [None, SSE, NDJSON] if row["streams"] else [None]
    done = set()
    for what, ids in victims(row, bravo):
        path = fill(pattern, ids)
        for who, token in hostile.items():
            if path in done or (who == "reader" and "read" not in row["scopes"]):
                continue
            for accept in accepts:
                foreign, other = ask(tenants, token, method, path, request, accept), twin(ids)
                assert foreign[0] == 404 and json.loads(foreign[2])["error"]["code"] == "not_found", (who, what, accept, foreign)
                assert hidden(foreign, ids) == hidden(ask(tenants, token, method, fill(pattern, other), request, accept), other), (who, what, accept)
        done.add(path)
    assert done


@pytest.mark.parametrize("row", WITH_IDS, ids=[f"{row['method']} {row['pattern']}" for row in WITH_IDS])
def test_mistakes_tell_nothing(tenants, bravo, row):
    """A request that is wrong in itself is refused alike for an id of the other's and for one that never was: whatever is looked at first."""
    ids = {"session": bravo.session, "run": bravo.going, "path...": f"{bravo.word}.txt", "context": "1"}
    other = twin(ids)
    for request in ((b"{", JSON), (b"{}", "text/plain"), ({"nothing": 1}, JSON), (b"", None), (b'{"code": 1}', JSON)):
        if row["method"] == "GET":
            request = None
        for query in ("", "?x=1", "?limit=0&cursor=x", "?from=-1", "?interval=0", "?path=..", "?close=maybe", "?recursive=1"):
            foreign = ask(tenants, tenants.alfa, row["method"], fill(row["pattern"], ids) + query, request)
            never = ask(tenants, tenants.alfa, row["method"], fill(row["pattern"], other) + query, request)
            assert hidden(foreign, ids) == hidden(never, other) and foreign[0] in (400, 404, 415), (query, foreign, never)


def test_ids_in_other_spellings(tenants, bravo):
    """Of the other's ids, and of one's own: an id has one spelling."""
    own = tenants.post("/v1/sessions", {"template": None}, token=tenants.alfa).expect(201).json["id"]
    run = tenants.post(f"/v1/sessions/{own}/runs", {"code": "1", "context": None}, token=tenants.alfa).expect(200).json["id"]

    def spellings(one):
        letter = re.search("[a-f]", one)
        yield from (one[:-1], one + "0", one[1:], one[::-1], "0x" + one, "{" + one + "}", one + "%20", "%20" + one, one + "%0a", one + "%00", "%00" + one, one + "%2f", "%2e%2e%2f" + one,
                    one + "%2f..%2f" + one, "./" + one, "../" + "sessions/" + one, one + ";a=b", one + "'--", "%27%20OR%20%271%27=%271", "*", "%25", "_" * 32, "%5f" * 32, one + "?", "%3f", "null", "-1", "0",
                    f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}", one[:16] + "%e2%80%8b" + one[16:], one + "%cc%81")
        if letter:
            at, c = letter.start(), letter[0]
            yield one.upper()
            yield one[:at] + chr(ord(c) - 32) + one[at + 1:]
            yield one[:at] + "%d0%b0" + one[at + 1:]  # the letter a of another script
            yield one[:at] + "%ef%bd" + f"%{0x81 + ord(c) - ord('a'):02x}" + one[at + 1:]  # a wide one
        digit = re.search("[0-9]", one)
        if digit:
            at = digit.start()
            yield one[:at] + "%ef%bc" + f"%{0x90 + int(digit[0]):02x}" + one[at + 1:]
            yield one[:at] + "%d9" + f"%{0xa0 + int(digit[0]):02x}" + one[at + 1:]

    for id_, address, tails in ((bravo.session, "sessions", ("", "/files", f"/files/{bravo.word}.txt", "/contexts")), (bravo.going, "runs", ("", "/events", "/stats")), (own, "sessions", ("", "/files")), (run, "runs", ("",))):
        for spelling in spellings(id_):
            for tail in tails:
                status, _, body = ask(tenants, tenants.alfa, "GET", f"/v1/{address}/{spelling}{tail}")
                if spelling.endswith("?") and id_ in (own, run):
                    assert status in (200, 400)  # an empty query is none
                else:
                    assert status in (400, 404), (spelling, tail, body)
                assert not any(f"{what}-{bravo.word}".encode() in body for what in ("inside", "value", "name", "out", "begun"))
    # One that is only encoded is the same id, for its owner and for nobody else.
    encoded = "".join(f"%{ord(c):02x}" for c in own)
    assert ask(tenants, tenants.alfa, "GET", f"/v1/sessions/{encoded}")[0] == 200 and ask(tenants, tenants.bravo, "GET", f"/v1/sessions/{encoded}")[0] == 404
    tenants.delete(f"/v1/sessions/{own}", token=tenants.alfa).expect(204)


def read_stream(server, token, path, kind, seconds=0.4):
    """As much of a stream as comes in that time."""
    with server.raw(tcp=bool(token)) as plain:
        fields = [f"Accept: {kind}".encode()] + ([f"Authorization: Bearer {token}".encode()] if token else [])
        plain.sendall(request_bytes("GET", path, fields))
        data = plain.recv(65536)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            plain.settimeout(max(end - time.monotonic(), 0.01))
            try:
                piece = plain.recv(65536)
            except TimeoutError:
                break
            if not piece:
                break
            data += piece
    assert data.startswith(b"HTTP/1.1 200 "), data
    return data


@pytest.mark.parametrize("row", [row for row in TABLE if row["method"] == "GET" and "{" not in row["pattern"] and ("GET", row["pattern"]) not in MCP], ids=lambda row: row["pattern"])
def test_lists_mention_nobody_else(tenants, bravo, hostile, row):
    """Of the operator's (metrics, the audit with the scope admin) it is the tenant's name and ids that are his to see; his data is not."""
    audit, metrics = row["pattern"] == "/v1/audit", row["pattern"] == "/metrics"
    for who, token in hostile.items():
        if metrics and who in ("alfa", "reader"):
            assert ask(tenants, token, "GET", "/metrics")[0] == 403
            continue
        traces = [bravo.word] if audit and who in ("admin", "local") else bravo.traces
        queries = [""] + ([f"?session={bravo.session}", f"?session={bravo.ended_session}", "?verdict=ok", "?since=1970-01-01T00:00:00Z"] if audit else [])
        queries += [f"?session={bravo.session}", "?state=running", "?state=ended"] if row["pattern"] == "/v1/runs" else []
        for query in queries:
            answer = ask(tenants, token, "GET", row["pattern"] + query)
            data = [answer[2]]
            assert answer[0] == 200, answer
            if row["streams"]:
                data += [read_stream(tenants, token, row["pattern"] + (query or "?interval=0.1"), kind) for kind in (SSE, NDJSON)]
            found = [trace for trace in traces for piece in data if trace.encode() in piece]
            assert not found, (who, query, found)


def test_filters_for_somebody_else(tenants, bravo):
    """Empty, as for one that never was; and the audit of a tenant is the operator's to ask for, whether there is one or not."""
    for path, key in (("/v1/runs", "runs"), ("/v1/audit", "records")):
        for session in (bravo.session, bravo.ended_session, secrets.token_hex(16)):
            assert tenants.get(f"{path}?session={session}", token=tenants.alfa).expect(200).json == {key: [], "next": None}
    refused = {tenants.get(f"/v1/audit?tenant={name}", token=tenants.alfa).expect(403).body for name in ("bravo", "nobody", "alfa", "local", "%27")}
    assert len(refused) == 1


def test_cursors_of_somebody_else(tenants, bravo):
    """They are places in a list of one's own, wherever they come from."""
    for _ in range(3):
        tenants.post("/v1/runs", CODE, token=tenants.alfa).expect(200)
    cursors = [tenants.get(f"/v1/runs?limit={n}", token=tenants.bravo).expect(200).json["next"] for n in (1, 2, 3)]
    assert all(cursors)
    own = {r["id"] for r in tenants.get("/v1/runs?limit=1000", token=tenants.alfa).json["runs"]}
    for cursor in [*cursors, "1", str(2**63 - 1)]:
        assert {r["id"] for r in tenants.get(f"/v1/runs?cursor={cursor}", token=tenants.alfa).expect(200).json["runs"]} <= own
        page = tenants.get(f"/v1/audit?cursor={cursor}", token=tenants.alfa).expect(200)
        assert {r["tenant"] for r in page.json["records"]} <= {"alfa"}
    extra = [tenants.post("/v1/sessions", {"template": None}, token=tenants.bravo).expect(201).json["id"] for _ in range(2)]
    cursor = tenants.get("/v1/sessions?limit=1", token=tenants.bravo).json["next"]
    assert cursor and tenants.get(f"/v1/sessions?cursor={cursor}", token=tenants.alfa).expect(200).json["sessions"] == []
    for one in extra:
        tenants.delete(f"/v1/sessions/{one}", token=tenants.bravo).expect(204)


def test_keys_of_somebody_else(tenants, bravo):
    """A key is one's own: it neither answers for the other, nor is it taken."""
    headers = {"Idempotency-Key": bravo.key}
    before = bravo.look()
    first = tenants.post("/v1/runs", bravo.key_body, token=tenants.alfa, headers=headers).expect(200)
    assert "Idempotency-Replayed" not in first.headers and first.json["id"] != bravo.keyed
    again = tenants.post("/v1/runs", bravo.key_body, token=tenants.alfa, headers=headers).expect(200)
    assert again.headers["Idempotency-Replayed"] == "true" and again.json["id"] == first.json["id"]
    local = tenants.post("/v1/runs", CODE, headers=headers).expect(200)
    assert "Idempotency-Replayed" not in local.headers
    assert bravo.look() == before
    replayed = tenants.post("/v1/runs", bravo.key_body, token=tenants.bravo, headers=headers).expect(200)
    assert replayed.headers["Idempotency-Replayed"] == "true" and replayed.json["id"] == bravo.keyed


def test_while_the_other_works(tenants, bravo):
    """The same in the moments in which things begin and end: bravo makes and ends, alfa asks for the id as soon as it is known."""
    seen, stop, known = [], threading.Event(), [bravo.session]

    def attack():
        while not stop.is_set():
            for path in (f"/v1/sessions/{known[0]}", f"/v1/sessions/{known[0]}/files", f"/v1/sessions/{known[0]}/contexts"):
                seen.append(ask(tenants, tenants.alfa, "GET", path)[0])
            seen.append(ask(tenants, tenants.alfa, "DELETE", f"/v1/sessions/{known[0]}")[0])

    attackers = [threading.Thread(target=attack) for _ in range(2)]
    for thread in attackers:
        thread.start()
    for _ in range(8):
        known[0] = tenants.post("/v1/sessions", {}, token=tenants.bravo).expect(201).json["id"]
        assert tenants.post(f"/v1/sessions/{known[0]}/runs", {"code": "6 * 7"}, token=tenants.bravo).result["results"][0]["data"]["text/plain"] == "42"
        tenants.delete(f"/v1/sessions/{known[0]}", token=tenants.bravo).expect(204)
    stop.set()
    for thread in attackers:
        thread.join(PATIENCE)
    assert set(seen) == {404}


def test_nothing_of_the_other_changes(tenants, bravo, hostile):
    """All of it once more in one go, between two looks at everything that is bravo's."""
    before, used = bravo.look(), bravo.last_used()
    time.sleep(1.1)  # a use would be seen
    for row in WITH_IDS:
        for token in hostile.values():
            for ids in {fill(row["pattern"], ids): ids for _, ids in victims(row, bravo)}.values():
                assert ask(tenants, token, row["method"], fill(row["pattern"], ids), REQUESTS[row["method"], row["pattern"]])[0] in (403, 404)
    assert bravo.look() == before
    assert abs((bravo.last_used() - used).total_seconds()) < 0.5
