# SPDX-License-Identifier: Apache-2.0
"""178. Code says a secret that it was given wherever it can: standard output and error, values, errors, names of types and files, events, and what is told about it
afterwards => [scrubbed:NAME] stands there, and what is around it is as it was. The result counts.
"""
import base64
import json

import pytest
from hostile_secrets import MARK, files_with, new_secret, new_session, run, server

EVERYWHERE = """
import os, sys, warnings
key = os.environ['KEY']
print('out', key, 'end')
print('err', key, 'end', file=sys.stderr)
class Shown:
    def _repr_mimebundle_(self, **_): return {'text/plain': 'plain ' + key, 'text/html': '<b>' + key + '</b>', 'application/json': {'a': [key, {key: 1}]}, 'text/' + key: 'x'}
display(Shown())
"""


def assert_free(secret, *texts):
    for text in texts:
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        assert secret not in text and json.dumps(secret)[1:-1] not in text and json.dumps(secret, ensure_ascii=False)[1:-1] not in text, text


@pytest.fixture(scope="module")
def mine(server):
    secret = new_secret()
    session = new_session(server, secret, name=f"of {secret}", metadata={"about": secret})
    yield secret, session
    server.delete(f"/v1/sessions/{session}").expect(204)


def test_streams_and_values(server, mine):
    secret, session = mine
    result = run(server, EVERYWHERE + "{'key': key}", session=session)
    assert (result["stdout"], result["stderr"]) == (f"out {MARK} end\n", f"err {MARK} end\n"), result
    shown, value = result["results"]
    assert shown["data"]["text/plain"] == f"plain {MARK}" and shown["data"]["text/html"] == f"<b>{MARK}</b>", shown
    assert MARK in value["data"]["text/plain"], value
    assert result["scrubbed"]["names"] == {"KEY": result["scrubbed"]["total"]} and result["scrubbed"]["total"] >= 7, result["scrubbed"]
    assert_free(secret, result)


def test_errors(server, mine):
    secret, session = mine
    code = "import os\nkey = os.environ['KEY']\ntype('Error', (Exception,), {'__qualname__': key, '__module__': key})"
    for last in ("raise ValueError(key)", "raise KeyError(key) from ValueError(key)", "raise type(key, (Exception,), {})(key)", "exec(compile('1/0', key, 'exec'))", "exec(key + '(')", "{}[key]"):
        result = run(server, f"{code}\n{last}", session=session)
        assert result["verdict"]["kind"] == "error" and result["error"], result
        assert_free(secret, result)
        assert MARK in json.dumps(result["error"]), (last, result["error"])


@pytest.mark.parametrize("language, code", [
    ("bash", "echo \"$KEY\"; echo \"$KEY\" >&2; ls \"/none/$KEY\"; \"$KEY\""),
    ("javascript", "console.log(process.env.KEY); console.error(JSON.stringify([process.env.KEY])); throw new Error(process.env.KEY)")], ids=["bash", "javascript"])
def test_other_languages(server, mine, language, code):
    secret, session = mine
    for context in ({}, {"context": None}):
        result = run(server, code, session=session, language=language, **context)
        assert_free(secret, result)
        assert MARK in result["stdout"] and result["scrubbed"]["total"] >= 3, result


def test_events(server, mine):
    """While it streams, and when it is read again from the journal."""
    secret, session = mine
    with server.request("POST", f"/v1/sessions/{session}/runs", json={"code": EVERYWHERE + "raise ValueError(key)"}, stream=True) as stream:
        events = list(stream)
    assert events[-1]["event"] == "verdict"
    assert_free(secret, events)
    with server.request("GET", f"/v1/runs/{server.get('/v1/runs?limit=1').json['runs'][0]['id']}/events", stream=True) as stream:
        again = list(stream)
    assert_free(secret, again)
    for kind in ("stdout", "stderr"):
        assert MARK in "".join(e["data"] for e in events if e["event"] == kind)
        assert [e["data"] for e in again if e["event"] == kind] == [e["data"] for e in events if e["event"] == kind]


def test_names_of_files(server, mine):
    """The secret has a slash: here its base64 is the name."""
    secret, session = mine
    code = "import base64, os\nname = base64.urlsafe_b64encode(os.environ['KEY'].encode()).decode()\nos.makedirs('d/' + name)\nopen('d/' + name + '/f', 'w')\nopen('x' + name, 'w')\nprint(name[4:-4] == '')"
    assert run(server, code, session=session)["stdout"] == "False\n"
    form = base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")[:-1]
    for path in ("files", "files?path=d"):
        answer = server.get(f"/v1/sessions/{session}/{path}").expect(200)
        assert form not in answer.body.decode() and MARK in answer.body.decode(), answer.explain()


def test_what_is_told_afterwards(server, mine):
    secret, session = mine
    refused = server.post(f"/v1/sessions/{session}/runs", {"code": "1", "language": secret})
    assert refused.status == 400
    answers = [refused, server.get(f"/v1/sessions/{session}"), server.get("/v1/sessions"), server.get("/v1/runs?limit=100"), server.get("/v1/audit?limit=100"), server.get("/metrics"), server.get("/v1/stats")]
    assert [answer.status for answer in answers] == [400] + [200] * 6
    for answer in answers:
        assert_free(secret, answer.body.decode())
    assert server.get(f"/v1/sessions/{session}").json["secrets"] == ["KEY"]
    assert_free(secret, server.output())
    assert files_with(secret, server.directory) == []


def test_the_command(own_box):
    """On its own: output, JSON, events, and an error of the compiler."""
    secret = new_secret()
    code = "import os, sys\nprint(os.environ['KEY'])\nsys.exit(os.environ['KEY'])"
    for options in ({"json": True}, {"json": False}, {"json": False, "events": True}):
        result = own_box.run(code, secret="KEY", environ={"KEY": secret}, **options)
        assert_free(secret, result.out.decode(), result.err.decode())
        assert (result.out + result.err).count(MARK.encode()) == 2, result.explain()
    result = own_box.run("import os\nprint(os.environ['KEY'])", secret="KEY", scrub="off", environ={"KEY": secret})
    assert result.stdout == secret + "\n" and result.json["scrubbed"] == {"total": 0, "names": {}}  # it is the scrubber that does it
