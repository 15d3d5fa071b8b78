# SPDX-License-Identifier: Apache-2.0
"""Streams of events, also through a proxy that cuts connections, and requests that are repeated."""
import json
import re
import signal
import subprocess
import sys
import threading

import pytest

import glovebox
from sdk_helpers import each_backend, wait_until
from glovebox import _caller
from sdk_proxy import Proxy

COUNT = "import time\nfor i in range({n}):\n    print(i, flush=True)\n    time.sleep({pause})\n"


def counted(n):
    return "".join(f"{i}\n" for i in range(n))


def keys(data):
    return re.findall(rb"Idempotency-Key: (\S+)\r\n", data)


@each_backend
def test_events_as_they_come(box):
    with box.stream("import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr)\ndisplay(3)\n1 / 0") as stream:
        assert stream.id and not stream.ended
        with pytest.raises(glovebox.UsageError):
            stream.result
        events = list(stream)
    kinds = [type(event) for event in events]
    assert kinds[0] is glovebox.Started and kinds[-2:] == [glovebox.ExceptionEvent, glovebox.VerdictEvent]
    assert [event.seq for event in events] == list(range(len(events)))
    out = [event for event in events if isinstance(event, glovebox.Output)]
    assert {(event.stream, event.text, event.offset) for event in out} == {("stdout", "a\n", 0), ("stderr", "b\n", 0)}
    assert [event.value.text for event in events if isinstance(event, glovebox.ResultValue)] == ["3"]
    result = stream.result
    assert events[-1].result is result and result.verdict == "error" == events[-1].verdict and result.error.name == "ZeroDivisionError"
    assert result.stdout == "a\n" and result.id == stream.id and list(stream) == []
    # It is what who waited would have got.
    whole = box.client.get_run(stream.id).info().result
    assert {**whole.raw} == {**result.raw}


def test_the_loop_alone_and_next(box):
    stream = box.stream("print(1)")
    assert stream.id == "" and "not begun" in repr(stream)
    assert isinstance(next(stream), glovebox.Started)
    assert stream.wait().stdout == "1\n"
    with pytest.raises(StopIteration):
        next(stream)


@each_backend
def test_leaving_the_loop_cancels_the_run(box):
    stream = box.stream("import time\nprint(1, flush=True)\ntime.sleep(600)")
    for event in stream:
        if isinstance(event, glovebox.Output):
            break
    assert stream.result.verdict == "cancelled" and stream.result.stdout == "1\n"
    assert box.run("2").text == "2"


@each_backend
def test_leaving_the_loop_may_leave_the_run_alone(box):
    code = "import time\nprint(1, flush=True)\nwhile not __import__('os').path.exists('go'): time.sleep(0.01)\nprint(2)"
    stream = box.stream(code, on_break="continue")
    for event in stream:
        if isinstance(event, glovebox.Output):
            break
    assert not stream.ended and box.client.get_run(stream.id).info().state == "running"
    box.files.write("go", "")
    rest = list(stream)  # goes on where it was left
    assert [event.text for event in rest if isinstance(event, glovebox.Output)] == ["2\n"] and stream.result.stdout == "1\n2\n"


@each_backend
def test_deaf_code_is_killed(box):
    with box.stream("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(1, flush=True)\nwhile True: time.sleep(1)") as stream:
        for event in stream:
            if isinstance(event, glovebox.Output):
                break
    assert stream.result.verdict == "cancelled" and stream.result.state_kept is False
    assert box.run("2").text == "2"


def test_a_run_that_cannot_begin(box):
    run = box.start("import time; time.sleep(600)")
    assert wait_until(lambda: run.info().state == "running", 30)
    with pytest.raises(glovebox.ConflictError):
        list(box.stream("1"))
    run.kill()
    run.wait(60)
    with pytest.raises(glovebox.UsageError):
        box.stream("1", on_break="sometimes")


@pytest.mark.parametrize("size", [0, 100, 700, 1500])
def test_a_stream_survives_cuts(proxy, size):
    """Cut at many places: in the head, between events, in the middle of one."""
    with glovebox.Client(proxy.address) as client, client.sandbox() as box:
        client._core._caller.drop_idle()
        proxy.plan = [size, size + 1, size + 40, size + 333]
        with box.stream(COUNT.format(n=20, pause=0.01)) as stream:
            seqs = [event.seq for event in stream]
        assert seqs == list(range(len(seqs))) and stream.result.stdout == counted(20) and stream.result.ok
        assert proxy.cuts >= 1
        assert len(client.runs(session=box.id)) == 1


def test_a_stream_survives_many_cuts(proxy):
    """Some events come through each time: that is progress, so patience does not run out."""
    with glovebox.Client(proxy.address, retry_for=20) as client, client.sandbox() as box:
        client._core._caller.drop_idle()
        proxy.plan = [(37 * i) % 500 + 700 for i in range(12)]
        result = box.stream(COUNT.format(n=100, pause=0.01)).wait()
        assert result.stdout == counted(100) and result.ok and proxy.cuts > 5
        proxy.plan = []
        assert len(client.runs(session=box.id)) == 1


def test_a_cut_after_the_request_was_sent_runs_nothing_twice(proxy, box):
    """The server has done all of it; only the answer is lost."""
    with glovebox.Client(proxy.address) as client:
        with client.attach(box.id) as there:
            client._core._caller.drop_idle()
            box.run("n = 0")
            proxy.plan = [0, 0, 50]
            result = there.run("n += 1\nprint('once')\nn")
            assert result.text == "1" and result.stdout == "once\n" and proxy.cuts == 3
            assert box.run("n").text == "1"
            used = keys(proxy.sent)
            assert len(used) == 4 and len(set(used)) == 1


def test_a_session_is_made_once(proxy, client):
    before = {session.id for session in client.sessions()}
    with glovebox.Client(proxy.address) as through:
        proxy.plan = [0, 10]
        with through.sandbox() as box:
            made = {session.id for session in client.sessions()} - before
            assert made == {box.id} and proxy.cuts == 2
        proxy.plan = []


def test_a_one_shot_run_is_made_once(proxy, client):
    with glovebox.Client(proxy.address) as through:
        proxy.plan = ["refuse", 0, 0]
        before = len(client.runs())
        result = through.run("print('once')")
        assert result.stdout == "once\n" and proxy.cuts == 3 and len(client.runs()) == before + 1
        proxy.plan = [0]
        through._core._caller.drop_idle()
        run = through.start("print('detached')")
        assert run.wait(60).stdout == "detached\n" and len(client.runs()) == before + 2


def test_a_wait_joins_the_run_that_goes_on(proxy, box):
    """The connection is lost in the middle of a long run: the retry waits for the same one."""
    with glovebox.Client(proxy.address) as client, client.attach(box.id) as there:
        done = []
        thread = threading.Thread(target=lambda: done.append(there.run(
            "import time\nwhile not __import__('os').path.exists('go'): time.sleep(0.01)\n'joined'")))
        thread.start()
        assert wait_until(lambda: box.client.runs(session=box.id, state="running"), 30)
        proxy.cut_all()
        assert wait_until(lambda: len(keys(proxy.sent)) >= 2, 30)
        box.files.write("go", "")
        thread.join(60)
        assert not thread.is_alive() and done[0].text == "'joined'" and len(set(keys(proxy.sent))) == 1
        assert len(box.runs()) == 1


def test_what_cannot_be_repeated_is_not(proxy, box):
    with glovebox.Client(proxy.address) as client, client.attach(box.id) as there:
        client._core._caller.drop_idle()
        proxy.plan = [0]
        with pytest.raises(glovebox.ConnectionFailed) as caught:
            there.context()
        assert caught.value.sent and len(box.contexts()) == 1
        proxy.plan = ["refuse"]
        client._core._caller.drop_idle()
        there.files.write("a", "1")  # only this much was lost: nothing was sent


def test_deletes_and_files_are_repeated(proxy, box):
    with glovebox.Client(proxy.address) as client, client.attach(box.id) as there:
        client._core._caller.drop_idle()
        proxy.plan = [0, 0]
        there.files.write("file", b"x" * 300_000)
        assert box.files.read("file") == b"x" * 300_000
        client._core._caller.drop_idle()
        proxy.plan = [100_000, 250_000]
        assert there.files.read("file") == b"x" * 300_000 and proxy.cuts == 4


def test_trouble_that_stays_is_told(proxy, server):
    with glovebox.Client(proxy.address, retry_for=1) as client:
        assert client.health()
        client._core._caller.drop_idle()
        proxy.plan = [0] * 1000
        with pytest.raises(glovebox.ConnectionFailed):
            client.run("1")
        proxy.plan = []
    with glovebox.Client(proxy.address, retry_for=0) as client:
        proxy.plan = [0]
        with pytest.raises(glovebox.ConnectionFailed):
            client.health()


def start_again(server):
    """What is left of the one that was killed may hold its socket for a moment."""
    def started():
        try:
            server.start()
        except AssertionError:
            server.process = None
        return server.process
    assert wait_until(started, 30, 0.2), server.output()


def test_the_server_starts_anew():
    """A run that was under way is lost, and said to be; what comes then goes to the new one."""
    from server import Server
    with Server() as server:
        with glovebox.Client(f"unix:{server.socket}") as client:
            run = client.start("import time\nprint('on', flush=True)\ntime.sleep(600)")
            assert wait_until(lambda: run.info().state == "running", 30)
            waited = []
            thread = threading.Thread(target=lambda: waited.append(run.wait()))
            thread.start()
            first = next(event.text for event in run.events() if isinstance(event, glovebox.Output))
            assert first == "on\n"
            server.kill()
            start_again(server)
            thread.join(60)
            assert waited and waited[0].verdict == "lost" and waited[0].stdout == "on\n"
            with pytest.raises(glovebox.LostVerdict):
                waited[0].raise_for_verdict()
            assert client.run("print(1)").stdout == "1\n"


def test_quota_is_waited_for_and_told():
    from server import Server
    with Server(tenant_sessions=1) as server, glovebox.Client(f"unix:{server.socket}", retry_for=30) as client:
        first = client.sandbox().open()
        with glovebox.Client(f"unix:{server.socket}", retry_for=0) as hasty:
            with pytest.raises(glovebox.QuotaError) as caught:
                hasty.sandbox().open()
            assert caught.value.status == 429 and caught.value.retry_after and caught.value.retry_after > 0
        timer = threading.Timer(0.5, first.close)
        timer.start()
        with client.sandbox() as second:
            assert second.run("1").text == "1"
        timer.join()


def test_patience():
    patience = _caller.Patience(10)
    assert 0 < patience.next_delay() < 0.1
    assert patience.next_delay(3.0) == 3.0
    assert patience.next_delay(60.0) is None
    assert _caller.Patience(0).next_delay() is None


def test_ctrl_c_cancels_the_run(address, box):
    """In a process of its own, as a signal would end the tests."""
    program = f"""
import sys
sys.path[:0] = {json.dumps(sys.path)}
import glovebox
box = glovebox.Sandbox.attach({box.id!r}, server={address!r})
try:
    box.run("import time\\nprint('on', flush=True)\\ntime.sleep(600)")
except KeyboardInterrupt:
    print("interrupted", box.run("'free'").text, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert wait_until(lambda: box.client.runs(session=box.id, state="running"), 60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert out == b"interrupted 'free'\n", err
    runs = box.runs()
    assert len(runs) == 2 and box.client.get_run(runs[1].id).info().result.verdict == "cancelled"


def test_a_proxy_that_answers_for_a_dead_server(tmp_path):
    """502 of somebody in between is no answer of the server's."""
    import socket
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(8)
        stop = threading.Event()

        def serve():
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\nContent-Type: text/html\r\n\r\n<html>")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with glovebox.Client(f"unix:{path}", retry_for=0.5) as client:
            with pytest.raises(glovebox.ConnectionFailed, match="502"):
                client.info()
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_proxies_close(server):
    with Proxy(str(server.socket)) as other:
        with glovebox.Client(other.address) as client:
            assert client.health()
