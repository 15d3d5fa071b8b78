# SPDX-License-Identifier: Apache-2.0
"""Policy files: wrong in many ways, each told with file, line and column; right ones take effect."""
import json

import pytest

WRONG = {
    "unknown key": ("mem_limt: 1g\n", 1, 1, 'did you mean "mem_limit"'), "zero": ("cpu_count: 1\nmem_limit: 0\n", 2, 12, "too small"),
    "negative": ("timeout: -1\n", 1, 10, "-1"), "nan": ("timeout: .nan\n", 1, 10, ".nan"), "word": ("pids_limit: many\n", 1, 13, "many"),
    "list": ("mem_limit: [1g]\n", 1, 12, ""), "mapping": ("mem_limit: {a: b}\n", 1, 12, ""), "bool": ("read_only: yes\n", 1, 12, "true or false"),
    "duplicate": ("timeout: 1s\ntimeout: 2s\n", 2, 1, "timeout"), "anchor": ("mem_limit: &a 1g\n", 1, 12, "anchor"), "alias": ("mem_limit: *a\n", 1, None, ""),
    "tag": ("mem_limit: !!str 1g\n", 1, 12, "tag"), "tab": ("mem_limit:\t1g\n\tx: 1\n", None, None, ""), "unclosed": ("mounts: [\n", None, None, ""),
    "documents": ("timeout: 1s\n---\ntimeout: 2s\n", 2, None, ""), "scalar": ("just text\n", 1, 1, ""), "above": ("timeout: 10m\n", 1, None, "timeout_max"),
    "cap_drop": ("cap_drop: [NET_RAW]\n", 1, None, "ALL"), "security_opt": ("security_opt: []\n", 1, None, "no-new-privileges"),
    "mount source": ("mounts:\n  - data:/data\n", 2, 5, "not an absolute path"), "mount target": ("mounts:\n  - /srv:/etc/x\n", 2, 5, "belongs to the box"),
    "env name": ("env:\n  A=B: x\n", 2, None, "="), "network": ("network_mode: bridge\n", 1, 15, "none"), "weaker": ("allow_weaker: [seccomp]\n", 1, None, "seccomp"),
    "level": ("trust_levels:\n  standard:\n    pids_limit: 1\n", 3, 17, "too small"), "level name": ("trust_levels:\n  UPPER: {}\n", 2, None, "UPPER"),
    "untrusted network": ("trust_levels:\n  untrusted:\n    network_mode: host\n", 3, None, "untrusted"),
    "scratch_only": ("read_only: false\nscratch_only: true\n", 2, 15, "read_only"),
    "default trust": ("default_trust: nobody\n", 1, 16, "nobody"),
}


def write(box, text):
    path = box.directory() / "policy.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(own_box, name):
    text, line, column, word = WRONG[name]
    path = write(own_box, text)
    result = own_box.run("print(1)", policy=path)
    assert (result.returncode, result.error["code"]) == (111, "policy"), result.explain()
    place = result.error["message"].partition(": ")[0]
    assert place.startswith(f"{path}:"), result.error
    numbers = place[len(str(path)) + 1:].split(":")
    assert len(numbers) == 2 and all(n.isdigit() for n in numbers), place
    assert line is None or int(numbers[0]) == line, place
    assert column is None or int(numbers[1]) == column, place
    assert word in result.error["message"], result.error
    check = own_box.call("policy", "check", path)
    assert check.returncode == 111 and str(path) in check.err.decode()


@pytest.mark.parametrize("text", [b"\xff\xfe", b"a: \x00", b"\xef\xbb\xbftimeout: 1s\nx\xff: 1\n", b"a" * (300 << 10), b"[" * 100],
                         ids=["utf-16", "nul", "not utf-8", "too large", "too deep"])
def test_files_that_are_not_policies(own_box, text):
    result = own_box.run("print(1)", policy=write(own_box, text))
    assert result.returncode in (111, 114), result.explain()


def test_missing_file(own_box):
    result = own_box.run("print(1)", policy="/nowhere.yaml")
    assert result.returncode in (111, 113) and "/nowhere.yaml" in result.error["message"]


def test_right_file(own_box):
    path = write(own_box, "mem_limit: 300m\ntimeout: 7s\nenv:\n  FROM: file\ntrust_levels:\n  lab:\n    pids_limit: 77\n    env: {FROM: lab}\n")
    assert own_box.call("policy", "check", path).returncode == 0
    result = own_box.run("import os; print(os.environ['FROM'])", policy=path)
    assert result.stdout == "file\n" and result.json["limits"]["memory_bytes"] == 300 << 20 and result.json["policy"]["origin"] == str(path)
    result = own_box.run("import os; print(os.environ['FROM'])", policy=path, trust="lab")
    assert (result.stdout, result.json["limits"]["pids"], result.json["policy"]["trust"]) == ("lab\n", 77, "lab")


def test_precedence(own_box):
    """Flag over variable over file."""
    path = write(own_box, "timeout: 7s\n")
    environ = {"GLOVEBOX_TIMEOUT": "8s"}
    assert own_box.run(":", "sh", policy=path).json["limits"]["timeout_usec"] == 7000000
    assert own_box.run(":", "sh", policy=path, environ=environ).json["limits"]["timeout_usec"] == 8000000
    assert own_box.run(":", "sh", policy=path, environ=environ, timeout="9s").json["limits"]["timeout_usec"] == 9000000


def test_trust_levels(own_box):
    assert own_box.run(":", "sh", trust="untrusted").json["limits"]["memory_bytes"] == 256 << 20
    result = own_box.run(":", "sh", trust="untrusted", network="host")
    assert result.returncode in (110, 111) and "untrusted" in result.error["message"]
    assert own_box.run(":", "sh", trust="untrusted", timeout="61s").returncode != 0


def test_one_writable_place_excludes_a_writable_root(own_box):
    """The controls would say that only the workspace can be written to, and all of the box could."""
    result = own_box.run(":", "sh", **{"read-only=false": True}, scratch_only=True)
    assert result.returncode == 110 and "scratch_only" in result.error["message"] and "read_only" in result.error["message"], result.explain()
    result = own_box.run(":", "sh", policy=write(own_box, "read_only: false\n"), scratch_only=True)
    assert result.returncode == 110 and "read_only" in result.error["message"], result.explain()
    assert own_box.run(":", "sh", policy=write(own_box, "read_only: false\n"), scratch_only=True, **{"read-only=true": True}).verdict == "ok"


def test_show(own_box):
    shown = json.loads(own_box.call("policy", "show", "--json", "--memory", "100m").out)
    assert "100m" in json.dumps(shown) or str(100 << 20) in json.dumps(shown)
    text = own_box.call("policy", "show").out.decode()
    assert "mem_limit" in text and "timeout" in text
    path = write(own_box, text)
    assert own_box.call("policy", "check", path).returncode == 0, "what is shown is a policy itself"
