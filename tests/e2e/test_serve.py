# SPDX-License-Identifier: Apache-2.0
"""glovebox-server as a process: its configuration, its sockets, its life and its end."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import IS_ROOT, ROOT, process_stat, wait_until  # noqa: E402
from server import PATIENCE, PROGRAM, Server  # noqa: E402
from serving import CONFLICT, GONE, USAGE, call, close, descendants, in_background, lives, readiness, refused, started_run, status_of, who  # noqa: E402

# ---- configuration ----

@pytest.mark.parametrize("text, message", [
    ("sesions: 3", ":1:1: unknown key \"sesions\"; did you mean \"sessions\"?"),
    ("runs: 3\nsessions: 0", ":2:11: sessions: \"0\"; allowed: a whole number, 1 to"),
    ("listen: [here]", ":1:10: listen: \"here\" is not an address"),
    ("listen: ['localhost:80']", "is not an address"),
    ("listen: ['unix:relative']", "is absolute"),
    ("listen: ['unix:/a', 'unix:/a']", "is named twice"),
    ("sessions: [1]", ":1:11: sessions: a list; allowed"),
    ("idle_timeout: soon", "allowed: a time such as 30s"),
    ("idle_timeout: 30h", "idle_timeout is above idle_timeout_max"),
    ("tokens: yes", "allowed: true or false"),
    ("certificate: /x", "TLS takes both a certificate and its key"),
    ("directory: relative", "allowed: an absolute path"),
    ("hosts: ['a b']", "allowed: a host name"),
    ("origins: ['example.com']", "allowed: https://NAME"),
    ("a: &x 1", "anchors"),
    ("- a", "allowed: a mapping of keys"),
    ("tokens: false\nlisten: ['0.0.0.0:8080']", "without tokens everybody could run code here"),
    ("tokens: false\nlisten: ['[::]:8080']", "without tokens everybody could run code here"),
])
def test_a_wrong_configuration_is_refused_with_its_place(tmp_path, text, message):
    file = tmp_path / "server.yaml"
    file.write_text(text + "\n")
    done = call("serve", "--config", file, "--check")
    assert done.returncode == USAGE and message in done.stderr, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments, message", [
    (["--frob", "1"], "unknown flag"),
    (["--listen"], "needs a value"),
    (["--set", "runs"], "KEY=VALUE"),
    (["--set", "rums=1"], "did you mean \"runs\""),
    (["--set", "idle_timeout=soon"], "--set idle_timeout: \"soon\""),
    (["--parent-fd", "99"], "open descriptor"),
    (["word"], "unexpected argument"),
    (["--config", "/nonexistent.yaml"], "cannot open"),
    (["--directory", "/etc/passwd"], "is not a directory"),
])
def test_wrong_flags(arguments, message):
    done = call("serve", "--check", *arguments)
    assert done.returncode == USAGE and message in done.stderr, done.stderr


def test_the_shipped_configuration_and_every_key(tmp_path):
    assert call("--config", ROOT / "config/server.yaml", "--check").returncode == 0
    rows = json.loads(call("--print-config").stdout)
    shipped = (ROOT / "config/server.yaml").read_text()
    docs = (ROOT / "docs/server.md").read_text()
    for key, row in rows.items():
        assert f"\n{key}: " in shipped or f"\n# {key}: " in shipped, key
        if row["default"]:
            assert f"\n{key}: {row['default']}\n" in shipped, key
        default = "" if row["default"] is None else f"`{row['default']}`"
        assert f"| `{key}` | {default} |" in docs, f"docs/server.md lacks the row of {key}"


def test_flags_come_before_the_file():
    with Server(tenant_runs=3, tenant_sessions=4, arguments=("--tenant-runs", "7", "--set", "tenant_sessions=9")) as server:
        limits = server.get("/v1/info").expect(200).json["quota"]
        assert limits["runs"] == 7 and limits["sessions"] == 9, limits


# ---- sockets ----

def test_its_socket_and_directories_are_its_own(who):
    with Server(**who) as server:
        assert server.get("/healthz").json == {"status": "ok"}
        mode = os.lstat(server.socket)
        assert stat.S_ISSOCK(mode.st_mode) and stat.S_IMODE(mode.st_mode) == 0o600
        assert stat.S_IMODE(os.stat(server.state).st_mode) == 0o700
        uid = int(status_of(server.pid)["Uid"][0])
        assert mode.st_uid == uid and os.stat(server.state).st_uid == uid
        assert all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in server.state.iterdir())
    assert not server.socket.exists()


def test_the_default_socket_is_in_the_runtime_directory():
    server = Server()
    try:
        server.write_config({"directory": str(server.state)})
        server.socket = server.directory / "run/glovebox.sock"
        server.start()
        assert stat.S_IMODE(os.stat(server.socket.parent).st_mode) == 0o700
        assert server.get("/readyz").status == 200
    finally:
        server.close()


def test_two_servers_want_one_socket():
    with Server() as first:
        second = Server()
        try:
            second.write_config({"listen": [f"unix:{first.socket}"], "directory": str(second.state)})
            assert "another server listens at" in refused(second, CONFLICT)
            assert first.get("/readyz").status == 200
        finally:
            second.close()


def test_two_servers_want_one_directory():
    with Server() as first:
        second = Server()
        try:
            second.write_config({"listen": [f"unix:{second.socket}"], "directory": str(first.state)})
            refused(second, CONFLICT)
            assert str(first.state) in second.output() and not second.socket.exists()
            assert first.run("print(1)")["result"]["stdout"] == "1\n"
        finally:
            second.close()


def test_a_socket_that_a_killed_server_left_is_replaced(who):
    server = Server(**who).start()
    for _ in range(5):
        server.kill()
        server.start()  # at once: what is left of the one before is about to end
    server.kill()
    with server:
        assert server.get("/readyz").status == 200


def test_what_is_not_a_socket_of_ours_is_left_alone():
    server = Server()
    try:
        server.socket.write_text("precious")
        assert "is not a socket" in refused(server, CONFLICT)
        assert server.socket.read_text() == "precious"
        server.socket.unlink()
        server.socket.symlink_to(server.directory / "elsewhere")
        assert "is not a socket" in refused(server, CONFLICT)
        server.socket.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(server.socket))
            other.listen()
            assert "another program listens" in refused(server, CONFLICT)
            assert server.socket.exists()
    finally:
        server.close()


def test_a_directory_that_others_can_write_to_is_refused(tmp_path):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    server = Server()
    try:
        for path, message in ((place / "a.sock", "others can write"), (tmp_path / "link/a.sock", "link")):
            server.write_config({"listen": [f"unix:{path}"], "directory": str(server.state)})
            assert message in refused(server)
            assert not path.exists()
    finally:
        server.close()


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = Server()
        try:
            server.write_config({"listen": ["127.0.0.1:%d" % other.getsockname()[1]], "directory": str(server.state)})
            assert "Address already in use" in refused(server, CONFLICT)
        finally:
            server.close()


def test_sockets_of_a_service_manager():
    """LISTEN_FDS: a unix and a TCP socket; the configuration's addresses do not count then, and the socket is not removed."""
    server = Server()
    unix, tcp = socket.socket(socket.AF_UNIX), socket.socket()
    try:
        path = server.directory / "given.sock"
        unix.bind(str(path))
        if IS_ROOT:
            path.chmod(0o600)
        unix.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        # The numbers 3 and 4, and the pid that only the process itself knows.
        shell = f"exec 3<&{unix.fileno()} 4<&{tcp.fileno()}; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:b; exec {PROGRAM} serve"
        log = open(server.directory / "log", "ab")
        server.log = log
        server.process = subprocess.Popen(["bash", "-c", shell], env=server.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                          pass_fds=(unix.fileno(), tcp.fileno()))
        unwanted, server.socket = server.socket, path
        server.wait_ready()
        assert not unwanted.exists()
        with socket.create_connection(tcp.getsockname(), timeout=PATIENCE) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert plain.recv(4096).startswith(b"HTTP/1.1 200")
        assert server.stop() == 0
        assert path.exists()
    finally:
        unix.close()
        tcp.close()
        close(server)


# ---- TLS ----

def certificate(directory, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.crt")],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for kind in ("key", "crt"):
        (directory / f"{name}.{kind}").chmod(0o644)
    return (directory / f"{name}.crt").read_text(), (directory / f"{name}.key").read_text()


def peer_certificate(address):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, timeout=PATIENCE) as plain, context.wrap_socket(plain) as tls:
        tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert tls.recv(4096).startswith(b"HTTP/1.1 200")
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(True))


def test_tls_and_another_certificate_at_sighup(tmp_path):
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    server = Server(tcp=True)
    crt, key = server.directory / "s.crt", server.directory / "s.key"
    listen = [f"unix:{server.socket}", "127.0.0.1:%d" % server.tcp[1]]
    server.write_config({"listen": listen, "directory": str(server.state), "certificate": str(crt), "key": str(key)})

    def put(certificate_text, key_text):
        crt.write_text(certificate_text)
        key.write_text(key_text)
        key.chmod(0o644)

    put(first[0], second[1])
    try:
        assert "key" in refused(server)
        put("nonsense", first[1])
        refused(server)
        put(*first)
        server.start()
        assert peer_certificate(server.tcp) == first[0]
        with socket.create_connection(server.tcp, timeout=PATIENCE) as plain:  # not TLS: no answer
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert b"200" not in plain.recv(4096)

        put(second[0], first[1])  # does not fit: the old one stays
        server.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "the old one stays" in server.output(), PATIENCE)
        assert peer_certificate(server.tcp) == first[0]
        put(*second)
        server.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: peer_certificate(server.tcp) == second[0], PATIENCE)
        assert server.get("/readyz").status == 200
    finally:
        server.close()


# ---- the service manager ----

class Manager:
    """Hears what the server says of itself."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.socket.settimeout(PATIENCE)

    def wait(self, word):
        while True:
            text = self.socket.recv(4096).decode()
            if word in text.splitlines():
                return text


def test_the_service_manager_is_told(tmp_path):
    manager = Manager(tmp_path / "notify")
    server = Server(environ={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"})
    try:
        server.start(wait=False)
        manager.wait("READY=1")
        assert server.get("/readyz").status == 200
        for _ in range(3):
            assert "sessions" in manager.wait("WATCHDOG=1")
        assert server.run("import os; print(sorted(k for k in os.environ if 'NOTIFY' in k or 'WATCHDOG' in k))")["result"]["stdout"] == "[]\n"
        assert server.stop() == 0
        manager.wait("STOPPING=1")
    finally:
        manager.socket.close()
        server.close()


def unit_files():
    built = PROGRAM.parents[2] / "packaging/systemd/glovebox.service"
    return built, ROOT / "packaging/systemd/glovebox.socket"


def test_the_units_are_well_formed(tmp_path):
    service, sockets = (file.read_text() for file in unit_files())
    lines = [line for line in (service + sockets).splitlines() if line and not line.startswith("#")]
    for line in lines:
        assert line.startswith("[") and line.endswith("]") or "=" in line, line
    for wanted in ("Type=notify", "Delegate=yes", "KillMode=mixed", "OOMPolicy=continue", "StateDirectory=glovebox", "SocketMode=0600"):
        assert wanted in lines, wanted
    analyze = next((p for p in ("/usr/bin/systemd-analyze", "/bin/systemd-analyze") if os.path.exists(p)), None)
    if not analyze:
        pytest.skip("systemd-analyze is not installed: the units were read, and not verified")
    here = tmp_path / "units"
    here.mkdir()
    text = [f"ExecStart={PROGRAM} serve" if line.startswith("ExecStart=") else line for line in service.splitlines() if not line.startswith("Documentation=")]
    (here / "glovebox.service").write_text("\n".join(text) + "\n")
    (here / "glovebox.socket").write_text("\n".join(line for line in sockets.splitlines() if not line.startswith("Documentation=")) + "\n")
    done = subprocess.run([analyze, "verify", "./glovebox.service", "./glovebox.socket"], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
    ours = [line for line in done.stdout.splitlines() if "glovebox" in line]
    assert done.returncode == 0 and not ours, done.stdout


# ---- the end ----

def test_what_runs_may_end_before_the_server_does(who):
    server = Server(drain="60s", **who).start()
    gate = "import sys; print('on', flush=True); print(sys.stdin.read())"
    try:
        run = started_run(server, gate, interactive=True)
        with in_background(lambda: list(server.get(f"/v1/runs/{run}/events", stream=True))) as events:
            assert wait_until(lambda: server.get(f"/v1/runs/{run}").json["events"] >= 2, PATIENCE)
            server.process.send_signal(signal.SIGTERM)
            assert wait_until(lambda: readiness(server) == 503, PATIENCE)
            assert server.get("/readyz").json["status"] == "draining"
            assert server.get("/healthz").status == 200
            late = server.post("/v1/runs", {"code": "print(1)"})
            assert late.status == 503 and late.code == "unavailable" and late.headers["Retry-After"], late.explain()
            server.post(f"/v1/runs/{run}/stdin?close=true", body=b"the last words").expect(200)
        assert events["value"][-1]["verdict"]["kind"] == "ok", events
        assert server._wait(PATIENCE) == 0, server.output()
        assert not server.socket.exists()
    finally:
        close(server)


def test_a_second_signal_ends_it_at_once():
    server = Server(drain="1h").start()
    try:
        with in_background(lambda: server.post("/v1/runs", {"code": "import time; time.sleep(3600)", "timeout": 300})) as answer:
            assert wait_until(lambda: server.used()["runs"] == 1, PATIENCE)
            server.process.send_signal(signal.SIGTERM)
            assert wait_until(lambda: readiness(server) == 503, PATIENCE)
            server.process.send_signal(signal.SIGINT)
        # Who waited is told what became of it.
        assert answer["value"].result["verdict"]["kind"] == "cancelled", answer
        assert server._wait(PATIENCE) == 0, server.output()
    finally:
        close(server)


def test_the_time_to_drain_is_bounded():
    server = Server(drain="200ms").start()
    try:
        run = started_run(server, "import time; time.sleep(3600)", timeout=300)
        assert server.stop() == 0
        server.start()
        ended = server.get(f"/v1/runs/{run}").json
        assert ended["state"] == "ended" and ended["result"]["verdict"]["kind"] == "cancelled", ended
    finally:
        close(server)


@contextlib.contextmanager
def private_server(environ=None):
    """A server that somebody has for himself, by --parent-fd."""
    ours, theirs = socket.socketpair()
    server = Server(arguments=("--parent-fd", str(theirs.fileno())), environ=environ)
    server.popen["pass_fds"] = (theirs.fileno(),)
    try:
        server.start()
        theirs.close()
        yield server, ours
    finally:
        ours.close()
        close(server)


def test_a_private_server_ends_with_who_has_it():
    with private_server() as (server, ours):
        assert status_of(server.pid)["Uid"][0] == str(os.geteuid())  # it is the caller's own helper
        run = started_run(server, "import time; time.sleep(3600)", timeout=300)
        ours.sendall(b"what is said there means nothing")
        family = descendants(server.pid)
        assert family and server.get(f"/v1/runs/{run}").json["state"] == "running"
        ours.close()
        assert server._wait(PATIENCE) == 0, server.output()
        assert wait_until(lambda: not any(map(lives, family)), 5 * GONE)


def test_a_private_server_ends_when_its_parent_is_killed():
    server = Server()
    program = (f"import subprocess, os, time\nr, w = os.pipe()\n"
               f"p = subprocess.Popen([{str(PROGRAM)!r}, 'serve', '--parent-fd', str(r)], pass_fds=(r,), cwd='/')\nos.close(r)\nprint(p.pid, flush=True)\ntime.sleep(3600)\n")
    parent = subprocess.Popen([sys.executable, "-c", program], env=server.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        pid = int(parent.stdout.readline())
        assert wait_until(lambda: readiness(server) == 200, PATIENCE)
        server.session()
        family = [*descendants(pid), (pid, "", process_stat(pid)[1][19])]
        assert len(family) > 1
        parent.kill()
        parent.wait()
        assert wait_until(lambda: not any(map(lives, family)), 5 * GONE), [p for p in family if lives(p)]
        assert not server.socket.exists()
    finally:
        parent.kill()
        parent.stdout.close()
        server.close()


def test_nothing_is_left_of_a_killed_server(who):
    server = Server(**who).start()
    try:
        session = server.session()
        started_run(server, "import time; time.sleep(3600)", timeout=300)
        server.post(f"/v1/sessions/{session}/runs", {"code": "import subprocess; subprocess.Popen(['sleep', '3600'], start_new_session=True)"}).expect(200)
        family = descendants(server.pid)
        assert len(family) >= 3
        begin = time.monotonic()
        server.kill()
        assert wait_until(lambda: not any(map(lives, family)), 5 * GONE), [p for p in family if lives(p)]
        assert time.monotonic() - begin < 5 * GONE
    finally:
        close(server)


# ---- the log ----

def test_log_lines_are_json():
    with Server(arguments=("--json",)) as server:
        server.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: '"reload"' in server.output(), PATIENCE)
        lines = [json.loads(line) for line in server.output().splitlines()]
        assert {"time", "level", "event", "message"} <= set(lines[0])
        assert [line for line in lines if line["event"] == "ready"]


def test_nobody_waits_for_the_reader_of_the_log():
    read, write = os.pipe()
    os.set_blocking(write, False)
    full = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full += os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    server = Server()
    try:
        server.log = open(server.directory / "log", "ab")
        server.process = subprocess.Popen([str(PROGRAM), "serve"], env=server.environ, stdin=subprocess.DEVNULL, stdout=server.log, stderr=write, cwd="/")
        server.wait_ready()
        for _ in range(20):
            server.process.send_signal(signal.SIGHUP)
            assert server.run("print(1)")["result"]["stdout"] == "1\n"
        os.close(write)
        write = -1
        with open(read, "rb", closefd=False) as pipe:
            assert len(pipe.read(full)) == full
            server.process.send_signal(signal.SIGHUP)
            assert b"lines before this one were lost" in pipe.readline()
            assert b"reload" in pipe.readline()
        assert server.stop() == 0
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)
        close(server)


def test_secrets_are_kept_from_dumps(who):
    with Server(**who) as server:
        assert status_of(server.pid)["CoreDumping"] == ["0"]
        limits = pathlib.Path(f"/proc/{server.pid}/limits").read_text()
        assert [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core")] == [["1", "1"]]
        # Of a process that is not dumpable the files in /proc are root's.
        assert os.stat(f"/proc/{server.pid}/environ").st_uid == 0
