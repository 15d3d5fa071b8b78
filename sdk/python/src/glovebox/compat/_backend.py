# SPDX-License-Identifier: Apache-2.0
"""Which backend isolates, and what is wrong when it cannot.

Two look: this module at an engine of this host before anything is done, as an executor is made long before its first box; and the server, which
knows more (contexts of Docker, its own rights), when it opens a box. What it says comes as the same types.
"""
from __future__ import annotations

import errno
import http.client
import json
import os
import re
import socket
import urllib.parse
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar, Union

from .. import AsyncClient, Client, Sandbox
from .._address import runtime_socket, somebody_listens
from .._drive import drive
from ..errors import DeniedError, GloveboxError, LimitError, NotFoundError, UnavailableError, UsageError
from . import _arguments

BACKENDS = ("native", "docker")
DEFAULT_SOCKET = "/var/run/docker.sock"
ENGINE_SECONDS = 5.0  # for the answer to a question
REMOVE_SECONDS = 120.0  # for an image; a busy engine takes long
RECIPE = "glovebox-python"
RECIPES = {"python-data": "glovebox-python-data"}  # by template: what an image with the same is built from
PREPARED_LABEL = "org.glovebox.runner"
#: Images that are built here and never pulled: whoever owns such a name in a registry is a stranger.
OWN = ("glovebox-python", "glovebox-python-data", "dolphin-python-sandbox", "ironclaw-sandbox", "agentcore-python-sandbox")
PULL_SECONDS = 120.0  # without a sign of life
KEPT: Dict[str, Any] = {"idle_timeout": "24h", "max_lifetime": "168h"}  # of a box that waits for its program: as long as a server allows by default
#: [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST], or an id. What else is wrong with one the engine says, each in another way.
_IMAGE = re.compile(r"(?:\[[0-9a-fA-F:.]+\](?::\d+)?/|[\w.-]+:\d+/)?[\w.-]+(?:/[\w.-]+)*(?::[\w.-]+)?(?:@[\w.+-]+:[0-9a-fA-F]+)?\Z", re.A)
Progress = Callable[[str], Any]
AnyClient = Union[None, Client, AsyncClient]
Box = TypeVar("Box", bound=Sandbox)


class BackendError(GloveboxError, RuntimeError):
    """The backend that was asked for cannot be used here. It is a RuntimeError as well, as programs for containers expect it."""

    code = "configuration"


class DockerNotAvailable(BackendError):
    """No Docker Engine answers."""

    code = "engine_unavailable"

    def __init__(self, why: str, **more: Any) -> None:
        super().__init__(f"Docker is not available: {why}", **more)


class ImageNotFound(BackendError):
    """The engine has no such image."""

    code = "image_not_found"


class WorkspaceDenied(DeniedError, PermissionError):
    """The server may not use the directory: it runs as another user. It is a PermissionError as well, with errno and filename (None: not known)."""

    def __init__(self, message: str, *, place: Optional[str] = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.errno, self.strerror, self.filename = errno.EACCES, os.strerror(errno.EACCES), place


#: How the server words it (src/engine/places.c). Other refusals may have the word in them, as part of a name.
_WORKSPACE = re.compile(r"cannot (?:open|write to|give a box) the workspace (?P<place>/.*?): (?:this server was started by root|user \d+ has no permission)", re.S)


def choose(backend: Optional[str]) -> str:
    """The backend by name, by $GLOVEBOX_BACKEND, or native."""
    name = backend or os.environ.get("GLOVEBOX_BACKEND") or "native"
    if name not in BACKENDS:
        raise BackendError(f"there is no backend {name!r}", hint=f"take one of {', '.join(BACKENDS)}")
    return name


def require(backend: Optional[str], image: Optional[str], template: Optional[str] = None, client: AnyClient = None) -> str:
    """The backend, when runs can go to it; otherwise says what is wrong, and what to do."""
    name = choose(backend)
    if name == "docker" and _is_private(client):
        check_engine(image, template)
    return name


def box(backend: Optional[str], image: str, template: Optional[str], client: AnyClient = None, pull_progress: Optional[Progress] = None) -> Dict[str, Any]:
    """What a sandbox is made of, as its arguments. The native backend has templates, an engine images; what these tools call an image is one of an engine.
    pull_progress: an image that the engine of this host does not have is pulled, and this is called with lines about it; None: it is an error."""
    if not isinstance(image, str) or not image:
        raise _arguments.wrong("image", image, "the name of an image")
    if choose(backend) == "docker" and not _IMAGE.match(image):
        raise _no_name(image)
    if pull_progress is not None and choose(backend) == "docker" and _is_private(client) and not _is_own(image):
        pull_missing(image, pull_progress)
    if require(backend, image, template, client) == "docker":
        return {"template": None, "backend": "docker", "image": image}
    return {"template": template, "backend": backend or os.environ.get("GLOVEBOX_BACKEND") or None}  # None: as the server's policy has it


def opened(sandbox: Box, template: Optional[str] = None) -> Box:
    """The sandbox, open."""
    try:
        _open(sandbox)
        return sandbox
    except GloveboxError as error:
        raise explained(error, template) from error


def _open(sandbox: Sandbox) -> None:
    try:
        sandbox.open()
    except LimitError:
        body = sandbox._core._body
        times = {name: body.pop(name) for name in KEPT if name in body}
        if not times:
            raise
        try:
            sandbox.open()  # a server that keeps boxes less long has its own defaults
        except GloveboxError:
            body.update(times)
            raise


def end(sandbox: Sandbox) -> bool:
    """Ends a box; whether it was there. Unlike close() it raises an error when the server cannot be reached: whether
    the box has ended is then not known."""
    there = sandbox._core._id is not None and drive(sandbox._core._end())
    sandbox.close()
    return there


def explained(error: GloveboxError, template: Optional[str] = None) -> GloveboxError:
    """An error of the server as one of this module's, when it is about an engine or the workspace."""
    found = re.match("image not found: ([^ ]+)", error.message) if isinstance(error, NotFoundError) else None
    if found:
        return _image_not_found(found.group(1), template)
    if isinstance(error, DeniedError):
        denied = _WORKSPACE.match(error.message)
        if denied or error.details.get("field") == "workspace":
            return WorkspaceDenied(error.message, hint=error.hint, details=error.details, status=error.status, place=denied["place"] if denied else None)
    if isinstance(error, LimitError) and error.details.get("field") == "policy.timeout" and "above timeout_max" in error.message:
        most = re.search(r"timeout_max, which is ([^ ;]+)", error.message)
        return LimitError(f"timeout is above the maximum of the server, which is {most[1] if most else 'its timeout_max'}", details=error.details, status=error.status,
                          hint="ask for less, or start a server whose policy file has a larger timeout_max (glovebox serve --policy FILE) and name it in GLOVEBOX_SERVER")
    if isinstance(error, UnavailableError) and error.retry_after is None and re.search(r"\bengine\b|\bDocker\b|\bPodman\b", error.message):
        return DockerNotAvailable(error.message, status=error.status)
    return error


def _is_private(client: AnyClient) -> bool:
    """Whether the server is, or will be, this program's own: then its engine is this host's."""
    if client is not None or os.environ.get("GLOVEBOX_SERVER"):
        return False
    path = runtime_socket()
    return path is None or not somebody_listens(path)


def _is_own(image: str) -> bool:
    return re.split("[:@]", image, maxsplit=1)[0] in OWN


def _image_not_found(image: str, template: Optional[str]) -> ImageNotFound:
    if not _is_own(image):
        return ImageNotFound(f"Docker image '{image}' not found", hint=f"docker pull {image}, or take a name of your own for one that is built here: "
                             f"glovebox image build {RECIPE} --backend docker --tag NAME")
    recipe = RECIPES.get(template or "", RECIPE)
    command = f"glovebox image build {recipe} --backend docker" + (f" --tag {image}" if image not in (recipe, f"{recipe}:latest") else "")
    if recipe != RECIPE:
        command = f"glovebox image build {RECIPE} --backend docker && {command}"  # which it begins with
    return ImageNotFound(f"Docker image '{image}' not found", hint=f"build it: {command}")


def engine_socket() -> Optional[str]:
    """Where the engine listens: $DOCKER_HOST, or the usual socket. None: a context of Docker says it, which the server looks up."""
    host = os.environ.get("DOCKER_HOST")
    if not host:
        return None if os.environ.get("DOCKER_CONTEXT") or _has_context() else DEFAULT_SOCKET
    if not host.startswith("unix://"):
        raise DockerNotAvailable(f"the Docker Engine at {host} is not on a unix socket", hint="set DOCKER_HOST=unix:///path/of/docker.sock")
    return host[len("unix://"):]


def _has_context() -> bool:
    place = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    try:
        with open(os.path.join(place, "config.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and bool(found.get("currentContext"))


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: Optional[float] = None) -> None:
        super().__init__("localhost", timeout=ENGINE_SECONDS if seconds is None else seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _explain(path: str, error: OSError) -> DockerNotAvailable:
    if error.errno in (errno.EACCES, errno.EPERM):
        return DockerNotAvailable(f"permission denied on its socket, {path}",
                                  hint="add this user to the group docker (and log in again), or set DOCKER_HOST to a rootless engine")
    if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK):
        return DockerNotAvailable(f"no engine listens at {path}",
                                  hint="start it (systemctl start docker), or set DOCKER_HOST; the native backend needs none (GLOVEBOX_BACKEND=native)")
    return DockerNotAvailable(f"the engine at {path} does not answer: {error.strerror or error}", hint="docker info says more")


def _ask(path: str, method: str, target: str, seconds: Optional[float] = None) -> Tuple[int, Any]:
    connection = _Connection(path, seconds)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        text = answer.read(1 << 20)
    except OSError as error:
        raise _explain(path, error) from error
    except http.client.HTTPException as error:
        raise DockerNotAvailable(f"what listens at {path} is no Docker Engine: {error!r}", hint="set DOCKER_HOST to the engine's socket") from error
    finally:
        connection.close()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, None


def check_engine(image: Optional[str], template: Optional[str] = None) -> None:
    """Whether an engine answers and has the image."""
    path = engine_socket()
    if path is None:
        return
    status, _ = _ask(path, "GET", "/_ping")
    if status != 200:
        raise DockerNotAvailable(f"the Docker Engine at {path} is not well: it answers {status}", hint="docker info says more")
    if image is None:
        return
    status, answer = _ask(path, "GET", f"/images/{urllib.parse.quote(image, safe='/:@')}/json")
    if status == 404:
        raise _image_not_found(image, template)
    if status == 400:
        raise _no_name(image, f": {answer['message']}" if isinstance(answer, dict) and answer.get("message") else "")
    if status != 200:
        raise DockerNotAvailable(f"the Docker Engine at {path} does not say whether it has the image {image}: "
                                 f"it answers {status}", hint="docker info says more")


def _no_name(image: str, why: str = "") -> UsageError:
    return UsageError(f"{image!r} is not the name of an image{why}", hint="names are such as python:3.12-slim or registry.example.com:5000/team/image",
                      details={"field": "image"})


def pull_missing(image: str, progress: Progress) -> None:
    """Pulls an image that the engine does not have, from where the engine gets images."""
    path = engine_socket()
    if path is None or _ask(path, "GET", f"/images/{urllib.parse.quote(image, safe='/:@')}/json")[0] != 404:
        return
    name = image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:latest"  # or all of its tags would come
    connection = _Connection(path, PULL_SECONDS)
    progress(f"pulling {image}")
    try:
        connection.request("POST", f"/images/create?fromImage={urllib.parse.quote(name, safe='')}")
        answer = connection.getresponse()
        problem = None if answer.status == 200 else _message(answer.read(1 << 20))
        for line in answer if answer.status == 200 else ():
            told = json.loads(line)
            problem = problem or told.get("error")
            if told.get("status"):
                progress(" ".join(str(told[key]) for key in ("id", "status", "progress") if told.get(key)))
    except (OSError, ValueError, http.client.HTTPException) as error:
        problem = f"the connection to the engine failed: {error}"
    finally:
        connection.close()
    if problem:
        raise ImageNotFound(f"Docker image '{image}' not found, and it could not be pulled: {problem}",
                            hint=f"see whether this host reaches the registry (docker pull {image}), load the image (docker load), or name one that is there")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


def remove_prepared_images() -> int:
    """Removes what glovebox has made of images for its boxes, as far as no box uses it; how many. The images themselves stay."""
    path = engine_socket()
    if path is None:
        raise BackendError("the engine is one of a Docker context, which is not looked up here", hint="set DOCKER_HOST=unix:///path/of/docker.sock")
    filters = urllib.parse.quote(json.dumps({"label": [PREPARED_LABEL]}))
    status, found = _ask(path, "GET", f"/images/json?filters={filters}")
    if status != 200 or not isinstance(found, list):
        raise DockerNotAvailable(f"the Docker Engine at {path} does not list its images: it answers {status}", hint="docker info says more")
    names = [urllib.parse.quote(str(image.get("Id")), safe=":") for image in found]
    return sum(_ask(path, "DELETE", f"/images/{name}", REMOVE_SECONDS)[0] == 200 for name in names)
