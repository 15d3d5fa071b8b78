# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from glovebox import AsyncSandbox, Sandbox  # noqa: E402
from glovebox.adapters.langchain import async_python_tool, python_tool  # noqa: E402


def call(tool, code, **more):
    return tool.invoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"code": code, **more}})


def test_the_tool_keeps_state_and_tells_errors():
    with Sandbox("python-data") as box:
        tool = python_tool(box)
        assert tool.args_schema.model_json_schema()["required"] == ["code"]
        assert call(tool, "x = 41").content == "(no output)"
        message = call(tool, "x + 1")
        assert message.content == "42" and message.artifact["result"].ok
        assert "ZeroDivisionError" in call(tool, "1 / 0").content
        refused = call(tool, "y = 1\nopen('/etc/shadow')")
        assert refused.content.startswith("blocked, nothing was run:\nline 2, column 6: ") and refused.content.endswith("[shadow-file]"), refused.content
        assert "warning: line 1, column 6: " in call(tool, "open('.env')").content and call(tool, "x").content == "41"
        assert call(tool, "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()").artifact["images"]


def test_what_keeps_it_from_running_goes_to_the_model():
    with Sandbox() as box:
        tool = python_tool(box)
        box.client.delete_session(box.open().id)
        message = call(tool, "print(1)")
        assert message.status == "error" and "there is no session" in message.content
        with pytest.raises(Exception, match="Extra inputs"):
            call(tool, "print(1)", shell=True)


def test_asyncio():
    async def main():
        async with AsyncSandbox() as box:
            return await async_python_tool(box).ainvoke({"code": "6 * 7"})
    assert asyncio.run(main()) == "42"
