#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer of mcp.py: what the tutorials of MCP's Python package come to, a server with one tool that runs Python.

    python -I mcp_fast.py stdio|PORT                exec() in this very process: variables stay, and nothing is kept from the code
    python -I mcp_fast.py stdio|PORT COMMAND...     COMMAND CODE for each call: nothing stays

-I: beside this file there is another mcp.py.
"""

import contextlib
import io
import subprocess
import sys
import threading

try:
    from mcp.server.fastmcp import FastMCP  # 1.x
except ModuleNotFoundError:
    from mcp.server.mcpserver import MCPServer as FastMCP

variables, lock = {}, threading.Lock()  # standard output is one for all threads
where, command = sys.argv[1], sys.argv[2:]


def run_here(code: str) -> str:
    """Runs Python code."""
    out = io.StringIO()
    with lock, contextlib.redirect_stdout(out):
        exec(code, variables)
    return out.getvalue()


def run_by_command(code: str) -> str:
    """Runs Python code."""
    return subprocess.run([*command, code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60).stdout


server = FastMCP("bench", log_level="ERROR")
server.tool(name="run_python")(run_by_command if command else run_here)
if where == "stdio":
    server.run("stdio")
else:
    try:
        server.run("streamable-http", host="127.0.0.1", port=int(where))
    except TypeError:  # 1.x
        server.settings.port = int(where)
        server.run("streamable-http")
