# SPDX-License-Identifier: Apache-2.0
"""182. Many secrets meet much output that is made to cost the scrubber as much as possible: beginnings without end, near misses, candidates in candidates => the work grows
as the text does, and no faster. (How fast it is on texts as they are is a matter of bench/.)
"""
import secrets

import pytest
from hostile_secrets import assert_grows_as_the_text, processor_time, run, server

MIB = 1 << 20

# A text of about that many bytes.
TEXTS = {
    "starts": lambda n: "eyJ" * (n // 3),
    "armour": lambda n: "-----BEGIN " * (n // 11),
    "a key without end": lambda n: "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * (n // 33),
    "tokens, nearly": lambda n: ("ghp_" + "a" * 35 + " ") * (n // 40),
    "addresses": lambda n: "https://a:" * (n // 10),
    "one candidate": lambda n: "ghs_1_eyJ" + "a" * n,
    "starts in candidates": lambda n: "sk-ghp_AKIAxoxb-glpat-" * (n // 22),
    "names": lambda n: "password=" * (n // 9),
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_quadratic_case(own_box, name):
    times = []
    for size in (MIB // 8, MIB):
        path = own_box.directory() / "text"
        path.write_text(TEXTS[name](size))
        with processor_time() as seconds:
            result = own_box.call("guard", "scrub", "--quiet", "--scrub", "strict", path)
        assert result.returncode == 0 and result.out, result.explain()
        times.append(seconds)
    assert_grows_as_the_text(*times)


def near_misses(values, n):
    return ("".join(value[:-1] + "~" for value in values) * (1 + n // sum(map(len, values))))[:n]


@pytest.mark.parametrize("kind", ["chance", "one head", "one letter"])
def test_many_secrets(server, kind):
    """200 of them, and output of nothing but their beginnings: it comes back as it was, and those that are whole do not."""
    values = {"chance": [secrets.token_urlsafe(24) for _ in range(200)], "one head": ["same-head-of-all-" + f"{i:06}" for i in range(200)], "one letter": ["a" * (20 + i) for i in range(200)]}[kind]
    given = {f"K{i}": value for i, value in enumerate(values)}
    text = near_misses(values[:20] if kind == "one letter" else values, MIB)
    code = "import os, sys\ntext = sys.stdin.read()\nsys.stdout.write(text + '\\n' + ' '.join(os.environ[f'K{i}'] for i in range(200)))"
    result = server.post("/v1/runs", {"code": code, "stdin": text, "secrets": given, "policy": {"env": {}}}).result
    head, _, tail = result["stdout"].rpartition("\n")
    assert tail == " ".join(f"[scrubbed:K{i}]" for i in range(200)), tail[:300]
    if kind != "one letter":  # of which every part that is long enough is one
        assert head == text and result["scrubbed"]["total"] == 200
    assert not any(value in head for value in values)


def test_nothing_but_secrets(server):
    """Marks are longer than some secrets are: output grows, up to its limit, and is cut there."""
    result = run(server, "import os\nfor _ in range(20000): print(os.environ['KEY'], end='')", "8 bytes!", policy={"output_limit": "256k"})
    assert result["stdout"] == "[scrubbed:KEY]" * (len(result["stdout"]) // 14) + "[scrubbed:KEY]"[:len(result["stdout"]) % 14]
    assert len(result["stdout"]) <= 256 << 10 and result["scrubbed"]["total"] >= 18000
