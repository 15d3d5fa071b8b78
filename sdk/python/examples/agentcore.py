# SPDX-License-Identifier: Apache-2.0
"""A tool for agents on asyncio."""
import asyncio

from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext


async def main() -> None:
    tool = ExecutePythonTool(use_docker=True)
    who = ExecutionContext(user_id="alice", agent_id="writer")
    answers = await asyncio.gather(*(tool.execute(parameters={"code": f"print({n} ** 2)", "timeout": 10}, context=who) for n in range(4)))
    print([answer.output.strip() for answer in answers])
    print((await tool.execute({"code": "import socket; socket.create_connection(('1.1.1.1', 53), 2)"}, who)).metadata["verdict"])

asyncio.run(main())
