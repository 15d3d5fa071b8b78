# SPDX-License-Identifier: Apache-2.0
"""208, faults. The engine dies, hangs, answers rubbish, is absent or forbidden => `lost` or an error with the remedy within five seconds; containers go when it is back. glovebox dies => its container within two seconds.
"""
import os
import signal
import socket
import time

import pytest
from conftest import USER, Box, wait_until
from engine_proxy import HANG, Proxy, answer
from engines import IMAGE
from hostile_engines import LOST_MAX, WEAKER, begin, docker_box, end_of, engines, make_docker_box, own_engine

SLACK = 8.0  # of a loaded machine


@pytest.fixture(scope="module")
def victim(engines):
    """An engine of this file's own, with the image."""
    source = engines.docker
    with own_engine([(source, IMAGE)]) as engine:
        yield engine


@pytest.fixture
def victim_box(victim, attack_dir, scratch):
    if not wait_until(lambda: victim.ask("GET", "/_ping")[0] == 200, 30):
        pytest.fail("the engine did not come back")
    box = make_docker_box(victim.host, attack_dir, scratch)
    assert box.run("print(1)").stdout == "1\n"
    return box


def assert_lost(last, took):
    kind = last["verdict"]["kind"] if "verdict" in last else last["error"]["code"]
    assert kind == "lost", last
    assert took < LOST_MAX + SLACK, f"told after {took:.1f} s"


def test_killed_under_a_run(victim, victim_box):
    process = begin(victim_box)
    victim.kill()
    try:
        last, took, _ = end_of(victim_box, process)
    finally:
        victim.start()
    assert_lost(last, took)
    assert victim_box.run("print(2)").stdout == "2\n"
    assert victim_box.call("clean").returncode == 0
    assert wait_until(lambda: victim.containers() == [], 20), "the container stays"


def test_hanging_under_a_run(victim, victim_box):
    process = begin(victim_box)
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        last, took, _ = end_of(victim_box, process)
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    assert_lost(last, took)
    victim_box.call("clean")
    assert wait_until(lambda: victim.containers() == [], 20), "the container stays"


def test_hanging_before_a_run(victim, victim_box):
    os.kill(victim.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        result = victim_box.run("print(1)")
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    assert result.error["code"] in ("unavailable", "lost") and time.monotonic() - began < LOST_MAX + SLACK, result.explain()


RUBBISH = {
    "500": answer(500, b'{"message": "it hurts"}'),
    "500-without-words": answer(500, b""),
    "truncated-json": answer(200, b'{"ApiVersion": "1.41", "Ver'),
    "truncated-body": b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{",
    "no-http": b"\x00\x01\x02rubbish\r\n\r\n",
    "nothing": b"",
    "deep": answer(200, b"[" * 100000),
    "list": answer(200, b"[1, 2]"),
    "huge-numbers": answer(201, b'{"Id": 1e999}'),
    "id-with-a-path": answer(201, b'{"Id": "../../etc", "Warnings": []}'),
}


@pytest.mark.parametrize("call", ["/version", "/containers/create", "/start", "/json"])
@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish(docker_box, call, kind):
    def rule(method, target):
        path = target.partition("?")[0]
        is_it = path.endswith(call) and (call != "/json" or path.startswith("/containers/") and path != "/containers/json")
        return RUBBISH[kind] if is_it else None

    with Proxy(docker_box.engine, rule) as proxy:
        began = time.monotonic()
        result = make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)")
        took = time.monotonic() - began
    assert result.returncode in (105, 112, 113, 115, 116) and result.json and "error" in result.json, result.explain()
    assert took < LOST_MAX + SLACK, f"told after {took:.1f} s"
    assert len(result.error["message"]) > 20 and "\x00" not in result.error["message"], result.explain()
    # What was made all the same, when the answer to create was not understood, is found by its label.
    docker_box.call("clean")
    assert wait_until(lambda: docker_box.engine.containers() == [], 20), "a container is left"


@pytest.mark.parametrize("call", ["/version", "/containers/create", "/start"])
def test_no_answer(docker_box, call):
    """From this call on the engine says nothing to anybody. (One that is only slow with it is waited for.)"""
    hangs = []

    def rule(method, target):
        if target.partition("?")[0].endswith(call):
            hangs.append(target)
        return HANG if hangs else None

    with Proxy(docker_box.engine, rule) as proxy:
        began = time.monotonic()
        result = make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)")
        assert time.monotonic() - began < LOST_MAX + SLACK and result.error["code"] in ("unavailable", "lost"), result.explain()
    # What was made and could not be removed is found when the engine is back.
    docker_box.call("clean")
    assert wait_until(lambda: docker_box.engine.containers() == [], 20), "a container is left"


def test_absent(scratch, engines):
    engines.docker
    for host, word in (("unix:///nowhere/docker.sock", "/nowhere/docker.sock"), ("tcp://127.0.0.1:2375", "unix"), (f"unix://{scratch}", str(scratch))):
        result = make_docker_box(host, None, scratch).run("print(1)")
        assert result.error["code"] in ("unavailable", "usage", "policy"), result.explain()
        assert word in result.error["message"], result.explain()
    result = make_docker_box("unix:///nowhere/docker.sock", None, scratch).run("print(1)")
    assert "systemctl start docker" in result.error["message"] and "--backend native" in result.error["message"], f"the remedy is missing: {result.explain()}"


def test_forbidden(engines, scratch):
    path = scratch / "forbidden.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        s.listen(1)
        path.chmod(0o600)
        box = Box("user", None, scratch, environ={"DOCKER_HOST": f"unix://{path}", "GLOVEBOX_BACKEND": "docker"})
        box.weaker = WEAKER
        assert box.uid == USER
        result = box.run("print(1)")
    assert "ermission" in result.error["message"] and "group" in result.error["message"], result.explain()


def test_the_image_is_missing(docker_box):
    result = docker_box.run("print(1)", image="glovebox-python-none")
    assert result.error["code"] == "not_found" and "glovebox image" in result.error["message"], result.explain()


@pytest.mark.parametrize("when", ["running", "starting"])
def test_glovebox_is_killed(docker_box, when):
    if when == "running":
        process = begin(docker_box)
    else:
        process = docker_box.start("import time; time.sleep(1000)")
        assert wait_until(docker_box.engine.containers, 10, 0.002)
    process.kill()
    process.communicate()
    if when == "running":
        assert wait_until(lambda: docker_box.engine.containers() == [], 20), "it goes on after two seconds"
    else:  # one that was made and not started yet has nobody inside who could end it
        cleaned = docker_box.call("clean")
        assert cleaned.returncode == 0 and docker_box.engine.containers() == [], cleaned.explain()


def test_paused_by_somebody(docker_box):
    """A container that does not answer any more and an engine that does."""
    process = begin(docker_box, timeout="2s")
    [ours] = docker_box.engine.containers()
    docker_box.engine.ask("POST", f"/containers/{ours['Id']}/pause")
    last, took, _ = end_of(docker_box, process)
    assert last["verdict"]["kind"] in ("timeout", "lost") and took < 2 + LOST_MAX + SLACK, last


def test_removed_by_somebody(docker_box):
    process = begin(docker_box)
    [ours] = docker_box.engine.containers()
    docker_box.engine.remove(ours["Id"])
    last, took, _ = end_of(docker_box, process)
    assert_lost(last, took)


def test_a_start_that_takes_long(docker_box):
    """The engine answers others meanwhile, so it is waited for."""
    def rule(method, target):
        if target.endswith("/start"):
            time.sleep(LOST_MAX + 1)

    with Proxy(docker_box.engine, rule) as proxy:
        result = make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)")
    assert result.verdict == "ok" and result.stdout == "1\n", result.explain()
    assert ("GET", "/_ping") in proxy.calls()
