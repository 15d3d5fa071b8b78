# SPDX-License-Identifier: Apache-2.0
"""127. Code inside goes without the proxy: NO_PROXY, no variables, its own lookups, raw sockets, names and addresses by hand, other addresses of the loopback => nothing
works but the proxy.
"""
from internet import CLIENT, RESOLVER, answers, internet, net_box, one_net_box  # noqa: F401


def test_variables(internet, net_box):
    """The variables are a courtesy; without them programs go nowhere."""
    site = internet.site("a.example.com", tls=False)
    code = """
import json, os, urllib.request
def get():
    try:
        return urllib.request.build_opener().open("http://a.example.com/", timeout=5).read().decode()
    except OSError as error:
        return "refused"
found = [get()]
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"
found.append(get())
for name in [name for name in os.environ if "proxy" in name.lower()]:
    del os.environ[name]
found.append(get())
os.environ["http_proxy"] = "http://%s:80"
found.append(get())
os.environ["http_proxy"] = "http://127.0.0.2:3128"
found.append(get())
print(json.dumps(found))
""" % site.address
    result = net_box.run(code, allow="http://a.example.com")
    assert answers(result) == ["hello", "refused", "refused", "refused", "refused"] and site.accepted == 1, result.explain()


def test_no_names(internet, net_box):
    """There is no DNS inside, by whatever way it is asked for."""
    before = len(internet.names.asked)
    code = CLIENT + f"""
import struct
question = b"\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\1a\\7example\\3com\\0\\0\\1\\0\\1"
def lookup():
    try:
        return str(socket.getaddrinfo("a.example.com", 443))
    except OSError:
        return "refused"
def udp(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        try:
            s.connect((address, 53))
            s.send(question)
            return str(s.recv(512))
        except OSError:
            return "refused"
def tcp(address):
    try:
        with socket.create_connection((address, 53), 1) as s:
            s.sendall(struct.pack(">H", len(question)) + question)
            return str(s.recv(512))
    except OSError:
        return "refused"
report(lookup(), *(f(address) for f in (udp, tcp) for address in ("{RESOLVER}", "127.0.0.53", "127.0.0.1", "8.8.8.8")), status_of("{RESOLVER}:53")[0])
"""
    internet.names["a.example.com"] = ["93.184.216.34"]
    found = answers(net_box.run(code, allow="a.example.com"))
    assert set(found[:-1]) == {"refused"} and found[-1] == 403 and internet.names.asked[before:] == [], found


def test_only_that_port(internet, one_net_box):
    """In the box nothing else listens, and what it listens at itself is its own."""
    code = CLIENT + """
def is_open(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        s.settimeout(1)
        return s.connect_ex((address, port)) == 0 and s.getsockname() != s.getpeername()  # a socket may meet itself
own = socket.socket()
own.bind(("127.0.0.1", 0))
own.listen()
report([port for port in range(1, 65536) if port != own.getsockname()[1] and is_open("127.0.0.1", port)], is_open("::1", 3128), is_open(*own.getsockname()))
"""
    assert answers(one_net_box.run(code, allow="a.example.com")) == [[3128], False, True]


def test_raw_sockets(net_box):
    code = """
import socket, json
found = []
for family, kind, protocol in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_INET6, socket.SOCK_RAW, 58), (socket.AF_PACKET, socket.SOCK_RAW, 768), (socket.AF_NETLINK, socket.SOCK_RAW, 0),
                               (40, socket.SOCK_STREAM, 0), (38, socket.SOCK_SEQPACKET, 0)):
    try:
        socket.socket(family, kind, protocol)
        found.append((int(family), int(kind)))
    except OSError:
        pass
print(json.dumps(found))
"""
    result = net_box.run(code, allow="a.example.com")
    assert answers(result) in ([], [[16, 3]]), result.explain()  # netlink, if at all: without a right to change anything
