# SPDX-License-Identifier: Apache-2.0
"""Connections: TLS, many at once, a backlog that is full, requests that are refused in their middle."""
import asyncio
import gc
import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

import glovebox
from sdk_helpers import wait_until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("tls")
    place.chmod(0o755)
    subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", place / "key", "-out", place / "crt"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return place


def test_tls(certificate, nothing_left_at_the_end):
    from server import Server
    for parent in [certificate, *certificate.parents][:3]:
        parent.chmod(0o755)
    (certificate / "key").chmod(0o644)
    with Server(tcp=True, certificate=str(certificate / "crt"), key=str(certificate / "key")) as server:
        url, token = "https://localhost:%d" % server.tcp[1], server.token("tls", "run")
        with glovebox.Client(url, token) as stranger:
            with pytest.raises(glovebox.ConnectionFailed, match="(?i)certificate"):
                stranger.info()
        context = ssl.create_default_context(cafile=certificate / "crt")
        with glovebox.Client(url, token, ssl_context=context) as client, client.sandbox() as box:
            assert box.run("1 + 1").text == "2"
            assert [event.text for event in box.stream("print(5)") if isinstance(event, glovebox.Output)] == ["5\n"]
            box.files.write("large", b"x" * 5_000_000)
            assert box.files.read("large") == b"x" * 5_000_000

        async def main():
            async with glovebox.AsyncClient(url, token, ssl_context=context) as client, client.sandbox() as box:
                assert (await box.run("2 + 2")).text == "4"
                await box.files.write("large", b"y" * 5_000_000)
                assert await box.files.read("large") == b"y" * 5_000_000
        asyncio.run(main())


def test_a_body_that_is_too_large(nothing_left_at_the_end):
    from server import Server
    with Server(upload_limit="1m", body_limit="64k") as server:
        address = f"unix:{server.socket}"
        with glovebox.Client(address, retry_for=5) as client, client.sandbox() as box:
            for data in (b"x" * 2_000_000, b"x" * 50_000_000):
                with pytest.raises(glovebox.TooLargeError):
                    box.files.write("large", data)
            with pytest.raises(glovebox.TooLargeError):
                box.run("x = '" + "y" * 200_000 + "'")
            assert box.run("1").text == "1"

        async def main():
            async with glovebox.AsyncClient(address, retry_for=5) as client, client.sandbox() as box:
                for data in (b"x" * 2_000_000, b"x" * 50_000_000):
                    with pytest.raises(glovebox.TooLargeError):
                        await box.files.write("large", data)
                assert (await box.run("1")).text == "1"
        asyncio.run(main())


def test_connections_are_kept(proxy):
    with glovebox.Client(proxy.address) as client, client.sandbox() as box:
        for number in range(20):
            assert box.run(str(number)).text == str(number)
        list(box.stream("print(1)"))
        box.files.write("a", "b")
        box.files.read("a")
    assert len(proxy.requests) == 1


class Slow(threading.Thread):
    """Listens with the smallest backlog, and accepts nothing before it is told to."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(0)
        self.go, self.wanted = threading.Event(), 0

    def run(self):
        self.go.wait(60)
        for _ in range(self.wanted):
            connection, _ = self.socket.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{"status":"ok"}')
        self.socket.close()


def test_a_full_backlog_is_waited_for(tmp_path):
    slow = Slow(str(tmp_path / "s"))
    slow.wanted = 16
    slow.start()
    said = []

    def ask():
        with glovebox.Client(f"unix:{tmp_path}/s", retry_for=0) as client:
            said.append(client.health())
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()

    async def main():
        async with glovebox.AsyncClient(f"unix:{tmp_path}/s", retry_for=0) as client:
            waiting = [asyncio.ensure_future(client.health()) for _ in range(8)]
            await asyncio.sleep(0.2)
            slow.go.set()
            return await asyncio.gather(*waiting)
    assert asyncio.run(main()) == [True] * 8
    for thread in threads:
        thread.join(60)
    slow.join(60)
    assert said == [True] * 8


def test_a_server_that_hangs(tmp_path, monkeypatch):
    """It takes connections and requests, and says nothing: that has an end, and is not tried again."""
    monkeypatch.setattr("glovebox._caller.ANSWER_SECONDS", 0.3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with glovebox.Client(f"unix:{tmp_path}/s") as client:
            for ask in (client.info, client.health):
                with pytest.raises(glovebox.ConnectionFailed, match="said nothing"):
                    ask()

        async def main():
            async with glovebox.AsyncClient(f"unix:{tmp_path}/s") as client:
                await client.info()
        with pytest.raises(glovebox.ConnectionFailed, match="said nothing"):
            asyncio.run(main())


def test_an_unknown_host():
    with glovebox.Client("http://no-such-host.invalid:80", "t") as client:
        with pytest.raises(glovebox.ConnectionFailed, match="no-such-host"):
            client.info()
    with glovebox.Client("http://" + "a" * 80 + ".invalid", "t") as client:
        with pytest.raises(glovebox.ConnectionFailed):
            client.info()


def test_nothing_is_left_open(proxy, box):
    """Descriptors of this process: whole answers, cut ones, streams that were left, and errors."""
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def work():
        with glovebox.Client(proxy.address) as client, client.attach(box.id) as there:
            there.run("1")
            proxy.plan = [100, 0]
            client._core._caller.drop_idle()
            there.run("2")
            proxy.plan = []
            next(iter(there.stream("print(1)", context="fresh", on_break="continue")))
            for event in there.stream("import time\nprint(1, flush=True)\ntime.sleep(600)"):
                if isinstance(event, glovebox.Output):
                    break
            with pytest.raises(glovebox.NotFoundError):
                there.files.read("none")
            with pytest.raises(glovebox.TooLargeError):
                there.files.write("a", "x" * 1000)
                there.files.read("a", max_bytes=10)
            next(there.stats_stream(0.1))
    work()
    proxy.join()
    before = descriptors()
    for _ in range(3):
        work()
    proxy.join()
    assert wait_until(lambda: descriptors() <= before, 10), (before, descriptors())
