# SPDX-License-Identifier: Apache-2.0
"""The root file system that tests give to engines: a small Debian with what the images of the project need, as a tar.

No registry is asked: mmdebstrap makes it from Debian's packages, once for each recipe; it stays in $GLOVEBOX_TEST_CACHE, or below the
build directory.
"""
import fcntl
import hashlib
import os
import pathlib
import subprocess

NAME = "glovebox-test-base"
SUITE = "bookworm"
PACKAGES = "python3 python3-numpy python3-matplotlib curl git procps bash perl ca-certificates".split()
# Nothing in the tests uses these, and they are half of it.
LEFT_OUT = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/unicode/*", "/usr/include/*", "/usr/lib/gcc/*", "*.a",
            "/usr/lib/*/lib?san.so*", "/usr/lib/*/libicu*", "/usr/lib/*/perl/*/CORE/*", "/usr/lib/python3.*/config-*",
            "/usr/lib/python3/dist-packages/*/tests/*"]
# Of these nothing is wanted, and they would bring the compilers: apt takes them for installed.
NOT_INSTALLED = ["python3-scipy", "python3-sympy"]
STATUS = "".join(f"Package: {name}\\nStatus: install ok installed\\nVersion: 999\\nArchitecture: all\\nMaintainer: nobody <nobody@example.com>\\nDescription: left out\\n\\n" for name in NOT_INSTALLED)
# py3compile does not bear files that are left out, so it waits until all is there.
HOOKS = [f"--essential-hook=printf '{STATUS}' >>\"$1/var/lib/dpkg/status\"",
         '--essential-hook=chroot "$1" dpkg-divert --quiet --local --rename --add /usr/bin/py3compile && ln -s true "$1/usr/bin/py3compile"',
         '--customize-hook=rm "$1/usr/bin/py3compile" && chroot "$1" dpkg-divert --quiet --local --rename --remove /usr/bin/py3compile',
         '--customize-hook=rm -f "$1"/usr/bin/*-linux-gnu-*',
         '--customize-hook=chroot "$1" python3 -m compileall -q /usr/lib/python3/dist-packages']
PATIENCE = 600


def recipe():
    return ["mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}", '--aptopt=Acquire::Languages "none"',
            '--aptopt=APT::Install-Recommends "false"', *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT), *HOOKS, SUITE]


def cache():
    binary = pathlib.Path(os.environ.get("GLOVEBOX", pathlib.Path(__file__).resolve().parent.parent / "build/src/cli/glovebox")).absolute()
    return pathlib.Path(os.environ.get("GLOVEBOX_TEST_CACHE") or binary.parents[2] / "test-cache")


def base_tar():
    """Its path; it is made when there is none yet. What mmdebstrap says when it fails is in the error."""
    name = hashlib.sha256("\0".join(recipe()).encode()).hexdigest()[:16]
    place = cache()
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"base-{name}.tar"
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            half = place / f"base-{name}.half.tar"
            half.unlink(missing_ok=True)
            done = subprocess.run([*recipe(), str(half)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
            if done.returncode:
                raise RuntimeError(f"mmdebstrap failed: {done.stdout.decode(errors='replace')[-3000:]}")
            half.rename(path)
    return path
