# SPDX-License-Identifier: Apache-2.0
"""What the network of an allowlist needs fails under it: names that nobody answers, or too late; upstreams that swallow every packet; clients that do not finish; the proxy
itself. It fails closed, with 502 or 504 within the deadline, and the box can be used otherwise.
"""
import contextlib
import os
import signal
import threading
import time

import pytest
from conftest import process_stat, wait_until
from internet import CLIENT, SILENCE, Late, Names, answers, internet, net_box, net_server, one_net_box, proxies  # noqa: F401

GUARD_MODE = "off"


@pytest.mark.waits
def test_deadlines(internet, one_net_box):
    """All at once, since each of them is a matter of waiting. What else the box asks for is served meanwhile."""
    internet.site("good.example.com", tls=False)
    internet.raw("mute.example.com", lambda plain: plain.recv(1 << 20) and plain.recv(1), port=443)
    internet.names["dead.example.com"] = SILENCE
    internet.names["slow.example.com"] = Late(30, ["93.184.216.34"])
    internet.names["late.example.com"] = Late(2, [internet.site("late2.example.com", tls=False).address])
    internet.names["hole.example.com"] = ["198.50.0.1"]
    internet.names["many-holes.example.com"] = [f"198.50.0.{i}" for i in range(2, 12)]
    code = CLIENT + """
import time
found = {}
def slowly(data):
    s = dial()
    s.sendall(data)
    return split(read_all(s).decode("latin-1"))[0]
def hello():
    s, status, _ = connect("mute.example.com:443")
    s.sendall(b"\\x16\\3\\1")
    return len(read_all(s))
jobs = {
    "dead": lambda: get("http://dead.example.com/"), "slow": lambda: get("http://slow.example.com/"), "late": lambda: get("http://late.example.com/"),
    "hole": lambda: get("http://hole.example.com/"), "many holes": lambda: get("http://many-holes.example.com/"), "dead tunnel": lambda: status_of("dead.example.com:443"),
    "hole tunnel": lambda: status_of("hole.example.com:443"), "dead socks": lambda: [socks("dead.example.com", 443)[1], ""], "unknown": lambda: get("http://unknown.example.com/"),
    "half a head": lambda: [slowly(b"GET http://good.example.com/ HTTP/1.1\\r\\nHost: good"), ""], "silent": lambda: [slowly(b""), ""], "half a hello": lambda: [hello(), ""],
    "half a greeting": lambda: [slowly(b"\\5\\2\\0"), ""],
}
def one(name):
    try:
        status, text = jobs[name]()
    except OSError as error:
        status, text = -1, str(error)
    found[name] = [status, text]
threads = [threading.Thread(target=one, args=(name,)) for name in jobs]
[t.start() for t in threads]
time.sleep(0.5)
found["meanwhile"] = get("http://good.example.com/")
[t.join() for t in threads]
report(found)
"""
    result = one_net_box.run(code, allow=["http://*.example.com", "*.example.com"], timeout="60s")
    [found] = answers(result)
    statuses = {name: status for name, (status, _) in found.items()}
    assert statuses == {"dead": 504, "slow": 504, "late": 200, "hole": 504, "many holes": 504, "dead tunnel": 504, "hole tunnel": 504, "dead socks": statuses["dead socks"], "unknown": 502,
                        "half a head": 408, "silent": statuses["silent"], "half a hello": 0, "half a greeting": 0, "meanwhile": 200}, statuses
    assert statuses["dead socks"] == 3 and statuses["silent"] in (0, 408), statuses
    assert all("example.com" in found[name][1] for name in ("dead", "slow", "hole", "dead tunnel", "unknown")), found
    decisions = {row["host"]: row["decision"] for row in result.json["network"]["hosts"]}
    assert decisions["dead.example.com"] == "unresolved" and decisions["hole.example.com"] == "unreached" and decisions["unknown.example.com"] == "unresolved", decisions


@pytest.mark.waits
def test_all_names_are_dead(internet, net_server):
    """The resolver does not answer any more, then it does: nothing has to be started again. Addresses need none."""
    site = internet.site("a.example.com", tls=False)
    session = net_server.session(policy={"network_mode": "allowlist", "network_allow": ["http://a.example.com", f"http://{site.address}"]})
    code = CLIENT + f"report(get('http://a.example.com/')[0], get('http://{site.address}/')[0])"
    assert answers(net_server.run(code, session)["result"]) == [200, 200]
    internet.names.dead = True
    try:
        assert answers(net_server.run(code, session)["result"]) == [504, 200]
    finally:
        internet.names.dead = False
    assert answers(net_server.run(code, session)["result"]) == [200, 200]
    net_server.delete(f"/v1/sessions/{session}").expect(204)


def test_refused_and_unreachable(internet, one_net_box):
    internet.names["nobody.example.com"] = ["93.184.200.1"]
    result = one_net_box.run(CLIENT + "report(get('http://nobody.example.com/'), status_of('nobody.example.com:443'), socks('nobody.example.com', 443)[1])",
                             allow=["http://nobody.example.com", "nobody.example.com"])
    plain, tunnel, socks = answers(result)
    assert plain[0] == tunnel[0] == 502 and socks == 5 and "nobody.example.com" in plain[1], (plain, tunnel, socks)


def test_second_address(internet, one_net_box):
    """One of a name's addresses does not answer: the next one is dialled."""
    site = internet.site("a.example.com", tls=False)
    internet.names["a.example.com"] = ["93.184.200.1", site.address]
    assert answers(one_net_box.run(CLIENT + "report(get('http://a.example.com/'))", allow="http://a.example.com")) == [[200, "hello"]]


def test_truncated_answers(internet, one_net_box):
    """More addresses than an answer has room for: it works, or fails and says so; what was left out of it is not dialled."""
    site, trap = internet.site("a.example.com", tls=False, port=8080), internet.trap(8081)
    internet.names["many.example.com"] = [site.address] * 40 + ["127.0.0.1"]
    internet.names["few.example.com"] = [site.address] * 20
    code = CLIENT + "report(get('http://few.example.com:8080/')[0], get('http://many.example.com:8080/')[0], get('http://many.example.com:8081/')[0])"
    few, *many = answers(one_net_box.run(code, allow="http://*.example.com:8080-8081"))
    assert few == 200 and set(many) <= {403, 502} and trap.caught == [], (few, many)


@pytest.mark.waits
def test_dead_nameserver(internet, one_net_box):
    """The first one of two is silent: it is left alone after that, and not asked for each name anew."""
    site = internet.site("a.example.com", tls=False)
    silent = Names(internet, "192.0.2.54")
    silent.dead = True
    path = internet.directory / "resolv.conf"
    good = path.read_bytes()
    path.write_bytes(b"nameserver 192.0.2.54\n" + good)
    for i in range(20):
        internet.names[f"n{i}.example.com"] = [site.address]
    before = len(internet.names.asked)
    try:
        result = one_net_box.run(CLIENT + "report(*(get(f'http://n{i}.example.com/')[0] for i in range(20)))", allow="http://*.example.com", timeout="60s")
    finally:
        path.write_bytes(good)
        silent.close()
    assert answers(result) == [200] * 20
    assert 1 <= len(silent.asked) <= 4 and len(internet.names.asked) - before >= 36, silent.asked


def test_no_search_domains(internet, one_net_box):
    """A name is what a rule says, and not what the host would make of it."""
    site = internet.site("gone.example.com.elsewhere.net", tls=False)
    internet.names["host.elsewhere.net"] = [site.address]
    path = internet.directory / "resolv.conf"
    good = path.read_bytes()
    path.write_bytes(b"search elsewhere.net\noptions ndots:5\n" + good)
    try:
        code = CLIENT + "report(get('http://gone.example.com/')[0], get('http://host/')[0])"
        assert answers(one_net_box.run(code, allow="http://*")) == [502, 502] and site.accepted == 0
    finally:
        path.write_bytes(good)


def test_no_proxy_program(internet, net_box, scratch):
    """Without its program a box with an allowlist is refused, and is not made without it."""
    binary = net_box.binary
    libexec = net_box.directory()
    source = binary.resolve().parents[2] / "src"
    for helper in ("warden/glovebox-warden", "guard/glovebox-reader", "guard/glovebox-rules", "runner/glovebox-probe", "agent/glovebox-agent"):
        if (source / helper).exists():
            (libexec / os.path.basename(helper)).symlink_to(source / helper)
    result = net_box.run("print(1)", allow="a.example.com", environ={"GLOVEBOX_LIBEXEC_DIR": str(libexec)})
    assert result.returncode != 0 and "glovebox-egress" in result.error["message"], result.explain()
    assert net_box.run("print(1)", environ={"GLOVEBOX_LIBEXEC_DIR": str(libexec)}).stdout == "1\n"


def test_killed_while_starting(internet, net_server):
    """Killed whenever it is there: sessions are made, or refused with a reason, and the server stays."""
    internet.site("a.example.com", tls=False)
    policy = {"network_mode": "allowlist", "network_allow": ["http://a.example.com"]}
    for _ in range(5):
        stop = threading.Event()

        def kill():
            while not stop.is_set():
                for pid in proxies(net_server.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            made = [net_server.post("/v1/sessions", {"policy": policy}) for _ in range(3)]
        finally:
            stop.set()
            thread.join()
        for answer in made:
            assert answer.status in (201, 500, 503), answer.explain()
            if answer.status == 201:
                result = net_server.run(CLIENT + "report(get('http://a.example.com/')[0])", answer.json["id"])["result"]
                assert answers(result) in ([200], [502], [503]), result
                net_server.delete(f"/v1/sessions/{answer.json['id']}").expect(204)


def test_gone_with_the_front(internet, one_net_box):
    """The proxy ends with the process that has started it, also when that is killed."""
    site = internet.raw("a.example.com", lambda plain: plain.recv(1), port=9000)
    process = one_net_box.start(CLIENT + "s = connect('a.example.com:9000')\n__import__('time').sleep(60)", allow="tcp://a.example.com:9000")
    assert wait_until(lambda: site.open, 20)
    found = proxies(process.pid)
    assert len(found) == 1
    process.kill()
    process.communicate()
    assert wait_until(lambda: not process_stat(found[0]) and not site.open, 10)


@pytest.mark.parametrize("text", ["", "nameserver\n", "nameserver 999.1.1.1\nnameserver fe80::1%lo\n", "search " + "a." * 200 + "\noptions ndots:99999 timeout:0 attempts:0 rotate\n", "\0\xff" * 500],
                         ids=["empty", "no-address", "wrong", "odd", "noise"])
def test_odd_resolver_files(internet, one_net_box, text):
    """Whatever the host's files of names say: an answer, within the time of one, and addresses still work."""
    site = internet.site("a.example.com", tls=False)
    path = internet.directory / "resolv.conf"
    good = path.read_bytes()
    path.write_bytes(text.encode("latin-1") + (b"nameserver 192.0.2.53\n" if "options" in text else b""))
    try:
        asks = "options" in text  # without a server it takes as long as names may take
        code = CLIENT + f"report(get('http://{site.address}/')[0], {asks} and get('http://a.example.com/')[0])"
        address, name = answers(one_net_box.run(code, allow=["http://a.example.com", f"http://{site.address}"]))
    finally:
        path.write_bytes(good)
    assert address == 200 and name == (200 if asks else False), (address, name)


def test_nothing_is_left(internet, net_box, no_leaks):
    internet.site("a.example.com", tls=False)
    assert answers(net_box.run(CLIENT + "report(get('http://a.example.com/')[0])", allow="http://a.example.com")) == [200]
