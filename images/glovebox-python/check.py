# SPDX-License-Identifier: Apache-2.0
# Run in a box that is made of the image; what fails here fails the build.
import json, os, shutil, sqlite3, ssl, subprocess, sys, zlib  # noqa: E401, F401

assert sys.version_info >= (3, 9), sys.version
assert os.getuid() == 1000, os.getuid()
for program in ("bash", "curl", "git", "ps"):
    path = shutil.which(program)
    assert path, f"{program} is missing"
    subprocess.run([path, "--version"], check=True, stdout=subprocess.DEVNULL)
