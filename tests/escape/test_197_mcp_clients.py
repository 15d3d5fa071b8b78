# SPDX-License-Identifier: Apache-2.0
"""197. A client of MCP with a token that counts sends what is no message, methods that are none, ids of odd types, batches, floods of notifications and of handshakes, arguments
that no tool takes, and ids that belong to others => an error of JSON-RPC, or a status of HTTP; nothing is run by it, nobody else notices, nothing crashes or grows.
"""
import copy
import json
import pathlib
import random
import re
import socket
import time

import pytest
from hostile_clients import SANITIZED, tenants  # noqa: F401
from peer import META, Events, Peer, RpcError
from server import in_threads, wait_for

CODES = {-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -32020, -32021, -32022}
TENANT_CLIENTS_MAX = 512


@pytest.fixture(params=["handshake", "stateless"])
def peer(request, tenants):  # noqa: F811
    made = Peer(tenants, era=request.param, token=tenants.alfa)
    yield made
    if made.session:
        made.end()


def memory(server):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1])


def runs(server, token):
    return [run["id"] for run in server.get("/v1/runs?limit=1000", token=token).json["runs"]]


def lives(server, pid):
    assert server.pid == pid and server.process.poll() is None and server.get("/healthz").status == 200


def judge(answer):
    """It is an answer of the protocol, a notification that was taken, or a refusal of HTTP."""
    if isinstance(answer, Events):
        with answer:
            return [event.json for event in answer if event.data]
    assert answer.status in (200, 202, 400, 404, 406, 413, 415, 429, 431, 503), answer.explain()
    if answer.status == 202:
        assert answer.body == b""
    elif answer.json is not None and answer.json.get("jsonrpc"):
        assert set(answer.json) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), answer.explain()
        if "error" in answer.json:
            assert answer.json["error"]["code"] in CODES and isinstance(answer.json["error"]["message"], str), answer.explain()
    else:
        assert answer.json["error"]["message"], answer.explain()
    return answer.json


ODD = [None, True, False, 0, -1, 1.5, 1e308, 2 ** 63 - 1, "", "x", "\u0000", "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"), "a" * 10000, [], [1], {}, {"a": 1}, "../../etc/passwd", "%00", "\r\nX: y"]


RUN = {"name": "run_python", "arguments": {"code": "1"}}
VERSION_AT, CAPABILITIES_AT = "params._meta." + META + "protocolVersion", "params._meta." + META + "clientCapabilities"


def is_refused(peer, place, value):
    """Whether nothing may be run by a call that is good but for this."""
    if place in ("jsonrpc", "method", "params", "params.name", "params.arguments", VERSION_AT):
        return True
    if place == "id":
        return not isinstance(value, (int, str)) or isinstance(value, bool) or value == "\0" or len(str(value)) > 1000
    if place == "params.arguments.code":
        return not isinstance(value, str)
    return peer.era == "stateless" and (place == "params._meta" or place == CAPABILITIES_AT and not isinstance(value, dict))


def runs_by(peer, server, message):
    """How many runs come of it."""
    before = set(runs(server, peer.token))
    judge(peer.send(json.dumps(message).encode(), {"Mcp-Method": message["method"], "Mcp-Name": "run_python"}))
    return len(set(runs(server, peer.token)) - before)


@pytest.mark.parametrize("place", ["jsonrpc", "id", "method", "params", "params.name", "params.arguments", "params.uri", "params.cursor", "params._meta", "params._meta.progressToken", "params.requestId", "params.level",
                                   "params.notifications", "params.arguments.code", VERSION_AT, CAPABILITIES_AT])
def test_odd_values_everywhere(tenants, peer, place):  # noqa: F811
    peer.ready()
    pid, before = tenants.pid, runs(tenants, tenants.alfa)
    for method in ("tools/call", "tools/list", "resources/read", "resources/subscribe", "logging/setLevel", "initialize", "notifications/cancelled", "nothing"):
        for value in ODD:
            message = peer.message(method, {"name": "run_python", "uri": "glovebox://x", "level": "info"}, {"progressToken": 1}, id=1)
            if is_refused(peer, place, value):
                message["params"].update(copy.deepcopy(RUN))
            elif place == "params.arguments.code":
                continue  # that is code
            *outer, key = place.replace(META, "@").split(".")
            at = message
            for name in outer:
                at = at[name]
            at[key.replace("@", META)] = value
            judge(peer.send(json.dumps(message).encode(), {"Mcp-Method": method, "Mcp-Name": "run_python" if method == "tools/call" else "glovebox://x"}))
    lives(tenants, pid)
    assert runs(tenants, tenants.alfa) == before, "nothing was run"
    assert runs_by(peer, tenants, peer.message("tools/call", RUN, {"progressToken": 1}, id=1)) == 1, "without anything odd it would have been"


def off_schema(schema, value):
    """Arguments that the schema does not let through, one wrong thing each."""
    wrong = {"string": [7, None, [], {}, True], "number": ["1", None, [], True, -1, 0, 1e300], "integer": ["1", None, [], 1.5, -1, 1e300], "array": ["x", 7, {}, [7], [None]], "boolean": ["x", 1]}
    for name in schema.get("required", []):
        yield {key: v for key, v in value.items() if key != name}
    for name, inner in schema["properties"].items():
        for bad in ["nobody"] if "enum" in inner else []:
            yield {**value, name: bad}
        for bad in wrong[inner.get("type", "string")]:
            yield {**value, name: bad}
    yield {**value, "privileged": True}
    yield {**value, "__proto__": {}}
    yield from ([], "x", 7, None, True)


def test_arguments_off_the_schema(tenants, peer):  # noqa: F811
    before = runs(tenants, tenants.alfa)
    tools = peer.call("tools/list")["tools"]
    assert len(tools) == 8
    for tool in tools:
        good = {"run_python": {"code": "1"}, "run_shell": {"command": "true"}, "run_code": {"language": "sh", "code": "true"}, "write_file": {"path": "a", "content": "b"},
                "read_file": {"path": "a"}}.get(tool["name"], {})
        for arguments in off_schema(tool["inputSchema"], good):
            with pytest.raises(RpcError) as caught:
                peer.call("tools/call", {"name": tool["name"], "arguments": arguments})
            assert caught.value.code == -32602 and caught.value.message.startswith("arguments"), (arguments, caught.value)
    for name in ("run_pythn", "", "RUN_PYTHON", "run_python\n", "__init__", "x" * 5000):
        with pytest.raises(RpcError) as caught:
            peer.call("tools/call", {"name": name, "arguments": {}})
        assert caught.value.code == -32602 and len(caught.value.message) < 600
    assert runs(tenants, tenants.alfa) == before, "nothing was run"


def mutate(random_, message):
    """Cuts, doubles, swaps and changes bytes."""
    data = bytearray(json.dumps(message).encode())
    for _ in range(random_.randint(1, 4)):
        at, kind = random_.randrange(len(data)), random_.randrange(5)
        if kind == 0:
            data[at] = random_.randrange(256)
        elif kind == 1:
            del data[at:at + random_.randint(1, 20)]
        elif kind == 2:
            data[at:at] = data[at:at + random_.randint(1, 40)]
        elif kind == 3:
            data[at:at] = random_.choice([b"{", b"}", b"[", b'"', b"\\u0000", b"\xff", b"1e999", b"null", b"," * 5, b"\n"])
        else:
            del data[at:]
        if not data:
            data = bytearray(b" ")
    return bytes(data)


def test_random_damage(tenants, peer):  # noqa: F811
    """The same for each run: 1500 messages, broken in all the ways bytes can be."""
    peer.ready()
    pid, random_ = tenants.pid, random.Random(197)
    seeds = [peer.message("tools/list", id=1), peer.message("tools/call", {"name": "session_info", "arguments": {}}, id="a"), peer.message("resources/read", {"uri": "glovebox://runs/" + "0" * 32 + "/stdout"}, id=2),
             peer.message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, id=0), peer.message("notifications/cancelled", {"requestId": 1}), peer.message("resources/list", {"cursor": "x"}, id=3)]
    for _ in range(750):
        judge(peer.send(mutate(random_, random_.choice(seeds)), {"Mcp-Method": random_.choice(["tools/list", "tools/call", None]), "Mcp-Name": random_.choice(["session_info", None])}))
    lives(tenants, pid)


def test_floods_of_notifications(tenants):  # noqa: F811
    peer, other = Peer(tenants, token=tenants.alfa), Peer(tenants, token=tenants.bravo)
    peer.ready(), other.ready()
    for method in ("notifications/cancelled", "notifications/initialized", "notifications/x"):
        peer.notify(method, {"requestId": 1})
    before = memory(tenants)

    def flood():
        for i in range(400):
            peer.notify("notifications/cancelled", {"requestId": i, "reason": "x" * 1000})

    in_threads([flood] * 4)
    assert other.call("ping") == {}
    assert SANITIZED or memory(tenants) < before + 16 * 1024  # that keeps what was freed
    peer.end(), other.end()


def test_floods_of_handshakes(tenants):  # noqa: F811
    """Those that were silent for longest go; of another tenant nothing does. A client that has something under way stays."""
    other, first = Peer(tenants, token=tenants.bravo), Peer(tenants, token=tenants.alfa)
    other.ready(), first.ready()
    with first.listen() as held:
        assert next(iter(held)).id
        before = memory(tenants)
        last = None
        for _ in range(TENANT_CLIENTS_MAX + 40):
            last = Peer(tenants, token=tenants.alfa)
            last.ready()
        assert other.call("ping") == {} and last.call("ping") == {} and first.call("ping") == {}
        assert SANITIZED or memory(tenants) < before + 32 * 1024
    other.end(), first.end()


def test_what_belongs_to_others(tenants):  # noqa: F811
    """Sessions, files, outputs and streams of another tenant are as if they had never been."""
    owner, thief = Peer(tenants, token=tenants.bravo), Peer(tenants, token=tenants.alfa)
    made = owner.good("run_python", code="open('secret.txt', 'w').write('bravo'); print('bravo')")
    session, run, never = made["session"], made["run"], "0" * 32
    for tool, arguments in (("run_python", {"code": "1"}), ("run_shell", {"command": "true"}), ("run_code", {"language": "sh", "code": "true"}), ("write_file", {"path": "a", "content": "b"}), ("read_file", {"path": "secret.txt"}),
                            ("list_files", {}), ("session_info", {}), ("reset_session", {})):
        theirs, nobodys = thief.bad(tool, session=session, **arguments), thief.bad(tool, session=never, **arguments)
        assert theirs.replace(session, "*") == nobodys.replace(never, "*") and "bravo" not in theirs
    for uri in (f"glovebox://sessions/{session}/files/secret.txt", f"glovebox://runs/{run}/stdout"):
        told = []
        for text in (uri, uri.replace(session, never).replace(run, never)):
            with pytest.raises(RpcError) as caught:
                thief.call("resources/read", {"uri": text})
            told.append((caught.value.code, caught.value.message.replace(session, "*").replace(run, "*").replace(never, "*")))
            assert "bravo" in owner.good("read_file", path=uri)["text"]
            assert "bravo" not in thief.bad("read_file", path=text)
        assert told[0] == told[1]
    for headers in ({"Mcp-Session-Id": owner.session},):
        answer = thief.send(thief.message("ping", id=1), headers)
        assert answer.status == 404 and answer.json["error"]["code"] == -32001
    assert owner.good("run_python", code="open('secret.txt').read()")["value"] == "'bravo'"
    owner.end(), thief.end()


def test_deep_and_large_messages(tenants, peer):  # noqa: F811
    peer.ready()
    pid, before = tenants.pid, memory(tenants)
    for text in (b"[" * 100000, b'{"a":' * 100000, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{' + b",".join(b'"%d":0' % i for i in range(40000)) + b"}}", b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b"1" * 100000):
        answer = peer.send(text)
        assert answer.status == 400 and answer.json["error"]["code"] == -32700, answer.explain()
    message = copy.deepcopy(peer.message("tools/call", {"name": "run_python", "arguments": {"code": "#" + "x" * (17 << 20)}}, id=1))
    judge(peer.send(message))
    lives(tenants, pid)
    assert SANITIZED or memory(tenants) < before + 64 * 1024


# ---- what was found by attacking it ----

FOREVER = "import time\nwhile True: time.sleep(0.01)"


def busy(tenants, peer, code=FOREVER):  # noqa: F811
    """A call that goes on, in the client's own session: its stream, and the session."""
    session = peer.good("run_python", code="x = 1")["session"]
    stream = peer.stream("tools/call", {"name": "run_python", "arguments": {"code": code}}, id="busy")
    wait_for(lambda: tenants.get(f"/v1/runs?session={session}&limit=1", token=peer.token).json["runs"][0]["state"] == "running")
    return stream, session


@pytest.mark.waits
def test_a_slow_reader_holds_no_session(tenants):  # noqa: F811
    """Who does not read what is told of a run does not keep its session from ending."""
    peer = Peer(tenants, token=tenants.alfa)
    session = peer.good("run_python", code="x = 1")["session"]
    noisy = "import time\nwhile True:\n    print(chr(1) * 4096, flush=True)\n    time.sleep(0.02)"
    message = peer.message("tools/call", {"name": "run_python", "arguments": {"code": noisy}}, {"progressToken": 1}, id="deaf")
    body = json.dumps(message).encode()
    with tenants.raw(tcp=True) as plain:
        head = [f"{name}: {value}" for name, value in {**peer.headers(message), "Host": "127.0.0.1:%d" % tenants.tcp[1], "Content-Length": len(body)}.items()]
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.sendall("\r\n".join(["POST /mcp HTTP/1.1", *head, "", ""]).encode() + body)
        time.sleep(5)  # until nothing goes any more: each event has 24 KB
        began = time.monotonic()
        assert tenants.delete(f"/v1/sessions/{session}", token=tenants.alfa).status == 204
        assert time.monotonic() - began < 40
    peer.end()


def test_large_calls_do_not_wait_for_a_turn(tenants):  # noqa: F811
    """What they hold of memory that all share would be held as long as others like."""
    peer = Peer(tenants, token=tenants.alfa)
    stream, _ = busy(tenants, peer)
    with stream:
        assert "runs something already" in peer.bad("run_python", code="#" + "x" * (2 << 20))
        peer.notify("notifications/cancelled", {"requestId": "busy"})
    answer = peer.send(peer.message("tools/call", {"name": "run_python", "arguments": {"code": "1"}, "_meta": {"x": "y" * (25 << 20)}}, id=1))
    assert answer.status == 413, answer.explain()
    peer.end()


def test_long_progress_tokens_are_none(tenants):  # noqa: F811
    peer = Peer(tenants, token=tenants.alfa)
    peer.tool("run_python", meta={"progressToken": "t" * 257}, code="import time\nfor i in range(5): print(i, flush=True); time.sleep(0.15)")
    assert not [m for m in peer.notifications if m["method"] == "notifications/progress"]
    message = {"name": "run_python", "arguments": {"code": "print(1, flush=True)\n" + FOREVER}}
    with peer.stream("tools/call", message, meta={"progressToken": "t" * 256}, id="told") as stream:
        assert next(m for m in stream.messages() if m["method"] == "notifications/progress")["params"]["progressToken"] == "t" * 256
        peer.notify("notifications/cancelled", {"requestId": "told"})
    peer.end()


def test_who_comes_back_takes_the_place(tenants):  # noqa: F811
    """There is one stream of a client for what belongs to no request, however often it is asked for."""
    peer = Peer(tenants, token=tenants.alfa)
    peer.ready()
    streams = [peer.listen()]
    assert next(iter(streams[0])).id == "0-start"
    for _ in range(5):
        streams.append(peer.listen(last="0-start"))
    for old in streams[:-1]:
        assert list(old) == [], "it has ended"
    streams[-1].close()
    peer.end()


def test_bytes_of_subscriptions(tenants):  # noqa: F811
    peer = Peer(tenants, token=tenants.alfa)
    session = peer.good("run_python", code="1")["session"]
    with pytest.raises(RpcError) as caught:
        for i in range(20):
            peer.call("resources/subscribe", {"uri": f"glovebox://sessions/{session}/files/" + "/".join([f"{i:02}" + "x" * 200] * 15)})
    assert caught.value.code == -32602 and 5 < i < 19
    peer.end()
