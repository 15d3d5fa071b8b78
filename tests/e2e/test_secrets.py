# SPDX-License-Identifier: Apache-2.0
"""Secrets at the command line: given without ever standing in an argument, kept from everybody but the program, and scrubbed."""
import base64
import json
import os
import pathlib
import stat
import subprocess

import pytest
from conftest import IS_ROOT, Box, wait_until
from service import Service

GUARD_MODE = "on"
VALUE = "correct-horse-battery"
SHOW = "import os; print(os.environ['API_KEY'], len(os.environ['API_KEY']))"


@pytest.fixture(scope="module")
def service(session_dir, missing_controls):
    who = "root" if IS_ROOT else "user"
    box = Box(who, None, session_dir)
    box.weaker = missing_controls(who)
    with Service(box) as running:
        yield running


def write(box, text, mode=0o600, name="secrets"):
    path = box.directory() / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    if IS_ROOT:
        os.chown(path, box.uid, box.uid)
    return path


# ---- ways to give one ----

def test_ways(box):
    """An ordinary user, too: what seals the command must not be in the way of the box."""
    shown = f"[scrubbed:API_KEY] {len(VALUE)}\n"
    result = box.run(SHOW, secret="API_KEY", environ={"API_KEY": VALUE})
    assert result.stdout == shown and result.json["scrubbed"] == {"total": 1, "names": {"API_KEY": 1}}, result.explain()
    assert VALUE not in json.dumps(result.json)
    assert box.run(SHOW, secret=f"API_KEY={write(box, VALUE + chr(10))}").stdout == shown
    path = write(box, f"# mine\nexport API_KEY='{VALUE}'\nOTHER=another-one\n")
    assert box.run(SHOW, secrets=path).stdout == shown
    assert box.run(SHOW, secrets=write(box, json.dumps({"API_KEY": VALUE}))).stdout == shown
    result = box.run("import os; print(open('/run/secrets/API_KEY').read(), 'API_KEY' in os.environ)", secret_file=f"API_KEY={write(box, VALUE)}")
    assert result.stdout == "[scrubbed:API_KEY] False\n", result.explain()


def test_pipes_and_order(own_box):
    """bash's <(...), as password managers are asked; the last flag wins."""
    weaker = f"--allow-weaker {','.join(own_box.weaker)}" if own_box.weaker else ""
    line = f"{own_box.binary} run {weaker} -q --secrets <(echo API_KEY={VALUE}) --secret API_KEY=<(echo {VALUE}-2) --secret B=<(printf 12345678) -c \"$1\""
    done = subprocess.run(["bash", "-c", line, "x", SHOW + "; print(os.environ['B'])"], capture_output=True, env=own_box.environ, check=False)
    assert done.stdout.decode() == f"[scrubbed:API_KEY] {len(VALUE) + 2}\n[scrubbed:B]\n", done


def test_what_people_see(own_box):
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    code = "import base64, os; k = os.environ['API_KEY']; print(k, base64.b64encode(k.encode()).decode(), k[::-1])"
    shown = own_box.call("run", *weaker, "--secret", "API_KEY", "-c", code, environ={"API_KEY": VALUE})
    assert shown.out.decode().startswith("[scrubbed:API_KEY] [scrubbed:API_KEY]") and VALUE[::-1] in shown.out.decode() and base64.b64encode(VALUE.encode()) not in shown.out
    assert shown.err.decode().splitlines()[-1] == "glovebox: 2 secrets scrubbed: API_KEY 2", shown.explain()
    assert own_box.call("run", *weaker, "-q", "--secret", "API_KEY", "-c", code, environ={"API_KEY": VALUE}).err == b""
    shown = own_box.call("run", *weaker, "--scrub", "off", "--secret", "API_KEY", "-c", SHOW, environ={"API_KEY": VALUE})
    assert shown.out == f"{VALUE} {len(VALUE)}\n".encode() and b"scrubbed" not in shown.err
    assert own_box.run("print(1)", scrub="strict", secret="API_KEY", environ={"API_KEY": "print(1)"}).verdict == "blocked"
    shown = own_box.call("policy", "show", "--secret", "API_KEY", environ={"API_KEY": VALUE}).out
    assert b"# secret API_KEY, as the variable API_KEY\n" in shown and VALUE.encode() not in shown


# ---- mistakes: told, and never with a value ----

MISTAKES = {
    "no variable": (["--secret", "API_KEY"], 110, "no variable of that name"), "value": (["--secret", f"API_KEY={VALUE}"], 110, "never stands on the command line"),
    "only a value": (["--secret", VALUE], 110, "takes NAME[=FILE]"), "a value like a name": (["--secret", "gh_" + VALUE.replace("-", "")], 110, "no variable of that name"),
    "value of a file": (["--secret-file", f"API_KEY={VALUE}"], 110, "there is no such file"), "no file": (["--secret-file", "API_KEY"], 110, "takes NAME=FILE"),
    "empty": (["--secret", "API_KEY="], 110, "takes NAME[=FILE]"), "directory": (["--secret", "API_KEY=/tmp"], 110, "Is a directory"),
    "no list": (["--secrets", "/nowhere/list"], 113, "/nowhere/list"), "no list but a value": (["--secrets", f"API_KEY={VALUE}"], 110, "there is no such file"),
    "standard input": (["--secrets", "-"], 110, "takes a file"), "device": (["--secret", "API_KEY=/dev/null"], 110, "neither a file nor a pipe"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(own_box, name):
    flags, status, word = MISTAKES[name]
    for verb in (["run"], ["session", "create", "--server=unix:/nowhere"]):
        result = own_box.call(*verb, "--json", *flags, *(["-c", "1"] if verb == ["run"] else []))
        assert result.returncode == status and word in result.error["message"], result.explain()
        assert VALUE not in result.explain() and VALUE.replace("-", "") not in result.explain()


@pytest.mark.parametrize("text, word", [
    (f"A={VALUE}\n{VALUE}\n", "line 2 is not NAME=VALUE"), (f"A={VALUE}\n{VALUE}==\n", "line 2 is not NAME=VALUE"), ("A=short\n", 'line 1: the secret "A" has less than 8 bytes'),
    (f'{{"A": "{VALUE}",\n "B" }}', "line 2 is not JSON"), (f'{{"A": ["{VALUE}"]}}', 'a text, or {"value"'), (f"A={VALUE}\0\n", "NUL"), ("A=" + VALUE * 2000, "too large")],
    ids=["line", "name", "short", "json", "list", "nul", "large"])
def test_wrong_files(own_box, text, word):
    result = own_box.call("run", "--json", "--secrets", write(own_box, text), "-c", "1")
    assert result.returncode in (110, 114) and word in result.error["message"], result.explain()
    assert VALUE not in result.explain()


def test_short_and_unreadable(own_box):
    result = own_box.call("run", "--secret", "API_KEY", "-c", "1", environ={"API_KEY": "short12"})
    assert result.returncode == 110 and b"less than 8 bytes" in result.err and b"short12" not in result.err
    process = subprocess.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", own_box.binary, "run", "--secret", f"A={write(own_box, VALUE)}", "-c", "1"] if IS_ROOT
                             else [own_box.binary, "run", "--secret", f"A={write(own_box, VALUE, 0)}", "-c", "1"], capture_output=True, env=own_box.environ, check=False)
    assert process.returncode == 110 and b"Permission denied" in process.stderr, process


def test_files_that_others_can_read(own_box):
    path = write(own_box, f"API_KEY={VALUE}\n", 0o644)
    argv = ["policy", "show", "--secrets", path]
    assert b"may be read by others (mode 644): chmod 600" in own_box.call(*argv).err
    path.chmod(0o600)
    assert own_box.call(*argv).err == b""


# ---- nobody else has it ----

def environments():
    """Of all processes of this host that we may look into, but those in a box."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield entry, (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue


def test_processes(own_box):
    """Neither the command nor its helpers show it, and the command leaves no core; the program in the box has it."""
    value = VALUE + "-" + os.urandom(8).hex()
    process = own_box.start("import sys; print('up', flush=True); sys.stdin.read()", secret="API_KEY", json=False, quiet=True, environ={"API_KEY": value}, stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"up\n"
        having = [words for _, text, words in environments() if value.encode() in text]
        assert all(words.startswith(b"python3\0") for words in having) and (having or not IS_ROOT), having
        assert b"API_KEY" in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert stat.S_IMODE(os.stat(f"/proc/{process.pid}/environ").st_mode) == 0o400 and os.stat(f"/proc/{process.pid}/environ").st_uid == 0
        if IS_ROOT:
            limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
            assert next(line for line in limits.splitlines() if "core" in line).split()[4:6] in (["1", "1"], ["0", "0"])
            assert value.encode() not in pathlib.Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        process.communicate(b"")
    assert process.returncode == 0


# ---- filters, sessions, servers ----

def test_scrub_and_check(own_box):
    path = write(own_box, f"API_KEY={VALUE}\n")
    text = f"a {VALUE} b {base64.b64encode(b'user:' + VALUE.encode()).decode()} c {VALUE.encode().hex()}\n".encode()
    done = subprocess.run([own_box.binary, "guard", "scrub", "--secrets", path], input=text, capture_output=True, env=own_box.environ, check=False)
    assert done.stdout.count(b"[scrubbed:API_KEY]") == 3 and done.stderr == b"glovebox: 3 secrets scrubbed: API_KEY 3\n", done
    code = f"key = '{VALUE}'"
    result = own_box.call("guard", "check", "--secrets", path, "-c", code)
    assert result.returncode == 0 and b"<code>:1:8: warn: secret-in-code: " in result.err and VALUE.encode() not in result.err, result.explain()
    assert own_box.call("guard", "check", "--scrub", "strict", "--secrets", path, "-c", code).returncode == 117


def test_repl(own_box):
    weaker = ["--allow-weaker", ",".join(own_box.weaker)] if own_box.weaker else []
    done = subprocess.run([own_box.binary, "repl", "-q", *weaker, "--secret", "API_KEY"], input=b"import os\nos.environ['API_KEY']\n{}[os.environ['API_KEY']]\n", capture_output=True,
                          env={**own_box.environ, "API_KEY": VALUE}, check=False)
    assert done.stdout == b"'[scrubbed:API_KEY]'\n" and b"KeyError: '[scrubbed:API_KEY]'" in done.stderr and VALUE.encode() not in done.stdout + done.stderr, done
    assert b"glovebox: 1 secret scrubbed: API_KEY 1\n" in done.stderr


def test_server(service):
    environ = {"API_KEY": VALUE}
    run = service.call("run", "--server", "--json", "--secret", "API_KEY", "-c", SHOW, environ=environ)
    assert run.json["stdout"] == f"[scrubbed:API_KEY] {len(VALUE)}\n" and run.json["scrubbed"]["total"] == 1, run.explain()
    shown = service.call("run", "--server", "--secret", "API_KEY", "-c", SHOW, environ=environ)
    assert shown.err.decode().splitlines()[-1] == "glovebox: 1 secret scrubbed: API_KEY 1", shown.explain()
    # Without --server the server at the default socket does it as well, and what it cannot be told is done here.
    binary = write(service.box, b"\xff\xfe binary \x80\x81")
    odd = service.call("run", "-q", "--secret", f"B={binary}", "-c", "import os; print(len(os.environb[b'B']))")
    assert odd.out == b"12\n", odd.explain()
    refused = service.call("run", "--server", "--secret", f"B={binary}", "-c", "1")
    assert refused.returncode == 110 and b"not UTF-8" in refused.err and b"--embedded" in refused.err
    result = service.call("session", "create", "--secret", "API_KEY", "--secret-file", f"KEY={write(service.box, VALUE + '-file')}", environ=environ)
    session = result.out.decode().strip()
    assert sorted(service.json("session", "show", session)["secrets"]) == ["API_KEY", "KEY"], result.explain()
    assert b"secrets      API_KEY\n" in service.call("session", "show", session).out
    told = service.call("session", "exec", session, "-c", "import os; (os.environ['API_KEY'], open('/run/secrets/KEY').read())")
    assert told.out == b"('[scrubbed:API_KEY]', '[scrubbed:KEY]')\n" and told.err.decode().splitlines()[-1].startswith("glovebox: 2 secrets scrubbed: "), told.explain()
    service.call("session", "rm", session)
    assert wait_until(lambda: not service.json("session", "ls")["sessions"])
    kept = b"".join(path.read_bytes() for path in service.directory.rglob("*") if path.is_file())
    assert VALUE.encode() not in kept and len(kept) > 0
