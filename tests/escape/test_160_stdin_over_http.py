# SPDX-License-Identifier: Apache-2.0
"""160, over HTTP. Standard input is absent, large, binary, closed early or never read, comes with the request or while it runs, in pieces, from two at once, for one that
has ended => no deadlock, no byte lost or mixed, and none for anybody else.
"""
import base64
import hashlib
import os
import threading

import pytest
from hostile_clients import every_form, session, tenants
from server import PATIENCE, in_threads, wait_for

DIGEST = "import hashlib, sys\ndata = sys.stdin.buffer.read()\nprint(len(data), hashlib.sha256(data).hexdigest())"
ECHO = "import sys, shutil\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"


def sha(data):
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}\n"


def begin(server, code, session=None, **fields):
    path = f"/v1/sessions/{session}/runs" if session else "/v1/runs"
    run = server.post(path, {"code": code, "interactive": True, "detach": True, "timeout": 100, **fields}, token=server.alfa).expect(202).json["id"]
    return run


def give(server, run, data=b"", close=False):
    return server.request("POST", f"/v1/runs/{run}/stdin" + ("?close=true" if close else ""), body=data, token=server.alfa)


def ended(server, run):
    wait_for(lambda: server.get(f"/v1/runs/{run}", token=server.alfa).json["state"] == "ended")
    return server.get(f"/v1/runs/{run}", token=server.alfa).json["result"]


@pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)) * 100, b"\xff\xfe", b"\x04\x1a\x03", os.urandom(1 << 20)], ids=["none", "NUL", "every byte", "no text", "control", "a megabyte"])
def test_with_the_request(tenants, session, data):
    for fields in ({"stdin": {"base64": base64.b64encode(data).decode()}}, {}) if not data else ({"stdin": {"base64": base64.b64encode(data).decode()}},):
        assert every_form(tenants, DIGEST, **fields).out.decode() == sha(data)
        assert every_form(tenants, DIGEST, session, context=None, **fields).out.decode() == sha(data)
        assert every_form(tenants, DIGEST, session, **fields).out.decode() == sha(data)


@pytest.mark.parametrize("code", ["print('token')", "import os\nos.close(0)\nprint('token')", "import os, sys\nos.read(0, 3)\nprint('token', flush=True)\nos._exit(0)", "import os\nos.write(1, b'x' * 3000000)\nprint('token')"], ids=["never read", "closed", "read in part", "much output"])
def test_not_taken(tenants, session, code):
    """It is nobody's: the run ends, and the next one does not see it."""
    data = {"base64": base64.b64encode(b"secret" * 500000).decode()}
    for where in (None, session):
        answer = tenants.post(f"/v1/sessions/{where}/runs" if where else "/v1/runs", {"code": code, "stdin": data, **({"context": None} if where else {})}, token=tenants.alfa)
        assert answer.result["verdict"]["kind"] == "ok" and answer.result["stdout"].endswith("token\n")
    assert tenants.post(f"/v1/sessions/{session}/runs", {"code": "import sys\nprint(repr(sys.stdin.read()))"}, token=tenants.alfa).result["stdout"] == "''\n"


@pytest.mark.parametrize("where", ["alone", "fresh", "context"])
def test_while_it_runs(tenants, session, where):
    """In pieces of all sizes; all of it arrives, in order, and comes back."""
    data = os.urandom(3 << 20)
    run = begin(tenants, DIGEST, None if where == "alone" else session, **({"context": None} if where == "fresh" else {}))
    at = 0
    for size in (0, 1, 2, 4095, 65536, 65537, 300000, 1 << 20, len(data)):
        piece = data[at:at + size]
        answer = give(tenants, run, piece).expect(200)
        assert answer.json == {"accepted": len(piece)}
        at += size
    give(tenants, run, close=True).expect(200)
    assert ended(tenants, run)["stdout"] == sha(data)
    assert (give(tenants, run, b"late").status, give(tenants, run, b"late").code) == (409, "conflict")


def test_echo(tenants):
    """In and out at the same time, more than any buffer holds."""
    data = os.urandom(1 << 20) * 6
    run = begin(tenants, ECHO)
    assert give(tenants, run, data, close=True).expect(200).json == {"accepted": len(data)}
    result = ended(tenants, run)
    assert base64.b64decode(result["stdout_base64"]) == data


def test_two_at_once(tenants):
    """What each sends is one piece; who comes second waits."""
    run = begin(tenants, "import sys\nfor line in sys.stdin: sys.stdout.write(line)", policy={"output_limit": "64m"})
    pieces = [(bytes([65 + i]) * 199999 + b"\n") for i in range(12)]
    statuses = [answer.status for answer in in_threads([lambda piece=piece: give(tenants, run, piece) for piece in pieces])]
    assert set(statuses) == {200}
    give(tenants, run, close=True).expect(200)
    assert sorted(ended(tenants, run)["stdout"].encode().split(b"\n")[:-1]) == sorted(piece[:-1] for piece in pieces)


def test_closed_early(tenants):
    """By the code, by a kill, by the end of the session, while somebody sends."""
    for how in ("cancel", "delete", "code"):
        own = tenants.post("/v1/sessions", {"template": None}, token=tenants.alfa).expect(201).json["id"]
        run = begin(tenants, "import os, time\n%sprint(1, flush=True)\ntime.sleep(100)" % ("os.close(0)\n" if how == "code" else ""), own, context=None)
        wait_for(lambda: tenants.get(f"/v1/runs/{run}", token=tenants.alfa).json["events"] >= 2)
        answers = []
        sender = threading.Thread(target=lambda: answers.append(give(tenants, run, b"x" * 5000000)))
        sender.start()
        if how == "cancel":
            tenants.post(f"/v1/runs/{run}/cancel", {"kill": True}, token=tenants.alfa).expect(202)
        tenants.delete(f"/v1/sessions/{own}", token=tenants.alfa).expect(204)
        sender.join(PATIENCE)
        assert answers and answers[0].status in (200, 409) and answers[0].json.get("accepted", 0) < 5000000, answers
        assert ended(tenants, run)["verdict"]["kind"] == "cancelled"


def test_only_for_who_asked_for_it(tenants, session):
    """A run that is not interactive, one that is another's, one that never was."""
    run = tenants.post("/v1/runs", {"code": "import time; time.sleep(100)", "detach": True}, token=tenants.alfa).expect(202).json["id"]
    assert give(tenants, run, b"x").code == "conflict"
    assert tenants.request("POST", f"/v1/runs/{run}/stdin", body=b"x", token=tenants.bravo).status == 404
    tenants.post(f"/v1/runs/{run}/cancel", {"kill": True}, token=tenants.alfa).expect(202)
    assert tenants.post("/v1/runs", {"code": "1", "stdin": "x", "interactive": True}, token=tenants.alfa).status == 400
    first, second = begin(tenants, "print(input())", session, context=None), begin(tenants, "print(input())", session, context=None)
    give(tenants, second, b"second\n").expect(200)
    give(tenants, first, b"first\n").expect(200)
    assert (ended(tenants, first)["stdout"], ended(tenants, second)["stdout"]) == ("first\n", "second\n")
