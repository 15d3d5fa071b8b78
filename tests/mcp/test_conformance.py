# SPDX-License-Identifier: Apache-2.0
"""The conformance suite of the protocol. Of its scenarios for servers these are about any server; the others want tools, prompts and resources of the suite's own (test_simple_text,
test://static-text, ...), or features that we do not say we have: prompts, completion, sampling, elicitation. It shows no token, so it gets a server that wants none."""
import json
import re

import pytest

from server import Server

SCENARIOS = ["server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection"]
NOT_OURS = r"tools-call-|prompts-|resources-(read|templates|subscribe|unsubscribe)|completion-|elicitation-|json-schema-2020-12|server-sse-polling"


@pytest.fixture(scope="module")
def open_server(nothing_left_at_the_end):
    with Server(tcp=True, tokens=False) as made:
        yield made


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(run_package, open_server, scenario, tmp_path):
    done = run_package("conformance", "server", "--url", "http://127.0.0.1:%d/mcp" % open_server.tcp[1], "--scenario", scenario, "--output-dir", tmp_path / "out").expect()
    checks = [check for path in (tmp_path / "out").rglob("checks.json") for check in json.loads(path.read_text())]
    assert checks and {check["status"] for check in checks} <= {"SUCCESS", "INFO"}, (checks, done.explain())
    assert "SUCCESS" in {check["status"] for check in checks}, checks


def test_scenarios_are_known(run_package):
    """A newer suite may have one that is about us, too."""
    names = re.findall(r"^ *- (\S+)", run_package("conformance", "list", "--server").expect().out, re.M)
    assert set(SCENARIOS) <= set(names)
    assert [name for name in names if name not in SCENARIOS and not re.match(NOT_OURS, name)] == []
