# SPDX-License-Identifier: Apache-2.0
"""The tools of MCP are the same on every backend: they know of sessions and files only."""
import pytest

from peer import Peer, text_of


@pytest.fixture
def peer(backend):
    made = Peer(backend.server)
    yield made
    made.end()


def test_a_conversation(peer):
    """State, files in and out, a failure, what there is, and a new beginning."""
    session = peer.good("write_file", path="in/data.csv", content="a,b\n1,2\n3,4\n")["session"]
    made = peer.good("run_python", code="rows = open('in/data.csv').read().split()\nopen('out.txt', 'w').write('7')\nprint(len(rows))\nrows[-1]")
    assert (made["session"], made["stdout"], made["value"]) == (session, "3\n", "'3,4'")
    assert "out.txt" in [file["path"] for file in made["files"]]
    failed = peer.tool("run_python", code="rows[9]")
    assert failed["isError"] and failed["structuredContent"]["error"]["name"] == "IndexError" and failed["structuredContent"]["state_kept"] is True
    assert peer.good("run_shell", command="cat out.txt; cd in; ls")["stdout"] == "7data.csv\n"
    assert peer.good("run_code", language="sh", code="cat; echo $1", stdin="x", args=["y"])["stdout"] == "xy\n"
    assert peer.good("read_file", path="out.txt")["text"] == "7"
    assert [entry["name"] for entry in peer.good("list_files", path="in")["entries"]] == ["data.csv"]
    assert {"in/data.csv", "out.txt"} <= {resource["title"] for resource in peer.call("resources/list")["resources"]}
    info = peer.good("session_info")
    assert [(row["name"], row["type"]) for row in info["variables"]] == [("rows", "list")]
    assert {"memory", "disk", "pids", "timeout"} <= {row["name"] for row in info["limits"]}
    peer.good("reset_session", files="delete")
    assert peer.good("list_files")["entries"] == [] and peer.good("run_python", code="'rows' in globals()")["value"] == "False"


def test_limits_and_cancellation(peer):
    late = peer.tool("run_python", code="x = 1\nwhile True: pass", timeout=1)
    assert late["structuredContent"]["verdict"] == "timeout" and "`timeout`" in text_of(late)
    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": "print('on', flush=True)\nwhile True: pass"}}, meta={"progressToken": 1}, id="loop") as stream:
        messages = stream.messages()
        assert "on" in next(messages)["params"]["message"]
        peer.notify("notifications/cancelled", {"requestId": "loop"})
        assert [message for message in messages if "id" in message] == []
    assert peer.good("run_python", code="1 + 1")["value"] == "2"


def test_changes_are_told(peer):
    uri = peer.good("write_file", path="watched.txt", content="1")["uri"]
    peer.call("resources/subscribe", {"uri": uri})
    with peer.listen() as stream:
        messages = stream.messages()
        peer.good("run_python", code="open('watched.txt', 'w').write('second')")
        assert {"method": "notifications/resources/updated", "params": {"uri": uri}} in ({"method": message["method"], "params": message["params"]} for message in messages)
