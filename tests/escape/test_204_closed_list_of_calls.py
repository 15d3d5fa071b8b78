# SPDX-License-Identifier: Apache-2.0
"""204. Code inside looks for the engine's socket and for credentials; glovebox is watched for what it asks of the engine => nothing of the engine is inside, and only calls of a closed list are made.
"""
import re

from engine_proxy import Proxy
from hostile_engines import derive, docker_box, engines, make_docker_box

ID = "[0-9a-f]{12,64}"
# docs/docker.md, "Which engine"; the first use of an image has the last two, too.
ALLOWED = [("GET", "/_ping"), ("GET", "/version"), ("GET", "/info"), ("GET", "/images/[^?]+/json"), ("GET", "/images/json"), ("GET", "/containers/json"),
           ("POST", "/containers/create"), ("GET", f"/containers/{ID}/json"), ("POST", f"/containers/{ID}/attach"), ("POST", f"/containers/{ID}/start"),
           ("GET", f"/containers/{ID}/stats"), ("DELETE", f"/containers/{ID}"), ("PUT", f"/containers/{ID}/archive"), ("POST", "/commit")]
NAME = "glovebox-test-fresh"
LOOK = """
import os, socket
for p in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman", "/run/containerd", "/root/.docker", "/.dockerenv/x", os.path.expanduser("~/.docker"), "/var/lib/docker"):
    if os.path.exists(p): print("there:", p)
for port in (2375, 2376):
    for host in ("127.0.0.1", "172.17.0.1", "host.docker.internal"):
        try: socket.create_connection((host, port), 0.2); print("reached", host, port)
        except OSError: pass
print([k for k in os.environ if "DOCKER" in k or "GLOVEBOX" in k])
print([l for l in open("/proc/self/mountinfo") if "docker.sock" in l])
"""


def unknown(proxy):
    """Calls that are not in the list."""
    return [call for call in proxy.calls() if not any(call[0] == method and re.fullmatch(path, call[1]) for method, path in ALLOWED)]


def test_only_calls_of_the_list(docker_box):
    derive(docker_box.engine, NAME, {})
    try:
        with Proxy(docker_box.engine) as proxy:
            box = make_docker_box(proxy.host, None, docker_box.scratch)
            assert box.run("print(1)", image=NAME).verdict == "ok", "the first time: the layer is made"
            assert box.run("import time; time.sleep(30)", timeout="500ms").verdict == "timeout"
            assert box.run("x = bytearray(1 << 30)", memory="64m").verdict == "memory"
            box.call("doctor")
            box.call("clean")
        assert not unknown(proxy) and not proxy.faults and len(proxy.calls()) > 12, (unknown(proxy), proxy.faults)
    finally:
        docker_box.engine.ask("DELETE", f"/images/{NAME}?force=1")


def test_nothing_of_the_engine_is_inside(docker_box):
    result = docker_box.run(LOOK)
    assert (result.verdict, result.stdout) == ("ok", "[]\n[]\n"), result.explain()


def test_its_body_names_nothing_of_the_host(docker_box):
    with Proxy(docker_box.engine) as proxy:
        assert make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)").verdict == "ok"
    for body in proxy.bodies:
        host = body["HostConfig"]
        assert not host.get("Binds") and not host.get("Mounts") and not host.get("Devices") and not host.get("Privileged") and not host.get("CapAdd"), body
