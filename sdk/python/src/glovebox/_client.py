# SPDX-License-Identifier: Apache-2.0
"""Client, without `await`: what this class does is written in _async_client.py."""
from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type

from . import _exit
from ._async_client import RETRY_SECONDS, AsyncClient
from ._body import Data, Duration, Place, Size
from ._drive import drive
from ._runs import Run, RunStream
from ._sandbox import Sandbox
from ._secrets import Secrets
from ._stats import Samples
from ._transport import BlockingTransport
from .errors import UsageError
from .findings import Findings
from .network import Rule
from .records import Json, RunInfo, ServerInfo, ServerStats, SessionInfo
from .results import Control, Result, Value


class Client:
    """A server and the connections to it. For several threads at once, and for both sides of a fork().

        >>> with Client() as client:  # or Client("https://boxes.example:8443", token="gbx_...")
        ...     print(client.run("print(1)").stdout, client.info().api)
        1
         v1

    server, token: see docs/python.md for what is used when they are not given.
    retry_for: how many seconds lost connections and "try later" are tried again; 0: never.
    ssl_context: an ssl.SSLContext, for https with a certificate authority of one's own.
    """

    def __init__(self, server: Optional[str] = None, token: Optional[str] = None, *, retry_for: float = RETRY_SECONDS,
                 ssl_context: Any = None) -> None:
        self._core = AsyncClient(server, token, retry_for=retry_for, ssl_context=ssl_context, _transport=BlockingTransport())
        _exit.clients.add(self)

    @property
    def server(self) -> str:
        """Its address as text."""
        return self._core.server

    def close(self) -> None:
        """Closes the connections. Sessions and runs go on."""
        drive(self._core.close())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self.server}>"

    # One-shot runs

    def run(self, code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
            timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
            env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
            policy: Optional[Mapping[str, Any]] = None,
            backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
            network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
            template: Optional[str] = "python",
            files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
            on_stdout: Optional[Callable[[str], Any]] = None, on_stderr: Optional[Callable[[str], Any]] = None,
            on_result: Optional[Callable[[Value], Any]] = None, check: bool = False) -> Result:
        """Runs a program in a box of its own and waits for its end. See glovebox.run()."""
        return drive(self._core.run(
            code, language=language, args=args, stdin=stdin, timeout=timeout, memory=memory, trust=trust, env=env, secrets=secrets, policy=policy,
            backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges,
            template=template, files=files, workspace=workspace, name=name, on_stdout=on_stdout, on_stderr=on_stderr, on_result=on_result, check=check))

    def stream(self, code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
               timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
               env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
               policy: Optional[Mapping[str, Any]] = None,
               backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
               network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
               template: Optional[str] = "python",
               files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
               on_break: str = "cancel") -> RunStream:
        """The same as an iterator of events."""
        return RunStream(self._core.stream(
            code, language=language, args=args, stdin=stdin, timeout=timeout, memory=memory, trust=trust, env=env, secrets=secrets, policy=policy,
            backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges,
            template=template, files=files, workspace=workspace, name=name, on_break=on_break))

    def start(self, code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
              timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
              env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
              policy: Optional[Mapping[str, Any]] = None,
              backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
              network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
              template: Optional[str] = "python",
              files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
              interactive: bool = False) -> Run:
        """The same, without waiting."""
        return Run(drive(self._core.start(
            code, language=language, args=args, stdin=stdin, timeout=timeout, memory=memory, trust=trust, env=env, secrets=secrets, policy=policy,
            backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges,
            template=template, files=files, workspace=workspace, name=name, interactive=interactive)))

    def check(self, code: Data, *, language: str = "python", trust: Optional[str] = None, policy: Optional[Mapping[str, Any]] = None,
              secrets: Optional[Secrets] = None) -> Findings:
        """What the guard says about code, which is not run: a list of Finding, empty when there is nothing to say.

            >>> with Client() as client:
            ...     found = client.check("open('/var/run/docker.sock')")
            >>> found.blocked, found[0].rule, found[0].line
            (True, 'container-socket', 1)

        trust, policy: as for Sandbox, of which guard, guard_rules, guard_imports and scrub are what counts here. secrets: as there; whether one is in the code.
        """
        return drive(self._core.check(code, language=language, trust=trust, policy=policy, secrets=secrets))

    def runs(self, session: Optional[str] = None, state: Optional[str] = None, limit: Optional[int] = None) -> List[RunInfo]:
        """Runs that the journal has, newest first, without their results. state: "queued", "running" or "ended"."""
        return drive(self._core.runs(session, state, limit))

    def get_run(self, id: str) -> Run:
        """A run by its id; NotFoundError when there is none."""
        return Run(drive(self._core.get_run(id)))

    # Sessions

    def sandbox(self, template: Optional[str] = "python", *, trust: Optional[str] = None, memory: Optional[Size] = None,
                timeout: Optional[Duration] = None, env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                policy: Optional[Mapping[str, Any]] = None,
                backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                idle_timeout: Optional[Duration] = None, max_lifetime: Optional[Duration] = None,
                workspace: Place = "private", name: Optional[str] = None,
                metadata: Optional[Mapping[str, str]] = None, language: str = "python") -> Sandbox:
        """A sandbox at this server."""
        return Sandbox(template, trust=trust, memory=memory, timeout=timeout, env=env, secrets=secrets, policy=policy,
                       backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges, idle_timeout=idle_timeout,
                       max_lifetime=max_lifetime, workspace=workspace, name=name, metadata=metadata, language=language, client=self)

    def attach(self, id: str, *, language: str = "python") -> Sandbox:
        """A session that is there already."""
        return Sandbox.attach(id, language=language, client=self)

    def sessions(self) -> List[SessionInfo]:
        """The sessions that live."""
        return drive(self._core.sessions())

    def session(self, id: str) -> SessionInfo:
        return drive(self._core.session(id))

    def delete_session(self, id: str) -> None:
        drive(self._core.delete_session(id))

    # About the server

    def info(self) -> ServerInfo:
        return drive(self._core.info())

    def policies(self) -> Json:
        """The trust levels and their limits."""
        return drive(self._core.policies())

    def templates(self) -> List[Json]:
        return drive(self._core.templates())

    def languages(self) -> List[Json]:
        return drive(self._core.languages())

    def doctor(self) -> Dict[str, Control]:
        """What the default policy would have on the server's host, by name."""
        return drive(self._core.doctor())

    def audit(self, *, since: Optional[str] = None, until: Optional[str] = None, verdict: Optional[str] = None, session: Optional[str] = None,
              tenant: Optional[str] = None, limit: Optional[int] = None) -> List[Json]:
        """Who ran what, newest first."""
        return drive(self._core.audit(since=since, until=until, verdict=verdict, session=session, tenant=tenant, limit=limit))

    def stats(self) -> ServerStats:
        """What the server and all that lives there use now."""
        return drive(self._core.stats())

    def stats_stream(self, interval: float = 1.0) -> "Samples[ServerStats]":
        return Samples(self._core.stats_stream(interval))

    def health(self) -> bool:
        """Whether it answers."""
        return drive(self._core.health())

    def ready(self) -> str:
        """"ready", or why not: "starting", "draining", "degraded"."""
        return drive(self._core.ready())


_defaults: Dict[Tuple[Optional[str], Optional[str]], Client] = {}
_defaults_lock = threading.Lock()


def client_for(client: Optional[Client], server: Optional[str], token: Optional[str]) -> Client:
    """The given client, or the one that all share who name the same server."""
    if client is not None:
        if server is not None or token is not None:
            raise UsageError("a client has a server and a token already: give it, or them")
        return client
    key = (server or os.environ.get("GLOVEBOX_SERVER") or None, token or os.environ.get("GLOVEBOX_TOKEN") or None)
    with _defaults_lock:
        if key not in _defaults:
            _defaults[key] = Client(*key)
        return _defaults[key]


def _after_fork() -> None:
    global _defaults_lock
    _defaults_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
