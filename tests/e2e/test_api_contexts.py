# SPDX-License-Identifier: Apache-2.0
"""Contexts over the API: which interpreter a run takes, and what can be done with one."""
import time

import pytest
from server import in_threads, server, wait_for


@pytest.fixture
def session(server):
    made = server.session()
    yield made
    server.delete(f"/v1/sessions/{made}")


def kind(run):
    return run["result"]["verdict"]["kind"]


def text(run):
    return run["result"]["results"][0]["data"]["text/plain"]


def contexts(server, session):
    return server.get(f"/v1/sessions/{session}/contexts").expect(200).json["contexts"]


def test_the_default_one_of_each_language(server, session):
    assert contexts(server, session) == []
    first = server.run("x = 1", session)
    shell = server.run("y=2", session, language="bash")
    assert (first["context"], shell["context"]) == ("1", "2")
    assert server.run("echo $y", session, language="bash")["result"]["stdout"] == "2\n"
    assert text(server.run("x", session, language="py")) == "1"
    listed = contexts(server, session)
    assert [(c["id"], c["language"], c["alive"], c["busy"], c["runs"], c["default"]) for c in listed] == [
        ("1", "python", True, False, 2, True), ("2", "bash", True, False, 2, True)]


def test_one_of_its_own(server, session):
    made = server.post(f"/v1/sessions/{session}/contexts", {"language": "python"}).expect(201)
    context = made.json
    assert context == {"id": "1", "language": "python", "alive": True, "busy": False, "runs": 0, "default": False}
    assert made.headers["Location"] == f"/v1/sessions/{session}/contexts/1"
    server.run("x = 'own'", session, context="1")
    assert server.run("x", session)["result"]["error"]["name"] == "NameError"
    assert text(server.run("x", session, context="1", language="python")) == "'own'"
    answer = server.post(f"/v1/sessions/{session}/runs", {"code": "1", "context": "1", "language": "bash"}).expect(400)
    assert answer.error["details"] == {"field": "language"}
    assert server.post(f"/v1/sessions/{session}/runs", {"code": "1", "context": "9"}).expect(404).code == "not_found"
    assert server.post(f"/v1/sessions/{session}/runs", {"code": "1", "context": 1}).expect(400).error["details"] == {"field": "context"}
    for body in ({"language": "cobol"}, {"language": "sh"}, {"language": 1}, {"what": 1}):
        assert server.post(f"/v1/sessions/{session}/contexts", body).status == 400, body


def test_none_is_a_fresh_program(server, session):
    server.run("x = 1; open('f', 'w').write('w')", session)
    run = server.run("import sys; print(sys.argv[1:], 'x' in globals(), open('f').read(), sys.stdin.read())", session, context=None,
                     args=["a"], name="prog.py", stdin="in")
    assert run["context"] is None and run["result"]["context"] is None and run["result"]["stdout"] == "['a'] False w in\n"
    assert "results" not in run["result"]
    assert kind(server.run("raise SystemExit(3)", session, context=None)) == "error"
    # Languages without contexts always are.
    shell = server.run("echo $0; cat f", session, language="sh", args=["a"])
    assert shell["context"] is None and shell["result"]["stdout"].endswith("w")
    for field in ({"args": ["a"]}, {"name": "n.py"}):
        answer = server.post(f"/v1/sessions/{session}/runs", {"code": "1", **field}).expect(400)
        assert answer.error["details"] == {"field": next(iter(field))}


def test_standard_input(server, session):
    assert text(server.run("import sys; sys.stdin.read()", session, stdin="hello")) == "'hello'"
    assert server.run("cat", session, language="bash", stdin="for bash")["result"]["stdout"] == "for bash"
    run = server.post(f"/v1/sessions/{session}/runs", {"code": "input()", "interactive": True, "detach": True}).json["id"]
    server.post(f"/v1/runs/{run}/stdin", body=b"typed\n").expect(200)
    assert text(server.wait_run(run)) == "'typed'"


def test_only_one_run_at_a_time(server, session):
    run = server.post(f"/v1/sessions/{session}/runs", {"code": "import time; time.sleep(60)", "detach": True}).json["id"]
    server.wait_run(run, "running")
    assert server.post(f"/v1/sessions/{session}/runs", {"code": "1"}).expect(409).code == "conflict"
    assert server.delete(f"/v1/sessions/{session}/contexts/1").expect(409).code == "conflict"
    assert server.post(f"/v1/sessions/{session}/contexts/1/restart").expect(409).code == "conflict"
    assert contexts(server, session)[0]["busy"] and server.get(f"/v1/sessions/{session}").json["runs"]["active"] == 1
    # Beside it others run.
    assert server.run("echo hi", session, language="bash")["result"]["stdout"] == "hi\n"
    assert server.run("print('hi')", session, context=None)["result"]["stdout"] == "hi\n"
    server.post(f"/v1/sessions/{session}/contexts/1/interrupt").expect(202)
    ended = server.wait_run(run)
    assert kind(ended) == "cancelled" and ended["result"]["state"]["kept"]
    assert text(server.run("1", session)) == "1"


def test_interrupt_keeps_the_state(server, session):
    server.run("x = 7", session)
    assert server.post(f"/v1/sessions/{session}/contexts/1/interrupt").expect(409).code == "conflict"
    run = server.post(f"/v1/sessions/{session}/runs", {"code": "print('on', flush=True)\nwhile True: pass", "detach": True}).json["id"]
    wait_for(lambda: server.get(f"/v1/runs/{run}/events").json["next"] >= 2)
    server.post(f"/v1/sessions/{session}/contexts/1/interrupt").expect(202)
    assert kind(server.wait_run(run)) == "cancelled"
    assert text(server.run("x", session)) == "7"


def test_cancel_of_a_run_is_an_interrupt(server, session):
    server.run("x = 7", session)
    run = server.post(f"/v1/sessions/{session}/runs", {"code": "import time; time.sleep(60)", "detach": True}).json["id"]
    server.wait_run(run, "running")
    server.post(f"/v1/runs/{run}/cancel").expect(202)
    ended = server.wait_run(run)
    assert kind(ended) == "cancelled" and ended["result"]["state"] == {"kept": True, "restarted": False}
    assert text(server.run("x", session)) == "7"


def test_the_timeout_of_a_run(server, session):
    server.run("x = 7", session)
    begin = time.monotonic()
    run = server.run("while True: pass", session, timeout=0.3)
    assert kind(run) == "timeout" and run["result"]["state"]["kept"] and time.monotonic() - begin < 20
    assert run["result"]["verdict"]["limit"] == 300000 and run["result"]["limits"]["timeout_usec"] == 300000
    assert text(server.run("x", session)) == "7"
    answer = server.post(f"/v1/sessions/{session}/runs", {"code": "1", "timeout": "1h"}).expect(400)
    assert answer.code == "limit" and answer.error["details"] == {"field": "timeout"}
    short = server.session(policy={"timeout": "500ms"})
    assert kind(server.run("import time; time.sleep(1.2)", short, timeout=20)) == "ok"
    assert kind(server.run("import time; time.sleep(20)", short)) == "timeout"
    server.delete(f"/v1/sessions/{short}").expect(204)


def test_restart(server, session):
    server.run("x = 1; open('f', 'w').write('stays')", session)
    context = server.post(f"/v1/sessions/{session}/contexts/1/restart").expect(200).json
    assert (context["id"], context["alive"], context["default"]) == ("1", True, True)
    assert text(server.run("('x' in globals(), open('f').read())", session)) == "(False, 'stays')"


def test_a_default_that_was_closed_begins_anew(server, session):
    server.run("x = 1", session)
    server.delete(f"/v1/sessions/{session}/contexts/1").expect(204)
    assert contexts(server, session) == []
    for path in ("", "/restart", "/interrupt"):
        method = "POST" if path else "DELETE"
        assert server.request(method, f"/v1/sessions/{session}/contexts/1{path}", {} if path else None).expect(404).code == "not_found"
    run = server.run("'x' in globals()", session)
    assert run["context"] == "2" and text(run) == "False"


def test_an_interpreter_that_died(server, session):
    server.run("x = 1", session)
    died = server.run("import os; os._exit(3)", session)
    assert kind(died) == "error" and died["result"]["exit_code"] == 3 and not died["result"]["state"]["kept"]
    assert not contexts(server, session)[0]["alive"]
    again = server.run("'x' in globals()", session)
    assert again["context"] == "1" and again["result"]["state"]["restarted"] and text(again) == "False"


def test_as_many_as_there_may_be(server, session):
    statuses = [server.post(f"/v1/sessions/{session}/contexts", {"language": "bash"}).status for _ in range(33)]
    assert statuses == [201] * 32 + [400]
    server.delete(f"/v1/sessions/{session}/contexts/5").expect(204)
    server.post(f"/v1/sessions/{session}/contexts", {"language": "bash"}).expect(201)


def test_the_first_runs_at_the_same_time(server):
    """Both want the default context, which is not there yet: there is one, and one of them gets it."""
    for _ in range(5):
        session = server.session()
        answers = in_threads([lambda: server.post(f"/v1/sessions/{session}/runs", {"code": "import time; time.sleep(0.3)"})] * 3)
        assert sorted({a.status for a in answers}) in ([200, 409], [200]), [a.explain() for a in answers]
        assert {a.json["context"] for a in answers if a.status == 200} == {contexts(server, session)[0]["id"]}
        assert len(contexts(server, session)) == 1
        server.delete(f"/v1/sessions/{session}").expect(204)


def test_closing_under_a_run(server):
    """Random closers and runners of the same contexts: each gets an answer that is true of some order."""
    session = server.session()

    def work(i):
        seen = set()
        for k in range(12):
            context = str(1 + (i + k) % 4)
            if i % 3 == 0:
                seen.add(server.delete(f"/v1/sessions/{session}/contexts/{context}").status)
            elif i % 3 == 1:
                seen.add(server.post(f"/v1/sessions/{session}/contexts").status)
            else:
                seen.add(server.post(f"/v1/sessions/{session}/runs", {"code": "1", "context": context}).status)
        return seen

    seen = set().union(*in_threads([lambda i=i: work(i) for i in range(9)]))
    assert seen <= {200, 201, 204, 400, 404, 409}, seen
    assert text(server.run("1", session)) == "1" if len(contexts(server, session)) < 32 else True
    server.delete(f"/v1/sessions/{session}").expect(204)


@pytest.mark.parametrize("code, status, out", [
    ("setTimeout(() => console.log('late'), 100); console.log('now')", 0, "now\nlate\n"), ("process.on('exit', () => console.log('bye')); 42", 0, "bye\n"),
    ("process.exitCode = 3", 3, ""), ("throw new Error('no')", 1, ""), ("await new Promise(() => {})", 1, "")])
def test_the_last_run_of_node(server, session, code, status, out):
    """As a program of Node: it ends when nothing is left to do."""
    result = server.run(code, session, language="node", last=True)["result"]
    assert (result["exit_code"], result["stdout"], result["state"]["kept"]) == (status, out, False), result
    assert result["verdict"]["kind"] == ("error" if status else "ok"), result


def test_last_is_a_flag(server, session):
    assert server.post(f"/v1/sessions/{session}/runs", {"code": "1", "last": "yes"}).expect(400).error["details"]["field"] == "last"
    assert server.post("/v1/runs", {"code": "1", "last": True}).expect(400).error["details"]["field"] == "last", "such a run always ends so"
