# SPDX-License-Identifier: Apache-2.0
"""200. A server is made to listen where others can reach it, without anybody needing a token; another user of the machine
connects to its socket => it refuses to start; the socket is its user's alone, and the kernel is asked who is at the other end.
"""
import os
import pathlib
import socket
import stat
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import USER, needs_root  # noqa: E402
from server import PATIENCE, PROGRAM, Server  # noqa: E402

USAGE = 110
OPEN = ["0.0.0.0:0", "[::]:0", "[::ffff:127.0.0.1]:0", "192.0.2.1:0", "[2001:db8::1]:0"]


def start_with(server, listen, **config):
    server.write_config({"listen": listen, "directory": str(server.state), **config})
    server.start(wait=False)
    return server._wait(PATIENCE)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.mark.parametrize("address", OPEN)
def test_tokens_off(server, address):
    assert start_with(server, [f"unix:{server.socket}", address], tokens=False) == USAGE
    assert "everybody could run code here" in server.output() and not server.socket.exists()


@pytest.mark.parametrize("address", OPEN[:2])
def test_tokens_on_and_none_there(server, address):
    assert start_with(server, [f"unix:{server.socket}", address]) == USAGE
    assert "no token that counts yet" in server.output() and not server.socket.exists()


def test_only_tokens_that_do_not_count_any_more(server):
    server.token("gone", "run")
    revoke = [str(PROGRAM), "token", "revoke", "--tenant", "gone"]
    subprocess.run(revoke, env=server.environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=True)
    assert start_with(server, ["0.0.0.0:0"]) == USAGE
    assert "no token that counts yet" in server.output()
    server.token("there", "run")
    server.write_config({"listen": [f"unix:{server.socket}", "0.0.0.0:0"], "directory": str(server.state)})
    server.start()


@pytest.mark.parametrize("name", ["localhost:0", "example.com:80", ":80", "127.1:80", "0:80", "[localhost]:80", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1: 80"])
def test_names_and_other_spellings(server, name):
    assert start_with(server, [name]) == USAGE
    assert "is not an address" in server.output()


def test_a_socket_of_the_service_manager(server):
    """The same rule for what was bound by somebody else."""
    with socket.socket() as given:
        given.bind(("0.0.0.0", 0))
        given.listen()
        shell = f"exec 3<&{given.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec {PROGRAM} serve"
        done = subprocess.run(["bash", "-c", shell], env=server.environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE,
                              pass_fds=(given.fileno(),), check=False)
    assert done.returncode == USAGE and b"no token that counts yet" in done.stderr


CONNECT = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(30)\n"
           "try:\n s.connect(sys.argv[1])\n s.sendall(b'GET /v1/info HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')\n"
           "except OSError as e:\n print('refused', e.errno)\n sys.exit()\n"
           "data = b''\n"
           "while True:\n"
           " try: more = s.recv(4096)\n"
           " except OSError: break\n"
           " if not more: break\n"
           " data += more\n"
           "print(data.decode(errors='replace'))")


def connect_as(uid, path):
    done = subprocess.run(["/usr/bin/python3", "-c", CONNECT, str(path)], user=uid, group=uid, extra_groups=[], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
    return done.stdout


@needs_root
@pytest.mark.parametrize("owner", [None, USER - 1])
def test_another_user_of_the_machine(owner):
    with Server(user=owner, policy="allow_weaker: [cgroup]\n") as server:
        assert stat.S_IMODE(os.lstat(server.socket).st_mode) == 0o600
        assert connect_as(USER, server.socket).startswith("refused 13")
        # Somebody opens it up, by mistake: the kernel still says who comes.
        os.chmod(server.socket, 0o666)
        answer = connect_as(USER, server.socket)
        assert "200 OK" not in answer and "version" not in answer, answer
        assert answer.startswith("refused") or not answer.strip() or " 403 " in answer.splitlines()[0], answer
        own = os.stat(server.socket).st_uid
        assert " 200 " in connect_as(own, server.socket).splitlines()[0]
        assert server.get("/v1/info").status == 200  # root
