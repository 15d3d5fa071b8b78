# SPDX-License-Identifier: Apache-2.0
"""The code executor of a reasoning loop: variables and files last from step to step.

    with DockerSandboxExecutor("session-1") as executor:
        executor.execute_code("x = 6 * 7")
        print(executor.execute_code("print(x)"))

With DOLPHIN_USE_DOCKER_SANDBOX=1 in the environment, executor_for(session_id) returns one of these; without it, None.
"""
from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any, List, Optional, Sequence

from .. import Client, Sandbox, Secrets
from ..errors import NotFoundError, UsageError
from ..network import Rule
from ..results import Result
from . import _arguments, _backend, _options

SWITCH = "DOLPHIN_USE_DOCKER_SANDBOX"
BASE = "/tmp/sandboxes"
IMAGE = "dolphin-python-sandbox"
TEMPLATE = "python-data"
TMP_SIZE = "100m"
_PREFIX = "dolphin-"


class DockerSandboxExecutor:
    """One session: a box whose /sandbox is <sandbox_base_dir>/<session_id> of the host, and stays after it.

    memory_limit: "512m". cpu_quota: microseconds of each 100000, as Docker has it. enable_network: everything that the host can reach; allow: rules of hosts,
    such as ["python-packages"], instead of that.
    secrets: variables of the code that do not come back in what it prints. disk: by how much the directory may grow while the box lives.
    """

    def __init__(self, session_id: str, sandbox_base_dir: str = BASE, image_name: str = IMAGE, memory_limit: str = "512m", cpu_quota: int = 100_000,
                 enable_network: bool = False, timeout: float = 30, *, template: Optional[str] = TEMPLATE, backend: Optional[str] = None,
                 client: Optional[Client] = None, secrets: Optional[Secrets] = None, allow: Optional[Sequence[Rule]] = None,
                 disk: str = _options.DISK) -> None:
        self.session_id = _options.check_name("the session id", session_id)
        self.image_name = image_name
        if isinstance(cpu_quota, bool) or not isinstance(cpu_quota, (int, float)):
            raise _arguments.wrong("cpu_quota", cpu_quota, "a number of microseconds")
        if not cpu_quota > 0:
            raise UsageError(f"cpu_quota is {cpu_quota}", hint=f"{_options.CPU_PERIOD} is one processor")
        has_network = _arguments.flag("enable_network", enable_network)
        base = pathlib.Path(_arguments.path("sandbox_base_dir", sandbox_base_dir))
        made_of = _backend.box(backend, image_name, template, client)
        self.host_dir = _options.directory(base, mode=0o755) / self.session_id
        if self.host_dir.is_symlink():
            raise UsageError(f"{self.host_dir} is a link", hint="remove it, or take another session id")
        _options.directory(self.host_dir, in_container=made_of["backend"] == "docker")
        self._template = template
        policy = _options.limits(cpus=cpu_quota / _options.CPU_PERIOD, tmp=TMP_SIZE, disk=disk, network="host" if has_network and allow is None else "none", allow=allow)
        self._box = Sandbox(**made_of, **_backend.KEPT, memory=memory_limit, timeout=timeout, secrets=secrets, policy=policy, workspace=str(self.host_dir), name=_PREFIX + self.session_id,
                            metadata={"made-by": "dolphin", "image": image_name}, client=client)

    def run(self, code: str) -> Result:
        """As execute_code(), with everything that is known about the run."""
        code = _arguments.code(code)  # type: ignore[assignment]
        return _backend.opened(self._box, self._template).run(code)

    def execute_code(self, code: str) -> str:
        """Runs code and returns what it printed, and what went wrong."""
        return _text(self.run(code))

    def cleanup(self, remove_files: bool = False) -> None:
        """Ends the box. Its files stay on the host unless they are to go, too. An error when the server cannot be
        reached: the box may live and use them, so they stay in any case."""
        _backend.end(self._box)
        if remove_files:
            _remove(self.host_dir)

    def __enter__(self) -> "DockerSandboxExecutor":
        _backend.opened(self._box, self._template)
        return self

    def __exit__(self, *_: Any) -> None:
        self._box.close()


def _text(result: Result) -> str:
    parts = [result.stdout, result.stderr]
    if result.error is not None:
        parts.append(result.error.traceback)
    if not result.ok and (result.error is None or result.verdict.kind != "error"):
        parts.append(result.verdict.message + "\n")
    return "".join(parts)


def _remove(place: pathlib.Path) -> None:
    """Removes a directory. An error when something of it stays."""
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        pass


def executor_for(session_id: str, **options: Any) -> Optional[DockerSandboxExecutor]:
    """An executor when $DOLPHIN_USE_DOCKER_SANDBOX switches it on: "1", or a backend, "native" or "docker". None when it is unset, "0" or empty.
    Any other value is an error: code that is meant for a sandbox must not run without one because of a misspelt word."""
    value = os.environ.get(SWITCH, "").strip().lower()
    if value in ("", "0", "off", "false", "no"):
        return None
    if value not in ("1", "on", "true", "yes", *_backend.BACKENDS):
        raise UsageError(f"{SWITCH} is {value!r}", hint="set it to 1, native or docker, or unset it")
    if value in _backend.BACKENDS:
        options.setdefault("backend", value)
    return DockerSandboxExecutor(session_id, **options)


def cleanup_session(session_id: str, sandbox_base_dir: str = BASE, *, remove_files: bool = False, client: Optional[Client] = None) -> bool:
    """Ends the box of a session, whoever opened it. Whether there was one."""
    name, found = _PREFIX + _options.check_name("the session id", session_id), False
    base = pathlib.Path(_arguments.path("sandbox_base_dir", sandbox_base_dir))
    client = client or Client()
    for session in list(client.sessions()):
        if session.name == name:
            found = _delete(client, session.id) or found
    if remove_files:
        _remove(base / session_id)
    return found


def cleanup_all(sandbox_base_dir: str = BASE, *, remove_files: bool = False, client: Optional[Client] = None) -> int:
    """Ends the boxes of all sessions; how many. With remove_files the directories of those sessions go, and no others."""
    base = pathlib.Path(_arguments.path("sandbox_base_dir", sandbox_base_dir))
    client = client or Client()
    ours: List[Any] = [session for session in client.sessions() if (session.name or "").startswith(_PREFIX)]
    ended = 0
    for session in ours:
        ended += _delete(client, session.id)
        if remove_files:
            _remove(base / _options.check_name("the session id", session.name[len(_PREFIX):]))
    return ended


def cleanup_images(backend: Optional[str] = None) -> int:
    """Removes what was made of images for the boxes of an engine, unless a box uses it; how many. The images themselves are their owner's, and stay.
    The native backend has none."""
    return _backend.remove_prepared_images() if _backend.require(backend, None) == "docker" else 0


def _delete(client: Client, id: str) -> bool:
    try:
        client.delete_session(id)
    except NotFoundError:
        return False
    return True
