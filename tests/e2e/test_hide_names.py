# SPDX-License-Identifier: Apache-2.0
"""Mounts without credential files: directories that are such themselves, file systems that know a file by several names, and what git needs."""
import json
import pathlib
import shutil
import subprocess
import time

import pytest
from conftest import IS_ROOT, NOT_ROOT
from test_hide import hiding_box, own, run  # noqa: F401

GUARD_MODE = "off"
SOURCE = pathlib.Path(__file__).with_name("alias_fs.c")


@pytest.mark.parametrize("name", [".kube", ".aws", ".ssh/keys", ".password-store/a", ".ssh.bak", ".config/chromium/Default"])
def test_a_directory_of_credentials_cannot_be_mounted(hiding_box, name):  # noqa: F811
    """It would show what is in it: only names below the root were judged."""
    place = hiding_box.directory("home") / name
    place.mkdir(parents=True)
    (place / "config").write_text("token: SECRET")
    (place.parent / "link").symlink_to(place.name)
    own(hiding_box.directory("home"), hiding_box)
    for source in (place, place.parent / "link"):
        result = hiding_box.run("print(open('/project/config').read())", mount=f"{source}:/project:hide", json=False)
        assert result.returncode == 110 and result.stdout == "", result.explain()
        assert "in its path is itself hidden, with everything in it; mount it without \"hide\"" in result.stderr, result.explain()


def test_a_directory_with_a_harmless_name_below_config_can_be_mounted(hiding_box):  # noqa: F811
    place = hiding_box.directory("home") / ".config/gh"
    place.mkdir(parents=True)
    (place / "config.yml").write_text("editor: vi")
    (place / "hosts.yml").write_text("oauth_token: SECRET")
    own(hiding_box.directory("home"), hiding_box)
    assert run(hiding_box, place, "import os; print(os.listdir('/project'))").stdout == "['config.yml']\n"


@pytest.fixture
def alias(own_box):
    """A file system with short names."""
    if shutil.which("pkg-config") is None or subprocess.run(["pkg-config", "--exists", "fuse3"]).returncode != 0:
        pytest.skip("this host has no headers of libfuse")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=True).stdout.split()
    program, place = own_box.directory("program") / "alias_fs", own_box.directory("alias")
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-o", program, SOURCE, *flags], check=True)
    process = subprocess.Popen([program, "-f", "-s", place])
    for _ in range(500):
        if (place / "Plain.txt").exists():
            break
        time.sleep(0.01)
    yield place
    subprocess.run(["umount", place], check=True)
    process.wait(timeout=10)


@pytest.mark.skipif(not IS_ROOT, reason=NOT_ROOT)
def test_a_hidden_file_has_no_second_name(own_box, alias):
    result = run(own_box, alias, """
import os
def attempt(path):
    try:
        return open('/project/' + path).read()[:9]
    except OSError as error:
        return error.errno
for path in ('.netrc', 'NETRC~1', '.NETRC', 'longdirectory/NETRC~1', 'LONGDI~1/NETRC~1', 'LONGDI~1/Plain.txt', 'plain.txt', 'Plain.txt', 'longdirectory/Plain.txt'):
    print(path, attempt(path))
print(sorted(os.listdir('/project')), sorted(os.listdir('/project/longdirectory')))
""")
    assert result.stdout == (".netrc 2\nNETRC~1 2\n.NETRC 2\nlongdirectory/NETRC~1 2\nLONGDI~1/NETRC~1 2\nLONGDI~1/Plain.txt 2\nplain.txt 2\nPlain.txt machine x\n"
                             "longdirectory/Plain.txt machine x\n['Plain.txt', 'longdirectory'] ['Plain.txt']\n"), result.explain()


@pytest.mark.skipif(shutil.which("git") is None, reason="this host has no git")
@pytest.mark.parametrize("token", ["", "https://x-access-token:ghs_SECRET@github.com/a/b.git"])
def test_git_works_in_a_project(hiding_box, token):  # noqa: F811
    """Branches may have names of credential files. The settings are hidden only with a password in them."""
    place = hiding_box.directory("project")
    git = ["git", "-C", place, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
    for command in (["init", "-q", "-b", "prod.env"], ["commit", "-q", "--allow-empty", "-m", "first of all"], ["remote", "add", "origin", token or "git@github.com:a/b"]):
        subprocess.run([*git, *command], check=True)
    own(place, hiding_box)
    result = run(hiding_box, place, """
import json, os, shutil, subprocess
git = shutil.which('git')
print(json.dumps([os.path.exists('/project/.git/config'), os.listdir('/project/.git/refs/heads'), os.listdir('/project/.git/logs/refs/heads'),
                  git and subprocess.run(['git', '-c', 'safe.directory=/project', '-C', '/project', 'log', '--format=%s'], capture_output=True, text=True).stdout]))
""")
    assert json.loads(result.stdout) in ([not token, ["prod.env"], ["prod.env"], log] for log in ("first of all\n", None)), result.explain()
