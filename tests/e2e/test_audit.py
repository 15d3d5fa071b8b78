# SPDX-License-Identifier: Apache-2.0
"""The audit: who ran what and how it ended, by the API and by the command; and the journal below it when the server dies."""
import hashlib
import json
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import wait_until  # noqa: E402
from server import BINARY, PATIENCE, PROGRAM, Server  # noqa: E402

USAGE, NOT_FOUND = 110, 113


def command(server, *words, program=PROGRAM, status=0):
    done = subprocess.run([str(program), "audit", *map(str, words)], env=server.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def exported(server, *words, **options):
    return [json.loads(line) for line in command(server, "--json", *words, **options).stdout.splitlines()]


def records(server, query="", **options):
    return server.get(f"/v1/audit{query}", **options).expect(200).json["records"]


def newest(server, run, **options):
    return next(r for r in records(server, **options) if r.get("run") == run)


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True) as running:
        yield running


def test_a_run(server):
    code = "print('audited')"
    run = server.run(code)
    record = newest(server, run["id"])
    assert record["action"] == "run" and record["tenant"] == "local" and record["token"] is None and record["session"] is None
    assert record["code_sha256"] == hashlib.sha256(code.encode()).hexdigest() == run["code_sha256"]
    assert (record["language"], record["verdict"], record["failed"], record["trust"]) == ("python", "ok", False, run["policy"]["trust"])
    assert record["peaks"] == run["result"]["peaks"] and record["controls"] == run["result"]["controls"]
    assert run["created_at"] <= record["at"]
    assert "audited" not in json.dumps(record)  # neither code nor output


def test_sessions_and_their_runs(server):
    session = server.session()
    server.run("1 / 0", session)
    server.delete(f"/v1/sessions/{session}").expect(204)
    found = records(server, f"?session={session}")
    assert [r["action"] for r in found] == ["session.end", "run", "session.create"]
    assert found[0]["end"] == "deleted" and found[1]["verdict"] == "error" and {r["session"] for r in found} == {session}


def test_a_run_that_was_not_run(server):
    """Refused before there was a record of it: no record. What was begun and could not be run has one."""
    before = len(records(server, "?limit=1000"))
    server.post("/v1/runs", {"code": "1", "language": "no such"}).expect(400)
    server.post("/v1/runs", {"code": "1", "bogus": 1}).expect(400)
    assert len(records(server, "?limit=1000")) == before


def test_filters(server):
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000000Z"
    ok, failed = server.run("1")["id"], server.run("raise SystemExit(3)")["id"]
    assert failed in {r["run"] for r in records(server, "?verdict=error")} and ok not in {r["run"] for r in records(server, "?verdict=error")}
    since = {r.get("run") for r in records(server, f"?since={start}")}
    assert {ok, failed} <= since
    assert not {ok, failed} & {r.get("run") for r in records(server, f"?until={start}")}
    assert records(server, "?since=2999-01-01T00:00:00Z") == [] and records(server, f"?session={'0' * 32}") == []


def test_pages(server):
    for _ in range(5):
        server.run("1")
    whole, pages, cursor = records(server, "?limit=1000"), [], ""
    while True:
        page = server.get(f"/v1/audit?limit=2{cursor}").expect(200).json
        assert len(page["records"]) == 2 or page["next"] is None
        pages += page["records"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert pages == whole
    assert [r["at"] for r in whole if r["action"] == "run"] == sorted((r["at"] for r in whole if r["action"] == "run"), reverse=True)


@pytest.mark.parametrize("query", ["?since=yesterday", "?until=2026-13-01", "?verdict=fine", "?limit=0", "?limit=1001", "?limit=x", "?cursor=x", "?cursor=-1", "?bogus=1",
                                   "?limit=1&limit=2", "?since="])
def test_wrong_queries(server, query):
    assert server.get(f"/v1/audit{query}").expect(400).code == "usage"


def test_tenants(server):
    one, two, admin = server.token("audit-one"), server.token("audit-two", "read"), server.token("audit-admin", "admin")
    run = server.post("/v1/runs", {"code": "1"}, token=one).expect(200).json["id"]
    mine = [r for r in records(server, token=one) if r["action"] == "run"]
    assert [(r["run"], r["token"], r["tenant"]) for r in mine] == [(run, one[4:12], "audit-one")]
    assert {r["tenant"] for r in records(server, "?limit=1000", token=two)} <= {"audit-two"}
    assert server.get("/v1/audit?tenant=audit-one", token=two).expect(403).code == "denied"
    server.get("/v1/audit?tenant=audit-two", token=two).expect(403)
    everything = records(server, "?limit=1000", token=admin)
    assert run in {r.get("run") for r in everything} and len({r["tenant"] for r in everything}) > 1
    assert {r["tenant"] for r in records(server, "?tenant=audit-one", token=admin)} == {"audit-one"}
    assert server.get("/v1/audit", token=server.token("audit-three", "metrics")).status == 403


def test_tokens_are_audited(server):
    """By the server, since it has the journal: moments later."""
    token = server.token("noted")
    subprocess.run([str(PROGRAM), "token", "revoke", token[4:12]], env=server.environ, check=True, stderr=subprocess.DEVNULL)

    def noted():
        return [r["action"] for r in records(server, "?limit=1000", token=None) if r["token"] == token[4:12]] == ["token.revoke", "token.create"]

    assert wait_until(noted, PATIENCE, 0.1), records(server)


def test_command_says_the_same(server):
    for code in ("1", "2", "raise ValueError"):
        server.run(code)
    found = exported(server)
    assert found == records(server, "?limit=1000")[::-1]
    assert exported(server, "--limit", 2) == found[-2:] and exported(server, "--limit", 1000000) == found
    assert exported(server, "--verdict", "error") == [r for r in found if r.get("verdict") == "error"]
    assert exported(server, "--verdict", "error", "--limit", 1) == [r for r in found if r.get("verdict") == "error"][-1:]
    assert exported(server, "--tenant", "local") == [r for r in found if r["tenant"] == "local"]
    assert exported(server, "--since", "1h") == found and exported(server, "--until", "1h") == []
    assert exported(server, "--since", found[2]["at"], "--tenant", found[2]["tenant"])[0]["at"] >= found[2]["at"]
    assert exported(server, program=BINARY) == found
    assert exported(server, "--directory", server.state) == found


def test_table(server):
    run = server.run("print(1)")["id"]
    lines = command(server).stdout.splitlines()
    assert lines[0].split() == ["TIME", "TENANT", "TOKEN", "ACTION", "RUN", "SESSION", "LANGUAGE", "VERDICT", "CODE"]
    assert lines[-1].split()[1:] == ["local", "-", "run", run[:8], "-", "python", "ok", hashlib.sha256(b"print(1)").hexdigest()[:12]]
    assert command(server, "--tenant", "nobody").stdout == ""


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--verdict", "fine"], ["--limit", "0"], ["--limit", "x"], ["word"], ["--bogus"], ["--since"]], ids=" ".join)
def test_command_refuses(server, words):
    done = command(server, "--json", *words, status=USAGE)
    assert json.loads(done.stdout)["error"]["code"] == "usage"


def test_command_into_a_closed_pipe(server):
    done = subprocess.run(f"'{PROGRAM}' audit --json | head -n 1", shell=True, env=server.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=True)
    assert json.loads(done.stdout)


def test_without_a_journal(tmp_path):
    server = Server()
    try:
        assert "no server has written" in command(server, "--directory", tmp_path / "nowhere", status=NOT_FOUND).stderr
        command(server, status=NOT_FOUND)
    finally:
        server.close()


def test_killed_server_is_honest():
    """What was under way is lost, what has ended stays, and nothing is run again."""
    server = Server()
    try:
        server.start()
        session = server.session()
        ended = server.run("print('before')")["id"]
        key = {"Idempotency-Key": "only once"}
        body = {"code": "import time\nprint('so far', flush=True)\ntime.sleep(600)", "detach": True, "timeout": "5m"}
        lost = server.post("/v1/runs", body, headers=key).expect(202).json["id"]
        inside = server.post(f"/v1/sessions/{session}/runs", body).expect(202).json["id"]
        assert wait_until(lambda: server.get(f"/v1/runs/{lost}").json["events"] >= 2 and server.get(f"/v1/runs/{inside}").json["events"] >= 2, PATIENCE)
        server.kill()
        assert {r.get("run") for r in exported(server)} >= {ended}  # readable as it was left
        server.start()
        for run in (lost, inside):
            seen = server.get(f"/v1/runs/{run}").expect(200).json
            assert seen["state"] == "ended" and seen["result"]["verdict"]["kind"] == "lost", seen
            assert seen["result"]["stdout"] == "so far\n" and seen["result"]["exit_code"] is None
            events = server.get(f"/v1/runs/{run}/events", headers={"Accept": "application/json"}).json
            assert events["ended"] and [e["event"] for e in events["events"]] == ["started", "stdout", "verdict"]
        assert server.get(f"/v1/runs/{ended}").json["result"]["verdict"]["kind"] == "ok"
        server.get(f"/v1/sessions/{session}").expect(404)
        again = server.post("/v1/runs", body, headers=key)
        assert again.json["id"] == lost and again.headers["Idempotency-Replayed"] == "true"
        found = records(server, "?limit=1000")
        assert {r["run"]: r["verdict"] for r in found if r["action"] == "run"} == {ended: "ok", lost: "lost", inside: "lost"}
        assert [r["end"] for r in found if r["action"] == "session.end"] == ["lost"]
    finally:
        server.close()


def test_damaged_journal():
    """The server says what to do, and starts with a new one when that was done."""
    server = Server()
    try:
        server.start()
        server.run("1")
        server.stop()
        path = server.state / "journal.db"
        path.write_bytes(path.read_bytes()[:5000])
        server.start(wait=False)
        assert server._wait(PATIENCE) == 115
        assert "move it away" in server.output() and "journal.db" in server.output()
        path.rename(server.directory / "away.db")
        server.start()
        server.run("1")
    finally:
        server.close()


def test_retention():
    with Server(journal_runs=16, audit_records=20) as server:
        runs = [server.run("1")["id"] for _ in range(40)]
        assert wait_until(lambda: server.get(f"/v1/runs/{runs[0]}").status == 404, PATIENCE, 0.1)
        assert wait_until(lambda: len(records(server)) == 20, PATIENCE, 0.1), records(server)
        assert [r["id"] for r in server.get("/v1/runs").json["runs"]] == runs[:-17:-1]
        server.get(f"/v1/runs/{runs[-1]}").expect(200)
