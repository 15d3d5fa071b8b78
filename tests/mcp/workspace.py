# SPDX-License-Identifier: Apache-2.0
"""A client with a session of its own, for tests of what is in its workspace."""
import pytest

from peer import Peer
from server import Server


@pytest.fixture(scope="module")
def server(nothing_left_at_the_end):
    with Server(tcp=True) as made:
        yield made


@pytest.fixture
def peer(server):
    made = Peer(server)
    yield made
    made.end()


@pytest.fixture
def session(peer):
    """The client's own, with nothing in it."""
    return peer.good("list_files")["session"]


@pytest.fixture
def run(server, session):
    """Runs code in it; what was printed."""
    def call(code, **fields):
        result = server.run(code, session=session, **fields)["result"]
        assert result["verdict"]["kind"] == "ok", result
        return result["stdout"]
    return call


def uri_of(session, path):
    return f"glovebox://sessions/{session}/files/{path}"
