# SPDX-License-Identifier: Apache-2.0
"""The description of the API: it has every route and every name the code has, and the server does what it says."""
import json
import os
import pathlib
import re
import subprocess

import pytest

from server import BUILD, PROGRAM, ROOT, Server

FILE = ROOT / "src/server/openapi.json"
DOCUMENT = json.loads(FILE.read_text())
METHODS = ("get", "put", "post", "patch", "delete")
OPERATIONS = {(method.upper(), path): item[method] for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item}
SCHEMAS = DOCUMENT["components"]["schemas"]
MIB = 1 << 20


def table():
    done = subprocess.run([str(PROGRAM), "routes", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def at(reference):
    node = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def walk(node, path=""):
    yield path, node
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, f"{path}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from walk(value, f"{path}/{index}")


def test_every_route():
    """Each row of the table is described, and nothing else is."""
    rows = {(row["method"], re.sub(r"\{(\w+)\.\.\.\}", r"{\1}", row["pattern"])): row for row in table()}
    assert set(rows) == set(OPERATIONS)
    for key, row in rows.items():
        operation = OPERATIONS[key]
        assert (operation.get("security") == []) == row["open"], key
        scope = re.search("Scope: `([a-z]+)`", operation.get("description", ""))
        assert [scope[1]] if scope else [] == row["scopes"], key
        streams = any("text/event-stream" in answer.get("content", {}) for answer in operation["responses"].values())
        assert streams == row["streams"], key
        names = set(re.findall(r"\{(\w+)\}", key[1]))
        given = {p["name"] for p in (at(p["$ref"]) if "$ref" in p else p for p in operation.get("parameters", [])) if p["in"] == "path"}
        assert names == given, key


def test_references_lead_somewhere():
    used = set()
    for path, node in walk(DOCUMENT):
        if isinstance(node, dict) and "$ref" in node:
            assert at(node["$ref"]) is not None, path
            used.add(node["$ref"])
    for kind in ("schemas", "responses", "parameters"):
        unused = {name for name in DOCUMENT["components"][kind] if f"#/components/{kind}/{name}" not in used}
        assert not unused, unused
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(names) == len(set(names))


def test_objects_are_closed():
    """An object says all it may have."""
    open_ones = {"/components/schemas/AuditRecord", "/components/schemas/Error/properties/error/properties/details", "/components/schemas/NothingRun/properties/error/properties/details",
                 "/components/schemas/EventError/properties/error/properties/details"}
    for path, node in walk(DOCUMENT):
        if isinstance(node, dict) and "properties" in node and node.get("type") == "object" and path not in open_ones:
            assert node.get("additionalProperties") is False, path
            assert set(node.get("required", [])) <= set(node["properties"]), path


def listed(header, macro):
    text = (ROOT / header).read_text()
    return {m for m in re.findall(rf'X\({macro}_[A-Z_]+, "([a-z_]+)"', text)} - {"none"}


def test_names_of_the_code():
    assert set(SCHEMAS["Error"]["properties"]["error"]["properties"]["code"]["enum"]) == listed("include/glovebox/error.h", "GB_E")
    assert set(SCHEMAS["Verdict"]["properties"]["kind"]["enum"]) == listed("src/engine/verdict.h", "VERDICT")
    assert set(SCHEMAS["Control"]["properties"]["name"]["enum"]) == listed("src/policy/control.h", "CONTROL")
    keys = set(re.findall(r'^        ROW\("([a-z_]+)", "[a-z-]+"', (ROOT / "src/policy/option.c").read_text(), re.M))
    assert keys and keys | {"trust", "env", "mounts", "allow_weaker", "guard_rules", "guard_imports", "network_allow", "network_ranges"} == set(SCHEMAS["Policy"]["properties"])


def test_statuses():
    """Each error is described by its status; every answer that is no success has the one shape."""
    for key, operation in OPERATIONS.items():
        for status, answer in operation["responses"].items():
            body = at(answer["$ref"]) if "$ref" in answer else answer
            if int(status) >= 400 and key[1] != "/readyz":
                schema, error = body["content"]["application/json"]["schema"], {"$ref": "#/components/schemas/Error"}
                # What is wrong with a message of MCP is told as its clients understand it.
                assert schema == error or (key[1] == "/mcp" and schema == {"anyOf": [{"$ref": "#/components/schemas/RpcError"}, error]}), (key, status)
                example = body["content"]["application/json"]["examples"]["error"]["value"]["error"]
                if schema != error:
                    assert set(example) == {"code", "message"} and isinstance(example["code"], int), (key, status)
                    continue
                assert set(example) == {"code", "message", "hint", "details"} and example["code"] in SCHEMAS["Error"]["properties"]["error"]["properties"]["code"]["enum"]


@pytest.mark.smoke
def test_it_is_served(binary):
    with Server() as server:
        answer = server.get("/openapi.json").expect(200)
        version = server.get("/v1/info").json["version"]
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.body.decode() == json.dumps(DOCUMENT, separators=(",", ":"), ensure_ascii=False).replace("@VERSION@", version)


# ---- against the server ----

@pytest.fixture(scope="module")
def tool():
    """schemathesis, from a place of its own."""
    command = ". tools/venv.sh && venv_need openapi schemathesis >&2 && echo $venv"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env={**os.environ, "VENV_DIR": str(BUILD)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=400)
    if done.returncode != 0:
        pytest.skip(f"schemathesis cannot be installed here: {done.stderr.decode()[-300:]}")
    return pathlib.Path(done.stdout.decode().split()[-1]).absolute() / "bin/schemathesis"


POLICY = "trust_levels: {}\ntimeout: 2s\ntimeout_max: 3s\nmem_limit: 128m\ndisk_limit: 4m\ninode_limit: 500\nnetwork_mode: allowlist\nnetwork_allow: ['*.invalid']\n"


@pytest.mark.waits
def test_the_server_does_what_it_says(tool, binary):
    """Thousands of requests made from the description, good ones and bad ones: no failure of ours, and each answer is as described."""
    with Server(tcp=True, policy=POLICY) as server:
        address = "http://127.0.0.1:%d" % server.tcp[1]
        token = server.token("tenant", "admin")
        argv = [str(tool), "--config-file", str(ROOT / "tests/schemathesis.toml"), "run", f"{address}/openapi.json", "--url", address, "--max-examples", "5",
                "--seed", "1", "--no-color", "--request-timeout", "30", "--suppress-health-check", "all", "-H", f"Authorization: Bearer {token}"]
        done = subprocess.run(argv, cwd=server.directory, env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(ROOT / "tests"), "TERM": "dumb"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=400)
        text = "\n".join(line[:300] for line in done.stdout.decode(errors="replace").splitlines())
        assert done.returncode == 0, text[-12000:]
        assert f"{len(OPERATIONS)} selected" in text or f"{len(OPERATIONS) - 1} selected" in text, "the address of the description itself may be left out"
        assert server.get("/readyz").status == 200
