# SPDX-License-Identifier: Apache-2.0
"""103 and 104. A session is deleted, twice, or comes to its end by time, at any moment of something else that goes on in it: a run, a stream, an upload, a download, an
archive, input, a new context, its own creation => each of these is whole, or refused, or cut off, and never half; afterwards nothing of the session is left.

More of it, with runs and files, is in tests/e2e/test_api_races.py.
"""
import io
import json
import os
import random
import tarfile
import threading
import time

import pytest
from hostile_clients import assert_works, is_quiet, read_all, request_bytes, send, tenants
from server import NDJSON, SSE, Server, in_threads, wait_for

BIG = b"0123456789abcdef" * 65536 * 2


def tar_of_many():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(200):
            info = tarfile.TarInfo(f"d/{i}")
            info.size = 2000
            tar.addfile(info, io.BytesIO(b"x" * 2000))
    return out.getvalue()


TAR = tar_of_many()


def plain_request(server, method, path, fields=(), body=b"", pause=0):
    """The whole answer; with a pause in the middle of what is sent."""
    with server.raw() as plain:
        data = request_bytes(method, path, [b"Content-Type: application/json" if b"{" in body[:1] else b"Content-Type: application/x-tar", *fields], body)
        send(plain, data[:len(data) // 2])
        time.sleep(pause)
        send(plain, data[len(data) // 2:])
        return read_all(plain)


# What goes on in a session, and what may have become of it: a status, and what must be true of a good one.
def is_whole(data, statuses, whole=None):
    status = int(data.split(b" ", 2)[1]) if data else 0
    assert status in (*statuses, 404, 409, 0), data[:300]
    if status == 200 and whole:
        head, _, body = data.partition(b"\r\n\r\n")
        assert whole(head, body), data[-300:]


def complete(head, body):
    """As many bytes as were promised, or cut off before: never wrong ones."""
    size = next((int(line.split(b": ")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), None)
    return size is None or len(body) <= size



ACTIONS = {
    "a run": lambda server, s, pause: is_whole(plain_request(server, "POST", f"/v1/sessions/{s}/runs", body=json.dumps({"code": "x = 1\nimport time\ntime.sleep(0.05)\nx"}).encode()), (200,), lambda head, body: json.loads(body)["state"] == "ended"),
    "a stream": lambda server, s, pause: is_whole(plain_request(server, "POST", f"/v1/sessions/{s}/runs", [f"Accept: {SSE}".encode()], json.dumps({"code": "import time\nfor i in range(20): print(i, flush=True); time.sleep(0.005)"}).encode()), (200,), lambda head, body: b"event: verdict" in body or not body.endswith(b"0\r\n\r\n")),
    "a fresh program": lambda server, s, pause: is_whole(plain_request(server, "POST", f"/v1/sessions/{s}/runs", body=json.dumps({"code": "import time\ntime.sleep(0.05)", "context": None}).encode()), (200,), lambda head, body: json.loads(body)["state"] == "ended"),
    "a context": lambda server, s, pause: is_whole(plain_request(server, "POST", f"/v1/sessions/{s}/contexts", body=b'{"language": "python"}'), (201,)),
    "an upload": lambda server, s, pause: is_whole(plain_request(server, "PUT", f"/v1/sessions/{s}/files/new", body=BIG, pause=pause), (201,)),
    "a download": lambda server, s, pause: is_whole(plain_request(server, "GET", f"/v1/sessions/{s}/files/big"), (200,), lambda head, body: BIG.startswith(body)),
    "a listing": lambda server, s, pause: is_whole(plain_request(server, "GET", f"/v1/sessions/{s}/files"), (200,), complete),
    "an archive": lambda server, s, pause: is_whole(plain_request(server, "GET", f"/v1/sessions/{s}/archive"), (200,)),
    "an archive that comes": lambda server, s, pause: is_whole(plain_request(server, "PUT", f"/v1/sessions/{s}/archive?path=to", body=TAR, pause=pause), (200,)),
    "statistics": lambda server, s, pause: is_whole(plain_request(server, "GET", f"/v1/sessions/{s}/stats?interval=0.1", [f"Accept: {NDJSON}".encode()]), (200,)),
    "a change": lambda server, s, pause: is_whole(plain_request(server, "PATCH", f"/v1/sessions/{s}", body=b'{"name": "x"}'), (200,)),
    "another end": lambda server, s, pause: is_whole(plain_request(server, "DELETE", f"/v1/sessions/{s}"), (204,)),
    "a look": lambda server, s, pause: is_whole(plain_request(server, "GET", f"/v1/sessions/{s}"), (200,), complete),
}


@pytest.mark.parametrize("what", ACTIONS)
def test_103_deleted(tenants, what):
    chance = random.Random(what)
    for i in range(4):
        session = tenants.session()
        marker = f"marker{os.urandom(8).hex()}"
        tenants.run(f"import subprocess\np = subprocess.Popen(['sh', '-c', 'sleep 1000; : {marker}'])", session)
        tenants.put(f"/v1/sessions/{session}/files/big", BIG).expect(201)
        errors = []

        def act():
            try:
                ACTIONS[what](tenants, session, 0.02)
            except BaseException as error:  # told below
                errors.append(error)

        actors = [threading.Thread(target=act) for _ in range(2)]
        for actor in actors:
            actor.start()
        time.sleep(chance.choice((0, 0.002, 0.01, 0.03)))
        status = tenants.delete(f"/v1/sessions/{session}").status
        assert status in ((204, 404) if what == "another end" else (204,))
        # Gone is gone, from here on, whatever still comes to its end. Who was told that there is none was later than another, who is told when it is gone.
        assert status == 404 or not tenants.find(marker)
        assert tenants.get(f"/v1/sessions/{session}").status == 404 and tenants.delete(f"/v1/sessions/{session}").status == 404
        for actor in actors:
            actor.join()
        assert not errors and not tenants.find(marker), errors
    wait_for(lambda: is_quiet(tenants))


def test_103_made_and_deleted(tenants):
    """By its key: a retry of the creation while somebody ends what it has made."""
    for i in range(6):
        headers = {"Idempotency-Key": f"made-{os.urandom(8).hex()}"}
        found = []

        def make():
            answer = tenants.post("/v1/sessions", {}, headers=headers)
            found.append(answer)
            if answer.status == 201:
                assert tenants.delete(f"/v1/sessions/{answer.json['id']}").status in (204, 404)

        in_threads([make] * 4)
        assert {answer.status for answer in found} == {201} and len({answer.json["id"] for answer in found}) == 1
        assert tenants.get(f"/v1/sessions/{found[0].json['id']}").status == 404
    wait_for(lambda: is_quiet(tenants))


def test_104_time_is_over():
    """The same at the moment in which a session's time is over: idle, or its whole life."""
    with Server() as server:
        def live(what, field, i):
            session = server.session(**{field: 1})
            server.put(f"/v1/sessions/{session}/files/big", BIG)  # a use
            time.sleep(0.9 + 0.02 * i)
            ACTIONS[what](server, session, 0.01)
            return session

        for field in ("idle_timeout", "max_lifetime"):
            in_threads([lambda what=what, i=i: live(what, field, i) for what in ACTIONS if what != "statistics" for i in range(2)])
            wait_for(lambda: is_quiet(server))
            assert server.get("/v1/sessions").json["sessions"] == []
        assert_works(server)
