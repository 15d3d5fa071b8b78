# SPDX-License-Identifier: Apache-2.0
"""What is tidied up when the interpreter ends, in this order: sandboxes that were not closed, connections, the private server."""
from __future__ import annotations

import atexit
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._client import Client
    from ._sandbox import Sandbox

sandboxes: "weakref.WeakSet[Sandbox]" = weakref.WeakSet()
clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _tidy() -> None:
    for sandbox in list(sandboxes):
        core = sandbox._core
        # Those of the private server end with it; to wait for each would only take time.
        if core.is_open and core._owned and not core._caller.target.private:
            core._caller.retry_for = 0.0
            try:
                sandbox.close()
            except Exception:
                pass  # the session's idle time ends it
        else:
            core._closed = True
    for client in list(clients):
        client.close()
    private = sys.modules.get("glovebox._private")
    if private is not None:
        private.stop()


atexit.register(_tidy)
