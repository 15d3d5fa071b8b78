# SPDX-License-Identifier: Apache-2.0
"""The network of a box through the SDK: rules, what was reached, and other rules for a box that lives. Nothing is dialled: what is refused is refused before a name is looked up."""
import asyncio

import pytest

import glovebox
from glovebox import NetworkBudget, NetworkHost, NetworkInfo, NetworkUse, _body
from sdk_helpers import each_backend

TRY = """
import urllib.request, urllib.error
def status(url):
    try:
        return urllib.request.urlopen(url, timeout=20).status
    except urllib.error.URLError as error:
        return str(error)
"""
RULE = "https://api.example.com:443"


def policy(**arguments):
    names = ("policy", "trust", "memory", "timeout", "env", "backend", "image", "runtime", "network", "allow", "allow_ranges")
    return _body.policy_body(*(arguments.get(name) for name in names))


# ---- what needs no server ----

def test_arguments_are_parts_of_the_policy():
    assert policy(network="host") == {"network_mode": "host"} and policy(network="none") == {"network_mode": "none"}
    assert policy(allow=["a.com", {"host": "b.com"}]) == {"network_mode": "allowlist", "network_allow": ["a.com", {"host": "b.com"}]}
    assert policy(allow=()) == {"network_mode": "allowlist", "network_allow": []}
    assert policy(network="allowlist", allow_ranges=["10.0.0.0/8"]) == {"network_mode": "allowlist", "network_ranges": ["10.0.0.0/8"]}
    assert policy(policy={"network_mode": "allowlist"}, allow=["a.com"]) == {"network_mode": "allowlist", "network_allow": ["a.com"]}
    assert policy() is None


@pytest.mark.parametrize("arguments, field", [({"allow": "pypi.org"}, "allow"), ({"allow": {"host": "pypi.org"}}, "allow"), ({"allow_ranges": "10.0.0.0/8"}, "allow_ranges"),
                                              ({"network": "none", "policy": {"network_mode": "host"}}, "network"), ({"allow": [], "policy": {"network_allow": []}}, "allow")])
def test_wrong_arguments(arguments, field):
    with pytest.raises(glovebox.UsageError) as caught:
        policy(**arguments)
    assert caught.value.details == {"field": field}


def test_objects_of_the_api():
    row = {"host": "a.com", "port": 443, "protocol": "https", "decision": "no-rule", "rule": None, "requests": 2, "bytes_up": 1, "bytes_down": 3, "later": 1}
    use = NetworkUse.from_object({"requests": 2, "denied": 2, "bytes_up": 1, "bytes_down": 3, "cut": "bytes", "hosts": [row, "x"]})
    assert use.hosts == [NetworkHost("a.com", 443, "https", "no-rule", None, 2, 1, 3)] and use.refused == use.hosts and use.cut == "bytes"
    assert str(use.hosts[0]) == "a.com:443 no-rule, 2 requests" and str(NetworkHost("::1", 80, decision="allowed", requests=1)) == "[::1]:80 allowed, 1 request"
    assert [NetworkHost(decision=word).denied for word in ("allowed", "unresolved", "unreached", "address", "something-new")] == [False, False, False, True, True]
    info = NetworkInfo.from_object({"mode": "allowlist", "rules": [{"rule": RULE}], "ranges": ["10.0.0.0/8"], "limits": {"bytes": 5, "requests": 0, "connections": 7},
                                    "used": {"requests": 2, "denied": 1, "bytes_up": 3, "bytes_down": 4}, "open": 1, "cut": None, "hosts": [row]})
    assert info.limits == NetworkBudget(5, 0, 7) and info.used.requests == 2 and info.used.hosts == info.hosts and info.open == 1 and info.cut is None and info.raw["mode"] == "allowlist"
    nobody_counts = dict.fromkeys(("requests", "denied", "bytes_up", "bytes_down"))
    host = NetworkInfo.from_object({"mode": "host", "used": nobody_counts, "open": None, "cut": None, "hosts": []})
    assert (host.open, host.used) == (None, NetworkUse(None, None, None, None))
    for empty in ({}, {"rules": 1, "hosts": {}, "used": [], "limits": "x", "open": "y", "mode": 3}):
        unknown = NetworkInfo("", limits=NetworkBudget(None, None, None), used=NetworkUse(None, None, None, None),
                              open=None)
        assert NetworkInfo.from_object(empty) == unknown


def test_a_result_without_an_allowlist_has_none():
    assert glovebox.Result({"verdict": {"kind": "ok"}}).network is None and glovebox.Result({"network": "none"}).network is None
    shown = repr(glovebox.Result({"verdict": {"kind": "ok"}, "network": {"denied": 3}}))
    assert shown == "<Result ok network_denied=3>"


def test_a_model_is_told_what_was_refused():
    from glovebox.adapters._text import text_of
    rows = [{"host": f"h{i}.com", "port": 443, "decision": "no-rule", "requests": 1} for i in range(20)]
    text = text_of(glovebox.Result({"verdict": {"kind": "ok"}, "stdout": "a\n", "state": {"kept": True}, "network": {"denied": 20, "hosts": rows}}))
    assert text.startswith("a\nnot allowed by the network policy: h0.com:443 no-rule, 1 request, h1.com:443 ") and "h8.com" not in text
    assert text_of(glovebox.Result({"verdict": {"kind": "ok"}, "state": {"kept": True}, "network": {"denied": 0, "hosts": []}})) == "(no output)"


# ---- with one ----

@each_backend
def test_a_box_with_rules(client):
    with client.sandbox(allow=["api.example.com"], policy={"network_requests": 50}) as box:
        info = box.network()
        assert (info.mode, [rule["rule"] for rule in info.rules], info.ranges, info.limits.requests, info.used) == ("allowlist", [RULE], [], 50, NetworkUse())
        result = box.run(TRY + "print(status('https://evil.example.com'))")
        assert "403" in result.stdout and result.network.requests == result.network.denied == 1
        assert [(each.host, each.port, each.decision, each.rule) for each in result.network.refused] == [("evil.example.com", 443, "no-rule", None)]
        assert box.run("1 + 1").network == NetworkUse()
        assert box.network().hosts == result.network.hosts and box.info().policy["network"] == "allowlist"


@each_backend
def test_other_rules(client):
    with client.sandbox(allow=["api.example.com"]) as box:
        changed = box.set_network(["*.example.org", {"host": "b.com", "protocol": "http", "paths": ["/a"]}], ranges=["10.1.0.0/16"], bytes="1m", requests=3, connections=2)
        assert [rule["host"] for rule in changed.rules] == ["*.example.org", "b.com"] and changed.ranges == ["10.1.0.0/16"] and changed.limits == NetworkBudget(1 << 20, 3, 2)
        assert box.run(TRY + "print(status('https://api.example.com'))").network.refused[0].host == "api.example.com"
        nothing = box.set_network([])
        assert nothing.rules == [] and nothing.limits == changed.limits and nothing == box.network()
        with pytest.raises(glovebox.UsageError, match="allow"):
            box.set_network(["no such rule"])
        with pytest.raises(glovebox.UsageError, match="list"):
            box.set_network("api.example.com")


def test_one_shot_runs(client, address):
    result = client.run(TRY + "print(status('http://evil.example.com/'))", allow=["http://api.example.com/"], network="allowlist")
    assert "403" in result.stdout and result.network.refused[0].protocol == "http"
    assert glovebox.run("1", allow=[], server=address).network == NetworkUse()
    stream = client.stream("1", allow=["api.example.com"])
    for _ in stream:
        pass
    assert stream.result.network == NetworkUse()
    assert client.start("1", allow=["api.example.com"]).wait().network == NetworkUse()
    assert client.run("1").network is None


def test_a_box_without(box):
    info = box.network()
    assert info.mode == "none" and info.rules == [] and info.hosts == []
    with pytest.raises(glovebox.ConflictError, match="allowlist"):
        box.set_network(["api.example.com"])


def test_from_afar(server):
    """Only what the server's policy has, which is nothing here."""
    with glovebox.Client("http://127.0.0.1:%d" % server.tcp[1], server.token("acme", "run")) as far:
        with pytest.raises(glovebox.DeniedError):
            far.sandbox(allow=["api.example.com"]).open()
        with far.sandbox() as box:
            assert box.network().mode == "none"


def test_asyncio(address):
    async def main():
        async with glovebox.AsyncSandbox(allow=["api.example.com"], server=address) as box:
            result = await box.run(TRY + "print(status('https://evil.example.com'))")
            assert [each.decision for each in result.network.refused] == ["no-rule"]
            assert (await box.set_network(["evil.example.com"], requests=9)).limits.requests == 9
            info = await box.network()
            assert [rule["host"] for rule in info.rules] == ["evil.example.com"] and info.used.denied == 1
        assert (await glovebox.run_async("1", allow=["a.com"], allow_ranges=["10.0.0.0/8"], server=address)).network == NetworkUse()
    asyncio.run(main())
