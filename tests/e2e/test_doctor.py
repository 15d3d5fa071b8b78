# SPDX-License-Identifier: Apache-2.0
"""What `glovebox doctor` says of container engines: an absent one is no failure, one that misbehaves costs no more than its five seconds."""
import contextlib
import json
import os
import socket
import threading
import time

import pytest

NONE = "unix:///nonexistent/docker.sock"
INFO = {"Runtimes": {"runc": {}, "runsc": {}}, "DefaultRuntime": "runc", "SecurityOptions": ["name=seccomp,profile=default"], "CgroupVersion": "2",
        "MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True, "CpuCfsPeriod": True, "OSType": "linux"}


def version(runc):
    return {"Version": "27.0.1", "ApiVersion": "1.46", "MinAPIVersion": "1.24", "Components": [{"Name": "Engine", "Version": "27.0.1"}, {"Name": "runc", "Version": runc}]}


@contextlib.contextmanager
def listening(path, answer):
    """Somebody at a socket that everybody may use; answer(request) is what he says, None: nothing at all."""
    held = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.chmod(path, 0o777)
        listener.listen(16)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    there, _ = listener.accept()
                    held.append(there)
                    text = answer(there.recv(65536).decode())
                    if text is not None:
                        there.sendall(text)
                        there.close()
        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{path}"
        listener.shutdown(socket.SHUT_RDWR)
    for there in held:
        there.close()


def engine(runc="1.3.3", info=None):
    def answer(request):
        body = json.dumps(version(runc) if "/version" in request.split("\n")[0] else info or INFO).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return answer


@pytest.fixture
def ask(box, scratch):
    def call(host, *words):
        result = box.call("doctor", "--json", "--allow-weaker=cgroup", *words, environ={"DOCKER_HOST": host})
        assert result.json, result.explain()
        return result, {c["name"]: c for c in result.json["checks"]}
    return call


def test_an_absent_engine_is_information(ask):
    start = time.monotonic()
    result, checks = ask(NONE)
    assert time.monotonic() - start < 15
    assert checks["engine"]["state"] == "info" and "/nonexistent/docker.sock" in checks["engine"]["found"], checks["engine"]
    assert not [name for name in checks if name.startswith("engine ")] and "runc" not in checks
    assert result.returncode == 0 and result.json["enforceable"] and result.json["policy"]["backend"] == "native"


def test_a_container_is_not_ruled_out(ask):
    """Hints may be missing; that is no proof."""
    _, checks = ask(NONE)
    row = checks["container"]
    assert row["found"].startswith(("probably inside one: ", "no sign of one", "not known: ")), row
    assert "only" not in row["means"], row


def test_the_docker_backend_without_an_engine(ask):
    result, _ = ask(NONE, "--backend", "docker")
    assert result.returncode != 0 and not result.json["enforceable"], result.explain()
    assert "/nonexistent/docker.sock" in result.json["reason"] and result.json["policy"]["backend"] == "docker"


def test_an_engine(ask, scratch):
    with listening(scratch / "e.sock", engine()) as host:
        _, checks = ask(host)
    assert checks["engine"]["state"] == "ok" and "Docker Engine 27.0.1" in checks["engine"]["found"] and "$DOCKER_HOST" in checks["engine"]["found"]
    assert checks["runc"]["state"] == "ok" and checks["runc"]["found"] == "1.3.3"
    assert checks["gvisor"]["state"] == "ok" and "--runtime runsc" in checks["gvisor"]["found"]
    assert checks["engine runtimes"]["found"] == "runc (default), runsc" and checks["engine limits"]["state"] == "ok"
    assert checks["engine apparmor"]["state"] == "info"


def test_an_old_runc_and_no_gvisor(ask, scratch):
    info = {**INFO, "Runtimes": {"runc": {}}, "SwapLimit": False}
    with listening(scratch / "e.sock", engine("1.1.5+ds1", info)) as host:
        _, checks = ask(host)
        result, _ = ask(host, "--backend", "docker")
    assert checks["runc"]["state"] == "weaker" and "--allow-weaker runtime" in checks["runc"]["remedy"]
    assert checks["gvisor"]["state"] == "info" and "daemon.json" in checks["gvisor"]["remedy"]
    assert checks["engine limits"]["state"] == "weaker" and "not: swap" in checks["engine limits"]["found"]
    assert result.returncode == 112 and "runtime" in result.json["reason"], result.explain()
    assert next(c for c in result.json["controls"] if c["name"] == "runtime")["state"] == "weaker"


@pytest.mark.parametrize("text", [b"", b"\x1b[31m\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n"])
def test_rubbish(ask, scratch, text):
    with listening(scratch / "e.sock", lambda request: text) as host:
        result, checks = ask(host)
    assert checks["engine"]["state"] == "info" and result.returncode == 0 and "\x1b" not in checks["engine"]["found"]


@pytest.mark.waits
def test_an_engine_that_hangs(ask, scratch):
    with listening(scratch / "e.sock", lambda request: None) as host:
        start = time.monotonic()
        result, checks = ask(host)
        assert time.monotonic() - start < 25
    assert checks["engine"]["state"] == "info" and result.returncode == 0 and str(scratch / "e.sock") in checks["engine"]["found"]
