# SPDX-License-Identifier: Apache-2.0
"""What tests/conftest.py has, as a module: in this directory the name `conftest` is taken."""
import importlib.util
import pathlib

_spec = importlib.util.spec_from_file_location("suite_conftest", pathlib.Path(__file__).resolve().parent.parent / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

BINARY, Box, Result, wait_until = _module.BINARY, _module.Box, _module.Result, _module.wait_until
