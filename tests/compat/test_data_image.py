# SPDX-License-Identifier: Apache-2.0
"""The image with the libraries for data, built as the documentation says: what the documents of two systems promise of theirs."""
import asyncio
import os
import subprocess

import pytest

import base_image
from compat_helpers import BINARY, DATA
from promises import promise
from glovebox import _private
from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext
from glovebox.compat.annie import execute_python
from glovebox.compat.dolphin import DockerSandboxExecutor

NAME = "glovebox-test-data"
#: The recipe installs from PyPI what its base does not have. This base has it from Debian, whose packages the tests need anyway. The common
#: base leaves files out and takes scipy for installed (tests/base_image.py), since its dependencies bring a compiler. Compiling all modules
#: ahead would take a minute.
DOCKERFILE = f"""FROM {base_image.NAME}
RUN rm -f /etc/dpkg/dpkg.cfg.d/* && dpkg-divert --quiet --local --rename --add /usr/bin/py3compile && ln -s true /usr/bin/py3compile && \\
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-pandas python3-sklearn yt-dlp && \\
    cd /tmp && apt-get download python3-scipy/{base_image.SUITE} python3-decorator liblbfgsb0 && dpkg --force-downgrade --force-depends -i /tmp/*.deb
"""


@pytest.fixture(scope="module")
def data_image(docker, tmp_path_factory):
    """The name of an image that the recipe has checked: a program that imports each library runs in a box of it."""
    environ = {**os.environ, "DOCKER_HOST": docker.host}
    place = tmp_path_factory.mktemp("data")
    (place / "Dockerfile").write_text(DOCKERFILE)
    done = subprocess.run(["docker", "build", "--quiet", "--network=host", f"--tag={NAME}-base", str(place)], capture_output=True, text=True, timeout=900,
                          stdin=subprocess.DEVNULL, env=environ)
    if done.returncode and "Unable to locate package" in done.stdout + done.stderr:
        pytest.skip("this host reaches no Debian packages")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    done = subprocess.run([str(BINARY), "image", "build", "glovebox-python-data", "--backend", "docker", "--base", f"{NAME}-base", "--network", "none", "--tag", NAME],
                          capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL, env=environ)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GLOVEBOX_RUNTIME", raising=False)
        patch.setenv("GLOVEBOX_BACKEND", "docker")
        patch.setenv("GLOVEBOX_ALLOW_WEAKER", "runtime")
        patch.setenv("DOCKER_HOST", docker.host)
        _private.stop()
        yield NAME
        _private.stop()
    for name in (NAME, f"{NAME}-base"):
        docker.ask("DELETE", f"/images/{name}?force=1")


@promise("dolphin-13", "numpy, pandas, matplotlib, scipy and scikit-learn are there.")
@promise("dolphin-20", "A command builds the image, under any name.")
def test_the_libraries_of_the_reasoning_loop(data_image, tmp_path):
    with DockerSandboxExecutor("data", str(tmp_path / "base"), image_name=data_image) as executor:
        assert executor.execute_code(DATA) == "3 1.0 2.0\n"


@promise("agentcore-18", "Python packages such as numpy and pandas can be added to the image.")
def test_the_packages_of_the_tool(data_image):
    tool = ExecutePythonTool(use_docker=True, image=data_image)
    answer = asyncio.run(tool.execute({"code": "import numpy, pandas\nprint(pandas.DataFrame({'a': numpy.arange(3)}).a.sum())"}, ExecutionContext("u", "a")))
    assert answer.output == "3\n", answer


@promise("annie-6", "Code can use numpy, matplotlib, yt-dlp and subprocess.")
def test_the_libraries_of_the_assistant(data_image):
    code = "import matplotlib, numpy, subprocess, sys, yt_dlp\nprint(subprocess.run([sys.executable, '-m', 'yt_dlp', '--version'], capture_output=True).returncode)"
    assert execute_python(code, image=data_image)["stdout"] == "0\n"
