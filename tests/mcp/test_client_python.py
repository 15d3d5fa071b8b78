# SPDX-License-Identifier: Apache-2.0
"""The official Python package, in both eras; its own choice is to ask first. python_client.py drives it."""
import pytest

from mcp_helpers import NEWEST, TOOLS, text_of


@pytest.fixture(scope="module", params=["legacy", "auto", "modern"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def played(run_python, target, mode):
    handles = mode != "legacy" and target["transport"] == "http"
    return run_python("python_client.py", mode=mode, target={**target, "handles": handles}, scenarios=["everything", "cancel"])


def test_everything(played, target, mode):
    got = played["everything"]
    assert got["version"] == NEWEST[mode]
    if mode != "modern":  # which has asked for nothing
        assert got["server"]["name"] == "glovebox" and got["instructions"]
    assert got["tools"] == TOOLS
    assert got["ran"]["structuredContent"]["value"] == "4" and got["ran"]["structuredContent"]["stdout"] == "one\ntwo\n"
    assert not got["ran"].get("isError") and "one" in text_of(got["ran"])
    numbers, said = [number for number, _ in got["told"]], "".join(message or "" for _, message in got["told"])
    assert numbers == sorted(set(numbers)) and "one" in said, got["told"]
    assert got["read"]["contents"][0]["text"] == "a\nb\n"
    if mode == "legacy" or target["transport"] == "stdio":
        assert got["wrote"]["structuredContent"]["uri"] in [r["uri"] for r in got["resources"]["resources"]]
        assert got["info"]["structuredContent"]["session"] == got["ran"]["structuredContent"]["session"]
    assert got["unknown"]["code"] == -32602 and "rm_rf" in got["unknown"]["message"]
    assert got["missing"]["code"] == (-32002 if mode == "legacy" else -32602)


def test_cancel(played):
    assert played["cancel"] == {"cancelled": True, "value": "(1, True)"}
