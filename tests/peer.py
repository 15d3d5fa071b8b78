# SPDX-License-Identifier: Apache-2.0
"""A client of MCP over HTTP that hides nothing: one request is one connection, and what came is there to be looked at.

    with Server() as server:
        peer = Peer(server)                      # shakes hands by itself, when something is asked first
        result = peer.tool("run_python", code="6 * 7")
        assert not result["isError"]

    Peer(server, era="stateless")                # each request stands alone, and says itself what it speaks
    Peer(server, options={"policy": {"memory": "64m"}})   # what its sessions are made of: the header Glovebox-Session
    Peer(server, token=server.token("t"))        # by TCP; the server needs tcp=True

`peer.notifications` has all messages that came before answers, in their order. For what comes while a call is worked on:

    with peer.stream("tools/call", {"name": "run_python", "arguments": {"code": "..."}}, meta={"progressToken": 1}) as stream:
        for message in stream.messages():
            ...

`peer.send(message)` sends any object, and any bytes, as they are, and judges nothing.
"""
import base64
import itertools
import json as jsonlib

from server import PATIENCE, Answer

SSE = "text/event-stream"
ACCEPT = "application/json, text/event-stream"
NEWEST_HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
INFO = {"name": "peer", "version": "1"}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what the header Mcp-Name says


class RpcError(Exception):
    """An answer that is an error. status: of HTTP."""

    def __init__(self, error, status=200, headers=None):
        super().__init__(f"{error['code']} {error['message']}")
        self.code, self.message, self.data, self.status, self.headers = error["code"], error["message"], error.get("data"), status, headers


class HttpError(Exception):
    """An answer that is no message at all."""

    def __init__(self, answer):
        super().__init__(answer.explain())
        self.answer, self.status = answer, answer.status


class Event:
    """One event of a stream; what it did not have is None."""

    def __init__(self, fields):
        self.id, self.event, self.data, self.retry = (fields.get(name) for name in ("id", "event", "data", "retry"))

    @property
    def json(self):
        return jsonlib.loads(self.data) if self.data else None

    def __repr__(self):
        return f"Event(id={self.id!r}, event={self.event!r}, data={self.data!r}, retry={self.retry!r})"


class Events:
    """An answer that goes on. Iterating gives its events; an event is taken note of in `seen`, and comments are counted."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status, self.headers = response.status, response.headers
        self.seen, self.comments = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """The connection, too: as a client that goes away."""
        self.response.close()
        self.connection.close()

    @property
    def last_id(self):
        return next((event.id for event in reversed(self.seen) if event.id is not None), None)

    def __iter__(self):
        fields = {}
        for raw in self.response:
            line = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                fields[name] = fields["data"] + "\n" + value if name == "data" and "data" in fields else value
            elif fields:
                event, fields = Event(fields), {}
                self.seen.append(event)
                yield event

    def messages(self):
        """Those events that have a message: the messages."""
        for event in self:
            if event.data:
                yield event.json

    def answer(self, notifications=None):
        """Reads to the answer: the result. What comes before is added to the list."""
        for message in self.messages():
            if "method" not in message:
                return unwrap(message, self.status, self.headers)
            if notifications is not None:
                notifications.append(message)
        raise EOFError(f"the stream has ended without an answer: {self.seen}")


def unwrap(message, status=200, headers=None):
    assert message.get("jsonrpc") == "2.0" and ("result" in message) != ("error" in message), message
    if "error" in message:
        raise RpcError(message["error"], status, headers)
    return message["result"]


def header_text(text):
    """As a stateless client puts any text into a header."""
    if text.isascii() and text.isprintable() and text.strip() == text and not text.startswith("=?"):
        return text
    return "=?base64?" + base64.b64encode(text.encode()).decode() + "?="


class Peer:
    def __init__(self, server, era="handshake", token=None, options=None, version=None, client=None, tcp=False, timeout=PATIENCE):
        """client: the header Glovebox-Client, of a bridge that names itself."""
        assert era in ("handshake", "stateless")
        self.server, self.era, self.token, self.options, self.client = server, era, token, options, client
        self.tcp, self.timeout = tcp or bool(token), timeout
        self.version = version or (STATELESS if era == "stateless" else NEWEST_HANDSHAKE)
        self.session = None   # the protocol's session id; None: there is none
        self.initialized = None  # what the server has said to the handshake
        self.ids = itertools.count()  # from 0, as those of a well known client
        self.notifications = []

    # ---- what goes out ----

    def headers(self, message=None):
        """Of a request with this message."""
        headers = {"Accept": ACCEPT}
        method = message.get("method") if isinstance(message, dict) else None
        if message is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.client:
            headers["Glovebox-Client"] = self.client
        if self.options is not None and (self.era == "stateless" or method == "initialize" or self.client):
            headers["Glovebox-Session"] = self.options if isinstance(self.options, str) else jsonlib.dumps(self.options)
        if self.era == "stateless":
            headers["MCP-Protocol-Version"] = self.version
            if method:
                headers["Mcp-Method"] = method
            name = message.get("params", {}).get(NAMED[method]) if method in NAMED else None
            if isinstance(name, str):
                headers["Mcp-Name"] = header_text(name)
        elif self.session:
            headers["Mcp-Session-Id"] = self.session
            headers["MCP-Protocol-Version"] = self.version
        return headers

    def message(self, method, params=None, meta=None, id=None):
        """A request, or without an id a notification. meta: more of _meta (progressToken)."""
        params, meta = dict(params or {}), dict(meta or {})
        if self.era == "stateless":
            meta = {META + "protocolVersion": self.version, META + "clientCapabilities": {}, META + "clientInfo": INFO, **meta}
        if meta:
            params["_meta"] = {**meta, **params.get("_meta", {})}
        message = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params:
            message["params"] = params
        return message

    def http(self, method, body=None, headers=None):
        """One request to /mcp, as it is: an Answer, or Events."""
        connection = self.server.connection(tcp=self.tcp, timeout=self.timeout)
        try:
            connection.request(method, "/mcp", body, headers or {})
            response = connection.getresponse()
            if response.status == 200 and (response.headers["Content-Type"] or "").startswith(SSE):
                return Events(connection, response)
            answer = Answer(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        connection.close()
        return answer

    def send(self, message, headers=None):
        """A POST of any value, or of bytes. headers: more of them; None takes one away."""
        found = self.headers(message if not isinstance(message, bytes) else {})
        found.update(headers or {})
        body = message if isinstance(message, bytes) else jsonlib.dumps(message).encode()
        return self.http("POST", body, {name: value for name, value in found.items() if value is not None})

    # ---- what is asked ----

    def initialize(self, capabilities=None, client_info=None):
        """The handshake: its result."""
        assert self.era == "handshake"
        self.session = None
        params = {"protocolVersion": self.version, "capabilities": capabilities or {}, "clientInfo": client_info or INFO}
        answer = self.send(self.message("initialize", params, id=next(self.ids)))
        with_session = answer.headers["Mcp-Session-Id"]
        result = self.read(answer)
        self.session, self.initialized, self.version = with_session, result, result["protocolVersion"]
        self.notify("notifications/initialized")
        return result

    def ready(self):
        if self.era == "handshake" and self.initialized is None:
            self.initialize()
        return self

    def stream(self, method, params=None, meta=None, id=None, headers=None):
        """Sends a request: Events, or an Answer when it is answered by one object."""
        self.ready()
        return self.send(self.message(method, params, meta, next(self.ids) if id is None else id), headers)

    def read(self, answer):
        """The result in what stream() or send() gave."""
        if isinstance(answer, Events):
            with answer:
                return answer.answer(self.notifications)
        if not isinstance(answer.json, dict) or "jsonrpc" not in answer.json:
            raise HttpError(answer)
        return unwrap(answer.json, answer.status, answer.headers)

    def call(self, method, params=None, meta=None, id=None, headers=None):
        """The result, or RpcError."""
        return self.read(self.stream(method, params, meta, id, headers))

    def tool(self, name, meta=None, **arguments):
        """Calls a tool: its result, good or bad (isError)."""
        return self.call("tools/call", {"name": name, "arguments": arguments}, meta)

    def good(self, name, **arguments):
        """Calls a tool that must not fail: its structured content."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def bad(self, name, **arguments):
        """Calls a tool that must fail: the text that says why."""
        result = self.tool(name, **arguments)
        assert result.get("isError") is True, result
        return text_of(result)

    def notify(self, method, params=None):
        """A notification: it has no answer."""
        answer = self.send(self.message(method, params))
        if answer.status != 202:
            raise HttpError(answer) if not isinstance(answer, Events) else AssertionError(answer.status)
        assert answer.body == b"", answer.explain()

    def listen(self, last=None):
        """The GET: a stream of what belongs to no request, or (last: the id of an event) the rest of one that broke. An Answer when it is refused."""
        self.ready()
        headers = {**self.headers(), "Accept": SSE}
        if last is not None:
            headers["Last-Event-ID"] = last
        return self.http("GET", headers=headers)

    def end(self):
        """The DELETE: ends the protocol's session."""
        answer = self.http("DELETE", headers=self.headers())
        self.session = self.initialized = None
        return answer


def text_of(result):
    """All texts of a result, as a model reads them."""
    return "\n".join(item["text"] for item in result["content"] if item["type"] == "text")
