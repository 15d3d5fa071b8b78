# SPDX-License-Identifier: Apache-2.0
"""Sessions: AsyncSandbox, and the interpreters in one."""
from __future__ import annotations

import os
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Type, Union

from ._async_files import AsyncFiles
from ._async_runs import AsyncRun, AsyncRunStream, Callbacks, TextCallback, ValueCallback, execute, run_request
from ._async_stats import AsyncSamples
from ._body import FRESH, Data, Duration, Place, Size, new_key, policy_body, run_body, session_body, with_context
from ._caller import Caller
from ._http import NDJSON, Request, path_of
from ._secrets import Secrets
from .errors import ConnectionFailed, GloveboxError, NotFoundError, ProtocolError, UsageError
from .network import NetworkInfo, Rule, ranges_body, rules_body
from .records import ContextInfo, RunInfo, SessionInfo, Stats, objects_of
from .results import Result

if TYPE_CHECKING:
    from ._async_client import AsyncClient


class AsyncSandbox:
    """A box with files and interpreters that keep their variables. The same as Sandbox, to be awaited.

        async with AsyncSandbox() as box:
            result = await box.run("6 * 7")
            print(result.text)
    """

    def __init__(self, template: Optional[str] = "python", *, trust: Optional[str] = None, memory: Optional[Size] = None,
                 timeout: Optional[Duration] = None, env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                 policy: Optional[Mapping[str, Any]] = None,
                 backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                 network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                 idle_timeout: Optional[Duration] = None, max_lifetime: Optional[Duration] = None,
                 workspace: Place = "private", name: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None,
                 language: str = "python", server: Optional[str] = None, token: Optional[str] = None,
                 client: Optional["AsyncClient"] = None) -> None:
        self._body = session_body(policy_body(policy, trust, memory, timeout, env, backend, image, runtime, network, allow, allow_ranges),
                                  template, idle_timeout, max_lifetime, workspace, name, metadata, secrets)
        self.language = language
        self._join(client, server, token)

    @classmethod
    def attach(cls, id: str, *, language: str = "python", server: Optional[str] = None, token: Optional[str] = None,
               client: Optional["AsyncClient"] = None) -> "AsyncSandbox":
        """A session that is there already. close() leaves it there; delete() ends it."""
        self = cls.__new__(cls)
        self._body = {}
        self.language = language
        self._join(client, server, token)
        self._id, self._owned = id, False
        return self

    def _join(self, client: Optional["AsyncClient"], server: Optional[str], token: Optional[str]) -> None:
        """The part of the constructor that new and found sessions share."""
        from ._async_client import AsyncClient
        if client is not None and (server is not None or token is not None):
            raise UsageError("a client has a server and a token already: give it, or them")
        self._own_client = client is None
        self.client = client if client is not None else AsyncClient(server, token)
        self._id: Optional[str] = None
        self._info: Optional[SessionInfo] = None
        self._owned = True
        self._closed = False
        self._ended = False  # the server said so; _closed only means that nobody wants it any more
        self._pid = os.getpid()
        self._lock: Any = None
        self._defaults: Dict[str, str] = {}  # language: id of its default context, as far as results told
        self.files = AsyncFiles(self)

    @property
    def _caller(self) -> Caller:
        return self.client._caller

    # Its life

    @property
    def id(self) -> str:
        """The session's id, once it is open."""
        if self._id is None:
            raise UsageError("the sandbox has not been opened yet", hint="`with` does that, open(), or the first run")
        return self._id

    @property
    def is_open(self) -> bool:
        return self._id is not None and not self._closed

    async def open(self) -> "AsyncSandbox":
        """Opens the session, unless that was done; of one that is attached, checks that it is there."""
        if self._lock is None:
            self._lock = self._caller.transport.lock()
        async with self._lock:
            if self._closed:
                raise UsageError("the sandbox is closed")
            if self._id is None:
                self._info = await self._create()
                self._id = self._info.id
                self._body.pop("secrets", None)  # the server has them now
            elif self._info is None:
                self._info = await self.info()
        return self

    async def _template_as_image(self) -> None:
        """An engine has no templates. What a template has, an image of that name has, unless the caller names another."""
        template, policy = self._body.get("template"), self._body.get("policy") or {}
        backend = policy.get("backend")
        if template and backend is None and os.environ.get("GLOVEBOX_BACKEND"):
            await self._caller.transport.call(self._caller.target.address)
            backend = os.environ["GLOVEBOX_BACKEND"] if self._caller.target.private else None
        if template and backend == "docker" and "image" not in policy:
            self._body.update(template=None, policy={**policy, "image": f"glovebox-{template}"})

    async def _create(self) -> SessionInfo:
        await self._template_as_image()
        request = Request.with_json("POST", path_of("v1", "sessions"), self._body, headers={"Idempotency-Key": new_key()})
        try:
            info = SessionInfo.from_object(await self._caller.object(request))
            if not info.id:
                raise ProtocolError("the server's answer has no id of the session")
            return info
        except self._caller.transport.interrupts:
            # Nobody would know of it: the same key again tells which it is.
            try:
                if request.sent:
                    self._id = str((await self._caller.object(request)).get("id"))
                    await self._delete()
            except GloveboxError:
                pass
            finally:
                self._id = None
            raise

    async def opened(self) -> str:
        """The session's id; opens it when that was not done."""
        if self._id is None or self._closed:
            await self.open()
        return self.id

    async def close(self) -> None:
        """Ends the session and all in it; one that was attached is left alone. A second time does nothing. A server that cannot be
        reached is not an error here: the session ends by its idle time."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._owned and self._id is not None and self._pid == os.getpid():
                await self._end()
        except ConnectionFailed:
            pass
        finally:
            if self._own_client:
                await self.client.close()

    async def delete(self) -> None:
        """Ends the session and everything in it, also one that was attached. Raises an error when the server cannot be
        reached: whether the session has ended is then not known."""
        await self.opened()
        await self._end()
        self._closed = True
        if self._own_client:
            await self.client.close()

    async def _end(self) -> bool:
        """Ends the session; whether it was there. An error when it is not known whether it has ended."""
        if self._ended:
            return False
        try:
            await self._delete()
            there = True
        except NotFoundError:
            there = False
        self._ended = True
        return there

    async def _delete(self) -> None:
        await self._caller.json(Request("DELETE", path_of("v1", "sessions", self.id)))

    async def __aenter__(self) -> "AsyncSandbox":
        try:
            return await self.open()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            await self.close()
        except GloveboxError:
            if error is None:
                raise

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_owned", False) and self.is_open and self._pid == os.getpid():
            _warn(f"sandbox {self._id} was not closed", ResourceWarning, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._id or "not opened"
        return f"<{type(self).__name__} {state}>"

    # Runs

    async def _runs_path(self) -> str:
        return path_of("v1", "sessions", await self.opened(), "runs")

    def _run_body(self, code: Data, language: Optional[str], context: Union[None, str, "AsyncContext"], **more: Any) -> Dict[str, Any]:
        wanted = context.id if isinstance(context, AsyncContext) else context
        if wanted is None or wanted == FRESH:
            language = language or self.language  # of a context that is named the server knows it
        return with_context(run_body(code, language=language, **more), wanted)

    async def run(self, code: Data, *, language: Optional[str] = None, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
                  context: Union[None, str, "AsyncContext"] = None, name: Optional[str] = None, args: Optional[Sequence[str]] = None,
                  last: bool = False, on_stdout: Optional[TextCallback] = None, on_stderr: Optional[TextCallback] = None,
                  on_result: Optional[ValueCallback] = None, check: bool = False) -> Result:
        """Runs code and waits for its end. See Sandbox.run()."""
        body = self._run_body(code, language, context, name=name, args=args, stdin=stdin, timeout=timeout, last=last)
        result = await execute(self._caller, await self._runs_path(), body, Callbacks(on_stdout, on_stderr, on_result))
        if context is None and result.context is not None:
            self._defaults[str(body.get("language"))] = result.context
        return result.raise_for_verdict() if check else result

    def stream(self, code: Data, *, language: Optional[str] = None, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
               context: Union[None, str, "AsyncContext"] = None, name: Optional[str] = None, args: Optional[Sequence[str]] = None,
               last: bool = False, on_break: str = "cancel") -> AsyncRunStream:
        """Runs code, and gives its events as they come. It begins with the loop, or with `async with`."""
        body = self._run_body(code, language, context, name=name, args=args, stdin=stdin, timeout=timeout, last=last)
        return _SessionStream(self, body, on_break)

    async def start(self, code: Data, *, language: Optional[str] = None, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
                    context: Union[None, str, "AsyncContext"] = None, name: Optional[str] = None, args: Optional[Sequence[str]] = None,
                    last: bool = False, interactive: bool = False) -> AsyncRun:
        """Runs code and does not wait. interactive: its standard input stays open for write_stdin()."""
        body = self._run_body(code, language, context, name=name, args=args, stdin=stdin, timeout=timeout, last=last, interactive=interactive, detach=True)
        run = await self._caller.object(run_request(await self._runs_path(), body, "application/json"))
        return AsyncRun(self._caller, str(run["id"]))

    async def runs(self) -> List[RunInfo]:
        """The runs of this session, newest first, without their results."""
        return await self.client.runs(session=await self.opened())

    async def interrupt(self, context: Union[None, str, "AsyncContext"] = None) -> int:
        """As Ctrl-C to what runs in the box, or in one interpreter; variables are kept. To how many it was sent."""
        session = await self.opened()
        if context is not None:
            return await self._interrupt_one(session, context.id if isinstance(context, AsyncContext) else context)
        sent = 0
        for info in await self._context_infos():
            if info.busy:
                sent += await self._interrupt_one(session, info.id)
        for run in await self.client.runs(session=session, state="running"):
            if run.context is None:
                await AsyncRun(self._caller, run.id).cancel()
                sent += 1
        return sent

    async def _interrupt_one(self, session: str, context: str) -> int:
        try:
            await self._caller.json(Request("POST", path_of("v1", "sessions", session, "contexts", context, "interrupt"), repeat=False))
        except GloveboxError as error:
            if error.code != "conflict":  # nothing ran there any more
                raise
            return 0
        return 1

    # Interpreters

    async def _context_infos(self) -> List[ContextInfo]:
        answer = await self._caller.object(Request("GET", path_of("v1", "sessions", await self.opened(), "contexts")))
        return [ContextInfo.from_object(each) for each in objects_of(answer, "contexts")]

    async def context(self, language: Optional[str] = None) -> "AsyncContext":
        """One more interpreter, with variables of its own."""
        request = Request.with_json("POST", path_of("v1", "sessions", await self.opened(), "contexts"), {"language": language or self.language},
                                    repeat=False)
        return AsyncContext(self, ContextInfo.from_object(await self._caller.object(request)))

    async def contexts(self) -> List["AsyncContext"]:
        """The interpreters of the session."""
        return [AsyncContext(self, info) for info in await self._context_infos()]

    async def _default_context(self, language: str) -> Optional[str]:
        """The id of the interpreter that runs of a language get which name none; None when there is none yet."""
        infos = [info for info in await self._context_infos() if info.language == language]
        said = next((info.id for info in infos if info.default), None)
        known = self._defaults.get(language)
        if said is None and any(info.id == known for info in infos):
            return known
        if said is None and infos and all(info.default is None for info in infos):
            return infos[0].id  # a server that does not say; nobody ran anything from here
        return said

    async def restart(self, context: Union[None, str, "AsyncContext"] = None, language: Optional[str] = None) -> None:
        """A new interpreter for the default context (of a language) or another one: variables are gone, files stay."""
        session = await self.opened()
        wanted = context.id if isinstance(context, AsyncContext) else context
        if wanted is None:
            wanted = await self._default_context(language or self.language)
        if wanted is not None:
            await self._caller.json(Request("POST", path_of("v1", "sessions", session, "contexts", wanted, "restart"), repeat=False))

    # About it

    async def info(self) -> SessionInfo:
        """What the server says of the session."""
        path = path_of("v1", "sessions", self._id if self._id is not None and not self._closed else await self.opened())
        return SessionInfo.from_object(await self._caller.object(Request("GET", path)))

    async def stats(self) -> Stats:
        """What it uses now."""
        return Stats.from_object(await self._caller.object(Request("GET", path_of("v1", "sessions", await self.opened(), "stats"))))

    def stats_stream(self, interval: float = 1.0) -> AsyncSamples[Stats]:
        """Samples every so many seconds (0.1 to 60), until the session ends. The sandbox has to be open."""
        return AsyncSamples(self._caller, path_of("v1", "sessions", self.id, "stats", query={"interval": interval}), Stats.from_object)

    async def network(self) -> NetworkInfo:
        """What it may reach, and what it has reached so far."""
        return NetworkInfo.from_object(await self._caller.object(Request("GET", path_of("v1", "sessions", await self.opened(), "network"))))

    async def set_network(self, allow: Sequence[Rule], *, ranges: Optional[Sequence[str]] = None, bytes: Optional[Size] = None,
                          requests: Optional[int] = None, connections: Optional[int] = None) -> NetworkInfo:
        """Other rules from now on, for connections that are open, too. See Sandbox.set_network()."""
        fields = {"allow": rules_body(allow), "ranges": ranges_body(ranges) if ranges is not None else None, "bytes": bytes, "requests": requests,
                  "connections": connections}
        request = Request.with_json("PUT", path_of("v1", "sessions", await self.opened(), "network"),
                                    {key: value for key, value in fields.items() if value is not None})
        return NetworkInfo.from_object(await self._caller.object(request))

    async def patch(self, *, idle_timeout: Optional[Duration] = None, max_lifetime: Optional[Duration] = None, name: Optional[str] = None,
                    metadata: Optional[Mapping[str, str]] = None) -> SessionInfo:
        """Changes the session: what is None stays."""
        fields = {"idle_timeout": idle_timeout, "max_lifetime": max_lifetime, "name": name,
                  "metadata": dict(metadata) if metadata is not None else None}
        request = Request.with_json("PATCH", path_of("v1", "sessions", await self.opened()),
                                    {key: value for key, value in fields.items() if value is not None})
        return SessionInfo.from_object(await self._caller.object(request))

    async def keep_alive(self) -> SessionInfo:
        """Begins its idle time anew."""
        return await self.patch()


class _SessionStream(AsyncRunStream):
    """A stream whose session may have to be opened first."""

    def __init__(self, box: AsyncSandbox, body: Dict[str, Any], on_break: str) -> None:
        super().__init__(box._caller, None, on_break=on_break)
        self._box, self._body = box, body

    async def _connect(self) -> Any:
        if self._request is None:
            self._request = run_request(await self._box._runs_path(), self._body, NDJSON)
        return await super()._connect()


class AsyncContext:
    """An interpreter of a sandbox, with variables of its own. The same as Context, to be awaited."""

    def __init__(self, box: AsyncSandbox, info: ContextInfo) -> None:
        self._box, self.id, self.language, self._info = box, info.id, info.language, info

    async def run(self, code: Data, *, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
                  on_stdout: Optional[TextCallback] = None, on_stderr: Optional[TextCallback] = None,
                  on_result: Optional[ValueCallback] = None, check: bool = False) -> Result:
        """Runs code in it and waits for its end."""
        return await self._box.run(code, context=self, timeout=timeout, stdin=stdin, on_stdout=on_stdout, on_stderr=on_stderr,
                                   on_result=on_result, check=check)

    def stream(self, code: Data, *, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
               on_break: str = "cancel") -> AsyncRunStream:
        return self._box.stream(code, context=self, timeout=timeout, stdin=stdin, on_break=on_break)

    async def start(self, code: Data, *, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
                    interactive: bool = False) -> AsyncRun:
        return await self._box.start(code, context=self, timeout=timeout, stdin=stdin, interactive=interactive)

    async def interrupt(self) -> bool:
        """As Ctrl-C; whether something ran."""
        return await self._box.interrupt(self) > 0

    async def restart(self) -> None:
        """A new interpreter, without the variables."""
        await self._box.restart(self)

    async def info(self) -> ContextInfo:
        for info in await self._box._context_infos():
            if info.id == self.id:
                return info
        raise NotFoundError(f"there is no context {self.id!r} any more", status=404)

    async def close(self) -> None:
        """Ends it."""
        try:
            await self._box._caller.json(Request("DELETE", path_of("v1", "sessions", self._box.id, "contexts", self.id)))
        except NotFoundError:
            pass

    async def __aenter__(self) -> "AsyncContext":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            await self.close()
        except GloveboxError:
            if error is None:
                raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.language}>"
