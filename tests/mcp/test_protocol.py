# SPDX-License-Identifier: Apache-2.0
"""The protocol over HTTP, in both eras: handshakes, sessions of the protocol, streams that break and are resumed, cancellation, progress, the log."""
import itertools
import json
import threading

import pytest

from peer import ACCEPT, META, SSE, Events, HttpError, Peer, RpcError, text_of
from server import Server, in_threads, wait_for

FOREVER = "import time\nwhile True:\n    time.sleep(0.01)"
N_STEPS = 4
STEPS = f"import os, time\nfor i in range({N_STEPS}):\n    print('step', i, flush=True)\n    while not os.path.exists(f'go{{i}}'): time.sleep(0.01)\n'done'"
PARSE, INVALID, METHOD, PARAMS, NEEDED, UNKNOWN, HEADER, VERSION = -32700, -32600, -32601, -32602, -32000, -32001, -32020, -32022


@pytest.fixture(scope="module")
def server(nothing_left_at_the_end):
    with Server(tcp=True) as made:
        made.alfa, made.alfa_too, made.bravo = made.token("alfa", "run"), made.token("alfa", "run"), made.token("bravo", "run")
        yield made


@pytest.fixture
def peer(server):
    made = Peer(server)
    yield made
    if made.session:
        made.end()


def stateless(server, **options):
    return Peer(server, era="stateless", **options)


def go(server, session, step):
    """Lets code that is at this step go on."""
    assert server.put(f"/v1/sessions/{session}/files/go{step}").status in (200, 201, 204)


def stepping(server, stream, session):
    """The events of STEPS: each step is let go on when it was told, and who has got the event asks for the next."""
    step, text = 0, ""
    for event in stream:
        yield event
        message = event.json or {}
        if message.get("method") == "notifications/progress":
            text += message["params"].get("message", "")
        if f"step {step}\n" in text:
            go(server, session, step)
            step += 1


@pytest.fixture
def session(server):
    made = server.session()
    yield made
    server.delete(f"/v1/sessions/{made}").expect(204)


def fails(code, function, *arguments, status=None, **options):
    with pytest.raises(RpcError) as caught:
        function(*arguments, **options)
    assert caught.value.code == code, caught.value
    assert status is None or caught.value.status == status, caught.value.status
    return caught.value


# ---- handshakes ----

@pytest.mark.parametrize("asked, given", [(v, v) for v in ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07")] + [("2026-07-28", "2025-11-25"), ("2099-01-01", "2025-11-25"), ("", "2025-11-25")])
def test_version_is_agreed_on(server, asked, given):
    peer = Peer(server)
    peer.version = asked
    result = peer.initialize()
    assert result["protocolVersion"] == given
    assert result["capabilities"] == {"tools": {"listChanged": False}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}}
    assert result["serverInfo"]["name"] == "glovebox" and result["instructions"]
    assert peer.call("ping") == {}
    assert peer.end().status == 200


def test_handshake_without_a_version(server):
    peer = Peer(server)
    for params in ({}, {"protocolVersion": 7}, {"protocolVersion": None}):
        assert peer.send(peer.message("initialize", params, id=1)).json["error"]["code"] == PARAMS


def test_session_ids(server):
    """Long, without a pattern, never the same."""
    ids = set()
    for _ in range(20):
        peer = Peer(server)
        peer.initialize()
        assert len(peer.session) == 32
        ids.add(peer.session)
        peer.end()
    assert len(ids) == 20


def test_without_a_session(server):
    peer = Peer(server)
    peer.initialized = True
    error = fails(NEEDED, peer.call, "tools/list", status=400)
    assert "initialize" in error.message
    peer.session = "0" * 32
    fails(UNKNOWN, peer.call, "tools/list", status=404)
    assert peer.listen().status == 404 and peer.http("DELETE", headers=peer.headers()).status == 404
    with pytest.raises(HttpError) as caught:
        peer.notify("notifications/initialized")
    assert caught.value.status == 404


def test_sessions_belong_to_their_token(server):
    owner = Peer(server, token=server.alfa)
    owner.initialize()
    for token in (server.alfa_too, server.bravo, None):
        other = Peer(server, token=token)
        other.session, other.initialized = owner.session, owner.initialized
        fails(UNKNOWN, other.call, "ping", status=404)
        assert other.listen().status == 404 and other.http("DELETE", headers=other.headers()).status == 404
    assert owner.call("ping") == {}
    owner.end()
    fails(NEEDED, owner.read, owner.send(owner.message("ping", id=1)))


def test_the_end_of_a_client_ends_its_session(server):
    peer = Peer(server)
    session = peer.good("run_python", code="1")["session"]
    assert server.get(f"/v1/sessions/{session}").status == 200
    gone = peer.session
    assert peer.end().status == 200
    assert server.get(f"/v1/sessions/{session}").status == 404
    peer.session, peer.initialized = gone, True
    fails(UNKNOWN, peer.call, "ping", status=404)


def test_unknown_methods_are_answered_at_once(server, peer):
    """Before a handshake and after it; prompts are not announced."""
    early = Peer(server)
    early.initialized = True
    for method in ("server/discover", "prompts/list", "sampling/createMessage", "x", "tools/callx", "notifications/initialized"):
        fails(METHOD, early.call, method)
        fails(METHOD, peer.call, method)


def test_version_header(server, peer):
    peer.ready()
    answer = peer.send(peer.message("ping", id=1), {"MCP-Protocol-Version": "1999-01-01"})
    assert answer.status == 400 and answer.json["error"]["code"] == NEEDED
    assert peer.send(peer.message("ping", id=1), {"MCP-Protocol-Version": None}).status == 200


# ---- messages that are none ----

@pytest.mark.parametrize("body, code", [
    (b"", PARSE), (b"{", PARSE), (b"\xff", PARSE), (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', PARSE), (b"[" * 100, PARSE), (b"\xef\xbb\xbf{}", PARSE), (b'"\\u0000"', PARSE),
    (b"[]", INVALID), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID), (b"7", INVALID), (b'"ping"', INVALID), (b"null", INVALID), (b"{}", INVALID),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID), (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID), (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID)])
def test_what_is_no_message(peer, body, code):
    peer.ready()
    answer = peer.send(body)
    assert answer.status == 400 and answer.json["error"]["code"] == code and answer.json["jsonrpc"] == "2.0", answer.explain()


def test_ids_come_back_as_they_are(peer):
    peer.ready()
    for id in (0, -1, 2 ** 53, "", "a", "\u00e4\u20ac", "x" * 256):
        assert peer.send(peer.message("ping", id=id)).json == {"jsonrpc": "2.0", "id": id, "result": {}}


def test_notifications_and_answers_are_taken(peer):
    peer.ready()
    for message in ({"method": "notifications/initialized"}, {"method": "notifications/whatever", "params": {"a": 1}}, {"method": "notifications/cancelled"},
                    {"method": "notifications/cancelled", "params": {"requestId": {}}}, {"method": "notifications/cancelled", "params": {"requestId": "nobody's"}},
                    {"id": 1, "result": {}}, {"id": None, "error": {"code": 1, "message": ""}}):
        answer = peer.send({"jsonrpc": "2.0", **message})
        assert answer.status == 202 and answer.body == b"", answer.explain()


@pytest.mark.parametrize("accept, status", [("application/json", 406), (SSE, 406), ("text/html", 406), ("*/*", 200), (ACCEPT, 200), (f"{SSE};q=0.9, application/json;q=0.1", 200), (None, 200)])
def test_what_the_client_reads(peer, accept, status):
    peer.ready()
    assert peer.send(peer.message("ping", id=1), {"Accept": accept}).status == status


def test_content_type(peer):
    peer.ready()
    assert peer.send(peer.message("ping", id=1), {"Content-Type": "text/plain"}).status == 415


def test_query(server):
    """A template and a trust level, and nothing else."""
    for query, status in (("?template=python", 200), ("?trust=untrusted", 200), ("?template=nobody", 200), ("?x=1", 400)):
        peer = Peer(server)
        message = json.dumps(peer.message("initialize", {"protocolVersion": "2025-11-25"}, id=1)).encode()
        answer = server.request("POST", "/mcp" + query, body=message, headers=peer.headers({}))
        assert answer.status == status and ("error" in answer.json) == (status == 400 or "nobody" in query), answer.explain()


# ---- what sessions are made of ----

def test_options_are_looked_at_in_the_handshake(server):
    for options, word in (("[]", "object"), ("{", "object"), ('{"policy": 7}', "policy"), ({"polcy": {}}, "polcy"), ({"policy": {"mem_limit": "wrong"}}, "mem_limit"), ({"template": "nobody"}, "nobody")):
        error = fails(PARAMS, Peer(server, options=options).initialize)
        assert "Glovebox-Session" in error.message and word in error.message


def test_options_make_the_session(server):
    peer = Peer(server, options={"policy": {"mem_limit": "123m", "timeout": "9s"}, "metadata": {"a": "b"}, "secrets": {"API_KEY": "correct-horse-battery"}})
    result = peer.good("run_python", code="import os; print(os.environ['API_KEY'])")
    assert result["stdout"] == "[scrubbed:API_KEY]\n"
    about = server.get(f"/v1/sessions/{result['session']}").json
    assert about["policy"]["limits"]["memory_bytes"] == 123 << 20 and about["metadata"]["a"] == "b" and about["secrets"] == ["API_KEY"]
    # The next one, too: a session that has ended is made again as it was.
    server.delete(f"/v1/sessions/{result['session']}").expect(204)
    again = peer.good("run_python", code="import os; print(len(os.environ['API_KEY']))")
    assert again["stdout"] == "21\n" and again["session"] != result["session"]
    peer.end()


def test_remote_callers_get_no_more_than_the_api_gives(server):
    """The directory of the host, and what the trust level does not have."""
    for options in ({"workspace": {"path": "/etc"}}, {"policy": {"network_mode": "host"}}, {"policy": {"guard": "off"}}):
        assert server.post("/v1/sessions", options, token=server.alfa).status in (400, 403)
        fails(PARAMS, Peer(server, token=server.alfa, options=options).initialize)


# ---- stateless requests ----

def test_discover(server):
    result = stateless(server).call("server/discover")
    assert result["supportedVersions"] == ["2026-07-28", "2025-11-25"] and result["resultType"] == "complete" and result["ttlMs"] > 0 and result["cacheScope"] == "private"
    assert result["_meta"][META + "serverInfo"]["name"] == "glovebox" and "tools" in result["capabilities"]


def test_results_of_stateless_requests(server):
    peer = stateless(server)
    for method in ("tools/list", "resources/list", "resources/templates/list"):
        result = peer.call(method)
        assert result["resultType"] == "complete" and result["ttlMs"] >= 0 and result["cacheScope"] == "private"
    assert peer.tool("run_python", code="1")["resultType"] == "complete"


def test_methods_of_the_other_era(server):
    for method in ("ping", "logging/setLevel", "resources/subscribe", "prompts/list", "x"):
        fails(METHOD, stateless(server).call, method, status=404)


@pytest.mark.parametrize("change, code", [
    ({META + "protocolVersion": None}, PARAMS), ({META + "clientCapabilities": None}, PARAMS), ({META + "clientCapabilities": 7}, PARAMS), ({META + "logLevel": "loud"}, PARAMS)])
def test_meta_is_wanted(server, change, code):
    peer = stateless(server)
    message = peer.message("tools/list", id=1)
    for key, value in change.items():
        message["params"]["_meta"][key] = value
        if value is None:
            del message["params"]["_meta"][key]
    answer = peer.send(message)
    assert answer.status == 400 and answer.json["error"]["code"] == code, answer.explain()


@pytest.mark.parametrize("headers, code", [
    ({"MCP-Protocol-Version": None}, HEADER), ({"MCP-Protocol-Version": "2025-11-25"}, HEADER), ({"MCP-Protocol-Version": "2031-01-01"}, VERSION), ({"Mcp-Method": None}, HEADER), ({"Mcp-Method": "tools/list"}, HEADER),
    ({"Mcp-Name": None}, HEADER), ({"Mcp-Name": "run_shell"}, HEADER), ({"Mcp-Name": "=?base64?cnVuX3NoZWxs?="}, HEADER)])
def test_headers_say_what_the_body_says(server, headers, code):
    """Otherwise who routes by them is told something else than who runs it. Nothing is run."""
    peer = stateless(server)
    before = server.get("/v1/runs").json["runs"]
    answer = peer.send(peer.message("tools/call", {"name": "run_python", "arguments": {"code": "1"}}, id=1), headers)
    assert answer.status == 400 and answer.json["error"]["code"] == code, answer.explain()
    assert server.get("/v1/runs").json["runs"] == before


def test_unspoken_version(server):
    peer = stateless(server, version="2031-01-01")
    error = fails(VERSION, peer.call, "tools/list", status=400)
    assert error.data == {"supported": ["2026-07-28", "2025-11-25"], "requested": "2031-01-01"}


def test_handles(server):
    """Who stands alone gets a new session each time, and goes on with its handle."""
    peer = stateless(server)
    first, second = peer.good("run_python", code="x = 1"), peer.good("run_python", code="x = 2")
    assert first["session"] != second["session"]
    assert peer.good("run_python", code="x", session=first["session"])["value"] == "1"
    assert peer.good("run_python", code="x", session=second["session"])["value"] == "2"
    assert Peer(server).good("run_python", code="x", session=first["session"])["value"] == "1"
    assert "session" in peer.bad("list_files")
    for session in (first, second):
        server.delete(f"/v1/sessions/{session['session']}")


def test_a_bridge_names_its_client(server):
    one, two = stateless(server, client="ab" * 16), stateless(server, client="cd" * 16)
    first = one.good("run_python", code="x = 1")["session"]
    assert one.good("run_python", code="x")["value"] == "1"
    assert two.good("run_python", code="'x' in globals()") ["value"] == "False"
    assert one.good("run_python", code="x")["session"] == first
    fails(PARAMS, stateless(server, client="guess").call, "tools/list")
    for peer in (one, two):
        assert peer.http("DELETE", headers=peer.headers()).status == 200
    assert server.get(f"/v1/sessions/{first}").status == 404


# ---- progress and the log ----

@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_output_as_progress(server, session, era):
    """While it runs: no step goes on before it was told. Nothing else is told, as nobody has asked for the log."""
    peer = Peer(server, era=era)
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": STEPS, "session": session}}, meta={"progressToken": 0}) as stream:
        *messages, last = [event.json for event in stepping(server, stream, session) if event.data]
    assert {m["method"] for m in messages} == {"notifications/progress"}
    told = [m["params"] for m in messages]
    assert all(p["progressToken"] == 0 for p in told) and len(told) >= N_STEPS
    assert all(a["progress"] < b["progress"] for a, b in zip(told, told[1:]))
    assert "".join(p.get("message", "") for p in told) == last["result"]["structuredContent"]["stdout"] == "".join(f"step {i}\n" for i in range(N_STEPS))
    if era == "handshake":
        peer.end()


def test_no_progress_without_a_token(peer):
    peer.tool("run_python", code="print(1)")
    assert not [m for m in peer.notifications if m["method"] == "notifications/progress"]


def test_log(server, peer):
    peer.call("logging/setLevel", {"level": "info"})
    peer.good("run_python", code="1")
    (message,) = [m["params"] for m in peer.notifications if m["method"] == "notifications/message"]
    assert message["level"] == "info" and message["logger"] == "glovebox" and message["data"]["verdict"] == "ok"
    peer.notifications.clear()
    peer.call("logging/setLevel", {"level": "warning"})
    peer.good("run_python", code="1")
    assert not peer.notifications
    peer.tool("run_python", code=FOREVER, timeout=0.2)
    assert [m["params"]["level"] for m in peer.notifications] == ["warning"]
    for level in ("loud", None, 3):
        fails(PARAMS, peer.call, "logging/setLevel", {"level": level})


def test_log_of_stateless_requests(server):
    peer = stateless(server)
    peer.tool("run_python", code="1")
    assert not peer.notifications
    peer.tool("run_python", meta={META + "logLevel": "debug"}, code="1")
    assert [m["method"] for m in peer.notifications] == ["notifications/message"]


# ---- cancellation ----

def running(server):
    return [run for run in server.get("/v1/runs?state=running").json["runs"]]


def last_run(server, session):
    return server.get(f"/v1/runs?session={session}&limit=1").json["runs"][0]


def test_cancelled(server, peer):
    """It ends, nothing is answered, and the variables stay."""
    session = peer.good("run_python", code="x = 42")["session"]
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": FOREVER}}, id="loop") as stream:
        wait_for(lambda: last_run(server, session)["state"] == "running")
        peer.notify("notifications/cancelled", {"requestId": "other"})
        peer.notify("notifications/cancelled", {"requestId": "loop", "reason": "enough"})
        assert [m for m in stream.messages() if "id" in m] == []
    assert server.get(f"/v1/runs/{last_run(server, session)['id']}").json["result"]["verdict"]["kind"] == "cancelled"
    assert peer.good("run_python", code="x")["value"] == "42"


def test_code_that_takes_its_time_is_not_killed(server, peer):
    """It is asked once."""
    session = peer.good("run_python", code="x = 42")["session"]
    slow = ("import time\nend = said = None\nwhile not end or time.monotonic() < end:\n    try:\n        said = said or print('slow', flush=True) or 1\n        time.sleep(0.01)\n"
            "    except KeyboardInterrupt:\n        end = end or time.monotonic() + 0.8\nx = 43")
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": slow}}, meta={"progressToken": 1}, id="slow") as stream:
        messages = stream.messages()
        assert "slow" in next(m for m in messages if m["method"] == "notifications/progress")["params"]["message"]
        peer.notify("notifications/cancelled", {"requestId": "slow"})
        assert [m for m in messages if "id" in m] == []
    assert last_run(server, session)["state"] == "ended"
    assert peer.good("run_python", code="x")["value"] == "43"


def test_code_that_does_not_listen_is_killed(server, peer):
    session = peer.good("run_python", code="x = 42")["session"]
    deaf = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nprint('deaf', flush=True)\nwhile True: time.sleep(1)"
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": deaf}}, meta={"progressToken": 1}, id="deaf") as stream:
        messages = stream.messages()
        assert "deaf" in next(m for m in messages if m["method"] == "notifications/progress")["params"]["message"]
        peer.notify("notifications/cancelled", {"requestId": "deaf"})
        assert [m for m in messages if "id" in m] == []
    result = peer.good("run_python", code="'x' in globals()")
    assert result["value"] == "False" and result["session"] == session


def test_gone_is_cancelled_for_stateless_requests(server):
    peer = stateless(server)
    session = peer.good("run_python", code="x = 42")["session"]
    stream = peer.stream("tools/call", {"name": "run_python", "arguments": {"code": FOREVER, "session": session}})
    wait_for(lambda: last_run(server, session)["state"] == "running")
    stream.close()
    wait_for(lambda: last_run(server, session)["state"] == "ended")
    assert server.get(f"/v1/runs/{last_run(server, session)['id']}").json["result"]["verdict"]["kind"] == "cancelled"
    assert peer.good("run_python", code="x", session=session)["value"] == "42"


def test_waiting_for_a_turn_can_be_cancelled(server, peer):
    session = peer.good("run_python", code="x = 42")["session"]
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": FOREVER}}, id="first"):
        wait_for(lambda: last_run(server, session)["state"] == "running")
        with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": "open('never', 'w')"}}, id="second") as second:
            peer.notify("notifications/cancelled", {"requestId": "second"})
            assert [m for m in second.messages() if "id" in m] == []
        peer.notify("notifications/cancelled", {"requestId": "first"})
    wait_for(lambda: last_run(server, session)["state"] == "ended")
    assert [e["name"] for e in peer.good("list_files")["entries"]] == []


def test_the_end_of_a_client_ends_what_it_runs(server):
    peer = Peer(server)
    session = peer.good("run_python", code="1")["session"]
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": FOREVER}}) as stream:
        wait_for(lambda: last_run(server, session)["state"] == "running")
        assert peer.end().status == 200
        assert [m for m in stream.messages() if "id" in m] == []
    assert last_run(server, session)["state"] == "ended" and server.get(f"/v1/sessions/{session}").status == 404


# ---- several at once ----

def test_calls_take_turns_in_an_interpreter(server, peer):
    peer.good("run_python", code="n = 0")
    code = "m = n\nimport time; time.sleep(0.02)\nn = m + 1"
    for result in in_threads([lambda: peer.tool("run_python", code=code)] * 8):
        assert not result["isError"], result
    assert peer.good("run_python", code="n")["value"] == "8"


def test_first_calls_share_one_session(server, peer):
    peer.ready()
    sessions = {result["structuredContent"]["session"] for result in in_threads([lambda: peer.tool("run_shell", command="true")] * 6)}
    assert len(sessions) == 1


def test_an_id_is_used_once_at_a_time(server, peer):
    session = peer.good("run_python", code="1")["session"]
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": FOREVER}}, id="same"):
        wait_for(lambda: last_run(server, session)["state"] == "running")
        fails(INVALID, peer.call, "ping", id="same")
        peer.notify("notifications/cancelled", {"requestId": "same"})
        wait_for(lambda: last_run(server, session)["state"] == "ended")
    wait_for(lambda: "result" in (peer.send(peer.message("ping", id="same")).json or {}))


# ---- streams ----

def test_events_have_ids(server, peer, session):
    peer.ready()
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": STEPS, "session": session}}, meta={"progressToken": 1}) as stream:
        assert stream.headers["X-Accel-Buffering"] == "no"
        events = list(stepping(server, stream, session))
    assert events[0].data == "" and events[0].retry and events[0].id.endswith("-start")
    ids = [event.id for event in events]
    assert len(set(ids)) == len(ids) >= 2 + N_STEPS and len({i.partition("-")[0] for i in ids}) == 1
    assert "result" in events[-1].json


def test_old_clients_get_no_empty_event(server):
    """They would take it for a message."""
    peer = Peer(server, version="2025-06-18")
    peer.ready()
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": "1"}}) as stream:
        assert all(event.data for event in stream)
    peer.end()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_stream_that_broke_goes_on(server, peer, session, after):
    """The run did too, while nobody listened; nothing is told twice and nothing is missing."""
    peer.ready()
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": STEPS, "session": session}}, meta={"progressToken": 1}, id="broken") as stream:
        first = list(itertools.islice(stepping(server, stream, session), after + 1))
    for step in range(N_STEPS):
        go(server, session, step)
    wait_for(lambda: last_run(server, session)["state"] == "ended")
    with peer.listen(last=first[-1].id) as rest:
        events = list(rest)
    messages = [e.json for e in first + events if e.data]
    assert messages[-1]["id"] == "broken" and messages[-1]["result"]["structuredContent"]["value"] == "'done'"
    told = [m["params"] for m in messages if m.get("method") == "notifications/progress"]
    assert [p["progress"] for p in told] == list(range(1, len(told) + 1)) and len(told) >= after
    assert len({e.id for e in first + events}) == len(first + events)
    # And again, from its beginning: it is kept for a while.
    with peer.listen(last=first[0].id) as again:
        assert [e.id for e in again] == [e.id for e in (first + events)[1:]]


def test_streams_of_others_cannot_be_resumed(server, peer):
    peer.ready()
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": "'mine'"}}) as stream:
        last = list(stream)[0].id
    other = Peer(server)
    assert other.listen(last=last).status == 400
    for wrong in ("", "x", "1", "-", "1-", "-1", "1-x", "99-0", "1-99999999999999999999999", "0x1-0", "1--1"):
        assert peer.listen(last=wrong).status in (400,), wrong
    other.end()


def test_one_stream_of_what_belongs_to_no_request(server, peer):
    peer.ready()
    with peer.listen() as stream:
        assert next(iter(stream)).id == "0-start"
        assert peer.listen().status == 409
        # Who comes back takes the place.
        with peer.listen(last="0-start") as again:
            assert again.status == 200
    assert peer.http("GET", headers={**peer.headers(), "Accept": "application/json"}).status == 406


def test_output_cannot_leave_its_event(server, peer):
    hostile = "\\n\\nevent: message\\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}\\n\\n\\r\\rid: 9\\u2028\\u0085"
    peer.ready()
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": f"print('{hostile}', flush=True)\nimport time; time.sleep(0.2)"}}, meta={"progressToken": "t"}, id="x") as stream:
        messages = list(stream.messages())
    assert [m for m in messages if "id" in m] == [messages[-1]] and '\n\nevent: message\ndata: {"jsonrpc"' in messages[-1]["result"]["structuredContent"]["stdout"]


# ---- the server ends ----

def test_a_server_that_ends_closes_its_streams():
    with Server() as server:
        peer = Peer(server)
        session = peer.good("run_python", code="1")["session"]
        with peer.listen() as stream:
            assert next(iter(stream)).id
            ended = threading.Thread(target=lambda: list(stream))
            ended.start()
            assert server.stop() == 0
            ended.join(30)
            assert not ended.is_alive()
    assert session
