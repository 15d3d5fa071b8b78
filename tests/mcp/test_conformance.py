# SPDX-License-Identifier: Apache-2.0
"""The conformance suite of the protocol. Of its scenarios for servers these are about any server; the others want tools, prompts and resources of the suite's own (test_simple_text,
test://static-text, ...), or features that we do not say we have: prompts, completion, sampling, elicitation. It shows no token, so it gets a server that wants none."""
import json
import re

import pytest

from mcp_helpers import at_once, result
from server import Server

SCENARIOS = ["server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection"]
NOT_OURS = r"tools-call-|prompts-|resources-(read|templates|subscribe|unsubscribe)|completion-|elicitation-|json-schema-2020-12|server-sse-polling"


@pytest.fixture(scope="module")
def judged(nothing_left_at_the_end, run_package, new_home):
    """How the program ended for each scenario, and what it has checked."""
    with Server(tcp=True, tokens=False) as server:
        url = "http://127.0.0.1:%d/mcp" % server.tcp[1]

        def judge(scenario):
            out = new_home() / "out"
            done = run_package("conformance", "server", "--url", url, "--scenario", scenario, "--output-dir", out)
            return done, [check for path in out.rglob("checks.json") for check in json.loads(path.read_text())]

        yield at_once(judge, SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(judged, scenario):
    done, checks = result(judged[scenario])
    done.expect()
    states = {check["status"] for check in checks}
    assert "SUCCESS" in states and states <= {"SUCCESS", "INFO"}, (checks, done.explain())


def test_scenarios_are_known(run_package):
    """A newer suite may have one that is about us, too."""
    names = re.findall(r"^ *- (\S+)", run_package("conformance", "list", "--server").expect().out, re.M)
    assert set(SCENARIOS) <= set(names)
    assert [name for name in names if name not in SCENARIOS and not re.match(NOT_OURS, name)] == []
