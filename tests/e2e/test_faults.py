# SPDX-License-Identifier: Apache-2.0
"""What a server needs fails under it: its helpers die or stand still, disks are full, descriptors run out, clients do not read, the log's
reader is gone, the clock jumps, the power goes. It answers honestly, lives on, and is as before when the trouble is over.

Memory that fails is in test_faults_memory.py, a server that is killed in test_api_crash.py."""
import calendar
import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from cgroups import OwnGroups  # noqa: E402
from conftest import USER, box_mounts, needs_root, wait_until  # noqa: E402
from server import NDJSON, PATIENCE, PROGRAM, Server, birth, in_threads, wait_for  # noqa: E402
from shim import IS_SANITIZED, ShimServer, compile_shim  # noqa: E402

NOTHING = {"sessions": 0, "runs": 0, "memory_bytes": 0}
WAITS = "print('on', flush=True)\nimport time; time.sleep(1000)"
CUT = (OSError, http.client.HTTPException)
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def watched(**options):
    """A server of which nothing may be left: no control group, no mount, no process."""
    before = box_mounts()
    with OwnGroups() as groups:
        server = Server(environ=groups.environ, **options)
        try:
            server.start()
            yield server
            family = {pid: birth(pid) for pid in server.processes()}
            assert server.stop() == 0, server.output()
            wait_for(lambda: not [pid for pid, born in family.items() if born and birth(pid) == born])
            wait_for(lambda: not groups.boxes())
        finally:
            if server.process:
                server.kill()
            server.close()
    assert box_mounts() <= before


def child(server, name):
    """The number of its process of that name; None: there is none."""
    return next((pid for pid, command in server.processes().items() if command.startswith(f"[{name}")), None)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def started(server, path="/v1/runs", code=WAITS, **fields):
    """A run that goes on and has printed its first line."""
    run = server.post(path, {"code": code, "detach": True, "timeout": 300, **fields}).expect(202).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    return run


def kind(run):
    return run["result"]["verdict"]["kind"] if "verdict" in run["result"] else run["result"]["error"]["code"]


class Crowd:
    """Clients that run something all the time, and write down what they hear. Nobody may ever get what is another one's."""

    def __init__(self, server, clients=6):
        self.server, self.over, self.heard, self.wrong = server, threading.Event(), [], []
        self.results = {}  # the last one of each kind
        self.threads = [threading.Thread(target=self.work, args=(i,)) for i in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not [t for t in self.threads if t.is_alive()], "a client hangs"

    def work(self, number):
        chance = random.Random(number)
        while not self.over.is_set():
            word = f"{number}-{chance.getrandbits(64):x}"
            try:
                answer = self.server.post("/v1/runs", {"code": f"print({word!r})", **chance.choice([{}, {}, {"template": None}])})
            except CUT as error:
                self.wrong.append(repr(error))
                return
            if answer.status == 200:
                self.heard.append(kind(answer.json))
                self.results[self.heard[-1]] = answer.json["result"]
                if answer.json["result"]["stdout"] not in ((f"{word}\n",) if kind(answer.json) == "ok" else ("", f"{word}\n")):
                    self.wrong.append(answer.explain())
            else:
                self.heard.append((answer.status, answer.code))
                time.sleep(0.01)

    def wait(self, n=10):
        """Until so many more went well."""
        before = self.heard.count("ok")
        wait_for(lambda: self.wrong or self.heard.count("ok") >= before + n)


# ---- helpers that die ----

@needs_root
def test_the_warden_is_killed_under_load():
    """What it ran is lost, and told so; nobody waits in vain; the next one does its work, and nothing of the first is left."""
    with watched(warm=["python"]) as server:
        families = {}
        with Crowd(server) as crowd:
            for _ in range(3):
                crowd.wait()
                session = server.session()
                runs = [started(server), started(server, f"/v1/sessions/{session}/runs"), started(server, code="echo on; sleep 1000", language="bash")]
                stream = server.get(f"/v1/runs/{runs[0]}/events", stream=NDJSON)
                warden = child(server, "glovebox-warden")
                # Who reads code is none of its own.
                families |= {pid: birth(pid) for pid, name in server.processes().items() if pid != child(server, "glovebox-keeper") and "glovebox-reader" not in name}
                os.kill(warden, signal.SIGKILL)
                with stream:
                    assert list(stream)[-1]["verdict"]["kind"] == "lost"
                for run in runs:
                    ended = server.wait_run(run)
                    assert kind(ended) == "lost" and ended["result"]["stdout"] == "on\n", ended["result"]
                wait_for(lambda: server.get(f"/v1/sessions/{session}").status == 404)
        # The host's first process reaps them, when it likes.
        wait_for(lambda: not [pid for pid, born in families.items() if born and birth(pid) == born])
        assert not crowd.wrong, crowd.wrong
        assert set(crowd.heard) <= {"ok", "lost", (503, "unavailable"), (500, "lost"), (500, "internal")}, set(crowd.heard)
        wait_for(lambda: server.used() == NOTHING)
        assert server.run("print(1)")["result"]["stdout"] == "1\n" and server.get("/readyz").status == 200


@needs_root
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_template_is_killed_or_stands_still_under_load(blow):
    """Runs come from a fresh interpreter meanwhile, or from the next template; none is lost, and none has the output of another."""
    with watched(warm=["python"]) as server:
        def template():
            """Runs that come from it have its command, and are one namespace deeper; who forks them is younger."""
            found = []
            for pid, command in server.processes().items():
                with contextlib.suppress(OSError):
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                    numbers = status.partition("NSpid:")[2].partition("\n")[0].split()
                    if "glovebox_template.py" in command and len(numbers) == 2:
                        found.append((int(numbers[1]), pid))
            return min(found)[1] if found else None

        with Crowd(server, 4) as crowd:
            for _ in range(2):
                crowd.wait()
                hit = wait_until(template, PATIENCE)
                os.kill(hit, blow)
                crowd.wait(20)
                # One that does not answer is ended, too.
                assert wait_until(lambda: birth(hit) is None and template(), PATIENCE)
        assert not crowd.wrong, crowd.wrong
        assert set(crowd.heard) <= {"ok", "lost", (503, "unavailable"), (500, "internal"), (500, "lost")}, set(crowd.heard)
        wait_for(lambda: server.post("/v1/sessions", {}).json["warm"])
        for session in server.get("/v1/sessions").json["sessions"]:
            server.delete(f"/v1/sessions/{session['id']}").expect(204)


# ---- disks ----

def test_who_ends_hides_nothing(scratch):
    """Without privilege nobody can look into a process in the moment of its end: that is not taken for one that hides what it has written."""
    place = scratch / "place"
    place.mkdir()
    place.chmod(0o777)
    code = "import time; open('/place/%d-%d', 'w').close(); time.sleep(0.05)"
    with Server(user=USER if os.geteuid() == 0 else None, policy="allow_weaker: [cgroup]\n") as server:
        ended = in_threads([lambda n=n: [kind(server.run(code % (n, i), policy={"mounts": [f"{place}:/place:rw"]})) for i in range(12)] for n in range(6)])
    assert {one for runs in ended for one in runs} == {"ok"}


@contextlib.contextmanager
def small_disk(size="16m", **options):
    """A server whose state has a disk of its own."""
    server = Server(**options)
    server.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "none", str(server.state)], check=True)
    try:
        yield server.start()
        assert server.stop() == 0, server.output()
    finally:
        if server.process:
            server.kill()
        subprocess.run(["umount", "-l", str(server.state)], check=False)
        server.close()


def fill(server):
    """Leaves no room at all; what makes room again."""
    path = server.state / "fill"
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return path.unlink


def free_bytes(server):
    found = os.statvfs(server.state)
    return found.f_bfree * found.f_bsize


@needs_root
def test_no_room_for_the_body_of_a_request():
    """Large ones are kept on the disk while they come: 507, and nothing of them stays."""
    with small_disk(size="12m") as server:
        session = server.session(policy={"disk_limit": "200m"})
        path = f"/v1/sessions/{session}/files"
        before = free_bytes(server)
        for _ in range(3):
            answer = server.put(f"{path}/big", bytes(14_000_000)).expect(507)
            assert answer.code == "disk_full", answer.explain()
            assert server.get(path).json["entries"] == []
        archive = server.put(f"/v1/sessions/{session}/archive", bytes(14_000_000), headers={"Content-Type": "application/x-tar"})
        assert archive.expect(507).code == "disk_full"
        wait_for(lambda: free_bytes(server) > before - 2_000_000)
        server.put(f"{path}/small", bytes(3_000_000)).expect(201)
        assert server.get(f"{path}/small").body == bytes(3_000_000)
        server.delete(f"/v1/sessions/{session}").expect(204)


@needs_root
def test_no_room_for_the_journal():
    """Everything that is begun, ended, read and deleted while nothing can be written; and a start in that state."""
    with small_disk() as server:
        session, before = server.session(), server.run("print('before')")
        going = started(server, code="print('on', flush=True); input()", interactive=True)
        key, refused = {"Idempotency-Key": "once"}, 0
        make_room = fill(server)
        for path, body, headers in (("/v1/runs", {"code": "print(1)"}, {}), ("/v1/runs", {"code": "print(1)"}, key), ("/v1/sessions", {}, {}),
                                    ("/v1/runs", {"code": "print(1)", "detach": True}, {}), (f"/v1/sessions/{session}/runs", {"code": "1"}, {})):
            for _ in range(3):
                answer = server.post(path, body, headers=headers)
                refused += answer.status == 507
                if answer.status not in (200, 201, 202):  # there was room for that much
                    assert answer.status == 507 and answer.code == "disk_full", (path, answer.explain())
        assert refused > 5
        # What is there can be read, and what lives can be ended.
        assert server.get(f"/v1/runs/{before['id']}").expect(200).json["result"]["stdout"] == "before\n"
        server.get("/v1/sessions").expect(200)
        server.get(f"/v1/runs/{going}/events").expect(200)
        server.post(f"/v1/runs/{going}/cancel", {"kill": True}).expect(202)
        server.delete(f"/v1/sessions/{session}").expect(204)
        wait_for(lambda: server.used()["runs"] == 0)
        assert server.get("/healthz").status == 200
        # Killed, and started again without room: it comes up, or says why not.
        server.kill()
        server.start(wait=False)
        up = wait_until(lambda: server.process.poll() is not None or ready(server), PATIENCE)
        assert up
        if server.process.poll() is not None:
            assert server._wait(PATIENCE) > 0 and "room" in server.output() or "full" in server.output(), server.output()
            make_room()
            server.start()
        else:
            make_room()
        assert kind(server.wait_run(going)) in ("lost", "cancelled", "error")
        assert server.run("print('after')")["result"]["stdout"] == "after\n"
        once = [server.post("/v1/runs", {"code": "print(1)"}, headers=key).expect(200).json["id"] for _ in range(2)]
        assert once[0] == once[1]
        for state in ("queued", "running"):
            assert server.get(f"/v1/runs?state={state}").json["runs"] == []


def ready(server):
    with contextlib.suppress(*CUT):
        return server.get("/readyz").status == 200


# ---- descriptors and connections ----

def with_open_body(server):
    """A connection in the midst of a request, which is not to be closed for another one; and the first answer."""
    plain = server.raw()
    with contextlib.suppress(BrokenPipeError):  # it may have been told already
        plain.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
    return plain, plain.recv(4096)


FEW = 80  # descriptors: enough for a server, and for some of what it does


def limited(n, **options):
    """A server that may have so many descriptors."""
    server = Server(**options)
    server.popen["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
    return server


def count_fds(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


@needs_root
def test_no_descriptors_are_left():
    """No loop turns in vain, who comes is told or waits, and afterwards everything is as before."""
    with limited(FEW) as server:
        server.run("print(1)")
        before, crowd = count_fds(server), []
        try:
            answer = b" 100 "
            while b" 100 " in answer and len(crowd) < 60:
                plain, answer = with_open_body(server)
                crowd.append(plain)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in answer, answer
            late = [server.raw() for _ in range(20)]  # in the backlog
            assert count_fds(server) >= FEW - 1, "there are some left"
            spent = cpu_seconds(server.pid)
            time.sleep(1.5)
            spent = cpu_seconds(server.pid) - spent
            assert spent < 0.5, f"{spent} s of processor time in 1.5 s, with nothing to do"
            for plain in late:
                plain.close()
        finally:
            for plain in crowd:
                plain.close()
        wait_for(lambda: ready(server))
        wait_for(lambda: server.post("/v1/runs", {"code": "print(1)"}).status == 200)
        for i in range(5):
            assert server.run(f"print({i})")["result"]["stdout"] == f"{i}\n"
        wait_for(lambda: server.used() == NOTHING)
        wait_for(lambda: count_fds(server) <= before)


@pytest.mark.parametrize("n", [10, 16, 20, 24, 28, 34, 48])
def test_too_few_descriptors_to_start(n):
    server = limited(n)
    try:
        server.start(wait=False)
        wait_for(lambda: server.process.poll() is not None or ready(server))
        if server.process.poll() is None:
            assert server.run("print(1)")["result"]["stdout"] == "1\n"
        else:
            assert server._wait(PATIENCE) > 0 and "failed: " in server.output() or "glovebox-server: " in server.output(), server.output()
    finally:
        server.close()


@needs_root
def test_few_descriptors_for_what_is_asked():
    """Each step of a run and of a session meets the limit once: it fails, and the next time it does not."""
    failed = 0
    with limited(FEW) as server:
        server.run("print(1)")
        before = count_fds(server)
        for held in range(2, FEW - before - 1):
            crowd = [with_open_body(server)[0] for _ in range(held)]
            try:
                for path, body in (("/v1/runs", {"code": "print(6 * 7)"}), ("/v1/runs", {"code": "print(6 * 7)", "template": None, "files": {"a": "b"}}), ("/v1/sessions", {})):
                    with contextlib.suppress(*CUT):
                        answer = server.post(path, body)
                        assert answer.status in (200, 201, 500, 503), answer.explain()
                        assert answer.status != 200 or kind(answer.json) != "ok" or answer.json["result"]["stdout"] == "42\n", answer.explain()
                        failed += answer.status not in (200, 201)
                        if answer.status == 201:
                            ran = server.post(f"/v1/sessions/{answer.json['id']}/runs", {"code": "6 * 7"})
                            assert ran.status in (200, 500, 503), ran.explain()
                            server.put(f"/v1/sessions/{answer.json['id']}/files/a", bytes(3_000_000))
            finally:
                for plain in crowd:
                    plain.close()
            for found in wait_for(lambda: ready(server) and server.get("/v1/sessions")).json["sessions"]:
                server.delete(f"/v1/sessions/{found['id']}").expect(204)
            wait_for(lambda: server.used() == NOTHING)
            wait_for(lambda: server.post("/v1/runs", {"code": "print(1)"}).status == 200)
        assert failed > 0
        wait_for(lambda: count_fds(server) <= before + 2)


def test_a_storm_of_connections():
    """Thousands that come, say nothing or a part, and go: politely, or with a reset."""
    with Server(tcp=True, tokens=False) as server:
        server.run("print(1)")

        def storm(number):
            chance = random.Random(number)
            for _ in range(400):
                with contextlib.suppress(OSError), server.raw(tcp=chance.random() < 0.7) as plain:
                    if chance.random() < 0.5:
                        plain.sendall(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"[:chance.randrange(1, 45)])
                    if chance.random() < 0.5:
                        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            storms = [pool.submit(storm, i) for i in range(6)]
            while not all(s.done() for s in storms):
                assert server.get("/v1/info").status == 200
                assert server.run("print(2)")["result"]["stdout"] == "2\n"
            for done in storms:
                done.result()
        wait_for(lambda: server.get("/v1/stats").json["server"]["connections"] == 1)  # that one


def stopped_client(server, number, session):
    """One that has asked, and then does nothing, or next to nothing."""
    plain = server.raw()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = b"Host: localhost\r\n"
    plain.sendall((
        b"GET /v1/runs HTTP/1.1\r\n" + head,  # the head never ends
        b"PUT /v1/sessions/%s/files/slow%d HTTP/1.1\r\n" % (session.encode(), number) + head + b"Content-Length: 100000\r\n\r\nx",
        b"GET /v1/sessions/%s/files/big HTTP/1.1\r\n" % session.encode() + head + b"\r\n",
        b"GET /v1/sessions/%s/stats?interval=0.1 HTTP/1.1\r\n" % session.encode() + head + b"Accept: text/event-stream\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\n" + head + b"Accept: application/x-ndjson\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n" + b'{"code":"print(\'x\' * 3000000)"}  ',
    )[number % 5])
    return plain


def test_two_hundred_clients_that_do_not_read():
    """Others are served, memory is bounded, and who stands still for too long is cut off."""
    with Server(stalled_timeout="20s", header_timeout="20s", body_timeout="20s", threads=512, journal_size="400m") as server:
        session = server.session()
        server.put(f"/v1/sessions/{session}/files/big", bytes(20_000_000)).expect(201)
        server.run("print(0)")
        stopped = [stopped_client(server, i, session) for i in range(200)]
        try:
            slowest = 0.0
            for i in range(15):
                begin = time.monotonic()
                assert server.run(f"print({i})")["result"]["stdout"] == f"{i}\n"
                assert server.get("/v1/info").status == 200
                slowest = max(slowest, time.monotonic() - begin)
            assert slowest < 20, slowest
            memory = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            resident = int(next(line for line in memory.splitlines() if line.startswith("VmRSS:")).split()[1])
            assert resident < (4 if IS_SANITIZED else 1) * 400 * 1024, f"{resident} KB"
        finally:
            for plain in stopped:
                plain.close()
        server.delete(f"/v1/sessions/{session}").expect(204)
        wait_for(lambda: server.used() == NOTHING)


# ---- signals ----

def test_who_waits_has_the_answer_before_the_server_ends():
    """SIGTERM: what was begun is finished, and its client told; nothing else is begun."""
    server = Server(drain="60s").start()
    try:
        session = server.session()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            going = [pool.submit(server.run, "import time; time.sleep(1.5); print('done')", **where) for where in ({}, {"session": session})]
            wait_for(lambda: server.used()["runs"] == 2)
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not ready(server))
            for path in ("/v1/runs", "/v1/sessions", f"/v1/sessions/{session}/runs"):
                with contextlib.suppress(*CUT):  # it may be over
                    late = server.post(path, {"code": "1"} if path.endswith("runs") else {})
                    assert late.status == 503 and late.code == "unavailable", late.explain()
            for one in going:
                assert one.result()["result"]["stdout"] == "done\n"
        assert server._wait(PATIENCE) == 0, server.output()
        assert not server.socket.exists()
    finally:
        if server.process:
            server.kill()
        server.close()


@pytest.mark.parametrize("pause", [0, 0.005, 0.02, 0.1])
def test_two_signals_at_any_time(pause):
    """While it starts, while it works, while it ends: the status is 0 and nothing is left."""
    server = Server(drain="1h")
    try:
        server.start(wait=pause > 0.01)
        if pause > 0.01:
            run = started(server)
        time.sleep(pause)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(pause)
        if pause > 0.01:
            wait_for(lambda: not ready(server))  # two that wait together are one
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
        status = server._wait(PATIENCE)
        # Before it has taken charge of signals it dies as any process does.
        assert status == 0 or (pause <= 0.01 and status == -signal.SIGTERM), (status, server.output())
        server.start()
        if pause > 0.01:
            assert kind(server.wait_run(run)) in ("cancelled", "lost")
    finally:
        server.close()


def test_sighup_again_and_again():
    with Server() as server:
        with Crowd(server, 3) as crowd:
            for _ in range(300):
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.002)
            crowd.wait()
        assert not crowd.wrong and set(crowd.heard) == {"ok"}, (crowd.wrong, crowd.results)


@pytest.mark.parametrize("how", ["closed", "reader gone", "full"])
def test_a_log_that_nobody_takes(how):
    """Nobody waits for it, and the signal of a pipe without a reader does nothing."""
    server = Server(arguments=("--json",))
    read, write = os.pipe()
    try:
        server.log = open(server.directory / "log", "ab")
        if how == "closed":
            argv = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', str(PROGRAM), "serve"]
        else:
            argv = [str(PROGRAM), "serve"]
        if how == "full":
            os.set_blocking(write, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(write, b"x" * 4096)
            os.set_blocking(write, True)
        server.process = subprocess.Popen(argv, env=server.environ, stdin=subprocess.DEVNULL, stdout=server.log, stderr=write, cwd="/")
        os.close(write)
        write = -1
        server.wait_ready()
        if how == "reader gone":
            os.close(read)
            read = -1
        for _ in range(20):
            server.process.send_signal(signal.SIGHUP)
            assert server.run("print(1)")["result"]["stdout"] == "1\n"
        assert server.stop() == 0
    finally:
        for fd in (read, write):
            if fd >= 0:
                os.close(fd)
        if server.process:
            server.kill()
        server.close()


# ---- the clock ----

@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer takes what it loads at the start for leaks, on this host")
def test_the_clock_jumps(scratch):
    """A day ahead and two back: nothing that lives is ended for it, and nothing lives longer. Tokens go by the clock."""
    library = compile_shim(scratch)
    if not library:
        pytest.skip("a C compiler is not installed")
    with ShimServer(library, tcp=True, idle_timeout="2m", max_lifetime="4m") as server:
        session = server.session()
        server.run("x = 41", session)
        token = server.token("alpha", "run", expires="1h")
        for jump, valid in ((86400, 401), (-86400, 200), (0, 200)):
            server.wall(jump)
            going = started(server, f"/v1/sessions/{session}/runs", "import time; print('on', flush=True); time.sleep(0.7); print(x + 1)", timeout=20)
            assert abs(seconds(server.get("/v1/runs").json["runs"][0]["created_at"]) - time.time() - jump) < 60
            assert server.get("/v1/sessions", token=token).status == valid
            ended = server.wait_run(going)
            assert kind(ended) == "ok" and ended["result"]["stdout"] == "on\n42\n", ended["result"]
            assert 500 < ended["result"]["duration_ms"] < 60000
            begin = time.monotonic()
            late = server.run("import time; time.sleep(100)", timeout=0.5)
            assert kind(late) == "timeout" and 0.4 < time.monotonic() - begin < 30
            server.get(f"/v1/sessions/{session}").expect(200)
        server.delete(f"/v1/sessions/{session}").expect(204)


def seconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


# ---- the power goes ----

def working(server, stop, told):
    """Runs one after the other; what was told at its end."""
    number = 0
    while not stop.is_set():
        number += 1
        with contextlib.suppress(*CUT):
            run = server.run(f"print({number})")
            told[run["id"]] = f"{number}\n"


def cut_log(state, chance):
    """What had not reached the disk: the end of the write-ahead log is missing, or is something else."""
    [log] = state.glob("*-wal")
    size = chance.randrange(4096, log.stat().st_size)
    with open(log, "r+b") as file:
        if chance.random() < 0.5:
            file.truncate(size)
        else:
            file.seek(size)
            file.write(bytes(min(20000, log.stat().st_size - size)))


@pytest.mark.parametrize("what", ["as it was", "log cut", "log cut again"])
def test_the_power_goes_while_it_works(what):
    """The files as they are at one moment, in front of another server: it opens them, and what it says is true. Of the last moments some may be missing."""
    chance, stop, told = random.Random(what), threading.Event(), {}
    with Server() as server, contextlib.closing(Server()) as other:
        lasting = started(server)
        threads = [threading.Thread(target=working, args=(server, stop, told)) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(told) > 20)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            shutil.rmtree(other.state, ignore_errors=True)
            shutil.copytree(server.state, other.state, ignore=shutil.ignore_patterns("*.lock", "*-shm"))
            before = dict(told)
        finally:
            os.kill(server.pid, signal.SIGCONT)
            stop.set()
            for thread in threads:
                thread.join(PATIENCE)
        lost_some = what != "as it was"
        if lost_some:
            cut_log(other.state, chance)
        other.start()
        found = 0
        for run, output in before.items():
            answer = other.get(f"/v1/runs/{run}")
            assert answer.status == 200 or (lost_some and answer.status == 404), answer.explain()
            if answer.status == 200:
                found += 1
                assert answer.json["state"] == "ended", answer.json
                assert kind(answer.json) == "ok" and answer.json["result"]["stdout"] == output or lost_some and kind(answer.json) == "lost", answer.json["result"]
        assert found > 0 or lost_some
        answer = other.get(f"/v1/runs/{lasting}")
        assert answer.status == 404 and lost_some or kind(answer.json) == "lost", answer.explain()
        for state in ("queued", "running"):
            assert other.get(f"/v1/runs?state={state}").json["runs"] == []
        assert other.run("print('on')")["result"]["stdout"] == "on\n"
        assert other.stop() == 0
        journal = next(path for path in other.state.iterdir() if path.read_bytes()[:15] == b"SQLite format 3")
        with contextlib.closing(sqlite3.connect(journal)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        server.post(f"/v1/runs/{lasting}/cancel", {"kill": True}).expect(202)
