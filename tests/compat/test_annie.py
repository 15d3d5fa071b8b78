# SPDX-License-Identifier: Apache-2.0
"""A chat assistant's execute_python."""
import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from compat_helpers import BINARY, CANNOT, ROOT, identity, needs_root, on_each_backend
from isolation import wait_until
from promises import promise
from glovebox import Client, Sandbox
from glovebox.compat import _backend
from glovebox.compat.annie import IMAGE, REFUSED_STATUS, execute_python
from glovebox.errors import UsageError

pytestmark = on_each_backend

AWS_KEY = "AK" + "IA" + "Z7Q2M4XWPLK5RT3J"


@promise("annie-4", "The result has stdout, stderr and returncode.")
def test_what_it_returns():
    assert execute_python("import sys; print(6 * 7); print('warned', file=sys.stderr)") == {"stdout": "42\n", "stderr": "warned\n", "returncode": 0}


@pytest.mark.parametrize("code, status, said", [("1 / 0", 1, "ZeroDivisionError"), ("import sys; sys.exit(3)", 3, ""), ("import sys; sys.exit()", 0, ""),
                                                ("import os; os._exit(5)", 5, ""), ("def f(:", 1, "SyntaxError")])
def test_statuses(code, status, said):
    answer = execute_python(code)
    assert answer["returncode"] == status and said in answer["stderr"], answer


@promise("annie-20", "A program ends as in CPython: sys.exit(), threads and atexit functions.")
@pytest.mark.parametrize("code", [
    "import sys; sys.exit('a message')", "import sys; sys.exit(2)", "import sys; sys.exit('2')", "import sys; sys.exit(300)", "import sys; sys.exit((1, 2))",
    "raise SystemExit", "import atexit; atexit.register(print, 'at exit'); print('first')", "f = open('/tmp/f', 'w'); f.write('x' * 9); print(7)",
    "import threading, time\ndef f():\n    time.sleep(0.3); print('late')\nthreading.Thread(target=f).start(); print('first')",
    "import threading, time, sys\ndef f():\n    time.sleep(0.3); print('late')\nthreading.Thread(target=f).start(); sys.exit(4)",
    "import threading, time\ndef f():\n    time.sleep(30); print('late')\nthreading.Thread(target=f, daemon=True).start(); print('first')"])
def test_programs_end_as_in_python(code):
    """What the bare interpreter of this host does with the same code."""
    bare = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert execute_python(code) == {"stdout": bare.stdout, "stderr": bare.stderr, "returncode": bare.returncode}


def test_a_thread_that_does_not_end_is_stopped():
    answer = execute_python("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start(); print('first')", timeout=2)
    assert (answer["stdout"], answer["returncode"]) == ("first\n", 124) and "time limit" in answer["stderr"], answer


@promise("annie-22", "Code has no rights of the caller's user: it has no capabilities and cannot gain privileges.")
def test_capabilities_and_privileges():
    code = ("import ctypes\nprint([l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))])\n"
            "print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))")  # PR_GET_NO_NEW_PRIVS
    assert execute_python(code)["stdout"] == "['0000000000000000', '0000000000000000']\n1\n"


@promise("annie-23", "With Docker, code runs in a container.")
def test_code_runs_in_a_container(engine_of_backend):
    """A new one for each call, which is gone when the call returns."""
    assert wait_until(lambda: engine_of_backend.containers() == [], 30)
    run = threading.Thread(target=execute_python, args=("import time; time.sleep(3)",))
    run.start()
    try:
        assert wait_until(lambda: len(engine_of_backend.containers()) == 1, 30)
    finally:
        run.join()
    assert wait_until(lambda: engine_of_backend.containers() == [], 30)


@promise("annie-24", "Python is 3.12 in the image that glovebox builds; without an image it is the host's.")
def test_the_version_of_python(backend):
    assert "ARG BASE=python:3.12-slim\n" in (ROOT / "images/glovebox-python/Dockerfile").read_text()
    if backend == "native":
        host = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, timeout=60).stdout
        assert "Python " + execute_python("import platform; print(platform.python_version())")["stdout"] == host


@promise("annie-5", "A plot of matplotlib comes back as image_base64.")
def test_a_plot_comes_as_a_picture():
    answer = execute_python("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")
    assert base64.b64decode(answer["image_base64"]).startswith(b"\x89PNG\r\n"), answer


@promise("annie-6", "Code can use numpy, matplotlib, yt-dlp and subprocess.")
def test_numpy_and_subprocess_work():
    answer = execute_python("import numpy, subprocess\nprint(int(numpy.arange(4).sum()), subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout)")
    assert answer["stdout"] == "6 sub\n\n", answer


@promise("annie-6", "Code can use numpy, matplotlib, yt-dlp and subprocess.")
@pytest.mark.needs("data")
def test_a_video_downloader_is_there():
    code = "import subprocess, sys, yt_dlp\nprint(subprocess.run([sys.executable, '-m', 'yt_dlp', '--version'], capture_output=True).returncode)"
    assert execute_python(code)["stdout"] == "0\n"


@promise("annie-7", "A run has 30 seconds and 1 GB of memory unless the caller says otherwise.")
def test_limits_when_the_caller_names_none():
    """The server says what the session of the run has, while it runs."""
    before = {session.id for session in Client().sessions()}
    run = threading.Thread(target=execute_python, args=("import time; time.sleep(4)",))
    run.start()
    try:
        policy = wait_until(lambda: next((session.policy for session in Client().sessions() if session.id not in before), None), 30)
        assert policy, "no new session was seen"
        assert (policy["limits"]["memory_bytes"], policy["limits"]["timeout_usec"], policy["network"]) == (1 << 30, 30_000_000, "none"), policy
    finally:
        run.join()


@promise("annie-7", "A run has 30 seconds and 1 GB of memory unless the caller says otherwise.")
def test_time_and_memory_are_limited():
    began = time.monotonic()
    answer = execute_python("while True: pass", timeout=1)
    assert answer["returncode"] == 124 and time.monotonic() - began < 30 and "time limit" in answer["stderr"]
    answer = execute_python("x = bytearray(2 << 30)", memory="256m")
    assert answer["returncode"] != 0, answer


@promise("annie-1", "Code cannot read the files of the host, such as .env, credentials and SSH keys.")
@promise("annie-3", "Code reaches no network and no service of the host unless the caller asks for it.")
def test_nothing_of_the_host_is_there(tmp_path):
    secret = tmp_path / "notes.txt"
    secret.write_text("host only")
    answer = execute_python(f"import os\nprint(os.path.exists({str(secret)!r}), os.path.exists({str(ROOT)!r}), os.path.exists('/root/.bashrc'))")
    assert answer["stdout"] == "False False False\n", answer
    answer = execute_python("import socket\ns = socket.socket(); s.settimeout(2); s.connect(('1.1.1.1', 53))")
    assert answer["returncode"] == 1 and ("unreachable" in answer["stderr"] or "No route" in answer["stderr"]), answer


@pytest.fixture
def project(tmp_path, backend):
    place = tmp_path / "project"
    (place / "src/deep").mkdir(parents=True)
    (place / "data.csv").write_text("a,b\n")
    (place / "src/main.py").write_text("print(1)\n")
    (place / "src/deep/id_rsa").write_text("KEY")
    (place / "src/deep/ok.txt").write_text("fine\n")
    (place / ".env").write_text("# comment\nexport PASSWORD='correct horse battery'\nSHORT=abc\n")
    os.chmod(place / "data.csv", 0o600)
    return place


@promise("annie-8", "The project is mounted read-only.")
def test_the_project_is_there_without_its_credentials(project):
    answer = execute_python("import os\nfor d, _, files in sorted(os.walk('/project')):\n    print(d, sorted(files))\nprint(open('/project/data.csv').read(), end='')", project=project)
    assert answer == {"stdout": "/project ['data.csv']\n/project/src ['main.py']\n/project/src/deep ['ok.txt']\na,b\n", "stderr": "", "returncode": 0}
    answer = execute_python("open('/project/data.csv', 'w')", project=project)
    assert answer["returncode"] == 1 and (project / "data.csv").read_text() == "a,b\n"


CREDENTIALS = """
.env .env.local .env.production prod.env .envrc .claude/.credentials.json .claude.json credentials.json .config/gh/hosts.yml
.cargo/credentials.toml .cargo/credentials .codex/auth.json .vault-token .my.cnf .s3cfg .htpasswd kubeconfig release.jks putty.ppk .ssh/config .aws/credentials
.azure/accessTokens.json .kube/config .docker/config.json .dockercfg .gnupg/secring.gpg .netrc .pgpass .git-credentials .npmrc .pypirc id_rsa deploy/id_ed25519
server.key server.p12 server.pfx passwords.kdbx client_secret_1.json id_rsabackup service-account.json application_default_credentials.json secrets.yaml terraform.tfstate
prod.tfvars .m2/settings.xml .composer/auth.json .config/git/credentials .config/pip/pip.conf .cache/huggingface/token .kaggle/kaggle.json .bash_history
.password-store/a.gpg .local/share/keyrings/login.keyring .mozilla/logins.json
.env~ ..env.swp .env.swo #.env# .#.env .env.bak .id_rsa.swp id_rsa~ .netrc.bak .netrc.orig .npmrc.save .pgpass.old .pypirc.backup server.key~ .server.key.swp
.claude/.credentials.json.tmp .claude/.credentials.json.tmp.1234.ab credentials.json~.bak .ssh.bak/config .aws~/credentials
secrets.json secrets.yml secrets.toml secrets.ini secrets.env secrets.txt secrets.xml secrets.properties .secrets.toml .secrets/x .env.php .flaskenv
.pip/pip.conf .config/composer/auth.json serviceAccountKey.json app-firebase-adminsdk-1.json prod.tfvars.json terraform.rc .sqlite_history .rediscli_history
.config/github-copilot/apps.json .config/github-copilot/hosts.json .local/share/opencode/auth.json .qwen/oauth_creds.json .gradle/gradle.properties .ivy2/.credentials
.sbt/.credentials .sentryclirc .authinfo .dbt/profiles.yml .config/hcloud/cli.toml .config/op/config AuthKey.p8 server.pk8 host.keytab office.ovpn wireguard/wg0.conf
.docker/machine/machines/a/config.json .docker/.token_seed
""".split()
PLAIN = """
.env.example .env.sample id_rsa.pub main.py token.py hosts.yml .config/app.toml .cargo/config.toml data/credentials.csv settings.xml keyring.py environment.yml
secrets.py .venv/lib/python3.12/secrets.py .venv/lib/python3.12/__pycache__/secrets.cpython-312.pyc streamlit/runtime/secrets.py src/secrets.ts Secrets.swift docs/secrets.md
id_rsa.py id_ed25519_test.go kubeconfig.go .env.d.ts .env.schema .env.js .docker/Dockerfile .docker/daemon.json credentials.example.json secrets.sample.yaml
secrets.yaml.example prod.template.tfvars src/credentials.rs .secrets.baseline main.py~ .main.py.swp notes.bak locales/en/auth.json sort_key wireguard/README
.git/config .git/HEAD .git/refs/heads/prod.env .git/logs/refs/heads/prod.env .git/modules/a/refs/heads/id_rsa
""".split()
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY")


def write_all(place, files):
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


LOOK = """
import json, os
listed = {os.path.relpath(os.path.join(d, f), "/project") for d, _, files in os.walk("/project") for f in files}
opened = set()
for name in json.loads(input()):
    try:
        open("/project/" + name, "rb").read()
        opened.add(name)
    except FileNotFoundError:
        pass
print(json.dumps([sorted(listed), sorted(opened)]))
"""


def look(project, names):
    """What the code lists and what it can open, of these names below its project."""
    answer = execute_python(LOOK, stdin=json.dumps(list(names)), project=project)
    assert answer["returncode"] == 0, answer
    listed, opened = json.loads(answer["stdout"])
    return set(listed), set(opened)


@promise("annie-10", "Credential files of the project are not there.")
def test_every_known_form_of_credentials_is_hidden(tmp_path):
    write_all(tmp_path, dict.fromkeys([*CREDENTIALS, *PLAIN], "content"))
    assert look(tmp_path, [*CREDENTIALS, *PLAIN]) == (set(PLAIN), set(PLAIN))


@promise("annie-11", "Public certificates are there, and private keys are not.")
def test_what_is_in_a_pem_file_decides(tmp_path):
    public = {"cacert.pem": CERTIFICATE * 100, "site.crt": CERTIFICATE, "release.asc": "-----BEGIN PGP SIGNATURE-----"}
    public.update({"i18n/en.key": "hello = Hello, world\nbye = Good bye\n", "locales/auth.json": '{"login": "Log in"}', "primary_key": "id",
                   ".git/config": "[remote \"origin\"]\n\turl = git@github.com:a/b.git\n"})
    private = {"server.pem": CERTIFICATE + KEY, "rsa.pem": KEY.replace("PRIVATE", "RSA PRIVATE"), "both.crt": KEY, "der.pem": b"0\x82\x04\xa3", "der.key": b"0\x82\x04\xa3",
               "text.key": "a comment\n" + KEY, "deploy_key": KEY, "github_rsa": KEY, "deploy_key.bak": KEY, "auth.json": '{"github-oauth": {"github.com": "x"}}',
               "sub/.git/config": "[remote \"origin\"]\n\turl = https://a:ghp_x@github.com/a/b.git\n"}
    write_all(tmp_path, {**public, **private})
    assert look(tmp_path, [*public, *private]) == (set(public), set(public))


@promise("annie-12", "A project with a virtual environment and many files works.")
def test_a_project_with_a_virtual_environment_and_many_files_beside_env(tmp_path):
    """What a real project has: pip's certificates, and `.env` beside more entries than could be mounted one by one."""
    files = {f"module_{i}.py": "x = 1\n" for i in range(100)}
    write_all(tmp_path, {**files, ".env": "A=1", ".venv/lib/python3/site-packages/certifi/cacert.pem": CERTIFICATE * 50})
    listed, _ = look(tmp_path, [])
    assert listed == {*files, ".venv/lib/python3/site-packages/certifi/cacert.pem"}


@promise("annie-13", "Credential files that appear later are not there.")
def test_files_that_appear_later_under_a_hidden_name_stay_hidden(tmp_path):
    """Also those that replace another one by a rename, as editors save."""
    write_all(tmp_path, {"main.py": "x = 1\n", ".env": "old", "plain.txt": "plain", "site.pem": CERTIFICATE})
    with Sandbox(**_backend.box(None, IMAGE, None, None), policy={"mounts": [f"{tmp_path}:/project:hide"], "guard": "off"}) as box:
        def shown():
            return set(box.run("import os; print(*(os.path.relpath(os.path.join(d, f), '/project') for d, _, names in os.walk('/project') for f in names))").stdout.split())

        assert shown() == {"main.py", "plain.txt", "site.pem"}
        write_all(tmp_path, {"new/.aws/credentials": "secret", "new/ok.py": "ok", ".npmrc": "token"})
        (tmp_path / ".env.new").write_text("new secret")
        (tmp_path / ".env.new").rename(tmp_path / ".env")
        (tmp_path / "plain.txt").rename(tmp_path / ".pgpass")
        (tmp_path / "site.pem").write_text(KEY)
        assert shown() == {"main.py", "new/ok.py"}
        reached = box.run("for name in '.env', '.npmrc', '.pgpass', 'site.pem', 'new/.aws/credentials':\n"
                          "    try: print(open('/project/' + name).read())\n    except FileNotFoundError: print('not there')")
        assert reached.stdout == "not there\n" * 5


@promise("annie-2", "A subprocess that prints the .credentials.json of an agent prints nothing.")
def test_the_attack_of_the_document(tmp_path):
    """`cat` of .credentials.json of the assistant's own agent, below the project."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/.credentials.json").write_text('{"token": "host only"}')
    (tmp_path / "main.py").write_text("x = 1\n")
    name = "'.claude/.crede' + ''.join(['ntials', '.js', 'on'])"
    answer = execute_python(f"import subprocess; print(subprocess.run(['cat', '/project/' + {name}], capture_output=True, text=True).stdout, open('/project/main.py').read())",
                            project=tmp_path, blocked_imports=())
    assert "host only" not in str(answer) and ("x = 1" in answer["stdout"] or answer["returncode"] == REFUSED_STATUS), answer


@promise("annie-9", "Code can read the caller's files in the project, whatever uid it has inside.")
def test_files_that_only_the_owner_reads(project):
    """Also those of root, on each backend: who runs inside stands for the owner of the project."""
    (project / "src/main.py").chmod(0o600)
    assert execute_python("print(open('/project/src/main.py').read())", project=project)["stdout"] == "print(1)\n\n"


@promise("annie-14", "Code that names .env or credential files is refused before it runs.")
@pytest.mark.parametrize("code", ["open('.env').read()", "print(open('/home/u/.env.local').read())", "from dotenv import load_dotenv", "open('/root/.ssh/id_rsa')",
                                  "open('/etc/shadow')", "import pathlib; pathlib.Path.home() / '.aws' / 'credentials'", "open('/proc/1/environ')"])
def test_reads_of_credentials_are_refused_before_running(code):
    answer = execute_python(code)
    assert answer["returncode"] == REFUSED_STATUS and answer["stderr"].startswith("refused: line 1"), answer


@pytest.mark.parametrize("code", ["import os; print(os.environ)", "env = 3; print(env)", "x = {'.environment': 1}", "settings.environ", "import myselenium", "# .env"])
def test_what_only_looks_alike_is_not_refused(code):
    assert execute_python(code)["returncode"] in (0, 1)


@promise("annie-15", "Imports of the four packages for browser automation are refused.")
@pytest.mark.parametrize("code", ["import selenium", "from playwright.sync_api import sync_playwright", "import os, pyppeteer", "x = 1; import splinter",
                                  "__import__('selenium')", "importlib.import_module('playwright')"])
def test_browser_automation_is_refused(code):
    assert "browser" in execute_python(code)["stderr"]


def test_the_list_of_imports_is_the_callers():
    assert execute_python("import selenium", blocked_imports=())["returncode"] == 1  # it is not there
    answer = execute_python("x = 1\nfrom json import loads", blocked_imports=["json"])
    assert answer["returncode"] == REFUSED_STATUS and answer["stderr"].startswith("refused: line 2, column 6: ") and answer["stderr"].endswith("[browser-automation]\n"), answer


@promise("annie-16", "Secrets are removed from the output.")
def test_secrets_do_not_come_out(project):
    answer = execute_python(f"print(''.join(['correct', ' horse', ' battery']), '{AWS_KEY[:4]}' + '{AWS_KEY[4:]}', 'abc')", project=project)
    assert answer["stdout"] == "[scrubbed:PASSWORD] [scrubbed:aws-access-key] abc\n", answer
    answer = execute_python("raise ValueError('correct' + ' horse battery')", project=project)
    assert "correct horse" not in answer["stderr"] and "[scrubbed:PASSWORD]" in answer["stderr"]
    answer = execute_python("print('correct' + ' horse')", secrets=["correct horse"])
    assert answer["stdout"] == "[scrubbed:known]\n", answer


@promise("annie-16", "Secrets are removed from the output.")
def test_secrets_that_the_code_is_given_do_not_come_out_either(project):
    """Also in another encoding: the server has them. One of .env that the caller puts into env is one of them."""
    code = "import os; print(os.environ['A'], os.environ['A'].encode().hex(), len(os.environ['B']), os.environ['B'].encode().hex(), os.environ['C'])"
    answer = execute_python(code, project=project, secrets={"A": "battery staple"}, env={"B": "correct horse battery", "C": "plain"})
    assert answer["stdout"] == "[scrubbed:A] [scrubbed:A] 21 [scrubbed:B] plain\n", answer


@promise("annie-17", "Secrets in the code and in standard input are found, too.")
def test_secrets_do_not_come_in(project):
    assert "a secret of this project" in execute_python("x = 'correct horse battery'", project=project)["stderr"]
    assert "[secret-in-code]" in execute_python(f"key = '{AWS_KEY}'")["stderr"]
    answer = execute_python("print(input())", stdin="first\ncorrect horse battery\n", project=project)
    assert answer["returncode"] == REFUSED_STATUS and answer["stderr"].startswith("refused: line 2 of standard input holds a secret of this project (PASSWORD)"), answer
    answer = execute_python("print(input())", stdin=AWS_KEY)
    assert answer["returncode"] == REFUSED_STATUS and "[secret-in-stdin]" in answer["stderr"], answer


@promise("annie-18", "Standard input is connected.")
def test_stdin_is_connected():
    assert execute_python("print(input() + input())", stdin="a\nb\n")["stdout"] == "ab\n"
    answer = execute_python("input()")
    assert answer["returncode"] == 1 and "EOFError" in answer["stderr"]


@promise("annie-19", "Nothing hangs without a terminal.")
def test_without_a_terminal_and_with_a_silent_pipe_nothing_hangs():
    code = "from glovebox.compat.annie import execute_python; print(execute_python('print(1)')['stdout'])"
    reader, writer = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", code], stdin=reader, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python/src"), "GLOVEBOX": str(BINARY)})
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == "1\n\n", done.stderr


def test_some_of_the_network_can_be_asked_for():
    """Nothing is dialled: what is refused is refused before its name is looked up."""
    code = "import urllib.request; urllib.request.urlopen('https://example.com', timeout=20)"
    for network in ({"network": "whitelist"}, {"allow": ["api.example.com"]}, {"network": "allowlist"}):
        answer = execute_python(code, **network)
        assert answer["returncode"] == 1 and "403" in answer["stderr"]
    with pytest.raises(UsageError, match="exclude"):
        execute_python("1", network="host", allow=["api.example.com"])


@promise("annie-3", "Code reaches no network and no service of the host unless the caller asks for it.")
@promise("annie-21", 'network="host" gives code the network of the host.')
@pytest.mark.needs("network of the host")
def test_the_hosts_network_can_be_asked_for():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 5); print('reached')"
        assert execute_python(code, network="host") == {"stdout": "reached\n", "stderr": "", "returncode": 0}
        assert "refused" in execute_python(code)["stderr"]
