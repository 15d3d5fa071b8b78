# SPDX-License-Identifier: Apache-2.0
"""149, in sessions. Results, errors and output hold invalid UTF-8, NUL, lone surrogates, a BOM, U+2028 => valid JSON; output and
results lossless, in order; errors readable.
"""
import base64
import json

import pytest
from hostile_sessions import FRAMES, good, witness
from session_fixtures import own_warden, sessions, warm_sessions
from test_149_hostile_bytes import CASES


def lossless(value):
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def stream(result, name):
    return base64.b64decode(result.json[name + "_base64"]) if name + "_base64" in result.json else result.json[name].encode()


def test_output(sessions, witness):
    context = sessions.context()
    for case in CASES.values():
        result = good(context, f"import os\nos.write(1, {case!r})\nos.write(2, {case!r})")
        assert result.stdout == case == result.stderr
        assert stream(result, "stdout") == case == stream(result, "stderr")


def test_results(sessions, witness):
    """As the runner sends them, and by frames of the code's own."""
    context = sessions.context()
    for name, case in CASES.items():
        code = f"send(frame(b'P', n, part(b'text/plain', {case!r})))\ndisplay({{'text/plain': {case!r}, 'image/png': {case!r}, 'text/html': {case!r}}}, raw=True)"
        result = good(context, FRAMES + code)
        assert [v["parts"] for v in result.results] == [{"text/plain": case}, {"text/plain": case, "image/png": case, "text/html": case}], name
        assert [lossless(value) for item in result.json["results"] for value in item["data"].values()] == [case] * 4, name
        json.dumps(result.json).encode("utf-8")


TEXTS = ["a\0b", "\udcff\ud800", "\ufeffx", "\u2028\u2029", "\x1b]52;c;x\x07", "\u202egnirts", "\U0010ffff", "a\r\nb\x85c"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_texts(warm_sessions, text):
    """As the value, in the name of an exception, and in its message."""
    context = warm_sessions.context()
    readable = text.encode("utf-8", "backslashreplace").decode()
    value = good(context, f"class A:\n    def __repr__(self): return {text!a}\nA()")
    assert value.value == {"text/plain": readable.encode()}
    assert value.json["results"][0]["data"]["text/plain"] == readable
    name = "E" + text.replace("\0", "").encode("utf-8", "ignore").decode()  # a class has no other
    failed = context.run(f"raise type({name!a}, (Exception,), {{}})({text!a})")
    assert (failed.verdict, failed.kept) == ("error", True), failed
    assert failed.json["error"]["value"] == readable, "with its NUL"
    assert failed.json["error"]["name"] == name
    json.dumps(failed.json["error"]).encode()


def test_errors_by_frames(sessions, witness):
    """What no runner would send: bytes that are no text."""
    context = sessions.context()
    for name, case in CASES.items():
        result = context.run(FRAMES + f"send(frame(b'X', n, part(b'name', {case!r}) + part(b'value', {case!r}) + part(b'traceback', {case!r})))\n1 / 0")
        assert (result.verdict, result.kept) == ("error", True), (name, result)
        assert result.json["error"]["value"] == case.decode(errors="replace") or name not in ("nul", "bom", "separator", "controls"), name
        for key in ("name", "value", "traceback"):
            result.json["error"][key].encode("utf-8")


@pytest.mark.parametrize("language, code", [("bash", r"printf 'a\xff\x00\xed\xa0\x80b'"), ("node", "process.stdout.write(Buffer.from('61ff00eda08062', 'hex'))")],
                         ids=["bash", "node"])
def test_others(sessions, language, code):
    result = good(sessions.context({"mem_limit": "1g"}, language=language), code)
    assert result.stdout == b"a\xff\0\xed\xa0\x80b" == stream(result, "stdout")


def test_node_surrogates(sessions):
    """A string of JavaScript may have half a pair."""
    context = sessions.context({"mem_limit": "1g"}, language="node")
    assert good(context, "'a\\ud800b'").json["results"]
    failed = context.run("throw new Error('\\ud800')")
    failed.json["error"]["value"].encode("utf-8")
    assert failed.verdict == "error"
