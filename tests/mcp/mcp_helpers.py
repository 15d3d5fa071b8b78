# SPDX-License-Identifier: Apache-2.0
"""Programs of others, how they ended, and a proxy that cuts their connections."""
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 90  # seconds for a client that should have ended
TOOLS = ["list_files", "read_file", "reset_session", "run_code", "run_python", "run_shell", "session_info", "write_file"]
NEWEST = {"legacy": "2025-11-25", "auto": "2026-07-28", "modern": "2026-07-28"}


def text_of(result):
    """What a model reads of a result."""
    return "\n".join(item["text"] for item in result["content"] if item["type"] == "text")


def weaker():
    """What an ordinary user's host cannot enforce is allowed by name, as tests/server.py does it for servers."""
    return {} if os.geteuid() == 0 else {"GLOVEBOX_ALLOW_WEAKER": "cgroup"}


def environment(**more):
    """For programs of others: a home of nobody, and no word to anybody about updates."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1", **more}


class Ended:
    """How a program of others ended."""

    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.out, self.err = argv, status, out, err

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(self.explain()) from None

    def explain(self):
        return f"{self.argv}\nstatus {self.status}\nstdout: {self.out[-6000:]}\nstderr: {self.err[-6000:]}"

    def expect(self, status=0):
        assert self.status == status, self.explain()
        return self


def call(*argv, home, patience=PATIENCE, **env):
    argv = [str(a) for a in argv]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=patience, cwd=home,
                              env=environment(HOME=str(home), **env), check=False, text=True, encoding="utf-8", errors="replace")
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"{argv} did not end within {patience} s: {late.stdout!r} {late.stderr!r}")
    return Ended(argv, done.returncode, done.stdout, done.stderr)


def at_once(work, items, workers=3):
    """What the function gives for each item: programs of others mostly wait. What it raises is a value, too; see result()."""
    def one(item):
        try:
            return work(item)
        except BaseException as error:  # told by result()
            return error

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return dict(zip(items, pool.map(one, items)))


def result(value):
    if isinstance(value, BaseException):
        raise value
    return value


class Proxy:
    """Bytes to a server and back, and a memory of what was asked. It cuts a connection right after an answer had `cut` in it, once."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target, self.cut, self.cuts, self.asked = None, None, 0, []
        self.lock = threading.Lock()

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def forget(self):
        with self.lock:
            self.cut, self.cuts, self.asked = None, 0, []

    def heads(self):
        """The requests so far: method, and headers in lower case."""
        found = []
        for head in self.asked:
            lines = head.split("\r\n")
            found.append((lines[0].split(" ")[0], {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}))
        return found

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            threading.Thread(target=self._copy, args=(near, far, self._there), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, self._back), daemon=True).start()

    def _there(self, seen, data):
        """Heads only: what a body says is never like the first line of a request. The server hears its own name, not ours."""
        for match in re.finditer(rb"(?:POST|GET|DELETE) /mcp HTTP/1\.1\r\n.*?(?=\r\n\r\n)", data, re.S):
            with self.lock:
                self.asked.append(match[0].decode("latin-1"))
        return re.sub(rb"(?i)(\r\nhost: *127\.0\.0\.1:)%d" % self.port, rb"\g<1>%d" % self.target[1], data), False

    def _back(self, seen, data):
        with self.lock:
            if self.cut and self.cut in seen + data:
                self.cut, self.cuts = None, self.cuts + 1
                return data, True
        return data, False

    @staticmethod
    def _copy(source, sink, change):
        seen, over = b"", False
        try:
            while not over and (data := source.recv(65536)):
                changed, over = change(seen, data)
                sink.sendall(changed)
                seen = data[-200:]
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
