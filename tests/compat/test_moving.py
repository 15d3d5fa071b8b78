# SPDX-License-Identifier: Apache-2.0
"""docs/moving.md: the blocks after "After:" are run, and what they print is what the page says. And the differences that it lists, as far as
they are tested nowhere else."""
import asyncio
import base64
import os
import re
import struct
import subprocess
import sys

import pytest

from compat_helpers import BINARY, ROOT, on_each_backend
from promises import SYSTEMS
from glovebox import NotFoundError
from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext
from glovebox.compat.annie import execute_python
from glovebox.compat.dolphin import DockerSandboxExecutor
from glovebox.compat.ironclaw import DockerPython, SandboxManager
from glovebox.compat.policy import ContainerManager

pytestmark = on_each_backend

PAGE = (ROOT / "docs/moving.md").read_text()
SECTION = re.compile(r"^## [^\n]*\((\w+)\)\n(.*?)(?=^## |\Z)", re.M | re.S)
BEFORE = re.compile(r"^Before:\n\n```python\n(.*?)^```\n", re.M | re.S)
AFTER = re.compile(r"^After:\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```\n", re.M | re.S)
SECTIONS = {name: text for name, text in SECTION.findall(PAGE) if name in SYSTEMS}


def test_each_system_has_its_section():
    assert list(SECTIONS) == list(SYSTEMS)
    for text in SECTIONS.values():
        assert len(AFTER.findall(text)) == 1 and "\nDifferences:\n\n- " in text
        compile(BEFORE.findall(text)[0], "before", "exec")


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_block_prints_what_the_page_says(name, tmp_path):
    code, printed = AFTER.findall(SECTIONS[name])[0]
    (tmp_path / "assistant").mkdir()
    (tmp_path / "assistant/data.csv").write_text("a,b\n")
    (tmp_path / "assistant/.env").write_text("PASSWORD=correct horse battery\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/sandbox.yaml").write_text((ROOT / "config/sandbox.yaml").read_text())
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src"), "GLOVEBOX": str(BINARY), "PYTHONDONTWRITEBYTECODE": "1"})
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


# ---- all five ----

WRITABLE = ("import os\nprint(os.getcwd(), os.path.expanduser('~'), *(place for place in ('/', '/etc', '/usr', '/tmp', '/dev/shm', '/sandbox') "
            "if os.access(place, os.W_OK)))")


def test_where_code_begins_and_what_it_can_write():
    assert execute_python(WRITABLE)["stdout"] == "/sandbox /tmp /tmp /dev/shm /sandbox\n"


def test_no_variable_of_the_host_is_in_a_box(monkeypatch):
    monkeypatch.setenv("FROM_THE_HOST", "value")
    assert execute_python("import os; print('FROM_THE_HOST' in os.environ)")["stdout"] == "False\n"


# ---- execute_python ----

def test_the_last_picture_comes_back():
    show = "plt.figure(figsize=(%d, 2)); plt.plot([1, 2]); plt.show()\n"
    answer = execute_python("import matplotlib.pyplot as plt\n" + show % 2 + show % 8)
    assert struct.unpack(">I", base64.b64decode(answer["image_base64"])[16:20])[0] > 400
    assert "image_base64" in execute_python("import matplotlib.pyplot as plt\nplt.plot([1])"), "not shown"


def test_files_do_not_last_from_call_to_call():
    execute_python("open('/sandbox/f', 'w'); open('/tmp/f', 'w')")
    assert execute_python("import os; print(os.path.exists('/sandbox/f'), os.path.exists('/tmp/f'))")["stdout"] == "False False\n"


# ---- SandboxManager and its container ----

@pytest.fixture
def box(tmp_path):
    with SandboxManager(tmp_path / "workspace") as manager:
        yield manager.get_or_create_container()


def test_what_the_container_has_not(box):
    assert not [name for name in ("logs", "wait", "attrs", "pause", "put_archive", "top") if hasattr(box, name)]
    assert box.exec_run("id -un", user="nobody").output == b"sandbox\n", "another user is ignored"
    assert box.exec_run("no-such-command").exit_code == 127
    assert box.exec_run(["touch", "/usr/x"]).exit_code != 0 and box.info().policy["network"] == "none"
    limits = box.info().policy["limits"]
    assert (limits["timeout_usec"], limits["memory_bytes"]) == (120_000_000, 1 << 30)


def test_commands_keep_no_state_and_languages_do(box, tmp_path):
    box.exec_run(["python3", "-c", "x = 1"])
    assert box.exec_run(["python3", "-c", "print(x)"]).exit_code == 1
    python = type("Python", (DockerPython,), {"manager": SandboxManager(tmp_path / "workspace"), "__init__": DockerPython.__init__})()
    assert list(python.run("x = 1")) == [] and [message["content"] for message in python.run("x + 1")] == ["2\n"]


def test_the_guard_does_not_look_at_commands(box):
    assert b"refused" not in box.exec_run(["python3", "-c", "import selenium"]).output
    assert box.run("import selenium").verdict == "blocked"


# ---- DockerSandboxExecutor ----

def test_what_variables_survive(tmp_path):
    with DockerSandboxExecutor("survive", str(tmp_path / "base"), timeout=2) as executor:
        executor.execute_code("x = 1")
        for code in ("1 / 0", "import sys; sys.exit(3)", "while True: pass"):
            executor.execute_code(code)
            assert executor.execute_code("print(x)") == "1\n", code
        executor.execute_code("import os; os._exit(0)")
        assert "NameError" in executor.execute_code("print(x)")


def test_streams_come_one_after_the_other(tmp_path):
    with DockerSandboxExecutor("streams", str(tmp_path / "base")) as executor:
        assert executor.execute_code("import sys\nprint('e', file=sys.stderr)\nprint('o')") == "o\ne\n"


def test_a_session_that_has_died(tmp_path):
    with DockerSandboxExecutor("died", str(tmp_path / "base")) as executor:
        executor.execute_code("open('kept', 'w').write('x')")
        executor._box.client.delete_session(executor._box.id)
        with pytest.raises(NotFoundError):
            executor.execute_code("print(1)")
    with DockerSandboxExecutor("died", str(tmp_path / "base")) as executor:
        assert executor.execute_code("print(open('kept').read())") == "x\n"


# ---- ContainerManager ----

def test_natively_an_image_is_a_name(backend):
    if backend != "native":
        pytest.skip("an engine has to have the image on its host")
    with ContainerManager() as manager:
        box = manager.create_container("nosuch-image:1")
        assert box.run("print(1)").stdout == "1\n" and box.info().metadata["image"] == "nosuch-image:1"


def test_a_command_is_not_run():
    with ContainerManager() as manager:
        box = manager.create_container(runtime_configs={"command": "touch /sandbox/made", "user": "1234", "auto_remove": True})
        assert box.exec_run(["test", "-e", "/sandbox/made"]).exit_code == 1 and box.exec_run("id -u").output == b"1000\n"


# ---- ExecutePythonTool ----

def test_places_of_the_tool():
    answer = asyncio.run(ExecutePythonTool().execute({"code": WRITABLE}, ExecutionContext("u", "a")))
    assert answer.output.removesuffix(" /sandbox\n").split() == ["/tmp/sandbox", "/tmp/sandbox", "/dev/shm"], answer  # natively /sandbox leads there
