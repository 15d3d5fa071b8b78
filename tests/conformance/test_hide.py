# SPDX-License-Identifier: Apache-2.0
"""A directory of the host without its credential files (`SOURCE:TARGET:hide`), on each backend: by the command, and in sessions of a server, which root has
started when the suite runs as root."""
import json

import pytest

KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
FILES = {"main.py": "x = 1\n", ".env": "SECRET=1", ".claude/.credentials.json": "{}", "deep/id_rsa": KEY, "deep/ok.txt": "fine", "tls/server.pem": KEY,
         "tls/cacert.pem": KEY.replace("PRIVATE KEY", "CERTIFICATE"), ".aws/config": "[default]", ".env~": "SECRET=1", "..env.swp": "SECRET=1", "deploy_key": KEY, "auth.json": '{"http-basic": {}}', "secrets.toml": "a = 1", "secrets.py": "x = 1\n",
         ".git/refs/heads/prod.env": "0123", "i18n/en.key": "a = Hello\nb = Bye\n"}
SHOWN = [".git/refs/heads/prod.env", "deep/ok.txt", "i18n/en.key", "main.py", "secrets.py", "tls/cacert.pem"]

LOOK = """
import json, os
def look(names):
    listed = sorted(os.path.relpath(os.path.join(d, f), '/project') for d, _, files in os.walk('/project') for f in files)
    opened = []
    for name in sorted(names):
        try:
            open('/project/' + name).read()
            opened.append(name)
        except FileNotFoundError:
            pass
    print(json.dumps([listed, opened]))
"""


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == tmp_path.stat().st_uid and path.name:
            path.chmod(path.stat().st_mode | 0o011)
    write(place, FILES)
    return place


def write(place, files):
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def test_by_the_command(backend, project):
    result = backend.run(LOOK + f"look({sorted(FILES)})", mount=f"{project}:/project:hide", guard="off")
    assert json.loads(result.stdout) == [SHOWN, SHOWN], result.explain()


def test_in_a_session(backend, project):
    """Files that appear later are hidden as well, and the host's changes are seen."""
    later = {".netrc": "machine a", "deep/id_ed25519": KEY, "new.txt": "new", "late.pem": KEY, ".ssh/config": "Host"}
    with backend.session(policy={"mounts": [f"{project}:/project:hide"], "guard": "off"}) as session:
        first = session.run(LOOK + f"look({sorted(FILES)})")
        assert json.loads(first["stdout"]) == [SHOWN, SHOWN], first
        write(project, {**later, "main.py": "x = 2  # and more\n"})
        (project / ".env.tmp").write_text("SECRET=2")
        (project / ".env.tmp").rename(project / ".env")
        second = session.run(f"look({sorted({**FILES, **later})})\nprint(open('/project/main.py').read())")
        looked, main = second["stdout"].split("\n", 1)
        expected = sorted([*SHOWN, "new.txt"])
        assert json.loads(looked) == [expected, expected] and main == "x = 2  # and more\n\n", second


def test_it_cannot_be_written(backend, project):
    with backend.session(policy={"mounts": [f"{project}:/project:hide"], "guard": "off"}) as session:
        code = """
for name, flags in (('main.py', 'a'), ('new', 'x'), ('.env', 'w')):
    try:
        open('/project/' + name, flags)
        print('written')
    except OSError as error:
        print('refused')
"""
        assert session.run(code)["stdout"] == "refused\n" * 3
    assert sorted(path.name for path in project.iterdir()) == sorted({name.split("/")[0] for name in FILES})
