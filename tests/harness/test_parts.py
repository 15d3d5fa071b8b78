# SPDX-License-Identifier: Apache-2.0
"""tools/test.py: the table of parts, the order in which they run, how they are counted, and how all of them end."""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import isolation
import pytest
from conftest import ROOT, wait_until

WORK = """
import os, sys, time
sys.path.insert(0, {tests!r})
import importlib.util
spec = importlib.util.spec_from_file_location("parts", {tool!r})
parts = importlib.util.module_from_spec(spec)
sys.modules["parts"] = parts
spec.loader.exec_module(parts)
parts.LOGS = parts.pathlib.Path({logs!r})
parts.isolation.SHARED_PLACES = ({shared!r},)
Program, Pytest, GCC = parts.Program, parts.Pytest, ()
def sh(name, script, **options):
    return Program(name, argv=("sh", "-c", script), **options)
parts.PARTS = {table}
sys.exit(parts.main())
"""


def load():
    spec = importlib.util.spec_from_file_location("parts_of_tests", ROOT / "tools/test.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


class Tool:
    """tools/test.py with a table of the test's own."""

    def __init__(self, directory):
        self.directory, self.times, self.shared = directory, directory / "times", directory / "shared"
        self.shared.mkdir()

    def command(self, table, *arguments):
        script = self.directory / "run.py"
        fill = {
            "tests": str(ROOT / "tests"),
            "tool": str(ROOT / "tools/test.py"),
            "logs": str(self.directory / "logs"),
            "shared": str(self.shared),  # not /tmp: other parts of the tests have their files there meanwhile
            "table": table,
        }
        script.write_text(WORK.format(**fill))
        return [sys.executable, "-B", str(script), *map(str, arguments)]

    def run(self, table, *arguments, **environ):
        environ = {**{k: v for k, v in os.environ.items() if k != "CI"}, **environ}
        done = subprocess.run(
            self.command(table, *arguments),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout

    def note(self, name, seconds=0.5):
        """A script that writes down when it was there."""
        return f"echo {name} begins >> {self.times}; sleep {seconds}; echo {name} ends >> {self.times}"

    def notes(self):
        return self.times.read_text().splitlines()


@pytest.fixture
def tool(tmp_path, no_leaks):
    return Tool(tmp_path)


def test_every_test_file_is_in_a_part():
    """Files of tests/e2e and tests/escape are in exactly one of the parts for quick tests."""
    parts = load()
    for directory in ("tests/e2e", "tests/escape"):
        quick = [p for p in parts.PARTS if isinstance(p, parts.Pytest) and p.marks == parts.QUICK]
        for file in (ROOT / directory).glob("test_*.py"):
            name = file.relative_to(ROOT)
            at = [
                p.name
                for p in quick
                if any(name.match(g) or pathlib.Path(g) in name.parents for g in p.paths)
                and not any(name.match(g) for g in p.without)
            ]
            assert len(at) == 1, (name, at)


def test_every_directory_of_tests_is_in_a_part():
    parts = load()
    covered = {pathlib.Path(path) for p in parts.PARTS if isinstance(p, parts.Pytest) for path in p.paths}
    for directory in {path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}:
        assert any(directory == path or directory in path.parents for path in covered), directory


def test_needs_name_parts():
    parts = load()
    names = [part.name for part in parts.PARTS]
    assert len(set(names)) == len(names)
    for part in parts.PARTS:
        assert set(part.needs) <= set(names[: names.index(part.name)]), part.name  # so there is no circle


def test_parts_run_side_by_side(tool):
    table = f"[sh('a', {tool.note('a', 1)!r}), sh('b', {tool.note('b', 1)!r})]"
    status, out = tool.run(table, "--jobs", 2)
    assert status == 0 and out.endswith("2 passed, 0 failed, 0 skipped\n"), out
    assert sorted(tool.notes()[:2]) == ["a begins", "b begins"]


def test_needs_locks_and_weights(tool):
    """b needs a; c has a's lock; d runs alone, and nothing overtakes it."""
    table = (
        f"[sh('a', {tool.note('a')!r}, locks=('x',)), sh('b', {tool.note('b')!r}, needs=('a',)),"
        f" sh('c', {tool.note('c')!r}, locks=('x',)), sh('d', {tool.note('d')!r}, weight=None),"
        f" sh('e', {tool.note('e')!r})]"
    )
    status, out = tool.run(table, "--jobs", 4)
    assert status == 0, out
    notes = tool.notes()
    assert notes.index("a ends") < notes.index("b begins") and notes.index("a ends") < notes.index("c begins"), notes
    assert notes.index("d ends") == notes.index("d begins") + 1, notes
    assert notes.index("d begins") < notes.index("e begins"), notes


def test_a_failed_part_does_not_stop_the_others(tool):
    status, out = tool.run("[sh('a', 'echo words of a; exit 3'), sh('b', 'echo words of b')]")
    assert status == 1 and out.endswith("1 passed, 1 failed, 0 skipped\n"), out
    assert re.search(r"== a \(failed .*\)\nwords of a\n", out) and re.search(
        r"== b \(passed .*\)\nwords of b\n", out
    ), out


def test_output_is_not_mixed(tool):
    loop = "for i in 1 2 3 4 5; do echo {0}; sleep 0.1; done"
    _, out = tool.run(f"[sh('a', {loop.format('aa')!r}), sh('b', {loop.format('bb')!r})]", "--jobs", 2)
    assert "aa\n" * 5 in out and "bb\n" * 5 in out, out


def test_selection(tool):
    table = "[sh('first', ''), sh('second', '', needs=('first',)), sh('third', '')]"
    _, out = tool.run(table, "second")
    assert out.endswith("2 passed, 0 failed, 0 skipped\n") and "third" not in out, out
    status, out = tool.run(table, "fourth")
    assert status == 1 and "no part has 'fourth' in its name" in out, out


def pytest_part(tool, name, body, **options):
    file = tool.directory / "test_it.py"
    file.write_text(body)
    return f"[Pytest({name!r}, paths=({os.path.relpath(file, '/')!r},), **{options!r})]".replace(
        "paths=(", "paths=('../' * 20 + "
    )


SOMETIMES = """
import pathlib
def test_sometimes():
    mark = pathlib.Path(__file__).with_suffix(".mark")
    assert mark.exists() or mark.touch()
def test_always(): pass
"""


@pytest.mark.parametrize(
    "name, status, last",
    [("others", 0, "2 passed, 0 failed, 0 skipped"), ("attacks, some", 1, "1 passed, 1 failed, 0 skipped")],
)
def test_second_try(tool, name, status, last):
    """Not for attacks."""
    got, out = tool.run(pytest_part(tool, name, SOMETIMES))
    assert got == status and out.endswith(f"{last}\n"), out
    assert ("failed at first: " in out) == (status == 0), out


MESON = """
project('unit')
test('sometimes', find_program('sh'), args: ['-c', 'test -e @0@ || {{ touch @0@; exit {status}; }}'.format(meson.current_build_dir() / 'mark')])
test('always', find_program('true'))
"""


@pytest.mark.parametrize(
    "status, last", [("1", "2 passed, 0 failed, 0 skipped"), ("$(kill -ABRT $$)", "1 passed, 1 failed, 0 skipped")]
)
def test_second_try_of_a_unit_test(tool, status, last):
    """Not for a crash."""
    (tool.directory / "meson.build").write_text(MESON.format(status=status))
    subprocess.run(["meson", "setup", "build"], cwd=tool.directory, stdout=subprocess.DEVNULL, check=True)
    _, out = tool.run(f"[parts.Unit('unit', build={str(tool.directory / 'build')!r})]")
    assert out.endswith(f"{last}\n"), out
    assert ("failed at first: " in out) == (status == "1"), out


@pytest.mark.parametrize(
    "reason, ci, last",
    [
        ("I do not like it", "true", "0 passed, 1 failed, 1 skipped"),
        ("I do not like it", "", "1 passed, 0 failed, 1 skipped"),
        ("needs root", "true", "1 passed, 0 failed, 1 skipped"),
    ],
)
def test_skips(tool, reason, ci, last):
    """In CI a skip needs a reason that is about the host."""
    body = f"import pytest\n@pytest.mark.skip(reason={reason!r})\ndef test_a(): pass\ndef test_b(): pass\n"
    _, out = tool.run(pytest_part(tool, "skips", body), CI=ci)
    assert out.endswith(f"{last}\n"), out
    assert (f"not because of the host: skips: {reason}" in out) == (reason != "needs root"), out


@pytest.mark.parametrize("name, last", [("glovebox-left", "1 passed, 1 failed, 0 skipped"), ("glovebox-test-left", "1 passed, 0 failed, 0 skipped")])
def test_what_stays_in_a_shared_place_is_a_failure(tool, name, last):
    (tool.shared / "glovebox-before").touch()
    _, out = tool.run(f"[sh('leaves', 'touch {tool.shared}/{name}')]")
    assert out.endswith(f"{last}\n") and (f"['{tool.shared}/{name}']" in out) == (name == "glovebox-left"), out


def test_no_test_is_a_failure(tool):
    status, out = tool.run(pytest_part(tool, "none", "\n"))
    assert status == 1 and "1 failed" in out, out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all(tool, number):
    """Also daemons that a part has started, where it has control groups."""
    daemon = "setsid sleep 97 >/dev/null 2>&1 & " if isolation.current.groups else ""
    run = f"exec {sys.executable} {ROOT}/tests/isolation.py sh -c '{daemon}echo up >> {tool.times}; sleep 98'"
    with subprocess.Popen(
        tool.command(f"[sh('a', {run!r}), sh('b', {run!r})]", "--jobs", 2), stdout=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(lambda: tool.times.exists() and len(tool.notes()) == 2, 60)
        began = time.monotonic()
        process.send_signal(number)
        out = process.stdout.read()
    assert process.returncode == 130 and "interrupted" in out and time.monotonic() - began < 60, out
