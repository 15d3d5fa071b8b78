# SPDX-License-Identifier: Apache-2.0
"""122. A tunnel to an allowed host begins with a ClientHello that names no host, another, two of them, has it in its second record, comes in pieces of one byte, hides a
name (ECH), is cut off, lies about its lengths, is longer than any => cut, and the upstream gets no byte of it; what is well-formed and names the host passes, however it
is cut into pieces.
"""
import struct

from internet import CLIENT, answers, internet, net_box  # noqa: F401

HOST = b"a.example.com"
ALERT = "\x15\3\3\0"


def vector(size, data):
    return len(data).to_bytes(size, "big") + data


def extension(kind, data):
    return struct.pack(">H", kind) + vector(2, data)


def names(*entries, kind=0):
    return extension(0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in entries)))


OTHERS = extension(10, b"\0\2\0\x1d") + extension(13, b"\0\2\4\3") + extension(43, b"\2\3\4") + extension(51, b"\0\0")
NAME = names(HOST)


def message(extensions=NAME + OTHERS, kind=1, version=b"\3\3", session=b"", ciphers=b"\x13\1", compressions=b"\0", tail=b""):
    body = version + bytes(32) + vector(1, session) + vector(2, ciphers) + vector(1, compressions) + (b"" if extensions is None else vector(2, extensions)) + tail
    return bytes([kind]) + vector(3, body)


def record(data, kind=22, version=b"\3\1"):
    return bytes([kind]) + version + vector(2, data)


def records(data, *cuts):
    edges = [0, *cuts, len(data)]
    return b"".join(record(data[a:b]) for a, b in zip(edges, edges[1:]))


GOOD = record(message())
WHOLE = message()
PADDING = extension(21, bytes(9000))
PASS = {
    "plain": [GOOD],
    "capitals": [record(message(names(b"A.Example.COM") + OTHERS))],
    "name last": [record(message(OTHERS + NAME))],
    "tls 1.0 record": [record(WHOLE, version=b"\3\1")],
    "tls 1.2 record": [record(WHOLE, version=b"\3\3")],
    "one byte at a time": [GOOD[i:i + 1] for i in range(len(GOOD))],
    "two records": [records(WHOLE, 20)],
    "name in second record": [records(WHOLE, WHOLE.index(HOST) + 3)],
    "many records": [records(WHOLE, *range(10, len(WHOLE), 10))],
    "with a session": [record(message(session=bytes(range(32))))],
    "large": [record(message(NAME + OTHERS + PADDING))],
    "large, in pieces": [records(message(NAME + OTHERS + PADDING), 4000, 8000)[i:i + 1500] for i in range(0, 10000, 1500)],
    "unknown extensions": [record(message(NAME + extension(0x1a1a, b"") + extension(0xfafa, b"x")))],
}
CUT = {
    "no name": [record(message(OTHERS))],
    "no extensions": [record(message(None))],
    "empty extensions": [record(message(b""))],
    "other name": [record(message(names(b"b.example.com") + OTHERS))],
    "name below": [record(message(names(b"x.a.example.com") + OTHERS))],
    "name above": [record(message(names(b"example.com") + OTHERS))],
    "name with null": [record(message(names(b"a.example.com\0.evil.net") + OTHERS))],
    "name with space": [record(message(names(b" a.example.com") + OTHERS))],
    "empty name": [record(message(names(b"") + OTHERS))],
    "two names": [record(message(names(HOST, b"b.example.com") + OTHERS))],
    "two names, the other first": [record(message(names(b"b.example.com", HOST) + OTHERS))],
    "the same name twice": [record(message(names(HOST, HOST) + OTHERS))],
    "two extensions": [record(message(NAME + names(b"b.example.com") + OTHERS))],
    "two equal extensions": [record(message(NAME + OTHERS + NAME))],
    "name of another kind": [record(message(names(HOST, kind=1) + OTHERS))],
    "address as name": [record(message(names(b"93.184.216.34") + OTHERS))],
    "name too long": [record(message(names(b"a" * 300) + OTHERS))],
    "ech": [record(message(NAME + OTHERS + extension(0xFE0D, b"\0" + bytes(60))))],
    "old ech": [record(message(NAME + OTHERS + extension(0xFFCE, bytes(60))))],
    "other name in second record": [records(message(names(b"b.example.com")), 44)],
    "list longer than extension": [record(message(extension(0, b"\0\xff\0" + vector(2, HOST)) + OTHERS))],
    "name longer than list": [record(message(extension(0, vector(2, b"\0\0\xff" + HOST)) + OTHERS))],
    "bytes behind list": [record(message(extension(0, vector(2, b"\0" + vector(2, HOST)) + b"x") + OTHERS))],
    "extensions too long": [record(b"\1" + vector(3, message()[4:][:-len(NAME + OTHERS) - 2] + b"\xff\xff" + NAME))],
    "bytes behind extensions": [record(message(tail=b"xx"))],
    "odd ciphers": [record(message(ciphers=b"\x13\1\0"))],
    "no compression": [record(message(compressions=b""))],
    "session too long": [record(message(session=bytes(33)))],
    "ssl 2": [b"\x80\x2e\1\3\1" + bytes(43)],
    "ssl 3": [record(message(version=b"\3\0"), version=b"\3\0")],
    "server hello": [record(message(kind=2))],
    "alert first": [record(b"\1\0", kind=21) + GOOD],
    "data first": [record(b"GET / HTTP/1.1\r\n\r\n", kind=23) + GOOD],
    "empty record first": [record(b"") + GOOD],
    "two hellos in one record": [record(WHOLE + message(names(b"b.example.com")))],
    "record of 64 KiB": [b"\x16\3\1\xff\xff" + WHOLE + bytes(65535 - len(WHOLE))],
    "hello of 64 KiB": [records(message(NAME + extension(21, bytes(64000))), *range(16000, 64000, 16000))],
    "hello of 16 MiB": [record(b"\1\xff\xff\xff" + WHOLE[4:])],
    "plain http": [b"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n"],
    "ssh": [b"SSH-2.0-OpenSSH_9.2\r\n"],
    "zeros": [bytes(2000)],
}
# These wait for more, and the end comes instead of it.
ENDED = {f"cut off after {n}": [GOOD[:n]] for n in (1, 5, 9, 43, len(GOOD) - 1)}


def say_all(internet, box, cases, **options):
    """Each in a tunnel of its own, on a port of its own to tell them apart at the other side: what the box got, what the upstream got, and the result."""
    got = {}

    def listen(name):
        def speak(plain):
            got[name] = b""
            while piece := plain.recv(65536):
                got[name] += piece
                plain.sendall(b"seen")

        return speak

    first = internet.raw("a.example.com", lambda plain: None)
    ports = {name: 10000 + i for i, name in enumerate(cases)}
    listeners = [internet.listen(first.address, port, listen(name)) for name, port in ports.items()]
    code = CLIENT + f"""
cases, ports, ended, found = {cases!r}, {ports!r}, {list(ENDED)!r}, {{}}
def one(name):
    s, status, text = connect(f"a.example.com:{{ports[name]}}")
    try:
        for piece in cases[name]:
            s.sendall(piece)
        if name in ended:
            s.shutdown(socket.SHUT_WR)
        found[name] = s.recv(4).decode("latin-1") if status == 200 else str(status)
    except OSError:
        found[name] = ""
    s.close()
threads = [threading.Thread(target=one, args=(name,)) for name in cases]
[t.start() for t in threads]; [t.join() for t in threads]
report(found)
"""
    file = box.directory() / "hellos.py"  # longer than an argument may be
    file.write_text(code)
    result = box.run(file=file, network_connections=256, **options)
    [found] = answers(result)
    assert [listener.accepted for listener in listeners] == [1] * len(cases)
    decisions = {row["port"]: row["decision"] for row in result.json["network"]["hosts"] if row["decision"] != "allowed"}
    return found, {name: got.get(name, b"") for name in cases}, {name: decisions.get(port) for name, port in ports.items()}


def test_hellos(internet, net_box):
    cases = {**PASS, **CUT, **ENDED}
    found, got, decisions = say_all(internet, net_box, cases, allow="a.example.com:10000-10999")
    # Who is cut off is told so: by an alert of TLS, or in words.
    wrong = {name: found[name] for name in cases if found[name] not in (["seen"] if name in PASS else ["", ALERT, "HTTP"])}
    assert not wrong, (wrong, decisions)
    assert {name: data for name, data in got.items() if name not in PASS and data} == {}
    assert {name: data for name, data in got.items() if name in PASS and data != b"".join(PASS[name])} == {}
    assert {decisions[name] for name in CUT} <= {"server-name", "not-tls", "malformed"}, decisions


def test_intercepted_hellos(internet, net_box):
    """Where the proxy ends TLS itself, the same ones are cut. What an upstream hears is the proxy's own ClientHello, with the host's name."""
    policy = net_box.directory() / "policy.yaml"
    policy.write_text("network_mode: allowlist\nnetwork_allow:\n  - {host: a.example.com, ports: [10000-10999], intercept: true}\n")
    # There is no name that it could not see, and empty records are no trick to who reads all of TLS.
    cases = {name: pieces for name, pieces in {**CUT, **ENDED}.items() if name not in ("ech", "old ech", "empty record first")}
    found, got, decisions = say_all(internet, net_box, cases, policy=policy)
    assert not {name: data for name, data in got.items() if data and not (data.startswith(b"\x16\3\1") and data.count(vector(2, HOST)) == 1 and b"evil" not in data and b"b.example" not in data)}
    assert {text[:1] for text in found.values()} <= {"", "\x15", "H"}, found
    assert {decisions[name] for name in ("no name", "no extensions", "other name", "name below", "name above", "address as name", "other name in second record")} == {"server-name"}, decisions
    assert {decisions[name] for name in ("plain http", "ssh", "zeros")} == {"not-tls"}, decisions


def test_allowed_bytes(internet, net_box):
    """Where the operator says tcp, whatever bytes pass."""
    internet.raw("a.example.com", lambda plain: plain.sendall(plain.recv(100)), port=22)
    code = CLIENT + "s, status, text = connect('a.example.com:22')\ns.sendall(b'SSH-2.0-x')\nreport(status, s.recv(100).decode())"
    assert answers(net_box.run(code, allow="tcp://a.example.com:22")) == [200, "SSH-2.0-x"]
