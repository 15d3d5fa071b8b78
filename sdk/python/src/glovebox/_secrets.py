# SPDX-License-Identifier: Apache-2.0
"""Secrets on their way to the server: their values are in requests, and nowhere that shows them."""
from __future__ import annotations

from typing import Any, Dict, Mapping, NoReturn, Optional, Union

from .errors import UsageError

#: A text, which becomes a variable; or {"value": text, "file": "/run/secrets/..."}, which becomes a file.
Secret = Union[str, Mapping[str, str]]
Secrets = Mapping[str, Secret]


class Hidden(str):
    """A text that JSON has as it is, and that repr() does not show: debuggers, logs of exceptions and notebooks print what is in variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[secret]'"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret is not pickled")

    def __copy__(self) -> "Hidden":
        return self

    def __deepcopy__(self, memo: Any) -> "Hidden":
        return self


def _is_text(value: Any) -> bool:
    """Whether it is one that UTF-8 has."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _wrong(name: object, why: str) -> UsageError:
    return UsageError(f"secrets[{name!r}] {why}", hint='a text, or {"value": text, "file": "/run/secrets/..."}', details={"field": "secrets"})


def secrets_body(secrets: Optional[Secrets]) -> Optional[Dict[str, Any]]:
    """As a request has them. Errors name a secret and never show it."""
    if secrets is None:
        return None
    if not isinstance(secrets, Mapping):
        raise UsageError("secrets are a mapping of names to texts", details={"field": "secrets"})
    body: Dict[str, Any] = {}
    for name, secret in secrets.items():
        file = secret.get("file") if isinstance(secret, Mapping) else None
        value = secret.get("value") if isinstance(secret, Mapping) else secret
        if not _is_text(name):
            raise _wrong(name, "has a name that is no text")
        if not _is_text(value):
            raise _wrong(name, "has no value that is text")
        if isinstance(secret, Mapping) and not set(secret) <= {"value", "file"}:
            raise _wrong(name, "has keys that are unknown")
        if file is None:
            body[name] = Hidden(value)
        elif isinstance(file, str):
            body[name] = {"value": Hidden(value), "file": file}
        else:
            raise _wrong(name, "has a file that is no text")
    return body or None
