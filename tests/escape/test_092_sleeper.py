# SPDX-License-Identifier: Apache-2.0
"""92. Code inside sleeps forever => the wall clock ends it, and next to no processor time is reported.
"""


def test_sleeper(box):
    result = box.run("echo token; exec sleep 1000", "sh", timeout="500ms")
    assert (result.stdout, result.verdict) == ("token\n", "timeout"), result.explain()
    assert 500 <= result.json["duration_ms"] < 650
    assert result.json["cpu_ms"] < 100
