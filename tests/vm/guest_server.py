# SPDX-License-Identifier: Apache-2.0
"""The server as a service manager starts it: alone in a v2 group that was delegated to it; by root, which it does not stay, and by a user."""
import http.client
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess

from guest_host import CGROUP, PATIENCE, USER, delegate, expect_nothing_left, group, processes, wait_for

PROGRAM = "/usr/local/libexec/glovebox/glovebox-server"
SERVICE = "system.slice/glovebox.service"


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self.path))


class Client:
    def __init__(self, path):
        self.socket = path

    def ask(self, method, path, body=None):
        connection = Connection(self.socket)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        connection.request(method, path, data, {"Content-Type": kind} if data is not None else {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text[:1] in b"{[" else text

    def run(self, code, **fields):
        status, run = self.ask("POST", "/v1/runs", {"code": code, **fields})
        assert status == 200, (status, run)
        return run["result"]


class Service(Client):
    def __init__(self, uid):
        for old in (CGROUP / SERVICE / "main", CGROUP / SERVICE):  # as systemd does when a service has ended
            if old.exists():
                old.rmdir()
        self.uid, self.group = uid, group(SERVICE, "+memory +pids +cpu")
        delegate(self.group, uid)
        os.setxattr(self.group, "user.delegate" if uid else "trusted.delegate", b"1")
        self.directory = pathlib.Path(f"/srv/server-{uid}")
        subprocess.run(["rm", "-rf", self.directory], check=True)
        self.directory.mkdir(mode=0o711)
        os.chown(self.directory, uid, uid)
        super().__init__(self.directory / "api.sock")
        self.log = open(self.directory / "log", "wb")
        self.process = subprocess.Popen([PROGRAM, "serve", "--listen", f"unix:{self.socket}", "--directory", str(self.directory / "state"), "--warm", "python"],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/", env={"PATH": "/usr/bin:/bin"}, preexec_fn=self.enter)
        assert wait_for(self.is_ready, PATIENCE) is not None, self.output()

    def enter(self):
        (self.group / "cgroup.procs").write_text("0")
        if self.uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def output(self):
        return (self.directory / "log").read_text()[-3000:]

    def is_ready(self):
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self.log.close()
        expect_nothing_left(PATIENCE)
        return status


def in_its_own_group(uid):
    """The server has made room: it is in a group of its own, boxes are below the delegated one, and the limits hold."""
    service = Service(uid)
    members = {int(pid) for pid in (service.group / "main/cgroup.procs").read_text().split()}
    assert service.process.pid in members and not (service.group / "cgroup.procs").read_text(), members
    result = service.run("x = bytearray(50 << 20); print(len(x))", template=None)
    assert result["stdout"] == f"{50 << 20}\n" and result["peaks"]["memory_bytes"] > 50 << 20, result
    result = service.run("x = bytearray(500 << 20)", policy={"mem_limit": "64m"})
    assert result["verdict"]["kind"] == "memory", result
    status, session = service.ask("POST", "/v1/sessions", {})
    assert status == 201 and session["warm"], session
    groups = [p for p in CGROUP.rglob("glovebox-*") if p.is_dir()]
    assert groups and all(service.group in p.parents for p in groups), groups
    assert service.ask("GET", f"/v1/sessions/{session['id']}/stats")[1]["memory"]["bytes"] > 0
    assert service.stop() == 0, service.output()


def without_root(uid):
    """The front has nothing; files where the kernel can lend them, and a clear answer where it cannot."""
    service = Service(uid)
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status and "Uid:\t0" not in status, status
    session = service.ask("POST", "/v1/sessions", {})[1]["id"]
    answer = service.ask("PUT", f"/v1/sessions/{session}/files/a.txt", b"bytes")
    if tuple(map(int, platform.release().split(".")[:2])) >= (6, 3):
        assert answer[0] == 201, answer
    else:
        assert answer[0] == 503 and answer[1]["error"]["code"] == "unenforceable" and "ordinary user" in answer[1]["error"]["message"], answer
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL


def files_of_a_user(uid):
    service = Service(uid)
    session = service.ask("POST", "/v1/sessions", {})[1]["id"]
    assert service.ask("PUT", f"/v1/sessions/{session}/files/a.txt", b"bytes")[0] == 201
    assert service.ask("GET", f"/v1/sessions/{session}/files/a.txt")[1] == b"bytes"
    assert [name for _, name in processes() if name == "glovebox-keeper"] == []
    assert service.stop() == 0, service.output()


def tests():
    yield "server/root/in_its_own_group", in_its_own_group, 0
    yield "server/root/without_root", without_root, 0
    yield "server/user/in_its_own_group", in_its_own_group, USER
    yield "server/user/files", files_of_a_user, USER
