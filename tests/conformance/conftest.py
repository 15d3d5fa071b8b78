# SPDX-License-Identifier: Apache-2.0
"""One suite for all backends: every test that asks for `backend` runs on each of them, in turn."""
import pytest
from backends import NAMES, Backend, engine_for
from engine_fixtures import engines  # noqa: F401


@pytest.fixture(scope="session", params=NAMES)
def backend(request, nothing_left_at_the_end, engines, session_dir):  # closed before anybody looks for what is left
    made = Backend(request.param, engine_for(request.param, engines), session_dir)
    yield made
    made.close()
    assert made.containers() == [], "containers are left"


@pytest.fixture(scope="session")
def shared(backend):
    """A session for tests that leave it as they found it."""
    with backend.session() as session:
        yield session
