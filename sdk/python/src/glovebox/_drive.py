# SPDX-License-Identifier: Apache-2.0
"""Theory of operation: one implementation for `await` and without.

Everything that talks to a server is written once, as coroutines that do their input and output through a Transport (_transport.py). There are two
transports. That of asyncio really waits in its coroutines. The other one blocks in them and never suspends, so a coroutine on top of it runs from its
first to its last line when it is sent None: drive() does that, and the synchronous classes are made of calls of it.

No event loop is involved, and no thread: an exception, Ctrl-C among them, passes through the coroutine's frames as through any others.
"""
from __future__ import annotations

from typing import Any, Coroutine, TypeVar

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that waits by blocking."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking transport has suspended")
