# SPDX-License-Identifier: Apache-2.0
"""The network of an allowlist: the same rules, the same answers and the same account of it, whatever carries the connections out of the box.

The server that is reached is the test's own, on the host's loopback; so a range must allow that, and code in the box, whose loopback is another one, asks the proxy by hand.
"""
import contextlib
import hashlib
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading

import pytest
from backends import told, verdict
from suite import wait_until

PROXY = 3128
MUCH = bytes(range(256)) * (8 << 12)  # 8 MiB

CLIENT = f"""
import hashlib, json, os, socket, urllib.error, urllib.request
for name in ("no_proxy", "NO_PROXY"):
    os.environ.pop(name, None)
def get(url, data=None):
    try:
        with urllib.request.urlopen(url, data, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
def attempt(f):
    try:
        return f()
    except OSError as e:
        return type(e).__name__ if e.errno is None else e.errno
PROXY = ("127.0.0.1", {PROXY})
"""


class Site(http.server.ThreadingHTTPServer):
    """Says hello, gives away much, and tells what it was sent."""
    daemon_threads, request_queue_size = True, 64

    def __init__(self, context=None):
        self.paths, self.keys = [], []
        super().__init__(("127.0.0.1", 0), Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def port(self):
        return self.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        self.server.paths.append(self.path)
        self.server.keys += filter(None, [self.headers["X-Key"]])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(MUCH if self.path == "/much" else b"hello")

    def do_POST(self):
        self.answer(hashlib.sha256(self.rfile.read(int(self.headers["Content-Length"]))).hexdigest().encode())

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(context=None):
    site = Site(context)
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


@pytest.fixture
def site():
    with serving() as made:
        yield made


def run(backend, site, code, **options):
    result = backend.run(CLIENT + code, allow=site.url, allow_range="127.0.0.1", **options)
    assert result.verdict == "ok", result.explain()
    return result


def test_what_is_allowed_and_what_is_not(backend, site):
    with serving() as other:
        result = run(backend, site, f"print(get('{site.url}/a'))\nstatus, text = get('{other.url}/b')\nprint(status, str({other.port}) in text.decode())")
        assert result.stdout == "(200, b'hello')\n403 True\n", result.explain()
        assert (site.paths, other.paths) == (["/a"], [])
        rows = {(row["host"], row["port"]): row for row in result.json["network"]["hosts"]}
        assert set(rows) == {("127.0.0.1", site.port), ("127.0.0.1", other.port)}, rows
        allowed, denied = rows["127.0.0.1", site.port], rows["127.0.0.1", other.port]
        assert (allowed["decision"], allowed["rule"], allowed["requests"]) == ("allowed", site.url, 1) and allowed["bytes_down"] >= 5, allowed
        assert (denied["decision"], denied["rule"], denied["bytes_up"]) == ("port", None, 0), denied
        assert (result.json["network"]["requests"], result.json["network"]["denied"]) == (2, 1)
    control = result.control("network")
    assert control["state"] == "enforced" and f"127.0.0.1:{PROXY}" in control["how"], control


def test_much_goes_both_ways(backend, site):
    """Whole and in order, several at a time."""
    code = f"""
import concurrent.futures
much = bytes(range(256)) * (8 << 12)
def there_and_back(n):
    status, got = get('{site.url}/much')
    return status, got == much, get('{site.url}/up', much)[1].decode()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(json.dumps(sorted(set(pool.map(there_and_back, range(4))))))
"""
    result = run(backend, site, code)
    assert json.loads(result.stdout) == [[200, True, hashlib.sha256(MUCH).hexdigest()]], result.explain()
    assert result.json["network"]["bytes_down"] >= 4 * len(MUCH) and result.json["network"]["bytes_up"] >= 4 * len(MUCH), result.json["network"]


def test_without_the_proxy(backend, site):
    """127: there is no route, and the host's loopback is another one."""
    code = f"""
def dial(*address):
    with socket.socket() as s:
        s.settimeout(10)
        s.connect(address)
        return "reached"
print(attempt(lambda: dial("127.0.0.1", {site.port})), attempt(lambda: dial("192.0.2.1", 80)), attempt(lambda: socket.gethostbyname("example.com") and "reached"))
"""
    result = run(backend, site, code)
    assert len(result.stdout.split()) == 3 and "reached" not in result.stdout, result.explain()
    assert site.paths == [] and result.json["network"]["requests"] == 0


def test_nobody_takes_the_proxys_place(backend, site):
    """119."""
    code = f"""
def take(address):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind((address, {PROXY}))
        s.listen()
        return "taken"
print(attempt(lambda: take("127.0.0.1")), attempt(lambda: take("0.0.0.0")), get('{site.url}/')[0])
"""
    assert run(backend, site, code).stdout == "98 98 200\n"


def test_more_connections_than_there_can_be(backend, site):
    """124: those that are too many are closed; when they are gone the next one passes."""
    code = f"""
import time
many = []
for i in range(300):
    s = socket.socket()
    s.settimeout(20)
    if s.connect_ex(PROXY) == 0:
        many.append(s)
time.sleep(1)
closed = 0
for s in many:
    s.setblocking(False)
    try:
        s.recv(1)
        closed += 1  # an answer, or the end
    except BlockingIOError:
        pass
    except OSError:
        closed += 1
print(len(many) > 64, len(many) - closed <= 64)
for s in many:
    s.close()
for i in range(100):
    if attempt(lambda: get('{site.url}/')[0]) == 200:
        print("passed")
        break
    time.sleep(0.1)
"""
    assert run(backend, site, code).stdout == "True True\npassed\n"


def test_without_an_allowlist(backend):
    """Nothing of it is there."""
    result = backend.run(CLIENT + "print(attempt(lambda: socket.create_connection(PROXY)), [name for name in os.environ if 'proxy' in name.lower()])")
    assert result.stdout == "111 []\n" and "network" not in result.json, result.explain()


def test_intercepted(backend, scratch):
    """TLS ends in the proxy, whose certificate programs in the box trust by what they find there; the header reaches the server and not the box."""
    key, certificate, policy = scratch / "key.pem", scratch / "certificate.pem", scratch / "intercept.yaml"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as site:
        policy.write_text(f"network_mode: allowlist\nnetwork_ranges: [127.0.0.1]\nnetwork_allow:\n"
                          f"  - {{host: localhost, ports: [{site.port}], paths: [/a], methods: [GET], headers: {{X-Key: a key of nobody}}, intercept: true}}\n")
        code = f"""
path = os.environ["SSL_CERT_FILE"]
print(path, "PRIVATE KEY" in open(path).read(), "key of nobody" in str(dict(os.environ)))
print([get("https://localhost:{site.port}" + path)[0] for path in ("/a", "/b")])
request = urllib.request.Request("https://localhost:{site.port}/a", data=b"x", method="POST")
print(get(request)[0])
"""
        result = backend.run(CLIENT + code, policy=policy, environ={"SSL_CERT_FILE": str(certificate)})
        assert result.stdout == "/run/secrets/glovebox-ca.pem False False\n[200, 403]\n403\n", result.explain()
        assert (site.paths, site.keys) == (["/a"], ["a key of nobody"])


def test_a_session(backend, site):
    """Runs of one session have one network, and each tells what it used of it."""
    policy = {"network_mode": "allowlist", "network_allow": [site.url], "network_ranges": ["127.0.0.1"]}
    with backend.session(policy=policy) as session:
        first = session.run(CLIENT + f"print(get('{site.url}/first'))")
        assert verdict(first) == "ok" and first["stdout"] == "(200, b'hello')\n", told(first)
        second = session.run(f"print(get('{site.url}/second'), get('http://127.0.0.1:1/')[0])")
        assert second["stdout"] == "(200, b'hello') 403\n", told(second)
        assert [r["network"]["requests"] for r in (first, second)] == [1, 2], told(second)
        program = session.program(CLIENT + f"print(get('{site.url}/third')[0])")
        assert program["stdout"] == "200\n" and program["network"]["requests"] == 1, told(program)
    assert site.paths == ["/first", "/second", "/third"]


def test_the_proxy_is_killed(backend, site):
    """119: what was open ends, no other way appears, and the next one knows the rules."""
    policy = {"network_mode": "allowlist", "network_allow": [site.url], "network_ranges": ["127.0.0.1"]}
    with backend.session(policy=policy) as session:
        assert session.run(CLIENT + f"print(get('{site.url}/')[0])\nopen_one = socket.create_connection(PROXY)")["stdout"] == "200\n"
        before = session.server.find("glovebox-egress")
        assert before
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert session.value("attempt(lambda: open_one.recv(1)) in (b'', 104)") == "True"
        assert wait_until(lambda: set(session.server.find("glovebox-egress")) - set(before))
        assert session.value(f"[get('{site.url}/')[0], get('http://127.0.0.1:1/')[0]]") == "[200, 403]"
