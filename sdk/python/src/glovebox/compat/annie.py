# SPDX-License-Identifier: Apache-2.0
"""A chat assistant's `execute_python` tool, sealed off.

    >>> execute_python("print(6 * 7)")
    {'stdout': '42\\n', 'stderr': '', 'returncode': 0}

What the code may see of a project is mounted read-only, without the files that hold credentials. Code that names such files, imports
browser automation or carries a secret is refused before it runs: a courtesy to the model. What keeps the host safe is the box.
"""
from __future__ import annotations

import base64
import os
import pathlib
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from .. import Client, Sandbox
from ..results import Result
from . import _backend, _hide, _options, _screen

TIMEOUT_SECONDS = 30.0
MEMORY = "1g"
TEMPLATE = "python-data"
IMAGE = "glovebox-python-data"
PROJECT = "/project"

#: Statuses of runs that glovebox ended, as `glovebox run` has them.
_STATUS = {"timeout": 124, "cpu": 122, "memory": 118, "pids": 119, "disk": 120, "output": 121, "syscall": 123, "blocked": 117, "cancelled": 130, "lost": 116}
REFUSED_STATUS = _STATUS["blocked"]


def execute_python(code: str, *, stdin: Union[None, str, bytes] = None, timeout: float = TIMEOUT_SECONDS, memory: str = MEMORY,
                   project: Union[None, str, "os.PathLike[str]"] = None, network: str = "none", env: Optional[Mapping[str, str]] = None,
                   secrets: Sequence[str] = (), blocked_imports: Sequence[str] = _screen.BROWSER_AUTOMATION,
                   template: Optional[str] = TEMPLATE, image: str = IMAGE, backend: Optional[str] = None, client: Optional[Client] = None) -> Dict[str, Any]:
    """Runs Python and returns {"stdout", "stderr", "returncode"}, with "image_base64" (a PNG) when a plot was drawn.

    project: a directory that the code can read at /project, without its credential files. network: "none", or "host" for everything that the
    host can reach. secrets: texts that must neither come in nor go out; those of the project's .env are known without being named.
    image: of the engine, where that is Docker.
    """
    made_of = _backend.box(backend, image, template, client)
    place = pathlib.Path(project).expanduser().resolve() if project is not None else None
    known = list(secrets) + (_hide.values_of_env_files(place) if place else [])
    refused = _screen.refusal(code, known, blocked_imports)
    if refused:
        return {"stdout": "", "stderr": refused + "\n", "returncode": REFUSED_STATUS}
    policy = _options.limits(network=network)
    if place is not None:
        policy["mounts"] = [f"{source}:{target}" for source, target in _hide.visible(place, PROJECT)]
    with _backend.opened(Sandbox(**made_of, memory=memory, timeout=timeout, env=env, policy=policy, client=client), template) as box:
        return _answer(box.run(code, stdin=stdin if stdin is not None else b""), known)


def _returncode(result: Result) -> int:
    if result.ok:
        return 0
    if result.exit_code is not None:
        return result.exit_code
    if result.error is not None and result.error.name == "SystemExit":
        value = result.error.value.strip()
        return int(value) & 0xFF if value.lstrip("-").isdigit() else 0 if value in ("", "None") else 1
    return _STATUS.get(result.verdict.kind, 1)


def _answer(result: Result, known: Sequence[str]) -> Dict[str, Any]:
    code, stderr = _returncode(result), result.stderr
    if result.error is not None and result.error.name != "SystemExit":
        stderr += result.error.traceback
    if code != 0 and (result.error is None or result.verdict.kind != "error"):
        stderr += result.verdict.message + "\n"
    answer: Dict[str, Any] = {"stdout": _screen.scrub(result.stdout, known), "stderr": _screen.scrub(stderr, known), "returncode": code}
    for image in result.images:
        if image.mime == "image/png":
            answer["image_base64"] = base64.b64encode(image.data).decode("ascii")
    return answer
