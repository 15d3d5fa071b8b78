# SPDX-License-Identifier: Apache-2.0
"""The inspector on the command line: what it finds wrong with a server is a finding about us."""
import json

import pytest

from mcp_helpers import TOOLS, at_once, result

ASKED = {
    "tools": ["tools/list", "--strict"],  # ends with status 6 for a schema that some clients cannot read
    "call": ["tools/call", "--tool-name", "run_python", "--tool-args-json", json.dumps({"code": "print('printed')\n6 * 7"})],
    "resources": ["resources/list"],
    "templates": ["resources/templates/list"],
}


@pytest.fixture(scope="module", params=["legacy", "auto", "modern"])
def inspected(request, run_package, target):
    """What each method gave: how the program ended."""
    if target["transport"] == "stdio":
        words = [target["command"], *target["args"]]
        for name, value in target["env"].items():
            words += ["-e", f"{name}={value}"]
    else:
        words = ["--transport", "http", "--server-url", target["url"], "--header", f"Authorization: Bearer {target['token']}"]
    return at_once(lambda name: run_package("mcp-inspector", "--cli", *words, "--protocol-era", request.param, "--format", "json", "--method", *ASKED[name]), ASKED)


def answer(ended):
    """It may have nothing to say on standard error: that is where it warns."""
    done = result(ended).expect()
    assert done.err.strip() == "", done.explain()
    return done.json.get("result", done.json)


def test_tools_are_portable(inspected):
    assert [tool["name"] for tool in answer(inspected["tools"])["tools"]] == TOOLS


def test_call(inspected):
    data = answer(inspected["call"])["structuredContent"]
    assert (data["value"], data["stdout"]) == ("42", "printed\n")


def test_resources(inspected):
    assert answer(inspected["resources"])["resources"] == []
    assert answer(inspected["templates"])["resourceTemplates"]
