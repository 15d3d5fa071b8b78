# SPDX-License-Identifier: Apache-2.0
"""The engines of tests/engines.py as a fixture: `from engine_fixtures import engines`."""
import pytest
from engines import session_engines


@pytest.fixture(scope="session")
def engines(binary):
    with session_engines() as both:
        yield both
