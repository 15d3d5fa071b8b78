# SPDX-License-Identifier: Apache-2.0
"""207. The engine makes a container weaker than asked: it ignores a field, has defaults of its own, or lies => each field is looked at after create, and one that is weaker refuses the run.
"""
import json
import re
import signal

import pytest
from conftest import ROOT
from engine_proxy import Proxy
from hostile_engines import OWNER, SESSION, begin, docker_box, engines, make_docker_box

TMPFS = {"/tmp": 100 << 20, "/sandbox": 100 << 20}


def test_field_by_field(docker_box):
    process = begin(docker_box, memory="64m", pids=20, cpus="0.5", nofile=100)
    [ours] = docker_box.engine.containers()
    seen = docker_box.engine.inspect(ours["Id"])
    process.send_signal(signal.SIGINT)
    docker_box.finish(process)
    host, config = seen["HostConfig"], seen["Config"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"], host["IpcMode"], host["PidMode"], host["CgroupnsMode"]) == (
        "none", True, False, "private", "", "private")
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (64 << 20, 64 << 20, 500000000) and 20 <= host["PidsLimit"] <= 28
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Devices"] and not host["Binds"] and not seen["Mounts"]
    options = {o.partition("=")[0]: o.partition("=")[2] for o in host["SecurityOpt"]}
    assert "no-new-privileges" in options and json.loads(options["seccomp"])["defaultAction"] in ("SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS"), list(options)
    limits = {u["Name"]: (u["Soft"], u["Hard"]) for u in host["Ulimits"]}
    assert limits["nofile"] == (16384, 16384) and limits["core"][1] <= 1  # programs get the policy's from the agent
    for path, size in TMPFS.items():
        words = host["Tmpfs"][path].split(",")
        assert {"nosuid", "nodev"} <= set(words) and any(w.startswith("nr_inodes=") for w in words), words
        [given] = [w.partition("=")[2] for w in words if w.startswith("size=")]
        assert int(given.rstrip("k")) * (1024 if given.endswith("k") else 1) <= size, words
    assert config["User"] == "1000:1000" and config["Labels"][SESSION] and config["Labels"][OWNER]
    assert host["LogConfig"]["Type"] == "none" and host["RestartPolicy"]["Name"] in ("", "no") and not host["PublishAllPorts"]


def change(path, value):
    """An inspect answer with another value at a path."""
    def alter(body):
        seen = json.loads(body)
        *above, last = path.split(".")
        here = seen
        for key in above:
            here = here.setdefault(key, {}) if isinstance(here, dict) else here
        here[last] = value(here.get(last)) if callable(value) else value
        return json.dumps(seen).encode()
    return alter


WEAKER = {
    "HostConfig.NetworkMode": "bridge", "HostConfig.ReadonlyRootfs": False, "HostConfig.Privileged": True, "HostConfig.Memory": 0, "HostConfig.MemorySwap": -1,
    "HostConfig.PidsLimit": 0, "HostConfig.NanoCpus": 0, "HostConfig.IpcMode": "host", "HostConfig.PidMode": "host", "HostConfig.UTSMode": "host", "HostConfig.UsernsMode": "host",
    "HostConfig.CgroupnsMode": "host", "HostConfig.LogConfig.Type": "json-file", "HostConfig.RestartPolicy.Name": "always", "HostConfig.PublishAllPorts": True,
    "HostConfig.CapDrop": [], "HostConfig.CapAdd": ["SYS_ADMIN"], "HostConfig.Devices": [{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}],
    "HostConfig.GroupAdd": ["docker"], "HostConfig.Binds": ["/:/host"], "HostConfig.VolumesFrom": ["x"], "HostConfig.CgroupParent": "/", "HostConfig.Sysctls": {"net.ipv4.ip_forward": "1"},
    "HostConfig.SecurityOpt": lambda v: [o for o in v if not o.startswith("no-new")], "HostConfig.Ulimits": [], "HostConfig.ShmSize": 1 << 40, "HostConfig.OomKillDisable": True,
    "HostConfig.Tmpfs": lambda v: {k: o.replace("nosuid,", "") for k, o in v.items()}, "HostConfig.Runtime": "other", "HostConfig.DeviceRequests": [{"Count": -1}],
    "HostConfig.PortBindings": {"80/tcp": [{"HostPort": "80"}]}, "HostConfig.Init": None, "HostConfig.MemorySwappiness": 60, "HostConfig.DeviceCgroupRules": ["c *:* rwm"],
    "HostConfig.Links": ["/other:/x/other"], "HostConfig.ExtraHosts": ["host:192.0.2.1"], "HostConfig.MaskedPaths": lambda v: [p for p in v if p != "/proc/kallsyms"],
    "HostConfig.ReadonlyPaths": [], "HostConfig.Dns": ["192.0.2.53"], "HostConfig.DnsSearch": ["corp.example"], "HostConfig.AutoRemove": False, "HostConfig.Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}],
    "Config.User": "0:0", "Config.Entrypoint": ["/bin/sh"], "Config.Cmd": ["x"], "Config.Tty": True, "Config.Healthcheck.Test": ["CMD", "x"], "Config.Labels": {},
    "Config.WorkingDir": "/sandbox", "Config.Hostname": "host", "Config.OpenStdin": False, "Config.StdinOnce": False, "Config.StopSignal": "SIGWINCH",
    "Mounts": [{"Type": "bind", "Source": "/", "Destination": "/host", "Mode": "", "RW": True, "Propagation": "rprivate"}],
    "NetworkSettings.Networks": {"bridge": {}}, "Image": "sha256:" + "0" * 64, "Path": "/bin/sh",
}
NO_HARM = {"HostConfig.Init"}


def compared():
    """The fields that are looked at one by one: the table of the code."""
    return re.findall(r'\{"([\w.]+)", LOOK_\w+,', (ROOT / "src/backend/docker/inspect.c").read_text())


def test_no_field_is_forgotten():
    assert len(compared()) > 40 and not set(compared()) - set(WEAKER)


@pytest.mark.parametrize("field", sorted(set(WEAKER) - NO_HARM))
def test_a_weaker_value_refuses(docker_box, field):
    if field.endswith(".MemorySwappiness") and docker_box.engine.ask("GET", "/info")[1].get("CgroupVersion") == "2":
        pytest.skip("this kernel's cgroup v2 has no swappiness, and none is asked for")

    def rule(method, target):
        is_inspect = method == "GET" and target.startswith("/containers/") and target.endswith("/json") and target != "/containers/json"
        return change(field, WEAKER[field]) if is_inspect else None

    with Proxy(docker_box.engine, rule) as proxy:
        result = make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)")
        assert result.returncode == 112 and result.error["code"] == "unenforceable", result.explain()
        assert field.split(".")[-1].removesuffix("s").lower() in result.error["message"].lower(), result.explain()
        assert not [path for _, path in proxy.calls() if path.endswith("/start")], "it was started"
        assert ("DELETE" in [method for method, _ in proxy.calls()]), "it was not removed"


def test_options_of_seccomp_that_are_not_ours(docker_box):
    def rule(method, target):
        is_inspect = method == "GET" and target.startswith("/containers/") and target.endswith("/json") and target != "/containers/json"
        return change("HostConfig.SecurityOpt", lambda v: ["no-new-privileges", "seccomp=unconfined"]) if is_inspect else None

    with Proxy(docker_box.engine, rule) as proxy:
        result = make_docker_box(proxy.host, None, docker_box.scratch).run("print(1)")
        assert result.error["code"] == "unenforceable" and "SecurityOpt" in result.error["message"], result.explain()
