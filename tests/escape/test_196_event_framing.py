# SPDX-License-Identifier: Apache-2.0
"""196. The code prints, displays and raises what would end an event, a line, a chunk or an answer, and begin another one => in every form of the answer
the framing is ours alone, and the text arrives as it was.

With it 148, through the server: exact copies of its own events are data.
"""
import json

import pytest
from hostile_clients import every_form, session, tenants

VERDICT = '{"seq":9,"event":"verdict","verdict":{"kind":"ok","message":"forged"},"exit_code":0}'
HOSTILE = {
    "an event": f"\n\nid: 9\nevent: verdict\ndata: {VERDICT}\n\n", "an event with other line ends": f"\r\n\r\nevent: verdict\r\ndata: {VERDICT}\r\n\r\n", "an event with old line ends": f"\r\revent: verdict\rdata: {VERDICT}\r\r",
    "an event with rare line ends": f"\u2028\u2028event: verdict\u2028data: {VERDICT}\u2029\u2029\x85\x0b\x0c\x1c\x1d\x1e", "a field": "event: error\ndata: x\nretry: 0\nid:\n", "a comment": ": ping\n:\n\n", "an empty event": "\n\n\n\ndata\n\ndata:\n\n",
    "a line": f"\n{VERDICT}\n", "a line that ends a text": f'"}}\n{VERDICT}\n{{"event":"stdout","data":"', "a text that ends": '","event":"verdict","verdict":{"kind":"ok"},"x":"', "escapes": '\\u0022,\\"event\\":\\"verdict\\",\\n\\\\', "a ping": '{"event":"ping"}\n',
    "the last chunk": "\r\n0\r\n\r\n", "a chunk": "\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "an answer": "HTTP/1.1 302 Found\r\nLocation: http://attacker.test/\r\nSet-Cookie: a=b\r\n\r\n", "a page": "</script><script>alert(1)</script><!--",
    "a mark of the bytes' order": "\ufeff\ufeffdata: x\n\n", "a NUL": "a\0b\0\n\0\n", "terminal": "\x1b]0;x\x07\x1b[2J\x9b31m",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_printed(tenants, what):
    """On both streams, in one piece and byte by byte; and it fails."""
    text = HOSTILE[what]
    for write in ("f.write(data)", "[f.write(data[i:i + 1]) for i in range(len(data))]"):
        code = f"import sys\ndata = {text!a}.encode()\nfor f in (sys.stdout.buffer.raw, sys.stderr.buffer.raw):\n    {write}\nsys.exit(9)"
        outcome = every_form(tenants, code)
        assert (outcome.out, outcome.err, outcome.verdict) == (text.encode(), text.encode(), "error")


@pytest.mark.parametrize("what", HOSTILE)
def test_as_values_and_errors(tenants, session, what):
    """As what was displayed, as the value, as the error; in a context, which says these itself."""
    text = HOSTILE[what]
    outcome = every_form(tenants, f"text = {text!a}\nprint(text, end='')\ndisplay({{'text/plain': text, 'text/html': text}}, raw=True)\nclass A:\n    def __repr__(self): return text\nA()", session)
    assert outcome.verdict == "ok" and outcome.out == text.encode()
    assert [value["data"].get("text/plain") for value in outcome.results] == [text, text] and outcome.results[0]["data"]["text/html"] == text and outcome.error is None
    outcome = every_form(tenants, f"raise type('A' + {text[:20].replace(chr(0), '')!a}, (Exception,), {{}})({text!a})", session)
    assert outcome.verdict == "error" and outcome.error["value"] == text and outcome.results == []


def test_as_names(tenants, session):
    """Of files, sessions and metadata."""
    text = HOSTILE["an event"] + HOSTILE["the last chunk"].replace("/", "")
    name = text.replace("/", "")[:60]
    tenants.patch(f"/v1/sessions/{session}", {"name": name[:64], "metadata": {"k": text}}, token=tenants.alfa).expect(200)
    every_form(tenants, f"open({name!a}, 'w').close()", session)
    listed = tenants.get(f"/v1/sessions/{session}/files", token=tenants.alfa).expect(200).json["entries"]
    assert name in [entry["name"] for entry in listed]
    got = tenants.get(f"/v1/sessions/{session}", token=tenants.alfa).json
    assert (got["name"], got["metadata"]) == (name[:64], {"k": text})
    with tenants.get(f"/v1/sessions/{session}/stats?interval=0.1", token=tenants.alfa, stream="text/event-stream") as stream:
        assert next(iter(stream))["event"] == "sample"


def test_many_at_random(tenants):
    """Pieces of all of them in any order, as bytes."""
    pieces = [piece.encode() for piece in HOSTILE.values()] + [b"\xff", b"\xe2\x80", b"\xf0\x9f"]
    code = ("import os, random\npieces = %r\nchance = random.Random(%d)\nfor _ in range(400):\n    os.write(chance.choice((1, 2)), b''.join(chance.choice(pieces)[:chance.randrange(40)] for _ in range(chance.randrange(8))))")
    for seed in range(3):
        outcome = every_form(tenants, code % (pieces, seed))
        assert outcome.verdict == "ok" and len(outcome.out) > 1000 and len(outcome.err) > 1000


def test_copies_of_what_was_said_before(tenants):
    """The whole stream of a run, printed by the next one."""
    with tenants.post("/v1/runs", {"code": "print(1)"}, token=tenants.alfa, stream="text/event-stream") as stream:
        raw = stream.response.read().decode()
    assert raw.count("event: verdict") == 1
    outcome = every_form(tenants, f"print({raw!a}, end='')\nimport sys\nsys.exit(3)")
    assert (outcome.out.decode(), outcome.verdict) == (raw, "error")
    answer = tenants.post("/v1/runs", {"code": "print(1)"}, token=tenants.alfa).expect(200).body.decode()
    outcome = every_form(tenants, f"print({answer!a}, end='')\nimport sys\nsys.exit(3)")
    assert (json.loads(outcome.out), outcome.verdict) == (json.loads(answer), "error")
