# SPDX-License-Identifier: Apache-2.0
"""The clients of mcp.py: MCP on pipes and over HTTP, and glovebox's own API, with nothing but sockets and the standard library, so that
they cost little and all peers the same. Every answer is checked; one that is wrong is a RuntimeError.

All of them have: start() the handshake, run(code) what the code has printed, ping(), tools(), close().
"""

import contextlib
import json
import os
import select
import socket
import subprocess

PATIENCE = 60  # seconds for an answer
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
INFO = {"name": "bench", "version": "1"}
TEMPLATE = "python"  # that of `glovebox mcp`


def wrong(what, answer):
    return RuntimeError(f"{what}: {str(answer)[:600]}")


def wait_for(fd, who):
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(PATIENCE * 1000):
        raise RuntimeError(f"{who}: no answer within {PATIENCE} s")


class Mcp:
    """What is the same on all ways; exchange() has a message and gives the answer to it."""

    last = 0

    def message(self, method, params):
        self.last += 1
        return {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}

    def request(self, method, params):
        answer = self.exchange(self.message(method, params))
        if answer.get("id") != self.last or "result" not in answer:
            raise wrong(method, answer)
        return answer["result"]

    def start(self):
        result = self.request("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": INFO})
        if result.get("protocolVersion") != HANDSHAKE:
            raise wrong("initialize", result)
        self.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def arguments(self, code):
        return {"code": code}

    def run(self, code):
        result = self.request("tools/call", {"name": "run_python", "arguments": self.arguments(code)})
        told = result.get("structuredContent") or {}
        if result.get("isError") or told.get("verdict", "ok") != "ok":
            raise wrong("run_python", result)
        return told["stdout"] if "stdout" in told else result["content"][0]["text"]

    def ping(self):
        result = self.request("ping", {})
        if result != {}:
            raise wrong("ping", result)

    def tools(self):
        result = self.request("tools/list", {})
        if "run_python" not in [tool["name"] for tool in result["tools"]]:
            raise wrong("tools/list", result)


class Stdio(Mcp):
    """A program that the client starts, one message a line."""

    def __init__(self, command, environment, log, cwd=None):
        self.who, self.rest = os.path.basename(command[0]), b""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0, env={**os.environ, **environment}, cwd=cwd)
        self.to, self.back = self.process.stdin.fileno(), self.process.stdout.fileno()

    def notify(self, message):
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.to, data):]

    def line(self):
        while b"\n" not in self.rest:
            wait_for(self.back, self.who)
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError(f"{self.who} has ended with {self.process.wait(PATIENCE)}")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def exchange(self, message):
        self.notify(message)
        while "method" in (answer := json.loads(self.line())):
            pass  # it tells something on the way
        return answer

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Wire:
    """HTTP/1.1 on one connection that stays. address: the path of a unix socket, or a port of 127.0.0.1."""

    def __init__(self, address):
        self.address, self.host = address, f"127.0.0.1:{address}" if isinstance(address, int) else "localhost"
        self.connect()

    def connect(self):
        self.rest = b""
        if isinstance(self.address, int):
            self.socket = socket.create_connection(("127.0.0.1", self.address))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(self.address)

    def refresh(self):
        """Some servers close a connection that was idle for some seconds. A client's pool looks before it sends."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if poll.poll(0):
            self.socket.close()
            self.connect()

    def more(self):
        wait_for(self.socket, self.host)
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError(f"{self.host} has closed the connection")
        self.rest += data

    def until(self, end):
        while end not in self.rest:
            self.more()
        found, _, self.rest = self.rest.partition(end)
        return found

    def bytes(self, size):
        while len(self.rest) < size:
            self.more()
        found, self.rest = self.rest[:size], self.rest[size:]
        return found

    def body(self, headers):
        if headers.get(b"transfer-encoding") != b"chunked":
            return self.bytes(int(headers.get(b"content-length", 0)))
        whole = b""
        while size := int(self.until(b"\r\n"), 16):
            whole += self.bytes(size)
            self.bytes(2)
        self.until(b"\r\n")
        return whole

    def ask(self, method, path, body=None, headers=""):
        """The status, the headers, the whole body."""
        self.refresh()
        data = json.dumps(body).encode() if body is not None else b""
        kind = "Content-Type: application/json\r\n" if body is not None else ""
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\n{kind}Content-Length: {len(data)}\r\n{headers}\r\n".encode() + data)
        lines = self.until(b"\r\n\r\n").split(b"\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
        return int(lines[0].split()[1]), found, self.body(found)

    def close(self):
        self.socket.close()


class Http(Mcp):
    """Streamable HTTP, with a handshake."""

    ACCEPT = "Accept: application/json, text/event-stream\r\n"

    def __init__(self, address, options=None):
        self.wire = Wire(address)
        self.headers = self.ACCEPT + (f"Glovebox-Session: {json.dumps(options)}\r\n" if options else "")

    def post(self, message):
        return self.wire.ask("POST", "/mcp", message, self.headers)

    def notify(self, message):
        status, _, body = self.post(message)
        if status != 202:
            raise wrong(f"status {status}", body)

    def exchange(self, message):
        status, headers, body = self.post(message)
        if status != 200:
            raise wrong(f"status {status}", body)
        if b"mcp-session-id" in headers and message["method"] == "initialize":
            self.headers = f"{self.ACCEPT}MCP-Protocol-Version: {HANDSHAKE}\r\nMcp-Session-Id: {headers[b'mcp-session-id'].decode()}\r\n"
        if not headers[b"content-type"].startswith(b"text/event-stream"):
            return json.loads(body)
        for line in body.splitlines():
            if line.startswith(b"data: {") and "method" not in (answer := json.loads(line[6:])):
                return answer
        raise wrong("a stream without an answer", body)

    def close(self):
        with contextlib.suppress(OSError, RuntimeError):
            self.wire.ask("DELETE", "/mcp", headers=self.headers)
        self.wire.close()


class Stateless(Http):
    """Each request stands alone; the handle of a session keeps variables. It has no ping."""

    def __init__(self, address, options=None):
        super().__init__(address, options)
        self.handle = None

    def start(self):
        if STATELESS not in self.request("server/discover", {})["supportedVersions"]:
            raise RuntimeError(f"{STATELESS} is not spoken")

    def message(self, method, params):
        meta = {META + "protocolVersion": STATELESS, META + "clientCapabilities": {}, META + "clientInfo": INFO}
        return super().message(method, {**params, "_meta": meta})

    def arguments(self, code):
        return {"code": code, "session": self.handle or "new"}

    def post(self, message):
        name = f"Mcp-Name: {message['params']['name']}\r\n" if "name" in message["params"] else ""
        return self.wire.ask("POST", "/mcp", message, f"{self.headers}MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: {message['method']}\r\n{name}")

    def exchange(self, message):
        answer = super().exchange(message)
        told = answer.get("result", {}).get("structuredContent", {})
        self.handle = self.handle or told.get("session")
        return answer

    def close(self):
        if self.handle:
            with contextlib.suppress(OSError, RuntimeError):
                self.wire.ask("DELETE", f"/v1/sessions/{self.handle}")
        self.wire.close()


class Api:
    """Not MCP: the API of glovebox's server, for the same."""

    def __init__(self, address):
        self.wire, self.path = Wire(address), None

    def start(self):
        status, _, body = self.wire.ask("POST", "/v1/sessions", {"template": TEMPLATE})
        if status != 201:
            raise wrong(f"POST /v1/sessions: status {status}", body)
        self.path = f"/v1/sessions/{json.loads(body)['id']}"

    def run(self, code):
        status, _, body = self.wire.ask("POST", f"{self.path}/runs", {"code": code})
        result = json.loads(body).get("result") or {}
        if status != 200 or result.get("verdict", {}).get("kind") != "ok":
            raise wrong(f"POST {self.path}/runs: status {status}", body)
        return result["stdout"]

    def ping(self):
        status, _, body = self.wire.ask("GET", "/healthz")
        if status != 200:
            raise wrong(f"GET /healthz: status {status}", body)

    def close(self):
        if self.path:
            with contextlib.suppress(OSError, RuntimeError):
                self.wire.ask("DELETE", self.path)
        self.wire.close()
