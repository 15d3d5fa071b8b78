# SPDX-License-Identifier: Apache-2.0
"""The SDK against a real server, with real boxes. A warning of a resource that was not closed is a failure."""
import pathlib
import sys

import pytest

from sdk_helpers import SDK

sys.path.insert(0, str(SDK / "src"))


def pytest_collection_modifyitems(items):
    here = pathlib.Path(__file__).parent
    for item in items:
        if here in pathlib.Path(item.fspath).parents:
            item.add_marker(pytest.mark.filterwarnings("error::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"))


@pytest.fixture(scope="session")
def server(nothing_left_at_the_end):
    """Named, so that it ends before that looks."""
    from server import Server
    with Server(tcp=True) as running:
        yield running


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
