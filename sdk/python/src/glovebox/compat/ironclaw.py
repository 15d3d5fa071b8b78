# SPDX-License-Identifier: Apache-2.0
"""Open Interpreter with its languages in a box that is kept.

    interpreter.computer.terminate()
    interpreter.computer.languages = [DockerPython, DockerShell]

`python3 -m glovebox.compat.ironclaw` proves the isolation.
"""
from __future__ import annotations

import errno
import hashlib
import os
import pathlib
import secrets
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

from .. import Client, Context, Output, ResultValue, Secrets
from .._secrets import secrets_body
from ..errors import ConflictError, GloveboxError, NotFoundError
from ..events import ExceptionEvent, VerdictEvent
from ..network import Rule
from . import _arguments, _backend, _options
from ._container import Container

IMAGE = "ironclaw-sandbox:latest"
WORKSPACE = "~/.ironclaw/workspace"
TEMPLATE = "python-data"


class SandboxManager:
    """One box that is started once and kept, with a directory of the host as /workspace. Files made inside belong to the caller.

    secrets: variables of the code that do not come back in what it prints. They are given to a box when it is made; one that an earlier process has left has its own.
    network: "none"; "whitelist" for the hosts that dependencies come from; "host" for everything that the host can reach. allow: rules of hosts that it may reach, instead.
    disk: by how much the workspace may grow while the box lives. on_pull: called with a line for each step when the engine has to pull the image; left out, they
    are written to standard error when that is a terminal.
    """

    _default: Optional["SandboxManager"] = None
    _default_lock = threading.Lock()

    def __init__(self, workspace: Union[str, "os.PathLike[str]"] = WORKSPACE, *, image: str = IMAGE, memory: str = "1g", timeout: float = 120.0, network: str = "none",
                 template: Optional[str] = TEMPLATE, backend: Optional[str] = None, client: Optional[Client] = None, secrets: Optional[Secrets] = None,
                 allow: Optional[Sequence[Rule]] = None, disk: str = _options.DISK,
                 on_pull: Optional[Callable[[str], Any]] = None) -> None:
        self.image, self._backend, self._client = image, backend, client
        self._memory, self._timeout, self._network, self._template, self._disk = memory, timeout, network, template, disk
        self._workspace, self._secrets, self._allow = _arguments.path("workspace", workspace), secrets_body(secrets), allow
        self._on_pull = on_pull or _show
        self._lock = threading.Lock()
        self._box: Optional[Container] = None

    @classmethod
    def default(cls) -> "SandboxManager":
        """The one that DockerPython and DockerShell share; $IRONCLAW_WORKSPACE names its directory."""
        with cls._default_lock:
            if cls._default is None:
                cls._default = cls(os.environ.get("IRONCLAW_WORKSPACE") or WORKSPACE)
            return cls._default

    @property
    def workspace(self) -> pathlib.Path:
        return _options.directory(self._workspace, in_container=_backend.choose(self._backend) == "docker")

    def _name(self, place: pathlib.Path) -> str:
        return "ironclaw-" + hashlib.sha256(os.fsencode(place)).hexdigest()[:16]

    def _find(self, name: str, client: Client) -> Optional[Container]:
        """The box that an earlier process has left with a server that goes on."""
        for session in client.sessions():
            if session.name == name:
                box = Container.attach(session.id, client=client)
                box._core._info = session
                return box
        return None

    def _lives(self, box: Container) -> bool:
        try:
            return box.is_open and box.info().state == "ready"
        except NotFoundError:
            return False

    def get_or_create_container(self) -> Container:
        """The box: the one that runs, or a new one. It has what a container of docker-py has (id, name, status, exec_run(), stop(), ...) and what a Sandbox has.
        The errors say what is wrong: no engine, no rights, no image, no place for files."""
        with self._lock:
            if self._box is not None and self._lives(self._box):
                return self._box
            made_of = _backend.box(self._backend, self.image, self._template, self._client, self._on_pull)
            place = self.workspace
            client = self._client or Client()
            self._box = self._find(self._name(place), client) or self._create(made_of, place, client)
            return self._box

    def _create(self, made_of: Dict[str, Any], place: pathlib.Path, client: Client) -> Container:
        box = _backend.opened(Container(
            **made_of, **_backend.KEPT, memory=self._memory, timeout=self._timeout, secrets=self._secrets,
            policy=_options.limits(network=self._network, allow=self._allow, disk=self._disk), workspace=str(place), name=self._name(place),
            metadata={"made-by": "ironclaw"}, client=client), self._template)
        box._core._owned = False  # where the server goes on it stays when this program ends, as one that was attached
        return box

    def stop_container(self) -> None:
        """Ends the box and all in it; files in the workspace stay. Without a box it does nothing. An error when the
        server cannot be reached: it can be stopped later, then."""
        with self._lock:
            if self._box is not None:
                _backend.end(self._box)
                self._box = None  # not before: one that may live is not forgotten

    def __enter__(self) -> "SandboxManager":
        self.get_or_create_container()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop_container()


def _show(line: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"glovebox: {line}", file=sys.stderr)


class _Language:
    """What Open Interpreter wants of a language: a class with a name, whose run() yields pieces of messages."""

    name = ""
    language = ""
    manager: Optional[SandboxManager] = None  # a subclass may have its own

    def __init__(self) -> None:
        self._manager = self.manager or SandboxManager.default()
        self._context: Optional[Context] = None
        self._session = ""

    def _place(self) -> Context:
        """An interpreter of our own in the box; a new one when the box is."""
        box = self._manager.get_or_create_container()
        if self._context is None or self._session != box.id:
            self._context, self._session = box.context(self.language), box.id
        return self._context

    def run(self, code: str) -> Iterator[Dict[str, Any]]:
        try:
            with self._place().stream(code) as stream:
                for event in stream:
                    yield from _messages(event)
        except GloveboxError as error:
            yield _console(f"glovebox: {error}\n")

    def stop(self) -> None:
        """Interrupts the code; variables are kept."""
        try:
            if self._context is not None:
                self._context.interrupt()
        except (ConflictError, NotFoundError):
            pass  # nothing runs

    def terminate(self) -> None:
        """Ends the interpreter, and with it the variables."""
        context, self._context = self._context, None
        try:
            if context is not None:
                context.close()
        except (ConflictError, NotFoundError):
            self._manager.stop_container()


def _console(text: str) -> Dict[str, Any]:
    return {"type": "console", "format": "output", "content": text}


def _value_messages(event: ResultValue) -> Iterator[Dict[str, Any]]:
    import base64
    value = event.value
    if value.png is not None:
        yield {"type": "image", "format": "base64.png", "content": base64.b64encode(value.png).decode("ascii")}
    elif value.jpeg is not None:
        yield {"type": "image", "format": "base64.jpeg", "content": base64.b64encode(value.jpeg).decode("ascii")}
    elif value.text is not None:
        yield _console(value.text + "\n")


def _messages(event: Any) -> Iterator[Dict[str, Any]]:
    if isinstance(event, Output):
        yield _console(event.text)
    elif isinstance(event, ResultValue):
        yield from _value_messages(event)
    elif isinstance(event, ExceptionEvent):
        yield _console(event.error.traceback)
    elif (isinstance(event, VerdictEvent) and not event.verdict.ok
          and (event.result.error is None or event.verdict.kind != "error")):
        yield _console(event.verdict.message + "\n")


class DockerPython(_Language):
    name = "Python"
    aliases = ["py", "python3"]
    file_extension = "py"
    language = "python"

    def __init__(self) -> None:  # Open Interpreter looks at the class's own
        super().__init__()


class DockerShell(_Language):
    name = "Shell"
    aliases = ["bash", "sh", "zsh"]
    file_extension = "sh"
    language = "bash"

    def __init__(self) -> None:
        super().__init__()


#: Says how opening a file is refused. Any other error than these two is an exception, which is no answer. Nothing is started for it.
_OPEN = """import os, sys
try:
    os.close(os.open(sys.stdin.read(), os.O_RDONLY))
    print("it can be opened")
except (PermissionError, FileNotFoundError) as error:
    print(error.strerror)
"""
_REFUSALS = tuple(os.strerror(number) for number in (errno.EACCES, errno.EPERM, errno.ENOENT))


class Check(NamedTuple):
    """One proof: what was asked, whether it holds, and what was seen."""

    name: str
    held: bool
    seen: str


def verify(manager: Optional[SandboxManager] = None) -> List[Check]:
    """Proves the isolation of the box: the user that the code runs as, the files it can see, and that its files reach
    the caller. A question without an answer (a run that was lost or took too long) proves nothing: it raises
    VerdictError."""
    manager = manager or SandboxManager.default()
    box, mark = manager.get_or_create_container(), f"verify-{secrets.token_hex(8)}"

    def shell(line: str) -> str:
        return box.run(line, language="bash", context="fresh", check=True).stdout.strip()
    who, root = shell("id -u"), shell("cd / && printf '%s\\n' *")  # not by ls: that of Debian 12 fails on gVisor of the same age
    # The name comes as input: the guard refuses code that names it, and that would prove nothing about the box.
    shadow = box.run(_OPEN, stdin="/etc/shadow", language="python", context="fresh", check=True).stdout.strip()
    shell(f"echo made-inside > /workspace/{mark}")
    made = manager.workspace / mark
    content, owner = "", -1
    if made.is_file():
        content, owner = made.read_text().strip(), made.stat().st_uid
        made.unlink()
    inside, outside = set(root.split()), set(os.listdir("/"))
    return [
        Check("runs as an ordinary user", who.isdigit() and who != "0", f"uid {who}"),
        Check("has a root of its own", bool(inside) and inside != outside and "sandbox" in inside, " ".join(sorted(inside))),
        Check("cannot read /etc/shadow", shadow in _REFUSALS, shadow),
        Check("a file made in /workspace is the caller's on the host", content == "made-inside" and owner in (os.geteuid(), manager.workspace.stat().st_uid), f"{made}: owner {owner}"),
    ]


def main() -> int:
    try:
        checks = verify()
    except GloveboxError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return 2
    for check in checks:
        print(f"{'ok  ' if check.held else 'FAIL'}  {check.name} ({check.seen})")
    SandboxManager.default().stop_container()
    return 0 if all(check.held for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
