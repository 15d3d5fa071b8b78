# SPDX-License-Identifier: Apache-2.0
"""208. The attacks of the groups A to F in a container => the same verdicts as with the native backend, or a difference that docs/attack-catalogue.md has in its table.
"""
import os
import re
import secrets
import socket

import pytest
from conftest import ROOT, Attack, Result
from hostile_engines import docker_box, engines, make_docker_box
from test_layers import ATTACKS

# Steps that are open in a container and refused natively; each is in the table of the catalogue.
DIFFERENT = {
    "proc_view": {"cgroup", "cmdline", "interrupts", "iomem", "kallsyms", "key-users", "keys", "loadavg", "locks", "meminfo", "net/tcp", "net/unix", "partitions",
                  "stat", "sys", "timer_list", "uptime", "version"},
}
# Of these: files that are masked, so that opening them tells nothing.
MASKED = ["cmdline", "interrupts", "iomem", "kallsyms", "key-users", "keys", "locks", "partitions", "sched_debug", "stat", "timer_list"]
# Under gVisor: what is open there is of gVisor's kernel, which belongs to the box.
IN_GVISOR = {
    "landlock_ways": {"open_proc_oom"}, "processor": {"nice_down"}, "terminals": {"dev_fuse", "dev_net_tun"},
    "other_process": {"open_environ", "open_fd", "open_maps"},
    "proc_view": {"cgroup", "cmdline", "loadavg", "meminfo", "net/tcp", "net/unix", "stat", "sys", "uptime", "version"},
}
# These fill the memory of that kernel until the box is ended for it (verdict `memory`), and the rest would not be run.
FILL_GVISOR = {"socket_options", "kernel_objects"}


@pytest.fixture(scope="module")
def servers():
    tcp, local = socket.socket(), socket.socket(socket.AF_UNIX)
    with tcp, local:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(64)
        local.bind(f"\0glovebox-docker-{os.getpid()}")
        local.listen(64)
        yield tcp.getsockname()[1], f"glovebox-docker-{os.getpid()}"


def script(box, servers, tokens, names):
    """All of them in one container, one after the other."""
    marker = box.directory("outside") / "marker"
    marker.write_text("of the host")
    arguments = {"identities": [0x40000001], "way_up": [marker], "proc_view": [os.getpid()], "outside_signals": [os.getpid()], "other_process": [1], "network_out": servers}
    lines = [f"echo; echo '==== {name}'; /attack/attack {name} {tokens[name]} {' '.join(map(str, arguments.get(name, [])))} 2>&1" for name in names]
    return "\n".join([*lines, "exit 0"])


def run_all(box, servers, names=tuple(ATTACKS)):
    tokens = {name: secrets.token_hex(8) for name in names}
    give = box.directory("give")
    (give / "file").write_text("of the host")
    result = box.run(script(box, servers, tokens, names), "sh", mount=[f"{box.attack_dir}:/attack", f"{give}:/give"], timeout="120s", memory="1g", patience=150)
    parts = dict(re.findall(r"(?ms)^==== (\w+)\n(.*?)(?=^==== |\Z)", result.stdout))
    assert set(parts) == set(names), result.explain()
    return {name: Attack(name, tokens[name], Result(0, parts[name].encode(), b"")) for name in names}


def check(attacks, different):
    open_steps = {name: set(attack.opened) - different.get(name, set()) for name, attack in attacks.items()}
    vacuous = [name for name, attack in attacks.items() if not attack.steps or not attack.finished]
    assert not vacuous, vacuous
    found = {name: sorted(steps) for name, steps in open_steps.items() if steps}
    assert not found, f"open in a container: {found}"


def test_in_a_container(docker_box, servers):
    check(run_all(docker_box, servers), DIFFERENT)


def test_what_is_masked_is_empty(docker_box):
    """Their steps are `ok` above, because a masked file can be opened: but there must be nothing in it."""
    code = ("import os\nfor name in %r:\n  path = '/proc/' + name\n  if not os.path.exists(path): continue\n"
            "  try:\n    with open(path, 'rb') as file: size = len(file.read(65536))\n  except OSError: size = 0\n  print(name, size)")
    result = docker_box.run(code % (MASKED,))
    seen = dict(line.split() for line in result.stdout.splitlines())
    assert result.verdict == "ok" and set(seen) == {name for name in MASKED if os.path.exists(f"/proc/{name}")}, result.explain()
    assert set(seen.values()) == {"0"}, seen


def test_under_gvisor(engines, attack_dir, scratch, servers):
    if not engines.has_runsc:
        pytest.skip("runsc is not installed")
    box = make_docker_box(engines.docker.host, attack_dir, scratch, GLOVEBOX_RUNTIME="runsc")
    box.weaker = ["pids"]
    check(run_all(box, servers, [name for name in ATTACKS if name not in FILL_GVISOR]), IN_GVISOR)


def test_the_differences_are_documented():
    text = (ROOT / "docs/attack-catalogue.md").read_text()
    for name, steps in [*DIFFERENT.items(), *IN_GVISOR.items()]:
        for step in steps:
            assert f"`{step}`" in text, f"{name}: {step} is not in the table"
