# SPDX-License-Identifier: Apache-2.0
"""docs/promises.md lists what the tests prove, no more and no less; and the tests run on each backend."""
import re

import promises
from compat_helpers import ROOT

PAGE = ROOT / "docs/promises.md"


def test_the_page_has_what_the_tests_quote():
    text = PAGE.read_text()
    for system, lines in promises.tables().items():
        assert "\n".join(lines) in text, f"the table of {system} in docs/promises.md is not: (python3 tests/compat/promises.py)\n" + "\n".join(lines)
    rows = re.findall(r"^\| \d+ \| .*$", text, re.M)
    assert len(rows) == sum(len(lines) - 2 for lines in promises.tables().values()), "a row of the page has no test"


def test_a_number_has_one_sentence():
    numbers = [number for number, _ in promises.found()]
    assert len(numbers) == len(set(numbers)), numbers
    for system in promises.SYSTEMS:
        own = [int(number.partition("-")[2]) for number in numbers if number.startswith(system + "-")]
        assert own == list(range(1, len(own) + 1)), (system, own)


def test_the_modules_run_on_each_backend():
    for tests in promises.found().values():
        for name in tests:
            text = (ROOT / "tests/compat" / f"{name.partition('.')[0]}.py").read_text()
            function = name.partition(".")[2]
            assert "pytestmark = on_each_backend" in text or promises.WHERE.get(function), f"{name} runs on one backend; say in promises.WHERE which"
