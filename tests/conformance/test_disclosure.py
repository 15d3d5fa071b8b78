# SPDX-License-Identifier: Apache-2.0
"""A container tells its code no more about the host than a native box does: /proc, /sys, devices, mounts, variables and
the files that an engine makes are compared from inside. MORE has each difference that remains, with the reason; a
difference without a row fails, and so does a row without a difference.
"""
import json
import pathlib

import pytest
from backends import Backend, can
from suite import BINARY

LOOK = r"""
import json, os
def lines_of(path):
    try:
        with open(path, errors='replace') as file: return file.read(1 << 20)
    except OSError: return ''
def files_below(top):
    # Contents, not names: what is masked is an empty file or directory.
    found = []
    for directory, below, files in os.walk(top):
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path) and lines_of(path): found.append(path)
        if len(found) > 50: break
    return found
names = [name for name in os.listdir('/proc') if not name.isdigit() and name not in ('self', 'thread-self', 'mounts', 'net')]
seen = {
    'proc': sorted({'/proc/' + name for name in names for path in ([f'/proc/{name}'] if not os.path.isdir(f'/proc/{name}') else files_below(f'/proc/{name}'))
                    if lines_of(path)}),
    'sys': sorted({'/'.join(path.split('/')[:3]) for path in files_below('/sys')}),
    'devices': sorted(os.path.join(d, name) for d, _, files in os.walk('/dev') for name in files if not os.path.islink(os.path.join(d, name))),
    'variables': sorted(os.environ),
    'name': os.uname().nodename,
    'mounts': sorted({line.split()[4] for line in open('/proc/self/mountinfo')}),
    'files': {path: lines_of(path) for path in ('/etc/resolv.conf', '/etc/hosts', '/etc/hostname')},
    'paths': lines_of('/proc/self/mountinfo'),
}
print(json.dumps(seen))
"""

DOCKER = {
    "proc": {"/proc/cpuinfo": "the processor tells by CPUID", "/proc/loadavg": "sysinfo() tells", "/proc/meminfo": "sysinfo() tells",
             "/proc/uptime": "sysinfo() and clocks tell", "/proc/version": "uname() tells"},
    "devices": {"/dev/tty": "the terminal of the process: there is none"},
}
MORE = {
    "docker": DOCKER,
    "podman": DOCKER,
    "runsc": {  # all of it is gVisor's own, made up, but for the amount of memory and the kind of processor
        "proc": {**DOCKER["proc"], "/proc/cgroups": "", "/proc/cmdline": "", "/proc/filesystems": "", "/proc/sentry-meminfo": "", "/proc/stat": "", "/proc/sys": ""},
        "sys": {"/sys/class": "", "/sys/devices": ""},
        "devices": {**DOCKER["devices"], "/dev/fuse": "cannot be opened", "/dev/net/tun": "cannot be opened"},
    },
}


@pytest.fixture
def seen(backend):
    return json.loads(backend.run(LOOK).stdout)


@pytest.fixture
def native(scratch):
    made = Backend("native", None, scratch)
    yield json.loads(made.run(LOOK).stdout)
    made.close()


@pytest.mark.parametrize("what", ["proc", "sys", "devices", "variables"])
def test_nothing_more_than_natively(backend, seen, native, what):
    more = set(seen[what]) - set(native[what])
    assert more == set(MORE.get(backend.name, {}).get(what, ())), (what, sorted(more))


def test_a_native_box_has_no_proc_and_no_sys(native):
    """Or the comparison would be with nothing."""
    assert native["proc"] == native["sys"] == [] and "/dev/null" in native["devices"] and "PATH" in native["variables"]


def test_names_of_the_host(backend, seen):
    host = pathlib.Path("/proc/sys/kernel/hostname").read_text().strip()
    assert seen["name"] == "glovebox" and host != "glovebox"
    servers = [line.split()[1] for line in seen["files"]["/etc/resolv.conf"].splitlines() if line.startswith("nameserver")]
    assert set(servers) <= {"127.0.0.1"} and "search" not in seen["files"]["/etc/resolv.conf"], seen["files"]
    if backend.name == "podman":
        return  # copies the host's /etc/hosts, and no field of a container changes that: docs/docker.md
    assert {line.split()[0] for line in seen["files"]["/etc/hosts"].splitlines() if line.strip()} <= {
        "127.0.0.1", "::1", "fe00::0", "fe00::", "ff00::0", "ff00::", "ff02::1", "ff02::2"}, seen["files"]


def test_paths_of_the_host(backend, seen):
    """The table of mounts names sources. Of an engine it has the directory of its storage, and none of glovebox's or the caller's."""
    assert str(BINARY.parent.parent.parent) not in seen["paths"], seen["paths"]
    if backend.engine is None or backend.name == "runsc":
        assert "lowerdir" not in seen["paths"], seen["paths"]


COUNT = """
import os, time
n = 1
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        n += 1
except OSError: print(n)
"""


@pytest.fixture
def counted(backend):
    if not can("pids", backend.name):
        pytest.skip("gVisor keeps no count of tasks on the host, and its control says so")


@pytest.mark.parametrize("pids", [2, 24])
def test_the_task_limit_is_exact(counted, backend, pids):
    result = backend.run(COUNT, pids=pids)
    assert (result.stdout, result.json["peaks"]["pids"]) == (f"{pids}\n", pids), result.explain()


def test_the_task_limit_is_exact_for_all_programs_of_a_session(counted, backend):
    """An interpreter and a program at the same time, and files that are served meanwhile."""
    with backend.session(policy={"pids_limit": 24}) as session:
        run = session.begin("import time\nprint('here', flush=True)\ntime.sleep(8)")
        session.server.put(f"{session.address}/files/f", b"x").expect(201)
        result = session.program(COUNT)
        assert result["stdout"] == "23\n", result
        session.end(run)
