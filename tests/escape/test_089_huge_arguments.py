# SPDX-License-Identifier: Apache-2.0
"""89. A caller gives an environment of 2 MiB, 100,000 variables or arguments => refused with a clear error, nothing runs.
"""


def test_huge_environment(box):
    result = box.run("print(1)", env=[f"A{i}=" + "x" * 100000 for i in range(20)])
    assert (result.returncode, result.error["code"]) == (114, "limit"), result.explain()
    assert "256 KiB" in result.error["message"]


def test_many_variables(box):
    result = box.run("print(1)", env=[f"A{i}=1" for i in range(5000)])
    assert (result.returncode, result.error["code"]) == (114, "limit"), result.explain()


def test_many_arguments(box):
    result = box.run("print(1)", args=["x"] * 50000)
    assert (result.returncode, result.error["code"]) == (114, "limit"), result.explain()
    assert "50000" in result.error["message"]


def test_long_arguments(box):
    result = box.run("print(1)", args=["x" * 100000] * 10)
    assert (result.returncode, result.error["code"]) == (114, "limit"), result.explain()
