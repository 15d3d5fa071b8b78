# SPDX-License-Identifier: Apache-2.0
"""What the attacks of group M have in common: the command with a Docker Engine that the tests have made.

`docker_box` is a Box (tests/conftest.py) whose runs are containers. `own_engine` is an engine that nobody else uses, to be killed and
stopped; it has the images of the other one, by its data.
"""
import contextlib
import json
import pathlib
import tempfile
import time

import pytest
from conftest import Box, needs_root, wait_until
from engine_fixtures import engines
from engines import IMAGE, Engine
from server import ROOT

WEAKER = ["runtime"]  # Debian's runc
SESSION, OWNER = "org.glovebox.session", "org.glovebox.owner"
LOST_MAX = 5.0  # seconds
__all__ = ["docker_box", "engines", "make_docker_box", "needs_root"]


def make_docker_box(host, attack_dir, scratch, **environ):
    box = Box("root", attack_dir, scratch, environ={"DOCKER_HOST": host, "GLOVEBOX_BACKEND": "docker", **environ})
    box.weaker = WEAKER
    return box


@pytest.fixture
def docker_box(engines, attack_dir, scratch):
    box = make_docker_box(engines.docker.host, attack_dir, scratch)
    box.engine = engines.docker
    before = {c["Id"] for c in box.engine.containers()}
    yield box
    def left():
        return [c for c in box.engine.containers() if c["Id"] not in before]
    gone = wait_until(lambda: not left(), 20)  # what the kernel has ended, the engine may still have to remove
    for one in left():
        box.engine.remove(one["Id"])
    assert gone, "containers are left"


def docker_policy():
    """What ships, with containers, for a server."""
    text = (ROOT / "config/sandbox.yaml").read_text()
    return text.replace("backend: native ", "backend: docker ").replace("allow_weaker: []", "allow_weaker: [runtime]")


def derive(engine, name, config, base=IMAGE):
    """An image like the one of boxes with another configuration."""
    status, made = engine.ask("POST", "/containers/create", {"Image": base, "Cmd": ["/bin/true"]})
    assert status == 201, made
    try:
        status, answer = engine.ask("POST", f"/commit?container={made['Id']}&repo={name}&tag=latest", config)
        assert status == 201, answer
    finally:
        engine.remove(made["Id"])


@contextlib.contextmanager
def own_engine(images=()):
    """An engine to be maltreated, with images from another one: (engine, name) pairs."""
    with tempfile.TemporaryDirectory(prefix="gbe-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        engine = Engine("docker", pathlib.Path(name) / "docker")
        try:
            engine.start()
            for source, image in images:
                copy_image(source, engine, image)
            yield engine
        finally:
            engine.stop()


def copy_image(source, target, name):
    status, data = source.ask("GET", f"/images/{name}/get", timeout=120)
    assert status == 200, data
    status, answer = target.ask("POST", "/images/load?quiet=1", data, kind="application/x-tar", timeout=120)
    assert status == 200, answer


def begin(box, code="import time\nprint('on', flush=True)\ntime.sleep(1000)", lang=None, **options):
    """A run that goes on and has printed something; `--events`."""
    process = box.start(code, lang, json=False, events=True, **options)
    while True:
        line = process.stdout.readline()
        assert line, box.finish(process).explain()
        if json.loads(line)["event"] == "stdout":
            return process


def end_of(box, process, patience=30):
    """The last event, and how long it took to come."""
    began = time.monotonic()
    result = box.finish(process, patience=patience)
    took = time.monotonic() - began
    return json.loads(result.out.splitlines()[-1]), took, result
