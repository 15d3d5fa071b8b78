# SPDX-License-Identifier: Apache-2.0
"""What these tests share. (Not in conftest.py: there is another one above.)"""
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
USER = 65533  # in no passwd file
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, and the suite does not run as root")
