# SPDX-License-Identifier: Apache-2.0
"""What the tests of the SDK share. (Not in conftest.py: there is another one above.)"""
import os
import pathlib
import re
import shutil
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk/python"
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
each_backend = pytest.mark.each_backend


def weaker_config(place):
    """A directory of configuration for an ordinary user, who may have no cgroups."""
    target = pathlib.Path(place) / "config"
    shutil.copytree(ROOT / "config", target, ignore=shutil.ignore_patterns("meson.build"))
    policy = target / "sandbox.yaml"
    policy.write_text(policy.read_text().replace("allow_weaker: []", "allow_weaker: [cgroup]"))
    return target


def docker_policy():
    """config/sandbox.yaml for a Docker Engine, also for one whose runc has known ways out, as Debian's has."""
    text = (ROOT / "config/sandbox.yaml").read_text()
    for key, value in (("backend", "docker"), ("allow_weaker", "[runtime]")):
        text, count = re.subn(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
        assert count == 1, f"{key} is not in config/sandbox.yaml"
    return text


def wait_until(condition, seconds=30.0, pause=0.01):
    """Polls; the last value of the condition, true or not."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)
