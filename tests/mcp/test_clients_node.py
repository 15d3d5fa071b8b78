# SPDX-License-Identifier: Apache-2.0
"""The official clients for Node, 1.x and 2.x, in both eras of the protocol. js/client.mjs drives them; what they print is looked at here."""
import base64
import os

import pytest

from mcp_helpers import NEWEST, TOOLS, text_of
from server import wait_for

CLIENTS = [("sdk", "legacy"), ("client", "legacy"), ("client", "modern")]
LEGACY = CLIENTS[:2]
AUTO = ("client", "auto")  # asks first, and is then as "modern" is


@pytest.fixture
def drive(run_node, library, mode):
    def run(target, scenario):
        # Over HTTP a stateless client is known by nothing but the handle that it shows.
        handles = mode != "legacy" and target["transport"] == "http"
        return run_node("client.mjs", library=library, mode=mode, target={**target, "handles": handles}, scenario=scenario)
    return run


def each(clients=None):
    return pytest.mark.parametrize("library,mode", clients or CLIENTS, ids=["-".join(c) for c in clients or CLIENTS])


def refusal(told):
    """Of arguments that do not fit: an error of the protocol, or (as newer versions of it would have it) a result that says so to the model."""
    if "result" not in told:
        assert told["code"] == -32602, told
        return told["message"]
    assert told["result"]["isError"], told
    return text_of(told["result"])


@each([*CLIENTS, AUTO])
def test_everything(drive, target, library, mode):
    """Every tool, and each result as its schema says: the client looks at that itself."""
    got = drive(target, "everything")
    assert got["version"]["name"] == "glovebox" and got["instructions"], got["version"]
    assert got["capabilities"]["tools"] == {"listChanged": False} or got["capabilities"]["tools"] == {}, got["capabilities"]
    assert "resources" in got["capabilities"] and "logging" in got["capabilities"], got["capabilities"]
    assert got["negotiated"] in (NEWEST[mode], None if library == "sdk" else NEWEST[mode])
    assert got["era"] == ("legacy" if mode == "legacy" else "modern")
    assert [tool["name"] for tool in got["tools"]] == TOOLS
    for tool in got["tools"]:
        assert tool["description"] and tool["title"] and tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object", tool
        assert {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} <= set(tool["annotations"]), tool

    results = got["results"]
    data = {name: result["structuredContent"] for name, result in results.items()}
    assert not any(result.get("isError") for result in results.values()), results
    assert data["write_file"]["size"] == 12 and data["write_file"]["type"] == "text/csv"
    assert (data["run_python"]["value"], data["run_python"]["stdout"], data["run_python"]["ok"]) == ("3", "rows 3\n", True)
    assert (data["run_shell"]["stdout"].strip(), data["run_shell"]["stderr"]) == ("3", "oops\n")
    assert data["run_code"]["stdout"] == "hello world\n" and data["run_code"]["exit_code"] == 0
    assert [entry["path"] for entry in data["list_files"]["entries"]] == ["data/in.csv"]
    assert data["read_file"]["text"] == "a,b\n1,2\n3,4\n"
    assert "rows" in {variable["name"] for variable in data["session_info"]["variables"]}
    assert data["reset_session"]["files"] == "deleted" and got["after"]["structuredContent"]["entries"] == []
    assert len({d["session"] for name, d in data.items() if name != "reset_session"}) == 1
    assert "rows 3" in text_of(results["run_python"])
    assert got["complaints"] == []
    if target["transport"] == "stdio":
        wait_for(lambda: not os.path.exists(f"/proc/{got['pid']}"))


@each()
def test_failures(drive, target, library):
    """Code that fails is a result that a model reads; what is wrong with the call itself is an error of the protocol."""
    got = drive(target, "failures")
    raises = got["raises"]
    assert raises["isError"] and raises["structuredContent"]["error"]["name"] == "KeyError" and "Traceback" in raises["structuredContent"]["error"]["traceback"]
    assert "KeyError" in text_of(raises)
    assert got["tool"]["code"] == -32602 and "rm_rf" in got["tool"]["message"] and "run_python" in got["tool"]["message"], got["tool"]
    for name, word in (("wrong", "code"), ("missing", "code"), ("extra", "colour")):
        assert word in refusal(got[name]), got[name]
    assert got["resource"]["code"] in (-32002, -32602), got["resource"]
    assert got["session"]["isError"] and "session" in text_of(got["session"])
    assert library != "sdk" or got["method"]["code"] == -32601
    assert got["file"]["isError"] and "absent.txt" in text_of(got["file"])
    assert got["works"] == "42"


@each()
def test_progress(drive, target):
    """What code prints arrives while it runs."""
    got = drive(target, "progress")
    numbers = [told["progress"] for told in got["told"]]
    assert len(numbers) >= 2 and numbers == sorted(set(numbers)), got["told"]
    assert got["result"]["structuredContent"]["stdout"] == "one\ntwo\n"
    assert got["complaints"] == []


@each()
def test_cancel(drive, target):
    """Nobody waits for the answer any more: what ran is stopped, and its variables stay. And the client leaves it at that."""
    got = drive(target, "cancel")
    assert "result" not in got["left"], got["left"]
    assert got["value"] == "('still here', True)"
    assert got["complaints"] == []


@each()
def test_logging(drive, target):
    got = drive(target, "logging")
    assert [(m["level"], m["data"]["verdict"]) for m in got["info"]] == [("info", "ok")]
    assert got["info"][0]["logger"] == "glovebox"
    assert got["warning"] == []
    assert [(m["level"], m["data"]["verdict"]) for m in got["bad"]] == [("warning", "timeout")]


@each()
def test_resources(drive, target, mode):
    got = drive(target, "resources")
    assert sorted(link["name"] for link in got["links"]) == ["notes.txt", "raw.bin"]
    if mode == "legacy" or target["transport"] == "stdio":
        assert {r["name"] for r in got["listed"]["resources"]} >= {"notes.txt", "raw.bin"}
        assert all(r["uri"].startswith("glovebox://sessions/") for r in got["listed"]["resources"])
    assert any("{" in t["uriTemplate"] for t in got["templates"]["resourceTemplates"])
    assert [(c["text"], c["mimeType"]) for c in got["text"]["contents"]] == [("hello", "text/plain")]
    assert base64.b64decode(got["blob"]["contents"][0]["blob"]) == bytes(range(256))
    assert got["stdout"]["contents"][0]["text"] == "printed\n"
    assert got["complaints"] == []


@each()
def test_subscribe(drive, target, mode):
    """Who wants to hear of a file is told when it changes, and not after that is over."""
    got = drive(target, "subscribe")
    if mode != "legacy":
        assert sorted(got["honored"]["resourceSubscriptions"]) == sorted([got["uri"], got["other"]]) and got["closed"] == "local", got
    assert not got["otherTold"] and set(got["later"]) == {got["other"]}, got
    assert got["complaints"] == []


@each()
def test_together(drive, target):
    got = drive(target, "together")
    assert got["values"] == [str(100 * i) for i in range(8)]
    assert got["lines"] == [str(i) for i in range(8)]
    assert got["complaints"] == []


@each()
def test_handles(drive, target):
    """A session has a handle, and who knows it says which one is meant."""
    got = drive(target, "handles")
    assert got["values"] == ["'one'", "'two'", "'one'"] and got["one"] != got["two"]


@each(LEGACY)
def test_dropped_connection(drive, proxy_target, proxy):
    """The connection is cut while code runs. The client comes back, has missed nothing, and the code ran once."""
    proxy.cut = b"CUT-HERE"
    got = drive(proxy_target, "dropped")
    assert proxy.cuts == 1
    back = [headers for method, headers in proxy.heads() if method == "GET" and "last-event-id" in headers]
    assert back and back[0]["last-event-id"] in got["tokens"], (back, got["tokens"])
    result = got["result"]["structuredContent"]
    assert (result["value"], result["stdout"]) == ("'the end'", "first\nCUT-HERE\nthird\n")
    numbers = [told["progress"] for told in got["told"]]
    assert numbers == list(range(1, len(numbers) + 1)), got["told"]
    assert got["runs"] == "'x'"


@each(LEGACY)
def test_returning_client(drive, http_target):
    """Another process, or a later hour: with the id of the session and that of the last event the answer is still to be had."""
    got = drive(http_target, "returning")
    assert "result" not in got["lost"]
    assert got["result"]["structuredContent"]["value"] == "'the end'"
    assert got["runs"] == "'x'"


@each(LEGACY)
def test_end_of_a_session(drive, http_target, http_server, http_token):
    """DELETE ends the session, and what ran in it is gone."""
    before = http_server.get("/v1/info", token=http_token).expect(200).json["used"]["sessions"]
    got = drive(http_target, "ending")
    assert got["sessionId"] and got["forgotten"] is None
    assert "404" in f"{got['after']}" or "initialize" in got["after"]["message"], got["after"]
    wait_for(lambda: http_server.get("/v1/info", token=http_token).expect(200).json["used"]["sessions"] <= before)
