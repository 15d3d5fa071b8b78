# SPDX-License-Identifier: Apache-2.0
"""Ten steps of an agent in its sandbox: what it lists, writes, runs, gets wrong and gets back. By our own script, which is a demonstration, too, and by the official
Python package."""
import base64
import json
import os
import sys

import pytest

from mcp_helpers import TOOLS, call, text_of
from server import ROOT

sys.path.insert(0, str(ROOT / "docs/examples"))
import agent  # noqa: E402

MATPLOTLIB = pytest.mark.skipif(not os.path.isdir("/usr/lib/python3/dist-packages/matplotlib") or not os.path.isdir("/usr/lib/python3/dist-packages/pandas"),
                                reason="python3-matplotlib and python3-pandas are not installed on this host")


def check(answers):
    """answers: one for each call of agent.STEPS."""
    tools, wrote, described, kept, drawn, failed, mended, endless, info, reported, report = answers
    data = [answer.get("structuredContent") for answer in answers]

    assert [tool if isinstance(tool, str) else tool["name"] for tool in tools["tools"]] == TOOLS
    assert data[1]["path"] == "data.csv" and data[1]["size"] == len(agent.DATA) and not wrote.get("isError")
    assert data[2]["ok"] and data[2]["stdout"] == "(6, 3)\n" and "Berlin" in data[2]["value"] and "300" in data[2]["value"]
    assert data[3]["ok"] and "change" in data[3]["value"] and data[3]["session"] == data[2]["session"]

    pictures = [item for item in drawn["content"] if item["type"] == "image"]
    assert data[4]["ok"] and data[4]["pictures"] == len(pictures) == 1 and pictures[0]["mimeType"] == "image/png"
    assert base64.b64decode(pictures[0]["data"], validate=True)[:8] == b"\x89PNG\r\n\x1a\n"

    assert failed["isError"] and data[5]["verdict"] == "error" and data[5]["state_kept"]
    assert data[5]["error"]["name"] == "KeyError" and "Paris" in data[5]["error"]["value"] and "Traceback" in data[5]["error"]["traceback"]
    assert "KeyError" in text_of(failed) and "Paris" in text_of(failed)
    assert data[6]["ok"] and data[6]["value"] == "['Lima']"

    assert endless["isError"] and data[7]["verdict"] == "timeout" and data[7]["state_kept"] and data[7]["message"]
    assert data[7]["message"] in text_of(endless)

    variables = {variable["name"]: variable for variable in data[8]["variables"]}
    assert {"df", "growth", "n"} <= set(variables)
    assert (variables["df"]["type"], variables["df"]["shape"]) == ("DataFrame", "(6, 3)"), variables["df"]
    assert "data.csv" in [file["path"] for file in data[8]["files"]]
    limits = {limit["name"]: limit for limit in data[8]["limits"]}
    assert any("memory" in name for name in limits) and any("disk" in name for name in limits), limits
    assert "df" in text_of(info) and "(6, 3)" in text_of(info)

    assert [file["path"] for file in data[9]["files"]] == ["report.md"]
    assert data[9]["files"][0]["uri"] in [item.get("uri") for item in reported["content"]]
    assert [part["text"] for part in report["contents"]] == ["# Visitors\n\nMost new visitors: Berlin (+60).\n"]
    # Nothing that the code said can be taken for ours.
    assert "untrusted" in text_of(described)


@MATPLOTLIB
def test_our_own(command_target, tmp_path):
    command = [command_target["command"], *command_target["args"]]
    done = call(sys.executable, agent.__file__, *command, home=tmp_path, AGENT_ANSWERS=str(tmp_path / "answers"), **command_target["env"]).expect()
    check(json.loads((tmp_path / "answers").read_text()))
    for number, (says, _) in enumerate(agent.STEPS, 1):
        assert f"{number:2}. {says}\n" in done.out, done.explain()
    assert "[a picture: image/png" in done.out and "Berlin (+60)" in done.out


@MATPLOTLIB
@pytest.mark.parametrize("way,mode", [("command", "auto"), ("http", "legacy")])
def test_official_package(request, run_python, way, mode):
    """auto is what the package does unless it is told otherwise."""
    calls = [one for _, calls in agent.STEPS for one in calls]
    target = request.getfixturevalue(f"{way}_target")
    check(run_python("python_client.py", mode=mode, target=target, scenarios=["conversation"], calls=calls)["conversation"]["answers"])
