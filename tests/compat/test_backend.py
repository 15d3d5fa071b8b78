# SPDX-License-Identifier: Apache-2.0
"""The switch to Docker, and what it says when Docker cannot be used."""
import os
import socket
import subprocess
import sys

import pytest

import engines
from compat_helpers import ROOT, USER, needs_root
from glovebox.compat import BackendError, DockerNotAvailable, ImageNotFound
from glovebox.compat import _backend, annie, dolphin
from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext


def test_native_needs_nothing(no_engine):
    _backend.require(None, "any")
    _backend.require("native", "any")


def test_an_unknown_backend_is_told():
    with pytest.raises(BackendError, match="no backend 'vmware'"):
        _backend.choose("vmware")


def test_the_environment_switches(monkeypatch, no_engine):
    monkeypatch.setenv("GLOVEBOX_BACKEND", "docker")
    with pytest.raises(DockerNotAvailable, match="no engine listens"):
        annie.execute_python("print(1)")
    assert annie.execute_python("print(1)", backend="native")["stdout"] == "1\n"


def test_an_engine_that_is_not_running(no_engine, tmp_path):
    with pytest.raises(DockerNotAvailable) as told:
        dolphin.DockerSandboxExecutor("one", str(tmp_path), backend="docker")
    assert "start it" in told.value.hint


def test_something_that_is_no_engine(no_engine):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(no_engine))
        s.listen(1)
        with pytest.raises(DockerNotAvailable, match="does not answer"):
            _backend.check_engine(None)


@needs_root
def test_no_permission_on_the_socket(no_engine):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(no_engine))
        s.listen(1)
        os.chmod(no_engine, 0o600)
        for part in no_engine.parents:
            if str(part).startswith("/tmp/") or "pytest" in str(part):
                os.chmod(part, 0o755)
        code = "from glovebox.compat import _backend; _backend.check_engine(None)"
        done = subprocess.run([sys.executable, "-c", code], user=USER, group=USER, extra_groups=[], capture_output=True, text=True,
                              env={"PYTHONPATH": str(ROOT / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1", "DOCKER_HOST": f"unix://{no_engine}"})
    assert "permission denied on the socket of the Docker Engine" in done.stderr and "group docker" in done.stderr, done.stderr


@pytest.mark.skipif(engines.why_not() is not None, reason=engines.why_not() or "")
def test_a_real_engine_without_the_image(monkeypatch, tmp_path):
    with engines.engine() as path:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        with pytest.raises(ImageNotFound) as told:
            dolphin.DockerSandboxExecutor("one", str(tmp_path), image_name="dolphin-sandbox:latest", backend="docker")
        assert "dolphin-sandbox:latest is not there" in told.value.message and "docker build -t dolphin-sandbox:latest" in told.value.hint
        assert not (tmp_path / "one").exists()


def test_the_tool_tells_instead_of_raising(no_engine):
    import asyncio
    answer = asyncio.run(ExecutePythonTool(backend="docker").execute({"code": "print(1)"}, ExecutionContext("u", "a")))
    assert not answer.success and "no engine listens" in answer.error
    assert any("AppArmor" in line or "apparmor" in line for line in answer.metadata["troubleshooting"]) or len(answer.metadata["troubleshooting"]) == 1
