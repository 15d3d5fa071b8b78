# SPDX-License-Identifier: Apache-2.0
"""205. Containers, volumes and images of others have names like ours, and labels like ours => sweeps and `glovebox clean` leave them; what a dead glovebox left is removed.
"""
import contextlib
import json
import os
import signal

from conftest import wait_until
from engine_proxy import Proxy, answer
from engines import IMAGE
from hostile_engines import OWNER, SESSION, begin, docker_box, docker_policy, engines
from server import Server

HEX = "0123456789abcdef" * 2


def boot_owner(pid, start, namespace=None, boot=None):
    boot = boot or open("/proc/sys/kernel/random/boot_id").read().strip()
    return f"{boot}:{namespace or os.stat('/proc/self/ns/pid').st_ino}:{pid}:{start}"


@contextlib.contextmanager
def foreign(engine):
    """Things of others; their ids."""
    rows = {
        "glovebox-" + HEX: {},                                        # our kind of name, no label
        "glovebox-" + "f" * 32: {SESSION: "f" * 32},                  # no owner
        "gbm-other-host": {SESSION: HEX, OWNER: boot_owner(1, 1, boot="00000000-0000-0000-0000-000000000000")},
        "gbm-other-namespace": {SESSION: HEX, OWNER: boot_owner(999999999, 1, namespace=1)},
        "gbm-alive": {SESSION: HEX, OWNER: boot_owner(1, int(open("/proc/1/stat").read().rpartition(")")[2].split()[19]))},
        "gbm-rubbish": {SESSION: "../../x", OWNER: "::::"},
        "gbm-other-name": {SESSION: HEX, OWNER: boot_owner(999999999, 1)},  # labels of a dead one of ours, but a name that is not: copied labels
        "gbm-similar": {"org.glovebox.sessions": HEX, "org.glovebox": "1", "com.glovebox.owner": "1"},
    }
    made = []
    try:
        for name, labels in rows.items():
            status, answer = engine.ask("POST", f"/containers/create?name={name}", {"Image": IMAGE, "Cmd": ["/bin/sleep", "1000"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}})
            assert status == 201, (name, answer)
            made.append(answer["Id"])
        status, answer = engine.ask("POST", "/volumes/create", {"Name": "glovebox-" + HEX, "Labels": {SESSION: HEX, OWNER: boot_owner(999999999, 1)}})
        assert status == 201, answer
        yield made
    finally:
        for one in made:
            engine.remove(one)
        engine.ask("DELETE", "/volumes/glovebox-" + HEX)


def all_ids(engine):
    return {c["Id"] for c in engine.containers(None)}


def test_things_of_others_stay(docker_box):
    engine = docker_box.engine
    images = {i["Id"] for i in engine.ask("GET", "/images/json")[1]}
    with foreign(engine) as made:
        assert docker_box.run("print(1)").verdict == "ok"
        result = docker_box.call("clean")
        assert result.returncode == 0, result.explain()
        assert set(made) <= all_ids(engine), "a container of somebody else was removed"
        assert "glovebox-" + HEX in [v["Name"] for v in engine.ask("GET", "/volumes")[1]["Volumes"]]
        assert images <= {i["Id"] for i in engine.ask("GET", "/images/json")[1]}


def test_a_living_one_stays(docker_box):
    process = begin(docker_box)
    [ours] = docker_box.engine.containers()
    assert docker_box.call("clean").returncode == 0
    assert docker_box.run("print(1)").verdict == "ok"
    assert ours["Id"] in all_ids(docker_box.engine)
    process.send_signal(signal.SIGINT)
    assert docker_box.finish(process).returncode == 130


def left_by_a_dead_one(box):
    """A container whose agent is stopped, so that it did not end when its glovebox was killed."""
    process = begin(box)
    [ours] = box.engine.containers()
    box.engine.ask("POST", f"/containers/{ours['Id']}/pause")
    process.kill()
    process.communicate()
    assert ours["Id"] in all_ids(box.engine), "it has ended by itself"
    return ours["Id"]


def test_what_a_dead_one_left_goes(docker_box):
    left = left_by_a_dead_one(docker_box)
    found = {"kind": "container", "name": left}
    assert found in json.loads(docker_box.call("clean", "--dry-run", "--json").out)["found"] and left in all_ids(docker_box.engine)
    removed = docker_box.call("clean")
    assert removed.returncode == 0 and f"removed container {left}\n" in removed.out.decode()
    assert wait_until(lambda: left not in all_ids(docker_box.engine), 5), "it stays"


def test_a_container_that_is_being_made_goes(docker_box):
    """Docker lists it before it finds it by its id: it answers 404 to a removal, and goes on making it."""
    left = left_by_a_dead_one(docker_box)
    refused = []

    def rule(method, target):
        if method == "DELETE" and len(refused) < 3:
            refused.append(target)
            return answer(404, b'{"message": "No such container"}')
        return None

    with Proxy(docker_box.engine, rule) as proxy:
        removed = docker_box.call("clean", environ={"DOCKER_HOST": proxy.host})
    assert removed.returncode == 0 and removed.out.decode().count(f"removed container {left}\n") == 1, removed.explain()
    assert len(refused) == 3 and left not in all_ids(docker_box.engine)


def test_a_container_that_stays_was_not_removed(docker_box):
    left = left_by_a_dead_one(docker_box)

    def rule(method, target):
        return answer(404, b'{"message": "No such container"}') if method == "DELETE" else None

    with Proxy(docker_box.engine, rule) as proxy:
        result = docker_box.call("clean", environ={"DOCKER_HOST": proxy.host})
    assert result.returncode != 0 and b"still lists the container" in result.err, result.explain()
    assert b"removed" not in result.out and left in all_ids(docker_box.engine)
    assert docker_box.call("clean").returncode == 0 and left not in all_ids(docker_box.engine)


def test_an_engine_that_cannot_be_asked_is_an_error(docker_box, scratch):
    """Then nobody knows whether something was left; where there is no engine, and none is named, nothing was."""
    (scratch / "s").touch()
    result = docker_box.call("clean", environ={"DOCKER_HOST": f"unix://{scratch}/s"})
    assert result.returncode != 0 and b"containers were not looked at" in result.err
    result = docker_box.call("clean", environ={"DOCKER_HOST": f"unix://{scratch}/none"})
    assert result.returncode != 0 and b"containers were not looked at" in result.err
    assert docker_box.call("clean", environ={"DOCKER_HOST": ""}).returncode == 0


def test_a_server_sweeps_at_its_start(docker_box):
    """What is another's stays, as with `clean`. Nobody is asked to sweep, and nothing is run."""
    engine = docker_box.engine
    policy = docker_policy()
    left = left_by_a_dead_one(docker_box)
    with foreign(engine) as made:
        with Server(policy=policy, environ={"DOCKER_HOST": engine.host}):
            assert wait_until(lambda: left not in all_ids(engine), 10), "it stays"
            assert set(made) <= all_ids(engine), "a container of somebody else was removed"
