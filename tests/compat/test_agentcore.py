# SPDX-License-Identifier: Apache-2.0
"""The tool class of a hardened image."""
import asyncio
import os
import shutil
import subprocess
import threading
import types

import pytest

import base_image
from compat_helpers import BUILD, BURN, BURN_MAX, READ_ONLY, ROOT, on_each_backend
from isolation import wait_until
from promises import promise
from glovebox import Client
from glovebox.compat.agentcore import IMAGE, ExecutePythonTool, ExecutionContext, troubleshoot
from glovebox.errors import UsageError

pytestmark = on_each_backend

WHO = ExecutionContext(user_id="u-1", agent_id="a-1")


def call(parameters, **options):
    return asyncio.run(ExecutePythonTool(use_docker=True, **options).execute(parameters=parameters, context=WHO))


@promise("agentcore-8", "There is an AppArmor profile agentcore-python-sandbox, for apparmor_parser and docker run.")
def test_the_apparmor_profile():
    """That it holds is proved in a virtual machine (tests/vm/guest_apparmor.py), since few test machines have AppArmor."""
    ours, theirs = (ROOT / "images/apparmor/glovebox-container").read_text(), (BUILD / "images/apparmor" / IMAGE).read_text()
    assert theirs == ours.replace("glovebox-container", IMAGE) and f"\nprofile {IMAGE} " in theirs
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if not parser:
        pytest.skip("the package apparmor is not installed")
    done = subprocess.run([parser, "-Q", "-K", "-M", "/etc/apparmor.d/abi/3.0", "-N", str(BUILD / "images/apparmor" / IMAGE)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, IMAGE + "\n"), done.stderr


@promise("agentcore-9", "execute(parameters, context) returns a result.")
def test_it_runs():
    answer = call({"code": "print(6 * 7)"})
    assert answer.success and answer.output == "42\n" and answer.error is None and answer.metadata["verdict"] == "ok"


@promise("agentcore-16", "The image is built on python:3.12-slim.")
def test_the_base_of_the_image():
    assert "ARG BASE=python:3.12-slim\nFROM ${BASE}\n" in (ROOT / "images/glovebox-python/Dockerfile").read_text()


@promise("agentcore-10", "The timeout is 30 s by default and 300 s at most.")
@pytest.mark.parametrize("given, seconds", [({}, 30), ({"timeout": 300}, 300)])
def test_the_timeout_of_a_call(given, seconds):
    """The server says what the session has, while it runs."""
    before = {session.id for session in Client().sessions()}
    run = threading.Thread(target=call, args=({"code": "import time; time.sleep(3)", **given},))
    run.start()
    try:
        policy = wait_until(lambda: next((session.policy for session in Client().sessions() if session.id not in before), None), 30)
        assert policy, "no new session was seen"
        assert policy["limits"]["timeout_usec"] == seconds * 1_000_000
    finally:
        run.join()


BOMB = "import os\nfor _ in range(1000):\n    if os.fork() == 0: os.read(os.pipe()[0], 1)"


@promise("agentcore-20", "Code that starts more and more processes is stopped.")
@pytest.mark.needs("task limit")
def test_a_fork_bomb_is_stopped():
    answer = call({"code": BOMB})
    assert not answer.success and (answer.metadata["verdict"] == "pids" or "BlockingIOError" in answer.error), answer
    assert call({"code": "print(1)"}).output == "1\n"


def test_only_what_is_printed_is_output():
    assert call({"code": "import sys\nsys.stdout.write('no newline')"}).output == "no newline"
    answer = call({"code": "import atexit, sys\natexit.register(print, 'at exit')\nsys.exit(2)"})
    assert (answer.success, answer.output, answer.metadata["exit_code"]) == (False, "at exit\n", 2), answer


WRITABLE = """
import os
for place, below, _ in os.walk('/'):
    if place in ('/proc', '/sys'):
        below.clear()
    try:
        open(place + '/probe', 'x').close()
    except OSError:
        continue
    os.unlink(place + '/probe')
    print(place)
"""


@promise("agentcore-3", "The file system is read-only except for /tmp/sandbox.")
def test_only_one_place_can_be_written():
    """And what Python needs for semaphores, and where glovebox puts programs."""
    places = set(call({"code": WRITABLE}).output.splitlines())
    assert places - {"/run/glovebox"} == {"/tmp/sandbox", "/dev/shm"}, places


def test_what_python_needs_can_be_written():
    code = ("import concurrent.futures, multiprocessing, os, tempfile\nprint(os.path.dirname(tempfile.mkdtemp()), os.path.expanduser('~'))\n"
            "with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool:\n    print(list(pool.map(abs, [-1, -2])))")
    assert call({"code": code}).output == "/tmp/sandbox /tmp/sandbox\n[1, 2]\n"


@promise("agentcore-1", "Code is the user sandbox with uid 1000.")
@promise("agentcore-3", "The file system is read-only except for /tmp/sandbox.")
def test_limits_and_place(backend):
    code = ("import os, getpass\nprint(os.getuid(), getpass.getuser(), os.getcwd())\nopen('f', 'w').write('x')\nprint(os.path.exists('/tmp/sandbox/f'))\n"
            "s = os.statvfs('/tmp/sandbox'); print(s.f_blocks * s.f_frsize >> 20)\ntry:\n    open('/usr/f', 'w')\nexcept OSError as e:\n    print(e.strerror)")
    answer = call({"code": code})
    assert answer.output == "1000 sandbox /tmp/sandbox\nTrue\n100\n" + READ_ONLY[backend] + "\n", answer
    assert answer.metadata["controls"]["network"] == "enforced" and answer.metadata["controls"]["memory"] == "enforced"


@promise("agentcore-4", "Memory is 512 MB without swap.")
def test_memory_without_swap():
    answer = call({"code": "x = b'x' * (700 << 20)"})
    assert not answer.success and (answer.metadata["verdict"] == "memory" or "MemoryError" in answer.error), answer


@promise("agentcore-2", "There is no network.")
def test_no_network():
    error = call({"code": "import socket; s = socket.socket(); s.settimeout(2); s.connect(('1.1.1.1', 53))"}).error
    assert "unreachable" in error or "No route" in error, error


@promise("agentcore-5", "There is one processor.")
def test_one_processor():
    """Two processes that never wait get the time of one processor."""
    answer = call({"code": BURN})
    assert answer.metadata["controls"]["cpu"] == "enforced" and float(answer.output) < BURN_MAX, answer


@promise("agentcore-7", "Code has no capabilities and cannot gain privileges.")
def test_capabilities_and_privileges():
    code = ("import ctypes\nprint([l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))])\n"
            "print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))")  # PR_GET_NO_NEW_PRIVS
    assert call({"code": code}).output == "['0000000000000000', '0000000000000000']\n1\n"


@promise("agentcore-12", "The image runs with the documented docker run options.")
def test_the_image_with_plain_docker(docker):
    """Without glovebox, by the client of Docker."""
    done = subprocess.run(["docker", "run", "--rm", "--memory=512m", "--cpus=1", "--network=none", "--read-only", "--tmpfs", "/tmp/sandbox:rw,size=100m,mode=1777",
                           "--security-opt=no-new-privileges", "--cap-drop=ALL", "--user=sandbox", IMAGE, "python3", "-c",
                           "import os; open('/tmp/sandbox/f', 'w'); print('Secure execution', os.getuid())"],
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, env={**os.environ, "DOCKER_HOST": docker.host})
    assert (done.stdout, done.returncode) == ("Secure execution 1000\n", 0), done.stderr


@promise("agentcore-17", "The image runs with docker run alone.")
def test_the_image_with_no_options(docker):
    done = subprocess.run(["docker", "run", "--rm", "--network=none", IMAGE, "python3", "-c", "import os; print('Hello', os.getuid())"],
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, env={**os.environ, "DOCKER_HOST": docker.host})
    assert (done.stdout, done.returncode) == ("Hello 1000\n", 0), done.stderr


@promise("agentcore-19", "The image can be built again with docker build --no-cache.")
def test_the_image_is_built_again(docker):
    """The recipe is a Dockerfile like others. The base of the tests is on this machine, so --pull is left out."""
    name = "glovebox-test-built-again"
    done = subprocess.run(["docker", "build", "--no-cache", "--network=none", f"--build-arg=BASE={base_image.NAME}", "-t", name, str(ROOT / "images/glovebox-python")],
                          capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, env={**os.environ, "DOCKER_HOST": docker.host})
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert docker.ask("DELETE", f"/images/{name}?force=1")[0] == 200


@promise("agentcore-6", "/tmp/sandbox has 100 MB.")
def test_the_disk_is_limited():
    answer = call({"code": "with open('big', 'wb') as f:\n    for _ in range(200):\n        f.write(b'x' * (1 << 20))"})
    assert not answer.success and ("No space left" in answer.error or answer.metadata["verdict"] == "disk"), answer


@promise("agentcore-10", "The timeout is 30 s by default and 300 s at most.")
def test_timeouts():
    answer = call({"code": "while True: pass", "timeout": 1})
    assert not answer.success and answer.metadata["verdict"] == "timeout"


@promise("agentcore-10", "The timeout is 30 s by default and 300 s at most.")
@promise("agentcore-13", "Wrong arguments are results, never exceptions.")
@pytest.mark.parametrize("parameters, said", [(None, "mapping"), ([], "mapping"), ("print(1)", "mapping"), ({1: 2}, "1"), ({"code": 123}, "text"), ({"code": None}, "code"), ({}, "code"), ({"code": ""}, "code"), ({"code": 3}, "code"), ({"code": "1", "timeout": 0}, "timeout"), ({"code": "1", "timeout": 301}, "300"),
                                              ({"code": "1", "timeout": True}, "timeout"), ({"code": "1", "timeout": "5"}, "timeout"), ({"code": "1", "image": "x"}, "image")])
def test_wrong_parameters_are_results(parameters, said):
    answer = call(parameters)
    assert not answer.success and said in answer.error and answer.metadata["error_type"] == "parameters"


@promise("agentcore-13", "Wrong arguments are results, never exceptions.")
@pytest.mark.parametrize("context", [None, {"user_id": "u", "agent_id": "a"}, ExecutionContext(user_id=7, agent_id="a"), ExecutionContext(user_id="u", agent_id=None)])
def test_a_wrong_context_is_a_result(context):
    answer = asyncio.run(ExecutePythonTool().execute({"code": "print(1)"}, context))
    wrong = next((name for name in ("user_id", "agent_id") if not isinstance(getattr(context, name, ""), str)), None)
    said = f"the context's {wrong} must be text, not" if wrong else "context must be an ExecutionContext"
    assert not answer.success and said in answer.error and answer.metadata["error_type"] == "context"


@promise("agentcore-13", "Wrong arguments are results, never exceptions.")
@pytest.mark.parametrize("metadata", ["abc", [1], 5, {"a": "\ud800"}, {"a\0": "b"}])
def test_wrong_metadata_of_a_context_are_a_result(metadata):
    answer = asyncio.run(ExecutePythonTool().execute({"code": "print(1)"}, ExecutionContext("u", "a", metadata=metadata)))
    assert not answer.success and "the context's" in answer.error and answer.metadata["error_type"] == "context" and "JSON" not in answer.error, answer


@promise("agentcore-13", "Wrong arguments are results, never exceptions.")
@pytest.mark.parametrize("arguments", [{"client": 1}, {"backend": "podman"}, {"backend": 1}, {"image": 1}, {"image": ""}, {"template": 1}])
def test_a_wrong_configuration_is_a_result(arguments):
    answer = asyncio.run(ExecutePythonTool(**arguments).execute({"code": "print(1)"}, WHO))
    assert not answer.success and answer.metadata["error_type"] == "configuration" and next(iter(arguments)) in answer.error, answer


@promise("agentcore-14", "error_type names the cause.")
def test_a_wrong_environment_is_a_result(monkeypatch):
    monkeypatch.setenv("GLOVEBOX_BACKEND", "bogus")
    answer = call({"code": "print(1)"})
    assert not answer.success and answer.metadata["error_type"] == "configuration" and "bogus" in answer.error, answer


@promise("agentcore-14", "error_type names the cause.")
@pytest.mark.parametrize("parameters, said", [({"code": "a = 1\nb = '\0'"}, "NUL character, in line 2"), ({"code": "'\ud800'"}, "surrogate"),
                                              ({"code": "1", "timeout": 1e-9}, "at least 0.001"), ({"code": "1", "timeout": float("nan")}, "at least")])
def test_what_cannot_be_sent_is_a_wrong_parameter(parameters, said):
    answer = call(parameters)
    assert not answer.success and said in answer.error and "JSON" not in answer.error and answer.metadata["error_type"] == "parameters", answer


class Odd:
    """Not a mapping, and not polite."""

    def __getattr__(self, name):
        raise ValueError("of the argument")


@promise("agentcore-13", "Wrong arguments are results, never exceptions.")
def test_an_argument_that_raises_is_a_result():
    answer = asyncio.run(ExecutePythonTool().execute({"code": "print(1)"}, Odd()))
    assert not answer.success and answer.metadata["error_type"] == "context" and "of the argument" in answer.error, answer


def test_an_unexpected_exception_of_a_run_is_no_success(monkeypatch):
    from glovebox.compat import agentcore

    def fails(result):
        raise RuntimeError("of the tool")
    monkeypatch.setattr(agentcore, "_tool_result", fails)
    answer = call({"code": "print(1)"})
    assert not answer.success and answer.metadata["error_type"] == "internal" and "not known" in answer.error and not answer.output, answer


def test_a_context_of_the_programs_own_class():
    context = types.SimpleNamespace(user_id="u", agent_id="a")
    assert asyncio.run(ExecutePythonTool().execute({"code": "print(1)"}, context)).output == "1\n"


@promise("agentcore-14", "error_type names the cause.")
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
    with pytest.raises(UsageError, match="use_docker must be True or False, not 'no'"):
        ExecutePythonTool(use_docker="no")


def test_calls_share_nothing_and_run_at_the_same_time():
    async def many():
        tool = ExecutePythonTool()
        await tool.execute({"code": "leak = 1; open('/sandbox/leak', 'w')"}, WHO)
        return await asyncio.gather(*(tool.execute({"code": f"import os; print({i}, 'leak' in globals(), os.listdir('/sandbox'))"}, WHO) for i in range(8)))
    assert [answer.output for answer in asyncio.run(many())] == [f"{i} False []\n" for i in range(8)]


@promise("agentcore-15", "A missing engine, its permissions and AppArmor are explained, with the commands to type.")
def test_troubleshooting_names_apparmor_when_it_is_off():
    import pathlib
    enabled = pathlib.Path("/sys/module/apparmor/parameters/enabled")
    lines = troubleshoot()
    if not enabled.exists() or enabled.read_text().strip() != "Y":
        assert any("AppArmor is not enabled" in line for line in lines)
    else:
        assert all("profile" in line for line in lines)
