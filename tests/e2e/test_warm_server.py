# SPDX-License-Identifier: Apache-2.0
"""`glovebox warm` and `glovebox templates`: what they say, who may use them, and what dies."""
import ctypes
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from conftest import USER, needs_root, process_stat, wait_until
from warm_fixtures import COLD, READY, Server, Traces, children, own_server, server, template_pid, template_pids, warm_box


# glovebox templates


def test_templates(server):
    rows = {t["name"]: t for t in server.box.call("templates", "--json", environ=server.environ).json["templates"]}
    assert rows["python"]["warm"] is True and rows["python-data"]["warm"] is False
    assert rows["python"]["rootfs"] == "host" and "json" in rows["python"]["modules"] and rows["python"]["pool"] == 2 and rows["python"]["description"]
    rows = {t["name"]: t for t in server.box.call("templates", "--json", environ=COLD).json["templates"]}
    assert rows["python"]["warm"] is False
    table = server.box.call("templates", environ=server.environ).out.decode().splitlines()
    assert table[0].split()[:3] == ["TEMPLATE", "WARM", "POOL"] and table[1].split()[:3] == ["python", "yes", "2"]
    assert server.box.call("templates", "--names").out.split() == [b"python", b"python-data"]
    assert server.is_warm(), "asking has harmed it"


def test_templates_of_another_table(server):
    """One that has other modules is another template, whatever its name is."""
    config = server.box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  python:\n    modules: [json]\n")
    environ = {**server.environ, "GLOVEBOX_CONFIG_DIR": str(config)}
    assert [t["warm"] for t in server.box.call("templates", "--json", environ=environ).json["templates"]] == [False]
    result = server.box.run("print(1)", environ=environ)
    assert result.stdout == "1\n" and "no such template" in result.control("layout")["how"]


# glovebox warm


def test_says_what_is_ready(warm_box):
    config = warm_box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  small:\n    modules: [json, no_such_module, re, nor.this]\n    pool: 3\n  python:\n    modules: []\n")
    s = Server(warm_box, "small", "python", "--pool", "1", environ={"GLOVEBOX_CONFIG_DIR": str(config)}).wait_ready(2)
    assert [(e["event"], e["template"], e["pool"], e["missing"]) for e in s.lines] == [
        ("ready", "small", 1, ["no_such_module", "nor.this"]), ("ready", "python", 1, [])]
    assert all(0 < e["seconds"] < READY for e in s.lines)
    assert wait_until(lambda: len(template_pids(s)) == 4, 5), "each template, and one ahead of each"
    assert (s.directory / "warm.sock").stat().st_mode & 0o777 == 0o600
    result = s.run("print(1)", template="small")
    assert result.stdout == "1\n" and result.control("layout")["state"] == "weaker"
    traces = Traces(s)
    assert s.stop(signal.SIGINT) == 0 and not list(s.directory.iterdir()) and s.errors() == ""
    traces.assert_gone()


def test_a_line_for_people(warm_box):
    s = Server(warm_box)
    s.stop(signal.SIGKILL)
    directory = warm_box.directory("warm", mode=0o700)
    process = subprocess.Popen([str(warm_box.binary), "warm"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**warm_box.environ, "GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert re.fullmatch(rb"python ready in \d+\.\d s, 2 sessions ahead\n", process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10) == (b"", b"") and process.returncode == 0


def test_stop(own_server):
    result = own_server.box.call("warm", "--stop", environ=own_server.environ)
    assert result.returncode == 0 and own_server.process.wait(5) == 0
    result = own_server.box.call("warm", "--stop", "--json", environ=own_server.environ)
    assert result.returncode == 113 and "serves" in result.error["message"]


def test_stop_while_it_starts(warm_box):
    config = warm_box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  slow:\n    modules: [slow_module]\n")
    # The template's own box has an empty workspace, so nothing can be imported slowly: the moment is found by trying.
    for delay in (0.005, 0.02, 0.05, 0.1):
        s = Server(warm_box, "slow", environ={"GLOVEBOX_CONFIG_DIR": str(config)})
        time.sleep(delay)
        assert s.stop() in (0, -signal.SIGTERM)
        assert s.process.returncode == -signal.SIGTERM or not (s.directory / "warm.sock").exists()


def test_two_are_refused(own_server):
    result = own_server.box.call("warm", "--json", environ=own_server.environ)
    assert result.returncode == 110 and "already" in result.error["message"]
    assert own_server.is_warm()


def test_its_directory_is_made_and_removed(warm_box):
    directory = warm_box.directory("parent", mode=0o700) / "made"
    s = Server(warm_box, environ={"GLOVEBOX_RUNTIME_DIR": str(directory)}).wait_ready()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert s.stop() == 0 and not directory.exists()


def test_a_directory_that_others_can_write_to(warm_box):
    directory = warm_box.directory("open", mode=0o777)
    directory.chmod(0o777)
    result = warm_box.call("warm", "--json", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.returncode == 110 and "others can write" in result.error["message"]


@pytest.mark.parametrize("argv, status, text", [
    (["nosuch"], 113, "no template"),
    (["python", "python"], 110, "twice"),
    (["--pool", "65"], 110, "0 to 64"),
    (["--pool", "-1"], 110, "0 to 64"),
    (["--stop", "python"], 110, "no template"),
])
def test_wrong_arguments(warm_box, argv, status, text):
    result = warm_box.call("warm", "--json", *argv, environ={"GLOVEBOX_RUNTIME_DIR": str(warm_box.directory("w", mode=0o700))})
    assert result.returncode == status and text in result.error["message"], result.explain()


def test_a_python_that_is_not_there(warm_box):
    config = warm_box.directory("config")
    (config / "templates.yaml").write_text("templates:\n  none:\n    python: /usr/bin/no-python\n    modules: []\n")
    directory = warm_box.directory("w", mode=0o700)
    result = warm_box.call("warm", "none", "--json", environ={"GLOVEBOX_RUNTIME_DIR": str(directory), "GLOVEBOX_CONFIG_DIR": str(config)})
    assert result.returncode == 112 and "none cannot be started" in result.error["message"], result.explain()
    assert not list(directory.iterdir())


def test_ordinary_user_without_cgroups(user_box):
    if user_box.has_cgroup:
        pytest.skip("this user has cgroups of his own")
    directory = user_box.directory("w", mode=0o700)
    result = user_box.call("warm", "--json", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.returncode == 112 and "cgroup" in result.error["message"] and not list(directory.iterdir())


# Another user


@needs_root
def test_another_user_cannot_connect(server, user_box):
    """Not to the socket; and one that he is led to he does not use, as it is not his."""
    code = "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ntry:\n    s.connect(sys.argv[1])\nexcept OSError as e:\n    print(e.strerror)"
    path = server.directory / "warm.sock"
    said = subprocess.run(["/usr/bin/python3", "-c", code, str(path)], capture_output=True, text=True, user=USER, group=USER, extra_groups=[])
    assert said.stdout == "Permission denied\n", said
    # Should the permissions be lost, the warden still looks at who it is.
    server.directory.chmod(0o755)
    path.chmod(0o777)
    try:
        code += "\nelse:\n    s.settimeout(5); print(s.recv(1))"
        said = subprocess.run(["/usr/bin/python3", "-c", code, str(path)], capture_output=True, text=True, user=USER, group=USER, extra_groups=[])
        assert said.stdout == "b''\n", said
        result = user_box.run("print(1)", environ=server.environ)
        assert result.stdout == "1\n" and result.control("layout")["state"] == "enforced"
    finally:
        path.chmod(0o600)
        server.directory.chmod(0o700)
    assert server.is_warm()


@needs_root
def test_a_false_socket_is_not_used(user_box, warm_box):
    """Root does not talk to a socket of somebody else, in whatever directory it is told to look."""
    directory = user_box.directory("false", mode=0o755)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(directory / "warm.sock"))
    listener.listen()
    os.chown(directory / "warm.sock", USER, USER)
    result = warm_box.run("print(1)", environ={"GLOVEBOX_RUNTIME_DIR": str(directory)})
    assert result.stdout == "1\n" and result.control("layout")["how"] == "fresh exec"
    listener.close()


# Deaths


def count_inits(server):
    return sum(name == "glovebox-init" for _, name in children(server.process.pid))


def copy_sockets(pid):
    """Copies of all sockets of a process. While they are open, their other ends do not see that it has closed its own."""
    target, copies = os.pidfd_open(pid), []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
            copy = ctypes.CDLL(None, use_errno=True).syscall(438, target, int(fd), 0)  # pidfd_getfd
            assert copy >= 0, os.strerror(ctypes.get_errno())
            copies.append(copy)
    os.close(target)
    return copies


def test_sessions_that_are_ended_while_they_are_made(own_server):
    """Their inits start after the sessions have ended. A process that the warden starts has copies of its sockets for a
    moment, so an init may not see the end of its own socket: one stayed for ever."""
    def pid_of(name):
        return next((pid for pid, n in children(own_server.process.pid) if n == name), None)
    assert own_server.is_warm()
    assert wait_until(lambda: count_inits(own_server) == 4, 20), count_inits(own_server)  # the template's, and three made ahead
    before = count_inits(own_server)
    foreman = pid_of("glovebox-forema")
    os.kill(foreman, signal.SIGSTOP)
    try:
        fronts = [own_server.box.start("import time; time.sleep(60)", environ=own_server.environ) for _ in range(6)]
        time.sleep(0.5)  # they have asked; a foreman that is silent for longer would be ended
        copies = copy_sockets(pid_of("glovebox-warden"))
        for front in fronts:
            front.kill()
            front.communicate()
        time.sleep(0.2)  # their sessions are ended
    finally:
        os.kill(foreman, signal.SIGCONT)
    time.sleep(0.5)  # it makes the inits that were asked for
    for copy in copies:
        os.close(copy)
    assert wait_until(lambda: count_inits(own_server) <= before, 10, 0.05), (before, count_inits(own_server))
    assert wait_until(own_server.is_warm, 15), "no template comes back"


def test_a_template_that_is_killed(own_server):
    """Those that came from it go on; the next run works at once; soon there is another template."""
    going = own_server.box.start("print('ready', flush=True)\nimport time; time.sleep(2); print('survived')", environ=own_server.environ, json=False)
    assert going.stdout.readline() == b"ready\n"
    victim = template_pid(own_server)
    os.kill(victim, signal.SIGKILL)
    result = own_server.run("print(6 * 7)")
    assert result.stdout == "42\n" and result.exit_code == 0, result.explain()
    assert wait_until(own_server.is_warm, 15, 0.05)
    own_server.wait_ready(2)
    assert "has ended" in own_server.errors() and template_pid(own_server) != victim
    rest = own_server.box.finish(going)
    assert rest.out == b"survived\n" and rest.returncode == 0, rest.explain()


def test_a_template_that_is_killed_again_and_again(own_server):
    for _ in range(3):
        assert wait_until(lambda: template_pid(own_server), 5)
        os.kill(template_pid(own_server), signal.SIGKILL)
        assert own_server.run("print(1)").stdout == "1\n"
        assert wait_until(own_server.is_warm, 10, 0.1)


def test_a_warden_that_is_killed(own_server):
    """What runs in its boxes ends, and is said to be lost; the service comes back."""
    going = own_server.box.start("print('ready', flush=True)\nimport time; time.sleep(30)", environ=own_server.environ, json=False)
    assert going.stdout.readline() == b"ready\n"
    warden = [p for p, name in children(own_server.process.pid) if name == "glovebox-warden" and (process_stat(p) or ["", ["", ""]])[1][1] == str(own_server.process.pid)]
    assert len(warden) == 1
    traces = Traces(own_server)
    traces.processes = {p for p in traces.processes if p[0] != own_server.process.pid}
    os.setpriority(os.PRIO_PROCESS, warden[0], 19)  # its end takes longer: its templates are seen to be gone before it is
    os.kill(warden[0], signal.SIGKILL)
    rest = own_server.box.finish(going, patience=10)
    assert rest.returncode != 0 and b"lost" in rest.err, rest.explain()
    assert own_server.run("print(1)").stdout == "1\n"
    assert wait_until(own_server.is_warm, 15, 0.1)
    traces.assert_gone()
    traces = Traces(own_server)
    assert own_server.stop() == 0
    traces.assert_gone()


@pytest.mark.parametrize("msec", [0, 1, 3, 10, 30])
def test_a_warden_that_is_killed_while_a_template_is_started(own_server, msec):
    """Another that serves takes its place, and not one that nobody can reach."""
    warden = next(p for p, name in children(own_server.process.pid) if name == "glovebox-warden" and process_stat(p)[1][1] == str(own_server.process.pid))
    os.kill(template_pid(own_server), signal.SIGKILL)
    time.sleep(msec / 1000)
    os.kill(warden, signal.SIGKILL)
    assert wait_until(own_server.is_warm, 15, 0.1), own_server.errors()


def test_killed_by_sigkill(warm_box):
    s = Server(warm_box).wait_ready()
    going = warm_box.start("print('ready', flush=True)\nimport time; time.sleep(30)", environ=s.environ, json=False)
    assert going.stdout.readline() == b"ready\n"
    traces = Traces(s)
    s.process.kill()
    s.process.wait()
    rest = warm_box.finish(going, patience=10)
    assert rest.returncode != 0 and b"lost" in rest.err, rest.explain()
    traces.assert_gone()
    # Its socket is still there: nobody is misled by it, and the next one takes its place.
    assert (s.directory / "warm.sock").exists()
    result = warm_box.run("print(1)", environ=s.environ)
    assert result.stdout == "1\n" and result.control("layout")["how"] == "fresh exec"
    again = Server(warm_box, environ=s.environ).wait_ready()
    assert again.is_warm() and again.stop() == 0


def test_nothing_is_left(warm_box):
    s = Server(warm_box).wait_ready()
    traces = Traces(s)
    for _ in range(5):
        s.run_warm("import subprocess; subprocess.Popen(['sleep', '100'])")
        traces.add(s)
    assert s.stop() == 0
    traces.assert_gone()
