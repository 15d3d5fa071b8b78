# SPDX-License-Identifier: Apache-2.0
"""MCP with clients that we did not write. GLOVEBOX_TEST_NODE is a directory with their npm packages (tools/node.sh), GLOVEBOX_TEST_MCP_PYTHON a Python that has the
package mcp; without them these tests are skipped. Each client reaches the server in two ways: through `glovebox mcp`, and over HTTP with a token."""
import json
import os
import pathlib
import shutil
import tempfile

import pytest

from mcp_helpers import HERE, Proxy, call, weaker
from server import BINARY, Server, wait_for


@pytest.fixture(scope="session")
def node():
    """The directory of the npm packages."""
    named = os.environ.get("GLOVEBOX_TEST_NODE", "")
    if not named or not os.path.isfile(f"{named}/packages"):
        pytest.skip("the npm packages of the clients are not installed: GLOVEBOX_TEST_NODE names no directory of tools/node.sh")
    return pathlib.Path(named).resolve()


@pytest.fixture(scope="session")
def node_program(node):
    own = node / "node_modules/.bin/node"
    program = str(own) if own.exists() else shutil.which("node")
    if not program:
        pytest.skip("node is not installed")
    return program


@pytest.fixture(scope="session")
def python_program():
    """The Python that has the package mcp."""
    named = os.environ.get("GLOVEBOX_TEST_MCP_PYTHON", "")
    if not named or not os.access(named, os.X_OK):
        pytest.skip("the Python package mcp is not installed: GLOVEBOX_TEST_MCP_PYTHON names no Python that has it")
    return named


@pytest.fixture(scope="module")
def proxy():
    with Proxy() as made:
        yield made


@pytest.fixture(scope="module")
def http_server(nothing_left_at_the_end, proxy):
    """One for all tests of a module, and the proxy before it."""
    with Server(tcp=True) as made:
        proxy.target = made.tcp
        yield made


@pytest.fixture(scope="module")
def http_token(http_server):
    return http_server.token("alfa", "run")


@pytest.fixture(scope="module")
def http_target(http_server, http_token):
    """How a client finds the server: what the scripts take."""
    return {"transport": "http", "url": "http://127.0.0.1:%d/mcp" % http_server.tcp[1], "token": http_token}


@pytest.fixture
def proxy_target(http_target, proxy):
    proxy.forget()
    return {**http_target, "url": "http://127.0.0.1:%d/mcp" % proxy.port}


@pytest.fixture(scope="module")
def command_target(nothing_left_at_the_end):
    """A client starts the command for itself: with nothing in its environment but what it says here and HOME, PATH and the like. Of the servers that it starts for itself nothing may be left."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-mcp-"))
    (directory / "tmp").mkdir()
    yield {"transport": "stdio", "command": str(BINARY), "args": ["mcp"], "env": {
        "GLOVEBOX_RUNTIME_DIR": str(directory / "run"), "GLOVEBOX_STATE_DIR": str(directory / "state"), "TMPDIR": str(directory / "tmp"), **weaker(),
        **{name: os.environ[name] for name in ("GLOVEBOX_LIBEXEC_DIR", "GLOVEBOX_CONFIG_DIR", "GLOVEBOX_RUNNER_DIR", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}}}
    wait_for(lambda: not os.listdir(directory / "tmp"), 10)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module", params=["command", "http"])
def target(request):
    return request.getfixturevalue(f"{request.param}_target")


@pytest.fixture(scope="module")
def new_home(tmp_path_factory):
    """A home of nobody for each program; threads may ask for one."""
    base = tmp_path_factory.mktemp("homes")
    return lambda: pathlib.Path(tempfile.mkdtemp(dir=base))


@pytest.fixture(scope="module")
def run_node(node, node_program, new_home):
    """A script of js/ with arguments that it gets as JSON; what it has printed."""
    def run(script, **arguments):
        return call(node_program, HERE / "js" / script, json.dumps(arguments), home=new_home(), GLOVEBOX_TEST_NODE=str(node)).expect().json
    return run


@pytest.fixture(scope="module")
def run_package(node, node_program, new_home):
    """A command of a package."""
    def run(name, *argv, **env):
        return call(node_program, node / "node_modules/.bin" / name, *argv, home=new_home(), **env)
    return run


@pytest.fixture(scope="module")
def run_python(python_program, new_home):
    def run(script, **arguments):
        return call(python_program, "-I", HERE / script, json.dumps(arguments), home=new_home()).expect().json
    return run
