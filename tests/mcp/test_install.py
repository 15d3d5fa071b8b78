# SPDX-License-Identifier: Apache-2.0
"""glovebox mcp install: what it prints, and what it does to files of others."""
import json
import os
import random
import re
import resource
import signal
import stat
import subprocess
import tomllib

import pytest
import yaml
from server import BINARY

IS_ROOT = os.geteuid() == 0
USER = 65533  # in no passwd file
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root, and the suite does not run as root")
PROGRAM = os.path.realpath(BINARY)
URL = "http://127.0.0.1:8080"
USAGE, NOT_FOUND, CONFLICT, DISK_FULL = 110, 113, 102, 106
WRITERS = {"claude-code": "mcpServers", "claude-desktop": "mcpServers", "cursor": "mcpServers", "vscode": "servers", "windsurf": "mcpServers",
           "zed": "context_servers", "cline": "mcpServers", "gemini-cli": "mcpServers", "generic": "mcpServers"}
PYTHON = ["openai-agents", "langchain", "pydantic-ai"]
NASTY = ["--template", "python data", "it's", 'say "hi"', "back\\slash", "grüß", "a\nb", "$HOME", "", "${X}"]


class Home:
    def __init__(self, path):
        self.path = path

    def install(self, *args, environ=None, cwd=None, **popen):
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "HOME": str(self.path), **(environ or {})}
        env = {k: v for k, v in env.items() if v is not None}
        result = subprocess.run([str(BINARY), "mcp", "install", *map(str, args)], env=env, cwd=cwd or self.path, stdin=subprocess.DEVNULL, capture_output=True,
                                timeout=60, **popen)
        result.out, result.err = result.stdout.decode(), result.stderr.decode()
        return result

    def json(self, *args, **options):
        result = self.install("--json", *args, **options)
        assert result.returncode == 0, result
        return json.loads(result.out)

    def file(self, text, name="settings.json"):
        path = self.path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def names(self):
        return sorted(str(p.relative_to(self.path)) for p in self.path.rglob("*"))


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def clients(home):
    return {c["name"]: c for c in home.json()["clients"]}


# What is printed

def test_list(home):
    rows = clients(home)
    assert {n for n, c in rows.items() if c["writes"]} == set(WRITERS) and {n: rows[n]["key"] for n in WRITERS} == WRITERS
    lines = home.install().out.splitlines()
    assert [line.split()[0] for line in lines] == ["CLIENT", *rows]
    words = subprocess.run([str(BINARY), "completion", "bash"], capture_output=True, text=True, check=True).stdout
    assert " ".join(rows) in words, "the completion has other clients than the table"
    assert home.names() == []


def parse(client, text):
    """The entry for the client, as a dict with command and args, or its address."""
    if client in WRITERS:
        return json.loads(text)[WRITERS[client]]["glovebox"]
    if client == "codex":
        return tomllib.loads(text)["mcp_servers"]["glovebox"]
    if client == "continue":
        return next(s for s in yaml.safe_load(text)["mcpServers"] if s["name"] == "glovebox")
    found = re.search(r'\{"(?:command|url)": .*?\}+(?=[,}\n])', text, re.S).group()
    compile(text, client, "exec")
    while found.count("}") > found.count("{"):
        found = found[:-1]
    return eval(found, {"os": os})  # pylint: disable=eval-used


def test_stdio(home):
    for client in clients(home):
        plain = parse(client, home.install(client).out)
        assert (plain["command"], plain["args"]) == (PROGRAM, ["mcp"]), client
        entry = parse(client, home.install(client, "--", *NASTY).out)
        assert entry["args"] == ["mcp", *NASTY], client
    assert home.names() == []


def test_types(home):
    assert parse("claude-code", home.install("claude-code").out)["type"] == "stdio"
    assert parse("vscode", home.install("vscode").out)["type"] == "stdio"
    assert parse("continue", home.install("continue").out)["type"] == "stdio"
    assert "type" not in parse("cursor", home.install("cursor").out)
    assert parse("cline", home.install("cline", "--http", URL, "--no-token").out)["type"] == "streamableHttp"


def test_http(home, monkeypatch):
    keys = {"windsurf": "serverUrl", "gemini-cli": "httpUrl"}
    variable = {"claude-code": "${T}", "cursor": "${env:T}", "vscode": "${env:T}", "windsurf": "${env:T}", "gemini-cli": "${T}", "generic": "${T}"}
    monkeypatch.setenv("T", "of-the-environment")
    for client, row in clients(home).items():
        if not row["http"]:
            continue
        bare = parse(client, home.install(client, "--http", URL, "--no-token").out)
        assert bare[keys.get(client, "url")] == URL + "/mcp" and "command" not in bare and "headers" not in bare, client
        clear = home.install(client, "--http", URL, "--token", "gb_abc.DEF-1")
        assert "gb_abc.DEF-1" in clear.out and "in clear" in clear.err, client
        named = home.install(client, "--http", URL, "--token-env", "T")
        if client in ("zed", "cline"):
            assert named.returncode == USAGE and "--token" in named.err and named.out == ""
            continue
        assert named.err.count("warning") == 0
        entry = parse(client, named.out)
        if client == "codex":
            assert entry["bearer_token_env_var"] == "T"
        elif client == "continue":
            assert entry["requestOptions"]["headers"]["Authorization"] == "Bearer ${{ secrets.T }}"
        else:
            assert entry["headers"]["Authorization"] == "Bearer " + ("of-the-environment" if client in PYTHON else variable[client])


def test_default_variable_and_addresses(home):
    def url(text):
        entry = parse("claude-code", home.install("claude-code", "--http", text).out)
        assert entry["headers"] == {"Authorization": "Bearer ${GLOVEBOX_TOKEN}"}
        return entry["url"]

    assert url("https://box.example") == "https://box.example/mcp"
    assert url("https://box.example/") == "https://box.example/mcp"
    assert url("https://box.example/?trust=untrusted") == "https://box.example/mcp?trust=untrusted"
    assert url("https://box.example?trust=untrusted") == "https://box.example/mcp?trust=untrusted"
    assert url("https://box.example/proxy/mcp") == "https://box.example/proxy/mcp"
    assert url("http://[::1]:1") == "http://[::1]:1/mcp"


def test_token_on_the_wire(home):
    assert "https" in home.install("cursor", "--http", "http://box.example").err
    assert "warning" not in home.install("cursor", "--http", "http://localhost:1").err
    assert "warning" not in home.install("cursor", "--http", "https://box.example").err


def test_lines_for_the_shell(home, tmp_path):
    """What `or:` says, read by a real shell, starts the client's command with the right words."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name in ("claude", "codex", "gemini"):
        (bin_dir / name).write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
        (bin_dir / name).chmod(0o755)

    def words(client, *args):
        line = home.json(client, *args)["command"]
        assert "or: " in home.install(client, *args).err
        out = subprocess.run(["sh", "-c", line], env={"PATH": f"{bin_dir}:/bin:/usr/bin"}, capture_output=True, check=True).stdout
        return out.decode().split("\0")[:-1]

    assert words("claude-code", "--", *NASTY) == ["mcp", "add", "--scope", "user", "glovebox", "--", PROGRAM, "mcp", *NASTY]
    assert words("claude-code", "--project", "--http", URL) == [
        "mcp", "add", "--scope", "project", "--transport", "http", "glovebox", URL + "/mcp", "--header", "Authorization: Bearer ${GLOVEBOX_TOKEN}"]
    assert words("codex", "--name", "box", "--", *NASTY) == ["mcp", "add", "box", "--", PROGRAM, "mcp", *NASTY]
    assert words("codex", "--http", URL) == ["mcp", "add", "glovebox", "--url", URL + "/mcp", "--bearer-token-env-var", "GLOVEBOX_TOKEN"]
    assert words("gemini-cli") == ["mcp", "add", "--scope", "user", "glovebox", PROGRAM, "mcp"]


def test_where(home):
    rows = clients(home)
    for client, row in rows.items():
        result = home.install(client)
        if row["file"]:
            assert "~/" + row["file"] in result.err and home.json(client)["file"] == str(home.path / row["file"])
        if row["project_file"]:
            assert row["project_file"] in home.install(client, "--project").err
        else:
            assert home.install(client, "--project").returncode == USAGE


def test_entry_starts_this_program(home):
    entry = home.json("generic")["entry"]
    result = subprocess.run([entry["command"], *entry["args"], "--help"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Usage: glovebox mcp [OPTIONS]")


@pytest.mark.parametrize("args", [
    ["--write"], ["nobody"], ["claude-cod"], ["cursor", "--name", ""], ["cursor", "--name", "a b"], ["cursor", "--name", "x" * 65], ["cursor", "--name", '"'],
    ["cursor", "--http", "ftp://h"], ["cursor", "--http", "http://"], ["cursor", "--http", "http://u:p@h"], ["cursor", "--http", "http://h/ x"],
    ["cursor", "--http", "unix:/run/x.sock"], ["cursor", "--http", URL, "--", "--trust"], ["cursor", "--token-env", "X"], ["cursor", "--token", "X"],
    ["cursor", "--http", URL, "--token-env", "1X"], ["cursor", "--http", URL, "--token-env", "A", "--token", "b"], ["cursor", "--http", URL, "--token", "a b"],
    ["claude-desktop", "--http", URL], ["codex", "--write"], ["langchain", "--write"], ["continue", "--remove"], ["generic", "--write"],
    ["cursor", "--file", "x", "--project"], ["cursor", "extra"], ["cursor", "--", b"\xff"]], ids=str)
def test_refused(home, args):
    argv = [str(BINARY), "mcp", "install", *args]
    result = subprocess.run(argv, env={"HOME": str(home.path), "PATH": "/bin"}, cwd=home.path, capture_output=True, timeout=60)
    assert result.returncode == USAGE and result.stderr.startswith(b"glovebox: ") and home.names() == []


# What is written

def test_new_file(home):
    result = home.install("cursor", "--write", "--", "--trust", "untrusted")
    path = home.path / ".cursor/mcp.json"
    assert result.returncode == 0 and str(path) in result.out, result
    assert json.loads(path.read_text()) == {"mcpServers": {"glovebox": {"command": PROGRAM, "args": ["mcp", "--trust", "untrusted"]}}}
    assert path.read_text().endswith("}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert home.names() == [".cursor", ".cursor/mcp.json"], "no copy of what was not there"


def test_project_file(home):
    result = home.install("vscode", "--project", "--write", umask=0o022)
    path = home.path / ".vscode/mcp.json"
    assert result.returncode == 0 and json.loads(path.read_text())["servers"]["glovebox"]["type"] == "stdio"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_twice_changes_nothing(home):
    home.install("claude-code", "--write")
    path = home.path / ".claude.json"
    before = path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns
    result = home.install("claude-code", "--write")
    assert result.returncode == 0 and "already there" in result.out
    assert (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns) == before and home.names() == [".claude.json"]
    assert home.json("claude-code", "--write")["outcome"] == "unchanged"


def backups(path):
    return sorted(path.parent.glob(path.name + ".bak-*"), key=lambda p: (len(p.name), p.name))


KEPT = {
    "spaces": '{\n    "a": 1,\n    "mcpServers": {\n        "other": {"command": "x"}\n    },\n    "z": [1,2,   3]\n}\n',
    "tabs": '{\n\t"mcpServers": {\n\t\t"other": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}',
    "one line": '{"mcpServers":{"other":{"command":"x"}},"b":[true,null]}',
    "windows": '{\r\n  "mcpServers": {\r\n    "other": {}\r\n  }\r\n}\r\n',
    "numbers": '{"mcpServers": {"other": {}}, "n": [0.1, 1e3, 1E+3, 123456789012345678901234567890, -0, 1.50]}',
    "escapes": '{"mcpS\\u0065rvers": {"other": {"x": "\\u00e9 \\" } ] \\\\"}}, "k}": "{", "\\u0000x": 1}'.replace('"\\u0000x": 1', '"n": "a\\u0000b"'),
    "odd spaces": '\n\n {  "q" :  1 ,"mcpServers"\n:\n{ "other"  : [ ] } } \n\n',
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_everything_else_stays(home, text):
    path = home.file(text)
    wanted = json.loads(text)
    wanted["mcpServers"]["glovebox"] = {"command": PROGRAM, "args": ["mcp"]}
    assert home.install("cursor", "--file", path, "--write").returncode == 0
    new = path.read_bytes().decode()
    assert json.loads(new) == wanted and list(json.loads(new)) == list(wanted)
    assert is_insertion(text, new)
    if "\r\n" in text:
        assert "\n" not in new.replace("\r\n", "")
    if "\t" in text:
        assert "\n\t\t\"glovebox\": {\n\t\t\t\"command\"" in new
    assert [b.read_bytes().decode() for b in backups(path)] == [text]

    assert home.install("cursor", "--file", path, "--remove").returncode == 0
    assert json.loads(path.read_bytes()) == json.loads(text) and is_insertion(text, path.read_bytes().decode())
    assert len(backups(path)) == 2
    if text.count("\n") > 2 and not text.startswith("\n"):
        assert path.read_bytes().decode() == text, "in, and out again"


def is_insertion(old, new):
    """Whether new is old, with something put in at one place."""
    ahead = len(os.path.commonprefix([old, new]))
    behind = len(os.path.commonprefix([old[::-1], new[::-1]]))
    return ahead + behind >= len(old)


def random_value(rng, depth):
    kind = rng.randrange(8 if depth > 0 else 5)
    if kind < 5:
        return [rng.randrange(-10**20, 10**20), rng.random() * 1e9, None, rng.choice(["", "{", "}", '"', "\\", ",", "é\n", "mcpServers", "glovebox"]), True][kind]
    if kind == 5:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return random_object(rng, depth - 1)


def random_object(rng, depth):
    keys = ["mcpServers", "glovebox", "a", "é", "}", "{", '"', "\\", ",", ":", "long key"]
    return {key: random_value(rng, depth) for key in rng.sample(keys, rng.randrange(6))}


@pytest.mark.parametrize("seed", range(40))
def test_any_file(home, seed):
    rng = random.Random(seed)
    value = random_object(rng, 4)
    if rng.random() < 0.7:
        value["mcpServers"] = {k: v for k, v in random_object(rng, 3).items() if k != "glovebox"}
    else:
        value.pop("mcpServers", None)
    text = json.dumps(value, indent=rng.choice([None, 1, 2, 4, "\t"]), ensure_ascii=rng.random() < 0.5,
                      separators=rng.choice([None, (",", ":"), (" , ", " : ")])) + rng.choice(["", "\n"])
    path = home.file(text)
    result = home.install("cursor", "--file", path, "--write")
    assert result.returncode == 0, (text, result)
    new = path.read_bytes().decode()
    wanted = {**value, "mcpServers": {**value.get("mcpServers", {}), "glovebox": {"command": PROGRAM, "args": ["mcp"]}}}
    assert json.loads(new) == wanted and is_insertion(text, new)
    assert json.dumps(json.loads(new)) == json.dumps(wanted), "the order of keys"
    home.install("cursor", "--file", path, "--remove")
    assert json.loads(path.read_bytes()) == {**value, "mcpServers": value.get("mcpServers", {})}


@pytest.mark.parametrize("text", ["", " \n", "{}", "{ }", '{\n}\n', '{"mcpServers": {}}', '{\n  "mcpServers": { }\n}\n'])
def test_empty(home, text):
    path = home.file(text)
    assert home.install("cursor", "--file", path, "--write").returncode == 0
    assert list(json.loads(path.read_text())["mcpServers"]) == ["glovebox"]


def test_another_entry_of_that_name(home):
    text = '{\n  "mcpServers": {\n    "a": 1,\n    "glovebox": {"command": "mine", "env": {}},\n    "b": 2\n  }\n}\n'
    path = home.file(text)
    result = home.install("cursor", "--file", path, "--write")
    assert result.returncode == CONFLICT and "--force" in result.err and path.read_text() == text and len(home.names()) == 1
    assert home.install("cursor", "--file", path, "--write", "--force").returncode == 0
    servers = json.loads(path.read_text())["mcpServers"]
    assert list(servers) == ["a", "glovebox", "b"] and servers["glovebox"]["command"] == PROGRAM
    assert [b.read_text() for b in backups(path)] == [text]
    assert home.install("cursor", "--file", path, "--write", "--name", "second").returncode == 0
    assert list(json.loads(path.read_text())["mcpServers"]) == ["a", "glovebox", "b", "second"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_remove(home, place):
    names = ["a", "b"]
    names.insert(place, "glovebox")
    path = home.file(json.dumps({"mcpServers": {n: {"x": n} for n in names}, "k": 1}, indent=2))
    result = home.install("cursor", "--file", path, "--remove")
    assert result.returncode == 0 and "removed" in result.out
    assert path.read_text() == json.dumps({"mcpServers": {n: {"x": n} for n in "ab"}, "k": 1}, indent=2)
    again = home.install("cursor", "--file", path, "--remove")
    assert again.returncode == 0 and "not there" in again.out and len(backups(path)) == 1


def test_remove_from_nothing(home):
    assert home.json("cursor", "--remove")["outcome"] == "unchanged" and home.names() == []


LEFT_ALONE = {
    "comments": '// mine\n{"mcpServers": {}}', "comments inside": '{\n  /* x */\n  "a": 1\n}', "a comma too many": '{"a": 1,}', "cut off": '{"a": ',
    "twice the same key": '{"mcpServers": {}, "mcpServers": {"x": 1}}', "twice, deep": '{"a": [{"b": 1, "b": 2}]}', "a list": "[]", "a text": '"x"',
    "servers in a list": '{"mcpServers": []}', "servers is null": '{"mcpServers": null}', "not UTF-8": b'{"a": "\xff"}', "two": "{} {}", "a NUL": b'{}\0',
    "a mark": b'\xef\xbb\xbf{}', "NaN": '{"a": NaN}',
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone(home, text):
    path = home.file(text)
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino
    result = home.install("cursor", "--file", path, "--write")
    assert result.returncode == USAGE and str(path) in result.err, result
    assert json.loads(result.out)["mcpServers"]["glovebox"]["args"] == ["mcp"], "it is there to be pasted"
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before and home.names() == ["settings.json"]
    as_json = home.install("cursor", "--file", path, "--write", "--json")
    assert json.loads(as_json.out)["error"]["code"] == "usage"
    assert home.install("cursor", "--file", path, "--remove").returncode == USAGE and path.read_bytes() == before[0]


def test_comments_are_named(home):
    assert "comments" in home.install("zed", "--file", home.file('// Zed settings\n{}\n'), "--write").err


def test_deep(home):
    """A file that would overthrow a parser that calls itself."""
    path = home.file('{"a": ' + "[" * 100000 + "]" * 100000 + "}")
    assert home.install("cursor", "--file", path, "--write").returncode == USAGE


def test_not_a_file(home):
    (home.path / "dir").mkdir()
    os.mkfifo(home.path / "pipe")
    (home.path / "nowhere").symlink_to("missing")
    (home.path / "loop").symlink_to("loop")
    before = home.names()
    for name, status, why in (("dir", USAGE, "directory"), ("pipe", USAGE, "not a file"), ("nowhere", NOT_FOUND, "link"), ("loop", NOT_FOUND, "link"),
                              ("dir/x/y", NOT_FOUND, "dir/x"), ("/dev/null", USAGE, "not a file")):
        result = home.install("cursor", "--file", name, "--write")
        assert result.returncode == status and why in result.err, (name, result)
    assert home.names() == before


def test_link(home):
    real = home.path / "dotfiles"
    real.mkdir()
    target = real / "mcp.json"
    target.write_text('{"mcpServers": {"a": {}}}')
    link = home.path / "mcp.json"
    link.symlink_to("dotfiles/mcp.json")
    result = home.install("cursor", "--file", link, "--write")
    assert result.returncode == 0 and str(target) in result.out and "link" in result.out
    assert link.is_symlink() and list(json.loads(target.read_text())["mcpServers"]) == ["a", "glovebox"]
    assert len(backups(target)) == 1 and not backups(link)


def test_mode_stays(home):
    path = home.file("{}")
    path.chmod(0o640)
    assert home.install("cursor", "--file", path, "--write", umask=0o077).returncode == 0
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, *backups(path))] == [0o640, 0o640]


@needs_root
def test_owner_stays(home):
    path = home.file("{}")
    os.chown(path, 1234, 2345)
    assert home.install("cursor", "--file", path, "--write").returncode == 0
    assert [(p.stat().st_uid, p.stat().st_gid) for p in (path, *backups(path))] == [(1234, 2345)] * 2


def test_no_copy_is_overwritten(home):
    path = home.file("{}")
    texts = []
    for i in range(4):
        texts.append(path.read_text())
        assert home.install("cursor", "--file", path, "--write", "--force", "--", str(i)).returncode == 0
    assert sorted(b.read_text() for b in backups(path)) == sorted(texts)
    assert all(re.fullmatch(r"settings\.json\.bak-\d{8}-\d{6}(-\d+)?", b.name) for b in backups(path))


def test_full_disk(home):
    text = '{"mcpServers": {"a": "' + "x" * 5000 + '"}}'
    path = home.file(text)
    before = path.stat().st_ino

    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    result = home.install("cursor", "--file", path, "--write", preexec_fn=no_room, restore_signals=False)
    assert result.returncode == DISK_FULL and "nothing was changed" in result.err, result
    assert path.read_text() == text and path.stat().st_ino == before and home.names() == ["settings.json"]


def test_no_permission(home, scratch):
    place = Home(scratch)
    path = place.file('{"a": 1}')
    path.chmod(0o644)
    who = {"user": USER, "group": USER, "extra_groups": []} if IS_ROOT else {}
    scratch.chmod(0o555)
    result = place.install("cursor", "--file", path, "--write", **who)
    assert result.returncode == USAGE and "Permission denied" in result.err and path.read_text() == '{"a": 1}' and place.names() == ["settings.json"]
    path.chmod(0)
    result = place.install("cursor", "--file", path, "--write", **who)
    assert result.returncode == NOT_FOUND and "Permission denied" in result.err
    scratch.chmod(0o755)


@needs_root
def test_file_of_somebody_else(home, scratch):
    """In a directory where everybody may write: it could be replaced, but would have another owner then."""
    place = Home(scratch)
    path = place.file("{}")
    path.chmod(0o666)
    scratch.chmod(0o777)
    result = place.install("cursor", "--file", path, "--write", user=USER, group=USER, extra_groups=[])
    assert result.returncode == USAGE and path.read_text() == "{}" and path.stat().st_uid == 0 and place.names() == ["settings.json"]


def test_directory_of_a_client_that_is_not_there(home):
    result = home.install("windsurf", "--write")
    assert result.returncode == NOT_FOUND and "installed" in result.err and home.names() == []
    (home.path / ".codeium").mkdir()
    assert home.install("windsurf", "--write").returncode == 0


def test_without_home(home):
    result = home.install("cursor", "--write", environ={"HOME": None})
    assert result.returncode == USAGE and "--file" in result.err
    assert home.install("cursor", environ={"HOME": None}).returncode == 0


def test_dry_run(home):
    text = '{\n  "one": 1,\n  "two": 2,\n  "three": 3,\n  "four": 4,\n  "mcpServers": {\n    "a": {}\n  },\n  "end": 1\n}\n'
    path = home.file(text)
    result = home.install("cursor", "--file", path, "--write", "--dry-run")
    assert result.returncode == 0 and path.read_text() == text and len(home.names()) == 1
    lines = result.out.splitlines()
    assert lines[:2] == [f"--- {path}", f"+++ {path}"]
    old = [line[1:] for line in lines[2:] if line[0] in " -"]
    new = [line[1:] for line in lines[2:] if line[0] in " +"]
    home.install("cursor", "--file", path, "--write")
    assert text.replace("\n".join(old), "\n".join(new)) == path.read_text() and '  "one": 1,' not in old
    gone = home.install("cursor", "--file", path, "--remove", "--dry-run")
    assert [line for line in gone.out.splitlines()[2:] if line[0] == "+"] == ['+    "a": {}']
    assert home.json("cursor", "--file", path, "--remove", "--dry-run") == {
        "client": "cursor", "name": "glovebox", "file": str(path), "outcome": "removed", "backup": None, "written": False}


def test_outcome_as_json(home):
    path = home.file("{}")
    told = home.json("cursor", "--file", path, "--write")
    assert told["outcome"] == "added" and told["written"] is True and told["backup"] == str(backups(path)[0])
    assert home.json("cursor", "--file", path, "--write", "--force", "--", "x")["outcome"] == "replaced"


def test_token_is_nowhere_but_there(home):
    path = home.file("{}")
    result = home.install("cursor", "--file", path, "--http", URL, "--token", "gb_secret", "--write")
    assert "gb_secret" not in result.out + result.err and "warning" in result.err
    assert json.loads(path.read_text())["mcpServers"]["glovebox"]["headers"] == {"Authorization": "Bearer gb_secret"}
