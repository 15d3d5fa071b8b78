# SPDX-License-Identifier: Apache-2.0
"""A real server for tests, and a client that hides nothing.

    with Server(sessions=4) as server:
        answer = server.post("/v1/runs", {"code": "print(1)"})
        assert answer.status == 200 and answer.json["result"]["stdout"] == "1\\n"

Each Server has a directory of its own for configuration, state and sockets, so that servers of one machine do not meet. Keyword
arguments are keys of server.yaml. `policy`, `templates` and `languages` are texts of the files of those names.
With tcp=True it also listens at 127.0.0.1; `Server.tcp` is its address, and token() makes tokens for it.
"""
import http.client
import json as jsonlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
BUILD = BINARY.resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("GLOVEBOX_SERVER_PROGRAM", BUILD / "src/server/glovebox-server")).absolute()
PATIENCE = 60
SSE, NDJSON = "text/event-stream", "application/x-ndjson"


def birth(pid):
    """When a process was started: with its number that is nobody else's. None: it is dead."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def found_in_memory(pid, needle):
    """Where bytes are in the memory that a process can write to: the mapping, the address, and what stands around them."""
    places = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if not line.split()[1].startswith("rw") or end - start > 1 << 30:  # so much only sanitizers have
                continue
            try:
                mem.seek(start)
                data = mem.read(end - start)
            except OSError:
                continue
            places += [(line.strip(), hex(start + hit.start()), data[max(0, hit.start() - 300):hit.end() + 100])
                       for hit in re.finditer(re.escape(needle), data)]
    return places


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Answer:
    """A whole answer. `json` is the body, or None when it is none."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        try:
            self.json = jsonlib.loads(body)
        except ValueError:
            self.json = None

    @property
    def error(self):
        assert self.json and "error" in self.json, self.explain()
        return self.json["error"]

    @property
    def code(self):
        return self.error["code"]

    @property
    def result(self):
        assert self.status == 200 and self.json and self.json.get("result"), self.explain()
        return self.json["result"]

    def explain(self):
        return f"{self.status} {self.body[:2000]!r}"

    def expect(self, status):
        assert self.status == status, self.explain()
        return self


class Stream:
    """An answer that goes on: events as they come. `ids` are those of SSE."""

    def __init__(self, connection, response, kind):
        self.connection, self.response, self.kind = connection, response, kind
        self.status, self.headers = response.status, response.headers
        self.ids, self.comments = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def _sse(self):
        fields = {}
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(":")
                assert name not in fields, line
                fields[name] = value.removeprefix(" ")
            elif fields:
                event = jsonlib.loads(fields["data"])
                assert event["event"] == fields["event"], fields
                if "id" in fields:
                    assert int(fields["id"]) == event["seq"], fields
                    self.ids.append(int(fields["id"]))
                yield event
                fields = {}

    def _ndjson(self):
        for raw in self.response:
            assert raw.endswith(b"\n"), raw
            event = jsonlib.loads(raw)
            if event["event"] == "ping":
                self.comments += 1
            else:
                yield event

    def __iter__(self):
        assert self.status == 200, self.response.read()
        return self._sse() if self.kind == SSE else self._ndjson()


def is_for_the_library(name):
    """Tests of the library in the same process set these for it, to the build tree; an installation has everything in one place."""
    return name in ("GLOVEBOX_LIBEXEC_DIR", "GLOVEBOX_RUNNER_DIR") and not (pathlib.Path(os.environ.get("GLOVEBOX_LIBEXEC_DIR", "/")) / "glovebox-server").exists()


class Server:
    def __init__(self, tcp=False, policy=None, templates=None, languages=None, environ=None, arguments=(), user=None, private=False, **config):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-server-"))
        self.directory.chmod(0o755)  # root's server becomes somebody else
        self.config, self.state = self.directory / "config", self.directory / "state"
        self.socket = self.directory / "api.sock"
        self.arguments, self.process, self.tcp = arguments, None, None
        shutil.copytree(ROOT / "config", self.config, ignore=shutil.ignore_patterns("meson.build"))
        for name, text in (("sandbox", policy), ("templates", templates), ("languages", languages)):
            if text is not None:
                (self.config / f"{name}.yaml").write_text(text)
        listen = [f"unix:{self.socket}"]
        if tcp:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.tcp = probe.getsockname()
            listen.append("127.0.0.1:%d" % self.tcp[1])
        if "GLOVEBOX_GUARD" in os.environ:  # of all tests of a suite
            text = (self.config / "sandbox.yaml").read_text()
            (self.config / "sandbox.yaml").write_text(f"guard: {os.environ['GLOVEBOX_GUARD']}\n" + re.sub("(?m)^guard: .*\n", "", text))
        if os.geteuid() != 0:
            # An ordinary user may have no cgroups.
            text = (self.config / "sandbox.yaml").read_text()
            (self.config / "sandbox.yaml").write_text(text.replace("allow_weaker: []", "allow_weaker: [cgroup]"))
        self.write_config({"listen": listen, "directory": str(self.state), **config})
        self.environ = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8",
                        "TMPDIR": tempfile.gettempdir(),
                        "GLOVEBOX_CONFIG_DIR": str(self.config), "GLOVEBOX_RUNTIME_DIR": str(self.directory / "run"),
                        "GLOVEBOX_STATE_DIR": str(self.state), **(environ or {})}
        for name in ("GLOVEBOX_LIBEXEC_DIR", "GLOVEBOX_RUNNER_DIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ and not is_for_the_library(name):
                self.environ.setdefault(name, os.environ[name])

        self.popen = {"stdin": subprocess.DEVNULL}
        if private:  # for itself alone: it ends with who started it, and stays who that is
            self.popen["stdin"], self.arguments = subprocess.PIPE, (*arguments, "--parent-fd", "0")
        if user is not None:  # for root: as somebody else
            os.chown(self.directory, user, user)
            self.popen |= {"user": user, "group": user, "extra_groups": []}

    def write_config(self, config):
        """JSON is YAML, one value on a line."""
        lines = []
        for key, value in config.items():
            if isinstance(value, (list, tuple)):
                lines += [f"{key}:", *(f"  - {jsonlib.dumps(item)}" for item in value)]
            else:
                lines.append(f"{key}: {jsonlib.dumps(value)}")
        (self.config / "server.yaml").write_text("\n".join(lines) + "\n")

    # ---- life ----

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def start(self, wait=True, patience=PATIENCE):
        assert not self.process
        self.log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(self.program(), env=self.environ, stdout=self.log, stderr=self.log, cwd="/", **self.popen)
        try:
            if wait:
                self.wait_ready(patience)
        except BaseException:
            self.process.kill()
            self._wait(patience)
            raise
        return self

    def program(self):
        return [str(PROGRAM), "serve", *self.arguments]

    def wait_ready(self, patience=PATIENCE):
        end = time.monotonic() + patience
        while True:
            assert self.process.poll() is None, f"the server has ended: {self.output()}"
            try:
                if self.get("/readyz").status == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < end, f"the server is not ready: {self.output()}"
            time.sleep(0.02)

    def output(self):
        return (self.directory / "log").read_bytes()[-4000:].decode(errors="replace")

    def stop(self, patience=PATIENCE):
        """The orderly end; the status."""
        if not self.process:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._wait(patience)

    def kill(self):
        """Kills it, and waits until nothing of it lives: that needs nobody's help."""
        below = {pid: birth(pid) for pid in self.processes()}
        self.process.kill()
        status = self._wait(PATIENCE)
        wait_for(lambda: not [pid for pid, born in below.items() if born and birth(pid) == born], 20)
        return status

    def _wait(self, patience):
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.process = None
            raise AssertionError(f"the server did not end: {self.output()}") from None
        self.process = None
        self.log.close()
        return status

    def close(self):
        """Ends it, and removes what it had; a server that ended badly is told."""
        try:
            status = self.stop()
            assert status in (0, None), f"status {status}: {self.output()}"
            if status is not None:
                assert "ERROR: " not in self.output() and "runtime error" not in self.output(), self.output()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self):
        return self.process.pid

    @property
    def uid(self):
        """Who it has become."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[2])

    def processes(self):
        """All below it: number and command."""
        parents = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace")
                command = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            name, fields = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
            if fields[0] not in "ZX":
                parents.setdefault(int(fields[1]), []).append((int(entry), f"[{name}] {command}"))
        found, todo = {}, [self.pid]
        while todo:
            for pid, command in parents.get(todo.pop(), []):
                found[pid] = command
                todo.append(pid)
        return found

    def find(self, marker):
        """Processes below it with this word in their command."""
        return [pid for pid, command in self.processes().items() if marker in command]

    # ---- requests ----

    def connection(self, tcp=False, timeout=PATIENCE):
        return http.client.HTTPConnection(*self.tcp, timeout=timeout) if tcp else UnixConnection(self.socket, timeout)

    def raw(self, tcp=False):
        """A plain socket."""
        if tcp:
            return socket.create_connection(self.tcp, timeout=PATIENCE)
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(PATIENCE)
        plain.connect(str(self.socket))
        return plain

    def request(self, method, path, json=None, headers=None, stream=False, body=None, token=None, connection=None, timeout=PATIENCE):
        """stream: an accepted content type (SSE, NDJSON), or True for NDJSON. With a token it goes by TCP."""
        headers = dict(headers or {})
        if json is not None:
            body = jsonlib.dumps(json).encode()
            headers.setdefault("Content-Type", "application/json")
        elif body is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        kind = NDJSON if stream is True else stream
        if kind:
            headers["Accept"] = kind
        own = connection or self.connection(tcp=bool(token), timeout=timeout)
        try:
            own.request(method, path, body, headers)
            response = own.getresponse()
            if kind and response.status == 200:
                return Stream(own, response, kind)
            answer = Answer(response.status, response.headers, response.read())
        except BaseException:
            own.close()
            raise
        if not connection:
            own.close()
        return answer

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, json=None, **options):
        return self.request("POST", path, {} if json is None and "body" not in options else json, **options)

    def put(self, path, body=b"", **options):
        return self.request("PUT", path, body=body, **options)

    def patch(self, path, json, **options):
        return self.request("PATCH", path, json, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    # ---- what tests do all the time ----

    def run(self, code, session=None, **fields):
        """A run that is waited for: the run object."""
        path = f"/v1/sessions/{session}/runs" if session else "/v1/runs"
        return self.post(path, {"code": code, **fields}).expect(200).json

    def session(self, **fields):
        """A new session: its id."""
        return self.post("/v1/sessions", fields).expect(201).json["id"]

    def wait_run(self, run, state="ended", patience=PATIENCE):
        end = time.monotonic() + patience
        while True:
            answer = self.get(f"/v1/runs/{run}").expect(200).json
            if answer["state"] == state or answer["state"] == "ended":
                assert answer["state"] == state, answer
                return answer
            assert time.monotonic() < end, answer
            time.sleep(0.01)

    def used(self):
        """What is alive of the tenant: sessions, runs, memory."""
        return self.get("/v1/info").expect(200).json["used"]

    def token(self, tenant, *scopes, **options):
        """A new token of that tenant, by the command; it needs tcp=True."""
        argv = [str(PROGRAM), "token", "create", "--json", "--tenant", tenant, "--scope", ",".join(scopes or ("run",))]
        for name, value in options.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        # As another user a process cannot look for leaks in itself.
        done = subprocess.run(argv, env={**self.environ, "ASAN_OPTIONS": "detect_leaks=0"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return jsonlib.loads(done.stdout)["token"]


@pytest.fixture(scope="module")
def server():
    """One for all tests of a module."""
    with Server() as made:
        yield made


def in_threads(functions):
    """Calls all at the same time; what they returned. What one raised is raised."""
    results, errors = [None] * len(functions), []
    barrier = threading.Barrier(len(functions))

    def call(i):
        try:
            barrier.wait()
            results[i] = functions[i]()
        except BaseException as error:  # told below
            errors.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def wait_for(condition, patience=PATIENCE):
    """Polls until it is true; its value."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
