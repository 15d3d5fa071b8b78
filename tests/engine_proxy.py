# SPDX-License-Identifier: Apache-2.0
"""Between glovebox and an engine: writes down what is asked, and changes answers.

    with Proxy(engine) as proxy:
        run(environ={"DOCKER_HOST": proxy.host})
        assert ("POST", "/containers/create") in [(method, path) for method, path, _ in proxy.asked]

`proxy.rule(method, target)` is called for each request and gives None (pass it on), a function that makes another body of the answer's (alter), or bytes that
are sent in the place of the engine's answer; HANG, and nothing is ever answered. Each connection may carry one request: a second one that is not written down would
hide something, so it is a fault (`proxy.faults`).
"""
import contextlib
import http.client
import json
import pathlib
import re
import select
import socket
import tempfile
import threading

HEAD_MAX = 65536
HANG = object()


def answer(status, body, reason="x", kind="application/json"):
    return f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Proxy:
    def __init__(self, engine, rule=None):
        self.engine, self.rule = engine, rule or (lambda method, target: None)
        self.asked, self.faults, self.bodies = [], [], []
        self.place = tempfile.TemporaryDirectory(prefix="gbp-")
        self.path = pathlib.Path(self.place.name) / "s"
        pathlib.Path(self.place.name).chmod(0o755)
        self.listener, self.ends = None, []

    @property
    def host(self):
        return f"unix://{self.path}"

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.path.chmod(0o666)
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # who waits there is told
        self.listener.close()
        for one in self.ends:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.place.cleanup()

    def calls(self):
        """Method and path without version and query, in order."""
        return [(method, path) for method, path, _ in self.asked]

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.ends.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            self._request(client)
        client.close()

    def _request(self, client):
        data = b""
        while b"\r\n\r\n" not in data:
            more = client.recv(65536)
            if not more or len(data) > HEAD_MAX:
                return
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ", 2)
        path, _, query = re.sub(r"^/v[0-9.]+", "", target).partition("?")
        self.asked.append((method, path, query))
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        is_chunked = re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head)
        rule = self.rule(method, f"{path}?{query}" if query else path)
        if isinstance(rule, bytes):
            client.sendall(rule)
            return
        if rule is HANG:
            while client.recv(65536):
                pass
            return
        with socket.socket(socket.AF_UNIX) as upstream:
            self.ends.append(upstream)
            upstream.connect(str(self.engine.socket))
            upstream.sendall(data)
            left = int(length[1]) - len(rest) if length else 0
            body = rest
            while left > 0:
                more = client.recv(65536)
                left -= len(more)
                if len(body) < 1 << 20:
                    body += more
                upstream.sendall(more)
            if method == "POST" and path == "/containers/create":
                self.bodies.append(json.loads(body))
            if callable(rule):
                response = http.client.HTTPResponse(upstream, method=method)
                response.begin()
                body = response.read()
                client.sendall(answer(response.status, rule(body) if response.status == 200 else body))
                return
            is_stream = path.endswith("/attach")
            self._splice(client, upstream, is_stream or bool(is_chunked))

    def _splice(self, client, upstream, may_send):
        """Both ways until both have ended."""
        open_ends = [client, upstream]
        while open_ends:
            for one in select.select(open_ends, [], [])[0]:
                other = upstream if one is client else client
                data = one.recv(65536)
                if data and one is client and not may_send:
                    self.faults.append(data[:200])
                if data:
                    other.sendall(data)
                    continue
                open_ends.remove(one)
                with contextlib.suppress(OSError):
                    other.shutdown(socket.SHUT_WR)
                if one is upstream:
                    return
