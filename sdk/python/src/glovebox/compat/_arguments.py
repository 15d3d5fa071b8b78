# SPDX-License-Identifier: Apache-2.0
"""Arguments of the wrong type or form: an error names the argument, what was given and what is wanted.

Python takes much for what it is not: a text is a sequence of letters, "no" is true, and an empty path is the current directory. What would mean something
else than its caller thinks is refused here."""
from __future__ import annotations

import os
import re
import shlex
from typing import Any, List, Mapping, Optional, Tuple, Union

from ..errors import LimitError, UsageError

#: Of Linux (MAX_ARG_STRLEN) without the byte that ends it: one argument, or one variable with its name.
ARGUMENT_BYTES_MAX = 131071
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(|s|ms|m|min|h)\Z", re.A)
_SECONDS_MAX = 10**18  # beyond any time there is, and still a float
_UNITS = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "min": 60.0, "h": 3600.0}


def wrong(name: str, value: Any, wanted: str, hint: str = "") -> UsageError:
    return UsageError(f"{name} must be {wanted}, not {shown(value)}", hint=hint, details={"field": name})


def shown(value: Any) -> str:
    """A value in a message: short, and the type where a value says little."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= 60 else f"{value[:60]!r}..."
    return f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


def code(value: Any) -> Union[str, bytes]:
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        raise wrong("code", value, "text or bytes")
    return value if isinstance(value, str) else bytes(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, value, "True or False")
    return value


def path(name: str, value: Any) -> Union[str, "os.PathLike[str]"]:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise wrong(name, value, "the path of a directory", hint="'.' is the current directory" if value == "" else "")
    return value


def texts(name: str, value: Any) -> List[str]:
    """A list of texts. A single text is a list of one."""
    if isinstance(value, str):
        return [value]
    try:
        found = None if isinstance(value, (bytes, Mapping)) else list(value)
    except TypeError:
        found = None
    if found is None:
        raise wrong(name, value, "a list of texts")
    for each in found:
        if not isinstance(each, str):
            raise UsageError(f"{name} must be a list of texts, and contains {shown(each)}", details={"field": name})
    return found


def seconds(name: str, value: Any) -> float:
    """A time as the server reads it: a number of seconds, or text with a unit."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(max(-_SECONDS_MAX, min(value, _SECONDS_MAX))) if isinstance(value, int) else value
    found = _DURATION.match(value) if isinstance(value, str) else None
    if not found:
        raise wrong(name, value, "a time, such as 30, \"30s\" or \"2m\"")
    return float(found.group(1)) * _UNITS[found.group(2)]


def variables(name: str, value: Any) -> List[Tuple[str, Optional[str]]]:
    """Environment variables of a mapping, or of a list of "NAME=value" as docker-py has it. None: the variable is removed."""
    pairs: List[Tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            if not isinstance(each, str) or "=" not in each:
                raise UsageError(f"{name}: {shown(each)} is not NAME=value", hint="variables of this process are not passed on", details={"field": name})
            key, _, text = each.partition("=")
            pairs.append((key, text))
    elif value is not None:
        raise wrong(name, value, 'a mapping, or a list such as ["NAME=value"]')
    for key, _ in pairs:
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise UsageError(f"{name}: {shown(key)} is not the name of a variable", details={"field": name})
    return [(key, None if text is None else _decoded(name, text)) for key, text in pairs]


def command(value: Any) -> List[str]:
    """A command as a list of its arguments. A text is split as a shell does it."""
    words: Optional[List[str]] = None
    if isinstance(value, (str, bytes)):
        try:
            words = shlex.split(_decoded("cmd", value))
        except ValueError as error:
            raise UsageError(f"cmd cannot be split into arguments: {error}", hint="give a list of arguments", details={"field": "cmd"}) from None
    else:
        try:
            words = None if isinstance(value, Mapping) else [_decoded("cmd", each) for each in value]
        except TypeError:
            pass  # nothing that can be iterated over
    if words is None:
        raise wrong("cmd", value, "text or a list of arguments")
    if not words or not words[0]:
        raise UsageError("cmd is empty", hint="name a program", details={"field": "cmd"})
    return words


def check_lengths(words: List[str]) -> List[str]:
    """The arguments, when Linux takes each of them."""
    for word in words:
        length = len(word.encode("utf-8", "surrogatepass"))
        if length > ARGUMENT_BYTES_MAX:
            raise LimitError(f"an argument or variable of a command has {length} bytes, and Linux takes {ARGUMENT_BYTES_MAX} at most",
                             hint="write the data to a file, or run code with stdin")
    return words


def _decoded(name: str, value: Any) -> str:
    if value is None:
        raise UsageError(f"{name} contains None", hint="text is wanted", details={"field": name})
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{name} contains bytes that are not UTF-8: {shown(value)}", details={"field": name}) from None
    text = str(value)
    if "\0" in text:
        raise UsageError(f"{name} contains a NUL character", details={"field": name})
    return text
