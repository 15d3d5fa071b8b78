# SPDX-License-Identifier: Apache-2.0
"""Which backend isolates, and what is wrong when it cannot."""
from __future__ import annotations

import errno
import http.client
import json
import os
import socket
import urllib.parse
from typing import Any, Dict, Optional, Tuple

from ..errors import GloveboxError

BACKENDS = ("native", "docker")
DEFAULT_SOCKET = "/var/run/docker.sock"
ENGINE_SECONDS = 5.0


class BackendError(GloveboxError):
    """The backend that was asked for cannot be used here."""


class DockerNotAvailable(BackendError):
    """No Docker Engine answers."""


class ImageNotFound(BackendError):
    """The engine has no such image."""


def choose(backend: Optional[str]) -> str:
    """The backend by name, by $GLOVEBOX_BACKEND, or native."""
    name = backend or os.environ.get("GLOVEBOX_BACKEND") or "native"
    if name not in BACKENDS:
        raise BackendError(f"there is no backend {name!r}", hint=f"take one of {', '.join(BACKENDS)}")
    return name


def require(backend: Optional[str], image: Optional[str]) -> str:
    """The backend, when runs can go to it; otherwise says what is wrong, and what to do."""
    name = choose(backend)
    if name == "docker":
        check_engine(image)
    return name


def box(backend: Optional[str], image: str, template: Optional[str]) -> Dict[str, Any]:
    """What a sandbox is made of, as its arguments. The native backend has templates, an engine images; what these tools call an image is one of an engine."""
    if require(backend, image) == "docker":
        return {"template": None, "backend": "docker", "image": image}
    return {"template": template, "backend": backend or os.environ.get("GLOVEBOX_BACKEND") or None}  # None: as the server's policy has it


def engine_socket() -> str:
    """Where the engine listens: $DOCKER_HOST, or the usual socket."""
    host = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}")
    if not host.startswith("unix://"):
        raise DockerNotAvailable(f"the Docker Engine at {host} is not on a unix socket", hint="set DOCKER_HOST=unix:///path/of/docker.sock")
    return host[len("unix://"):]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ENGINE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ENGINE_SECONDS)
        self.sock.connect(self._path)


def _explain(path: str, error: OSError) -> DockerNotAvailable:
    if error.errno in (errno.EACCES, errno.EPERM):
        return DockerNotAvailable(f"permission denied on the socket of the Docker Engine, {path}",
                                  hint="add this user to the group docker (and log in again), or set DOCKER_HOST to a rootless engine")
    if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK):
        return DockerNotAvailable(f"Docker is not available: no engine listens at {path}",
                                  hint="start it (systemctl start docker), or set DOCKER_HOST; the native backend needs none")
    return DockerNotAvailable(f"the Docker Engine at {path} does not answer: {error.strerror or error}", hint="docker info tells more")


def _ask(path: str, target: str) -> Tuple[int, Any]:
    connection = _Connection(path)
    try:
        connection.request("GET", target)
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


def check_engine(image: Optional[str]) -> None:
    """Whether an engine answers and has the image."""
    path = engine_socket()
    status, _ = _ask(path, "/_ping")
    if status != 200:
        raise DockerNotAvailable(f"the Docker Engine at {path} is not well: it answers {status}", hint="docker info tells more")
    if image is None:
        return
    status, _ = _ask(path, f"/images/{urllib.parse.quote(image, safe='/:@')}/json")
    if status != 200:
        raise ImageNotFound(f"the image {image} is not there", hint=f"build it: docker build -t {image} images/")
