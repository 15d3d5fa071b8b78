# SPDX-License-Identifier: Apache-2.0
"""Programs that had a sandbox before, on glovebox: through the SDK and the private server that it starts. What asks for `backend` runs on each."""
import pathlib
import sys

import pytest
from compat_helpers import BACKENDS, CANNOT, ENVIRONMENT, image_names
from engine_fixtures import engines  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk/python/src"))


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(what): a row of compat_helpers.CANNOT")
    config.addinivalue_line("markers", "promise(number, sentence): what the test proves (promises.py)")


@pytest.fixture(scope="session", autouse=True)
def private_server(nothing_left_at_the_end, tmp_path_factory):
    """No server but the one that the SDK starts for this interpreter."""
    from compat_helpers import BINARY
    from glovebox import _private
    patch = pytest.MonkeyPatch()
    for name in ("GLOVEBOX_SERVER", "GLOVEBOX_TOKEN", "GLOVEBOX_BACKEND", "GLOVEBOX_ALLOW_WEAKER", "GLOVEBOX_IMAGE", "GLOVEBOX_RUNTIME", "DOCKER_HOST",
                 "DOLPHIN_USE_DOCKER_SANDBOX", "IRONCLAW_WORKSPACE"):
        patch.delenv(name, raising=False)
    patch.setenv("GLOVEBOX", str(BINARY))
    patch.setenv("GLOVEBOX_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    yield
    _private.stop()
    patch.undo()


def with_images(engine):
    """The engine, with the image of the tests under all the names that the five programs have for theirs."""
    for name in image_names():
        repository, _, tag = name.partition(":")
        status, answer = engine.ask("POST", f"/images/glovebox-python/tag?repo={repository}&tag={tag or 'latest'}")
        assert status == 201, answer
    return engine


@pytest.fixture(scope="session")
def docker(engines):
    """A Docker Engine that has the images."""
    return with_images(engines.docker)


@pytest.fixture(scope="session")
def podman(engines):
    """A Podman service that has the images."""
    return with_images(engines.podman)


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request, private_server):
    """Chosen by environment variables, as people do it. The next private server has these variables."""
    from glovebox import _private
    name = request.param
    engine = None if name == "native" else request.getfixturevalue("podman" if name == "podman" else "docker")
    if name == "runsc" and not request.getfixturevalue("engines").has_runsc:
        pytest.skip("runsc is not installed")
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in ENVIRONMENT[name].items():
            patch.setenv(variable, value)
        if engine:
            patch.setenv("DOCKER_HOST", engine.host)
        _private.stop()
        yield name
        _private.stop()
    assert engine is None or engine.containers() == [], "containers are left"


@pytest.fixture
def engine_of_backend(backend, request):
    """The engine that has the containers of this backend. The native backend has none."""
    if backend == "native":
        pytest.skip("the native backend of this host has no containers")
    return request.getfixturevalue("podman" if backend == "podman" else "docker")


@pytest.fixture(autouse=True)
def what_it_cannot(request):
    """A test marked `needs(something)` is skipped where the backend cannot have it, for the reason that CANNOT states."""
    if "backend" in request.fixturenames:
        name = request.getfixturevalue("backend")
        for marker in request.node.iter_markers("needs"):
            if name in CANNOT[marker.args[0]]:
                pytest.skip(CANNOT[marker.args[0]][name])


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    """A place where no Docker Engine listens."""
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    return path
