# SPDX-License-Identifier: Apache-2.0
"""The inspector on the command line: what it finds wrong with a server is a finding about us."""
import json

import pytest

from mcp_helpers import TOOLS


@pytest.fixture
def inspect(run_package, target, era):
    """A method; what it printed as JSON. It may have nothing to say on standard error."""
    def run(method, *argv):
        if target["transport"] == "stdio":
            words = [target["command"], *target["args"]]
            for name, value in target["env"].items():
                words += ["-e", f"{name}={value}"]
        else:
            words = ["--transport", "http", "--server-url", target["url"], "--header", f"Authorization: Bearer {target['token']}"]
        done = run_package("mcp-inspector", "--cli", *words, "--protocol-era", era, "--format", "json", "--method", method, *argv).expect()
        assert done.err.strip() == "", done.explain()
        return done.json
    return run


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
def test_tools_are_portable(inspect, era):
    """--strict ends with status 6 for a schema that some clients cannot read, and says on standard error what it would not do itself."""
    got = inspect("tools/list", "--strict")
    tools = got.get("tools") or got["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_call(inspect, era):
    got = inspect("tools/call", "--tool-name", "run_python", "--tool-args-json", json.dumps({"code": "print('printed')\n6 * 7"}))
    result = got.get("result", got)
    assert (result["structuredContent"]["value"], result["structuredContent"]["stdout"]) == ("42", "printed\n")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_resources(inspect, era):
    got = inspect("resources/list")
    assert got.get("result", got)["resources"] == []
    got = inspect("resources/templates/list")
    assert got.get("result", got)["resourceTemplates"]
