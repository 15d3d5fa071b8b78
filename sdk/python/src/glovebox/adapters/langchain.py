# SPDX-License-Identifier: Apache-2.0
"""A tool for LangChain.

    with Sandbox("python-data") as box:
        agent = create_agent(model, tools=[python_tool(box)])
"""
from __future__ import annotations

from typing import Any, Dict, Tuple

from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field

from .. import AsyncSandbox, Sandbox
from ..errors import GloveboxError
from ..results import Result
from ._text import DESCRIPTION, NAME, text_of


class RunPython(BaseModel):
    """Arguments of the tool."""

    model_config = ConfigDict(extra="forbid")
    code: str = Field(description="the Python code to run")


def _answer(result: Result) -> Tuple[str, Dict[str, Any]]:
    """For the model, and for the program."""
    return text_of(result), {"result": result, "images": result.images, "verdict": str(result.verdict.kind)}


def python_tool(sandbox: Sandbox, name: str = NAME, description: str = DESCRIPTION) -> StructuredTool:
    """Runs code in this sandbox. The artifact of its message has the whole Result, with pictures."""
    def run(code: str) -> Tuple[str, Dict[str, Any]]:
        try:
            return _answer(sandbox.run(code))
        except GloveboxError as error:
            raise ToolException(str(error)) from error
    return StructuredTool.from_function(func=run, name=name, description=description, args_schema=RunPython, response_format="content_and_artifact", handle_tool_error=True)


def async_python_tool(sandbox: AsyncSandbox, name: str = NAME, description: str = DESCRIPTION) -> StructuredTool:
    """The same for programs on asyncio."""
    async def run(code: str) -> Tuple[str, Dict[str, Any]]:
        try:
            return _answer(await sandbox.run(code))
        except GloveboxError as error:
            raise ToolException(str(error)) from error
    return StructuredTool.from_function(coroutine=run, name=name, description=description, args_schema=RunPython, response_format="content_and_artifact", handle_tool_error=True)
