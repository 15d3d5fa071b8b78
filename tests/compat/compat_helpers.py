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

#: What a backend cannot have, and why.
CANNOT = {
}


def image_names():
    """The images that the five programs ask an engine for, unless they are told another one."""
    from glovebox.compat import agentcore, annie, dolphin, ironclaw, policy
    return sorted({module.IMAGE for module in (agentcore, annie, dolphin, ironclaw, policy)} - {"glovebox-python"})
