# SPDX-License-Identifier: Apache-2.0
"""Programs that had a sandbox before, on glovebox: through the SDK and the private server that it starts. What asks for `backend` runs on each."""
import pathlib
import sys

import pytest
from compat_helpers import CANNOT, image_names
from engine_fixtures import engines  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk/python/src"))


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(what): a row of compat_helpers.CANNOT")


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


@pytest.fixture(scope="session")
def docker(engines):
    """A Docker Engine that has the images by all the names that the five programs have for them."""
    engine = engines.docker
    for name in image_names():
        repository, _, tag = name.partition(":")
        status, answer = engine.ask("POST", f"/images/glovebox-python/tag?repo={repository}&tag={tag or 'latest'}")
        assert status == 201, answer
    return engine


@pytest.fixture(scope="session", params=["native", "docker"])
def backend(request, private_server):
    """Chosen by the environment, as people do it; the private server begins anew with it."""
    from glovebox import _private
    if request.param == "native":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GLOVEBOX_BACKEND", "native")
            yield request.param
        return
    engine = request.getfixturevalue("docker")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOVEBOX_BACKEND", "docker")
        patch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")  # Debian's runc has known ways out
        patch.setenv("DOCKER_HOST", engine.host)
        _private.stop()
        yield request.param
        _private.stop()
    assert engine.containers() == [], "containers are left"


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
