# SPDX-License-Identifier: Apache-2.0
"""The engines of tests/engines.py as a fixture: `from engine_fixtures import engines`."""
import pytest
from engines import session_engines
from isolation import wait_until


@pytest.fixture(scope="session")
def engines(binary):
    with session_engines() as both:
        before = containers(both)
        yield both
        # Their processes are the engines', not this suite's. Suites that use the same engines run one after the other.
        wait_until(lambda: not containers(both) - before, 10, 0.1)
        assert not containers(both) - before, "containers are left"


def containers(engines):
    found = set()
    for kind in ("docker", "podman"):
        if "directory" in engines.state[kind] and "failed" not in engines.state[kind]:
            found |= {(kind, container["Id"]) for container in engines.get(kind).containers()}
    return found
