# SPDX-License-Identifier: Apache-2.0
"""`glovebox mcp`: what a client says on standard input, and how it ends."""
import base64
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import pytest

from server import BINARY, PATIENCE, Server, wait_for
from stdio_peer import HANDSHAKE, LATE, Cutter, RpcError, Stdio, alive, below, environment


@pytest.fixture
def peer():
    """With a private server, after the handshake."""
    with Stdio() as made:
        made.initialize()
        yield made


@pytest.fixture(scope="module")
def api():
    """A server that others use, too."""
    with Server() as made:
        yield made


def printed(result):
    assert not result["isError"], result
    return result["structuredContent"]["stdout"]


def nothing_is_left(peer, known):
    wait_for(lambda: not alive(known) and not peer.left())


# ---- messages ----

def test_handshake_and_tools():
    with Stdio() as peer:
        result = peer.initialize()
        assert result["protocolVersion"] == HANDSHAKE and result["serverInfo"]["name"] == "glovebox"
        assert {"run_python", "run_shell"} <= {tool["name"] for tool in peer.call("tools/list")["tools"]}
        assert peer.call("ping") == {}
        assert printed(peer.tool("run_python", code="x = 6 * 7\nprint(x)")) == "42\n"
        assert printed(peer.tool("run_python", code="print(x + 1)")) == "43\n"  # the session is the client's own
        assert peer.stderr() == ""


def test_ids_are_given_back_as_they_were(peer):
    for ident in (0, -1, 2**53, "", "a b\u00e4\n", "0"):
        peer.request("ping", ident=ident)
        assert peer.answer(ident)["id"] == ident and type(peer.answer(ident)["id"]) is type(ident)


def test_two_runs_at_the_same_time(peer):
    """Each waits for what only the other one does: one after the other they would never end."""
    session = peer.tool("session_info")["structuredContent"]
    code = ("import os, time\nopen({mine!r}, 'w').close()\nend = time.monotonic() + 40\n"
            "while not os.path.exists({other!r}) and time.monotonic() < end: time.sleep(0.01)\nprint(os.path.exists({other!r}))")
    first = peer.start_tool("run_python", code=code.format(mine="a", other="b"))
    second = peer.start_tool("run_shell", command="touch b; i=0; while [ ! -e a ] && [ $i -lt 4000 ]; do sleep 0.01; i=$((i+1)); done; ls a")
    assert printed(peer.result(second)) == "a\n" and printed(peer.result(first)) == "True\n", session


def test_progress_comes_before_the_answer(peer):
    code = "import os, time\nfor i in range(3):\n    print(i, flush=True)\n    while not os.path.exists(f'go{i}'): time.sleep(0.01)"
    told = lambda: [message["params"] for message in peer.notifications if message["method"] == "notifications/progress"]
    call = peer.start_tool("run_python", meta={"progressToken": "p"}, code=code)
    for step in range(3):
        while f"{step}\n" not in "".join(row.get("message", "") for row in told()):
            assert peer.next_message() not in (None, LATE) and call not in peer.answers
        peer.tool("write_file", path=f"go{step}", content="")
    assert printed(peer.result(call)) == "0\n1\n2\n"
    told = told()
    assert len(told) >= 3 and all(row["progressToken"] == "p" for row in told)
    assert [row["progress"] for row in told] == sorted({row["progress"] for row in told})


def test_cancel(peer):
    """It is stopped, and nothing is said of it; the session goes on."""
    peer.tool("run_python", code="x = 1")
    call = peer.start_tool("run_python", code="open('began', 'w').close()\nimport time\ntime.sleep(600)")
    wait_for(lambda: "began" in json.dumps(peer.tool("list_files")))
    peer.notify("notifications/cancelled", {"requestId": call, "reason": "test"})
    assert printed(peer.tool("run_python", code="print('next')")) == "next\n"
    assert call not in peer.answers


def test_cancel_at_once(peer):
    peer.tool("run_python", code="1")
    call = peer.start_tool("run_python", code="import time\ntime.sleep(600)")
    peer.notify("notifications/cancelled", {"requestId": call})
    assert printed(peer.tool("run_python", code="print('next')")) == "next\n"
    assert call not in peer.answers


def test_cancel_of_what_is_not_there(peer):
    peer.notify("notifications/cancelled", {"requestId": 4711})
    peer.notify("notifications/cancelled", {})
    assert peer.call("ping") == {}


BAD = [(b"no json", -32700), (b'{"jsonrpc":"2.0","id":1', -32700), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600), (b"[]", -32600), (b"1", -32600),
       (b"\xff\xfe", -32700), (b'{"jsonrpc":"2.0","id":1,"method":"p\x00ing"}', -32700), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
       (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600), (b"{}", -32600)]


def test_lines_that_are_no_messages(peer):
    for line, code in BAD:
        before = len(peer.unasked)
        peer.write(line + b"\n")
        wait_for(lambda: peer.next_message() and len(peer.unasked) > before)
        assert peer.unasked[-1]["id"] is None and peer.unasked[-1]["error"]["code"] == code, (line, peer.unasked[-1])
    assert peer.call("ping") == {}


def test_an_error_of_the_server_has_the_id(peer):
    with pytest.raises(RpcError) as caught:
        peer.call("tools/call", {"name": "no_such_tool", "arguments": {}})
    assert caught.value.code == -32602
    with pytest.raises(RpcError) as caught:
        peer.call("no/such/method")
    assert caught.value.code == -32601
    peer.send({"jsonrpc": "1.0", "id": "v", "method": "ping"})
    assert peer.answer("v")["error"]["code"] == -32600


def test_blank_lines_and_other_ends_of_lines(peer):
    peer.write(b"\n   \n\t\r\n")
    peer.write(b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')
    assert peer.result("crlf") == {} and peer.unasked == []


def test_a_line_in_pieces(peer):
    for piece in (b'{"jsonrpc":"2.0",', b'"id":"pieces","meth', b'od":"ping"}\n{"jsonrpc":"2.0","id":"two","method":"ping"}\n'):
        peer.write(piece)
        time.sleep(0.02)
    assert peer.result("pieces") == {} and peer.result("two") == {}


def test_a_line_that_is_too_long(peer):
    piece = b"x" * (1 << 20)
    for _ in range(25):
        peer.write(piece)
    peer.write(b'\n{"jsonrpc":"2.0","id":"behind","method":"ping"}\n')
    assert peer.result("behind") == {}
    assert [message["error"]["code"] for message in peer.unasked] == [-32700] and "24 MiB" in peer.unasked[0]["error"]["message"]


def test_large_answers_and_a_slow_reader(api, tmp_path):
    """Whole lines also when they are larger than a pipe, which is full for a while: nothing is lost, and what is said meanwhile is heard."""
    session = api.session()
    api.put(f"/v1/sessions/{session}/files/big.txt", b"x" * 200000).expect(201)
    read_end, write_end = os.pipe()
    process = subprocess.Popen([str(BINARY), "mcp", f"--server=unix:{api.socket}"], stdin=subprocess.PIPE, stdout=write_end, stderr=subprocess.DEVNULL,
                               env=environment(tmp_path, private=False))

    def send(*messages):
        process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))
        process.stdin.flush()

    try:
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        send({"id": "i", "method": "initialize", "params": hello}, {"method": "notifications/initialized"},
             *({"id": n, "method": "resources/read", "params": {"uri": f"glovebox://sessions/{session}/files/big.txt"}} for n in range(20)))
        wait_for(lambda: not select.select([], [write_end], [], 0)[1])  # it is full
        send({"id": "behind", "method": "ping"})
        found, rest = {}, b""
        while len(found) < 22:
            assert select.select([read_end], [], [], PATIENCE)[0], f"these are missing: {set(range(20)) - set(found)}"
            *lines, rest = (rest + os.read(read_end, 65536)).split(b"\n")
            for message in map(json.loads, lines):
                assert "result" in message and message["id"] not in found, message
                found[message["id"]] = message["result"]
        assert rest == b"" and found["behind"] == {} and all(found[n]["contents"][0]["text"] == "x" * 200000 for n in range(20))
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    finally:
        os.close(read_end)
        os.close(write_end)
        process.stdin.close()
        process.terminate()
        process.wait(PATIENCE)
        api.delete(f"/v1/sessions/{session}").expect(204)


def test_many_at_once(peer):
    """More than may be under way: they wait, and all are answered."""
    calls = [peer.request("tools/list") for _ in range(200)]
    assert all(peer.result(call)["tools"] for call in calls)


def test_before_the_handshake():
    with Stdio() as peer:
        for method, code in (("server/discover", -32601), ("tools/list", -32000)):
            with pytest.raises(RpcError) as caught:
                peer.call(method, {})
            assert caught.value.code == code
        peer.initialize()
        assert peer.call("tools/list")["tools"]


def test_a_second_handshake(peer):
    peer.tool("run_python", code="x = 1")
    peer.initialize()
    assert printed(peer.tool("run_python", code="print('x' in globals())")) == "False\n"


# ---- requests that stand alone ----

def test_stateless():
    with Stdio() as peer:
        assert "2026-07-28" in peer.result(peer.alone("server/discover"))["supportedVersions"]
        for code, wanted in (("x = 5", ""), ("print(x)", "5\n")):  # a client of a process has a session, in the newer protocol, too
            assert printed(peer.result(peer.alone("tools/call", {"name": "run_python", "arguments": {"code": code}}))) == wanted
        assert peer.answer(peer.alone("no/such/method"))["error"]["code"] == -32601
        assert peer.answer(peer.alone("tools/call", {"name": "no such töol", "arguments": {}}))["error"]["code"] == -32602


def test_cancel_of_one_that_stands_alone():
    with Stdio() as peer:
        run = lambda code: peer.alone("tools/call", {"name": "run_python", "arguments": {"code": code}})
        peer.result(run("x = 1"))
        call = run("open('began', 'w').close()\nimport time\ntime.sleep(600)")
        wait_for(lambda: "began" in json.dumps(peer.result(peer.alone("tools/call", {"name": "list_files", "arguments": {}}))))
        peer.notify("notifications/cancelled", {"requestId": call})
        assert printed(peer.result(run("print('next')"))) == "next\n"
        assert call not in peer.answers


# ---- the end ----

def test_the_end_of_standard_input(peer):
    peer.tool("run_python", code="1")
    known = below(peer.process.pid)
    assert len(known) >= 2 and len(peer.left()) == 1
    assert peer.close() == 0
    nothing_is_left(peer, known)
    assert peer.stderr() == ""


def test_the_end_cancels_what_runs(peer):
    call = peer.start_tool("run_python", code="open('began', 'w').close()\nimport time\ntime.sleep(600)")
    wait_for(lambda: "began" in json.dumps(peer.tool("list_files")))
    known = below(peer.process.pid)
    assert peer.close() == 0
    nothing_is_left(peer, known)
    while peer.next_message() is not None:
        pass
    assert call not in peer.answers


def test_what_was_asked_before_the_end_is_answered():
    """As a script does it: all lines, and the end. Answers have a second to come: where even that is too short, it says nothing, and is tried again."""
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines = [{"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": hello},
             {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": "t", "method": "tools/list"}]
    for _ in range(10):
        with Stdio() as peer:
            began = time.monotonic()
            peer.write("\n".join(map(json.dumps, lines)).encode())  # the last one has no end
            assert peer.close() == 0
            took = time.monotonic() - began
            while peer.next_message() is not None:
                pass
            if {"i", "t"} <= set(peer.answers):
                assert peer.result("i") and peer.result("t")["tools"]
                return
            assert took > 1, "it had the time"
    pytest.fail("never")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals(peer, number):
    peer.start_tool("run_python", code="import time\ntime.sleep(600)")
    known = below(peer.process.pid)
    peer.process.send_signal(number)
    assert peer.process.wait(60) == 0
    nothing_is_left(peer, known)


def test_killed(peer):
    peer.tool("run_python", code="1")
    known = below(peer.process.pid)
    peer.process.kill()
    peer.process.wait()
    nothing_is_left(peer, known)


def test_nobody_reads_any_more():
    """A client that has died: its pipe is closed. That is seen also when there is nothing to write."""
    with Stdio() as peer:
        read_end, write_end = os.pipe()
        process = subprocess.Popen([str(BINARY), "mcp"], stdin=subprocess.PIPE, stdout=write_end, stderr=subprocess.PIPE, env=environment(peer.directory))
        os.close(write_end)
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert os.read(read_end, 100)
        known = below(process.pid)
        os.close(read_end)
        assert process.wait(60) == 0
        process.communicate()
        wait_for(lambda: not alive(known))


def test_a_reader_that_does_not_read():
    """It ends all the same."""
    with Stdio() as peer:
        read_end, write_end = os.pipe()
        process = subprocess.Popen([str(BINARY), "mcp"], stdin=subprocess.PIPE, stdout=write_end, stderr=subprocess.DEVNULL, env=environment(peer.directory))
        os.close(write_end)
        for _ in range(3000):
            process.stdin.write(b"no message\n" * 10)
        process.stdin.close()
        assert process.wait(60) == 0
        os.close(read_end)


# ---- the server ----

def test_the_private_server_is_killed(peer):
    peer.tool("run_python", code="x = 1")
    waiting = [peer.start_tool("run_python", code="open('began', 'w').close()\nimport time\ntime.sleep(600)"), peer.start_tool("run_shell", command="sleep 600")]
    wait_for(lambda: "began" in json.dumps(peer.tool("list_files")))
    first = peer.server_pid()
    os.kill(first, signal.SIGKILL)
    for call in waiting:
        error = peer.answer(call)["error"]
        assert error["code"] == -32603 and "signal 9" in error["message"] and "lost" in error["message"]
    wait_for(lambda: not peer.left())
    result = peer.tool("run_python", code="print('x' in globals())")
    assert printed(result) == "False\n"  # another one, which knows the client again
    assert result["content"][0]["text"].startswith("The server was started anew, and a session from before is lost")
    assert "anew" not in json.dumps(peer.tool("run_python", code="1")), "it is said once"
    assert peer.server_pid() != first and len(peer.left()) == 1
    known = below(peer.process.pid)
    assert peer.close() == 0
    nothing_is_left(peer, known)


def test_the_keeper_is_killed(peer):
    """The process between us and the server: what it would have removed is removed by us."""
    server = peer.server_pid()
    keeper = next(pid for pid in below(peer.process.pid) if pid != server and server in below(pid))
    known = below(peer.process.pid)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not alive(known))
    assert peer.tool("run_python", code="print(1)")["isError"] is False
    known = below(peer.process.pid)
    assert peer.close() == 0
    nothing_is_left(peer, known)


def test_a_server_that_is_named(api):
    with Stdio(f"--server=unix:{api.socket}") as peer:
        peer.initialize()
        assert printed(peer.tool("run_python", code="print(6 * 7)")) == "42\n"
        assert below(peer.process.pid) == {} and peer.left() == []
        assert len(api.get("/v1/sessions").json["sessions"]) == 1
        assert peer.close() == 0
        wait_for(lambda: api.get("/v1/sessions").json["sessions"] == [])


def test_a_stateless_client_leaves_nothing_at_a_server_either(api):
    with Stdio(f"--server=unix:{api.socket}") as peer:
        peer.result(peer.alone("tools/call", {"name": "run_python", "arguments": {"code": "1"}}))
        assert len(api.get("/v1/sessions").json["sessions"]) == 1
        assert peer.close() == 0
        wait_for(lambda: api.get("/v1/sessions").json["sessions"] == [])


def test_the_server_at_the_default_socket(api):
    run = api.directory / "found"
    run.mkdir(mode=0o700)
    (run / "glovebox.sock").symlink_to(api.socket)
    for arguments, private in (((), False), (("--private",), True)):
        with Stdio(*arguments, environ={"GLOVEBOX_RUNTIME_DIR": str(run)}) as peer:
            peer.initialize()
            assert bool(below(peer.process.pid)) is private


def test_over_tcp_with_a_token(tmp_path):
    with Server(tcp=True) as server:
        address = "http://127.0.0.1:%d" % server.tcp[1]
        with Stdio(f"--server={address}", environ={"GLOVEBOX_TOKEN": server.token("t")}) as peer:
            peer.initialize()
            assert printed(peer.tool("run_python", code="print(1)")) == "1\n"
        with Stdio(f"--server={address}", "--json", environ={"GLOVEBOX_TOKEN": "wrong"}) as peer:
            assert peer.process.wait(60) == 100
            assert json.loads(peer.lines.get())["error"]["code"] == "unauthorized"
        # What is no message of the protocol becomes one: an error that says why.
        with Stdio(f"--server={address}", environ={"GLOVEBOX_TOKEN": server.token("t", "metrics")}) as peer:
            error = peer.answer(peer.request("ping"))["error"]
            assert error["code"] == -32603 and error["message"].startswith("the server refused: ")
            peer.notify("notifications/initialized")
            peer.notify("notifications/initialized")
            peer.answer(peer.request("ping"))
            assert peer.stderr().count("was not taken") == 1 and peer.unasked == []
        with Stdio(f"--server={address}", "--workspace", str(tmp_path), environ={"GLOVEBOX_TOKEN": server.token("t")}) as peer:
            assert peer.process.wait(60) == 110 and "--workspace" in peer.stderr()


def test_a_connection_that_breaks_off(api):
    """The call goes on at the server, and its answer is fetched."""
    with Cutter(api.socket) as cutter, Stdio(f"--server=unix:{cutter.path}") as peer:
        peer.initialize()
        peer.tool("run_python", code="1")
        call = peer.start_tool("run_python", code="open('began', 'w').close()\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('whole')")
        wait_for(lambda: "began" in json.dumps(peer.tool("list_files")))
        cutter.cut()
        peer.tool("write_file", path="go", content="")
        assert printed(peer.result(call)) == "whole\n"
        again = [head for head in cutter.heads() if head[""] == "GET" and "last-event-id" in head]
        assert again and all(head["mcp-session-id"] for head in again)


def test_the_headers_of_all_requests(api):
    with Cutter(api.socket) as cutter, Stdio(f"--server=unix:{cutter.path}", "--memory", "200m", "--env", "NAME=wört") as peer:
        peer.initialize()
        peer.tool("run_python", code="1")
        peer.result(peer.alone("tools/call", {"name": "run_python", "arguments": {"code": "1"}}))
        peer.answer(peer.alone("resources/read", {"uri": "glovebox://nö"}))
        heads = cutter.heads()
        names = {head["glovebox-client"] for head in heads}
        assert len(names) == 1 and len(names.pop()) == 32
        for head in heads:
            options = json.loads(head["glovebox-session"])
            assert head["glovebox-session"].isascii() and options == {"policy": {"env": {"NAME": "wört"}, "mem_limit": "200m"}}
        assert "mcp-session-id" not in heads[0] and heads[1]["mcp-protocol-version"] == HANDSHAKE and heads[1]["mcp-session-id"]
        single = [head for head in heads if "mcp-method" in head]
        assert [(head["mcp-method"], head["mcp-protocol-version"]) for head in single] == [("tools/call", "2026-07-28"), ("resources/read", "2026-07-28")]
        assert single[0]["mcp-name"] == "run_python"
        assert single[1]["mcp-name"].startswith("=?base64?") and single[1]["mcp-name"].endswith("?=")


def test_a_server_that_is_gone_and_then_started_anew():
    """While it is gone that is said. Then it has forgotten us: the handshake is repeated, and the call is sent again."""
    with Server() as server, Stdio(f"--server=unix:{server.socket}") as peer:
        peer.initialize()
        peer.tool("run_python", code="x = 1")
        server.stop()
        server.process = None
        for call in [peer.request("ping"), peer.start_tool("run_python", code="1")]:
            error = peer.answer(call)["error"]
            assert error["code"] == -32603 and "not there" in error["message"]
        server.start()
        assert peer.call("ping") == {}
        assert printed(peer.tool("run_python", code="print('x' in globals())")) == "False\n"
        assert printed(peer.tool("run_python", code="print('again')")) == "again\n"
        assert peer.stderr().count("forgotten") == 1
        assert [message for message in peer.notifications if message["method"] == "notifications/message" and "forgotten" in message["params"]["data"]]


def test_news_of_files(peer, tmp_path):
    """What belongs to no request: the stream that is opened after the handshake."""
    peer.tool("write_file", path="a.txt", content="1")
    uri = next(row["uri"] for row in peer.call("resources/list")["resources"] if row["name"].endswith("a.txt"))
    peer.call("resources/subscribe", {"uri": uri})
    peer.tool("write_file", path="a.txt", content="23")
    while not any(message["method"] == "notifications/resources/updated" for message in peer.notifications):
        assert peer.next_message() not in (None, LATE)


# ---- flags ----

def test_workspace(tmp_path):
    (tmp_path / "in.txt").write_text("from the host\n")
    tmp_path.chmod(0o777)
    with Stdio("--workspace", ".", cwd=tmp_path) as peer:
        peer.initialize()
        assert printed(peer.tool("run_python", code="print(open('in.txt').read(), end='')\nopen('out.txt', 'w').write('made')")) == "from the host\n"
        assert peer.close() == 0
    assert (tmp_path / "out.txt").read_text() == "made"


def test_limits_and_secrets():
    with Stdio("--memory", "123m", "--secret", "API_KEY", environ={"API_KEY": "s3cret-value-0815"}) as peer:
        peer.initialize()
        assert printed(peer.tool("run_python", code="import os\nprint(len(os.environ['API_KEY']), os.environ['API_KEY'])")).startswith("17 [scrubbed:API_KEY")
        assert "s3cret" not in json.dumps(peer.tool("session_info"))
        server = pathlib.Path(f"/proc/{peer.server_pid()}")
        assert b"s3cret" not in (server / "cmdline").read_bytes()
        if os.geteuid() == 0:  # nobody else can look into it
            assert b"PATH=" in (server / "environ").read_bytes() and b"s3cret" not in (server / "environ").read_bytes()


def test_what_is_wrong_with_the_options_is_told_at_the_handshake():
    with Stdio("--template", "no-such-template") as peer:
        with pytest.raises(RpcError) as caught:
            peer.call("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
        assert "no-such-template" in caught.value.message


WRONG = [(["--no-such-flag"], 110, "--no-such-flag"), (["word"], 110, "word"), (["--memory", "much"], 110, "memory"), (["--idle", "soon"], 110, "--idle"),
         (["--workspace", "/no/such/directory"], 113, "--workspace"), (["--server=unix:/no/such/socket"], 105, "no server"),
         (["--server=http://127.0.0.1:1"], 105, "127.0.0.1:1"), (["--server=unix:/x", "--private"], 110, "--private"),
         (["--server=unix:/x", "--policy", "/x"], 110, "--policy"), (["--policy", "/no/such/file"], 111, "/no/such/file"),
         (["--warm", "no-such-template"], None, "no-such-template"), (["--secret", "NOT_THERE"], 110, "NOT_THERE")]


@pytest.mark.parametrize("arguments,status,text", WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_what_cannot_work_ends_at_once(arguments, status, text):
    with Stdio(*arguments) as peer:
        ended = peer.process.wait(60)
        assert ended != 0 and (status is None or ended == status), peer.stderr()
        assert text in peer.stderr() and peer.stderr().startswith("glovebox: ")
        assert peer.next_message() is None
        wait_for(lambda: not peer.left())


def test_options_that_do_not_fit():
    with Stdio(*[word for i in range(40) for word in ("--env", f"NAME{i}={'x' * 1000}")]) as peer:
        assert peer.process.wait(60) == 110 and "14336" in peer.stderr()


def test_a_server_that_does_not_start(tmp_path):
    (tmp_path / "glovebox-server").write_text("#!/bin/sh\necho 'it is broken' >&2\nexit 3\n")
    (tmp_path / "glovebox-server").chmod(0o755)
    with Stdio(environ={"GLOVEBOX_LIBEXEC_DIR": str(tmp_path)}) as peer:
        assert peer.process.wait(60) == 105
        assert "status 3: it is broken" in peer.stderr()
        wait_for(lambda: not peer.left())
    with Stdio(environ={"GLOVEBOX_LIBEXEC_DIR": str(tmp_path / "empty")}) as peer:
        assert peer.process.wait(60) != 0 and "glovebox-server" in peer.stderr()


def test_verbose():
    with Stdio("--verbose") as peer:
        peer.initialize()
        wait_for(lambda: "server: " in peer.stderr() and " info " in peer.stderr())


def test_at_a_terminal():
    main, other = pty.openpty()
    with Stdio() as peer:
        process = subprocess.Popen([str(BINARY), "mcp"], stdin=other, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(peer.directory),
                                   start_new_session=True)
        os.close(other)
        line = process.stderr.readline()
        assert b"speaks MCP" in line and b"glovebox mcp install" in line
        os.write(main, b"\x04")
        assert process.wait(60) == 0
        process.communicate()
        os.close(main)


def test_the_name_of_a_tool_may_be_encoded():
    """The server reads it back: both say the same, or it would refuse."""
    name = "no such töol"
    with Stdio() as peer:
        error = peer.answer(peer.alone("tools/call", {"name": name, "arguments": {}}))["error"]
        assert error["code"] == -32602 and base64.b64encode(name.encode()).decode() not in error["message"]
