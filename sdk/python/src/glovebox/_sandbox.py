# SPDX-License-Identifier: Apache-2.0
"""Sandbox and Context, without `await`: what these classes do is written in _async_sandbox.py."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from ._async_sandbox import AsyncContext, AsyncSandbox
from ._body import Data, Duration, Place, Size
from ._drive import drive
from ._files import Files
from ._runs import Run, RunStream
from ._secrets import Secrets
from ._stats import Samples
from .network import NetworkInfo, Rule
from .records import ContextInfo, RunInfo, SessionInfo, Stats
from .results import Result, Value

if TYPE_CHECKING:
    from ._client import Client

#: The default context of the language; one, or its id; "fresh": none, a program of its own.
ContextLike = Union[None, str, "Context"]
S = TypeVar("S", bound="Sandbox")


def _core_of(context: ContextLike) -> Union[None, str, AsyncContext]:
    return context._core if isinstance(context, Context) else context


class Sandbox:
    """A box with files and interpreters that keep their variables: a session of a server.

        >>> with Sandbox(memory="1g", timeout=60) as box:
        ...     box.run("import statistics; numbers = [1, 2, 6]")
        ...     print(box.run("statistics.mean(numbers)").text)
        <Result ok>
        3

    It is opened by `with`, or by the first call that needs it, and gone after close().

    template: what Python is forked from ("python", "python-data"); None: a fresh interpreter. On an engine it is the image glovebox-python-data, unless image
    names another.
    trust: a trust level of the server's policy file. memory, timeout, env: keys of the policy; policy: any others that a caller may set.
    secrets: {"NAME": "value"}: variables of the code that come back from nowhere: in output, values and errors there is [scrubbed:NAME] in their place. With
    {"NAME": {"value": "...", "file": "/run/secrets/name"}} it is a file in the box. The server shows only their names.
    backend: who isolates: "native", or "docker", an engine. image, runtime: what the box is made of, and of an engine by whom it is run. What is None is as the
    server's policy has it; what else it lets callers choose its configuration says (backends, images, runtimes).
    network: "none"; "allowlist": what the rules of allow name, and nothing else; "host": everything that the host can reach. allow: rules ("pypi.org",
    "*.example.com:443,8443", "http://deb.debian.org/debian/", "tcp://github.com:22", a preset such as "python-packages", or dicts); alone they mean
    network="allowlist". allow_ranges: addresses that are not public and may be dialled ("10.1.0.0/16"). See docs/network.md.
    idle_timeout, max_lifetime: when the session ends by itself.
    workspace: "private"; "kept"; or a directory of the host, for a server of one's own.
    name, metadata: for people. language: of runs that name none.
    server, token: which server; client: one that is connected already. See docs/python.md for what is used when none is given.
    """

    def __init__(self, template: Optional[str] = "python", *, trust: Optional[str] = None, memory: Optional[Size] = None,
                 timeout: Optional[Duration] = None, env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                 policy: Optional[Mapping[str, Any]] = None,
                 backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                 network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                 idle_timeout: Optional[Duration] = None, max_lifetime: Optional[Duration] = None,
                 workspace: Place = "private", name: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None,
                 language: str = "python", server: Optional[str] = None, token: Optional[str] = None, client: Optional["Client"] = None) -> None:
        from ._client import client_for
        self.client = client_for(client, server, token)
        self._begin(AsyncSandbox(
            template, trust=trust, memory=memory, timeout=timeout, env=env, secrets=secrets, policy=policy,
            backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges, idle_timeout=idle_timeout, max_lifetime=max_lifetime,
            workspace=workspace, name=name, metadata=metadata, language=language, client=self.client._core))

    @classmethod
    def attach(cls: "Type[S]", id: str, *, language: str = "python", server: Optional[str] = None, token: Optional[str] = None,
               client: Optional["Client"] = None) -> "S":
        """A session that is there already. close() leaves it there; delete() ends it.

            >>> Sandbox.attach(box.id).run("x").text
            '42'
        """
        from ._client import client_for
        self = cls.__new__(cls)
        self.client = client_for(client, server, token)
        self._begin(AsyncSandbox.attach(id, language=language, client=self.client._core))
        return self

    def _begin(self, core: AsyncSandbox) -> None:
        from ._exit import sandboxes
        core._lock = core._caller.transport.lock()  # here, where no other thread knows of it yet
        self._core = core
        self.files = Files(core.files)
        sandboxes.add(self)

    # Its life

    @property
    def id(self) -> str:
        """The session's id, once it is open."""
        return self._core.id

    @property
    def is_open(self) -> bool:
        return self._core.is_open

    @property
    def language(self) -> str:
        return self._core.language

    def open(self) -> "Sandbox":
        """Opens the session, unless that was done; of one that is attached, checks that it is there."""
        drive(self._core.open())
        return self

    def close(self) -> None:
        """Ends the session and all in it; one that was attached is left alone. A second time does nothing."""
        drive(self._core.close())

    def delete(self) -> None:
        """Ends the session and all in it, also one that was attached."""
        drive(self._core.delete())

    def __enter__(self) -> "Sandbox":
        drive(self._core.__aenter__())
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        drive(self._core.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return repr(self._core).replace("<Async", "<", 1)

    # Runs

    def run(self, code: Data, *, language: Optional[str] = None, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
            context: ContextLike = None, name: Optional[str] = None, args: Optional[Sequence[str]] = None, last: bool = False,
            on_stdout: Optional[Callable[[str], Any]] = None, on_stderr: Optional[Callable[[str], Any]] = None,
            on_result: Optional[Callable[[Value], Any]] = None, check: bool = False) -> Result:
        """Runs code and waits for its end.

            >>> box.run("x = 20")
            <Result ok>
            >>> box.run("x + 22").text
            '42'
            >>> box.run("echo $PWD", language="bash").stdout
            '/sandbox\\n'
            >>> box.run("import sys; print(sys.argv[1:])", context="fresh", args=["a"]).stdout
            "['a']\\n"

        timeout: of this run. stdin: text or bytes. context: None: the interpreter that the language has by default; a Context or its id;
        "fresh": a program of its own, for which name (of its file) and args are.
        last: the interpreter ends after the code, as a program does: it waits for threads, calls exit functions, and exit_code is its status.
        on_stdout, on_stderr, on_result: called with text, and with values, as they come.
        check: raises a VerdictError unless the verdict is ok.

        Ctrl-C cancels the run, and is then raised as always.
        """
        return drive(self._core.run(
            code, language=language, timeout=timeout, stdin=stdin, context=_core_of(context), name=name, args=args, last=last,
            on_stdout=on_stdout, on_stderr=on_stderr, on_result=on_result, check=check))

    def stream(self, code: Data, *, language: Optional[str] = None, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
               context: ContextLike = None, name: Optional[str] = None, args: Optional[Sequence[str]] = None,
               last: bool = False, on_break: str = "cancel") -> RunStream:
        """Runs code, and gives its events as they come. It begins with the loop, or with `with`. on_break: what becomes of the run when the loop is left
        early: "cancel" or "continue"."""
        return RunStream(self._core.stream(
            code, language=language, timeout=timeout, stdin=stdin, context=_core_of(context), name=name, args=args, last=last, on_break=on_break))

    def start(self, code: Data, *, language: Optional[str] = None, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
              context: ContextLike = None, name: Optional[str] = None, args: Optional[Sequence[str]] = None, last: bool = False,
              interactive: bool = False) -> Run:
        """Runs code and does not wait. interactive: its standard input stays open for write_stdin()."""
        return Run(drive(self._core.start(
            code, language=language, timeout=timeout, stdin=stdin, context=_core_of(context), name=name, args=args, last=last, interactive=interactive)))

    def runs(self) -> List[RunInfo]:
        """The runs of this session, newest first, without their results."""
        return drive(self._core.runs())

    def interrupt(self, context: ContextLike = None) -> int:
        """From another thread: as Ctrl-C to what runs in the box, or in one interpreter; variables are kept. To how many it was sent."""
        return drive(self._core.interrupt(_core_of(context)))

    # Interpreters

    def context(self, language: Optional[str] = None) -> "Context":
        """One more interpreter, with variables of its own.

            >>> with box.context() as other:
            ...     other.run("x").error.name
            'NameError'
        """
        return Context(drive(self._core.context(language)))

    def contexts(self) -> List["Context"]:
        """The interpreters of the session."""
        return [Context(each) for each in drive(self._core.contexts())]

    def restart(self, context: ContextLike = None, language: Optional[str] = None) -> None:
        """A new interpreter for the default context (of a language) or another one: variables are gone, files stay."""
        drive(self._core.restart(_core_of(context), language))

    # About it

    def info(self) -> SessionInfo:
        """What the server says of the session."""
        return drive(self._core.info())

    def stats(self) -> Stats:
        """What it uses now.

            >>> box.stats().memory_bytes > 0, box.stats().pids_limit
            (True, 128)
        """
        return drive(self._core.stats())

    def stats_stream(self, interval: float = 1.0) -> "Samples[Stats]":
        """Samples every so many seconds (0.1 to 60), until the session ends."""
        drive(self._core.opened())
        return Samples(self._core.stats_stream(interval))

    def network(self) -> NetworkInfo:
        """What it may reach, and what it has reached so far.

            >>> with Sandbox(allow=["pypi.org"]) as careful:
            ...     info = careful.network()
            >>> info.mode, [rule["host"] for rule in info.rules], info.used.requests
            ('allowlist', ['pypi.org'], 0)
        """
        return drive(self._core.network())

    def set_network(self, allow: Sequence[Rule], *, ranges: Optional[Sequence[str]] = None, bytes: Optional[Size] = None,
                    requests: Optional[int] = None, connections: Optional[int] = None) -> NetworkInfo:
        """Other rules from now on, of a session that has an allowlist. What is open and not allowed any more is cut.

            >>> with Sandbox(allow=["python-packages"]) as careful:
            ...     # ... install something, and then:
            ...     print(careful.set_network([]).rules)
            []

        ranges: of addresses that are not public and may be dialled. bytes, requests, connections: budgets of the whole session. What is None stays; a server that
        one reaches by a token takes only what its policy allows.
        """
        return drive(self._core.set_network(allow, ranges=ranges, bytes=bytes, requests=requests, connections=connections))

    def patch(self, *, idle_timeout: Optional[Duration] = None, max_lifetime: Optional[Duration] = None, name: Optional[str] = None,
              metadata: Optional[Mapping[str, str]] = None) -> SessionInfo:
        """Changes the session: what is None stays."""
        return drive(self._core.patch(idle_timeout=idle_timeout, max_lifetime=max_lifetime, name=name, metadata=metadata))

    def keep_alive(self) -> SessionInfo:
        """Begins its idle time anew."""
        return drive(self._core.keep_alive())


class Context:
    """An interpreter of a sandbox, with variables of its own: of Sandbox.context()."""

    def __init__(self, core: AsyncContext) -> None:
        self._core = core

    @property
    def id(self) -> str:
        return self._core.id

    @property
    def language(self) -> str:
        return self._core.language

    def run(self, code: Data, *, timeout: Optional[Duration] = None, stdin: Optional[Data] = None,
            on_stdout: Optional[Callable[[str], Any]] = None, on_stderr: Optional[Callable[[str], Any]] = None,
            on_result: Optional[Callable[[Value], Any]] = None, check: bool = False) -> Result:
        """Runs code in it and waits for its end; as Sandbox.run()."""
        return drive(self._core.run(code, timeout=timeout, stdin=stdin, on_stdout=on_stdout, on_stderr=on_stderr, on_result=on_result, check=check))

    def stream(self, code: Data, *, timeout: Optional[Duration] = None, stdin: Optional[Data] = None, on_break: str = "cancel") -> RunStream:
        return RunStream(self._core.stream(code, timeout=timeout, stdin=stdin, on_break=on_break))

    def start(self, code: Data, *, timeout: Optional[Duration] = None, stdin: Optional[Data] = None, interactive: bool = False) -> Run:
        return Run(drive(self._core.start(code, timeout=timeout, stdin=stdin, interactive=interactive)))

    def interrupt(self) -> bool:
        """As Ctrl-C; whether something ran."""
        return drive(self._core.interrupt())

    def restart(self) -> None:
        """A new interpreter, without the variables."""
        drive(self._core.restart())

    def info(self) -> ContextInfo:
        return drive(self._core.info())

    def close(self) -> None:
        """Ends it."""
        drive(self._core.close())

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        drive(self._core.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<Context {self.id} {self.language}>"
