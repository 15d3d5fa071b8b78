# SPDX-License-Identifier: Apache-2.0
"""The SDK against a real server, with real boxes. A warning of a resource that was not closed is a failure."""
import pathlib
import sys

import pytest

from engine_fixtures import engines  # noqa: F401
from sdk_helpers import SDK, docker_policy

sys.path.insert(0, str(SDK / "src"))


def pytest_collection_modifyitems(items):
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in pathlib.Path(item.fspath).parents:
            item.add_marker(pytest.mark.filterwarnings("error::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"))


def pytest_configure(config):
    config.addinivalue_line("markers", "each_backend(...): with a server on the native backend and with one on Docker, or on those that are named")


def pytest_generate_tests(metafunc):
    if "server" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("each_backend")
        names = (marker.args or ["native", "docker"]) if marker else ["native"]
        metafunc.parametrize("server", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(request, nothing_left_at_the_end):
    """Named, so that it ends before that looks."""
    from server import Server
    options = {}
    if request.param == "docker":
        engine = request.getfixturevalue("engines").docker
        options = {"policy": docker_policy(), "environ": {"DOCKER_HOST": engine.host}}
    with Server(tcp=True, **options) as running:
        yield running
    if request.param == "docker":
        assert engine.containers() == [], "containers are left"


@pytest.fixture
def address(server):
    return f"unix:{server.socket}"


@pytest.fixture
def client(address):
    import glovebox
    with glovebox.Client(address) as made:
        yield made


@pytest.fixture
def box(client):
    with client.sandbox() as made:
        yield made


@pytest.fixture
def proxy(server):
    from sdk_proxy import Proxy
    with Proxy(str(server.socket)) as made:
        yield made


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """What the caller has set is not for these tests."""
    monkeypatch.delenv("GLOVEBOX_SERVER", raising=False)
    monkeypatch.delenv("GLOVEBOX_TOKEN", raising=False)
