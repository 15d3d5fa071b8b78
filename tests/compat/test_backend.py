# SPDX-License-Identifier: Apache-2.0
"""The switch to Docker, and what it says when Docker cannot be used: each of the five programs with what to do about it."""
import asyncio
import http.server
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time

import pytest

import base_image
from compat_helpers import BINARY, ORDINARY, ROOT, USER, needs_root
from promises import promise
from isolation import wait_until
from server import Server
from glovebox import Client, NotFoundError, Sandbox, UnenforceableError, UsageError
from glovebox.compat import BackendError, DockerNotAvailable, ImageNotFound
from glovebox import _private
from glovebox.compat import _backend, _options, annie, dolphin, ironclaw, policy
from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext
from glovebox.compat.ironclaw import SandboxManager

WHO = ExecutionContext("u", "a")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """What other tests have chosen is not for these."""
    for name in ("GLOVEBOX_BACKEND", "GLOVEBOX_ALLOW_WEAKER", "GLOVEBOX_RUNTIME", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def engine(docker, monkeypatch):
    """A real engine, by the environment; a private server of the test's own knows it, and no weaker control is allowed."""
    from glovebox import _private
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    _private.stop()
    yield docker
    _private.stop()


# ---- the five, each as its program would call it; `image` is None where it has its own ----

def call_annie(tmp_path, image=None, **options):
    return annie.execute_python("print(1)", backend="docker", **({"image": image} if image else {}), **options)["stdout"]


def call_ironclaw(tmp_path, image=None, **options):
    with ironclaw.SandboxManager(tmp_path / "workspace", backend="docker", **({"image": image} if image else {}), **options) as manager:
        return manager.get_or_create_container().run("print(1)").stdout


def call_dolphin(tmp_path, image=None, **options):
    with dolphin.DockerSandboxExecutor("one", str(tmp_path / "base"), backend="docker", **({"image_name": image} if image else {}), **options) as executor:
        return executor.execute_code("print(1)")


def call_manager(tmp_path, image=None, **options):
    with policy.ContainerManager(backend="docker", **options) as manager:
        return manager.create_container(*([image] if image else [])).run("print(1)").stdout


def call_executor(tmp_path, image=None, **options):
    return policy.SandboxExecutor(backend="docker", image=image, **options).execute("print(1)").output


def call_agentcore(tmp_path, image=None, client=None):
    """It never raises: its answer says the same."""
    answer = asyncio.run(ExecutePythonTool(use_docker=True, **({"image": image} if image else {})).execute({"code": "print(1)"}, WHO))
    if not answer.success:
        advice = answer.metadata["troubleshooting"]
        kind = {"unenforceable": UnenforceableError}.get(answer.metadata["error_type"]) or \
            next(kind for kind, word in ((ImageNotFound, "image"), (DockerNotAvailable, "ngine")) if word in answer.error)
        assert advice[0].startswith(answer.error.partition(" (")[0]), advice
        raise kind(answer.error, hint=advice[0])
    return answer.output


FIVE = [call_annie, call_ironclaw, call_dolphin, call_manager, call_executor, call_agentcore]
each = pytest.mark.parametrize("call", FIVE, ids=lambda call: call.__name__.removeprefix("call_"))


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


# ---- no engine ----

@promise("ironclaw-5", "An engine that cannot be reached is a clear error.")
@promise("dolphin-16", "Without an engine there is a RuntimeError that says Docker is not available.")
@each
def test_an_engine_that_is_not_running(call, no_engine, tmp_path):
    with pytest.raises(DockerNotAvailable, match="no engine listens") as told:
        call(tmp_path)
    assert "systemctl start docker" in told.value.hint and "GLOVEBOX_BACKEND=native" in told.value.hint
    assert not (tmp_path / "base").exists() and not (tmp_path / "workspace").exists()


def test_what_the_server_says_of_an_engine_is_the_same_error(no_engine, tmp_path):
    """With a server that was named this module looks at no engine: it may be elsewhere."""
    from glovebox import _private
    _private.stop()
    try:
        with Client() as client, pytest.raises(DockerNotAvailable, match="Start it .systemctl start docker"):
            call_manager(tmp_path, client=client)
    finally:
        _private.stop()


def test_an_address_that_is_no_socket(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")
    with pytest.raises(DockerNotAvailable, match="not on a unix socket"):
        _backend.check_engine(None)


def test_a_context_of_docker_is_left_to_the_server(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert _backend.engine_socket() == _backend.DEFAULT_SOCKET
    (tmp_path / "config.json").write_text('{"currentContext": "rootless"}')
    assert _backend.engine_socket() is None
    (tmp_path / "config.json").write_text("[]")
    assert _backend.engine_socket() == _backend.DEFAULT_SOCKET
    monkeypatch.setenv("DOCKER_CONTEXT", "rootless")
    assert _backend.engine_socket() is None


def test_something_that_is_no_engine(no_engine, monkeypatch):
    monkeypatch.setattr(_backend, "ENGINE_SECONDS", 0.5)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(no_engine))
        s.listen(1)
        with pytest.raises(DockerNotAvailable, match="does not answer"):
            _backend.check_engine(None)


def test_an_engine_that_removes_images_slowly(no_engine, monkeypatch):
    """Removing takes as long as it takes; only questions have to be answered soon."""
    class Slow(http.server.BaseHTTPRequestHandler):
        def answer(self, body):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer(b'[{"Id": "sha256:1"}, {"Id": "sha256:2"}]')

        def do_DELETE(self):
            time.sleep(3)
            self.answer(b"[]")

        def log_message(self, *_):
            pass

    monkeypatch.setattr(_backend, "ENGINE_SECONDS", 1.5)
    with socketserver.UnixStreamServer(str(no_engine), lambda request, _, server: Slow(request, ("", 0), server)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            assert _backend.remove_prepared_images() == 2
        finally:
            server.shutdown()
            thread.join()


# ---- an engine that is not for everybody ----

@promise("ironclaw-5", "An engine that cannot be reached is a clear error.")
@needs_root
def test_no_permission_on_the_socket(docker):
    """Of the real engine, as somebody who is in no group."""
    code = "from glovebox.compat import annie; annie.execute_python('print(1)', backend='docker')"
    done = subprocess.run([sys.executable, "-c", code], user=USER, group=USER, extra_groups=[], capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1", "DOCKER_HOST": docker.host})
    assert "Docker is not available: permission denied on its socket" in done.stderr and "group docker" in done.stderr, done.stderr


# ---- images ----

@promise("dolphin-17", "Without the image there is a RuntimeError that names it and the command that builds it.")
@each
def test_an_image_that_is_not_there(call, engine, tmp_path):
    name = "127.0.0.1:9/nosuch-sandbox:1"  # where no registry is: nobody outside of this machine is asked
    with pytest.raises(ImageNotFound, match=f"Docker image '{name}' not found") as told:
        call(tmp_path, name)
    assert f"docker pull {name}" in told.value.hint and ("could not be pulled" in told.value.message) == (call is call_ironclaw), told.value
    assert not (tmp_path / "base").exists() and not (tmp_path / "workspace").exists()


@pytest.mark.parametrize("which", ["docker", "podman"])
@pytest.mark.parametrize("call", [call_annie, call_ironclaw])
@pytest.mark.parametrize("name", ["Bad Image!", "a//b:c:d"])
def test_what_is_no_name_of_an_image(name, call, which, request, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue(which).host)
    with pytest.raises(UsageError, match="is not the name of an image"):
        call(tmp_path, name)


@pytest.fixture
def registry(tmp_path):
    """A registry on this machine: its address."""
    program = os.environ.get("GLOVEBOX_TEST_REGISTRY") or shutil.which("docker-registry")
    if not program:
        pytest.skip("docker-registry is not installed ($GLOVEBOX_TEST_REGISTRY names the program)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "registry.yml").write_text(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\nhttp: {{addr: {address}}}\n")
    with open(tmp_path / "registry.log", "wb") as log:
        process = subprocess.Popen([program, "serve", str(tmp_path / "registry.yml")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0
    try:
        assert wait_until(listens, 30), (tmp_path / "registry.log").read_text()
        yield address
    finally:
        process.terminate()
        process.wait(30)


@promise("ironclaw-2", "The base image is pulled when the engine does not have it.")
def test_an_image_is_pulled(docker, registry, tmp_path, monkeypatch):
    """"Pulls a base image, starts a persistent container." The same content comes from a registry by the name that was asked for."""
    monkeypatch.setenv("GLOVEBOX_BACKEND", "docker")
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    _private.stop()
    name, steps = f"{registry}/library/python:3.11-slim-bookworm", []
    id = docker.ask("GET", "/images/glovebox-python/json")[1]["Id"]
    assert docker.ask("POST", f"/images/glovebox-python/tag?repo={registry}/library/python&tag=3.11-slim-bookworm")[0] == 201
    try:
        pushed = docker.ask("POST", f"/images/{name}/push", headers={"X-Registry-Auth": "e30="})
        assert pushed[0] == 200 and "error" not in str(pushed[1]).lower(), pushed
        assert docker.ask("DELETE", f"/images/{name}")[0] == 200
        with SandboxManager(tmp_path / "workspace", image=name, on_pull=steps.append) as manager:
            assert manager.get_or_create_container().exec_run(["python3", "-c", "print(1+1)"]) == (0, b"2\n")
            manager.stop_container()
        assert steps[0] == f"pulling {name}" and len(steps) > 1, steps
        assert docker.ask("GET", f"/images/{name}/json")[1]["Id"] == id
        steps.clear()
        with SandboxManager(tmp_path / "workspace", image=name, on_pull=steps.append) as manager:
            manager.get_or_create_container()
            manager.stop_container()
        assert steps == [], "it was there"
        with pytest.raises(ImageNotFound, match="could not be pulled: .*(manifest|not found)") as told:
            SandboxManager(tmp_path / "workspace", image=f"{registry}/library/nosuch:1", on_pull=steps.append).get_or_create_container()
        assert "docker load" in told.value.hint and steps[0] == f"pulling {registry}/library/nosuch:1"
    finally:
        _private.stop()
        docker.ask("DELETE", f"/images/{name}")


@promise("ironclaw-18", "The image can be built on another base, such as python:3.11-slim-bookworm.")
def test_the_image_is_built_on_another_base(docker):
    """No registry is asked: the base of the tests has that name for a moment."""
    base, name = "python:3.11-slim-bookworm", "glovebox-test-other-base"
    assert docker.ask("POST", f"/images/{base_image.NAME}/tag?repo=python&tag=3.11-slim-bookworm")[0] == 201
    try:
        done = subprocess.run([str(BINARY), "image", "build", "glovebox-python", "--backend", "docker", "--base", base, "--network", "none", "--tag", name],
                              capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, env={**os.environ, "DOCKER_HOST": docker.host})
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert docker.ask("GET", f"/images/{name}/json")[0] == 200
    finally:
        for each in (name, base):
            docker.ask("DELETE", f"/images/{each}")


@promise("ironclaw-2", "The base image is pulled when the engine does not have it.")
def test_names_of_our_own_images_are_never_pulled(docker, monkeypatch, tmp_path):
    """In a registry they would be somebody else's."""
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    for name in _backend.OWN:
        steps = []
        monkeypatch.setattr(_backend, "pull_missing", lambda image, progress: steps.append(image))
        for image in (f"{name}:nosuch", f"{name}@sha256:{'0' * 64}"):
            with pytest.raises(ImageNotFound) as told:
                _backend.box("docker", image, None, None, print)
            assert "glovebox image build" in told.value.hint
        assert steps == []


@promise("dolphin-17", "Without the image there is a RuntimeError that names it and the command that builds it.")
def test_the_command_that_builds_it():
    def hint(*of):
        return _backend._image_not_found(*of).hint.removeprefix("build it: ")
    assert hint("glovebox-python", "python") == "glovebox image build glovebox-python --backend docker"
    assert hint("ironclaw-sandbox:latest", None) == "glovebox image build glovebox-python --backend docker --tag ironclaw-sandbox:latest"
    assert hint("dolphin-python-sandbox", "python-data") == ("glovebox image build glovebox-python --backend docker && "
                                                            "glovebox image build glovebox-python-data --backend docker --tag dolphin-python-sandbox")
    # Nothing is ever built under the name of somebody else's image.
    assert "--tag python" not in hint("python:3.11-slim-bookworm", None) and "docker pull python:3.11-slim-bookworm" in hint("python:3.11-slim-bookworm", None)


def test_what_the_server_says_of_an_image_is_the_same_error(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    with Client() as client:
        with pytest.raises(ImageNotFound, match="nosuch:latest") as told:
            call_manager(tmp_path, "nosuch:latest", client=client)
        assert "docker pull nosuch:latest" in told.value.hint
        with pytest.raises(NotFoundError):
            Sandbox(backend="docker", template=None, image="nosuch:latest", client=client).open()


@promise("dolphin-22", "image_name is the image of the container.")
def test_the_image_that_was_named_is_the_boxs(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    with dolphin.DockerSandboxExecutor("one", str(tmp_path), image_name="ironclaw-sandbox:latest", backend="docker") as executor:
        info = executor._box.info()
        assert (info.backend, info.image) == ("docker", "ironclaw-sandbox:latest")


# ---- a weaker control ----

@pytest.fixture
def old_runc(engine, monkeypatch):
    """The engine, when its runc has known ways out. Whether it has is asked in a server that allows it."""
    from glovebox import _private
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    with Sandbox(backend="docker", template=None, image="glovebox-python") as box:
        state = box.info().controls["runtime"].state
    monkeypatch.delenv("GLOVEBOX_ALLOW_WEAKER")
    _private.stop()
    if state == "enforced":
        pytest.skip("the runc of this host has no known ways out")
    return engine


def test_a_weaker_control_must_be_accepted(old_runc, tmp_path):
    for call in FIVE:  # in one test: a server each would take long
        with pytest.raises(UnenforceableError) as told:
            call(tmp_path)
        assert '"runtime"' in str(told.value) and "GLOVEBOX_ALLOW_WEAKER=runtime" in told.value.hint, (call, told.value, told.value.hint)


def test_a_weaker_control_that_is_accepted(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    assert [call(tmp_path) for call in FIVE] == ["1\n"] * len(FIVE)


# ---- places of the host ----

@needs_root
def test_directories_that_root_makes_are_an_ordinary_users(tmp_path):
    made = _options.directory(tmp_path / "a/b", in_container=True)
    assert (made.stat().st_uid, made.stat().st_gid, made.stat().st_mode & 0o777) == (ORDINARY, ORDINARY, 0o700)
    assert made.parent.stat().st_uid == 0 and _options.directory(tmp_path / "c").stat().st_uid == 0
    os.chown(made, 0, 0)
    assert _options.directory(made, in_container=True).stat().st_uid == 0, "what was there already is its owner's business"


@needs_root
def test_a_directory_of_root_is_told(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "base/one").mkdir(parents=True)
    for call in (call_ironclaw, call_dolphin):
        with pytest.raises(UsageError, match="belongs to root.*chown 1000:1000"):
            call(tmp_path)


# ---- who chooses ----

@promise("policy-14", "The engine is the one that DOCKER_HOST names, as with docker.from_env().")
def test_the_policy_file_chooses(engine, tmp_path):
    (tmp_path / "sandbox.yaml").write_text("backend: docker\nallow_weaker: [runtime]\nimage: ironclaw-sandbox:latest\n")
    outcome = policy.SandboxExecutor(tmp_path / "sandbox.yaml").execute("print(1)")
    assert outcome.success and outcome.security["backend"] == "docker", outcome
    assert policy.SandboxExecutor(tmp_path / "sandbox.yaml", backend="native", image=None).policy()["image"] == "ironclaw-sandbox:latest"
    (tmp_path / "sandbox.yaml").write_text("backend: docker\nruntime: nosuch\nallow_weaker: [runtime]\n")
    with pytest.raises(UnenforceableError, match='no runtime "nosuch"'):
        policy.SandboxExecutor(tmp_path / "sandbox.yaml").execute("print(1)")


@promise("agentcore-11", "use_docker=True runs code in the image.")
def test_use_docker_means_it(engine, monkeypatch):
    async def backend_of(**options):
        return (await ExecutePythonTool(**options).execute({"code": "print(1)"}, WHO)).metadata["backend"]
    monkeypatch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
    assert asyncio.run(backend_of(use_docker=True)) == "docker" and asyncio.run(backend_of()) == "native"
    assert asyncio.run(backend_of(use_docker=True, backend="native")) == "native"
    monkeypatch.setenv("GLOVEBOX_BACKEND", "native")
    assert asyncio.run(backend_of(use_docker=True)) == "native"


@promise("agentcore-15", "A missing engine, its permissions and AppArmor are explained, with the commands to type.")
def test_the_tool_tells_instead_of_raising(no_engine):
    answer = asyncio.run(ExecutePythonTool(backend="docker").execute({"code": "print(1)"}, WHO))
    assert not answer.success and "no engine listens" in answer.error
    assert any("AppArmor" in line or "apparmor" in line for line in answer.metadata["troubleshooting"]) or len(answer.metadata["troubleshooting"]) == 1


# ---- a server that keeps boxes less long ----

def test_a_server_that_keeps_boxes_less_long(tmp_path, monkeypatch):
    """Its own defaults hold then, and nothing fails."""
    with Server(private=True, idle_timeout_max="1h") as server:
        monkeypatch.setenv("GLOVEBOX_SERVER", f"unix:{server.socket}")
        with dolphin.DockerSandboxExecutor("one", str(tmp_path / "base"), template="python") as executor:
            assert executor.execute_code("print(1)") == "1\n" and executor._box.info().idle_timeout == 600
        with policy.ContainerManager() as manager:
            assert manager.create_container().info().idle_timeout == 600


# ---- a server that root started ----

@needs_root
@pytest.mark.parametrize("made", ["by the caller", "for the server", "open to all"])
def test_a_workspace_at_a_server_that_root_started(tmp_path, monkeypatch, made):
    """It works, or the error is a PermissionError that names the directory, the user, and what to do."""
    for part in (tmp_path, *tmp_path.parents):  # the server's user has to reach the place
        if "pytest" in str(part):
            part.chmod(0o755)
    monkeypatch.delenv("GLOVEBOX_BACKEND", raising=False)
    with Server() as server:
        monkeypatch.setenv("GLOVEBOX_SERVER", f"unix:{server.socket}")
        user, place = os.stat(server.state).st_uid, tmp_path / "workspace"
        place.mkdir(mode=0o700)
        if made == "for the server":
            os.chown(place, user, user)
            with ironclaw.SandboxManager(place) as manager:
                assert manager.get_or_create_container().run("open('made', 'w').write('x')").ok
            assert (place / "made").stat().st_uid == user
            return
        place.chmod(0o700 if made == "by the caller" else 0o777)
        for use in (lambda: ironclaw.SandboxManager(place).get_or_create_container(),
                    lambda: dolphin.DockerSandboxExecutor("workspace", str(tmp_path)).execute_code("1")):
            with pytest.raises(PermissionError) as caught:
                use()
            assert caught.value.code == "denied" and caught.value.status == 403, caught.value
            assert f"runs as user {user}: chown the directory" in str(caught.value) and str(place) in str(caught.value)
        assert list(place.iterdir()) == []
