# SPDX-License-Identifier: Apache-2.0
"""What these tests share. (Not in conftest.py: there is another one above.)"""
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
USER = 65533  # in no passwd file
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, and the suite does not run as root")
on_each_backend = pytest.mark.usefixtures("backend")

#: What a backend cannot have, and why. A test that `needs` it is skipped there.
CANNOT = {
    "pandas": {"docker": "pandas is not installed in the image of the tests: it is large (tests/base_image.py)"},
    # This one is a promise: test_annie.py has the proof.
    "files of root": {"docker": "a container is never root on the host, so what only root can read it cannot; it is uid 1000, or the owner of its workspace"},
}
ORDINARY = 1000


def identity(backend):
    """Whose files a box reads and writes on the host: the caller's; where those are root's and cannot be, an ordinary user's."""
    return ORDINARY if os.geteuid() == 0 and backend in CANNOT["files of root"] else os.geteuid()


def image_names():
    """The images that the five programs ask an engine for, unless they are told another one."""
    from glovebox.compat import agentcore, annie, dolphin, ironclaw, policy
    return sorted({module.IMAGE for module in (agentcore, annie, dolphin, ironclaw, policy)} - {"glovebox-python"})
