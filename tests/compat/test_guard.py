# SPDX-License-Identifier: Apache-2.0
"""What these programs checked themselves, or did not, on the guard: code that is refused, and secrets that do not come back. The chat assistant, which had most of
it, is in test_annie.py."""
import asyncio

import pytest

from compat_helpers import on_each_backend
from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext
from glovebox.compat.dolphin import DockerSandboxExecutor
from glovebox.compat.ironclaw import DockerShell, SandboxManager
from glovebox.compat.policy import ContainerManager, SandboxExecutor

pytestmark = on_each_backend
#: What happens before a box has anything to do with it.
native_only = pytest.mark.parametrize("backend", ["native"], indirect=True)

SECRETS = {"TOKEN": "correct-horse-battery"}
SHOW = "import os; print(os.environ['TOKEN'].encode().hex())"
SHOWN = "[scrubbed:TOKEN]\n"
REFUSED = "open('/root/.aws/' + 'credentials')"
RULE = "aws-credentials"


def test_the_loop_is_told_the_rule_and_keeps_its_variables(tmp_path):
    with DockerSandboxExecutor("s", str(tmp_path / "base"), secrets=SECRETS) as executor:
        executor.execute_code("kept = 1")
        said = executor.execute_code(REFUSED)
        assert f"the rule {RULE} refused the code, line 1" in said, said
        assert executor.execute_code("print(kept); " + SHOW) == "1\n" + SHOWN


def test_the_interpreter_is_told(tmp_path):
    with SandboxManager(tmp_path / "workspace", secrets=SECRETS) as manager:
        assert "correct" not in repr(vars(manager))
        shell = type("Shell", (DockerShell,), {"manager": manager})()
        said = "".join(message["content"] for line in ("cat ~/.aws/credentials", "echo $TOKEN") for message in shell.run(line))
        assert RULE in said and said.endswith(SHOWN), said


@native_only
def test_the_tool_is_told():
    def call(code):
        return asyncio.run(ExecutePythonTool(secrets=SECRETS).execute({"code": code}, ExecutionContext("u", "a")))
    answer = call(REFUSED)
    assert not answer.success and RULE in answer.error and answer.metadata["verdict"] == "blocked", answer
    assert [(row["rule"], row["line"]) for row in answer.metadata["guard"]] == [(RULE, 1)]
    answer = call(SHOW)
    assert answer.output == SHOWN and answer.metadata["scrubbed"] == {"TOKEN": 1}, answer


@native_only
@pytest.mark.parametrize("keys, code, refused", [
    ("", REFUSED, True), ("guard: off", REFUSED, False), ("guard_rules: {aws-credentials: warn}", REFUSED, False), ("guard: strict", "open('.env')", True),
    ("guard_imports: [json]", "import json", True), ("guard_imports: []", "import selenium", False)])
def test_the_policy_file_decides(tmp_path, keys, code, refused):
    (tmp_path / "sandbox.yaml").write_text("mem_limit: 256m\ntimeout: 20\n" + keys + "\n")
    outcome = SandboxExecutor(tmp_path / "sandbox.yaml").execute(code, secrets=SECRETS)
    assert (outcome.verdict == "blocked") == refused and outcome.violation is None and not outcome.success, outcome
    if refused:
        assert "Nothing was run" in outcome.error and outcome.security["findings"][0]["action"] == "block"


@native_only
def test_a_container_has_them_by_its_configuration():
    with ContainerManager() as manager:
        box = manager.create_container(runtime_configs={"secrets": SECRETS, "guard": "strict", "guard_imports": ["json"]})
        assert box.run(SHOW).stdout == SHOWN
        assert box.run("import json").verdict == "blocked" and box.run("open('.env')").verdict == "blocked"
