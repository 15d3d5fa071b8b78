# SPDX-License-Identifier: Apache-2.0
"""The official clients for Node, 1.x and 2.x, in both eras of the protocol. js/client.mjs drives them; what they print is looked at here."""
import base64
import os

import pytest

from mcp_helpers import NEWEST, TOOLS, text_of
from server import wait_for

CLIENTS = [("sdk", "legacy"), ("client", "legacy"), ("client", "modern")]
SCENARIOS = ["everything", "failures", "progress", "cancel", "logging", "resources", "subscribe", "together", "handles"]
legacy = pytest.mark.parametrize("library", ["sdk", "client"])


class Played:
    """What came of each scenario, for one client and one way to the server."""

    def __init__(self, library, mode, target, results):
        self.library, self.mode, self.transport, self.results = library, mode, target["transport"], results

    @property
    def is_known(self):
        """Over HTTP a stateless client is known by nothing but the handle that it shows."""
        return self.mode == "legacy" or self.transport == "stdio"

    def __getitem__(self, scenario):
        result = self.results[scenario]
        assert "thrown" not in result, (result["thrown"], result["complaints"])
        return result


@pytest.fixture(scope="module")
def play(run_node):
    def run(library, mode, target, *scenarios):
        handles = mode != "legacy" and target["transport"] == "http"
        return Played(library, mode, target, run_node("client.mjs", library=library, mode=mode, target={**target, "handles": handles}, scenarios=scenarios))
    return run


@pytest.fixture(scope="module", params=CLIENTS, ids="-".join)
def played(request, play, target):
    """All scenarios of a client at once, because they mostly wait; each test looks at one."""
    return play(*request.param, target, *SCENARIOS)


def check_everything(played, mode):
    """Every tool, and each result as its schema says: the client looks at that itself."""
    got = played["everything"]
    assert got["version"]["name"] == "glovebox" and got["instructions"], got["version"]
    assert got["capabilities"]["tools"] == {"listChanged": False} or got["capabilities"]["tools"] == {}, got["capabilities"]
    assert "resources" in got["capabilities"] and "logging" in got["capabilities"], got["capabilities"]
    assert got["negotiated"] in (NEWEST[mode], None if played.library == "sdk" else NEWEST[mode])
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
    if played.transport == "stdio":
        wait_for(lambda: not os.path.exists(f"/proc/{got['pid']}"))


def test_everything(played):
    check_everything(played, played.mode)


def test_client_that_asks_first(play, target):
    """It finds out by itself that the newer era is spoken here."""
    check_everything(play("client", "auto", target, "everything"), "modern")


def test_failures(played):
    """Code that fails is a result that a model reads; what is wrong with the call itself is an error of the protocol."""
    got = played["failures"]
    raises = got["raises"]
    assert raises["isError"] and raises["structuredContent"]["error"]["name"] == "KeyError" and "Traceback" in raises["structuredContent"]["error"]["traceback"]
    assert "KeyError" in text_of(raises)
    assert got["tool"]["code"] == -32602 and "rm_rf" in got["tool"]["message"] and "run_python" in got["tool"]["message"], got["tool"]
    for name, word in (("wrong", "code"), ("missing", "code"), ("extra", "colour")):
        assert got[name]["code"] == -32602 and word in got[name]["message"], got[name]
    assert got["resource"]["code"] in (-32002, -32602), got["resource"]
    assert got["session"]["isError"] and "session" in text_of(got["session"])
    assert played.library != "sdk" or got["method"]["code"] == -32601
    assert got["file"]["isError"] and "absent.txt" in text_of(got["file"])
    assert got["works"] == "42"


def test_progress(played):
    """What code prints arrives while it runs."""
    got = played["progress"]
    numbers = [told["progress"] for told in got["told"]]
    assert len(numbers) >= 2 and numbers == sorted(set(numbers)), got["told"]
    assert got["result"]["structuredContent"]["stdout"] == "one\ntwo\n"
    assert got["complaints"] == []


def test_cancel(played):
    """Nobody waits for the answer any more: what ran is stopped, and its variables stay. And the client leaves it at that."""
    got = played["cancel"]
    assert "result" not in got["left"], got["left"]
    assert got["value"] == "('still here', True)"
    assert got["complaints"] == []


def test_logging(played):
    got = played["logging"]
    assert [(m["level"], m["data"]["verdict"]) for m in got["info"]] == [("info", "ok")]
    assert got["info"][0]["logger"] == "glovebox"
    assert got["warning"] == []
    assert [(m["level"], m["data"]["verdict"]) for m in got["bad"]] == [("warning", "timeout")]


def test_resources(played):
    got = played["resources"]
    assert sorted(link["name"] for link in got["links"]) == ["notes.txt", "raw.bin"]
    if played.is_known:
        assert {r["name"] for r in got["listed"]["resources"]} >= {"notes.txt", "raw.bin"}
        assert all(r["uri"].startswith("glovebox://sessions/") for r in got["listed"]["resources"])
    assert any("{" in t["uriTemplate"] for t in got["templates"]["resourceTemplates"])
    assert [(c["text"], c["mimeType"]) for c in got["text"]["contents"]] == [("hello", "text/plain")]
    assert base64.b64decode(got["blob"]["contents"][0]["blob"]) == bytes(range(256))
    assert got["stdout"]["contents"][0]["text"] == "printed\n"
    assert got["complaints"] == []


def test_subscribe(played):
    """Who wants to hear of a file is told when it changes, and not after that is over."""
    got = played["subscribe"]
    if played.mode != "legacy":
        assert sorted(got["honored"]["resourceSubscriptions"]) == sorted([got["uri"], got["other"]]) and got["closed"] == "local", got
    assert not got["otherTold"] and set(got["later"]) == {got["other"]}, got
    assert got["complaints"] == []


def test_together(played):
    got = played["together"]
    assert got["values"] == [str(100 * i) for i in range(8)]
    assert got["lines"] == [str(i) for i in range(8)]
    assert got["complaints"] == []


def test_handles(played):
    """A session has a handle, and who knows it says which one is meant."""
    got = played["handles"]
    assert got["values"] == ["'one'", "'two'", "'one'"] and got["one"] != got["two"]


@legacy
def test_dropped_connection(play, proxy_target, proxy, library):
    """The connection is cut while code runs. The client comes back, has missed nothing, and the code ran once."""
    proxy.cut = b"CUT-HERE"
    got = play(library, "legacy", proxy_target, "dropped")["dropped"]
    assert proxy.cuts == 1
    back = [headers for method, headers in proxy.heads() if method == "GET" and "last-event-id" in headers]
    assert back and back[0]["last-event-id"] in got["tokens"], (back, got["tokens"])
    result = got["result"]["structuredContent"]
    assert (result["value"], result["stdout"]) == ("'the end'", "first\nCUT-HERE\nthird\n")
    numbers = [told["progress"] for told in got["told"]]
    assert numbers == list(range(1, len(numbers) + 1)), got["told"]
    assert got["runs"] == "'x'"


@legacy
def test_returning_client(play, http_target, library):
    """Another process, or a later hour: with the id of the session and that of the last event the answer is still to be had."""
    got = play(library, "legacy", http_target, "returning")["returning"]
    assert "result" not in got["lost"]
    assert got["result"]["structuredContent"]["value"] == "'the end'"
    assert got["runs"] == "'x'"


@legacy
def test_end_of_a_session(play, http_target, http_server, http_token, library):
    """DELETE ends the session, and what ran in it is gone."""
    before = http_server.get("/v1/info", token=http_token).expect(200).json["used"]["sessions"]
    got = play(library, "legacy", http_target, "ending")["ending"]
    assert got["sessionId"] and got["forgotten"] is None
    assert "404" in f"{got['after']}" or "initialize" in got["after"]["message"], got["after"]
    wait_for(lambda: http_server.get("/v1/info", token=http_token).expect(200).json["used"]["sessions"] <= before)
