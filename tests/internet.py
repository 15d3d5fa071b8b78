# SPDX-License-Identifier: Apache-2.0
"""An internet of our own, for tests of the network of boxes. Nothing leaves the machine.

A process holds a network namespace in which every address on earth is a local one (a route of type `local` for everything), and a mount namespace in which
/etc/resolv.conf, /etc/hosts and /etc/ssl/certs are those of a test. glovebox is started in both, by nsenter. It dials public addresses as it would anywhere;
servers of the test listen at them. A socket stays in the namespace in which it was made, so the servers are threads of the test.

    def test_something(internet, net_box):
        site = internet.site("api.example.com")                   # https, at a public address of its own
        internet.names["rebound.example.com"] = Sequence(["93.184.216.34"], ["127.0.0.1"])
        result = net_box.run(CLIENT + "report(https('api.example.com'))", allow="api.example.com")
        assert answers(result) == [200, "hello"] and site.accepted == 1

Addresses of BLACK_HOLE take every packet and answer none.
"""
import atexit
import contextlib
import ctypes
import functools
import http.server
import ipaddress
import json
import os
import pathlib
import shutil
import select
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import IS_ROOT, NOT_ROOT, PATIENCE, USER, Box, make_box
from server import PROGRAM, Server

RESOLVER = "192.0.2.53"  # where the names are asked for
BLACK_HOLE = "198.50.0.0/16"
TRAP_PORT = 7443
CLONE_NEWNET = 0x40000000
IP_FREEBIND, IPV6_FREEBIND = 15, 78

SETUP = f"""
set -e
ip link set lo up
ip route add local 0.0.0.0/0 dev lo
ip -6 route add local ::/0 dev lo
ip route add {BLACK_HOLE} dev lo table local
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/certs" /etc/ssl/certs
echo ready
exec cat
"""

# What code in a box says to the proxy. Targets are as they are sent; nothing is looked up or made tidy here.
CLIENT = r'''
import json, socket, ssl, threading
threading.stack_size(1 << 18)
PROXY = ("127.0.0.1", 3128)
def report(*values):
    print(json.dumps(values))
def dial(timeout=40):
    return socket.create_connection(PROXY, timeout)
def read_all(s):
    out = b""
    try:
        while piece := s.recv(65536):
            out += piece
    except OSError:
        pass
    return out
def ask(data, *more):
    """Sends bytes; all that comes until the other side closes."""
    with dial() as s:
        try:
            for piece in (data, *more):
                s.sendall(piece if isinstance(piece, bytes) else piece.encode())
        except OSError:
            pass
        return read_all(s).decode("latin-1")
def head(s):
    """Status and text of an answer's head."""
    out = b""
    while not out.endswith(b"\r\n\r\n"):
        piece = s.recv(1)
        if not piece:
            break
        out += piece
    return (int(out.split()[1]) if out.startswith(b"HTTP/") else 0), out.decode("latin-1")
def connect(target, *fields):
    """The socket, its status, and what was said when that is not 200."""
    s = dial()
    s.sendall("\r\n".join((f"CONNECT {target} HTTP/1.1", f"Host: {target}", *fields, "", "")).encode())
    status, text = head(s)
    return s, status, "" if status == 200 else text + read_all(s).decode("latin-1")
def status_of(target):
    """Of a tunnel that is closed at once."""
    s, status, text = connect(target)
    s.close()
    return status, text.partition("\r\n\r\n")[2].strip()
def split(text):
    """Status and body of a whole answer."""
    first, _, body = text.partition("\r\n\r\n")
    return int(first.split()[1]) if first.startswith("HTTP/") else 0, body
def get(url, *fields, method="GET", body=""):
    """A request in absolute form, after which the connection ends."""
    host = url.split("/")[2]
    if body:
        fields = (*fields, f"Content-Length: {len(body)}")
    return split(ask("\r\n".join((f"{method} {url} HTTP/1.1", f"Host: {host}", "Connection: close", *fields, "", body))))
def talk(s, host, path="/", name=None, method="GET", cafile=None, fields=()):
    """A request over TLS in a tunnel."""
    with ssl.create_default_context(cafile=cafile).wrap_socket(s, server_hostname=name or host) as t:
        t.sendall("\r\n".join((f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *fields, "", "")).encode())
        return split(read_all(t).decode("latin-1"))
def https(host, path="/", port=443, **options):
    s, status, text = connect(f"{host}:{port}")
    with s:
        return talk(s, host, path, **options) if status == 200 else (status, text.partition("\r\n\r\n")[2].strip())
def socks(host, port, command=1, greeting=b"\5\1\0"):
    """The socket, and the code of the answer; -1: none came."""
    s = dial()
    s.sendall(greeting)
    if s.recv(2) != b"\5\0":
        return s, -1
    kind = b"\3" + bytes([len(host)]) + host.encode() if isinstance(host, str) else (b"\1" if len(host) == 4 else b"\4") + host
    s.sendall(bytes([5, command, 0]) + kind + port.to_bytes(2, "big"))
    answer = s.recv(10)
    return s, answer[1] if len(answer) == 10 else -1
'''


def answers(result):
    """What code in the box gave to report(), once. Of the command's result, or of a server's."""
    if not isinstance(result, dict):
        assert result.json, result.explain()
        result = result.json
    assert "verdict" in result and result["verdict"]["kind"] == "ok" and result["stdout"], result
    return json.loads(result["stdout"].splitlines()[-1])


# ---- certificates ----

def _openssl(*argv, **options):
    subprocess.run(["openssl", *map(str, argv)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)


class Authority:
    """Signs certificates of sites."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-ca-"))
        atexit.register(shutil.rmtree, self.directory, True)
        self.key, self.certificate = self.directory / "ca.key", self.directory / "ca.pem"
        self.made, self.lock = {}, threading.Lock()
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=internet of the tests",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                 "-keyout", self.key, "-out", self.certificate)

    def context(self, name):
        """Of a server that is `name`."""
        with self.lock:
            if name not in self.made:
                path = self.directory / f"{len(self.made)}.pem"
                request, extensions = self.directory / "request", self.directory / "extensions"
                kind = "IP" if ":" in name or name.replace(".", "").isdigit() else "DNS"
                extensions.write_text(f"subjectAltName={kind}:{name}\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth\n"
                                      "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
                _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=site", "-keyout", f"{path}.key", "-out", request)
                _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "2", "-extfile", extensions, "-out", path)
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(path, f"{path}.key")
                self.made[name] = context
            return self.made[name]


@functools.lru_cache(maxsize=None)
def authority():
    return Authority()


# ---- names ----

class Sequence:
    """Other addresses for each question; the last ones stay."""

    def __init__(self, *steps):
        self.steps, self.used = list(steps), {}

    def next(self, kind):
        step = self.used.get(kind, 0)
        self.used[kind] = step + 1
        return self.steps[min(step, len(self.steps) - 1)]


class Alias:
    """A CNAME, and behind it the addresses of its target."""

    def __init__(self, target, addresses):
        self.target, self.addresses = target, addresses


class Late:
    def __init__(self, seconds, addresses):
        self.seconds, self.addresses = seconds, addresses


SILENCE = object()
A, CNAME, AAAA = 1, 5, 28


def _name_bytes(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


class Names:
    """A server of names (RFC 1035), for UDP and TCP. A name's value: addresses, Sequence, Alias, Late, SILENCE; what is not there does not exist.
    `asked` has what came, `ports` where that came from."""

    def __init__(self, internet, address=RESOLVER):
        self.table, self.asked, self.ports, self.dead, self.internet, self.address = {}, [], [], False, internet, address
        self.udp = internet.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.udp.bind((address, 53))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        self.tcp = internet.listen(address, 53, self._serve_tcp)

    def __setitem__(self, name, value):
        self.table[name.lower()] = value

    def count(self, name, kind=A):
        """How often it was asked for."""
        return sum(1 for asked in self.asked if asked == (name.lower(), kind))

    def _serve(self):
        while True:
            try:
                question, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            if question == b"end":
                return
            self.ports.append(peer[1])
            answer, seconds = self.answer(question)
            if answer and len(answer) > 512:  # there is more of it by TCP
                flags, = struct.unpack(">H", answer[2:4])
                answer = question[:2] + struct.pack(">HHHHH", flags | 0x0200, 1, 0, 0, 0) + answer[12:12 + len(question) - 12]
            if answer and seconds:
                timer = threading.Timer(seconds, self._send, (answer, peer))
                timer.daemon = True
                timer.start()
            elif answer:
                self._send(answer, peer)

    def _send(self, answer, peer):
        with contextlib.suppress(OSError):
            self.udp.sendto(answer, peer)

    def _serve_tcp(self, plain):
        while size := plain.recv(2):
            answer, seconds = self.answer(plain.recv(struct.unpack(">H", size)[0]))
            time.sleep(seconds)
            if answer:
                plain.sendall(struct.pack(">H", len(answer)) + answer)

    def answer(self, question):
        """Its bytes, and after how long they are sent; no bytes: never."""
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode("latin-1").lower())
            at += 1 + question[at]
        name, kind = ".".join(labels), struct.unpack(">H", question[at + 1:at + 3])[0]
        self.asked.append((name, kind))
        value, seconds, records = self.table.get(name), 0, b""
        if self.dead or value is SILENCE:
            return None, 0
        if isinstance(value, Late):
            value, seconds = value.addresses, value.seconds
        if isinstance(value, Sequence):
            value = value.next(kind)
        known, owner, count = value is not None, b"\xc0\x0c", 0
        if isinstance(value, Alias):
            target = _name_bytes(value.target)
            records, count = owner + struct.pack(">HHIH", CNAME, 1, 0, len(target)) + target, 1
            owner, value = target, value.addresses
        for address in map(ipaddress.ip_address, value or []):
            if kind == (A if address.version == 4 else AAAA):
                records += owner + struct.pack(">HHIH", kind, 1, 0, len(address.packed)) + address.packed
                count += 1
        flags = 0x8180 if known else 0x8183
        return question[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + question[12:at + 5] + records, seconds

    def close(self):
        self.tcp.close()
        with contextlib.suppress(OSError), self.internet.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as plain:
            plain.sendto(b"end", (self.address, 53))
        self.thread.join(PATIENCE)
        self.udp.close()


# ---- servers ----

class Listener:
    """Calls function(socket) in a thread for each connection, and closes that. `accepted` counts them, `peers` has the addresses they came to."""

    def __init__(self, internet, address, port, function):
        def make():
            v6 = ":" in address
            plain = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if v6:
                plain.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            plain.setsockopt(socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP, IPV6_FREEBIND if v6 else IP_FREEBIND, 1)
            plain.bind((address, port))
            plain.listen(256)
            plain.setblocking(False)
            return plain

        self.address, self.port, self.function = address, port, function
        self.counted, self.peers, self.open, self.lock = 0, [], set(), threading.Lock()
        self.socket = internet.inside(make)
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _has_more(self, msec):
        """Whether a connection waits to be accepted; also true when the socket is shut down."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(msec))

    @property
    def accepted(self):
        """All that have come so far: also those that the kernel has, and our thread not yet."""
        while True:
            with self.lock:
                if self.socket.fileno() < 0 or not self.thread.is_alive() or not self._has_more(0):
                    return self.counted
            time.sleep(0.001)

    def _accept(self):
        while True:
            self._has_more(None)
            try:
                with self.lock:
                    plain, _ = self.socket.accept()
                    self.counted += 1
                    self.open.add(plain)
            except BlockingIOError:  # it has gone again
                continue
            except OSError:
                return
            with contextlib.suppress(OSError):
                self.peers.append(plain.getsockname()[0])
            threading.Thread(target=self._one, args=(plain,), daemon=True).start()

    def _one(self, plain):
        plain.settimeout(PATIENCE)
        try:
            self.function(plain)
        except (OSError, ValueError):  # of a client that was refused or left
            pass
        finally:
            with self.lock:
                self.open.discard(plain)
            plain.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(PATIENCE)
        self.socket.close()
        with self.lock:
            for plain in self.open:
                with contextlib.suppress(OSError):
                    plain.shutdown(socket.SHUT_RDWR)


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def __repr__(self):
        return f"<{self.method} {self.path} {dict(self.headers)} {self.body!r}>"


class Site(Listener):
    """A web site. reply(request) gives a body, or (status, headers, body). `requests` are those that came."""

    def __init__(self, internet, name, address, port, tls, reply):
        self.name, self.reply, self.requests = name, reply or (lambda request: b"hello"), []
        self.context = authority().context(name) if tls else None
        super().__init__(internet, address, port, self._speak)

    def _speak(self, plain):
        if self.context:
            plain = self.context.wrap_socket(plain, server_side=True)
        try:
            self.handler()(plain, plain.getpeername(), self)
        finally:
            plain.close()

    def handler(self):
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def read_body(self):
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return body

            def one(self):
                path = self.requestline.split()[1]  # self.path is made tidy
                request = Request(self.command, path, self.headers, self.read_body())
                site.requests.append(request)
                answer = site.reply(request)
                status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"):
            setattr(Handler, f"do_{method}", Handler.one)
        return Handler


# ---- the whole ----

class Internet:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-net-"))
        self.directory.chmod(0o755)
        self.closing = contextlib.ExitStack()
        self.next_address, self.traps = 1, {}
        certs = self.directory / "certs"
        certs.mkdir(mode=0o755)
        shutil.copy(authority().certificate, certs / "ca-certificates.crt")
        _openssl("rehash", certs)
        (self.directory / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        (self.directory / "hosts").write_text("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
        for path in self.directory.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", SETUP, "sh", str(self.directory)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            raise AssertionError(f"no internet of our own: {self.holder.communicate()[1].decode()}")
        self.network = os.open(f"/proc/{self.holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.names = self.keep(Names(self))

    def keep(self, thing):
        self.closing.callback(thing.close)
        return thing

    def close(self):
        self.closing.close()
        os.close(self.network)
        self.holder.communicate(b"")
        shutil.rmtree(self.directory, ignore_errors=True)

    def inside(self, function):
        """Calls it in a thread whose network is this one. What is a socket then stays in it."""
        libc, done = ctypes.CDLL(None, use_errno=True), {}

        def work():
            try:
                if libc.setns(self.network, CLONE_NEWNET) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
                done["value"] = function()
            except BaseException as error:  # told below
                done["error"] = error

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if "error" in done:
            raise done["error"]
        return done["value"]

    def command(self, argv, uid=0):
        """That command, in here."""
        ids = ["--setuid", str(uid), "--setgid", str(uid)] if uid else []
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", f"--mount=/proc/{self.holder.pid}/ns/mnt", *ids, "--", *map(str, argv)]

    def hosts(self, text):
        """What /etc/hosts says from now on."""
        (self.directory / "hosts").write_text(text)

    def address(self):
        """A public one that nobody has yet."""
        self.next_address += 1
        return f"93.184.{self.next_address // 250}.{self.next_address % 250 + 1}"

    def listen(self, address, port, function):
        return self.keep(Listener(self, address, port, function))

    def site(self, name, port=None, tls=True, reply=None, address=None):
        """At an address of its own, to which its name leads."""
        site = self.keep(Site(self, name, address or self.address(), port or (443 if tls else 80), tls, reply))
        if not name.replace(".", "").isdigit() and ":" not in name:
            self.names[name] = [site.address]
        return site

    def raw(self, name, function, port=443, address=None):
        """A server that says what function(socket) says."""
        listener = self.listen(address or self.address(), port, function)
        self.names[name] = [listener.address]
        return listener

    def trap(self, port=TRAP_PORT):
        """Listens at every address there is: nobody may come."""
        if port not in self.traps:
            self.traps[port] = Trap(self, port)
        return self.traps[port]

    def server(self, **options):
        """A glovebox-server in here; not started yet."""
        return InternetServer(self, **options)


class Trap:
    def __init__(self, internet, port):
        self.port = port
        self.listeners = [internet.listen(address, port, lambda plain: plain.recv(1)) for address in ("0.0.0.0", "::")]

    @property
    def caught(self):
        return [peer for listener in self.listeners for peer in listener.peers]


class InternetBox(Box):
    """The command, in an internet."""
    internet = None

    def command(self, *args, **options):
        return self.internet.command(super().command(*args, **options), self.uid)

    def call(self, *argv, stdin=subprocess.DEVNULL, environ=None, **popen):
        process = subprocess.Popen(self.internet.command([self.binary, *argv], self.uid), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**self.environ, **(environ or {})}, **popen)
        return self.finish(process)


class InternetServer(Server):
    def __init__(self, internet, **options):
        super().__init__(**options)
        self.internet, self.user = internet, options.get("user") or 0
        for name in ("user", "group", "extra_groups"):
            self.popen.pop(name, None)

    def program(self):
        return self.internet.command([PROGRAM, "serve", *self.arguments], self.user)

    def connection(self, tcp=False, timeout=PATIENCE):
        plain = super().connection(tcp, timeout)
        if tcp:
            plain.sock = self.internet.inside(lambda: socket.create_connection(self.tcp, timeout))
        return plain


def proxies(pid):
    """The proxies below a process."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace")
            name, fields = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
            if fields[0] not in "ZX" and name.startswith("glovebox-egres") and is_below(int(entry), pid):
                found.append(int(entry))
    return found


def is_below(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
        pid = int(stat[stat.rindex(")") + 2:].split()[1])
    return False


# ---- fixtures ----

@pytest.fixture(scope="module")
def internet():
    if not IS_ROOT:
        pytest.skip(NOT_ROOT)
    made = Internet()
    yield made
    made.close()


@pytest.fixture(params=["root", "user"], ids=["as-root", "as-user"])
def net_box(request, internet, attack_dir, scratch, missing_controls):
    """The command as root and as an ordinary user, in the internet."""
    return in_internet(internet, make_box(request.param, attack_dir, scratch, missing_controls))


@pytest.fixture
def one_net_box(internet, attack_dir, scratch, missing_controls):
    """As root, where the identity does not matter."""
    return in_internet(internet, make_box("root", attack_dir, scratch, missing_controls))


@pytest.fixture(scope="module")
def net_server(internet):
    """A server for all tests of a module."""
    with internet.server() as made:
        yield made


def in_internet(internet, plain):
    box = InternetBox(plain.who, plain.attack_dir, plain.scratch, plain.binary)
    box.internet, box.weaker, box.ids, box.uid = internet, plain.weaker, {}, USER if plain.who == "user" else 0
    return box
