# SPDX-License-Identifier: Apache-2.0
"""192. A client gives names, arguments, variables, languages and templates that would mean something to a shell, to an option parser, to a path or to another
program: "--privileged", "-v", "a;b", "../x", names with "=" and line ends => they are data, or refused by name; there is no shell anywhere.
"""
import json

import pytest
from hostile_clients import tenants

WORDS = ["--privileged", "-v", "-", "--", "-c", "-e", "--help", "--version", "--rm -it", "a;b", "a|b", "a&b", "a\nb", "a\tb", "$(id)", "`id`", "$HOME", "${PATH}", "%s%n%x", "*", "?", "~", "~root", "!!", "#", "\\", "\\\\", "'", '"', "' OR '1'='1", "<x>", ">x", "2>&1", "{a,b}", "\u202e",
         "\u0430", "\U0001f600", "\x01\x1b[2J", "\x7f", "a" * 4000, "{{7*7}}", "${jndi:ldap://x}", "=", "==", "=a", "a=b", " ", "  a  ", "null", "0", "\r", "\r\n", "%00", "@file", "@/etc/passwd", "file:///etc/passwd"]
ECHO = "import json, os, sys\nprint(json.dumps({'argv': sys.argv, 'env': dict(os.environ), 'file': __file__, 'stdin': sys.stdin.read()}))"


def ask(server, **fields):
    return server.post("/v1/runs", {"code": ECHO, "template": None, **fields}, token=server.alfa)


def told(answer):
    return json.loads(answer.result["stdout"])


def test_arguments(tenants):
    """All of them, each by itself and together: as they were sent."""
    got = told(ask(tenants, args=WORDS))
    assert got["argv"][1:] == WORDS
    for word in WORDS[:12]:
        assert told(ask(tenants, args=[word]))["argv"][1:] == [word]
    for language, code in (("sh", 'for a; do printf "%s\\0" "$a"; done'), ("node", 'process.stdout.write(process.argv.slice(2).map(a => a + "\\0").join(""))')):
        answer = tenants.post("/v1/runs", {"code": code, "language": language, "args": WORDS}, token=tenants.alfa)
        if answer.status == 400 and answer.error["details"].get("field") == "language":
            continue  # this host has it not
        assert answer.result["stdout"].split("\0")[:-1] == WORDS, language


def test_warm_arguments(tenants):
    """The same in a child of a template."""
    answer = tenants.post("/v1/runs", {"code": ECHO, "args": WORDS}, token=tenants.alfa)
    assert told(answer)["argv"][1:] == WORDS


@pytest.mark.parametrize("template", [None, "python"])
def test_names_of_the_code(tenants, template):
    """A file name and nothing else: it is not an option of the interpreter, nor a way out of its directory."""
    for word in WORDS:
        answer = ask(tenants, name=word, template=template)
        if "/" in word or len(word.encode()) > 255 or word in (".", ".."):
            assert (answer.status, answer.error["details"]) == (400, {"field": "name"}), (word, answer.explain())
        else:
            got = told(answer)
            assert got["argv"][0].rpartition("/")[2] == word and got["file"].rpartition("/")[2] == word, (word, got)
    for name in ("/etc/passwd", "../x", "a/b", "..", ".", "", "x" * 256, "\u00e9" * 128):
        assert ask(tenants, name=name, template=template).status == 400


def test_variables(tenants):
    """Values are anything; names are names."""
    got = told(ask(tenants, policy={"env": {f"V{i}": word for i, word in enumerate(WORDS)}}))["env"]
    assert [got[f"V{i}"] for i in range(len(WORDS))] == WORDS
    for name in ("", "=", "A=B", "=A", "A\nB", "A B", "A\tB", "1", "1A", "-v", "--privileged", "a;b", "$(id)", "A.B", "A-B", "\u00c4", "A\x00"[:1] + "\u200b", "A'", 'A"', "A\\", "A\r\nB=C", "BASH_FUNC_x%%", "()"):
        answer = ask(tenants, policy={"env": {name: "x"}})
        assert answer.status == 400 and answer.error["details"] == {"field": "policy.env"}, (name, answer.explain())
    for value in (1, None, True, [], {}, ["x"]):
        assert ask(tenants, policy={"env": {"A": value}}).status == 400
    for env in ([], ["A=B"], "A=B", None, 1):
        assert ask(tenants, policy={"env": env}).status == 400


def test_variables_that_programs_obey(tenants):
    """They are the code's own business: what runs before it, as us, does not see them."""
    hostile = {"LD_PRELOAD": "/sandbox/evil.so", "LD_LIBRARY_PATH": "/sandbox", "LD_AUDIT": "/sandbox/evil.so", "GCONV_PATH": "/sandbox", "PYTHONSTARTUP": "/sandbox/x.py", "PYTHONINSPECT": "1", "BASH_ENV": "/sandbox/x.sh", "ENV": "/sandbox/x.sh", "IFS": "x",
               "GLOVEBOX_RUNTIME_DIR": "/sandbox", "GLOVEBOX_LIBEXEC_DIR": "/sandbox", "NOTIFY_SOCKET": "/sandbox/x", "LISTEN_FDS": "9", "MALLOC_CHECK_": "3", "GLIBC_TUNABLES": "x", "TZ": "/etc/passwd", "SSL_CERT_FILE": "/sandbox/x", "OPENSSL_CONF": "/sandbox/x"}
    files = {"evil.so": {"base64": "f0VMRg=="}, "x.py": "print('evil')", "x.sh": "echo evil"}
    answer = tenants.post("/v1/runs", {"code": "print('mine')", "policy": {"env": hostile}, "files": files}, token=tenants.alfa)
    assert answer.status == 200 and answer.result["verdict"]["kind"] in ("ok", "error")
    assert tenants.post("/v1/runs", {"code": "print('mine')"}, token=tenants.alfa).result["stdout"] == "mine\n"


@pytest.mark.parametrize("field", ["language", "template", "context"])
def test_names_of_things(tenants, field):
    session = tenants.post("/v1/sessions", {"template": None}, token=tenants.alfa).expect(201).json["id"]
    for word in [*WORDS, "", "python;id", "../python", "python/", "python\n", "/usr/bin/python3", "python3 -c", "image", "python:latest", "docker.io/library/python", "\uff50ython"]:
        if field == "context":
            answer = tenants.post(f"/v1/sessions/{session}/runs", {"code": "1", field: word}, token=tenants.alfa)
            assert answer.status in (400, 404), (word, answer.explain())
            continue
        answer = tenants.post("/v1/runs", {"code": "1", field: word}, token=tenants.alfa)
        assert answer.status == 400 and answer.error["details"] == {"field": field} and len(answer.body) < 1500, (word, answer.explain())
    tenants.delete(f"/v1/sessions/{session}", token=tenants.alfa).expect(204)


def test_files_that_come_along(tenants):
    """Their paths are paths in the workspace."""
    for path in ("../x", "/etc/passwd", "a/../../x", "", ".", "..", "a/../..", "x/" * 2100, "/sandbox/../x", "/proc/self/mem"):
        answer = ask(tenants, files={path: "x"})
        assert answer.status == 400 and answer.error["details"] == {"field": "files"}, (path, answer.explain())
    names = [word for word in WORDS if "/" not in word and len(word.encode()) <= 255]
    answer = tenants.post("/v1/runs", {"code": "import json, os\nprint(json.dumps(sorted(os.listdir('.'))))", "files": {name: "x" for name in names}}, token=tenants.alfa)
    assert set(names) <= set(json.loads(answer.result["stdout"]))


def test_texts_for_people(tenants):
    """Names and metadata of sessions come back as they were, in JSON."""
    session = tenants.post("/v1/sessions", {"template": None}, token=tenants.alfa).expect(201).json["id"]
    for word in WORDS:
        body = {"name": word, "metadata": {"k" + word[:50]: word[:1000]}}
        answer = tenants.patch(f"/v1/sessions/{session}", body, token=tenants.alfa)
        if len(word) > 64:
            assert answer.status == 400
            continue
        assert (answer.expect(200).json["name"], answer.json["metadata"]) == (word, body["metadata"])
        assert tenants.get(f"/v1/sessions/{session}", token=tenants.alfa).json["name"] == word
    assert "\x1b" not in tenants.output() and "privileged" not in tenants.output()
    tenants.delete(f"/v1/sessions/{session}", token=tenants.alfa).expect(204)


def test_input_is_data(tenants):
    for word in WORDS:
        assert told(ask(tenants, stdin=word))["stdin"] == word
    for coded in ("=", "====", "A", "A===", "QQ=", "QQ==\n", " QQ==", "QQ==QQ==", "-_-_", "Q\u00e9==", "QR==", "%51"):
        assert ask(tenants, stdin={"base64": coded}).status == 400, coded
    for value in ({"base64": "QQ==", "x": 1}, {"Base64": "QQ=="}, {}, {"base64": None}, [], 1, None, True):
        assert ask(tenants, stdin=value).status == 400, value
