# SPDX-License-Identifier: Apache-2.0
"""Adapters with the real frameworks, from PyPI, in a virtual environment: their own agents call the tool; only the model is scripted, as there
is none here. Run by the Python of that environment."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/python/src"), str(ROOT / "tests")]


@pytest.fixture(scope="session", autouse=True)
def private_server(tmp_path_factory):
    from glovebox import _private
    patch = pytest.MonkeyPatch()
    patch.delenv("GLOVEBOX_SERVER", raising=False)
    patch.setenv("GLOVEBOX", os.environ.get("GLOVEBOX", str(ROOT / "build/src/cli/glovebox")))
    patch.setenv("GLOVEBOX_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    patch.setenv("OPENAI_API_KEY", "none")
    patch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    yield
    _private.stop()
    patch.undo()


@pytest.fixture(scope="module")
def docker():
    """A Docker Engine, by the environment, as people choose it; the private server begins anew with it."""
    from engines import session_engines
    from glovebox import _private

    with session_engines() as both, pytest.MonkeyPatch.context() as patch:
        engine = both.get("docker")
        engine.ask("POST", "/images/glovebox-python/tag?repo=glovebox-python-data&tag=latest")
        patch.setenv("GLOVEBOX_BACKEND", "docker")
        patch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")  # Debian's runc has known ways out
        patch.setenv("DOCKER_HOST", engine.host)
        _private.stop()
        yield engine
        _private.stop()
