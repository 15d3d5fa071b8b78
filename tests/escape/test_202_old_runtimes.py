# SPDX-License-Identifier: Apache-2.0
"""202. The engine's runc has known ways out of a container => `doctor` warns, and a run is refused unless the policy allows that control to be weaker by name.

The table of versions is tested beside the code (src/backend/docker/test_address.c).
"""
import json

import pytest
from engine_proxy import Proxy
from hostile_engines import docker_box, engines, make_docker_box

OLD = ["1.0.0", "1.1.5+ds1", "1.1.15", "1.2.7", "1.3.0", "1.3.2", "1.4.0-rc.2"]
GOOD = ["1.2.8", "1.2.10", "1.3.3", "1.4.0-rc.3", "1.4.0", "2.0.0"]


def with_runc(version):
    """The engine's /version with another runc in it."""
    def rule(method, target):
        def alter(body):
            seen = json.loads(body)
            for part in seen.get("Components") or []:
                if part["Name"] == "runc":
                    part["Version"] = version
            return json.dumps(seen).encode()
        return alter if target == "/version" else None
    return rule


@pytest.mark.parametrize("version", OLD + ["", "rubbish", "1.2.8" + "9" * 200])
def test_an_old_one_is_refused(docker_box, version):
    with Proxy(docker_box.engine, with_runc(version)) as proxy:
        box = make_docker_box(proxy.host, None, docker_box.scratch)
        result = box.run("print(1)", allow_weaker=None)
        assert result.error["code"] == "unenforceable" and "runtime" in result.error["message"], result.explain()
        assert ("POST", "/containers/create") not in proxy.calls(), "it was made first"


@pytest.mark.parametrize("version", GOOD[:2])
def test_a_good_one_is_used(docker_box, version):
    with Proxy(docker_box.engine, with_runc(version)) as proxy:
        result = make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)", allow_weaker=None)
        assert result.stdout == "1\n" and result.control("runtime")["state"] == "enforced", result.explain()


def test_allowed_by_name_it_is_told(docker_box):
    result = docker_box.run("print(1)")
    assert result.verdict == "ok" and result.control("runtime")["state"] == "weaker" and "1.1.5" in result.control("runtime")["how"], result.explain()
    assert any("runtime" in note for note in result.json["notes"]), result.json["notes"]


def test_the_doctor_warns(docker_box):
    result = docker_box.call("doctor", "--json")
    [row] = [check for check in result.json["checks"] if check["name"] == "runc"]
    assert row["state"] == "weaker" and "1.1.5" in row["found"] and "--allow-weaker runtime" in row["remedy"], row
    [control] = [control for control in result.json["controls"] if control["name"] == "runtime"]
    assert control["state"] == "weaker", control


def test_the_doctor_does_not_warn_of_a_good_one(docker_box):
    with Proxy(docker_box.engine, with_runc(GOOD[0])) as proxy:
        result = make_docker_box(proxy.host, None, docker_box.scratch).call("doctor", "--json")
        [row] = [check for check in result.json["checks"] if check["name"] == "runc"]
        assert row["state"] == "ok" and GOOD[0] in row["found"], row
