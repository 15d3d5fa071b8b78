# SPDX-License-Identifier: Apache-2.0
"""183, of secrets that are given to runs and sessions. Somebody sees command lines and environments of glovebox's processes, the server's log, audit, metrics, journal and
files, its answers, and what is left in its memory and by its crash => no value is there; the name is what it is known by.
"""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import needs_root
from hostile_secrets import files_with, new_secret, new_session, plain, processes_outside, run, server
from server import PATIENCE, Server, found_in_memory, wait_for


def test_flags(own_box):
    """A value on the command line is refused, and not repeated in the message: by a path that is none, by a name that is none."""
    secret = plain(new_secret())
    for flags in (["--secret", f"KEY={secret}"], ["--secret-file", f"KEY={secret}"], ["--secret", secret], ["--secret", f"={secret}"], ["--secrets", "-"]):
        result = own_box.call("run", "--json", *flags, "-c", "print(1)")
        assert result.returncode in (110, 113) and secret.encode() not in result.out + result.err, result.explain()


@pytest.mark.parametrize("way", ["variable", "file", "list", "object"])
def test_while_it_runs(own_box, way):
    secret, path = new_secret(), own_box.directory() / "given"
    path.write_text({"list": f"KEY={secret}\n", "object": json.dumps({"KEY": secret})}.get(way, secret))
    path.chmod(0o600)
    flags = {"variable": ["--secret", "KEY"], "file": ["--secret", f"KEY={path}"], "list": ["--secrets", path], "object": ["--secrets", path]}[way]
    process = subprocess.Popen([str(own_box.binary), "run", *map(str, flags), "-c", "import os, sys\nprint(len(os.environ['KEY']), flush=True)\nsys.stdin.read()"],
                               env={**own_box.environ, **({"KEY": secret} if way == "variable" else {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == f"{len(secret)}\n".encode()
    looked = set()
    for pid, seen in processes_outside():
        looked.add(pid)
        assert plain(secret).encode() not in seen["environ"] + seen["cmdline"], (pid, seen["cmdline"][:200])
    assert process.pid in looked or os.geteuid() != 0
    assert own_box.finish(process, b"").returncode == 0


def test_of_a_server(server):
    """After runs and sessions that went well and badly."""
    secret = new_secret()
    session = new_session(server, secret)
    code = "import os\nprint(os.environ['KEY'])\nraise ValueError(os.environ['KEY'])"
    for result in (run(server, code, secret), run(server, code, session=session), run(server, code, session=session, context=None)):
        assert result["scrubbed"]["names"].get("KEY"), result
    bad = [{"code": code, "secrets": {"KEY": secret}, "timeout": -1},
           {"code": code, "secrets": {"KEY": [secret]}}, {"code": code, "secrets": {"KEY": {"value": secret, "file": "/etc/passwd"}}}, {"code": code, "secrets": {"KEY": {"value": secret, "more": 1}}}, {"code": code, "secrets": secret},
           {"code": code, "secrets": {"KEY": secret}, "policy": {"guard_rules": {"none": "off"}}}]
    answers = [server.post("/v1/runs", body) for body in bad] + [server.post("/v1/sessions", {k: v for k, v in body.items() if k != "code"}) for body in bad]
    assert all(answer.status == 400 for answer in answers), [a.status for a in answers]
    answers.append(server.request("POST", "/v1/runs", body=('{"code": "1", "secrets": {"KEY": "' + plain(secret) + '"').encode(), headers={"Content-Type": "application/json"}))
    answers += [server.get(path).expect(200) for path in ("/v1/audit?limit=1000", "/metrics", "/v1/stats", "/v1/runs?limit=1000", "/v1/sessions", f"/v1/sessions/{session}", "/v1/info")]
    for answer in answers:
        assert plain(secret) not in answer.body.decode(), answer.explain()
    assert server.get(f"/v1/sessions/{session}").json["secrets"] == ["KEY"]
    assert "KEY" not in server.get("/metrics").body.decode()
    for pid in [server.pid, *server.processes()]:
        for name in ("environ", "cmdline"):
            try:
                data = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            inside = os.path.exists(f"/proc/{pid}/ns/pid") and os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
            assert inside or plain(secret).encode() not in data, (pid, name)
    assert files_with(secret, server.directory) == []
    server.delete(f"/v1/sessions/{session}").expect(204)
    assert files_with(secret, server.directory) == []


@needs_root
def test_memory_of_the_front(server):
    """When its run or session is over, it is wiped."""
    secret = new_secret()
    needle = plain(secret).encode()

    def found():
        return found_in_memory(server.pid, needle)
    session = new_session(server, secret)
    assert found()  # this is how it would be found
    code = "import os\nprint('x' * 5000 + os.environ['KEY'])\n"
    run(server, code, session=session)
    run(server, code, session=session, context=None)
    run(server, f"{code}os.environ['KEY']", session=session)
    run(server, f"{code}raise ValueError(os.environ['KEY'])", session=session)
    server.delete(f"/v1/sessions/{session}").expect(204)
    for _ in range(4):
        run(server, code, secret)
        run(server, "echo $KEY", secret, language="bash")
    end = time.monotonic() + 10
    while found() and time.monotonic() < end:  # the answer may be there before its thread has tidied up
        time.sleep(0.05)
    assert found() == []


def test_crash():
    server = Server()
    try:
        with server:
            secret = new_secret()
            new_session(server, secret)
            before = {path: set(os.listdir(path)) for path in ("/", str(server.directory), str(server.state))}
            os.kill(server.pid, signal.SIGABRT)
            server._wait(PATIENCE)
            assert not [name for path, names in before.items() for name in set(os.listdir(path)) - names if "core" in name]
            assert plain(secret) not in server.output() and files_with(secret, server.directory) == []
    finally:
        server.process = None
        server.close()
