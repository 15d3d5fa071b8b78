# SPDX-License-Identifier: Apache-2.0
"""A client of `glovebox mcp` that hides nothing.

    with Stdio("--memory", "256m") as peer:          # a private server, and a directory for it of its own
        peer.initialize()
        assert peer.tool("run_python", code="print(6 * 7)")["structuredContent"]["stdout"] == "42\\n"

Every line of standard output must be a message: anything else fails the test that sees it. `peer.notifications` has the messages that are no answers.
"""
import itertools
import json
import os
import pathlib
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from server import BINARY, PATIENCE, ROOT, birth, wait_for

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
LATE = object()


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']} {error['message']}")
        self.code, self.message = error["code"], error["message"]


def environment(directory, private=True):
    """Nothing of the caller's: no server of his is found, and what is left is seen."""
    given = {name: value for name, value in os.environ.items() if name in ("PATH", "GLOVEBOX_LIBEXEC_DIR", "GLOVEBOX_RUNNER_DIR") or name.endswith("SAN_OPTIONS")}
    if private and os.geteuid() != 0:
        given["GLOVEBOX_ALLOW_WEAKER"] = "cgroup"  # an ordinary user may have none; servers of tests know that
    return {"LANG": "C.UTF-8", "GLOVEBOX_CONFIG_DIR": str(ROOT / "config"), "GLOVEBOX_RUNTIME_DIR": f"{directory}/run", "TMPDIR": f"{directory}/tmp", **given}


def below(pid):
    """All processes below this one: number to birth, which together are nobody else's."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = {}, [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            born = birth(child)
            if born is not None:
                found[child] = born
                todo.append(child)
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Stdio:
    def __init__(self, *arguments, environ=None, cwd=None):
        self.directory = tempfile.mkdtemp(prefix="gbmcp-", dir="/tmp")
        os.makedirs(f"{self.directory}/tmp")
        self.ids, self.answers, self.notifications, self.broken, self.unasked = itertools.count(1), {}, [], [], []
        self.lines = queue.Queue()
        self.err = open(f"{self.directory}/stderr", "w+b")
        self.process = subprocess.Popen([str(BINARY), "mcp", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err, cwd=cwd,
                                        env={**environment(self.directory, not any(word.startswith("--server") for word in arguments)), **(environ or {})})
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()

    def _read(self, stream):
        for line in stream:
            self.lines.put(line)
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.clean()

    def clean(self):
        if self.process.poll() is None:
            known = below(self.process.pid)
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            wait_for(lambda: not alive(known))
        self.reader.join(PATIENCE)
        self.process.stdin.close() if not self.process.stdin.closed else None
        self.process.stdout.close()
        self.err.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- messages ----

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def request(self, method, params=None, ident=None):
        """Sends it; its id."""
        ident = next(self.ids) if ident is None else ident
        self.send({"jsonrpc": "2.0", "id": ident, "method": method, **({} if params is None else {"params": params})})
        return ident

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def next_message(self, patience=PATIENCE):
        """The next line; None: there are no more; LATE: none came in time."""
        try:
            line = self.lines.get(timeout=patience)
        except queue.Empty:
            return LATE
        if line is None:
            self.lines.put(None)
            return None
        assert line.endswith(b"\n"), f"a line that is not whole: {line[-200:]!r}"
        message = json.loads(line)
        assert isinstance(message, dict) and message.get("jsonrpc") == "2.0", message
        if "method" in message:
            self.notifications.append(message)
        elif message.get("id") is None:
            self.unasked.append(message)
        else:
            assert message["id"] not in self.answers, f"answered twice: {message}"
            self.answers[message["id"]] = message
        return message

    def answer(self, ident, patience=PATIENCE):
        """The answer to this id, whole."""
        end = time.monotonic() + patience
        while ident not in self.answers:
            message = self.next_message(max(0, end - time.monotonic()))
            assert message is not None, f"the bridge has ended: {self.stderr()}"
            assert message is not LATE, f"no answer to {ident}: {self.stderr()}"
        return self.answers[ident]

    def result(self, ident):
        answer = self.answer(ident)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def call(self, method, params=None):
        return self.result(self.request(method, params))

    def initialize(self, version=HANDSHAKE):
        result = self.call("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "stdio", "version": "1"}})
        self.notify("notifications/initialized")
        return result

    def start_tool(self, name, meta=None, **arguments):
        return self.request("tools/call", {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})})

    def tool(self, name, **arguments):
        return self.result(self.start_tool(name, **arguments))

    def alone(self, method, params=None):
        """A request that stands alone; its id."""
        return self.request(method, {**(params or {}), "_meta": {META + "protocolVersion": STATELESS, META + "clientCapabilities": {},
                                                                META + "clientInfo": {"name": "stdio", "version": "1"}}})

    # ---- life ----

    def close(self):
        """Standard input ends; the status."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def stderr(self):
        return pathlib.Path(self.err.name).read_text(errors="replace")

    def left(self):
        return os.listdir(f"{self.directory}/tmp")

    def server_pid(self):
        """Of its private server."""
        found = [pid for pid in below(self.process.pid) if command_of(pid)[:2] == [b"glovebox-server", b"serve"]]
        assert found, "there is no private server"
        return min(found, key=birth)  # others below it may have its name


def alive(known):
    return [pid for pid, born in known.items() if birth(pid) == born]


class Cutter:
    """Stands between a client and the socket of a server, and can cut what goes on."""

    def __init__(self, target):
        self.target, self.directory = str(target), tempfile.mkdtemp(prefix="gbmcp-", dir="/tmp")
        self.path, self.pairs, self.requests, self.lock = f"{self.directory}/s", [], [], threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.target)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.pairs.append((client, server))
            threading.Thread(target=self._carry, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, False), daemon=True).start()

    def _carry(self, source, sink, is_request):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if is_request:
                    with self.lock:
                        self.requests.append(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def heads(self):
        """What was asked of /mcp so far: the method as "", and the fields, by their names in small letters."""
        with self.lock:
            texts = [data.split(b"\r\n\r\n")[0].decode("latin-1") for data in self.requests if b" /mcp HTTP/1.1\r\n" in data]
        rows = []
        for first, *fields in (text.split("\r\n") for text in texts):
            rows.append({"": first.split()[0], **{name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}})
        return rows

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
