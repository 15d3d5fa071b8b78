# SPDX-License-Identifier: Apache-2.0
"""A sandbox that can be used as the container object of docker-py, as far as programs for boxes do that."""
from __future__ import annotations

import signal
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .. import Output, Run, Sandbox
from .._runs import RunStream
from ..errors import NotFoundError, PolicyError, UsageError, verdict_error
from ..events import VerdictEvent
from ..results import Result
from . import _arguments

#: The exit status of a command that glovebox ended, as `glovebox run` has it. How a lost one ended is not known: it has none.
STATUS = {"timeout": 124, "cpu": 122, "memory": 118, "pids": 119, "disk": 120, "output": 121, "syscall": 123, "blocked": 117, "cancelled": 130}
WORKDIR = "/workspace"
_EXEC = 'cd -- "$1" && shift && exec "$@"'
_PLAIN = ("sh", "-c", 'exec "$@"', "sh")  # for a program whose name env would take for a variable


class ExecResult(NamedTuple):
    """exit_code is None while a stream is not read to its end, and of a command that was started with detach=True."""

    exit_code: Optional[int]
    output: Any


class Container(Sandbox):
    """A Sandbox with id, name, status, exec_run(), stop(), remove() and reload() of a container of docker-py."""

    working_dir = WORKDIR  #: where exec_run() begins, unless it is called with workdir

    @property
    def name(self) -> str:
        """Its name, else its id; also after it has ended."""
        if self.is_open:
            try:
                self._core._info = self.info()
            except NotFoundError:
                pass
        known = self._core._info
        return known.name if known is not None and known.name else self.id

    @property
    def short_id(self) -> str:
        return self.id[:12]

    @property
    def status(self) -> str:
        """"running", or "exited" when the box has ended. The server is asked at each use."""
        try:
            return "running" if self.is_open and self.info().state == "ready" else "exited"
        except NotFoundError:
            return "exited"

    def reload(self) -> None:
        """Nothing is kept that could be old. An error when the box has ended."""
        if not self.is_open:
            raise NotFoundError(f"the box {self._core._id or ''} has ended")
        self.info()

    def stop(self, timeout: Optional[float] = None) -> None:
        """Ends the box and all in it; a second time does nothing. Nothing in it is waited for, so timeout has no effect."""
        from . import _backend
        _backend.end(self)

    def start(self, code: Any = None, **options: Any) -> Optional[Run]:  # type: ignore[override]
        """start() of a Sandbox, which starts code. A container's start(), without code, does nothing while the box runs, and is an error when it has ended."""
        if code is not None:
            return super().start(code, **options)
        if self.status != "running":
            raise UsageError("a stopped box has been removed and cannot be started again", hint="create a new one; files in a host directory are kept")
        return None

    def kill(self, signal: Any = None) -> None:
        self.stop()

    def remove(self, v: bool = False, link: bool = False, force: bool = False) -> None:
        """Ends the box, unless that was done. Files of its workspace stay."""
        self.stop()

    def exec_run(self, cmd: Union[str, Sequence[str]], stdout: bool = True, stderr: bool = True, stdin: bool = False, tty: bool = False, privileged: bool = False,
                 user: str = "", detach: bool = False, stream: bool = False, socket: bool = False,
                 environment: Union[None, Mapping[str, str], Sequence[str]] = None, workdir: Optional[str] = None, demux: bool = False) -> ExecResult:
        """Runs a command in the box and returns (exit_code, output), as docker-py does: bytes, of both streams in their order, or with demux=True a tuple of
        both. stream=True: an iterator of pieces in the place of output; the command starts at once, read or not. The guard does not look at commands, only at
        code that is run in a language."""
        _refuse(privileged, user, socket or stdin)
        args = [_place(workdir or self.working_dir), *_command(cmd, environment)]
        if detach:
            Sandbox.start(self, _EXEC, language="sh", context="fresh", args=args)
            return ExecResult(None, b"")
        wanted = {name for name, is_wanted in (("stdout", stdout), ("stderr", stderr)) if is_wanted}
        ending: List[Result] = []
        events = Sandbox.stream(self, _EXEC, language="sh", context="fresh", args=args)
        events.__enter__()  # it begins here, and not with the first piece that is read
        pieces = _pieces(events, wanted, ending)
        if stream:
            return ExecResult(None, (_demuxed(piece) for piece in pieces) if demux else (data for _, data in pieces))
        seen = list(pieces)
        if demux:
            return ExecResult(exit_status(ending[0]), tuple(b"".join(data for name, data in seen if name == one) or None for one in ("stdout", "stderr")))
        return ExecResult(exit_status(ending[0]), b"".join(data for _, data in seen))


def _pieces(events: RunStream, wanted: "set[str]", ending: List[Result]) -> Iterator[Tuple[str, bytes]]:
    """What is printed, as it comes. The result is put into ending."""
    try:
        for event in events:
            if isinstance(event, Output) and event.stream in wanted:
                yield event.stream, event.data
            if isinstance(event, VerdictEvent):
                ending.append(event.result)
                if event.verdict.kind not in ("ok", "error") and "stderr" in wanted:
                    yield "stderr", event.verdict.message.encode() + b"\n"
    finally:
        events.close()


def exit_status(result: Result) -> int:
    """As a shell has it. An outcome that is not known has no status: it is raised."""
    kind = result.verdict.kind
    if kind in STATUS:
        return STATUS[kind]
    if result.exit_code is not None:
        return result.exit_code
    if result.signal in signal.Signals.__members__:
        return 128 + signal.Signals[str(result.signal)].value
    raise verdict_error(result)


def _demuxed(piece: Tuple[str, bytes]) -> Tuple[Optional[bytes], Optional[bytes]]:
    name, data = piece
    return (data, None) if name == "stdout" else (None, data)


def _place(workdir: Any) -> str:
    """A directory as `cd --` takes it: "-" would be the one before."""
    if not isinstance(workdir, str) or "\0" in workdir:
        raise _arguments.wrong("workdir", workdir, "the path of a directory in the box")
    return workdir if workdir.startswith("/") else f"./{workdir}"


def _command(cmd: Any, environment: Any) -> List[str]:
    """A command with its variables, as a command of env."""
    words, variables = _arguments.command(cmd), _arguments.variables("environment", environment)
    made = ["env", *(word for name, text in variables if text is None for word in ("-u", name)), "--",
            *(f"{name}={text}" for name, text in variables if text is not None), *(_PLAIN if "=" in words[0] else ()), *words]
    return _arguments.check_lengths(made)


def _refuse(privileged: bool, user: str, socket: bool) -> None:
    if privileged:
        raise PolicyError("privileged: nothing has privileges in a box", hint="leave it out")
    if str(user).split(":")[0] in ("0", "root"):
        raise PolicyError("nothing runs as root in a box", hint="leave user out")
    if socket:
        raise UsageError("exec_run() has no socket and no standard input here", hint="run(code, stdin=...) has an input")

