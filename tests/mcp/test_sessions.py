# SPDX-License-Identifier: Apache-2.0
"""Which session a tool works in, what session_info tells of it, and what reset_session does to it."""
import re
import secrets

import pytest

from peer import Events, Peer, RpcError, text_of
from server import Server, in_threads, server, wait_for  # noqa: F401

INVALID_PARAMS = -32602
INFO_KEYS = {"session", "created_at", "expires_at", "seconds_left", "template", "backend", "trust", "network", "languages", "variables", "variables_more", "files",
             "files_more", "limits", "notes"}


@pytest.fixture
def peer(server):  # noqa: F811
    made = Peer(server)
    yield made
    made.end()


def run(peer, code, **arguments):
    return peer.good("run_python", code=code, **arguments)


def variables(info):
    return {row["name"]: row for row in info["variables"]}


def plain(notes):
    """Without what is the same for all sessions of this host: controls that are weaker."""
    return [note for note in notes if not note.startswith("The control ")]


def limit(info, name):
    return next(row for row in info["limits"] if row["name"] == name)


def sessions(server):  # noqa: F811
    return {session["id"] for session in server.get("/v1/sessions").json["sessions"]}


def is_gone(server, session):  # noqa: F811
    return server.get(f"/v1/sessions/{session}").status == 404


# ---- which one ----


def test_a_client_has_one_of_its_own(server, peer):  # noqa: F811
    first = run(peer, "x = 41")
    assert run(peer, "x + 1")["value"] == "42"
    assert run(peer, "x")["session"] == first["session"]
    shown = server.get(f"/v1/sessions/{first['session']}").expect(200).json
    assert shown["name"] == "mcp" and shown["metadata"] == {"mcp_client": peer.session[:8]}
    other = Peer(server)
    assert other.good("session_info")["session"] != first["session"]
    other.end()


def test_it_ends_with_the_client(server, peer):  # noqa: F811
    session = run(peer, "1")["session"]
    assert peer.end().status in (200, 204)
    wait_for(lambda: is_gone(server, session))


def test_parallel_first_calls_make_one(server, peer):  # noqa: F811
    peer.initialize()
    before = sessions(server)
    found = in_threads([lambda: peer.good("session_info")["session"] for _ in range(8)])
    assert len(set(found)) == 1
    assert sessions(server) - before == set(found)


def test_a_client_that_ends_while_it_is_made_leaves_none(server):  # noqa: F811
    before = sessions(server)
    for _ in range(10):
        peer = Peer(server)
        peer.initialize()
        headers = peer.headers()
        call = peer.message("tools/call", {"name": "session_info", "arguments": {}}, id=1)
        answers = in_threads([lambda: peer.send(call), lambda: peer.http("DELETE", headers=headers)])
        assert answers[1].status in (200, 204)
        if isinstance(answers[0], Events):
            answers[0].close()
    wait_for(lambda: sessions(server) <= before)


def test_by_name(server, peer):  # noqa: F811
    own = run(peer, "x = 1")["session"]
    other = run(peer, "x = 2", session="new")["session"]
    assert other != own
    assert [run(peer, "x")["value"], run(peer, "x", session=other)["value"], run(peer, "x", session=own)["value"]] == ["1", "2", "1"]
    by_api = server.session(name="mine")
    assert run(peer, "3", session=by_api)["session"] == by_api
    assert server.get(f"/v1/sessions/{by_api}").json["name"] == "mine"
    for session in (other, by_api):
        server.delete(f"/v1/sessions/{session}").expect(204)
    for session in (other, secrets.token_hex(16)):
        assert "has ended or never was" in peer.bad("run_python", code="1", session=session)
        assert '"new"' in peer.bad("session_info", session=session)


@pytest.mark.parametrize("name", ["", "x", "NEW", "0" * 31, "0" * 33, "g" * 32, "A" * 32, "../" * 8])
def test_what_is_no_name(peer, name):
    assert "32 hexadecimal digits" in peer.bad("run_python", code="1", session=name)


def test_another_tenants_session_is_not_there():
    with Server(tcp=True) as server:  # noqa: F811
        mine, other = (Peer(server, token=server.token(tenant, "run", "read")) for tenant in ("one", "two"))
        session = run(mine, "x = 1")["session"]
        assert "has ended or never was" in other.bad("run_python", code="x", session=session)
        assert "has ended or never was" in other.bad("reset_session", session=session)
        assert run(mine, "x", session=session)["value"] == "1"


def test_one_that_was_deleted_is_replaced(server, peer):  # noqa: F811
    first = run(peer, "x = 1")["session"]
    server.delete(f"/v1/sessions/{first}").expect(204)
    result = peer.tool("run_python", code="'x' in globals()")
    content = result["structuredContent"]
    assert content["session"] != first and content["value"] == "False"
    note = "The session before was deleted, so this is a new one: its variables and files are gone."
    assert note in content["notes"] and note in text_of(result)
    assert note not in run(peer, "1")["notes"]


def test_one_that_was_idle_is_replaced(server):  # noqa: F811
    others = server.used()["sessions"]
    peers = [Peer(server, options={"idle_timeout": 1}) for _ in range(2)]
    first = [run(peer, "x = 1")["session"] for peer in peers]
    # Nobody finds them any more, and then they are over, and their end written.
    wait_for(lambda: all(is_gone(server, session) for session in first))
    wait_for(lambda: server.used()["sessions"] == others)
    info = peers[0].good("session_info")
    assert info["session"] not in first and "nothing was done in it for too long" in info["notes"][0]
    assert 0 < info["seconds_left"] <= 1
    # And that one by the next; it may have ended by itself as well.
    server.delete(f"/v1/sessions/{info['session']}")
    third = peers[0].good("session_info")
    assert third["session"] not in (*first, info["session"]) and re.search("was deleted|for too long", third["notes"][0])
    # Also for a tool that could find nothing to do.
    again = peers[1].good("reset_session")
    assert again["session"] not in first and "for too long" in again["notes"][0]
    for peer in peers:
        peer.end()


def test_a_stateless_client_names_its_sessions(server):  # noqa: F811
    peer = Peer(server, era="stateless")
    first, second = run(peer, "x = 1"), run(peer, "x = 2")
    assert first["session"] != second["session"]
    assert run(peer, "x", session=first["session"])["value"] == "1"
    assert variables(peer.good("session_info", session=second["session"]))["x"]["preview"] == "2"
    before = sessions(server)
    for tool in ("session_info", "reset_session"):
        assert "has no session of its own" in peer.bad(tool)
    assert sessions(server) <= before
    for one in (first, second):
        server.delete(f"/v1/sessions/{one['session']}").expect(204)


# ---- what it is made of ----


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_options_are_those_of_the_api(server, era):  # noqa: F811
    options = {"policy": {"mem_limit": "128m"}, "name": "chosen", "metadata": {"a": "b"}, "idle_timeout": 77}
    peer = Peer(server, era=era, options=options)
    shown = server.get(f"/v1/sessions/{run(peer, '1')['session']}").expect(200).json
    assert shown["policy"]["limits"]["memory_bytes"] == 128 << 20
    assert (shown["name"], shown["metadata"], shown["idle_timeout"]) == ("chosen", {"a": "b"}, 77)
    server.delete(f"/v1/sessions/{shown['id']}").expect(204)


@pytest.mark.parametrize("options", [{"polcy": {}}, {"policy": {"mem_limit": "9999g"}}, {"policy": {"no_such": 1}}, {"policy": {"trust": "none-such"}},
                                     {"idle_timeout": -1}, {"name": 5}, {"workspace": "kept"}, {"metadata": {"a": 1}}])
def test_bad_options_are_refused_as_there(server, options):  # noqa: F811
    message = server.post("/v1/sessions", options).error["message"]
    before = sessions(server)
    with pytest.raises(RpcError) as caught:  # by the handshake
        Peer(server, options=options).initialize()
    assert (caught.value.code, caught.value.message) == (INVALID_PARAMS, f"Glovebox-Session: {message}")
    assert f"Glovebox-Session: {message}" in Peer(server, era="stateless", options=options).bad("run_python", code="1")
    assert sessions(server) <= before


def test_what_the_operator_forbids_is_forbidden():
    with Server(tcp=True) as server:  # noqa: F811
        token = server.token("one", "run")
        options = {"policy": {"guard": "off"}}
        refused = server.post("/v1/sessions", options, token=token).expect(403).error["message"]
        with pytest.raises(RpcError) as caught:
            Peer(server, token=token, options=options).tool("run_python", code="1")
        assert caught.value.message == f"Glovebox-Session: {refused}"


def test_secrets_of_options_do_not_come_out(server):  # noqa: F811
    value = "glovebox-" + secrets.token_hex(40)  # longer than a preview
    peer = Peer(server, options={"secrets": {"KEY": value}})
    found = run(peer, "import os\nkey = os.environ['KEY']\ninside = ['x' * 60, key]\nsecond = {key: key}\nlen(key)")
    assert found["value"] == str(len(value))
    result = peer.tool("session_info")
    told = variables(result["structuredContent"])
    assert told["key"]["type"] == "str" and told["key"]["shape"] == str(len(value)) and "KEY" in told["key"]["preview"]
    assert told["inside"]["preview"].startswith("['xxx")
    for at in range(0, len(value) - 11):
        assert value[at:at + 12] not in repr(result), "a piece of the secret"
    peer.end()


def test_no_previews_with_a_secret_that_is_longer_than_they(server):  # noqa: F811
    value = secrets.token_hex(2000)
    peer = Peer(server, options={"secrets": {"KEY": value}})
    run(peer, "import os\nkey = os.environ['KEY']\nx = 1")
    info = peer.good("session_info")
    assert {name: row["preview"] for name, row in variables(info).items()} == {"key": "", "x": ""}
    assert any("long secret" in note for note in info["notes"])
    assert value[:12] not in repr(info)
    peer.end()


# ---- session_info ----


def test_info(server, peer):  # noqa: F811
    run(peer, "import math\nx = [1, 2, 3]\nname = 'text'\ndef f(): pass\nclass C: pass\nc = C()\n_hidden = 1\nopen('out.csv', 'w').write('a,b\\n')")
    result = peer.tool("session_info")
    info = result["structuredContent"]
    assert set(info) == INFO_KEYS and result["isError"] is False
    shown = server.get(f"/v1/sessions/{info['session']}").json
    assert [info[key] for key in ("created_at", "template", "backend", "trust", "network")] == [
        shown["created_at"], shown["template"], shown["backend"], shown["policy"]["trust"], shown["policy"]["network"]]
    assert 0 < info["seconds_left"] <= shown["idle_timeout"] and info["expires_at"] > info["created_at"]
    assert info["languages"] == ["python"]
    assert [(row["name"], row["type"], row["shape"], row["preview"]) for row in info["variables"]] == [
        ("C", "class", None, ""), ("c", "C", None, ""), ("f", "function", None, ""), ("name", "str", "4", "'text'"), ("x", "list", "3", "[1, 2, 3]")]
    assert variables(info)["x"]["size"] > 0 and variables(info)["c"]["size"] is None and info["variables_more"] == 0
    assert info["files"] == [{"path": "out.csv", "uri": f"glovebox://sessions/{info['session']}/files/out.csv", "type": "text/csv", "size": 4}]
    assert info["files_more"] == 0 and plain(info["notes"]) == []
    text = text_of(result)
    for word in (info["session"], info["expires_at"], "x: list [3]", "= [1, 2, 3]", "out.csv (text/csv, 4 bytes)", "memory: ", "Network: none"):
        assert word in text, text


def test_hidden_files_are_not_denied(peer):  # noqa: F811
    run(peer, "open('.hidden', 'w').write('x')\nNone")
    result = peer.tool("session_info")
    text = text_of(result)
    assert result["structuredContent"]["files"] == []
    assert "has no files" not in text and "begin with a dot" in text, text


def test_limits(server, peer):  # noqa: F811
    run(peer, "open('f', 'wb').write(bytes(3 << 20)); None")
    info = peer.good("session_info")
    policy = server.get(f"/v1/sessions/{info['session']}").json["policy"]["limits"]
    assert limit(info, "disk")["limit"] == policy["disk_bytes"] and 3 << 20 <= limit(info, "disk")["used"] < 4 << 20
    assert limit(info, "inodes")["used"] >= 1 and limit(info, "inodes")["limit"] == policy["inodes"]
    assert limit(info, "memory")["limit"] == policy["memory_bytes"] and limit(info, "pids")["limit"] == policy["pids"]
    assert limit(info, "timeout") == {"name": "timeout", "unit": "seconds of each run", "limit": policy["timeout_usec"] / 1e6, "used": None, "left": None}
    assert limit(info, "output")["limit"] == policy["output_bytes"] and limit(info, "cpu")["limit"] == policy["cpu_milli"] / 1e3
    assert limit(info, "lifetime")["limit"] == 3600
    for row in info["limits"]:
        if row["used"] is not None and row["limit"] is not None:
            assert row["left"] == max(row["limit"] - row["used"], 0), row
        assert row["limit"] is None or row["limit"] > 0
    assert not any("network" in row["name"] for row in info["limits"])


def test_budgets_of_the_network(server):  # noqa: F811
    peer = Peer(server, options={"policy": {"network_allow": ["example.com"], "network_bytes": "1m", "network_requests": 7}})
    info = peer.good("session_info")
    assert info["network"] == "allowlist"
    assert limit(info, "network bytes") == {"name": "network bytes", "unit": "bytes", "limit": 1 << 20, "used": 0, "left": 1 << 20}
    assert limit(info, "network requests")["left"] == 7
    # What it has now, not what it was made with.
    server.put(f"/v1/sessions/{info['session']}/network", b'{"allow": [], "bytes": "2m"}', headers={"Content-Type": "application/json"}).expect(200)
    assert limit(peer.good("session_info"), "network bytes")["limit"] == 2 << 20
    peer.end()


def test_without_python(server, peer):  # noqa: F811
    info = peer.good("session_info")
    assert info["variables"] == [] and info["languages"] == [] and "No Python lives" in info["notes"][0]
    peer.good("run_shell", command="x=1")
    info = peer.good("session_info")
    assert info["variables"] == [] and "python" not in info["languages"] and "No Python lives" in info["notes"][0]
    assert not [c for c in server.get(f"/v1/sessions/{info['session']}/contexts").json["contexts"] if c["language"] == "python"], "it has started one"


def test_after_the_interpreter_has_died(server, peer):  # noqa: F811
    session = run(peer, "x = 1")["session"]
    peer.tool("run_python", code="import os; os._exit(3)")
    info = peer.good("session_info")
    assert info["variables"] == [] and info["languages"] == [] and "No Python lives" in info["notes"][0]
    # It was not started by that: who runs something then is told that his variables are gone.
    result = server.run("'x' in globals()", session)["result"]
    assert result["state"]["restarted"] is True, result["state"]


def test_it_leaves_no_trace(server, peer):  # noqa: F811
    session = run(peer, "import sys\nx = 1\n7")["session"]
    look = "(_, sorted(n for n in globals() if not n.startswith('__')), sorted(__builtins__.__dict__), len(sys.meta_path))"
    before = run(peer, look)["value"]
    run(peer, "_ = 7")
    contexts = server.get(f"/v1/sessions/{session}/contexts").json["contexts"]
    runs = server.get(f"/v1/runs?session={session}").json["runs"]
    for _ in range(3):
        assert list(variables(peer.good("session_info"))) == ["x"]
    assert server.get(f"/v1/sessions/{session}/contexts").json["contexts"] == contexts
    assert server.get(f"/v1/runs?session={session}").json["runs"] == runs
    assert run(peer, look)["value"] == before
    assert run(peer, "x + 1; 8")["value"] == "8"
    peer.good("session_info")
    assert run(peer, "_")["value"] == "7"


def test_what_was_printed_between_two_runs_is_the_next_ones(server, peer):  # noqa: F811
    session = run(peer, "import os, threading, time\ndef late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late', flush=True)\n"
                        "    open('done', 'w').close()\nthreading.Thread(target=late).start()")["session"]
    server.put(f"/v1/sessions/{session}/files/go").expect(201)
    wait_for(lambda: server.get(f"/v1/sessions/{session}/files/done").status == 200)
    assert "late" in variables(peer.good("session_info"))
    assert run(peer, "print('now')")["stdout"] == "late\nnow\n"


def test_a_full_pipe_does_not_cost_the_interpreter(server, peer):  # noqa: F811
    """A thread holds the lock of standard output, and waits for somebody who reads."""
    session = run(peer, "import os, sys, threading, time\ndef flood():\n    while not os.path.exists('go'): time.sleep(0.01)\n    open('done', 'w').close()\n"
                        "    sys.stdout.write('x' * (8 << 20))\nthread = threading.Thread(target=flood)\nthread.start()\nkept = 5")["session"]
    server.put(f"/v1/sessions/{session}/files/go").expect(201)
    wait_for(lambda: server.get(f"/v1/sessions/{session}/files/done").status == 200)
    assert variables(peer.good("session_info"))["kept"]["preview"] == "5"
    assert run(peer, "thread.join()\nkept")["value"] == "5"


HOSTILE = """
import weakref
class Meta(type):
    @property
    def __name__(self): called.append("name")
class Hostile(metaclass=Meta):
    def __repr__(self): called.append("repr")
    def __len__(self): called.append("len")
    def __sizeof__(self): called.append("sizeof")
    def __getattribute__(self, name): called.append(name)
    __class__ = property(lambda self: called.append("class"))
    def __eq__(self, other): called.append("eq")
    def __hash__(self): called.append("hash"); return 1
class MyList(list):
    def __repr__(self): called.append("list")
    def __iter__(self): called.append("iter")
called = []
hostile, nested, mine = Hostile(), [Hostile(), {"k": Hostile()}], MyList("abc")
called.clear()
list = dict = type = len = sorted = repr = str = issubclass = None
huge = 10 ** 100000
deep = []
for _ in range(100000): deep = [deep]
loop = []; loop.append(loop)
long = "x" * 10_000_000
globals()["not a name\\n</variables>"] = 1
globals()["\\ud800\\0"] = "\\ud800\\0"
globals()[5] = 6
far = range(10 ** 40)
None
"""


def test_hostile_variables(peer):
    run(peer, HOSTILE)
    info = peer.good("session_info")
    told = variables(info)
    assert run(peer, "called")["value"] == "[]"
    assert told["hostile"] == {"name": "hostile", "type": "Hostile", "shape": None, "size": None, "preview": ""}
    assert told["nested"]["preview"] == "[<Hostile>, {'k': <Hostile>}]" and told["mine"]["preview"] == "" and told["mine"]["shape"] is None
    assert told["huge"]["preview"].startswith("<int of ") and told["deep"]["preview"] == "[[[...]]]" and told["loop"]["preview"] == "[[[...]]]"
    assert told["long"]["shape"] == "10000000" and len(told["long"]["preview"]) == 83 and told["long"]["preview"].endswith("x...")
    assert "not a name\\n</variables>" in told and told["\\ud800\\x00"]["preview"] == "'\\ud800\\x00'"
    assert told["far"]["shape"] is None and told["list"]["preview"] == "None"
    assert plain(info["notes"]) == []


def test_many_variables(peer):
    run(peer, "for i in range(5000): globals()['v%04d' % i] = i")
    info = peer.good("session_info")
    assert [row["name"] for row in info["variables"]][:3] == ["i", "v0000", "v0001"] and len(info["variables"]) == 200
    assert info["variables_more"] == 5001 - 200


def test_arrays(peer):
    """Of libraries by their own word: a stand-in, since none need be installed."""
    run(peer, "class Array:\n    __module__ = 'numpy.core'\n    shape = (3, 4)\n    nbytes = 96\n"
              "class Wrong:\n    __module__ = 'numpy'\n    shape = ('a', 1)\n    nbytes = 'x'\n"
              "class Mine:\n    shape = (1, 2)\n    nbytes = 3\na, b, c = Array(), Wrong(), Mine()")
    told = variables(peer.good("session_info"))
    assert [(told[name]["shape"], told[name]["size"]) for name in "abc"] == [("(3, 4)", 96), (None, None), (None, None)]


def test_python_that_does_not_answer():
    """It lies about where its type comes from, and hangs when it is asked. Interrupted it goes on to live."""
    with Server(policy="timeout: 1s\ntimeout_max: 1s\nallow_weaker: []\n") as server:  # noqa: F811
        peer = Peer(server)

        def until(code, value):
            """Nothing has more than that second, also where it is short for anybody: then it is asked again."""
            wait_for(lambda: peer.tool("run_python", code=code)["structuredContent"]["value"] == value)

        until("class Slow:\n    __module__ = 'numpy'\n    @property\n    def shape(self):\n        while True: pass\nx, slow = 1, Slow()\n'made'", "'made'")
        info = peer.good("session_info")
        assert info["variables"] == [] and any("in time" in note for note in info["notes"])
        until("globals().pop('slow', None); x", "1")
        wait_for(lambda: variables(peer.good("session_info")).get("x", {}).get("preview") == "1")


@pytest.mark.parametrize("lie", ["5", "{}", "{'variables': 5, 'more': 0}", "{'variables': [5], 'more': 0}", "{'variables': [[1, 2]], 'more': 0}",
                                 "{'variables': [], 'more': -1}", "{'variables': [], 'more': 'x'}"])
def test_answers_that_are_made_up(peer, lie):
    run(peer, "import builtins\nold = builtins.display\n"
              "builtins.display = lambda *things, **how: old({'application/vnd.glovebox.variables+json': %s}, raw=True)" % lie)
    info = peer.good("session_info")
    assert info["variables"] == [] and any("could not tell" in note for note in info["notes"])


def test_an_answer_that_is_made_up_well(peer):
    run(peer, "import builtins\nold = builtins.display\nrows = [['n' * 999, None, 5, -5, 'p' * 999]] * 999\n"
              "builtins.display = lambda *things, **how: old({'application/vnd.glovebox.variables+json': {'variables': rows, 'more': 3}}, raw=True)")
    info = peer.good("session_info")
    assert info["variables"] == [{"name": "n" * 200 + "...", "type": "", "shape": None, "size": None, "preview": "p" * 80 + "..."}] * 200
    assert info["variables_more"] == 3


def test_the_guard_does_not_stop_our_own_question():
    with Server(policy="guard: on\nguard_imports:\n  - builtins\nallow_weaker: []\n") as server:  # noqa: F811
        peer = Peer(server)
        run(peer, "x = 1")
        assert peer.tool("run_python", code="__import__('builtins')")["structuredContent"]["verdict"] == "blocked"
        assert variables(peer.good("session_info"))["x"]["preview"] == "1"


def start_loop(server, session):  # noqa: F811
    """A run that does not end by itself."""
    running = server.post(f"/v1/sessions/{session}/runs", {"code": "import time\nwhile True: time.sleep(0.01)", "detach": True}).expect(202).json["id"]
    server.wait_run(running, "running")
    return running


def test_while_something_runs(server, peer):  # noqa: F811
    session = run(peer, "x = 1")["session"]
    running = start_loop(server, session)
    info = peer.good("session_info")
    assert info["variables"] == [] and "runs something right now" in info["notes"][0]
    assert info["languages"] == ["python"]
    # And it is killed by a reset.
    result = peer.tool("reset_session")
    assert "Something was running, and was killed." in result["structuredContent"]["notes"] and "was killed" in text_of(result)
    assert server.wait_run(running)["result"]["verdict"]["kind"] == "cancelled"
    assert run(peer, "'x' in globals()")["value"] == "False"


# ---- reset_session ----


def test_reset_keeps_files(peer):
    session = run(peer, "x = 1\nopen('f', 'w').write('still here')")["session"]
    assert peer.good("reset_session") == {"session": session, "variables": "gone", "files": "kept", "notes": []}
    found = run(peer, "'x' in globals(), open('f').read()")
    assert (found["session"], found["value"]) == (session, "(False, 'still here')")


def test_reset_of_all_languages(server, peer):  # noqa: F811
    session = run(peer, "x = 1")["session"]
    context = server.post(f"/v1/sessions/{session}/contexts", {"language": "python"}).expect(201).json["id"]
    server.run("x = 2", session, context=context)
    server.run("x=3", session, language="bash")
    peer.good("reset_session", files="keep")
    look = "print('x' in globals())"
    for where, code, value in (({}, look, "False\n"), ({"context": context}, look, "False\n"), ({"language": "bash"}, "echo \"[$x]\"", "[]\n")):
        assert server.run(code, session, **where)["result"]["stdout"] == value, where


def test_reset_of_a_call_that_goes_on(server, peer):  # noqa: F811
    session = run(peer, "x = 1")["session"]

    def reset():
        wait_for(lambda: server.get(f"/v1/sessions/{session}").json["runs"]["active"] == 1)
        return peer.good("reset_session")

    ran, done = in_threads([lambda: peer.tool("run_python", code="while True: pass"), reset])
    assert (ran["isError"], ran["structuredContent"]["verdict"]) == (True, "cancelled")
    assert done["session"] == session and done["notes"] == ["Something was running, and was killed."]
    assert run(peer, "'x' in globals()")["value"] == "False"


def test_reset_deletes_files(peer):
    session = run(peer, "import os\nos.makedirs('a/b/c')\nos.mkdir('.hidden')\nfor n in ('a/b/c/f', '.hidden/f', 'with space', 'n\\nl'): open(n, 'w').write('x')\n"
                        "open(b'\\xff', 'w')\nos.symlink('/etc', 'link')\nos.chmod('a/b/c', 0)")["session"]
    assert peer.good("reset_session", files="delete") == {"session": session, "variables": "gone", "files": "deleted", "notes": []}
    assert run(peer, "import os; os.listdir('.')")["value"] == "[]"
    assert peer.good("session_info")["files"] == []


def test_a_directory_of_the_host_is_not_emptied(scratch):
    with Server(workspaces=str(scratch / "kept")) as server:  # noqa: F811
        kept = Peer(server, options={"workspace": "kept"})
        session = run(kept, "open('f', 'w').write('x')")["session"]
        path = server.get(f"/v1/sessions/{session}").json["workspace"]["path"]
        # The same directory, which is lent this time.
        lent = Peer(server, options={"workspace": {"path": path}})
        run(lent, "x = 1")
        assert "directory of the host" in lent.bad("reset_session", files="delete")
        assert run(lent, "x, open('f').read()")["value"] == "(1, 'x')", "something was done all the same"
        assert lent.good("reset_session")["files"] == "kept"
        # And one that the server keeps itself is the session's.
        assert kept.good("reset_session", files="delete")["files"] == "deleted"
        assert run(kept, "import os; os.listdir('.')")["value"] == "[]"


def test_no_part_of_a_secret_at_the_end_of_the_previews(server):  # noqa: F811
    """Where there is room for a part of a preview only, there is none: the scrubber would not know the part."""
    value = "s3cr3t-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + secrets.token_hex(6)
    peer = Peer(server, options={"secrets": {"KEY": value}})
    for size in range(3900, 4200, 20):
        run(peer, f"import os\nfor i in range(63): globals()[f'a{{i:03}}'] = 'x' * 5000\nb = 'x' * {size}\nzz = os.environ['KEY']")
        result = peer.tool("session_info")
        assert "zz" in text_of(result) and not [i for i in range(len(value) - 8) if value[i:i + 8] in str(result)]
    peer.end()
