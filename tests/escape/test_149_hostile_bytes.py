# SPDX-License-Identifier: Apache-2.0
"""149. The program prints invalid UTF-8, NUL, surrogates, a BOM, U+2028 and characters split over writes => valid JSON, lossless, in order.
"""
import base64
import json

import pytest


CASES = {
    "invalid": b"a\xff\xfeb", "nul": b"a\0b", "surrogate": b"\xed\xa0\x80", "bom": b"\xef\xbb\xbfx", "separator": "\u2028\u2029".encode(),
    "overlong": b"\xc0\xaf", "above": b"\xf4\x90\x80\x80", "cut": "\u20ac".encode()[:2], "controls": bytes(range(32)) + b"\x7f", "all": bytes(range(256)),
}


def decode(holder, key):
    return base64.b64decode(holder[key + "_base64"]) if key + "_base64" in holder else holder[key].encode()


@pytest.mark.parametrize("name", CASES)
def test_json_is_lossless(box, name):
    result = box.run(f"import os; os.write(1, {CASES[name]!r}); os.write(2, {CASES[name]!r})")
    result.out.decode("utf-8")
    assert decode(result.json, "stdout") == CASES[name] == decode(result.json, "stderr")


@pytest.mark.parametrize("name", CASES)
def test_events_are_lossless(box, name):
    result = box.run(f"import os; os.write(1, {CASES[name]!r})", json=False, events=True)
    events = [json.loads(line) for line in result.out.decode("utf-8").split("\n") if line]
    assert b"".join(decode(e, "data") for e in events if e["event"] == "stdout") == CASES[name]


def test_split_characters_stay_whole(box):
    """One byte at a time: no event holds half a character."""
    text = "\u20ac\U0001f512\u00e9" * 20
    code = f"import os, time\nfor b in {text.encode()!r}:\n    os.write(1, bytes([b])); time.sleep(0.002)"
    result = box.run(code, json=False, events=True)
    events = [json.loads(line) for line in result.out.splitlines()]
    parts = [e for e in events if e["event"] == "stdout"]
    assert all("data" in e for e in parts), "base64 for what is text"
    assert "".join(e["data"] for e in parts) == text
