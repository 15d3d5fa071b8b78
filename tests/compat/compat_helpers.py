# SPDX-License-Identifier: Apache-2.0
"""What these tests share. (Not in conftest.py: there is another one above.)"""
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("GLOVEBOX", ROOT / "build/src/cli/glovebox")).absolute()
BUILD = BINARY.resolve().parents[2]
USER = 65533  # in no passwd file
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, and the suite does not run as root")
on_each_backend = pytest.mark.usefixtures("backend")

BACKENDS = ["native", "docker", "podman", "runsc"]
ENGINES = BACKENDS[1:]
#: How people choose them. Debian's runc has known ways out; gVisor keeps no count of tasks.
ENVIRONMENT = {
    "native": {"GLOVEBOX_BACKEND": "native"},
    "docker": {"GLOVEBOX_BACKEND": "docker", "GLOVEBOX_ALLOW_WEAKER": "runtime"},
    "podman": {"GLOVEBOX_BACKEND": "docker", "GLOVEBOX_ALLOW_WEAKER": "runtime"},
    "runsc": {"GLOVEBOX_BACKEND": "docker", "GLOVEBOX_ALLOW_WEAKER": "pids", "GLOVEBOX_RUNTIME": "runsc"},
}

#: What a backend cannot have, and why. A test that `needs` it is skipped there.
CANNOT = {
    "data": dict.fromkeys(ENGINES, "pandas, scipy, scikit-learn and yt-dlp are not installed in the common image of the tests: "
                                   "they are large. test_data_image.py builds one that has them"),
    "network of the host": {"runsc": "the tests give gVisor no network (--network=none), so what it shares with the host is nothing"},
    "task limit": {"runsc": "gVisor keeps no count of tasks on the host: the control says weaker, and memory ends a bomb"},
    # This one is a promise: test_annie.py has the proof.
    "files of root": dict.fromkeys(ENGINES, "a container is never root on the host, so it cannot read what only root can; it is "
                                            "uid 1000, or the owner of its workspace"),
}
ORDINARY = 1000
#: What a write to /usr is answered. gVisor looks at permissions before it looks at the mount.
READ_ONLY = {**dict.fromkeys(BACKENDS, "Read-only file system"), "runsc": "Permission denied"}

#: Two processes that never wait, for two seconds: prints how many processors they had. Without a limit that is 2. On a busy host a second of
#: gVisor is a little longer.
BURN = """
import os, time
if os.fork() == 0:
    end = time.monotonic() + 2
    while time.monotonic() < end: pass
    os._exit(0)
end = time.monotonic() + 2
while time.monotonic() < end: pass
os.wait()
used = os.times()
print((used.user + used.system + used.children_user + used.children_system) / 2)
"""
BURN_MAX = 1.6

#: Uses the libraries that the reasoning loop promises, and prints "3 1.0 2.0".
DATA = """
import numpy, pandas, scipy.linalg, sklearn.linear_model
model = sklearn.linear_model.LinearRegression().fit([[0], [1]], [0, 1])
print(pandas.DataFrame({"a": [1, 2]}).a.sum(), round(scipy.linalg.det(numpy.eye(3)), 6), round(model.predict([[2]])[0], 6))
"""


def identity(backend):
    """Whose files a box reads and writes on the host: the caller's; where those are root's and cannot be, an ordinary user's."""
    return ORDINARY if os.geteuid() == 0 and backend in CANNOT["files of root"] else os.geteuid()


def image_names():
    """The images that the five programs ask an engine for, unless they are told another one."""
    from glovebox.compat import agentcore, annie, dolphin, ironclaw, policy
    return sorted({module.IMAGE for module in (agentcore, annie, dolphin, ironclaw, policy)} - {"glovebox-python"})
