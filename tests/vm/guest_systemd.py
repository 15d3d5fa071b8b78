# SPDX-License-Identifier: Apache-2.0
"""The units that are installed, under a real systemd: socket activation, readiness, delegation, hardening, the end."""
import os
import pathlib
import platform
import subprocess

from guest_host import CGROUP, PATIENCE, expect_nothing_left, wait_for
from guest_server import Client

SOCKET = "/run/glovebox/glovebox.sock"
SERVICE = CGROUP / "system.slice/glovebox.service"
DROP_IN = pathlib.Path("/etc/systemd/system/glovebox.service.d")


def systemctl(*words):
    done = subprocess.run(["systemctl", "--no-pager", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
    return done.stdout


def properties(*names):
    return dict(line.split("=", 1) for line in systemctl("show", "glovebox.service", *(f"-p{name}" for name in names)).splitlines())


def pids(path):
    return [int(word) for file in path.rglob("cgroup.procs") for word in file.read_text().split()]



def uids(group):
    """Of the processes of a group, by /proc/PID/status: the owner of the directory is root's for what is not dumpable."""
    found = set()
    for pid in pids(group):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                found.add(int(line.split()[1]))
    return found


def first_request(client):
    """The socket is there before the server, which the first connection starts."""
    assert properties("ActiveState")["ActiveState"] == "inactive"
    assert client.ask("GET", "/healthz")[0] == 200
    state = properties("ActiveState", "SubState", "Type", "MainPID", "StatusText")
    assert state["ActiveState"] == "active" and state["SubState"] == "running", state
    assert client.ask("GET", "/readyz")[0] == 200
    return int(state["MainPID"])


def work(client):
    result = client.run("import subprocess, socket; print(2 + 2, flush=True); subprocess.run(['ls', '/'])")
    assert result["stdout"].startswith("4\n") and "sandbox" in result["stdout"], result
    assert client.run("print(5)", template=None)["stdout"] == "5\n"
    assert client.run("x = bytearray(400 << 20)", policy={"mem_limit": "64m"})["verdict"]["kind"] == "memory"
    status, session = client.ask("POST", "/v1/sessions", {})
    assert status == 201 and session["warm"], session
    assert pids(SERVICE / "main") and not (SERVICE / "cgroup.procs").read_text()
    assert [p for p in SERVICE.iterdir() if p.name.startswith("glovebox-")]
    return session["id"]


def end(main):
    systemctl("stop", "glovebox.service")
    state = properties("Result", "ExecMainStatus", "ActiveState")
    assert state == {"Result": "success", "ExecMainStatus": "0", "ActiveState": "inactive"}, state
    assert wait_for(lambda: not pathlib.Path(f"/proc/{main}").exists(), PATIENCE) is not None
    expect_nothing_left(PATIENCE)


def as_an_account():
    client = Client(SOCKET)
    main = first_request(client)
    session = work(client)
    assert uids(SERVICE / "main") == {990}, uids(SERVICE / "main")
    assert client.ask("PUT", f"/v1/sessions/{session}/files/a.txt", b"bytes")[0] == 201
    assert client.ask("GET", f"/v1/sessions/{session}/files/a.txt")[1] == b"bytes"
    systemctl("reload", "glovebox.service")
    assert client.ask("GET", "/readyz")[0] == 200
    end(main)


def killed_and_started_anew():
    client = Client(SOCKET)
    main = first_request(client)
    client.run("print(1)")
    os.kill(main, 9)
    assert wait_for(lambda: properties("MainPID", "ActiveState") not in ({"MainPID": str(main), "ActiveState": "active"},), PATIENCE) is not None
    assert wait_for(lambda: properties("ActiveState")["ActiveState"] == "active", PATIENCE) is not None
    again = int(properties("MainPID")["MainPID"])
    assert again != main and client.run("print(1)")["stdout"] == "1\n"
    end(again)


def as_root():
    """With root.conf: the same, and each box has a host user of its own."""
    DROP_IN.mkdir(parents=True)
    (DROP_IN / "root.conf").write_text(pathlib.Path("/usr/local/share/glovebox/systemd/root.conf").read_text())
    systemctl("daemon-reload")
    client = Client(SOCKET)
    main = first_request(client)
    session = work(client)
    assert uids(SERVICE / "main") == {0, 990}, uids(SERVICE / "main")
    status = pathlib.Path(f"/proc/{main}/status").read_text()
    assert "Uid:\t990\t990\t990\t990" in status and "CapBnd:\t0000000000000000" in status, status
    answer = client.ask("PUT", f"/v1/sessions/{session}/files/a.txt", b"bytes")
    assert answer[0] == (201 if tuple(map(int, platform.release().split(".")[:2])) >= (6, 3) else 503), answer
    end(main)


def tests():
    yield "systemd/as_an_account", as_an_account
    yield "systemd/killed_and_started_anew", killed_and_started_anew
    yield "systemd/as_root", as_root
