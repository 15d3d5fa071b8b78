# SPDX-License-Identifier: Apache-2.0
"""117. An allowlist is empty, or there is none, or it is emptied by a level of trust => nothing passes, by no protocol.
"""
import pytest
from internet import CLIENT, answers, internet, net_box, net_server  # noqa: F401

CODE = CLIENT + """
report([status_of(t)[0] for t in ("a.example.com:443", "93.184.216.34:443", "localhost:443", "[2606:2800:220::1]:443")], [get(u)[0] for u in ("http://a.example.com/", "http://93.184.216.34/")],
       [socks("a.example.com", 443)[1], socks(bytes([93, 184, 216, 34]), 443)[1]])
"""
NOTHING = [[403] * 4, [403] * 2, [2] * 2]
POLICIES = {
    "absent": "network_mode: allowlist\n",
    "empty": "network_mode: allowlist\nnetwork_allow: []\n",
    "emptied": "network_mode: allowlist\nnetwork_allow:\n  - a.example.com\n  - http://a.example.com\n  - tcp://93.184.216.34:443\ntrust_levels:\n  standard:\n    network_allow: []\n",
    "ranges only": "network_mode: allowlist\nnetwork_ranges:\n  - 0.0.0.0/0\n  - ::/0\n",
}


@pytest.mark.parametrize("which", [*POLICIES, "flag"])
def test_nothing_passes(internet, net_box, which):
    traps = [internet.trap(443), internet.trap(80)]
    internet.names["a.example.com"] = ["93.184.216.34"]
    if which == "flag":
        result = net_box.run(CODE, network="allowlist")
    else:
        policy = net_box.directory() / "policy.yaml"
        policy.write_text(POLICIES[which])
        result = net_box.run(CODE, policy=policy)
    assert answers(result) == NOTHING, result.explain()
    assert [trap.caught for trap in traps] == [[], []] and internet.names.count("a.example.com") == 0
    assert result.json["network"]["denied"] == result.json["network"]["requests"] == 8


@pytest.mark.parametrize("policy", [{"network_mode": "allowlist"}, {"network_mode": "allowlist", "network_allow": []}], ids=["absent", "empty"])
def test_over_http(internet, net_server, policy):
    internet.names["a.example.com"] = ["93.184.216.34"]
    result = net_server.run(CODE, policy=policy)["result"]
    assert result["verdict"]["kind"] == "ok" and result["stdout"].splitlines()[-1].replace(" ", "") == str(NOTHING).replace(" ", ""), result
    assert internet.trap(443).caught == [] and internet.names.count("a.example.com") == 0
