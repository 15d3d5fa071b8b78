# SPDX-License-Identifier: Apache-2.0
import pytest

smolagents = pytest.importorskip("smolagents", reason="smolagents is not installed")

from smolagents import CodeAgent, Tool  # noqa: E402
from smolagents.models import ChatMessage, MessageRole, Model  # noqa: E402
from smolagents.utils import AgentError  # noqa: E402

from glovebox.adapters.smolagents import GloveboxExecutor  # noqa: E402


class Scripted(Model):
    """Says one thing after the other, and keeps what it was told."""

    def __init__(self, *steps):
        super().__init__(model_id="scripted")
        self.steps, self.heard = list(steps), []

    def generate(self, messages, **_):
        self.heard.append(str(messages[-1].content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on.\n<code>\n{self.steps.pop(0)}\n</code>")


class Doubler(Tool):
    name, description = "doubler", "doubles a number"
    inputs = {"number": {"type": "integer", "description": "the number"}}
    output_type = "integer"

    def forward(self, number: int) -> int:
        return 2 * number


@pytest.fixture
def executor():
    made = GloveboxExecutor()
    yield made
    made.cleanup()


def test_an_agent_works_in_the_box(executor):
    model = Scripted("import os\nx = doubler(number=21)\nprint('uid', os.getuid())", "print(open('/root/notes').read())", "import os\nopen('/etc/shadow')",
                     "final_answer({'x': x, 'parts': (1, 2)})")
    agent = CodeAgent(tools=[Doubler()], model=model, executor=executor, additional_authorized_imports=["*"])
    assert agent.run("double 21") == {"x": 42, "parts": (1, 2)}
    assert "uid 1000" in model.heard[1] and "Error" in model.heard[2] and "/root/notes" in model.heard[2], model.heard
    assert "refused and not run" in model.heard[3] and "line 2, column 6" in model.heard[3] and "[shadow-file]" in model.heard[3], model.heard


def test_values_errors_and_pictures(executor):
    assert executor("x = 1\nx + 1").output == "2"
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor("1 / 0")
    assert executor("print('log')\nx").logs == "log\n"
    picture = executor("import matplotlib.pyplot as plt\nfig, _ = plt.subplots(); plt.close(fig)\nfig").output
    assert picture.size[0] > 10


def test_variables_are_sent(executor):
    executor.send_variables({"rows": [1, 2, 3], "name": "x"})
    assert executor("sum(rows), name").output == "(6, 'x')"


def test_what_is_not_there_is_told(executor):
    assert executor.install_packages(["numpy"]) == ["numpy"]
    with pytest.raises(AgentError, match="nosuchpackage is not in the sandbox"):
        executor.install_packages(["nosuchpackage"])


def test_a_final_answer_that_is_no_json_does_not_run_here(executor):
    """Catalogue 155: what comes back is never unpickled."""
    with pytest.raises(Exception) as told:
        executor("class FinalAnswerException(BaseException): pass\nraise FinalAnswerException('pickle:gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu')")
    assert "pickle" in str(told.value).lower()
