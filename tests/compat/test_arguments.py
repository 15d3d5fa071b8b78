# SPDX-License-Identifier: Apache-2.0
"""Arguments that would mean something else than their caller thinks: errors that name them. Nothing is run, but where a test says so."""
import os
import pathlib
import tempfile

import pytest

from compat_helpers import USER, needs_root
from glovebox.compat import _arguments, _backend, _env_files, annie, dolphin, ironclaw, policy
from glovebox.errors import DeniedError, LimitError, PolicyError, UsageError


@pytest.mark.parametrize("code", [123, None, [], ["1"], {"code": "1"}, 1.5])
def test_code_is_text(code, tmp_path):
    calls = [lambda: annie.execute_python(code), lambda: policy.SandboxExecutor().execute(code),
             lambda: dolphin.DockerSandboxExecutor("s", str(tmp_path / "base")).execute_code(code)]
    for call in calls:
        with pytest.raises(UsageError, match="code must be text or bytes, not"):
            call()


@pytest.mark.parametrize("code", [123, None, []])
def test_code_of_a_language_is_text(code, tmp_path):
    with ironclaw.SandboxManager(tmp_path / "w") as manager:
        language = type("Python", (ironclaw.DockerPython,), {"manager": manager})()
        assert [message["content"] for message in language.run(code)] == [f"glovebox: code must be text or bytes, not {type(code).__name__}\n"]


def test_code_of_bytes():
    answer = annie.execute_python(b"print('\xc3\xa4')", secrets="correct horse")
    assert answer["stdout"] == "\u00e4\n", answer


def test_a_single_secret():
    """It was taken as a list of letters, and nothing was removed."""
    assert annie.execute_python("print('sk-' + 'not-a-real-one')", secrets="sk-not-a-real-one")["stdout"] == "[scrubbed:known]\n"
    assert annie.execute_python("print('sk-not-a-real-one')", secrets="sk-not-a-real-one")["returncode"] == 117


def test_a_single_import():
    refused = annie.execute_python("import numpy", blocked_imports="numpy")
    assert refused["returncode"] == 117 and "line 1, column 8" in refused["stderr"], refused


@pytest.mark.parametrize("arguments, said", [
    ({"secrets": 5}, "secrets must be"), ({"secrets": [5]}, "secrets must be"), ({"secrets": b"abc"}, "secrets must be"), ({"blocked_imports": 5}, "blocked_imports"),
    ({"blocked_imports": [None]}, "blocked_imports"), ({"env": "A=1"}, "env must be"), ({"env": {"A": None}}, "env must be"), ({"project": ""}, "project must be"),
    ({"project": 5}, "project must be"), ({"image": None}, "image must be"), ({"allow": "pypi.org"}, "allow is a list")])
def test_arguments_of_execute_python(arguments, said):
    with pytest.raises(UsageError, match=said):
        annie.execute_python("1", **arguments)


@pytest.mark.parametrize("arguments, said", [
    ({"enable_network": "no"}, "enable_network must be True or False, not 'no'"), ({"enable_network": 1}, "enable_network"), ({"sandbox_base_dir": ""}, "sandbox_base_dir must be"),
    ({"sandbox_base_dir": None}, "sandbox_base_dir"), ({"cpu_quota": "abc"}, "cpu_quota must be"), ({"cpu_quota": -1}, "cpu_quota is -1"), ({"image_name": ""}, "image must be")])
def test_arguments_of_an_executor(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        dolphin.DockerSandboxExecutor("s", **{"sandbox_base_dir": str(tmp_path / "base"), **arguments})
    assert not list(tmp_path.iterdir())


def test_an_empty_path_is_not_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    for call in (lambda: ironclaw.SandboxManager(""), lambda: ironclaw.SandboxManager(None), lambda: dolphin.cleanup_session("s", "", remove_files=True),
                 lambda: dolphin.cleanup_all("", remove_files=True), lambda: policy.SandboxExecutor("").policy()):
        with pytest.raises(UsageError, match="must be the path"):
            call()
    assert (tmp_path / "s").is_dir()
    monkeypatch.setenv("IRONCLAW_WORKSPACE", "")
    monkeypatch.setattr(ironclaw.SandboxManager, "_default", None)
    assert ironclaw.SandboxManager.default()._workspace == ironclaw.WORKSPACE


def test_a_time_above_the_maximum_of_the_server(tmp_path):
    """The error is about a server, since these callers have no policy file."""
    with dolphin_error(tmp_path) as call, pytest.raises(LimitError, match="timeout is above the maximum of the server, which is 300s.*glovebox serve --policy"):
        call()
    with pytest.raises(LimitError, match="which is 300s.*GLOVEBOX_SERVER"):
        annie.execute_python("1", timeout=301)


class dolphin_error:
    def __init__(self, place):
        self.executor = dolphin.DockerSandboxExecutor("s", str(place / "base"), timeout=301)

    def __enter__(self):
        return lambda: self.executor.execute_code("1")

    def __exit__(self, *_):
        self.executor.cleanup()


@pytest.mark.parametrize("value, seconds", [(1, 1.0), (0.5, 0.5), ("30", 30.0), ("1.5s", 1.5), ("500ms", 0.5), ("2m", 120.0), ("2min", 120.0), ("1h", 3600.0),
                                            (10**400, 1e18), (float("inf"), float("inf"))])
def test_times(value, seconds):
    assert _arguments.seconds("timeout", value) == seconds


@pytest.mark.parametrize("config", [5, "mem_limit=1g", [("mem_limit", "1g")]])
def test_a_configuration_is_a_mapping(config):
    with policy.ContainerManager() as manager, pytest.raises((UsageError, PolicyError), match="runtime_configs must be a mapping"):
        manager.create_container(runtime_configs=config)


# What the server says


def test_a_denied_workspace_has_its_place_and_its_hint():
    told = _backend.explained(DeniedError("cannot open the workspace /srv/a: b: user 65533 has no permission: chown or chmod the directory, or use another one", hint="h"))
    assert isinstance(told, PermissionError) and (told.filename, told.hint) == ("/srv/a: b", "h")
    other = DeniedError("the session workspace-1 is another tenant's", hint="take another one")
    assert _backend.explained(other) is other
    named = _backend.explained(DeniedError("no", hint="h", details={"field": "workspace"}))
    assert isinstance(named, PermissionError) and named.hint == "h"


def test_a_wrong_name_of_an_image(monkeypatch):
    monkeypatch.setattr(_backend, "engine_socket", lambda: "/s")
    monkeypatch.setattr(_backend, "_ask", lambda path, method, target: (200, None) if target == "/_ping" else (400, {"message": "invalid reference format"}))
    with pytest.raises(UsageError, match="'Bad Image!' is not the name of an image: invalid reference format"):
        _backend.check_engine("Bad Image!")


# .env files


def test_the_bound_of_an_env_file_is_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(_env_files, "BYTES_MAX", 32)
    (tmp_path / ".env").write_text("A=" + "\u00e4" * 15)
    assert _env_files.values(tmp_path) == [("A", "\u00e4" * 15)]
    (tmp_path / ".env").write_text("A=" + "\u00e4" * 16)
    with pytest.raises(LimitError, match="larger than 32 bytes"):
        _env_files.values(tmp_path)


def test_links_to_env_files(tmp_path):
    project = tmp_path / "project"
    (project / "config").mkdir(parents=True)
    (project / "config/values").write_text("INSIDE=correct horse\n")
    (tmp_path / "outside").write_text("OUTSIDE=battery staple\n")
    (project / ".env").symlink_to("config/values")
    (project / ".env.local").symlink_to("../outside")
    (project / ".env.loop").symlink_to(".env.loop")
    (project / ".env.gone").symlink_to("nowhere")
    assert _env_files.values(project) == [("INSIDE", "correct horse")]


@needs_root
def test_a_project_that_cannot_be_read():
    """By a user who may not look into it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgroups([])
                os.setgid(USER)
                os.setuid(USER)
                _env_files.values(pathlib.Path(name))
            except PermissionError as error:
                status = 0 if isinstance(error, UsageError) and "cannot be read by this user" in str(error) and error.filename == name else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
