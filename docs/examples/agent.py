#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A conversation of an agent with its sandbox, in ten steps, as a model would have it: the tools of `glovebox mcp` over standard input and output.

    python3 docs/examples/agent.py [COMMAND [ARGUMENT...]]

The command is `glovebox mcp` unless another one is named; $GLOVEBOX is that program. Nothing is needed but Python: the protocol is one JSON object on each line. The code that
is run wants pandas and matplotlib on the host. With $AGENT_ANSWERS the answers are written to that file, as JSON."""
import json
import os
import shutil
import subprocess
import sys
import textwrap

DATA = "city,year,visitors\nBerlin,2023,120\nBerlin,2024,180\nLima,2023,90\nLima,2024,75\nOslo,2023,60\nOslo,2024,66\n"

# What is said, and what is called for it: a tool with its arguments, the list of the tools, or a file that the call before has made.
STEPS = [
    ("What can I use?", [("tools", {})]),
    ("Here is the data.", [("write_file", {"path": "data.csv", "content": DATA})]),
    ("What is in it?", [("run_python", {"code": "import pandas as pd\ndf = pd.read_csv('data.csv')\nprint(df.shape)\ndf.groupby('city').visitors.sum()"})]),
    ("The table is still there in the next call.", [
        ("run_python", {"code": "growth = df.pivot(index='city', columns='year', values='visitors')\ngrowth['change'] = growth[2024] - growth[2023]\ngrowth"})]),
    ("Draw it.", [("run_python", {"code": "import matplotlib.pyplot as plt\ngrowth['change'].plot.bar(title='Visitors, 2024 against 2023')\nplt.show()"})]),
    ("Something goes wrong: the error is for me to read.", [("run_python", {"code": "change = growth['change'].to_dict()\nchange['Paris']"})]),
    ("So I look first.", [("run_python", {"code": "[city for city in ('Paris', 'Lima') if city in change]"})]),
    ("A mistake that never ends is stopped.", [("run_python", {"code": "n = 0\nwhile True:\n    n += 1", "timeout": 1})]),
    ("What have I got now?", [("session_info", {})]),
    ("The report, and here it is.", [
        ("run_python", {"code": "best = growth['change'].idxmax()\nopen('report.md', 'w').write(f'# Visitors\\n\\nMost new visitors: {best} ({growth.change[best]:+d}).\\n')"}),
        ("resource", {"path": "report.md"})]),
]


def text_of(answer):
    """What a model reads of an answer; pictures and files by their names."""
    parts = []
    for item in answer.get("content") or answer.get("contents"):
        if item.get("type") == "image":
            parts.append(f"[a picture: {item['mimeType']}, {len(item['data']) * 3 // 4} bytes]")
        elif item.get("type") == "resource_link":
            parts.append(f"[a file: {item['name']}, {item['uri']}]")
        else:
            parts.append(item["text"])
    return "\n".join(part.rstrip("\n") for part in parts)


def uri_of(answer, path):
    return next(file["uri"] for file in answer["structuredContent"]["files"] if file["path"] == path)


class Sandbox:
    """A client of the protocol, as small as one can be."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.id = 0
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}})
        self.say({"method": "notifications/initialized"})

    def say(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.id += 1
        self.say({"id": self.id, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.id:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return message["result"]
        raise RuntimeError("the sandbox has gone away")

    def do(self, name, arguments, before):
        if name == "tools":
            return self.ask("tools/list", {})
        if name == "resource":
            return self.ask("resources/read", {"uri": uri_of(before, arguments["path"])})
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(30)


def show(number, says, calls):
    print(f"{number:2}. {says}")
    for (name, arguments), answer in calls:
        for key, value in arguments.items():
            print(textwrap.indent(f"{name} {key}: " + str(value).rstrip("\n").replace("\n", "\n" + " " * (len(name) + len(key) + 3)), "    > "))
        if name == "tools":
            print("\n".join("    " + textwrap.shorten(f"{tool['name']}: {tool['description']}", 120, placeholder=" ...") for tool in answer["tools"]))
        else:
            print(textwrap.indent(text_of(answer), "    "))
    print(flush=True)


def main(command):
    sandbox, answers = Sandbox(command), []
    for number, (says, calls) in enumerate(STEPS, 1):
        for name, arguments in calls:
            answers.append(sandbox.do(name, arguments, answers[-1] if answers else None))
        show(number, says, list(zip(calls, answers[-len(calls):])))
    status = sandbox.close()
    if "AGENT_ANSWERS" in os.environ:
        with open(os.environ["AGENT_ANSWERS"], "w", encoding="utf-8") as file:
            json.dump(answers, file)
    return status


if __name__ == "__main__":
    program = os.environ.get("GLOVEBOX") or shutil.which("glovebox") or os.path.join(os.path.dirname(__file__), "../../build/src/cli/glovebox")
    sys.exit(main(sys.argv[1:] or [program, "mcp"]))
