# SPDX-License-Identifier: Apache-2.0
"""Drives the Python package mcp through scenarios and prints what came of each as JSON. The argument is JSON: mode, target, scenarios. For a Python that has the package."""
import asyncio
import contextlib
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

given = json.loads(sys.argv[1])


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


@contextlib.asynccontextmanager
async def connected(target, mode, **options):
    """What people write, in each of the two ways to a server."""
    mode = "2026-07-28" if mode == "modern" else mode
    if target["transport"] == "stdio":
        parameters = StdioServerParameters(command=target["command"], args=target["args"], env=target["env"])
        async with Client(parameters, mode=mode, **options) as client:
            yield client
        return
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {target['token']}"}, timeout=httpx2.Timeout(30, read=300)) as http:
        async with Client(streamable_http_client(target["url"], http_client=http), mode=mode, **options) as client:
            yield client


class Caller:
    """Hands on the handle of the session where the server knows nobody from one call to the next."""

    def __init__(self, client):
        self.client, self.session = client, None

    async def __call__(self, name, progress=None, **arguments):
        if self.session:
            arguments.setdefault("session", self.session)
        result = plain(await self.client.call_tool(name, arguments, progress_callback=progress))
        if given["target"].get("handles"):
            self.session = (result.get("structuredContent") or {}).get("session", self.session)
        return result


async def refused(call):
    try:
        return {"result": plain(await call) if not isinstance(call, dict) else call}
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}


async def everything(client):
    call, told, begun = Caller(client), [], asyncio.Event()

    async def progress(number, total, message):
        told.append([number, message])
        begun.set()

    tools = await client.list_tools()
    wrote = await call("write_file", path="in.txt", content="a\nb\n")
    # It goes on when somebody has heard of what it said.
    code = "import os, time\nprint('one', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint('two')\nlen(open('in.txt').read())"
    running = asyncio.create_task(call("run_python", progress, code=code))
    await asyncio.wait_for(begun.wait(), 30)
    await call("write_file", path="go", content="")
    ran = await running
    uri = wrote["structuredContent"]["uri"]
    return {"version": client.protocol_version, "server": plain(client.server_info) if client.server_info else None, "instructions": client.instructions,
            "tools": [tool.name for tool in tools.tools], "wrote": wrote, "ran": ran, "told": told,
            "resources": plain(await client.list_resources()), "read": plain(await client.read_resource(uri)),
            "info": await call("session_info"),
            "unknown": await refused(client.call_tool("rm_rf", {})), "missing": await refused(client.read_resource("glovebox://runs/" + "0" * 32 + "/stdout"))}


async def cancel(client):
    """A task that is cancelled: the package tells the server."""
    call, begun = Caller(client), asyncio.Event()

    async def progress(*_):
        begun.set()

    await call("run_python", code="kept = 1")
    code = "import time\ntry:\n    print('begun', flush=True)\n    while True:\n        time.sleep(0.02)\nfinally:\n    open('ended', 'w').write('yes')"
    task = asyncio.create_task(call("run_python", progress, code=code))
    await asyncio.wait_for(begun.wait(), 30)
    task.cancel()
    await asyncio.wait([task])
    after = await call("run_python", code="import os\n(kept, os.path.exists('ended'))")
    return {"cancelled": task.cancelled(), "value": after["structuredContent"]["value"]}


async def conversation(client):
    """The calls of agent.py."""
    call, answers = Caller(client), []
    for name, arguments in given["calls"]:
        if name == "tools":
            answers.append({"tools": [tool.name for tool in (await client.list_tools()).tools]})
        elif name == "resource":
            files = answers[-1]["structuredContent"]["files"]
            answers.append(plain(await client.read_resource(next(file["uri"] for file in files if file["path"] == arguments["path"]))))
        else:
            answers.append(await call(name, **arguments))
    return {"answers": answers}


async def play(name):
    async with connected(given["target"], given["mode"]) as client:
        return await {"everything": everything, "cancel": cancel, "conversation": conversation}[name](client)


async def main():
    """Each with a connection of its own."""
    return dict(zip(given["scenarios"], await asyncio.gather(*map(play, given["scenarios"]))))


print(json.dumps(asyncio.run(main())))
