# SPDX-License-Identifier: Apache-2.0
"""A tool for the OpenAI Agents SDK.

    async with AsyncSandbox("python-data") as box:
        agent = Agent(name="analyst", tools=[python_tool(box)])
"""
from __future__ import annotations

import base64
import json
from typing import Any, List, Union

from agents import FunctionTool, ToolOutputImage, ToolOutputText

from .. import AsyncSandbox
from ..errors import GloveboxError
from ..results import Result
from ._text import DESCRIPTION, NAME, PARAMETERS, text_of


def _answer(result: Result) -> Union[str, List[Any]]:
    if not result.images:
        return text_of(result)
    pictures = [ToolOutputImage(image_url=f"data:{image.mime};base64,{base64.b64encode(image.data).decode('ascii')}") for image in result.images]
    return [ToolOutputText(text=text_of(result)), *pictures]


def python_tool(sandbox: AsyncSandbox, name: str = NAME, description: str = DESCRIPTION) -> FunctionTool:
    """Runs code in this sandbox."""
    async def invoke(context: Any, arguments: str) -> Any:
        # An exception would end the agent's run: the model is told instead.
        try:
            given = json.loads(arguments)
            if not isinstance(given, dict) or set(given) != {"code"} or not isinstance(given["code"], str):
                return "the tool takes one argument, code: a text"
            return _answer(await sandbox.run(given["code"]))
        except ValueError:
            return "the arguments are not JSON"
        except GloveboxError as error:
            return f"the sandbox failed: {error}"
    return FunctionTool(name=name, description=description, params_json_schema=dict(PARAMETERS), on_invoke_tool=invoke, strict_json_schema=True)
