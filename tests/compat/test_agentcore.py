# SPDX-License-Identifier: Apache-2.0
"""The tool class of a hardened image."""
import asyncio
import types

import pytest

from compat_helpers import on_each_backend
from glovebox.compat.agentcore import ExecutePythonTool, ExecutionContext, troubleshoot

pytestmark = on_each_backend

WHO = ExecutionContext(user_id="u-1", agent_id="a-1")


def call(parameters, **options):
    return asyncio.run(ExecutePythonTool(use_docker=True, **options).execute(parameters=parameters, context=WHO))


def test_it_runs():
    answer = call({"code": "print(6 * 7)"})
    assert answer.success and answer.output == "42\n" and answer.error is None and answer.metadata["verdict"] == "ok"


def test_only_what_is_printed_is_output():
    assert call({"code": "import sys\nsys.stdout.write('no newline')"}).output == "no newline"
    answer = call({"code": "import atexit, sys\natexit.register(print, 'at exit')\nsys.exit(2)"})
    assert (answer.success, answer.output, answer.metadata["exit_code"]) == (False, "at exit\n", 2), answer


def test_limits_and_place():
    code = ("import os, getpass\nprint(os.getuid(), getpass.getuser(), os.getcwd())\nopen('f', 'w').write('x')\nprint(os.path.exists('/tmp/sandbox/f'))\n"
            "s = os.statvfs('/tmp/sandbox'); print(s.f_blocks * s.f_frsize >> 20)\ntry:\n    open('/usr/f', 'w')\nexcept OSError as e:\n    print(e.strerror)")
    answer = call({"code": code})
    assert answer.output == "1000 sandbox /tmp/sandbox\nTrue\n100\nRead-only file system\n", answer
    assert answer.metadata["controls"]["network"] == "enforced" and answer.metadata["controls"]["memory"] == "enforced"


def test_memory_without_swap():
    answer = call({"code": "x = b'x' * (700 << 20)"})
    assert not answer.success and (answer.metadata["verdict"] == "memory" or "MemoryError" in answer.error), answer


def test_no_network():
    assert "unreachable" in call({"code": "import socket; s = socket.socket(); s.settimeout(2); s.connect(('1.1.1.1', 53))"}).error


def test_the_disk_is_limited():
    answer = call({"code": "with open('big', 'wb') as f:\n    for _ in range(200):\n        f.write(b'x' * (1 << 20))"})
    assert not answer.success and ("No space left" in answer.error or answer.metadata["verdict"] == "disk"), answer


def test_timeouts():
    answer = call({"code": "while True: pass", "timeout": 1})
    assert not answer.success and answer.metadata["verdict"] == "timeout"


@pytest.mark.parametrize("parameters, said", [(None, "mapping"), ([], "mapping"), ("print(1)", "mapping"), ({1: 2}, "1"), ({"code": 123}, "text"), ({"code": None}, "code"), ({}, "code"), ({"code": ""}, "code"), ({"code": 3}, "code"), ({"code": "1", "timeout": 0}, "timeout"), ({"code": "1", "timeout": 301}, "300"),
                                              ({"code": "1", "timeout": True}, "timeout"), ({"code": "1", "timeout": "5"}, "timeout"), ({"code": "1", "image": "x"}, "image")])
def test_wrong_parameters_are_results(parameters, said):
    answer = call(parameters)
    assert not answer.success and said in answer.error and answer.metadata["error_type"] == "parameters"


@pytest.mark.parametrize("context", [None, {"user_id": "u", "agent_id": "a"}, ExecutionContext(user_id=7, agent_id="a"), ExecutionContext(user_id="u", agent_id=None)])
def test_a_wrong_context_is_a_result(context):
    answer = asyncio.run(ExecutePythonTool().execute({"code": "print(1)"}, context))
    assert not answer.success and "context must be" in answer.error and answer.metadata["error_type"] == "context"


def test_a_context_of_the_programs_own_class():
    context = types.SimpleNamespace(user_id="u", agent_id="a")
    assert asyncio.run(ExecutePythonTool().execute({"code": "print(1)"}, context)).output == "1\n"


def test_the_cause_of_an_error_is_named(monkeypatch, no_engine):
    monkeypatch.setenv("GLOVEBOX_BACKEND", "docker")
    answer = call({"code": "print(1)"})
    assert not answer.success and answer.metadata["error_type"] == "engine_unavailable" and "no engine listens" in answer.error, answer
    assert answer.metadata["troubleshooting"]


def test_a_failure_is_a_result():
    answer = call({"code": "raise ValueError('why')"})
    assert not answer.success and "ValueError: why" in answer.error


def test_the_bare_host_is_refused():
    with pytest.raises(ValueError, match="bare host"):
        ExecutePythonTool(use_docker=False)


def test_calls_share_nothing_and_run_at_the_same_time():
    async def many():
        tool = ExecutePythonTool()
        await tool.execute({"code": "leak = 1; open('/sandbox/leak', 'w')"}, WHO)
        return await asyncio.gather(*(tool.execute({"code": f"import os; print({i}, 'leak' in globals(), os.listdir('/sandbox'))"}, WHO) for i in range(8)))
    assert [answer.output for answer in asyncio.run(many())] == [f"{i} False []\n" for i in range(8)]


def test_troubleshooting_names_apparmor_when_it_is_off():
    import pathlib
    enabled = pathlib.Path("/sys/module/apparmor/parameters/enabled")
    lines = troubleshoot()
    if not enabled.exists() or enabled.read_text().strip() != "Y":
        assert any("AppArmor is not enabled" in line for line in lines)
    else:
        assert all("profile" in line for line in lines)
