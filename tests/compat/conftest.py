# SPDX-License-Identifier: Apache-2.0
"""Programs that had a sandbox before, on glovebox: through the SDK and the private server that it starts."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk/python/src"))


@pytest.fixture(scope="session", autouse=True)
def private_server(nothing_left_at_the_end, tmp_path_factory):
    """No server but the one that the SDK starts for this interpreter."""
    from compat_helpers import BINARY
    from glovebox import _private
    patch = pytest.MonkeyPatch()
    for name in ("GLOVEBOX_SERVER", "GLOVEBOX_TOKEN", "GLOVEBOX_BACKEND", "DOCKER_HOST", "DOLPHIN_SANDBOX", "IRONCLAW_WORKSPACE"):
        patch.delenv(name, raising=False)
    patch.setenv("GLOVEBOX", str(BINARY))
    patch.setenv("GLOVEBOX_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    yield
    _private.stop()
    patch.undo()


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    """A place where no Docker Engine listens."""
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    return path
