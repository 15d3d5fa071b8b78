# SPDX-License-Identifier: Apache-2.0
"""AsyncClient: a server, and all that it has besides sandboxes."""
from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type

from ._address import Target
from ._async_runs import AsyncRun, AsyncRunStream, Callbacks, TextCallback, ValueCallback, execute, run_request
from ._async_sandbox import AsyncSandbox
from ._async_stats import AsyncSamples
from ._body import Data, Duration, Place, Size, check_body, policy_body, run_body, with_box
from ._caller import Caller
from ._http import NDJSON, Request, path_of
from ._secrets import Secrets
from ._transport import Transport
from .findings import Findings
from .network import Rule
from .records import Json, RunInfo, ServerInfo, ServerStats, SessionInfo, objects_of
from .results import Control, Result, controls_by_name

RETRY_SECONDS = 30.0


class AsyncClient:
    """A server and the connections to it. The same as Client, to be awaited."""

    def __init__(self, server: Optional[str] = None, token: Optional[str] = None, *, retry_for: float = RETRY_SECONDS, ssl_context: Any = None,
                 _transport: Optional[Transport] = None) -> None:
        if _transport is None:
            from ._asyncio import AsyncioTransport
            _transport = AsyncioTransport()
        self._caller = Caller(_transport, Target(server, token), retry_for, ssl_context)

    @property
    def server(self) -> str:
        """Its address as text."""
        return str(self._caller.target)

    async def close(self) -> None:
        """Closes the connections. Sessions and runs go on."""
        self._caller.close()
        await self._caller.transport.settle()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.server}>"

    # One-shot runs

    async def run(self, code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
                  timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
                  env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                  policy: Optional[Mapping[str, Any]] = None,
                  backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                  network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                  template: Optional[str] = "python",
                  files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
                  on_stdout: Optional[TextCallback] = None, on_stderr: Optional[TextCallback] = None,
                  on_result: Optional[ValueCallback] = None, check: bool = False) -> Result:
        """Runs a program in a box of its own and waits for its end. See glovebox.run()."""
        body = with_box(run_body(code, language=language, name=name, args=args, stdin=stdin, timeout=timeout),
                        policy_body(policy, trust, memory, None, env, backend, image, runtime, network, allow, allow_ranges), template, files, workspace,
                        secrets)
        result = await execute(self._caller, path_of("v1", "runs"), body, Callbacks(on_stdout, on_stderr, on_result))
        return result.raise_for_verdict() if check else result

    def stream(self, code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
               timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
               env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
               policy: Optional[Mapping[str, Any]] = None,
               backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
               network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
               template: Optional[str] = "python",
               files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
               on_break: str = "cancel") -> AsyncRunStream:
        """The same as an iterator of events."""
        body = with_box(run_body(code, language=language, name=name, args=args, stdin=stdin, timeout=timeout),
                        policy_body(policy, trust, memory, None, env, backend, image, runtime, network, allow, allow_ranges), template, files, workspace,
                        secrets)
        return AsyncRunStream(self._caller, run_request(path_of("v1", "runs"), body, NDJSON), on_break=on_break)

    async def start(self, code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
                    timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
                    env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                    policy: Optional[Mapping[str, Any]] = None,
                    backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                    network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                    template: Optional[str] = "python",
                    files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
                    interactive: bool = False) -> AsyncRun:
        """The same, without waiting."""
        body = with_box(run_body(code, language=language, name=name, args=args, stdin=stdin, timeout=timeout, interactive=interactive, detach=True),
                        policy_body(policy, trust, memory, None, env, backend, image, runtime, network, allow, allow_ranges), template, files, workspace,
                        secrets)
        run = await self._caller.object(run_request(path_of("v1", "runs"), body, "application/json"))
        return AsyncRun(self._caller, str(run["id"]))

    async def check(self, code: Data, *, language: str = "python", trust: Optional[str] = None, policy: Optional[Mapping[str, Any]] = None,
                    secrets: Optional[Secrets] = None) -> Findings:
        """What the guard says about code, which is not run. See Client.check()."""
        body = check_body(code, language, policy_body(policy, trust, None, None, None), secrets)
        answer = await self._caller.object(Request.with_json("POST", path_of("v1", "guard", "check"), body))
        objects_of(answer, "findings")  # without a list nothing is known, which is not the same as nothing found
        return Findings.from_object(answer)

    async def _list(self, key: str, path: Sequence[str], limit: Optional[int] = None, **query: Any) -> List[Dict[str, Any]]:
        """All pages of a list, or as many items as are wanted."""
        found: List[Dict[str, Any]] = []
        cursor: Any = None
        while True:
            size = 1000 if limit is None else min(limit - len(found), 1000)
            page = await self._caller.object(Request("GET", path_of(*path, query={**query, "limit": size, "cursor": cursor})))
            found += objects_of(page, key)
            cursor = page.get("next")
            if cursor is None or (limit is not None and len(found) >= limit):
                return found if limit is None else found[:limit]

    async def runs(self, session: Optional[str] = None, state: Optional[str] = None, limit: Optional[int] = None) -> List[RunInfo]:
        """Runs that the journal has, newest first, without their results. state: "queued", "running" or "ended"."""
        return [RunInfo.from_object(each) for each in await self._list("runs", ("v1", "runs"), limit, session=session, state=state)]

    async def get_run(self, id: str) -> AsyncRun:
        """A run by its id; NotFoundError when there is none."""
        run = AsyncRun(self._caller, id)
        await run.info()
        return run

    # Sessions

    def sandbox(self, template: Optional[str] = "python", *, trust: Optional[str] = None, memory: Optional[Size] = None,
                timeout: Optional[Duration] = None, env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                policy: Optional[Mapping[str, Any]] = None,
                backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                idle_timeout: Optional[Duration] = None, max_lifetime: Optional[Duration] = None,
                workspace: Place = "private", name: Optional[str] = None,
                metadata: Optional[Mapping[str, str]] = None, language: str = "python") -> AsyncSandbox:
        """A sandbox at this server."""
        return AsyncSandbox(template, trust=trust, memory=memory, timeout=timeout, env=env, secrets=secrets, policy=policy,
                            backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges, idle_timeout=idle_timeout,
                            max_lifetime=max_lifetime, workspace=workspace, name=name, metadata=metadata, language=language, client=self)

    def attach(self, id: str, *, language: str = "python") -> AsyncSandbox:
        """A session that is there already."""
        return AsyncSandbox.attach(id, language=language, client=self)

    async def sessions(self) -> List[SessionInfo]:
        """The sessions that live."""
        return [SessionInfo.from_object(each) for each in await self._list("sessions", ("v1", "sessions"))]

    async def session(self, id: str) -> SessionInfo:
        return SessionInfo.from_object(await self._caller.object(Request("GET", path_of("v1", "sessions", id))))

    async def delete_session(self, id: str) -> None:
        await self._caller.json(Request("DELETE", path_of("v1", "sessions", id)))

    # About the server

    async def _get(self, *path: str) -> Json:
        found: Json = await self._caller.object(Request("GET", path_of(*path)))
        return found

    async def info(self) -> ServerInfo:
        return ServerInfo.from_object(await self._get("v1", "info"))

    async def policies(self) -> Json:
        """The trust levels and their limits."""
        return await self._get("v1", "policies")

    async def templates(self) -> List[Json]:
        return objects_of(await self._get("v1", "templates"), "templates")

    async def languages(self) -> List[Json]:
        return objects_of(await self._get("v1", "languages"), "languages")

    async def doctor(self) -> Dict[str, Control]:
        """What the default policy would have on the server's host, by name."""
        return controls_by_name(objects_of(await self._get("v1", "doctor"), "controls"))

    async def audit(self, *, since: Optional[str] = None, until: Optional[str] = None, verdict: Optional[str] = None, session: Optional[str] = None,
                    tenant: Optional[str] = None, limit: Optional[int] = None) -> List[Json]:
        """Who ran what, newest first."""
        return await self._list("records", ("v1", "audit"), limit, since=since, until=until, verdict=verdict, session=session, tenant=tenant)

    async def stats(self) -> ServerStats:
        """What the server and all that lives there use now."""
        return ServerStats.from_object(await self._get("v1", "stats"))

    def stats_stream(self, interval: float = 1.0) -> AsyncSamples[ServerStats]:
        return AsyncSamples(self._caller, path_of("v1", "stats", query={"interval": interval}), ServerStats.from_object)

    async def health(self) -> bool:
        """Whether it answers."""
        return (await self._get("healthz")).get("status") == "ok"

    async def ready(self) -> str:
        """"ready", or why not: "starting", "draining", "degraded"."""
        return await self._caller.status(Request("GET", path_of("readyz")))
