# SPDX-License-Identifier: Apache-2.0
"""Secrets of sessions and runs: the code has them, and nobody else ever sees them again. Numbers are those of the attack catalogue."""
import base64
import json
import os
import pathlib
import secrets
import urllib.parse
import zlib

import pytest
from server import NDJSON, Server

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def github_token():
    """Nobody's, with the check digits of one."""
    body = "".join(secrets.choice(DIGITS) for _ in range(30))
    check, text = zlib.crc32(body.encode()), ""
    for _ in range(6):
        check, digit = divmod(check, 62)
        text = DIGITS[digit] + text
    return "ghp" + "_" + body + text


TOKEN = github_token()


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True, arguments=("--json",)) as running:
        yield running


@pytest.fixture
def value():
    return "s3cret/" + secrets.token_hex(16)


def forms(value):
    """Ways to write it that anybody could read."""
    raw = value.encode()
    return [raw, base64.b64encode(raw)[:-4], raw.hex().encode(), urllib.parse.quote(value, safe="").encode(), json.dumps(value).encode()[1:-1].replace(b"/", b"\\/")]


def assert_absent(value, text, where):
    for form in forms(value):
        assert form not in text, (where, form)


def state_files(server):
    return {path: path.read_bytes() for path in server.state.rglob("*") if path.is_file()}


def processes():
    for entry in filter(str.isdigit, os.listdir("/proc")):
        yield pathlib.Path("/proc") / entry


def test_the_code_has_it(server, value):
    """As a variable, or as a file that only it can read; what comes back does not show it."""
    code = "import os; k = os.environ['KEY']; f = open('/run/secrets/pem').read(); print(len(k), len(f), k, f)"
    made = server.post("/v1/sessions", {"secrets": {"KEY": value, "PEM": {"value": f"{value[::-1]}\n", "file": "/run/secrets/pem"}}}).expect(201).json
    assert made["secrets"] == ["KEY", "PEM"]
    result = server.run(code, made["id"])["result"]
    assert result["stdout"] == f"{len(value)} {len(value) + 1} [scrubbed:KEY] [scrubbed:PEM]\n"
    assert result["scrubbed"] == {"total": 2, "names": {"KEY": 1, "PEM": 1}}
    assert server.get(f"/v1/sessions/{made['id']}").json["secrets"] == ["KEY", "PEM"]
    alone = server.run("import os; print(os.environ['KEY']); os.environ['KEY'][::-1]", secrets={"KEY": value})["result"]
    assert alone["stdout"] == "[scrubbed:KEY]\n" and alone["scrubbed"] == {"total": 1, "names": {"KEY": 1}}


def test_176_183_nowhere_else(server, value):
    """A secret of session 1 is not in session 2, and in nothing that the server writes, answers or runs as."""
    key = {"Idempotency-Key": secrets.token_hex(8)}
    body = {"secrets": {"KEY": value}, "name": f"of {value}", "metadata": {"for": value, value: "x"}}
    first = server.post("/v1/sessions", body, headers=key).expect(201)
    again = server.post("/v1/sessions", body, headers=key).expect(201)
    assert again.headers["Idempotency-Replayed"] == "true" and again.json["id"] == first.json["id"]
    one, two = first.json["id"], server.session()
    assert first.json["name"] == "of [scrubbed:KEY]" and first.json["metadata"] == {"for": "[scrubbed:KEY]", "[scrubbed:KEY]": "x"}
    tell = "import os, sys; k = os.environ['KEY']; print(k, k.encode().hex()); print(k, file=sys.stderr); open('n-' + k[7:], 'w').write(k); raise ValueError(k)"
    run = server.run(tell, one, timeout=20)
    assert run["result"]["error"]["value"] == "[scrubbed:KEY]" and run["result"]["stdout"] == "[scrubbed:KEY] [scrubbed:KEY]\n"
    with server.post(f"/v1/sessions/{one}/runs", {"code": "print(k); k"}, stream=NDJSON) as stream:
        events = json.dumps(list(stream))
    look = """
import glob, os
wanted = %r[::-1].encode()
found = [wanted in repr(dict(os.environ)).encode()]
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/run/secrets/*') + glob.glob('/tmp/**', recursive=True):
    try:
        found.append(wanted in open(path, 'rb').read())
    except OSError:
        pass
print(len(found) > 2, any(found))
""" % value[::-1]
    assert server.run(look, two)["result"]["stdout"] == "True False\n"
    assert server.run(look)["result"]["stdout"] == "True False\n"
    assert server.run(look, one)["result"]["stdout"] == "True True\n"  # the look is a good one

    answers = [first.body, again.body, json.dumps(run).encode(), events.encode()]
    for path in ("sessions", f"sessions/{one}", f"sessions/{one}/files", f"sessions/{one}/stats", "runs", f"runs/{run['id']}", "audit", "stats", "info", "policies"):
        answers.append(server.get(f"/v1/{path}").expect(200).body)
    answers.append(server.get(f"/v1/runs/{run['id']}/events", headers={"Accept": "application/json"}).expect(200).body)
    answers.append(server.get("/metrics").expect(200).body)
    for body in answers:
        assert_absent(value, body, body[:200])
    below = {pathlib.Path("/proc") / str(pid) for pid in [server.pid, *server.processes()]}
    for process in processes():
        try:
            assert_absent(value, (process / "cmdline").read_bytes(), process)
            # Of the server's own; what the code of session 1 runs as has it, by right.
            if process in below and os.stat(process).st_uid in (0, server.uid):
                assert_absent(value, (process / "environ").read_bytes(), process)
        except OSError:
            continue
    server.delete(f"/v1/sessions/{one}").expect(204)
    assert b"[scrubbed:KEY]" in b"".join(state_files(server).values())
    for path, text in state_files(server).items():
        assert_absent(value, text, path)
    assert_absent(value, (server.directory / "log").read_bytes(), "log")


def test_names_of_files(server, value):
    value = value.replace("/", "-")
    session = server.session(secrets={"KEY": value})
    server.run(f"import os\nfor n in 'abc': open(n + os.environ['KEY'], 'w').write(os.environ['KEY'])\nopen('plain', 'w')", session)
    names, cursor = [], ""
    while cursor is not None:
        page = server.get(f"/v1/sessions/{session}/files?limit=1{cursor and '&cursor=' + cursor}").expect(200)
        assert_absent(value, page.body, page.body)
        names += [(e["name"], e.get("scrubbed", False)) for e in page.json["entries"]]
        cursor = page.json["next"]
    assert names == [(f"{n}[scrubbed:KEY]", True) for n in "abc"] + [("plain", False)]
    # Who knows the name has the file, as it is.
    assert server.get(f"/v1/sessions/{session}/files/a{value}").expect(200).body == value.encode()
    assert server.put(f"/v1/sessions/{session}/files/d{value}").expect(201).json["path"] == "d[scrubbed:KEY]"
    for path in (f"files/no/{value}", f"files?path={value}", f"archive?path={value}", f"files/{'x' * 110}{value}"):
        refused = server.get(f"/v1/sessions/{session}/{path}")
        assert refused.status in (400, 404)
        assert_absent(value[:16], refused.body, path)
    assert server.get(f"/v1/sessions/{session}/files?cursor=x{'0' * 34}").status == 200  # no name, but no harm


def test_errors_do_not_repeat_it(server, value):
    bad = [{"secrets": {"KEY": [value]}}, {"secrets": {"KEY": {"value": value, "fil": "x"}}}, {"secrets": {"KEY": {"file": value, "value": "/run/secrets/x"}}},
           {"secrets": {"KEY": value}, "nme": "x"}, {"secrets": {"9": value}}, {"secrets": {"KEY": "short-7"}}, {"secrets": {"KEY": value, "BIG": "x" * 20000}}, {"secrets": value}, {"secrets": {value + "/": "something else"}}]
    for body in bad:
        answer = server.post("/v1/sessions", body).expect(400)
        assert value.encode() not in answer.body and b"short-7" not in answer.body and b"xxxx" not in answer.body, answer.body
    for text in ('{"secrets": {"KEY": "%s"' % value, '{"secrets": {"KEY": "%s" "x"}}' % value, '{"secrets": "%s\\q"}' % value, '{"a": %s}' % value):
        answer = server.post("/v1/sessions", body=text.encode(), headers={"Content-Type": "application/json"}).expect(400)
        assert value.encode() not in answer.body, answer.body
    assert server.post("/v1/runs", {"code": "1", "secrets": {"KEY": value, "FILE": {"value": value, "file": "/etc/passwd"}}}).expect(400).error["details"] == {"field": "secrets"}
    # What has a shape is not repeated either, whatever it is.
    answer = server.post("/v1/sessions", {TOKEN: 1, "name": 5}).expect(400)
    assert TOKEN.encode() not in answer.body and b"[scrubbed:github-token]" in answer.body, answer.body
    assert_absent(value, (server.directory / "log").read_bytes(), "log")


def test_a_body_that_went_to_a_file(server, value):
    """A large one goes to the disk, in a file without a name: its secrets count as others do, and nothing of it can be seen there."""
    result = server.run(f"import os; len(os.environ['KEY']); print(os.environ['KEY'])\n# {'x' * (1 << 20)}", secrets={"KEY": value})["result"]
    assert result["stdout"] == "[scrubbed:KEY]\n"
    assert not [path for path in server.state.iterdir() if "body" in path.name]


def test_one_tenant_does_not_learn_of_anothers(server, value):
    """A mark in an answer would say that a guess was right."""
    server.session(secrets={"KEY": value})
    token = server.token("stranger", "run")
    mine = server.post("/v1/sessions", {"name": value}, token=token).expect(201).json
    assert mine["name"] == value and mine["secrets"] == []
    assert value in server.get(f"/v1/sessions/{mine['id']}/files/no{value.replace('/', '-')}", token=token).expect(404).error["message"].replace("-", "/")
    shown = server.post(f"/v1/sessions/{mine['id']}/runs", {"code": f"print({value!r})"}, token=token).expect(200).json["result"]
    assert shown["stdout"] == value + "\n" and shown["scrubbed"]["total"] == 0


def test_the_server_cannot_be_dumped(server):
    limits = pathlib.Path(f"/proc/{server.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max core file size")).split()[4:6] == ["1", "1"]
    assert os.stat(f"/proc/{server.pid}/environ").st_uid == 0  # not its own user's: it is not dumpable
