# SPDX-License-Identifier: Apache-2.0
"""191. A client with a token asks for limits that overflow, are negative, nothing, endless, in odd words, or above what his tenant may have; and for what only
callers of the server's own user may ask => 400 or 403 by the field's name, nothing is begun; what is accepted is what the box has.
"""
import json

import pytest
from hostile_clients import tenants
from server import Server

SIZES = ["mem_limit", "tmp_size", "disk_limit", "output_limit"]
COUNTS = ["pids_limit", "inode_limit", "nofile"]
TIMES = ["timeout", "cpu_time"]
FILE_ONLY = ["timeout_max", "result_count", "result_limit"]

NUMBERS = [0, -1, -0.0, -(2**63), 2**63 - 1, 1e308, -1e308, 5e-324, 2**53 + 1, 10**15, 10**18]
# Of no kind: what other programs read as a number.
WORDS = ["", " ", "-1", "+1", "-1m", "+1m", "1 m", " 1m", "1m ", "1m\n", "\t1m", "1_000", "1,5m", "1.5.5m", "1..5m", ".m", "m", "0x10", "0b1", "0o7", "1e3", "1E3m", "NaN", "nan", "inf", "Infinity", "none!", "unlimited", "max", "null", "true",
         "\u0661m", "\uff11m", "\u00b2", "1\u00b5s", "1\u041c", "1\u200bm", "1m\u0301", "9" * 400, "9" * 30 + "g", "18446744073709551616", "18446744073709551615g", "17179869184g", "1zb", "1kk", "1mm", "%s", "%n", "1;id", "$(id)", "`id`", "1\"", "../1", "--help", "-", "'1m'"]
OTHERS = [None, True, False, [], [1], {}, {"a": 1}, [[]], {"base64": "MQ=="}]
RAW = ["1e400", "-1e400", "18446744073709551616", "9" * 65, "1" + "0" * 40, "NaN", "Infinity", "-", "+1", "01", "1.", ".5", "0x10"]


def ask(server, policy=None, **fields):
    body = {"code": "print(191)", **fields}
    if policy is not None:
        body["policy"] = policy
    return server.post("/v1/runs", body, token=server.alfa)


@pytest.fixture(scope="module", autouse=True)
def nothing_begun(tenants):
    yield
    # Everything that was run was meant to be: it printed its number.
    runs = tenants.get("/v1/runs?limit=1000", token=tenants.alfa).json["runs"]
    assert all(run["state"] == "ended" for run in runs)
    assert tenants.get("/v1/info", token=tenants.alfa).json["used"] == {"sessions": 0, "runs": 0, "memory_bytes": 0}


def refused(answer, field):
    assert answer.status == 400 and answer.code in ("usage", "limit", "policy") and answer.error["details"] == {"field": field}, (field, answer.explain())
    assert len(answer.body) < 1500


@pytest.mark.parametrize("key", SIZES + COUNTS + TIMES + ["cpu_count", *FILE_ONLY])
def test_values_of_a_policy(tenants, key):
    for value in NUMBERS + WORDS + OTHERS:
        refused(ask(tenants, {key: value}), f"policy.{key}")
    if key in FILE_ONLY:
        for value in (1, "1m", "1s"):
            refused(ask(tenants, {key: value}), f"policy.{key}")


def test_numbers_that_json_has_not(tenants):
    for key in SIZES + COUNTS + TIMES + ["cpu_count"]:
        for text in RAW:
            for body in (f'{{"code": "1", "policy": {{"{key}": {text}}}}}', f'{{"code": "1", "{key}": {text}}}'):
                answer = tenants.request("POST", "/v1/runs", body=body.encode(), headers={"Content-Type": "application/json"}, token=tenants.alfa)
                assert answer.status == 400, (body, answer.explain())


@pytest.mark.parametrize("address", ["/v1/runs", "/v1/sessions", "patch"])
def test_times(tenants, address):
    """Of runs, of sessions, and of a session that is there."""
    fields = ["timeout"] if address == "/v1/runs" else ["idle_timeout", "max_lifetime"]
    session = tenants.post("/v1/sessions", {"template": None}, token=tenants.alfa).expect(201)
    for field in fields:
        for value in [0, -1, -0.0001, -1e308, 1e308, 2**63 - 1, 1e-9, 0.0004, 10**12, *WORDS, "5", "5.5", "30", *OTHERS]:
            body = {**({"code": "1"} if address == "/v1/runs" else {}), field: value}
            answer = tenants.patch(f"/v1/sessions/{session.json['id']}", body, token=tenants.alfa) if address == "patch" else tenants.post(address, body, token=tenants.alfa)
            refused(answer, field)
    after = tenants.get(f"/v1/sessions/{session.json['id']}", token=tenants.alfa).expect(200).json
    assert (after["idle_timeout"], after["max_lifetime"]) == (session.json["idle_timeout"], session.json["max_lifetime"])
    tenants.delete(f"/v1/sessions/{session.json['id']}", token=tenants.alfa).expect(204)


def test_the_sum_does_not_overflow():
    """Memory and disk are each allowed, and together more than there is: by the tenant's quota, exactly."""
    with Server(tcp=True, tenant_memory="256m") as server:
        server.alfa = server.token("alfa", "run")
        for policy in ({"mem_limit": "200m", "disk_limit": "57m"}, {"mem_limit": "1t", "disk_limit": "1t"}, {"mem_limit": "256m", "disk_limit": "64k"}, {"mem_limit": "4m", "disk_limit": "1t"}, {}):
            for address, body in (("/v1/runs", {"code": "1", "policy": policy}), ("/v1/sessions", {"policy": policy})):
                answer = server.post(address, body, token=server.alfa)
                assert (answer.status, answer.code) == (400, "limit") and "256m" in answer.error["message"], answer.explain()
        assert ask(server, {"mem_limit": "200m", "disk_limit": "56m"}).status == 200
        held = server.post("/v1/sessions", {"policy": {"mem_limit": "200m", "disk_limit": "55m"}, "template": None}, token=server.alfa).expect(201).json["id"]
        assert ask(server, {"mem_limit": "4m", "disk_limit": "64k"}).code == "quota"
        server.delete(f"/v1/sessions/{held}", token=server.alfa).expect(204)
        assert server.get("/v1/info", token=server.alfa).json["used"]["memory_bytes"] == 0


def test_accepted_is_enforced(tenants):
    """Whatever form it came in."""
    for policy, key, value in (({"mem_limit": "96m"}, "memory_bytes", 96 << 20), ({"mem_limit": 100663296}, "memory_bytes", 96 << 20), ({"pids_limit": 17}, "pids", 17), ({"timeout": 1.5}, "timeout_usec", 1500000),
                               ({"timeout": "1500ms"}, "timeout_usec", 1500000), ({"cpu_count": 0.25}, "cpu_milli", 250), ({"nofile": 99}, "nofile", 99), ({"output_limit": "1k"}, "output_bytes", 1024), ({"output_limit": 1024}, "output_bytes", 1024)):
        answer = ask(tenants, policy)
        assert answer.result["limits"][key] == value, (policy, answer.result["limits"])


def test_what_only_the_servers_own_user_may_ask_for(tenants):
    """By the token, over TCP, in whatever form: paths of the host, its network, weaker boxes."""
    for policy in ({"mounts": ["/etc:/etc-of-host"]}, {"mounts": []}, {"mounts": "/etc:/x"}, {"mounts": None}, {"mounts": [{"source": "/etc", "target": "/x"}]}, {"allow_weaker": ["landlock"]}, {"allow_weaker": []}, {"allow_weaker": "all"},
                   {"network_mode": "host"}, {"network_mode": "HOST"}, {"network_mode": "none "}, {"network_mode": None}, {"network_mode": 1}, {"network_mode": ["host"]}, {"read_only": False}, {"rootfs": "/"}, {"rootfs": None}):
        for trust in ({}, {"trust": "trusted"}, {"trust": "untrusted"}):
            answer = ask(tenants, {**trust, **policy})
            assert answer.status in (400, 403) and answer.code in ("denied", "usage", "policy"), (policy, answer.explain())
            if policy.get("network_mode") == "host" or "mounts" in policy or "allow_weaker" in policy:
                assert (answer.status, answer.code) == (403, "denied"), (policy, answer.explain())
    for workspace in ({"path": "/etc"}, {"path": "/"}, {"path": str(tenants.state)}, {"path": "/proc/self/cwd"}, {"path": "/tmp/x", "mode": "rw"}, "/etc", ["/etc"], {"path": ["/etc"]}):
        for address, body in (("/v1/runs", {"code": "1"}), ("/v1/sessions", {})):
            answer = tenants.post(address, {**body, "workspace": workspace}, token=tenants.alfa)
            assert answer.status in (400, 403) and answer.error["details"] == {"field": "workspace"}, answer.explain()
    for trust in ("root", "STANDARD", "standard ", "../standard", "", None, 1, ["standard"], "default_trust"):
        assert ask(tenants, {"trust": trust}).status == 400


def test_numbers_of_addresses(tenants):
    """Limits, cursors, numbers of events, intervals and modes."""
    session = tenants.post("/v1/sessions", {"template": None}, token=tenants.alfa).expect(201).json["id"]
    run = tenants.post(f"/v1/sessions/{session}/runs", {"code": "1", "context": None}, token=tenants.alfa).expect(200).json["id"]
    odd = ["", "-1", "+1", "%201", "1%20", "0x1", "1e1", "1.0", "NaN", "%D9%A1", "9" * 20, "18446744073709551616", "-9223372036854775808", "null", "1,1", "%00", "1%0a", "true"]
    for path in ("/v1/runs?limit=", "/v1/sessions?limit=", "/v1/audit?limit=", f"/v1/sessions/{session}/files?limit=", "/v1/runs?cursor=", "/v1/audit?cursor=", "/v1/sessions?cursor=", f"/v1/sessions/{session}/files?cursor=", f"/v1/runs/{run}/events?from=",
                 "/v1/stats?interval=", f"/v1/sessions/{session}/stats?interval=", "/v1/audit?since=", "/v1/audit?until="):
        for value in odd + (["0", "1001"] if path.endswith("limit=") else []) + (["0", "0.09", "61", "1h"] if path.endswith("interval=") else []):
            answer = tenants.get(path + value, token=tenants.alfa)
            if answer.status == 200:
                # A cursor of files is hexadecimal digits, and an interval may have a fraction.
                assert ("files?cursor" in path and set(value) <= set("0123456789abcdef")) or ("interval" in path and value in ("1.0", "%201", "1%20", "1e1")), (path, value)
            else:
                assert (answer.status, answer.code) == (400, "usage"), (path, value, answer.explain())
    last = tenants.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": "9" * 20}, token=tenants.alfa)
    assert last.status == 400
    for mode in ("8", "0o644", "+644", "-1", "0644x", "%200644", "07777777", "rw", ""):
        assert tenants.put(f"/v1/sessions/{session}/files/x?mode={mode}", b"x", token=tenants.alfa).status == 400, mode
    assert json.loads(tenants.get(f"/v1/sessions/{session}/files", token=tenants.alfa).body)["entries"] == []
    tenants.delete(f"/v1/sessions/{session}", token=tenants.alfa).expect(204)
