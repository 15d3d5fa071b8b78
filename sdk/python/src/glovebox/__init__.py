# SPDX-License-Identifier: Apache-2.0
"""glovebox: runs untrusted code in boxes.

    >>> import glovebox
    >>> glovebox.run("print(6 * 7)").stdout
    '42\\n'
    >>> with glovebox.Sandbox() as box:
    ...     box.run("x = 6 * 7")
    ...     box.run("x").text
    <Result ok>
    '42'

Sandbox and AsyncSandbox are boxes that live on and keep their variables, Client and AsyncClient are servers, errors are GloveboxErrors.
docs/python.md has the whole of it.
"""
from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Sequence

from ._archive import Pulled
from ._async_client import AsyncClient
from ._async_files import AsyncFiles
from ._async_runs import AsyncRun, AsyncRunStream, TextCallback, ValueCallback
from ._async_sandbox import AsyncContext, AsyncSandbox
from ._async_stats import AsyncSamples
from ._body import Data, Duration, Place, Size
from ._client import Client, client_for
from ._files import Files
from ._runs import Run, RunStream
from ._sandbox import Context, Sandbox
from ._secrets import Secret, Secrets
from ._stats import Samples
from ._version import __version__
from .errors import (BlockedVerdict, CancelledVerdict, ConflictError, ConnectionFailed, CpuVerdict, DeniedError, DiskFullError, DiskVerdict,
                     ErrorVerdict, GloveboxError, InternalError, LimitError, LostError, LostVerdict, MediaError, MemoryVerdict, MethodError,
                     NotFoundError, NotInstalled, OutputVerdict, PidsVerdict, PolicyError, ProtocolError, QuotaError, SyscallVerdict, TimeoutVerdict,
                     TooLargeError, UnauthorizedError, UnavailableError, UnenforceableError, UsageError, VerdictError)
from .events import Event, ExceptionEvent, Output, ResultValue, Started, VerdictEvent
from .findings import Finding, Findings
from .network import NetworkBudget, NetworkHost, NetworkInfo, NetworkUse, Rule
from .records import ContextInfo, FileEntry, RunInfo, ServerInfo, ServerStats, SessionInfo, Stats
from .results import Control, Image, Limits, Peak, Result, RunError, Value, Verdict

__all__ = [
    "AsyncClient", "AsyncContext", "AsyncFiles", "AsyncRun", "AsyncRunStream", "AsyncSamples", "AsyncSandbox", "BlockedVerdict", "CancelledVerdict",
    "Client", "ConflictError", "ConnectionFailed", "Context", "ContextInfo", "Control", "CpuVerdict", "Data", "DeniedError", "DiskFullError",
    "DiskVerdict", "Duration", "ErrorVerdict", "Event", "ExceptionEvent", "FileEntry", "Files", "Finding", "Findings", "GloveboxError", "Image",
    "InternalError", "LimitError", "Limits", "LostError", "LostVerdict", "MediaError", "MemoryVerdict", "MethodError", "NetworkBudget", "NetworkHost",
    "NetworkInfo", "NetworkUse", "NotFoundError", "NotInstalled", "Output", "OutputVerdict", "Peak", "PidsVerdict", "Place", "PolicyError",
    "ProtocolError", "Pulled", "QuotaError", "Result", "ResultValue", "Rule", "Run", "RunError", "RunInfo", "RunStream", "Samples", "Sandbox",
    "Secret", "Secrets", "ServerInfo", "ServerStats", "SessionInfo", "Size", "Started", "Stats", "SyscallVerdict", "TimeoutVerdict", "TooLargeError",
    "UnauthorizedError", "UnavailableError", "UnenforceableError", "UsageError", "Value", "Verdict", "VerdictError", "VerdictEvent", "__version__",
    "check", "run", "run_async", "sessions",
]


def run(code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
        timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
        policy: Optional[Mapping[str, Any]] = None,
        backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
        network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
        template: Optional[str] = "python",
        files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
        on_stdout: Optional[Callable[[str], Any]] = None, on_stderr: Optional[Callable[[str], Any]] = None,
        on_result: Optional[Callable[[Value], Any]] = None, check: bool = False, server: Optional[str] = None, token: Optional[str] = None,
        client: Optional[Client] = None) -> Result:
    """Runs a program in a box of its own, which is gone afterwards.

        >>> glovebox.run("print(open('a').read())", files={"a": "text"}, timeout=5).stdout
        'text\\n'
        >>> glovebox.run("echo $0 $1", language="sh", args=["x"]).stdout.split()[-1]
        'x'
        >>> glovebox.run("while True: pass", timeout=0.5).verdict
        'timeout'

    args, stdin, name: arguments, standard input, name of the file. timeout, memory, trust, env, secrets, policy: as for Sandbox.
    network, allow, allow_ranges: what it may reach, as for Sandbox.
    template: what Python is forked from; None: a fresh interpreter. files: path in the workspace to text or bytes.
    workspace: "private", or a directory of the host, for a server of one's own.
    on_stdout, on_stderr: called with text as it comes. check: raises a VerdictError unless the verdict is ok.
    """
    return client_for(client, server, token).run(
        code, language=language, args=args, stdin=stdin, timeout=timeout, memory=memory, trust=trust, env=env, secrets=secrets, policy=policy,
        backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges, template=template,
        files=files, workspace=workspace, name=name, on_stdout=on_stdout, on_stderr=on_stderr, on_result=on_result, check=check)


async def run_async(code: Data, *, language: str = "python", args: Optional[Sequence[str]] = None, stdin: Optional[Data] = None,
                    timeout: Optional[Duration] = None, memory: Optional[Size] = None, trust: Optional[str] = None,
                    env: Optional[Mapping[str, str]] = None, secrets: Optional[Secrets] = None,
                    policy: Optional[Mapping[str, Any]] = None,
                    backend: Optional[str] = None, image: Optional[str] = None, runtime: Optional[str] = None,
                    network: Optional[str] = None, allow: Optional[Sequence[Rule]] = None, allow_ranges: Optional[Sequence[str]] = None,
                    template: Optional[str] = "python",
                    files: Optional[Mapping[str, Data]] = None, workspace: Place = "private", name: Optional[str] = None,
                    on_stdout: Optional[TextCallback] = None, on_stderr: Optional[TextCallback] = None,
                    on_result: Optional[ValueCallback] = None, check: bool = False, server: Optional[str] = None,
                    token: Optional[str] = None) -> Result:
    """run(), to be awaited."""
    async with AsyncClient(server, token) as client:
        return await client.run(
            code, language=language, args=args, stdin=stdin, timeout=timeout, memory=memory, trust=trust, env=env, secrets=secrets, policy=policy,
            backend=backend, image=image, runtime=runtime, network=network, allow=allow, allow_ranges=allow_ranges,
            template=template, files=files, workspace=workspace, name=name, on_stdout=on_stdout, on_stderr=on_stderr, on_result=on_result, check=check)


def check(code: Data, *, language: str = "python", trust: Optional[str] = None, policy: Optional[Mapping[str, Any]] = None,
          secrets: Optional[Secrets] = None, server: Optional[str] = None, token: Optional[str] = None, client: Optional[Client] = None) -> Findings:
    """What the guard says about code, which is not run.

        >>> [str(each) for each in glovebox.check("import selenium")]
        ['line 1, column 8: The code drives a browser or a desktop, and this box has neither. ... [browser-automation]']
    """
    return client_for(client, server, token).check(code, language=language, trust=trust, policy=policy, secrets=secrets)


def sessions(*, server: Optional[str] = None, token: Optional[str] = None, client: Optional[Client] = None) -> List[SessionInfo]:
    """The sessions that live at a server."""
    return client_for(client, server, token).sessions()
