# SPDX-License-Identifier: Apache-2.0
"""The package as it is given away: a wheel, installed where nothing else is."""
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import glovebox
from sdk_helpers import SDK


def call(*argv, **options):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False, **options)
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    return done.stdout.decode()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy, so that building leaves nothing in the tree."""
    place = tmp_path_factory.mktemp("source") / "python"
    shutil.copytree(SDK, place, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    return place


def need(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if "setuptools" in modules and int(importlib.metadata.version("setuptools").partition(".")[0]) < 64:
        pytest.skip("setuptools 64 is not installed")


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    need("pip", "setuptools", "wheel")
    target = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(target), str(source))
    return next(target.glob("*.whl"))


def test_the_wheel(wheel):
    assert wheel.name == f"glovebox-{glovebox.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"glovebox-{glovebox.__version__}.dist-info/METADATA").decode()
    sources = {f"glovebox/{path.relative_to(SDK / 'src/glovebox')}" for path in (SDK / "src/glovebox").rglob("*.py")}
    assert sources | {"glovebox/py.typed"} <= names
    assert "Requires-Dist" not in metadata and "Requires-Python: >=3.9" in metadata


def test_the_sdist(source, tmp_path):
    need("setuptools")
    program = f"import setuptools.build_meta as build; print(build.build_sdist({str(tmp_path)!r}))"
    call(sys.executable, "-c", program, cwd=source)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = archive.getnames()
        licence = next(archive.getmember(name) for name in names if name.endswith("/LICENSE"))
        assert licence.isreg() and licence.size > 1000
    assert any(name.endswith("src/glovebox/py.typed") for name in names)


def test_installed_into_an_environment_of_its_own(wheel, address, tmp_path):
    need("venv")
    home = tmp_path / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", str(home))
    inside = home / "bin/python"
    place = call(inside, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", place, str(wheel))
    program = "import glovebox, sys; print(glovebox.run('print(6 * 7)').stdout, glovebox.__file__.startswith(sys.prefix), glovebox.__version__)"
    said = call(inside, "-I", "-W", "error", "-c", program, env={"GLOVEBOX_SERVER": address, "PATH": os.environ["PATH"]})
    assert said.split() == ["42", "True", glovebox.__version__]


def test_types(source):
    """mypy --strict. The adapters are about other packages, with their own types."""
    mypy = os.environ.get("MYPY") or shutil.which("mypy")
    if not mypy:
        pytest.skip("mypy is not installed")
    call(mypy, "--strict", "--no-incremental", "--cache-dir=/dev/null", "--exclude", "glovebox/adapters/", "src", cwd=source)
