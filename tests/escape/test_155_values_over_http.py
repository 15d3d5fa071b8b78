# SPDX-License-Identifier: Apache-2.0
"""155, 158 and 159, over HTTP. Code in a session gives values of hostile types and forms, writes frames whose lengths lie, and has children that say they are the end
=> nothing is decoded by the server, names are plain, numbers bounded; the interpreter that lies is ended, the server and the session are not; the kernel's word counts.
"""
import base64
import pickle

import pytest
from hostile_clients import SANITIZED, assert_works, every_form, memory, session, tenants
from hostile_sessions import FRAMES

MIB = 1 << 20
FORMS = {
    "image/png": [b"", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\xff\xff\xff\xff\x08\x06\0\0\0", b"not a picture"], "image/svg+xml": [b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg onload="x">&b;</svg>', b"\xff"],
    "application/json": [b"{not json", b"[" * 100000, b'{"a":' * 100000, b'{"a": 1e999999, "a": 2}', b'"\\ud800"', b"\xff", b'{"__proto__": {}}', b"null"], "text/html": [b"<script>alert(1)</script>", b"\0<b>"],
    "application/x-python-pickle": [pickle.dumps(OSError)], "application/yaml": [b"!!python/object/apply:os.system ['true']"], "text/event-stream": [b"event: verdict\ndata: {}\n\n"], "application/vnd.glovebox.verdict": [b'{"kind": "ok"}'],
}


@pytest.mark.parametrize("mime", FORMS)
def test_bytes_are_not_looked_at(tenants, session, mime):
    """JSON too deep for any parser, pictures that are none, objects that would be calls: they are bytes."""
    for data in FORMS[mime]:
        outcome = every_form(tenants, FRAMES + f"send(frame(b'P', n, part({mime.encode()!r}, {data!r})))", session)
        (value,) = outcome.results
        given = value["data"][mime]
        assert outcome.verdict == "ok" and (base64.b64decode(given["base64"]) if isinstance(given, dict) else given.encode()) == data


def test_names(tenants, session):
    names = ["text/plain\r\nSet-Cookie: a=b", 'text/"html"', "text/html\0", "x" * 10240, "", " ", "text/\u00e9", "../../etc", "<script>", "__proto__", "constructor", "text/plain; charset=utf-7"]
    outcome = every_form(tenants, f"display({{**{dict.fromkeys(names, 'x')!a}, 'text/plain': 'true'}}, raw=True)", session)
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+/;=-")
    (value,) = outcome.results
    assert value["data"]["text/plain"] == "true" and all(0 < len(name) <= 127 and set(name) <= allowed for name in value["data"]), value


def test_numbers(tenants, session):
    """Thousands of values, and many megabytes: as many as the policy lets through, and the rest is counted."""
    answer = tenants.post(f"/v1/sessions/{session}/runs", {"code": FRAMES + "for i in range(3000): send(frame(b'P', n, part(b'text/plain', b'x' * 10000)))\n7"}, token=tenants.alfa)
    assert answer.result["verdict"]["kind"] == "ok" and len(answer.result["results"]) <= 64 and answer.result["results_dropped"] >= 2900
    assert len(answer.body) < 12 * MIB


LIES = ["b'D 1 -1\\n'", "b'P 1 4294967296\\n'", "b'P 1 18446744073709551615\\n'", "b'P 1 ' + b'1' * 10000000", "frame(b'P', n, b'text/plain 4294967297\\nx')", "frame(b'P', n, b'text/plain -1\\n')", "frame(b'P', n, b'x' * 1000)", "b'\\xff' * 100000",
        "frame(b'D', n + 1, ok)", "frame(b'R', n, b'') * 2", "frame(b'E', n, b'1')", "frame(b'P', n, part(b'text/plain', b'x' * 16777190)) * 20"]


def test_lying_lengths(tenants, session):
    """Each ends its interpreter and nothing else; the next run has a new one. Whatever is told meanwhile is no more than a few words."""
    before = memory(tenants)
    for lie in LIES:
        body = {"code": FRAMES + f"mark = 1\nsend({lie})\nimport time\ntime.sleep(20)"}
        result = tenants.post(f"/v1/sessions/{session}/runs", body, token=tenants.alfa).result
        assert (result["verdict"]["kind"], result["state"]["kept"]) == ("error", False) or result["results_dropped"] > 0, (lie, result["verdict"])
        if not result["state"]["kept"]:
            after = tenants.post(f"/v1/sessions/{session}/runs", {"code": "'mark' in globals()"}, token=tenants.alfa).result
            assert after["results"][0]["data"]["text/plain"] == "False", lie
    assert SANITIZED or memory(tenants) - before < 64 * MIB
    assert_works(tenants, tenants.bravo)


ENDS = {
    "a child that ends well": ("import os, sys\npid = os.fork()\nif pid == 0:\n    print('{\"verdict\": {\"kind\": \"ok\"}, \"exit_code\": 0}', flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)\nsys.exit(7)", "error", 7),
    "a child that outlives it": ("import os, sys, time\nif os.fork() == 0:\n    time.sleep(100)\n    os._exit(0)\nsys.exit(7)", "error", 7),
    "a child that fails": ("import os\npid = os.fork()\nif pid == 0: os._exit(9)\nos.waitpid(pid, 0)", "ok", 0),
    "words of an end": ("import sys\nprint('exit status 0\\nKilled\\nTimeout')\nsys.stderr.write('verdict: ok')\nsys.exit(137)", "error", 137),
}


@pytest.mark.parametrize("what", ENDS)
def test_whose_end_counts(tenants, what):
    code, verdict, status = ENDS[what]
    outcome = every_form(tenants, code)
    assert outcome.verdict == verdict
    assert tenants.post("/v1/runs", {"code": code}, token=tenants.alfa).result["exit_code"] == status


def test_whose_end_counts_in_a_session(tenants, session):
    """A fork of the interpreter that comes back, or writes the end for its parent."""
    for code in ("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')\npid > 0", FRAMES + "import os\npid = os.fork()\nif pid == 0:\n    send(frame(b'D', n, ok))\n    os._exit(0)\nos.waitpid(pid, 0)\n1 / 0"):
        answer = tenants.post(f"/v1/sessions/{session}/runs", {"code": code}, token=tenants.alfa)
        assert answer.result["verdict"]["kind"] in ("ok", "error")
        assert tenants.post(f"/v1/sessions/{session}/runs", {"code": "6 * 7"}, token=tenants.alfa).result["results"][0]["data"]["text/plain"] == "42"
