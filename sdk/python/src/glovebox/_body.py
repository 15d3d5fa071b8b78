# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests, from the arguments of the methods."""
from __future__ import annotations

import base64
import os
import secrets
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from ._secrets import Secrets, secrets_body
from .errors import UsageError
from .network import Rule, ranges_body, rules_body

#: Seconds, or text with a unit: 1.5, "500ms", "2m".
Duration = Union[int, float, str]
#: Bytes, or text with a unit: "512m".
Size = Union[int, str]
#: "private", "kept", or a directory of the host.
Place = Union[str, "os.PathLike[str]"]
#: What goes to a program, or into a file.
Data = Union[str, bytes]

FRESH = "fresh"  # the context of a program of its own
USUAL_TEMPLATE = "python"  # not said to the server: it takes this one where a box can come from a template, which one of an engine or an image cannot


def new_key() -> str:
    """An Idempotency-Key."""
    return "py-" + secrets.token_hex(16)


def text_or_base64(data: Any, what: str) -> Any:
    if isinstance(data, str):
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(data).decode()}
    raise UsageError(f"{what} is to be text or bytes, not {type(data).__name__}")


def _given(**fields: Any) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def policy_body(policy: Optional[Mapping[str, Any]], trust: Optional[str], memory: Optional[Size], timeout: Optional[Duration],
                env: Optional[Mapping[str, str]], backend: Optional[str] = None, image: Optional[str] = None,
                runtime: Optional[str] = None, network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None,
                allow_ranges: Optional[Sequence[str]] = None) -> Optional[Dict[str, Any]]:
    """The policy, of the arguments that are parts of it."""
    if allow is not None and network is None and "network_mode" not in (policy or {}):
        network = "allowlist"
    made = dict(policy or {})
    for argument, key, value in (("trust", "trust", trust), ("memory", "mem_limit", memory), ("timeout", "timeout", timeout),
                                 ("env", "env", dict(env) if env is not None else None), ("backend", "backend", backend), ("image", "image", image),
                                 ("runtime", "runtime", runtime), ("network", "network_mode", network),
                                 ("allow", "network_allow", rules_body(allow) if allow is not None else None),
                                 ("allow_ranges", "network_ranges", ranges_body(allow_ranges) if allow_ranges is not None else None)):
        if value is None:
            continue
        if key in made:
            raise UsageError(f"{argument} and policy[{key!r}] are the same: give one of them", details={"field": argument})
        made[key] = value
    return made or None


def code_text(code: Data) -> str:
    if isinstance(code, str):
        return code
    if not isinstance(code, (bytes, bytearray, memoryview)):
        raise UsageError(f"code must be text or bytes, not {type(code).__name__}", details={"field": "code"})
    try:
        return bytes(code).decode()
    except UnicodeDecodeError:
        raise UsageError("code has to be UTF-8", details={"field": "code"}) from None


def run_body(code: Data, *, language: Optional[str], name: Optional[str], args: Optional[Sequence[str]], stdin: Optional[Data], timeout: Optional[Duration],
             interactive: bool = False, detach: bool = False, last: bool = False) -> Dict[str, Any]:
    """What one-shot runs and runs in a session have in common."""
    if interactive and stdin is not None:
        raise UsageError("interactive and stdin exclude each other", details={"field": "stdin"})
    return _given(code=code_text(code), language=language, name=name, args=[str(each) for each in args] if args is not None else None,
                  stdin=text_or_base64(stdin, "stdin") if stdin is not None else None, timeout=timeout,
                  interactive=True if interactive else None, detach=True if detach else None, last=True if last else None)


def with_context(body: Dict[str, Any], context: Optional[str]) -> Dict[str, Any]:
    """context: None: the default one; "fresh": none."""
    if context is not None:
        body["context"] = None if context == FRESH else context
    return body


def _workspace(place: Place) -> Any:
    path = os.fspath(place)
    if path in ("private", "kept"):
        return path
    if isinstance(place, str) and not os.path.isabs(path):
        raise UsageError(f"workspace is \"private\", \"kept\" or an absolute path, not {path!r}", details={"field": "workspace"})
    return {"path": os.path.abspath(path)}


def with_box(body: Dict[str, Any], policy: Optional[Dict[str, Any]], template: Optional[str], files: Optional[Mapping[str, Data]],
             workspace: Place, secrets: Optional[Secrets] = None) -> Dict[str, Any]:
    """Of a one-shot run: the box that is made for it."""
    body.update(_given(secrets=secrets_body(secrets)))
    if policy:
        body["policy"] = policy
    if template != USUAL_TEMPLATE:
        body["template"] = template
    if workspace != "private":
        body["workspace"] = _workspace(workspace)
    if files:
        body["files"] = {path: text_or_base64(data, f"files[{path!r}]") for path, data in files.items()}
    return body


def check_body(code: Data, language: str, policy: Optional[Dict[str, Any]], secrets: Optional[Secrets]) -> Dict[str, Any]:
    return _given(code=code_text(code), language=language, policy=policy, secrets=secrets_body(secrets))


def session_body(policy: Optional[Dict[str, Any]], template: Optional[str], idle_timeout: Optional[Duration], max_lifetime: Optional[Duration],
                 workspace: Place, name: Optional[str], metadata: Optional[Mapping[str, str]], secrets: Optional[Secrets] = None) -> Dict[str, Any]:
    body = _given(policy=policy, secrets=secrets_body(secrets), idle_timeout=idle_timeout, max_lifetime=max_lifetime, name=name,
                  metadata=dict(metadata) if metadata is not None else None)
    if template != USUAL_TEMPLATE:
        body["template"] = template
    if workspace != "private":
        body["workspace"] = _workspace(workspace)
    return body
