# SPDX-License-Identifier: Apache-2.0
"""119. The proxy is killed, stopped or crashes while code inside uses it; code inside tries to take its place at its address => no route appears, what was open ends, the next
request is served by a new proxy with the same rules, or gets a clear error; nobody inside can listen where the proxy does.
"""
import os
import pathlib
import signal

from conftest import wait_until
from internet import CLIENT, answers, internet, net_box, net_server, proxies  # noqa: F401

DIRECT = """
def direct(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        try:
            s.connect((address, port))
            return "connected"
        except OSError as error:
            return __import__("errno").errorcode[error.errno]
def wait_for(name):
    import os, time
    while not os.path.exists(name):
        time.sleep(0.01)
"""
FILE = "/workspace/killed"


def kill_proxies(pid, how=signal.SIGKILL):
    found = proxies(pid)
    assert found, "no proxy runs"
    for proxy in found:
        os.kill(proxy, how)
    return found


def test_killed(internet, net_box):
    """In the midst of a tunnel. Before and after it there is no way but the proxy."""
    site = internet.raw("a.example.com", lambda plain: plain.sendall(plain.recv(1) + plain.recv(1)), port=9000)
    workspace = net_box.directory()
    code = CLIENT + DIRECT + f"""
s, status, text = connect("a.example.com:9000")
s.sendall(b"x")
before = direct("{site.address}", 9000)
print("open", flush=True)
wait_for("{FILE}")
after = [direct("{site.address}", 9000), direct("2606:2800:220::1", 9000)]
try:
    rest = len(s.recv(1))
except OSError:
    rest = 0
again = []
for i in range(200):  # until the new one is there, each answer is a clear one
    try:
        s, status, text = connect("a.example.com:9000")
    except OSError as error:
        status, text = 0, str(error)
    again.append(status)
    if status == 200:
        break
    __import__("time").sleep(0.05)
report(before, after, rest, sorted(set(again)), status_of("b.example.com:9000")[0])
"""
    process = net_box.start(code, allow="tcp://a.example.com:9000", workspace=workspace, json=True)
    assert wait_until(lambda: site.accepted, 20), net_box.finish(process).explain()
    killed = kill_proxies(process.pid)
    assert wait_until(lambda: not set(killed) & set(proxies(process.pid)))
    (workspace / "killed").touch()
    result = net_box.finish(process)
    before, after, rest, again, other = answers(result)
    assert (before, after, rest, other) == ("ENETUNREACH", ["ENETUNREACH"] * 2, 0, 403), result.explain()
    assert set(again) <= {0, 502, 503, 200} and 200 in again, again
    [row] = [row for row in result.json["network"]["hosts"] if row["host"] == "a.example.com" and row["decision"] == "allowed"]
    assert row["requests"] >= 2, row  # what was before is not forgotten


def test_killed_again_and_again(internet, net_server):
    """Each time the session can go on, and the budget is what was left."""
    site = internet.site("a.example.com", tls=False)
    session = net_server.session(policy={"network_mode": "allowlist", "network_allow": ["http://a.example.com"], "network_requests": 12})
    code = CLIENT + "report(get('http://a.example.com/')[0], get('http://b.example.com/')[0])"
    for _ in range(6):
        run = net_server.run(code, session)["result"]
        assert run["stdout"] == "[200, 403]\n", run
        kill_proxies(net_server.pid)
    assert site.accepted == 6
    run = net_server.run(code, session)["result"]
    assert run["stdout"] == "[403, 403]\n" and run["network"]["cut"] == "requests" and site.accepted == 6, run
    [restarts] = [line.split()[1] for line in net_server.get("/metrics").expect(200).body.decode().splitlines() if line.startswith("glovebox_egress_restarts_total ")]
    assert int(restarts) >= 6 and wait_until(lambda: "has died and was started again" in net_server.output(), 10), (restarts, net_server.output())
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_stopped(internet, net_server):
    """One that hangs lets nothing pass; when it goes on, so does everything."""
    site = internet.site("stopped.example.com", tls=False)
    session = net_server.session(policy={"network_mode": "allowlist", "network_allow": ["http://stopped.example.com"]})
    code = CLIENT + "report(get('http://stopped.example.com/')[0])"
    assert net_server.run(code, session)["result"]["stdout"] == "[200]\n"
    stopped = kill_proxies(net_server.pid, signal.SIGSTOP)
    try:
        run = net_server.run(code, session, timeout=1)["result"]
        assert run["verdict"]["kind"] == "timeout" and site.accepted == 1, run
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert net_server.run(code, session)["result"]["stdout"] == "[200]\n"
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_in_its_place(internet, net_box):
    """Nobody inside can listen there, not even when it is dead."""
    workspace = net_box.directory()
    site = internet.raw("a.example.com", lambda plain: plain.recv(1), port=9001)
    code = CLIENT + DIRECT + f"""
def take(family, address, *options):
    with socket.socket(family) as s:
        try:
            for option in options:
                s.setsockopt(*option, 1)
            s.bind((address, 3128))
            s.listen()
            return "listens"
        except OSError as error:
            return __import__("errno").errorcode[error.errno]
def all_ways():
    reuse, port = (socket.SOL_SOCKET, socket.SO_REUSEADDR), (socket.SOL_SOCKET, socket.SO_REUSEPORT)
    return [take(socket.AF_INET, address, *options) for address in ("127.0.0.1", "0.0.0.0") for options in ((), (reuse,), (port,), (reuse, port))] + \\
        [take(socket.AF_INET6, "::ffff:127.0.0.1", reuse), take(socket.AF_INET6, "::", reuse)]
first = all_ways()
connect("a.example.com:9001")
wait_for("{FILE}")
report(first, all_ways())
"""
    process = net_box.start(code, allow="tcp://a.example.com:9001", workspace=workspace)
    assert wait_until(lambda: site.accepted, 20), net_box.finish(process).explain()
    kill_proxies(process.pid)
    (workspace / "killed").touch()
    first, second = answers(net_box.finish(process))
    assert set(first) | set(second) <= {"EADDRINUSE", "EPERM", "EACCES", "EAFNOSUPPORT", "EADDRNOTAVAIL"}, (first, second)


def test_sealed(internet, net_box):
    """What an attacker would have who took over the proxy: no privilege, no files, no other programs, and only the system calls that it needs."""
    site = internet.raw("a.example.com", lambda plain: plain.recv(1), port=9002)
    workspace = net_box.directory()
    process = net_box.start(CLIENT + DIRECT + f"s = connect('a.example.com:9002')\nwait_for('{FILE}')", allow="tcp://a.example.com:9002", workspace=workspace,
                            environ={"MY_SECRET_TOKEN": "s3cret-of-the-front"})
    assert wait_until(lambda: site.accepted, 20), net_box.finish(process).explain()
    [proxy] = proxies(process.pid)
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{proxy}/status").read_text().splitlines() if ":\t" in line)
    links = {os.readlink(f"/proc/{proxy}/fd/{fd}").partition(":")[0].partition("(")[0] for fd in os.listdir(f"/proc/{proxy}/fd")}
    limits = pathlib.Path(f"/proc/{proxy}/limits").read_text()
    environ = pathlib.Path(f"/proc/{proxy}/environ").read_bytes()
    (workspace / "killed").touch()
    assert net_box.finish(process).verdict == "ok"
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1"), status
    assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split(), status
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}, status
    assert links <= {"socket", "pipe", "anon_inode", "/memfd", "/dev/null", "anon_inode:[eventpoll]"}, links
    assert "Max core file size        0" in limits, limits
    assert b"s3cret-of-the-front" not in environ, environ
