# SPDX-License-Identifier: Apache-2.0
"""88. Through the server a tenant makes boxes until all memory is promised, and each uses what it may => the next one is refused, the tenant's with 429 and anybody's with 503;
those that are there go on, one that takes more is ended alone, and what ends makes room.
"""
import pytest
from conftest import needs_root
from server import Server, in_threads

BOXES, LIMIT = 10, 48 << 20
POLICY = {"mem_limit": LIMIT, "disk_limit": "1m"}
EACH = LIMIT + (1 << 20)


@needs_root
def test_every_box_full():
    with Server(tcp=True, memory=(BOXES + 4) * EACH, tenant_memory=BOXES * EACH, policy="trust_levels: {small: {mem_limit: 48m, disk_limit: 1m}}\n") as server:
        alfa, bravo = server.token("alfa", "run"), server.token("bravo", "run")
        made = [answer.expect(201).json["id"] for answer in in_threads([lambda: server.post("/v1/sessions", {"policy": POLICY, "template": None}, token=alfa)] * BOXES)]
        fill = "import mmap\nhog = mmap.mmap(-1, 24 << 20)\nfor i in range(0, len(hog), 4096): hog[i] = 1\nlen(hog)"
        answers = in_threads([lambda s=s: server.post(f"/v1/sessions/{s}/runs", {"code": fill}, token=alfa) for s in made])
        assert [answer.result["verdict"]["kind"] for answer in answers] == ["ok"] * BOXES
        for body in ({"policy": POLICY}, {"policy": {**POLICY, "mem_limit": "4m"}}):
            answer = server.post("/v1/sessions", body, token=alfa)
            assert (answer.status, answer.code) == (429, "quota") and int(answer.headers["Retry-After"]) > 0, answer.explain()
        assert server.post("/v1/runs", {"code": "1", "policy": POLICY}, token=alfa).status == 429
        # What is left is another's; what is beyond it nobody's.
        others = [server.post("/v1/sessions", {"policy": POLICY, "template": None}, token=bravo).expect(201).json["id"] for _ in range(4)]
        answer = server.post("/v1/sessions", {"policy": POLICY}, token=bravo)
        assert (answer.status, answer.code) == (503, "unavailable") and int(answer.headers["Retry-After"]) > 0, answer.explain()
        # Those that are there work; one that takes more than it may ends, and no other.
        greedy = server.post(f"/v1/sessions/{made[0]}/runs", {"code": "more = bytearray(64 << 20)\nfor i in range(0, len(more), 4096): more[i] = 1"}, token=alfa).result
        assert greedy["verdict"]["kind"] == "memory", greedy["verdict"]
        for s in made[1:]:
            assert server.post(f"/v1/sessions/{s}/runs", {"code": "len(hog)"}, token=alfa).result["results"][0]["data"]["text/plain"] == str(24 << 20)
        server.delete(f"/v1/sessions/{made.pop()}", token=alfa).expect(204)
        assert server.post("/v1/runs", {"code": "print(42)", "policy": POLICY}, token=alfa).result["stdout"] == "42\n"
        for s in made:
            server.delete(f"/v1/sessions/{s}", token=alfa).expect(204)
        for s in others:
            server.delete(f"/v1/sessions/{s}", token=bravo).expect(204)
        assert server.get("/v1/info", token=alfa).json["used"] == {"sessions": 0, "runs": 0, "memory_bytes": 0}


@pytest.mark.parametrize("key", ["memory", "tenant_memory"])
def test_what_never_fits(key):
    """More than there will ever be is no matter of waiting."""
    with Server(tcp=True, **{key: "100m"}) as server:
        alfa = server.token("alfa", "run")
        for body in ({"policy": {"mem_limit": "101m", "disk_limit": "1m"}}, {"policy": {"mem_limit": "64m", "disk_limit": "64m"}}, {"policy": {"mem_limit": "1t"}}, {}):
            answer = server.post("/v1/sessions", body, token=alfa)
            assert (answer.status, answer.code) == (400, "limit"), answer.explain()
