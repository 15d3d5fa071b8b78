# SPDX-License-Identifier: Apache-2.0
"""A Docker Engine of the tests' own, in a temporary directory, without images."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time


def why_not():
    """Why there can be none here; None: there can."""
    if os.geteuid() != 0:
        return "needs root, and the suite does not run as root"
    return None if shutil.which("dockerd") else "dockerd is not installed"


def listens(path):
    with socket.socket(socket.AF_UNIX) as s:
        with contextlib.suppress(OSError):
            s.connect(str(path))
            return True
    return False


@contextlib.contextmanager
def engine():
    """The path of its socket."""
    with tempfile.TemporaryDirectory(prefix="glovebox-engine-", ignore_cleanup_errors=True) as name:
        place = pathlib.Path(name)
        path = place / "docker.sock"
        with open(place / "log", "wb") as log:
            process = subprocess.Popen(
                ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--oom-score-adjust=0", f"--data-root={place}/data", f"--exec-root={place}/exec",
                 f"--pidfile={place}/pid", f"--host=unix://{path}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            end = time.monotonic() + 60
            while not listens(path):
                assert process.poll() is None and time.monotonic() < end, (place / "log").read_text(errors="replace")[-2000:]
                time.sleep(0.05)
            yield path
        finally:
            process.terminate()
            process.wait(60)
