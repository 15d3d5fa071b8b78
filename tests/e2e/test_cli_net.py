# SPDX-License-Identifier: Apache-2.0
"""`glovebox net`, and what other verbs say of the network of a box."""
import json
import os
import signal
import subprocess

import pytest

from conftest import BINARY, wait_until
from internet import CLIENT, in_internet, internet, one_net_box  # noqa: F401
from server import wait_for
from service import Screen

RED = "\x1b[31m"
USAGE, CONFLICT, NOT_FOUND = 110, 102, 113
BOTH = "report(https('api.example.com'), status_of('evil.example.com:443'))"


class Outcome:
    def __init__(self, process, input=None):
        out, err = process.communicate(input, timeout=60)
        self.returncode, self.out, self.err = process.returncode, out.decode(), err.decode()

    @property
    def json(self):
        return json.loads(self.out)


class Command:
    """The command, beside a server in an internet of our own."""

    def __init__(self, server):
        self.server = server

    def start_command(self, *argv, environ=None, **popen):
        popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        return subprocess.Popen([str(BINARY), *map(str, argv)], env={**self.server.environ, "GLOVEBOX_SERVER": f"unix:{self.server.socket}", **(environ or {})}, **popen)

    def __call__(self, *argv, **options):
        return Outcome(self.start_command(*argv, **options))

    def run(self, session, code):
        return self.server.post(f"/v1/sessions/{session}/runs", {"code": CLIENT + code}).result


@pytest.fixture(scope="module")
def command(internet):  # noqa: F811
    internet.site("api.example.com")
    with internet.server() as server:
        yield Command(server)


@pytest.fixture
def session(command):
    policy = {"network_mode": "allowlist", "network_allow": ["api.example.com"], "network_bytes": "10m"}
    identity = command.server.post("/v1/sessions", {"name": "work", "policy": policy}).expect(201).json["id"]
    yield identity
    command.server.request("DELETE", f"/v1/sessions/{identity}")


def table(text):
    """The lines below the titles, by host and decision."""
    lines = text.split("\n\n", 1)[1].splitlines()
    assert lines[0].split() == ["HOST", "PORT", "DECISION", "RULE", "REQUESTS", "UP", "DOWN"]
    return {tuple(line.split()[i] for i in (0, 2)): line.split() for line in lines[1:]}


# ---- looking ----

def test_for_people(command, session):
    shown = command("net", session)
    assert shown.returncode == 0 and shown.err == "" and "\x1b" not in shown.out
    lines = dict(line.split(None, 1) for line in shown.out.splitlines())
    assert lines["network"] == "allowlist" and lines["allowed"] == "https://api.example.com:443" and lines["requests"] == "0, 0 refused"
    assert lines["bytes"] == "0B of 10M: 0B up, 0B down" and lines["connections"].startswith("0 of ")
    assert "HOST" not in shown.out
    command.run(session, BOTH)
    shown = command("net", "work")
    rows = table(shown.out)
    assert rows["api.example.com", "allowed"][1] == "443" and rows["api.example.com", "allowed"][3:5] == ["https://api.example.com:443", "1"]
    assert rows["evil.example.com", "no-rule"][3:] == ["-", "1", "0B", "0B"]
    assert "requests     2, 1 refused" in shown.out


def test_for_programs(command, session):
    command.run(session, BOTH)
    wait_for(lambda: command.server.get(f"/v1/sessions/{session}/network").json["open"] == 0)
    assert command("net", session[:8], "--json").json == command.server.get(f"/v1/sessions/{session}/network").json


def test_colours_are_for_a_terminal(command, session):
    command.run(session, BOTH)
    with Screen(command, "net", session) as screen:
        assert screen.end()[0] == 0
        text = screen.out.decode()
    refused = next(line for line in text.splitlines() if "evil.example.com" in line)
    reached = next(line for line in text.splitlines() if "api.example.com" in line and "allowed " in line and "443  " in line)
    assert refused.startswith(RED) and RED not in reached


def test_without_an_allowlist(command):
    session = command.server.post("/v1/sessions", {}).expect(201).json["id"]
    assert command("net", session).out == "network      none\n"
    followed = command("net", session, "--follow")
    assert followed.returncode == CONFLICT and "no allowlist" in followed.err
    changed = command("net", session, "--allow", "api.example.com")
    assert changed.returncode == CONFLICT and "allowlist" in changed.err
    command.server.request("DELETE", f"/v1/sessions/{session}")


@pytest.mark.parametrize("argv, status, message", [
    ([], USAGE, "give the session"), (["work", "more"], USAGE, "more"), (["nobody"], NOT_FOUND, "session ls"), (["work", "--allow", "a.com", "--clear"], USAGE, "exclude"),
    (["work", "--set", "bytes=1m"], USAGE, "--allow"), (["work", "--allow-range", "10.0.0.0/8"], USAGE, "--allow"), (["work", "--clear", "--set", "hosts=1"], USAGE, "bytes=SIZE"),
    (["work", "--clear", "--set", "bytes=many"], USAGE, "size"), (["work", "--clear", "--set", "requests=-1"], USAGE, "number"),
    (["work", "--clear", "--set", "bytes"], USAGE, "bytes=SIZE"), (["work", "--interval", "1h"], USAGE, "100ms to 60s"), (["work", "--allow", "no such rule"], USAGE, "allow"),
    (["work", "--clear", "--allow-range", "10.0.0.1/8"], USAGE, "ranges"),
    (["work", "--set", "requests=18446744073709551615", "--clear"], USAGE, "number"),
])
def test_wrong_calls(command, session, argv, status, message):
    before = command.server.get(f"/v1/sessions/{session}/network").json
    result = command("net", *argv)
    assert result.returncode == status and message in result.err and result.err.startswith("glovebox: ")
    assert command("net", *argv, "--json").json["error"]["message"]
    assert command.server.get(f"/v1/sessions/{session}/network").json == before


# ---- changing ----

def test_other_rules(command, session, internet):  # noqa: F811
    internet.site("other.example.com")
    changed = command("net", "work", "--allow", "other.example.com", "--allow", "tcp://git.example.com:22", "--allow-range", "10.1.0.0/16", "--set", "bytes=1m",
                      "--set", "requests=5", "--set", "connections=2")
    assert changed.returncode == 0 and "allowed      https://other.example.com:443\n             tcp://git.example.com:22\nranges       10.1.0.0/16\n" in changed.out
    answer = command("net", "work", "--json").json
    assert answer["limits"] == {"bytes": 1 << 20, "requests": 5, "connections": 2} and answer["ranges"] == ["10.1.0.0/16"]
    result = command.run(session, "report(https('other.example.com')[0], status_of('api.example.com:443')[0])")
    assert json.loads(result["stdout"]) == [200, 403]
    cleared = command("net", "work", "--clear", "--json").json
    assert cleared["rules"] == [] and cleared["limits"]["requests"] == 5
    assert "allowed      nothing\n" in command("net", "work").out
    assert json.loads(command.run(session, "report(status_of('other.example.com:443')[0])")["stdout"]) == [403]


def test_a_budget_that_is_used_up(command, session):
    command("net", "work", "--allow", "api.example.com", "--set", "requests=1")
    command.run(session, "report([https('api.example.com')[0] for _ in range(2)])")
    assert "cut          the budget of requests is used up\n" in command("net", "work").out


# ---- as it comes ----

@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["lines", "json"])
def test_follow(command, session, flags, tmp_path):
    """A line when something new came, and the end with the session."""
    with open(tmp_path / "out", "wb") as out:
        process = command.start_command("net", "work", "--follow", "--interval", "100ms", *flags, stdout=out)

    def seen():
        return (tmp_path / "out").read_text()
    try:
        command.run(session, "report(https('api.example.com'))")
        assert wait_until(lambda: "api.example.com" in seen())
        command.run(session, "report(status_of('evil.example.com:443'))")
        assert wait_until(lambda: "evil.example.com" in seen())
        command.server.request("DELETE", f"/v1/sessions/{session}").expect(204)
        assert process.wait(60) == 0 and process.stderr.read() == b""
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
    lines = seen().splitlines()
    if flags:
        assert {(row["host"], row["decision"]) for row in map(json.loads, lines)} == {("api.example.com", "allowed"), ("evil.example.com", "no-rule")}
    else:
        assert lines[0].split()[0] == "HOST" and sum("HOST" in line for line in lines) == 1 and "\x1b" not in seen()


def test_follow_ends_with_ctrl_c(command, session):
    process = command.start_command("net", "work", "--follow", "--interval", "100ms")
    command.run(session, "report(status_of('evil.example.com:443'))")
    assert b"HOST" in process.stdout.readline() and b"evil.example.com" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT


def test_follow_without_a_reader(command, session):
    process = command.start_command("net", "work", "--follow", "--interval", "100ms")
    process.stdout.close()
    process.stdout = open(os.devnull, "rb")
    command.run(session, "report(status_of('evil.example.com:443'))")
    process.communicate(timeout=60)
    assert process.returncode != 0


# ---- of other verbs ----

def test_a_run_says_what_was_refused(one_net_box):  # noqa: F811
    """One line on standard error, unless somebody does not want it."""
    code = CLIENT + "report([status_of(f'{name}.example.com:443')[0] for name in ('evil', 'evil', 'worse')], status_of('api.example.com:22')[0])"
    told = "glovebox: warning: network: 4 requests refused: evil.example.com:443 (no rule), worse.example.com:443 (no rule), api.example.com:22 (no rule for this port)"
    result = one_net_box.call("run", "--embedded", "--allow", "api.example.com", "-c", code)
    assert result.returncode == 0 and told in result.err.decode().splitlines(), result.explain()
    assert b"network:" not in one_net_box.call("run", "--embedded", "--quiet", "--allow", "api.example.com", "-c", code).err
    whole = one_net_box.call("run", "--embedded", "--json", "--allow", "api.example.com", "-c", code)
    assert b"network:" not in whole.err and whole.json["network"]["denied"] == 4
    nothing = one_net_box.call("run", "--embedded", "--allow", "api.example.com", "-c", "print(1)")
    assert b"network" not in nothing.err


def test_so_does_a_run_by_a_server(command, session):
    result = command("session", "exec", "work", "-c", CLIENT + "report(status_of('evil.example.com:443')[0])")
    assert result.returncode == 0 and "network: 1 request refused: evil.example.com:443 (no rule)" in result.err
    assert "network:" not in command("session", "exec", "work", "-q", "-c", CLIENT + "report(status_of('evil.example.com:443')[0])").err


def test_the_prompt_says_what_it_may_reach(one_net_box):  # noqa: F811
    argv = one_net_box.internet.command([one_net_box.binary, "repl", "--allow", "api.example.com", "--allow", "*.example.org:8443"])
    text = subprocess.run(argv, input=b"%info\n", capture_output=True, env=one_net_box.environ, timeout=60, check=True).stdout.decode()
    assert "network_mode        allowlist\n" in text, text
    assert "network_allow       https://api.example.com:443\n                    https://*.example.org:8443\n" in text


def test_completion(command):
    for shell in ("bash", "zsh", "fish"):
        assert "glovebox session ls --quiet" in command("completion", shell).out
    shown = command("help", "net").out
    assert "--allow" in shown and "--clear" in shown and "--follow" in shown
