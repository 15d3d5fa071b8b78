# SPDX-License-Identifier: Apache-2.0
"""89, over HTTP. A client sends megabytes of variables, a hundred thousand of them, arguments and names without end => 400 by the field's name, before a box is made.
"""
from hostile_clients import assert_works
from server import Server


def test_arguments_and_variables():
    with Server(tcp=True) as server:
        alfa = server.token("alfa", "run")
        huge = [({"policy": {"env": {"A": "x" * (2 << 20)}}}, "policy.env"), ({"policy": {"env": {f"A{i}": "x" * 10000 for i in range(200)}}}, "policy.env"), ({"policy": {"env": {f"A{i}": "" for i in range(12000)}}}, "policy.env"),
                ({"args": ["x" * (2 << 20)]}, "args"), ({"args": ["x"] * 30000}, "args"), ({"args": ["x" * 1000] * 1000}, "args"), ({"name": "x" * 100000}, "name"), ({"files": {f"f{i}": "" for i in range(2000)}}, "files")]
        for fields, field in huge:
            for path, body in (("/v1/runs", {"code": "1"}), ("/v1/sessions", {})):
                if path == "/v1/sessions" and "policy" not in fields:
                    continue
                answer = server.post(path, {**body, **fields}, token=alfa)
                assert answer.status == 400 and answer.code in ("limit", "usage", "policy") and answer.error["details"] == {"field": field} and len(answer.body) < 2000, (field, answer.explain())
        answer = server.post("/v1/runs", {"code": "1", "policy": {"env": {f"A{i}": "" for i in range(100000)}}}, token=alfa)
        assert answer.status == 400 and server.get("/v1/runs", token=alfa).json["runs"] == []
        # Each alone is allowed, and together they are more than a program can have.
        most = {"args": ["x" * 255] * 1000, "policy": {"env": {f"A{i}": "y" * 1000 for i in range(250)}}}
        answer = server.post("/v1/runs", {"code": "import os, sys\nprint(len(sys.argv), len(os.environ['A249']))", **most}, token=alfa)
        assert (answer.status == 400 and answer.code == "limit") or answer.result["stdout"] == "1001 1000\n", answer.explain()
        assert_works(server, alfa)
