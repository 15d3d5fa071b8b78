# SPDX-License-Identifier: Apache-2.0
"""A tool for Pydantic AI.

    async with AsyncSandbox("python-data") as box:
        agent = Agent(model, tools=[python_tool(box)])
"""
from __future__ import annotations

from typing import Any

from pydantic_ai import BinaryContent, ModelRetry, Tool, ToolReturn

from .. import AsyncSandbox
from ..errors import GloveboxError
from ._text import DESCRIPTION, NAME, text_of


def python_tool(sandbox: AsyncSandbox, name: str = NAME, description: str = DESCRIPTION, retry: bool = False) -> Tool[Any]:
    """Runs code in this sandbox. retry: code that fails makes the model try again (ModelRetry), as often as the tool's max_retries lets it."""
    async def run_python(code: str) -> ToolReturn:
        """Runs Python code.

        Args:
            code: the Python code to run
        """
        try:
            result = await sandbox.run(code)
        except GloveboxError as error:
            return ToolReturn(f"the sandbox failed: {error}")
        if retry and not result.ok:
            raise ModelRetry(text_of(result))
        pictures = [BinaryContent(data=image.data, media_type=image.mime) for image in result.images]
        return ToolReturn(text_of(result), content=pictures or None, metadata={"run": result.id, "verdict": str(result.verdict.kind)})
    return Tool(run_python, name=name, description=description, takes_ctx=False)
