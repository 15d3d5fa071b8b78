# SPDX-License-Identifier: Apache-2.0
"""Directories that are mounted without their credential files: `--mount SOURCE:TARGET:hide`. What code tries to get at them; what the host does meanwhile; what fails."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from conftest import IS_ROOT, NOT_ROOT, isolation, wait_until

GUARD_MODE = "off"

PRIVATE_FUSE = """
place=$1; shift
mount --make-rprivate / && mount -t tmpfs none "$place" && mknod "$place/fuse" c 10 229 && chmod 666 "$place/fuse" && mount --bind "$place/fuse" /dev/fuse &&
umount -l "$place" && exec setpriv "$@"
"""


@pytest.fixture
def hiding_box(box, monkeypatch):
    """The command as root and as a user. A user who may not open /dev/fuse here gets one of his own, in a mount namespace of the command."""
    if box.who == "user" and IS_ROOT and not os.stat("/dev/fuse").st_mode & 0o006:
        if shutil.which("setpriv") is None:
            pytest.skip("this host has no setpriv")
        place = box.directory("fuse")
        plain = box.command

        def command(*args, **options):
            return ["unshare", "--mount", "sh", "-c", PRIVATE_FUSE, "sh", str(place), f"--reuid={box.uid}", f"--regid={box.uid}", "--clear-groups",
                    *plain(*args, **options)]
        monkeypatch.setattr(box, "command", command)
        monkeypatch.setattr(box, "ids", {})
    return box


def helpers():
    return [process.pid for process in isolation.current.processes() if process.name == "glovebox-hide"]


@pytest.fixture
def project(hiding_box):
    place = hiding_box.directory("project")
    for name, text in {"main.py": "x = 1\n", ".env": "SECRET=of the host\n", ".git/config": "[core]\n", "deep/er/id_rsa": "KEY", "deep/er/ok.txt": "fine\n",
                       ".ssh/config": "Host", "big.bin": "0123456789abcdef" * 65536}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    own(place, hiding_box)
    return place


def own(place, box):
    if IS_ROOT:
        for path in [place, *place.rglob("*")]:
            os.chown(path, box.uid, box.uid, follow_symlinks=False)


def run(box, project, code, **options):
    return box.run(code, mount=f"{project}:/project:hide", timeout="60s", **options)


def test_what_is_there(hiding_box, project, no_leaks):
    result = run(hiding_box, project, """
import hashlib, os
for directory, _, files in sorted(os.walk('/project')):
    print(directory, sorted(files))
print(hashlib.sha256(open('/project/big.bin', 'rb').read()).hexdigest(), os.stat('/project/main.py').st_uid == os.getuid(), os.statvfs('/project').f_blocks > 0)
with open('/project/big.bin') as f:
    f.seek(500_003); print(f.read(5))
""")
    digest = hashlib.sha256((project / "big.bin").read_bytes()).hexdigest()
    assert result.stdout == ("/project ['big.bin', 'main.py']\n/project/.git ['config']\n/project/deep []\n/project/deep/er ['ok.txt']\n"
                             f"{digest} True True\n34567\n"), result.explain()


def test_ways_to_a_hidden_file(hiding_box, project, no_leaks):
    """By other names, through links, by what the kernel shows of a process, by writing, by a hard link or a rename."""
    (project / "link").symlink_to(".env")
    (project / "absolute").symlink_to(project / ".env")
    (project / "up").symlink_to(f"../{project.name}/.env")
    (project / "passwd").symlink_to("/etc/passwd")
    (project / "loop").symlink_to("loop")
    own(project, hiding_box)
    result = run(hiding_box, project, """
import os
def attempt(name, what):
    try:
        print(name, what())
    except OSError as error:
        print(name, type(error).__name__)
for path in ('.env', './.env', '//.env', 'deep/../.env', '.ssh/config', '.ssh', 'deep/er/id_rsa', 'link', 'absolute', 'up', 'loop', '../project/.env'):
    attempt(path, lambda: open('/project/' + path).read())
directory = os.open('/project', os.O_RDONLY)
attempt('openat', lambda: os.open('.env', os.O_RDONLY, dir_fd=directory))
attempt('O_PATH', lambda: os.open('.env', os.O_PATH, dir_fd=directory))
attempt('fd', lambda: open(f'/proc/self/fd/{directory}/.env').read())
attempt('cwd', lambda: (os.chdir('/project'), open('.env').read()))
attempt('stat', lambda: os.lstat('/project/.env'))
attempt('access', lambda: os.access('/project/.env', os.F_OK))
attempt('list', lambda: sorted(n for n in os.listdir('/project') if n.startswith('.')))
attempt('write', lambda: open('/project/main.py', 'r+'))
attempt('make', lambda: open('/project/.env', 'x'))
attempt('hard link', lambda: os.link('/project/main.py', '/project/a'))
attempt('rename', lambda: os.rename('/project/main.py', '/project/a'))
attempt('remove', lambda: os.unlink('/project/main.py'))
attempt('mode', lambda: os.chmod('/project/main.py', 0o777))
attempt('attributes', lambda: os.listxattr('/project/main.py'))
print('passwd', 'sandbox' in open('/project/passwd').read())
""")
    gone = "".join(f"{name} FileNotFoundError\n" for name in (".env", "./.env", "//.env", "deep/../.env", ".ssh/config", ".ssh", "deep/er/id_rsa", "link", "absolute", "up"))
    assert result.stdout == gone + ("loop OSError\n../project/.env FileNotFoundError\nopenat FileNotFoundError\nO_PATH FileNotFoundError\nfd FileNotFoundError\n"
                                    "cwd FileNotFoundError\nstat FileNotFoundError\naccess False\nlist ['.git']\nwrite OSError\nmake OSError\nhard link OSError\n"
                                    "rename OSError\nremove OSError\nmode OSError\nattributes OSError\npasswd True\n"), result.explain()


WAIT = """
import os, sys, time
def step(name):
    print(name, flush=True)
    sys.stdin.readline()
"""


class Talk:
    """A run that stops between its steps, so that the host can do something meanwhile."""

    def __init__(self, box, project, code):
        self.process = box.start(WAIT + code, mount=f"{project}:/project:hide", timeout="60s", json=False, stdin=subprocess.PIPE)

    def until(self, name):
        for line in self.process.stdout:
            if line.decode().strip() == name:
                return
        raise AssertionError(f"never came to {name}: {self.process.stderr.read().decode()}")

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self):
        out, err = self.process.communicate(timeout=60)
        return out.decode(), err.decode()


def test_what_the_host_changes_is_seen_and_secrets_are_not(hiding_box, project, no_leaks):
    """The kernel may go by what it has known of a file for 50 ms. What became a secret cannot be opened at once."""
    (project / "notes.txt").write_text("old\n")
    own(project, hiding_box)
    talk = Talk(hiding_box, project, """
kept = open('/project/notes.txt')
there = os.open('/project/deep', os.O_RDONLY)
print(open('/project/main.py').read(), end='')
step('first')
for path in ('/project/.env', '/project/notes.txt', '/project/deep/er/ok.txt'):
    try:
        print(open(path).read())
    except FileNotFoundError:
        pass
time.sleep(0.1)
print(open('/project/main.py').read(), end='')
print(sorted(os.listdir('/project')), kept.read().strip())
for path in ('/project/.env', '/project/notes.txt', '/project/moved/er/ok.txt', '/project/.aws/ok.txt'):
    print(path, os.path.exists(path))
try:
    print(sorted(os.listdir(there)))
except OSError as error:
    print('directory', type(error).__name__)
""")
    talk.until("first")
    (project / "main.py").write_text("x = 2  # longer than before\n")
    (project / ".env.tmp").write_text("SECRET=new\n")
    (project / ".env.tmp").rename(project / ".env")
    (project / "notes.txt").rename(project / ".netrc")
    (project / "deep").rename(project / ".aws")
    (project / "new.txt").write_text("new")
    talk.go_on()
    out, err = talk.end()
    assert out.splitlines() == ["x = 2  # longer than before", "['.git', 'big.bin', 'main.py', 'new.txt'] old", "/project/.env False", "/project/notes.txt False",
                                "/project/moved/er/ok.txt False", "/project/.aws/ok.txt False", "directory FileNotFoundError"], err


def test_a_large_directory_is_listed_whole_once(hiding_box, no_leaks):
    place = hiding_box.directory("many")
    names = {f"file-{i:05}-{'x' * (i % 90)}.txt" for i in range(5000)}
    for name in names:
        (place / name).touch()
        if name.endswith("7.txt"):
            (place / f"{name}.key").touch()
    own(place, hiding_box)
    result = run(hiding_box, place, """
import json, os
with os.scandir('/project') as found:
    once = [e.name for e in found]
fd = os.open('/project', os.O_RDONLY)
again = os.listdir(fd); os.lseek(fd, 0, os.SEEK_SET)
print(json.dumps([once, again, os.listdir(fd)]))
""")
    for listed in json.loads(result.stdout):
        assert len(listed) == len(names) and set(listed) == names


def test_many_at_a_time(hiding_box, project, no_leaks):
    result = run(hiding_box, project, """
import os, threading
seen = set()
def look():
    for _ in range(200):
        seen.add((open('/project/big.bin').read(20), os.path.exists('/project/.env'), len(os.listdir('/project'))))
threads = [threading.Thread(target=look) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(seen)
""")
    assert result.stdout == "{('0123456789abcdef0123', False, 4)}\n", result.explain()


@pytest.mark.skipif(not IS_ROOT, reason=NOT_ROOT)
def test_what_serves_it_has_no_privilege_and_ends_with_the_box(own_box):
    place = own_box.directory("project", owner=12345)
    (place / "a.txt").write_text("a")
    os.chown(place / "a.txt", 12345, 12345)
    os.chmod(place / "a.txt", 0o600)
    talk = Talk(own_box, place, "step('first'); print(open('/project/a.txt').read())")
    talk.until("first")
    [pid] = helpers()
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["12345"] * 4 and status["Groups"].strip() == "" and status["NoNewPrivs"] == "1"
    assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    talk.go_on()
    assert talk.end()[0] == "a\n"
    wait_until(lambda: not helpers())


def test_open_certificates_take_a_bounded_amount_of_memory(hiding_box, no_leaks):
    """What was judged by its content is held by the program that serves it, outside of the box's own limit."""
    place = hiding_box.directory("certificates")
    (place / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n" * 25000)
    (place / "large.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n" * 50000)
    own(place, hiding_box)
    result = run(hiding_box, place, """
import errno, os
kept = []
try:
    while len(kept) < 500: kept.append(os.open('/project/ca.pem', os.O_RDONLY))
except OSError as error:
    print(errno.errorcode[error.errno], 10 < len(kept) < 100)
for fd in kept: os.close(fd)
print(os.path.exists('/project/large.pem'))
for i in range(200):
    try:
        with open('/project/ca.pem') as f: size = len(f.read())
        break
    except OSError: pass
print(size)
""")
    assert result.stdout == "ENFILE True\nFalse\n825000\n", result.explain()


def test_what_serves_it_dies(hiding_box, project, no_leaks):
    """The code gets errors, and its run ends as it ends."""
    talk = Talk(hiding_box, project, """
step('first')
try:
    open('/project/main.py')
except OSError as error:
    print('error', error.errno)
""")
    talk.until("first")
    for pid in helpers():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not helpers())
    talk.go_on()
    out, err = talk.end()
    assert out in ("error 103\n", "error 107\n") and talk.process.returncode == 0, err


def test_the_command_is_killed(hiding_box, project):
    talk = Talk(hiding_box, project, "step('first')")
    talk.until("first")
    assert helpers()
    talk.process.kill()
    talk.end()
    wait_until(lambda: not helpers())
    wait_until(lambda: not isolation.current.processes())


@pytest.mark.parametrize("how, said", [("file", "it is not a directory; mount the directory that it is in"), ("nothing", "No such file or directory"),
                                       ("rw", "does not end with ro, rw, hide or an absolute target"), ("x", "does not end with ro, rw, hide or an absolute target")])
def test_what_is_refused(own_box, how, said):
    place = own_box.directory("project")
    (place / "f").write_text("x")
    source = {"file": place / "f", "nothing": place / "none"}.get(how, place)
    result = own_box.run("print(1)", mount=f"{source}:/project:hide" + (f":{how}" if source == place else ""), json=False)
    assert result.returncode != 0 and result.stdout == "" and said in result.stderr, result.explain()


def test_a_policy_file_cannot_hide_and_write(own_box):
    place = own_box.directory("policy")
    (place / "p.yaml").write_text(f"mounts:\n  - {{source: {place}, target: /project, read_only: false, hide: true}}\n")
    result = own_box.call("policy", "check", place / "p.yaml")
    assert result.returncode != 0 and "a mount that hides credential files is read-only" in result.stderr, result.explain()
    (place / "p.yaml").write_text(f"mounts:\n  - {{source: {place}, target: /project, hide: true}}\n")
    shown = json.loads(own_box.call("policy", "show", "--json", "--policy", place / "p.yaml").stdout)
    assert shown["mounts"] == [{"source": str(place), "target": "/project", "writable": False, "hide": True}]


def test_without_the_program_nothing_runs(own_box):
    place = own_box.directory("project")
    libexec = own_box.directory("libexec")
    for helper in (own_box.binary.parents[1].glob("*/glovebox-*")):
        if helper.is_file() and helper.name != "glovebox-hide":
            (libexec / helper.name).symlink_to(helper)
    process = own_box.start("print(1)", mount=f"{place}:/project:hide", environ={"GLOVEBOX_LIBEXEC_DIR": str(libexec)})
    result = own_box.finish(process)
    assert "glovebox-hide" in result.error["message"] and "cannot start" in result.error["message"], result.explain()


@pytest.mark.skipif(not IS_ROOT or os.stat("/dev/fuse").st_mode & 0o006, reason="everybody may open /dev/fuse here")
def test_a_user_who_may_not_open_fuse_is_told(user_box):
    result = user_box.run("print(1)", mount=f"{user_box.directory('project')}:/project:hide", json=False)
    assert result.returncode == 112 and "/dev/fuse: Permission denied; allow this user to open it" in result.stderr, result.explain()


def test_an_operators_rules_name_further_files(own_box):
    """The list is that of the guard's rules, also where the guard is off."""
    config = own_box.directory("config")
    (config / "rules").mkdir()
    (config / "rules/own.yaml").write_text("""
set: own
about: Files of this house.
code:
  - id: own-file
    files: ['*.house', 'vault/*']
    files_shown: ['public.house']
    pattern: 'house-secret'
    action: log
    message: m
    remedy: r
    examples: {match: [{python: 'open("house-secret")'}], pass: [{python: 'open("house")'}]}
""")
    place = own_box.directory("project")
    (place / "vault").mkdir()
    for name in ("a.house", "public.house", "vault/x", "b.txt", ".env"):
        (place / name).touch()
    own(place, own_box)
    own(config, own_box)
    state = own_box.directory("state")
    process = own_box.start("import os; print(sorted(f for _, _, files in os.walk('/project') for f in files))", mount=f"{place}:/project:hide",
                            environ={"GLOVEBOX_CONFIG_DIR": str(config), "GLOVEBOX_STATE_DIR": str(state)})
    result = own_box.finish(process)
    assert result.stdout == "['b.txt', 'public.house']\n", result.explain()


# ---- one list ----

RULES_TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/hiding.md"
# Hidden, but too common in code to be reported.
NOT_REPORTED = {"*.key", "*.env", "secrets.*", ".env.*"}
# What lies in a directory that is hidden as a whole, and where a file usually is.
INSIDE = {".aws": "credentials", ".azure": "accessTokens.json", ".kube": "config", ".gnupg": "secring.gpg", "share/keyrings": "x", ".ssh": "config", ".docker/machine": "x",
          "gcloud/legacy_credentials": "x", ".mozilla": "firefox/profile/x", ".config/bravesoftware": "Brave-Browser/Default/Cookies", "login data": ""}
PLACES = ["", ".config/", ".local/", ".kaggle/", ".gnupg/", ".cache/", "chromium/Default/"]


def rules_with_files(box):
    rules = json.loads(box.call("guard", "list", "--json").stdout)["rules"]
    return {rule["rule"]: rule["files"] for rule in rules if any(rule["files"].values())}


def ways_to_write(name):
    """Paths that code may use for a name of the list."""
    plain = re.sub(r"\[(.)[^]]*\]", r"\1", name)
    proper = plain.replace("login data", "Login Data").replace("bravesoftware", "BraveSoftware")
    inside = f"/{INSIDE[name]}" if INSIDE.get(name) else ""
    return [place + proper.replace("*", star) + inside for place in PLACES for star in ("", "x")]


def test_the_documentation_has_the_list_of_the_rules(own_box):
    documented = {}
    for line in RULES_TABLE.read_text().splitlines():
        cells = [re.findall(r"`([^`]*)`", cell) for cell in line.strip("|").split("|")]
        if len(cells) == 4 and len(cells[0]) == 1:
            documented[cells[0][0]] = {"hidden": cells[1], "shown": cells[2], "hidden_with_keys": cells[3]}
    assert documented == rules_with_files(own_box)


def test_the_list_is_printed(own_box):
    lines = own_box.call("guard", "list", "--files").stdout.splitlines()
    count = sum(len(names) for files in rules_with_files(own_box).values() for names in files.values())
    assert len(lines) == count + 1
    assert any(line.split() == [".my.cnf", "yes", "database-passwords"] for line in lines)


def test_the_guard_reports_code_that_names_what_mounts_hide(own_box):
    """One list: what is hidden is what the guard finds, but for names that programs use for other things as well."""
    names = [name for files in rules_with_files(own_box).values() for name in files["hidden"] if name not in NOT_REPORTED]
    place = own_box.directory("code")
    missed = []
    for name in names:
        code = "\n".join(f"open('/home/u/{way}')" for way in ways_to_write(name))
        (place / "code.py").write_text(code)
        found = json.loads(own_box.call("guard", "check", "--guard", "on", "--json", place / "code.py").stdout)["findings"]
        if not any(finding["set"] == "credential-files" for finding in found):
            missed.append(name)
    assert len(names) > 90 and missed == []
