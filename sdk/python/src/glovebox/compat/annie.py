# SPDX-License-Identifier: Apache-2.0
"""A chat assistant's `execute_python` tool, sealed off.

    >>> execute_python("print(6 * 7)")
    {'stdout': '42\\n', 'stderr': '', 'returncode': 0}

What the code may see of a project is mounted read-only, without the files that hold credentials. Code that names such files, imports
browser automation or carries a secret is refused before it runs, by the guard of the server: a courtesy to the model. What keeps the host safe is the box.
"""
from __future__ import annotations

import base64
import os
import pathlib
import signal
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .. import Client, Sandbox
from ..errors import UsageError, verdict_error
from ..network import Rule
from ..results import Result
from . import _arguments, _backend, _env_files, _options, _screen
from ._container import STATUS

TIMEOUT_SECONDS = 30.0
MEMORY = "1g"
TEMPLATE = "python-data"
IMAGE = "glovebox-python-data"
PROJECT = "/project"

REFUSED_STATUS = STATUS["blocked"]

#: Where the guard only warns, this tool has always refused.
RULES = {name: "block" for name in ("credential-files", "init-process", "process-tracing", "secret-in-code", "secret-in-stdin")}


def execute_python(code: str, *, stdin: Union[None, str, bytes] = None, timeout: float = TIMEOUT_SECONDS, memory: str = MEMORY,
                   project: Union[None, str, "os.PathLike[str]"] = None, network: str = "none", env: Optional[Mapping[str, str]] = None,
                   secrets: Union[Sequence[str], Mapping[str, str]] = (), blocked_imports: Optional[Sequence[str]] = None,
                   template: Optional[str] = TEMPLATE, image: str = IMAGE, backend: Optional[str] = None, client: Optional[Client] = None,
                   allow: Optional[Sequence[Rule]] = None) -> Dict[str, Any]:
    """Runs Python and returns {"stdout", "stderr", "returncode"}, with "image_base64" (a PNG) when a plot was drawn.

    returncode: the exit status; -N after signal N, as in subprocess; 1 after an exception; for a run that glovebox
    ended, the status that `glovebox run` has for it (124: timeout); None when there is none of these. A run whose
    outcome is not known raises LostVerdict: it may have run in part.

    project: a directory that the code can read at /project, without its credential files. network: "none"; "whitelist" for the hosts that
    dependencies come from; "host" for everything that the host can reach. allow: rules of hosts that it may reach, instead.
    secrets: texts that must neither come in nor go out, or {"NAME": text}, which the code gets as variables; those of the project's .env are known without being named, and not in the
    sandbox. blocked_imports: packages in the place of those that drive browsers. image: of the engine, where that is Docker.
    """
    code = _arguments.code(code)  # type: ignore[assignment]
    made_of = _backend.box(backend, image, template, client)
    place = pathlib.Path(_arguments.path("project", project)).expanduser().resolve() if project is not None else None
    known, given = _secrets(secrets, place)
    refused = _screen.refusal("the code", _text(code), known) or _screen.refusal("standard input", _text(stdin), known)
    if refused:
        return {"stdout": "", "stderr": refused + "\n", "returncode": REFUSED_STATUS}
    variables = _environment(env)
    plain = {name: value for name, value in variables.items() if not _is_known(value, known)}
    given.update({name: value for name, value in variables.items() if name not in plain})
    policy = _options.limits(network=network, allow=allow)
    policy["guard_rules"] = RULES
    if blocked_imports is not None:
        policy["guard_imports"] = _arguments.texts("blocked_imports", blocked_imports)
    if place is not None:
        policy["mounts"] = [f"{place}:{PROJECT}:hide"]
    with _backend.opened(Sandbox(**made_of, memory=memory, timeout=timeout, env=plain or None, secrets=given or None, policy=policy, client=client), template) as box:
        return _answer(box.run(code, stdin=stdin if stdin is not None else b"", last=True), known)


def _secrets(secrets: Union[Sequence[str], Mapping[str, str]], place: Optional[pathlib.Path]) -> Tuple[List[_screen.Known], Dict[str, str]]:
    """Those that the code must not have, and those that it is given."""
    known = _env_files.values(place) if place else []
    if isinstance(secrets, Mapping):
        return known, dict(secrets)
    return [("known", value) for value in _arguments.texts("secrets", secrets)] + known, {}


def _environment(env: Optional[Mapping[str, str]]) -> Dict[str, str]:
    if env is not None and not isinstance(env, Mapping):
        raise _arguments.wrong("env", env, "a mapping of names to texts")
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"env must be a mapping of names to texts, and contains {_arguments.shown(value if isinstance(name, str) else name)}", details={"field": "env"})
    return dict(env or {})


def _is_known(value: str, known: Sequence[_screen.Known]) -> bool:
    """Of a variable that the caller gives: it comes in as a secret then, and the guard keeps it from coming out, in whatever encoding."""
    return _screen.is_long_enough(value) and any(value == secret for _, secret in known)


def _text(data: Union[None, str, bytes]) -> str:
    return data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data if isinstance(data, str) else ""


def _signal(name: Optional[str]) -> Optional[int]:
    return getattr(signal.Signals, name).value if name is not None and name in signal.Signals.__members__ else None


def _returncode(result: Result) -> Optional[int]:
    kind = result.verdict.kind
    if kind == "ok":
        return 0
    if kind in STATUS:  # also when the code has caught its interrupt and called sys.exit(0)
        return STATUS[kind]
    if kind != "error":
        raise verdict_error(result)
    number = _signal(result.signal)
    if number is not None:
        return -number
    return 1 if result.exit_code is None and result.error is not None else result.exit_code


def _answer(result: Result, known: Sequence[_screen.Known]) -> Dict[str, Any]:
    code, stderr = _returncode(result), result.stderr
    if result.verdict == "blocked" and result.guard.blocked:
        return {"stdout": "", "stderr": "".join(f"refused: {finding}\n" for finding in result.guard.blocking), "returncode": REFUSED_STATUS}
    if result.error is not None:
        stderr += result.error.traceback
    if code != 0 and (result.error is None or result.verdict.kind != "error"):
        stderr += result.verdict.message + "\n"
    answer: Dict[str, Any] = {"stdout": _screen.scrub(result.stdout, known), "stderr": _screen.scrub(stderr, known), "returncode": code}
    for image in result.images:
        if image.mime == "image/png":
            answer["image_base64"] = base64.b64encode(image.data).decode("ascii")
    return answer
