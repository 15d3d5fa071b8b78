# SPDX-License-Identifier: Apache-2.0
"""Tokens: made, listed and revoked by the command while a server runs; what they let, and what they keep from others."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import wait_until  # noqa: E402
from server import BINARY, PATIENCE, PROGRAM, Server  # noqa: E402

USAGE, NOT_FOUND = 110, 113
FORM = re.compile(r"gbx_[a-z2-7]{8}_[A-Za-z0-9_-]{43}")


def command(server, *words, program=PROGRAM):
    return subprocess.run([str(program), "token", *words], env=server.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=PATIENCE, check=False)


def tokens(server):
    done = command(server, "list", "--json")
    assert done.returncode == 0, done.stderr
    return {t["id"]: t for t in json.loads(done.stdout)["tokens"]}


@pytest.fixture(scope="module")
def server():
    with Server(tcp=True) as running:
        yield running


def test_create_prints_the_token_alone(server):
    done = command(server, "create", "--tenant", "alone")
    assert done.returncode == 0, done.stderr
    assert FORM.fullmatch(done.stdout.removesuffix("\n")), done.stdout
    assert "alone" in done.stderr and done.stdout.strip() not in done.stderr
    assert server.get("/v1/info", token=done.stdout.strip()).expect(200).json["tenant"] == "alone"


def test_create_as_json(server):
    done = command(server, "create", "--json", "--tenant", "acme", "--scope", "read,metrics", "--expires", "30d", "--name", "for \N{SNOWMAN}")
    made = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert FORM.fullmatch(made["token"]) and made["token"][4:12] == made["id"]
    assert made["tenant"] == "acme" and made["scopes"] == ["read", "metrics"] and made["name"] == "for \N{SNOWMAN}" and made["state"] == "valid"
    assert made["expires_at"] > made["created_at"] and made["used_at"] is None
    shown = tokens(server)[made["id"]]
    assert {**shown, "token": made["token"]} == made


@pytest.mark.parametrize("words", [
    ["--tenant", "local"], ["--tenant", "UPPER"], ["--tenant", ""], ["--tenant", "a" * 65], ["--tenant", "a/b"], ["--scope", "root"], ["--scope", ""],
    ["--scope", "read,,run"], ["--expires", "soon"], ["--expires", "0"], ["--expires", "-1h"], ["--expires", "99999d"], ["--name", "\x1b[31m"],
    ["--name", "n" * 65], ["--colour", "red"], ["--tenant"], ["word"],
], ids=lambda words: " ".join(words)[:20].replace("\x1b", "esc"))
def test_create_refuses(server, words):
    before = set(tokens(server))  # when they were used is written a moment later
    done = command(server, "create", "--json", *words)
    assert done.returncode == USAGE, done.stdout + done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "usage" and done.stderr.startswith("glovebox: ") and "\x1b" not in done.stderr
    assert set(tokens(server)) == before


def test_verbs(server):
    for words in ([], ["make"], ["list", "all"], ["revoke"], ["revoke", "a", "--tenant", "b"], ["list", "--tenant", "x"]):
        assert command(server, *words).returncode == USAGE, words
    assert command(server, "revoke", "aaaaaaaa").returncode == NOT_FOUND
    assert command(server, "revoke", "--tenant", "nobody").returncode == NOT_FOUND


def test_through_glovebox(server):
    """The verb of the command hands everything over."""
    done = command(server, "create", "--tenant", "cli", "--directory", str(server.state), program=BINARY)
    assert done.returncode == 0 and FORM.fullmatch(done.stdout.strip()), done.stderr
    assert "cli" in {t["tenant"] for t in json.loads(command(server, "list", "--json", program=BINARY).stdout)["tokens"]}
    done = command(server, "revoke", done.stdout[4:12], program=BINARY)
    assert done.returncode == 0, done.stderr


def test_revoked_at_the_next_request(server):
    token = server.token("revoked")
    connection = server.connection(tcp=True)
    headers = {"Authorization": f"Bearer {token}"}
    server.get("/v1/info", headers=headers, connection=connection).expect(200)
    server.get("/v1/info", headers=headers, connection=connection).expect(200)
    done = command(server, "revoke", token[4:12])
    assert done.returncode == 0, done.stderr
    answer = server.get("/v1/info", headers=headers, connection=connection)
    connection.close()
    assert answer.status == 401 and answer.code == "unauthorized"
    assert tokens(server)[token[4:12]]["state"] == "revoked"
    assert command(server, "revoke", token[4:12]).returncode == NOT_FOUND


def test_revoke_a_tenant(server):
    mine, other = [server.token("many") for _ in range(3)], server.token("many-others")
    done = command(server, "revoke", "--json", "--tenant", "many")
    assert json.loads(done.stdout) == {"revoked": 3}
    assert [server.get("/v1/info", token=t).status for t in mine] == [401] * 3
    server.get("/v1/info", token=other).expect(200)


def test_expires(server):
    token = server.token("short", expires="2s")
    assert wait_until(lambda: server.get("/v1/info", token=token).status == 401, PATIENCE, 0.1)
    assert tokens(server)[token[4:12]]["state"] == "expired"


def test_what_does_not_count(server):
    """One answer for all of them: nothing says what was wrong."""
    good, other = server.token("acme"), server.token("other")
    bearers = ["", "x", good[:-1], good + "A", good[:13] + other[13:], other[:13] + good[13:], good.upper(), good.replace("gbx_", "gby_"), good[13:],
               "gbx_aaaaaaaa_" + "A" * 43, good[:20] + "\t" + good[21:], good + good, "%" + good]
    wrong = [{"Authorization": f"Bearer {t}"} for t in bearers] + [{}, {"Authorization": good}, {"Authorization": f"Basic {good}"}, {"X-Token": good}]

    def ask(number, path, headers):
        # Each from an address of its own, since one that tries often is put off.
        return server.get(path, headers=headers, connection=http.client.HTTPConnection(*server.tcp, timeout=PATIENCE, source_address=(f"127.0.1.{number}", 0)))

    answers = [ask(number, "/v1/info", headers) for number, headers in enumerate(wrong, 1)]
    assert [a.status for a in answers] == [401] * len(answers), [a.explain() for a in answers]
    assert len({json.dumps(a.error, sort_keys=True) for a in answers}) == 1, {a.body for a in answers}
    assert ask(99, f"/v1/info?token={good}", {}).status in (400, 401)
    server.get("/v1/info", token=good).expect(200)


@pytest.mark.parametrize("scope, lets", [("read", (200, 403, 403)), ("run", (200, 200, 403)), ("metrics", (403, 403, 200)), ("admin", (200, 200, 200))])
def test_scopes(server, scope, lets):
    token = server.token("scoped", scope)
    answers = [server.get("/v1/runs", token=token), server.post("/v1/runs", {"code": "print(1)"}, token=token), server.get("/metrics", token=token)]
    assert tuple(a.status for a in answers) == lets, [a.explain() for a in answers]
    assert all(a.code == "denied" for a in answers if a.status == 403)


def test_tenants_see_nothing_of_each_other(server):
    one, two = server.token("tenant-one"), server.token("tenant-two")
    run = server.post("/v1/runs", {"code": "print(1)"}, token=one).expect(200).json["id"]
    server.get(f"/v1/runs/{run}", token=one).expect(200)
    foreign, never = server.get(f"/v1/runs/{run}", token=two).expect(404), server.get(f"/v1/runs/{'0' * 32}", token=two).expect(404)
    assert foreign.error["message"].replace(run, "") == never.error["message"].replace("0" * 32, "")
    assert [r["id"] for r in server.get("/v1/runs", token=one).json["runs"]] == [run]
    assert server.get("/v1/runs", token=two).json["runs"] == []
    assert run not in [r["id"] for r in server.get("/v1/runs").json["runs"]]


def test_secrets_are_nowhere(server):
    """Of a token only its hash is kept: not in the files, the lists, the log, or what the processes show."""
    token = server.token("secretive")
    server.get("/v1/info", token=token).expect(200)
    server.get("/v1/info", headers={"Authorization": f"Bearer {token}x"}, connection=server.connection(tcp=True))
    secret = token[13:].encode()
    files = [p for p in server.state.rglob("*") if p.is_file()]
    assert {p.name for p in files} >= {"tokens.db", "journal.db"}
    for path in [*files, server.directory / "log"]:
        assert secret not in path.read_bytes(), path
    assert secret.decode() not in command(server, "list").stdout + command(server, "list", "--json").stdout
    for command_line in server.processes().values():
        assert secret.decode() not in command_line
    assert secret not in server.get("/v1/audit?limit=1000").body


def test_files_are_the_servers_own(server):
    """Also when root makes a token beside a server that is not root any more."""
    server.token("owner")
    assert server.state.stat().st_mode & 0o777 == 0o700
    for path in (p for p in server.state.iterdir() if p.is_file()):
        assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o600, server.uid), path


def test_last_use_is_written(server):
    token = server.token("user-of-it")
    assert tokens(server)[token[4:12]]["used_at"] is None
    server.get("/v1/info", token=token).expect(200)
    used = wait_until(lambda: tokens(server)[token[4:12]]["used_at"], PATIENCE, 0.2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000000Z", used), used


def test_table(server):
    token = server.token("tabular", name="a name")
    lines = command(server, "list").stdout.splitlines()
    assert lines[0].split() == ["ID", "TENANT", "SCOPES", "STATE", "EXPIRES", "USED", "NAME"]
    row = next(line for line in lines if line.startswith(token[4:12]))
    assert row.split()[1:6] == ["tabular", "read,run", "valid", "never", "-"] and row.endswith("a name")


def test_without_a_server():
    """Tokens can be made before the first start, and are still there after the next."""
    server = Server(tcp=True)
    try:
        assert tokens(server) == {}
        token = server.token("early")
        server.start()
        server.get("/v1/info", token=token).expect(200)
        server.stop()
        done = command(server, "revoke", token[4:12])
        assert done.returncode == 0, done.stderr
        late = server.token("late")
        server.start()
        server.get("/v1/info", token=token).expect(401)
        server.get("/v1/info", token=late).expect(200)
        actions = [(r["action"], r["token"]) for r in server.get("/v1/audit").json["records"]]
        assert sorted(actions) == sorted([("token.create", token[4:12]), ("token.revoke", token[4:12]), ("token.create", late[4:12])])
    finally:
        server.close()


def test_damaged_file():
    server = Server(tcp=True)
    try:
        server.token("acme")
        path = server.state / "tokens.db"
        path.write_bytes(b"no database" * 1000)
        for words in (["list"], ["create"], ["revoke", "aaaaaaaa"]):
            done = command(server, *words)
            assert done.returncode == 115 and "move it away" in done.stderr, done.stderr
        for name in os.listdir(server.state):
            if name.startswith("tokens.db"):
                (server.state / name).unlink()
        with server:
            server.get("/v1/info", token=server.token("acme")).expect(200)
    finally:
        server.close()
