# SPDX-License-Identifier: Apache-2.0
"""The backends that must do the same, and the two tables of what one of them cannot.

WEAKER: controls that are not enforced in full, which a policy must allow by name. CANNOT: what a backend refuses, or does otherwise and tells.
Both are exact: a control that is weaker without standing here fails a test, and so does something in CANNOT that the backend can.
"""
import contextlib
import json
import os
import pathlib
import re

from server import ROOT, Server
from suite import BINARY, Box, Result

NAMES = ["native", "docker", "podman", "runsc"]
POLICY = {"native": {}, "docker": {"backend": "docker"}, "podman": {"backend": "docker"}, "runsc": {"backend": "docker", "runtime": "runsc"}}

WEAKER = {
    "native": set(),
    "docker": {"runtime"},  # Debian's runc has known ways out
    "podman": {"runtime"},
    "runsc": {"pids"},  # its own tasks on the host cannot be told from those inside
}

CANNOT = {
    "rootfs": {name: "the root of a container is an image's" for name in ("docker", "podman", "runsc")},
    "kept": {"runsc": "gVisor's kernel is in the same cgroup: a limit of memory that is hit takes the whole box"},
    "compat_calls": {"runsc": "gVisor knows no 32-bit calls: they fail, and kill nobody"},
    "inodes": {"podman": "it knows no number of files for a tmpfs", "runsc": "nor does gVisor"},
    "pids": {"runsc": "its control says weaker"},
    "mount_owner": {name: "the engine maps no ids: in a mount the code has the rights that its number has on the host" for name in ("docker", "podman", "runsc")},
    "statvfs": {"runsc": "gVisor tells no flags of a file system there; the list of mounts has them"},
    "statx": {"runsc": "Debian's answers EINVAL to the statx of `ls` and `stat`, without glovebox too"},
    "runtime": {"native": "there is no engine to choose one of", "podman": "its service ignores the field"},
}


def can(capability, name):
    return name not in CANNOT[capability]


class Backend:
    """The product on one backend: by the command line (run), and by a server (session)."""

    def __init__(self, name, engine, scratch):
        self.name, self.engine, self.scratch = name, engine, scratch
        self.policy = {**POLICY[name], **({"allow_weaker": sorted(WEAKER[name])} if WEAKER[name] else {})}
        self.environ = {"DOCKER_HOST": engine.host} if engine else {}
        self.box = Box("root" if os.geteuid() == 0 else "user", None, scratch, BINARY, self.environ)
        self._server = None

    def __repr__(self):
        return self.name

    # ---- the command line ----

    def options(self, options):
        return {**{key: ",".join(value) if isinstance(value, list) else value for key, value in self.policy.items()}, **options}

    def run(self, code, lang=None, stdin=None, **options):
        """`glovebox run --json`; options are its flags."""
        return self.box.run(code, lang, stdin, **self.options(options))

    def start(self, code, lang=None, **options):
        return self.box.start(code, lang, **self.options(options))

    # ---- the server ----

    @property
    def server(self):
        if not self._server:
            text = (ROOT / "config/sandbox.yaml").read_text()
            for key, value in self.policy.items():
                text, count = re.subn(rf"(?m)^{key}: .*$", lambda m: f"{key}: {json.dumps(value)}".replace('"', ""), text)
                assert count == 1, f"{key} is not in config/sandbox.yaml"
            self._server = Server(policy=text, environ=self.environ).start()
        return self._server

    @contextlib.contextmanager
    def session(self, **fields):
        made = Session(self, self.server.session(**fields))
        try:
            yield made
        except BaseException:  # what is wrong is told already
            self.server.delete(made.address)
            raise
        made.close()

    def close(self):
        if self._server:
            self._server.close()
            self._server = None

    # ---- what there is of it on the host ----

    def containers(self):
        return [c["Id"] for c in self.engine.containers()] if self.engine else []

    def processes_with(self, word):
        """Of the host, by a word of their command; gVisor shows none of what runs in it."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if word in pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace") and int(entry) != os.getpid():
                    found.append(int(entry))
        return found


class Session:
    """A session of the server."""

    def __init__(self, backend, name):
        self.backend, self.server, self.id = backend, backend.server, name
        self.address = f"/v1/sessions/{name}"

    def close(self):
        if self.id:
            self.server.delete(self.address).expect(204)
            self.id = None

    def run(self, code, **fields):
        """In a context; its result."""
        return self.server.run(code, self.id, **fields)["result"]

    def program(self, code, language="python", **fields):
        """A program that runs to its end."""
        return self.run(code, language=language, context=None, **fields)

    def value(self, code, **fields):
        """Of the last expression, as text."""
        result = self.run(code, **fields)
        assert result["verdict"]["kind"] == "ok" and result["results"], result
        return result["results"][-1]["data"]["text/plain"]

    def begin(self, code, **fields):
        """A run that goes on: its id, once it has printed something."""
        run = self.server.post(f"{self.address}/runs", {"code": code, "detach": True, **fields}).expect(202).json["id"]
        with self.server.get(f"/v1/runs/{run}/events", stream=True) as events:
            for event in events:
                assert event["event"] not in ("verdict", "error"), event
                if event["event"] == "stdout":
                    return run
        raise AssertionError("it printed nothing")

    def end(self, run):
        return self.server.wait_run(run)["result"]

    def stats(self):
        return self.server.get(f"{self.address}/stats").expect(200).json


def verdict(result):
    """Of a result object, or of the command's Result."""
    return result.verdict if isinstance(result, Result) else result["verdict"]["kind"]


def told(result):
    """For messages of assertions."""
    return result.explain() if isinstance(result, Result) else json.dumps(result)[:3000]


def engine_for(name, engines):
    """None for native. Skips the test where this host cannot have that engine."""
    import pytest
    if name == "native":
        return None
    engine = engines.podman if name == "podman" else engines.docker
    if name == "runsc" and not engines.has_runsc:
        pytest.skip("runsc is not installed")
    return engine
