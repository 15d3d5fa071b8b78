# SPDX-License-Identifier: Apache-2.0
"""The adapters where the sandbox is a container of a Docker Engine."""
import asyncio
import json

import pytest

from glovebox import AsyncSandbox, Sandbox

pytestmark = pytest.mark.usefixtures("docker")


@pytest.mark.parametrize("options", [{}, {"backend": "docker"}, {"image": "glovebox-python"}, {"backend": "docker", "image": "glovebox-python"}])
def test_smolagents(options):
    pytest.importorskip("smolagents", reason="smolagents is not installed")
    from glovebox.adapters.smolagents import GloveboxExecutor

    executor = GloveboxExecutor(**options)
    try:
        executor.send_variables({"rows": [1, 2, 3]})
        assert executor("print('log')\nsum(rows)").output == "6" and executor.sandbox.info().backend == "docker"
        assert executor("import os; os.getuid()").output == "1000"
    finally:
        executor.cleanup()


def test_langchain():
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from glovebox.adapters.langchain import python_tool

    with Sandbox("python-data") as box:
        assert box.info().backend == "docker" and box.info().image == "glovebox-python-data"
        message = python_tool(box).invoke({"type": "tool_call", "id": "1", "name": "run_python", "args": {"code": "x = 20\nx + 22"}})
        assert message.content == "42"


def test_openai_agents():
    pytest.importorskip("agents", reason="openai-agents is not installed")
    from glovebox.adapters.openai_agents import python_tool

    async def call():
        async with AsyncSandbox("python-data") as box:
            return await python_tool(box).on_invoke_tool(None, json.dumps({"code": "6 * 7"}))
    assert asyncio.run(call()) == "42"


def test_pydantic_ai():
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    from glovebox.adapters.pydantic_ai import python_tool

    async def call():
        async with AsyncSandbox("python-data") as box:
            return await python_tool(box).function("6 * 7")
    assert asyncio.run(call()).return_value == "42"
