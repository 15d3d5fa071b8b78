# SPDX-License-Identifier: Apache-2.0
"""The guard at the command line: what refuses code, where and why; and the verbs of `glovebox guard`."""
import contextlib
import json
import os
import signal
import subprocess

import pytest
from conftest import IS_ROOT, Box, wait_until
from service import Screen, Service

GUARD_MODE = "on"
SOCKET = 'x = 1\nf = open("/var/run/docker.sock")\n'  # refused
MODULE = "try:\n    import docker\nexcept ImportError:\n    print('none')\n"  # a warning


@pytest.fixture(scope="module")
def service(session_dir, missing_controls):
    who = "root" if IS_ROOT else "user"
    box = Box(who, None, session_dir)
    box.weaker = missing_controls(who)
    with Service(box) as running:
        yield running


def write(box, text, name="job.py"):
    path = box.directory() / name
    path.write_text(text)
    return path


# ---- run ----

def test_what_is_refused(own_box):
    result = own_box.run(SOCKET)
    assert (result.returncode, result.verdict) == (117, "blocked"), result.explain()
    first = result.json["guard"]["findings"][0]
    assert (first["rule"], first["set"], first["action"], first["line"], first["column"]) == ("container-socket", "host-escape", "block", 2, 10)
    assert first["rule"] in result.message and "line 2, column 10" in result.message and first["remedy"] in result.message
    assert result.json["exit_code"] is None and result.json["stdout"] == ""
    shown = own_box.call("run", "-c", SOCKET)
    assert shown.returncode == 117 and shown.out == b"" and result.message.encode() in shown.err and shown.err.count(b"\n") == 1
    assert own_box.call("run", "--quiet", "-c", SOCKET).err == b""


def test_what_warns(own_box):
    shown = own_box.call("run", *(["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []), "-c", MODULE)
    lines = [line for line in shown.err.decode().splitlines() if "(rule " in line]
    assert shown.returncode == 0 and shown.out == b"none\n" and len(lines) == 1, shown.explain()
    assert lines[0].startswith("glovebox: warning: line 2, column 12: ") and lines[0].endswith("(rule container-engine-module)"), lines


def test_modes_and_rules(own_box):
    assert own_box.run(MODULE, guard="strict").verdict == "blocked"
    assert own_box.run(MODULE, guard_rule="host-escape=block").verdict == "blocked"
    result = own_box.run(MODULE, guard_rule=["host-escape=block", "container-engine-module=log"])
    assert result.verdict == "ok" and [f["action"] for f in result.json["guard"]["findings"]] == ["log"] and result.stdout == "none\n"
    assert own_box.run(MODULE, guard="off").json["guard"] == {"findings": [], "more": 0}
    assert own_box.run(MODULE, environ={"GLOVEBOX_GUARD": "strict"}).verdict == "blocked"


@pytest.mark.parametrize("flags, status, word", [
    (["--guard", "often"], 110, "off, on or strict"), (["--guard-rule", "host-escape"], 110, "NAME=off"), (["--guard-rule", "host-escape=no"], 110, "off, log, warn, block"),
    (["--guard-rule", "host-escap=off"], 111, 'did you mean "host-escape"'), (["--guard-rules", "x=off"], 110, "--guard-rule")], ids=lambda v: str(v)[:24])
def test_wrong_flags(own_box, flags, status, word):
    for verb in (["run"], ["guard", "check"]):
        result = own_box.call(*verb, *flags, "-c", "1")
        assert result.returncode == status and word in result.err.decode(), result.explain()


def test_on_a_terminal(service):
    code = 'if True:\n\tname = "größe"; f = open("/var/run/docker.sock")\n'
    with Screen(service, "guard", "check", "-c", code) as screen:
        screen.wait_for(b"^")
        assert screen.process.wait() == 117
        lines = screen.read().decode().splitlines()
    assert "\x1b[" in lines[0] and "container-socket" in lines[0]
    source, mark = lines[1], lines[2].replace("\x1b[1m", "").replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert source[mark.index("^"):].startswith('"/var/run'), lines


# ---- check ----

def test_check_files(own_box):
    bad, good, shell = write(own_box, SOCKET), write(own_box, "print(1)\n"), write(own_box, "curl --unix-socket /var/run/docker.sock x\n", "a.sh")
    result = own_box.call("guard", "check", bad, good, shell)
    lines = result.err.decode().splitlines()
    assert result.returncode == 117 and result.out == b""
    assert lines[0].startswith(f"{bad}:2:10: block: container-socket: ") and any(line.startswith(f"{shell}:1:") for line in lines) and str(good) not in result.err.decode()
    found = json.loads(own_box.call("guard", "check", "--json", bad, good, shell).out)
    assert found["blocked"] and found["more"] == 0 and {f["file"] for f in found["findings"]} == {str(bad), str(shell)}
    assert set(found["findings"][0]) == {"rule", "set", "action", "line", "column", "message", "remedy", "file"}
    clean = own_box.call("guard", "check", "--json", good)
    assert clean.returncode == 0 and json.loads(clean.out) == {"blocked": False, "findings": [], "more": 0}
    quiet = own_box.call("guard", "check", "-q", bad)
    assert (quiet.returncode, quiet.out, quiet.err) == (117, b"", b"")
    warned = own_box.call("guard", "check", "-c", MODULE)
    assert warned.returncode == 0 and warned.err.startswith(b"<code>:2:12: warn: container-engine-module: ")


def test_check_standard_input_and_languages(own_box):
    for flags, status in (([], 117), (["--language", "bash"], 0)):
        call = subprocess.run([str(own_box.binary), "guard", "check", *flags, "-"], input=b"import selenium\n", capture_output=True, env=own_box.environ, check=False)
        assert call.returncode == status and (b"<stdin>:1:" in call.stderr) == (status == 117), call


@pytest.mark.parametrize("argv, status, word", [
    ([], 110, "nothing to look at"), (["-c", "1", "x.py"], 110, "both -c and"), (["-", "-"], 110, "given twice"), (["/nowhere.py"], 113, "/nowhere.py"), (["/tmp"], 110, "directory"),
    (["--lang", "cobol", "-c", "1"], 113, "cobol"), (["--secret", "-c"], 110, "nothing to look at")], ids=lambda v: " ".join(map(str, v)) if isinstance(v, list) else None)
def test_check_mistakes(own_box, argv, status, word):
    result = own_box.call("guard", "check", "--json", *argv)
    assert result.returncode == status and word in result.error["message"], result.explain()


# ---- test and list ----

RULES = """set: mine
about: Mine.
code:
  - id: no-zebra
    patterns: [zebra]
    action: warn
    message: No zebras.
    remedy: Take horses.
    examples:
      match: [{python: 'x = "zebra"'}, {python: 'x = "horse"'}]
      pass: [{python: 'x = "cow"'}]
"""


def test_test(own_box):
    result = own_box.call("guard", "test", "--json")
    assert result.returncode == 0 and result.json["ok"] and result.json["examples"] > 1000 and result.json["failures"] == [], result.explain()
    path = write(own_box, RULES, "mine.yaml")
    alone = {"GLOVEBOX_RULES_DIR": str(own_box.directory())}  # the shipped ones take seconds to compile
    failed = own_box.call("guard", "test", "--json", path, environ=alone)
    assert failed.returncode == 1 and (failed.json["rules"], failed.json["examples"], failed.json["failed"]) == (1, 3, 1), failed.explain()
    assert failed.json["failures"] == [{"rule": "no-zebra", "set": "mine", "language": "python", "expected": "match", "text": 'x = "horse"'}]
    told = own_box.call("guard", "test", path, environ=alone).out.decode()
    assert told == 'no-zebra (mine), python: this must be found, and is not:\n    x = "horse"\n1 rules about code, 0 shapes of secrets, 3 examples: 1 failed\n'
    path.write_text(RULES.replace("    remedy", "    remdy"))
    wrong = own_box.call("guard", "test", path, environ=alone)
    assert wrong.returncode == 111 and wrong.err.decode().startswith(f"glovebox: {path}:8:5: "), wrong.explain()


def test_list(own_box):
    rules = {r["rule"]: r for r in own_box.call("guard", "list", "--json", "--guard-rule", "host-escape=log").json["rules"]}
    assert rules["container-socket"]["action"] == "log" and rules["browser-automation"]["action"] == "block" and rules["secret-in-code"]["action"] == "warn"
    assert {r["action"] for r in own_box.call("guard", "list", "--json", "--guard", "off", "--scrub", "off").json["rules"]} == {"off"}
    table = own_box.call("guard", "list").out.decode().splitlines()
    assert table[0].split() == ["RULE", "SET", "ACTION", "LANGUAGES", "MESSAGE"] and len(table) == len(rules) + 1
    shapes = own_box.call("guard", "list", "--secrets", "--json").json["secrets"]
    assert {"name", "set", "about", "strict", "scrubbed"} == set(shapes[0]) and "github-token" in {s["name"] for s in shapes}
    assert all(s["scrubbed"] != s["strict"] for s in shapes)


def test_doctor_and_policy(own_box):
    checks = {c["name"]: c for c in own_box.call("doctor", "--json").json["checks"]}
    assert checks["rules"]["state"] == "ok" and checks["reader"]["state"] == "ok"
    shown = own_box.call("policy", "show", "--json", "--guard", "strict", "--guard-rule", "host-escape=log").json
    assert (shown["guard"], shown["scrub"], shown["guard_rules"], shown["guard_imports"], shown["secrets"]) == ("strict", "on", {"host-escape": "log"}, None, [])
    assert "guard_rules:\n  host-escape: log\n" in own_box.call("policy", "show", "--guard-rule", "host-escape=log").out.decode()


# ---- scrub ----

def token():
    return "xox" + "b-" + "123456789012-123456789012-" + "AbCdEfGhIjKlMnOpQrStUvWx"


def test_scrub(own_box):
    text = f"before {token()} after\n".encode()
    for stdin, words in ((subprocess.PIPE, []), (subprocess.PIPE, ["-"]), (subprocess.DEVNULL, [write(own_box, text.decode(), "log")])):
        process = subprocess.Popen([str(own_box.binary), "guard", "scrub", "--json", *map(str, words)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own_box.environ)
        out, err = process.communicate(text if stdin == subprocess.PIPE else None)
        assert process.returncode == 0 and out == b"before [scrubbed:slack-token] after\n", (out, err)
        assert json.loads(err) == {"scrubbed": {"total": 1, "names": {"slack-token": 1}}}


def test_scrub_streams(own_box):
    """What is certain comes at once, what is held back at the end; nobody waits for a buffer to fill."""
    process = subprocess.Popen([str(own_box.binary), "guard", "scrub"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own_box.environ)
    process.stdin.write(b"prompt> " + token()[:20].encode())
    process.stdin.flush()
    seen = b""
    while seen != b"prompt> xox":
        seen += os.read(process.stdout.fileno(), 64)
        assert b"prompt> xox".startswith(seen)
    out, err = process.communicate(token()[20:].encode() + b"\nend\n")
    assert out == b"[scrubbed:slack-token]\nend\n" and err == b"glovebox: 1 secret scrubbed: slack-token 1\n", (out, err)


def test_scrub_ends_well(own_box):
    argv = [str(own_box.binary), "guard", "scrub"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own_box.environ)
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"x\n" * 100000)
        process.stdin.close()
    assert process.wait() == 141 and process.stderr.read() == b""
    process.stderr.close()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(argv, input=b"x" * 100, stdout=full, stderr=subprocess.PIPE, env=own_box.environ, check=False)
    assert done.returncode == 115 and b"No space left" in done.stderr
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own_box.environ)
    process.stdin.write(b"a\n")
    process.stdin.flush()
    assert process.stdout.read(2) == b"a\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == (b"", b"") and process.returncode == -signal.SIGINT
    for words, status, word in ((["/nowhere"], 113, b"/nowhere"), (["/tmp"], 110, b"directory"), (["--scrub", "off"], 110, b"on or strict"), (["a", "b"], 110, b"unexpected")):
        result = own_box.call("guard", "scrub", *words)
        assert result.returncode == status and word in result.err, result.explain()


# ---- by a server ----

def test_server(service):
    refused = service.call("run", "--server", "-c", SOCKET)
    assert refused.returncode == 117 and b"the rule container-socket refused the code, line 2, column 10" in refused.err, refused.explain()
    strict = service.call("run", "--server", "--json", "--guard-rule", "host-escape=block", "-c", MODULE)
    assert strict.json["verdict"]["kind"] == "blocked" and strict.json["guard"]["findings"][0]["rule"] == "container-engine-module", strict.explain()
    checked = service.call("guard", "check", "--server", "--json", "-c", SOCKET)
    assert checked.returncode == 117 and checked.json["blocked"] and checked.json["findings"][0]["line"] == 2, checked.explain()
    assert service.call("guard", "check", "--server", "-c", "print(1)").returncode == 0
    session = service.session("--guard", "strict")
    assert service.call("session", "exec", session, "-c", MODULE).returncode == 117
    warned = service.call("session", "exec", session, "-c", "1 + 1")
    assert warned.returncode == 0 and warned.out == b"2\n"
    assert b"guard        strict\n" in service.call("session", "show", session).out
    service.call("session", "rm", session)
    assert wait_until(lambda: service.runs())
    run = next(r for r in service.runs() if r["verdict"] == "blocked" or (isinstance(r["verdict"], dict) and r["verdict"]["kind"] == "blocked"))
    assert b"blocked: " in service.call("logs", run["id"]).err


def test_repl(own_box):
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    process = subprocess.run([str(own_box.binary), "repl", "--quiet", *weaker], input=b'x = 20 + 1\nopen("/var/run/docker.sock")\nx * 2\n', capture_output=True, env=own_box.environ,
                             check=False)
    assert process.stdout == b"42\n" and process.stderr.count(b"container-socket") == 1 and b"blocked: " in process.stderr, process
