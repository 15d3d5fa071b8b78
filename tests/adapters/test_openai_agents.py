# SPDX-License-Identifier: Apache-2.0
import asyncio
import json

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, ModelResponse, Runner, Usage  # noqa: E402
from agents.models.interface import Model  # noqa: E402
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText  # noqa: E402

from glovebox import AsyncSandbox  # noqa: E402
from glovebox.adapters.openai_agents import python_tool  # noqa: E402


class Scripted(Model):
    """Calls the tool with one piece of code after the other, and then says what it heard last."""

    def __init__(self, *arguments):
        self.arguments, self.heard = list(arguments), []

    async def get_response(self, system_instructions, input, *_, **__):
        self.heard.append([item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"])
        if self.arguments:
            item = ResponseFunctionToolCall(type="function_call", name="run_python", arguments=self.arguments.pop(0), call_id=f"c{len(self.arguments)}")
        else:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            item = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


def test_an_agent_uses_the_tool():
    model = Scripted(json.dumps({"code": "x = 20"}), json.dumps({"code": "x + 22"}), json.dumps({"code": "1 / 0"}), json.dumps({"kode": 1}), "{",
                     json.dumps({"code": "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()"}))

    async def main():
        async with AsyncSandbox("python-data") as box:
            return await Runner.run(Agent(name="analyst", model=model, tools=[python_tool(box)]), "go", max_turns=20)
    assert asyncio.run(main()).final_output == "done"
    answers = [item["output"] for item in model.heard[-1]]
    assert answers[:2] == ["(no output)", "42"] and "ZeroDivisionError" in answers[2] and "one argument" in answers[3], answers
    assert any(part.get("type") == "input_image" for part in answers[5]), answers[5]
