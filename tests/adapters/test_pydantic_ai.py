# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402

from glovebox import AsyncSandbox  # noqa: E402
from glovebox.adapters.pydantic_ai import python_tool  # noqa: E402


def scripted(steps, heard):
    def answer(messages, info):
        heard.append(messages[-1].parts)
        return ModelResponse(parts=[ToolCallPart("run_python", {"code": steps.pop(0)})] if steps else [TextPart("done")])
    return FunctionModel(answer)


def run(steps, **options):
    heard = []

    async def main():
        async with AsyncSandbox("python-data") as box:
            return await Agent(scripted(list(steps), heard), tools=[python_tool(box, **options)]).run("go")
    assert asyncio.run(main()).output == "done"
    return heard


def test_an_agent_uses_the_tool():
    heard = run(["x = 20", "x + 22", "1 / 0", "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()"])
    answers = [part for parts in heard for part in parts if isinstance(part, ToolReturnPart)]
    assert [a.content for a in answers[:2]] == ["(no output)", "42"] and "ZeroDivisionError" in answers[2].content
    assert answers[1].metadata["verdict"] == "ok"
    assert any(getattr(content, "media_type", "") == "image/png" for part in heard[4] for content in (part.content if isinstance(part.content, list) else [])), heard[4]


def test_failures_can_be_retries():
    heard = run(["1 / 0", "print('better')"], retry=True)
    part = heard[1][0]  # older versions have a part of its own for this
    assert isinstance(part, RetryPromptPart) or part.outcome == "retried"
    assert "ZeroDivisionError" in str(part.content)
