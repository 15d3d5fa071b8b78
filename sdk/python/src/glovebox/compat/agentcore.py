# SPDX-License-Identifier: Apache-2.0
"""The tool class of a hardened image: `await ExecutePythonTool().execute({"code": ...}, context)`.

512 MB without swap, one processor, 100 MB in /tmp/sandbox, no network, 30 seconds unless the call says otherwise, 300 at the most.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import AsyncClient, AsyncSandbox, Secrets
from .._secrets import secrets_body
from ..errors import GloveboxError, UsageError
from ..results import Result
from . import _arguments, _backend, _options

IMAGE = "agentcore-python-sandbox"
TEMPLATE = "python"
TIMEOUT_SECONDS, TIMEOUT_MIN_SECONDS, TIMEOUT_MAX_SECONDS = 30.0, 0.001, 300.0
MEMORY, DISK, CPUS = "512m", "100m", 1.0
_PARAMETERS = ("code", "timeout")


@dataclasses.dataclass(frozen=True)
class ExecutionContext:
    """For whom code runs: goes into the session's metadata, and from there into nothing that the code can see."""

    user_id: str
    agent_id: str
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ToolResult:
    success: bool
    output: str
    error: Optional[str]
    metadata: Dict[str, Any]


class ExecutePythonTool:
    """Runs Python for an agent; each call in a box of its own.

    use_docker: True asks for Docker, unless `backend` or $GLOVEBOX_BACKEND names another one that seals off. Without it, those choose, and native is the
    default. False would be the bare host, where nothing here runs code: it is refused. image: of the engine. secrets: variables of the code that do not come back.
    """

    name = "execute_python"
    description = "Runs Python code in a sandbox without network and returns what it prints."
    parameters = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "the Python code to run"},
                       "timeout": {"type": "number", "description": f"seconds, {TIMEOUT_SECONDS:.0f} when left out, {TIMEOUT_MAX_SECONDS:.0f} at the most"}},
        "required": ["code"], "additionalProperties": False,
    }

    def __init__(self, use_docker: Optional[bool] = None, *, image: str = IMAGE, template: Optional[str] = TEMPLATE, backend: Optional[str] = None,
                 client: Optional[AsyncClient] = None, secrets: Optional[Secrets] = None) -> None:
        if use_docker is not None and not _arguments.flag("use_docker", use_docker):
            raise ValueError("use_docker=False would run code on the bare host: glovebox does not. Leave it out; the native backend needs no Docker")
        self._secrets = secrets_body(secrets)
        self._use_docker, self._image, self._template, self._backend, self._client = bool(use_docker), image, template, backend, client

    async def execute(self, parameters: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Raises nothing: for wrong arguments and a missing backend the result says what is wrong and what to do, and metadata["error_type"] names
        the cause: "parameters", "context", "configuration" (arguments of the constructor, the environment), or the code of an error, such as
        "engine_unavailable"."""
        cause = "parameters"
        try:
            code, timeout = _parameters(parameters)
            cause = "context"
            metadata = _metadata(context)
            cause = "configuration"
            made_of = self._made_of()
            cause = "internal"
            return await self._run(made_of, code, timeout, metadata)
        except GloveboxError as raised:
            error = _backend.explained(raised, self._template)
            return ToolResult(False, "", str(error), {"error_type": cause if isinstance(error, UsageError) and cause != "internal" else error.code,
                                                      "troubleshooting": troubleshoot(error)})
        except Exception as error:  # of an argument that has a class of its own, or a mistake of ours; never a success
            what = "it is not known whether the code has run" if cause == "internal" else f"the {cause} cannot be used, and nothing was run"
            return ToolResult(False, "", f"{what}: {type(error).__name__}: {error}", {"error_type": cause})

    def _made_of(self) -> Dict[str, Any]:
        if self._client is not None and not isinstance(self._client, AsyncClient):
            raise _arguments.wrong("client", self._client, "an AsyncClient")
        if self._template is not None and not isinstance(self._template, str):
            raise _arguments.wrong("template", self._template, "the name of a template, or None")
        backend = self._backend or os.environ.get("GLOVEBOX_BACKEND") or ("docker" if self._use_docker else None)
        return _backend.box(backend, self._image, self._template, self._client)

    async def _run(self, made_of: Dict[str, Any], code: str, timeout: float, metadata: Dict[str, str]) -> ToolResult:
        policy = {**_options.limits(cpus=CPUS, disk=DISK, timeout=timeout), "scratch_only": True}
        async with AsyncSandbox(**made_of, memory=MEMORY, secrets=self._secrets, policy=policy, metadata=metadata, client=self._client) as box:
            return _tool_result(await box.run(code, last=True))


def _parameters(parameters: Any) -> Tuple[str, float]:
    """Code and timeout."""
    if not isinstance(parameters, Mapping):
        raise UsageError(f"parameters must be a mapping with the key 'code', not {type(parameters).__name__}")
    unknown = sorted(map(repr, set(parameters) - set(_PARAMETERS)))
    if unknown:
        raise UsageError(f"unknown parameter {unknown[0]}; there are {', '.join(_PARAMETERS)}")
    code = parameters.get("code")
    if code is not None and not isinstance(code, str):
        raise UsageError(f"the parameter code must be text, not {type(code).__name__}")
    if not code or not code.strip():
        raise UsageError("the parameter code is missing or empty")
    _check_text("the parameter code", code)
    timeout = parameters.get("timeout", TIMEOUT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not TIMEOUT_MIN_SECONDS <= timeout <= TIMEOUT_MAX_SECONDS:
        raise UsageError(f"timeout must be at least {TIMEOUT_MIN_SECONDS} and at most {TIMEOUT_MAX_SECONDS:.0f} seconds")
    return code, float(timeout)


def _metadata(context: Any) -> Dict[str, str]:
    """The context as metadata of the session."""
    more = getattr(context, "metadata", None)  # a context of the program's own class may have none
    if more is not None and not isinstance(more, Mapping):
        raise UsageError(f"the context's metadata must be a mapping of names to texts, not {type(more).__name__}")
    made = {str(name): str(text) for name, text in (more or {}).items()}
    for name in ("user_id", "agent_id"):
        if not hasattr(context, name):
            raise UsageError(f"context must be an ExecutionContext with the text {name}, not {type(context).__name__}")
        value = getattr(context, name)
        if not isinstance(value, str):
            raise UsageError(f"the context's {name} must be text, not {type(value).__name__}")
        made[name] = value
    for name, value in made.items():
        _check_text("a name of the context's metadata", name)
        _check_text(f"the context's {name}", value)
    return made


def _check_text(what: str, text: str) -> None:
    """Whether the server can be sent it."""
    if "\0" in text:
        raise UsageError(f"{what} contains a NUL character, in line {text.count(chr(10), 0, text.index(chr(0))) + 1}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} contains half of a surrogate pair, in line {text.count(chr(10), 0, error.start) + 1}: such text has no UTF-8") from None


def _tool_result(result: Result) -> ToolResult:
    output, error = result.stdout, None
    if not result.ok:
        error = result.stderr + (result.error.traceback if result.error is not None else "")
        if result.error is None or result.verdict.kind != "error":
            error += result.verdict.message
    return ToolResult(result.ok, output, error, {
        "verdict": str(result.verdict.kind), "backend": result.raw.get("backend"), "stderr": result.stderr, "run": result.id, "duration": result.duration, "exit_code": result.exit_code,
        "peak": dict(result.raw.get("peaks") or {}), "controls": {name: control.state for name, control in result.controls.items()},
        "guard": [dataclasses.asdict(finding) for finding in result.guard], "scrubbed": result.scrubbed})


def apparmor_problem() -> Optional[str]:
    """What is wrong with AppArmor here; None: nothing."""
    try:
        enabled = pathlib.Path("/sys/module/apparmor/parameters/enabled").read_text().strip() == "Y"
    except FileNotFoundError:
        enabled = False
    except OSError as error:
        return f"whether AppArmor is enabled cannot be read: {error.strerror}"
    if not enabled:
        return "AppArmor is not enabled in this kernel: boot with apparmor=1 security=apparmor, or go without; the other layers hold"
    try:
        profiles = list(pathlib.Path("/sys/kernel/security/apparmor/policy/profiles").iterdir())
    except OSError:
        return "the list of AppArmor profiles cannot be read: look as root (aa-status)"
    if not any(profile.name.startswith("glovebox-container.") for profile in profiles):
        return "the profile of glovebox is not loaded: apparmor_parser -r -W /usr/local/share/glovebox/apparmor/glovebox-container"
    return None


def troubleshoot(error: Optional[GloveboxError] = None) -> List[str]:
    """What to do, as lines for people: about an error, and about AppArmor where Docker is meant."""
    advice = [f"{error.message}: {error.hint}" if error.hint else error.message] if error is not None else []
    if isinstance(error, _backend.BackendError) or error is None:
        problem = apparmor_problem()
        if problem:
            advice.append(problem)
    return advice
