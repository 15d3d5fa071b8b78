# SPDX-License-Identifier: Apache-2.0
"""149, over HTTP. The code prints invalid UTF-8, NUL, surrogates, marks and separators, characters split over writes and over streams; as values and errors, too
=> every answer is valid JSON, what was printed can be had again byte for byte, in order, from each of its forms.
"""
import base64

import pytest
from hostile_clients import every_form, session, tenants

BYTES = {
    "no UTF-8": b"\xff\xfe\xfd", "every byte": bytes(range(256)), "overlong": b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", "surrogates": b"\xed\xa0\x80\xed\xb0\x80", "beyond the last": b"\xf4\x90\x80\x80\xf7\xbf\xbf\xbf", "cut off": b"abc\xf0\x9f\x98", "only the tail": b"\x98\x80abc",
    "NUL": b"\0a\0\0b\0", "marks": b"\xef\xbb\xbfa\xef\xbb\xbf", "separators": "a\u2028b\u2029c\x85d".encode(), "not characters": "\ufffe\uffff\U0010ffff\ufdd0".encode(), "replacement": "\ufffd".encode() + b"\xff", "combining": ("e" + "\u0301" * 1000).encode(), "right to left": "\u202egnp.exe\u2066".encode(),
    "four bytes": "\U0001f600".encode() * 100, "control": bytes(range(32)) + b"\x7f", "C1": bytes(range(0x80, 0xa0)), "escapes": rb'\u0000\ud800\x00\"\\', "UTF-16": "ab\u00e9".encode("utf-16"), "nothing": b"", "a long line": b"x" * 300000, "long, with one wrong": b"x" * 150000 + b"\xff" + b"y" * 150000,
}


@pytest.mark.parametrize("what", BYTES)
def test_printed(tenants, what):
    data = BYTES[what]
    out = every_form(tenants, f"import os\ndata = {data!r}\nwhile data: data = data[os.write(1, data):]\ndata = {data!r}\nwhile data: data = data[os.write(2, data):]")
    assert (out.out, out.err, out.verdict) == (data, data, "ok")


def test_split(tenants):
    """A byte at a time, the streams in turn, with pauses: what belongs together is together, whoever wrote in between."""
    text = "a\u00e9\u20ac\U0001f600\u2028\0z".encode() + b"\xf0\x9f\xffend"
    code = f"import os, time\ndata = {text!r}\nfor i in range(len(data)):\n    os.write(1, data[i:i + 1])\n    os.write(2, data[i:i + 1])\n    time.sleep(0.002 * (i % 3))"
    outcome = every_form(tenants, code)
    assert (outcome.out, outcome.err) == (text, text)


@pytest.mark.parametrize("what", BYTES)
def test_in_a_context(tenants, session, what):
    """Printed by a session's code, before and after a value and an error."""
    data = BYTES[what]
    write = f"import os\nfor fd in (1, 2):\n    data = {data!r}\n    while data: data = data[os.write(fd, data):]\n"
    outcome = every_form(tenants, write + "7", session)
    assert (outcome.out, outcome.err, outcome.verdict, outcome.results[0]["data"]["text/plain"]) == (data, data, "ok", "7")
    outcome = every_form(tenants, write + "1 / 0", session)
    assert (outcome.out, outcome.err, outcome.error["name"]) == (data, data, "ZeroDivisionError")


def test_values(tenants, session):
    """What has no form in UTF-8 is readable; what has one is exact. NUL has one."""
    texts = ["\0", "a\0b", "\0" * 1000, "\ufeff", "\u2028", "\U0010ffff", "\x1b[2J", "\"\\/", "e\u0301", "\x7f\x80"]
    for text in texts:
        outcome = every_form(tenants, f"class A:\n    def __repr__(self): return {text!a}\ndisplay({{'text/plain': {text!a}, 'text/html': {text!a}}}, raw=True)\nA()", session)
        assert [value["data"]["text/plain"] for value in outcome.results] == [text, text] and outcome.results[0]["data"]["text/html"] == text, ascii(text)
        outcome = every_form(tenants, f"raise ValueError({text!a})", session)
        assert outcome.error["value"] == text
    for text in ("'\\ud800'", "'a\\udcff\\udfff'", "chr(0xd83d) + 'x'"):
        outcome = every_form(tenants, f"class A:\n    def __repr__(self): return {text}\nA()", session)
        assert outcome.verdict == "ok" and outcome.results and isinstance(outcome.results[0]["data"]["text/plain"], str)
        outcome = every_form(tenants, f"raise ValueError({text})", session)
        assert outcome.verdict == "error" and outcome.error["name"] == "ValueError"


def test_parts_that_are_bytes(tenants, session):
    for data in BYTES.values():
        code = f"import base64\ndisplay({{'image/png': base64.b64encode({data!r}).decode(), 'text/plain': 'p'}}, raw=True)"
        if len(data) > 1000:
            continue
        outcome = every_form(tenants, code, session)
        got = outcome.results[0]["data"].get("image/png")
        if data:
            assert base64.b64decode(got["base64"] if isinstance(got, dict) else got) in (data, base64.b64encode(data))


def test_from_any_number(tenants):
    """Whoever resumes at any event gets the same rest: characters are not split between them."""
    text = ("\u00e9\u20ac\U0001f600" * 40).encode() + b"\xff\xf0\x9f"
    run = tenants.post("/v1/runs", {"code": f"import os, time\ndata = {text!r}\nfor i in range(0, len(data), 7):\n    os.write(1, data[i:i + 7])\n    time.sleep(0.001)"}, token=tenants.alfa).expect(200).json["id"]
    whole = tenants.get(f"/v1/runs/{run}/events", token=tenants.alfa).json["events"]
    for event in whole:
        if event["event"] == "stdout" and "data" in event:
            event["data"].encode()  # no half of anything
    for start in range(len(whole) + 1):
        assert tenants.get(f"/v1/runs/{run}/events?from={start}", token=tenants.alfa).json["events"] == whole[start:]
