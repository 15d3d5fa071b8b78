# SPDX-License-Identifier: Apache-2.0
"""193. A client sends fields of other systems, hoping that one is obeyed: HostConfig, Binds, privileged, seccomp => 400, by the field's name, at every
address that reads JSON and inside every object; nothing is begun, and nothing is ignored.
"""
import re

import pytest
from hostile_clients import routes, tenants

FIELDS = ["HostConfig", "Binds", "privileged", "Privileged", "seccomp", "SecurityOpt", "security_opt", "cap_add", "cap_drop", "CapAdd", "devices", "Devices", "volumes", "Mounts", "network", "NetworkMode", "NetworkDisabled", "pid_mode", "PidMode", "ipc", "userns", "user", "User", "uid", "gid",
          "root", "cwd", "WorkingDir", "entrypoint", "Entrypoint", "Cmd", "cmd", "command", "shell", "image", "Image", "dockerfile", "runtime", "isolation", "sysctls", "ulimits", "tmpfs", "init", "Env", "environment", "Secrets", "secret", "tenant", "token", "scopes", "admin", "id", "session", "run",
          "state", "created_at", "backend", "controls", "limits", "result", "verdict", "Code", "CODE", "code ", " code", "co\u0501e", "c\u006fde\u200b", "code[]", "code.x", "__proto__", "constructor", "prototype", "__class__", "$where", "$ref", "@type", "", " ", "\ufeff",
          "x" * 300, "\u00e4" * 200, "a\nb", "a\x1bb", "\"", "\\", "'", "<script>"]

READERS = [(row["method"], row["pattern"]) for row in routes() if row["method"] in ("POST", "PATCH") and not row["bytes"]]
BODIES = {
    "/v1/runs": {"code": "print(193)"}, "/v1/sessions": {}, "/v1/sessions/{session}": {"name": "x"}, "/v1/sessions/{session}/runs": {"code": "print(193)", "context": None}, "/v1/sessions/{session}/contexts": {"language": "python"},
    "/v1/runs/{run}/cancel": {"kill": True}, "/v1/guard/check": {"code": "print(193)"},
}
# They read nothing: whatever is sent with them is not looked at, or refused.
WITHOUT = {"/v1/sessions/{session}/contexts/{context}/restart", "/v1/sessions/{session}/contexts/{context}/interrupt"}
# Messages of another protocol, in which fields that are not known are ignored; not those of tools: test_197_mcp_clients.py.
OTHERS = {"/mcp"}


def test_every_reader_is_covered():
    assert {pattern for _, pattern in READERS} == set(BODIES) | WITHOUT | OTHERS, "say above what its body is"


@pytest.fixture(scope="module")
def ids(tenants):
    session = tenants.post("/v1/sessions", {"name": "mine"}, token=tenants.alfa).expect(201).json["id"]
    run = tenants.post("/v1/runs", {"code": "import time; time.sleep(200)", "detach": True, "timeout": 250}, token=tenants.alfa).expect(202).json["id"]
    before = [r["id"] for r in tenants.get("/v1/runs?limit=1000", token=tenants.alfa).json["runs"]]
    yield {"session": session, "run": run, "context": "1"}
    # Nothing was begun, ended or changed by any of it.
    assert [r["id"] for r in tenants.get("/v1/runs?limit=1000", token=tenants.alfa).json["runs"]] == before
    assert [s["id"] for s in tenants.get("/v1/sessions", token=tenants.alfa).json["sessions"]] == [session]
    assert tenants.get(f"/v1/sessions/{session}", token=tenants.alfa).json["name"] == "mine"
    assert tenants.get(f"/v1/sessions/{session}/contexts", token=tenants.alfa).json["contexts"] == []
    assert tenants.get(f"/v1/runs/{run}", token=tenants.alfa).json["state"] in ("queued", "running")
    tenants.post(f"/v1/runs/{run}/cancel", {"kill": True}, token=tenants.alfa).expect(202)
    tenants.delete(f"/v1/sessions/{session}", token=tenants.alfa).expect(204)


def ask(server, method, pattern, ids, body):
    path = re.sub(r"\{(.*?)\}", lambda match: ids[match[1]], pattern)
    return server.request(method, path, body, token=server.alfa)


def refused(answer, field, prefix=""):
    assert (answer.status, answer.code) == (400, "usage") and "unknown field" in answer.error["message"] and len(answer.body) < 2000, (field, answer.explain())
    named = answer.error["details"].get("field", "")  # that of an empty one is empty
    assert named.startswith(prefix) and field.startswith(named.removeprefix(prefix)) and (named == prefix + field or len(named) > 40), (field, named)


@pytest.mark.parametrize("pattern", BODIES)
def test_unknown_fields(tenants, ids, pattern):
    method = next(m for m, p in READERS if p == pattern)
    for field in FIELDS:
        for value in (1, True, "x", None, {}, {"Privileged": True}, ["/:/host"]):
            refused(ask(tenants, method, pattern, ids, {**BODIES[pattern], field: value}), field)
            # Also when it comes first.
            refused(ask(tenants, method, pattern, ids, {field: value, **BODIES[pattern]}), field)


@pytest.mark.parametrize("pattern", ["/v1/runs", "/v1/sessions"])
def test_inside_of_a_policy(tenants, ids, pattern):
    # Words of the policy file that are always as they are, and those whose value is wrong.
    allowed = {"cap_drop", "security_opt", "image", "runtime", "backend"}
    for field in FIELDS:
        answer = ask(tenants, "POST", pattern, ids, {**BODIES[pattern], "policy": {"pids_limit": 20, field: 1}})
        if field in allowed:
            assert answer.status == 400, answer.explain()
        else:
            refused(answer, field, "policy.")


def test_fields_of_another_address(tenants, ids):
    """What is known elsewhere is unknown here."""
    for pattern, fields in (("/v1/sessions", ("code", "language", "files", "stdin", "timeout", "detach", "args", "on_disconnect", "interactive", "context")), ("/v1/runs", ("metadata", "idle_timeout", "max_lifetime", "context", "kill")),
                            ("/v1/sessions/{session}/runs", ("policy", "secrets", "template", "files", "workspace", "metadata", "kill")), ("/v1/sessions/{session}", ("policy", "secrets", "template", "workspace", "code", "id")), ("/v1/sessions/{session}/contexts", ("code", "id", "name")),
                            ("/v1/runs/{run}/cancel", ("code", "signal", "close")), ("/v1/guard/check", ("stdin", "files", "template", "name", "detach", "context"))):
        method = next(m for m, p in READERS if p == pattern)
        for field in fields:
            refused(ask(tenants, method, pattern, ids, {**BODIES[pattern], field: 1}), field)


def test_unknown_parameters(tenants, ids):
    """In addresses it is the same."""
    for row in routes():
        path = re.sub(r"\{(.*?)\}", lambda match: {**ids, "path...": "x"}[match[1]], row["pattern"])
        for query in ("privileged=1", "tenant=bravo&x=1", "token=x", "debug", "_method=DELETE", "limit=1&limit=2&x", "%70rivileged=1", "a%5B%5D=1", "X" * 300 + "=1"):
            if row["pattern"].endswith(("/restart", "/interrupt")):
                continue  # there is no context
            answer = tenants.request(row["method"], f"{path}?{query}", None if row["method"] in ("GET", "DELETE") else BODIES.get(row["pattern"], {}), token=tenants.token("alfa", "admin") if row["pattern"] == "/metrics" else tenants.alfa)
            assert answer.status == 400 and answer.code == (-32602 if row["pattern"] in OTHERS else "usage"), (row["pattern"], query, answer.explain())
