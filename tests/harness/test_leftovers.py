# SPDX-License-Identifier: Apache-2.0
"""The checks for leftovers can fail: suites that leak on purpose fail with the right words, and things that another
suite has on the machine at the same time do not count."""

import os
import pathlib
import secrets
import signal
import subprocess
import sys

import isolation
import pytest
from conftest import BINARY, IS_ROOT, ROOT, needs_root, wait_until

PRELUDE = f"""
import os, pathlib, secrets, subprocess, time
import isolation
import pytest

PATH = {{"PATH": os.environ["PATH"]}}
QUIET = {{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
def glovebox(code):
    argv = [{str(BINARY)!r}, "run", "--timeout", "97s", "--allow-weaker", "cgroup", "-c", code]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
"""

# Each leaks one thing; the check reports it by the name in front. The sleeps end by themselves should all else fail.
LEAKS = {
    "process": ("processes", "subprocess.Popen(['sleep', '97'])"),
    "orphan": ("processes", "subprocess.run(['sh', '-c', 'setsid sleep 97 &'], env=PATH, **QUIET)"),
    "namespace": (
        "processes",
        "subprocess.Popen(['unshare', '-pf', 'sleep', '97'], start_new_session=True, env=PATH)",
    ),
    "box": (
        "processes",
        "process = glovebox('import time; print(1, flush=True); time.sleep(97)'); process.stdout.readline()",
    ),
    "cgroup": ("cgroups", "(isolation.current.groups.tops[0] / ('glovebox-' + secrets.token_hex(8))).mkdir()"),
    "file": ("files", "pathlib.Path(os.environ['TMPDIR'], 'glovebox-left').touch()"),
    "socket": ("files", "pathlib.Path(os.environ['GLOVEBOX_RUNTIME_DIR'], 'warm.sock').touch()"),
    "mount": ("mounts", "subprocess.run(['mount', '-t', 'tmpfs', 'none', str(tmp_path)], check=True)"),
}
ROOT_ONLY = {"namespace", "cgroup", "mount"}
POSSIBLE = [name for name in LEAKS if IS_ROOT or name not in ROOT_ONLY]


class SubSuite:
    """A pytest run with the project's conftest.py and tests of the caller's: a body for each name."""

    def __init__(self, directory):
        self.directory, self.name = directory, f"{isolation.PREFIX}{secrets.token_hex(4)}"
        self.environ = {
            **os.environ,
            "GLOVEBOX_TEST_SUITE": self.name,
            "GLOVEBOX_TEST_GRACE": "1",
            "PYTHONPATH": str(ROOT / "tests"),
        }

    def run(self, bodies, fixtures="tmp_path"):
        file = self.directory / "test_leak.py"
        file.write_text(
            PRELUDE + "".join(f"\ndef test_{name}({fixtures}):\n    {body}\n" for name, body in bodies.items())
        )
        argv = [
            sys.executable,
            "-B",
            "-m",
            "pytest",
            "-q",
            "-p",
            "conftest",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            "--rootdir",
            str(self.directory),
            str(file),
        ]
        return subprocess.run(
            argv,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )

    def unmount(self):
        for line in isolation.host_mounts():
            if self.name in line.split()[4]:
                subprocess.run(["umount", "--lazy", line.split()[4]], check=False)


@pytest.fixture
def sub_suite(tmp_path, no_leaks):
    made = SubSuite(tmp_path)
    yield made
    made.unmount()
    isolation.remove(made.name)


def reports(output, words):
    """The lines with the findings of a check."""
    return [line for line in output.splitlines() if line.startswith("E ") and f"AssertionError: {words}" in line]


def test_a_leak_is_found_after_each_test(sub_suite):
    done = sub_suite.run({name: LEAKS[name][1] for name in POSSIBLE}, "no_leaks, tmp_path")
    found = reports(done.stdout, "left behind: {")
    assert done.returncode == 1 and f"{len(POSSIBLE)} passed, {len(POSSIBLE)} errors" in done.stdout, done.stdout
    for name, line in zip(POSSIBLE, found, strict=True):
        assert f"'{LEAKS[name][0]}': [" in line, (name, line)
        assert ("'cgroups'" in line) == (name == "cgroup" or (name == "box" and IS_ROOT)), (name, line)


def test_a_leak_is_found_at_the_end(sub_suite):
    done = sub_suite.run({name: LEAKS[name][1] for name in POSSIBLE})
    assert done.returncode == 1 and f"{len(POSSIBLE)} passed, 1 error" in done.stdout, done.stdout
    [line] = reports(done.stdout, "left behind by the suite: {")
    for kind in {LEAKS[name][0] for name in POSSIBLE}:
        assert f"'{kind}': [" in line, line
    assert line.count("name='sleep'") >= 2 and "glovebox-left" in line and "warm.sock" in line, line


def test_all_that_is_left_is_ended(sub_suite):
    """Once it was reported: a suite that failed does not disturb the next one."""
    done = sub_suite.run({name: LEAKS[name][1] for name in ("process", "orphan", "box", "file")})
    assert done.returncode == 1, done.stdout
    assert not isolation.places_of(sub_suite.name)
    assert not (pathlib.Path(os.environ["TMPDIR"]) / sub_suite.name).exists()


def test_no_leak_no_failure(sub_suite):
    done = sub_suite.run({"none": "assert glovebox('print(1)').communicate()[0] == b'1\\n'"}, "no_leaks, tmp_path")
    assert done.returncode == 0, done.stdout


def test_leftovers_of_others_do_not_count(sub_suite, tmp_path):
    """Beside the suite another one, this one, makes files, processes and boxes."""
    marker = pathlib.Path(os.environ["TMPDIR"], "glovebox-mine")
    argv = [
        str(BINARY),
        "run",
        "--timeout",
        "97s",
        "--allow-weaker",
        "cgroup",
        "-c",
        "import time; print(1, flush=True); time.sleep(97)",
    ]
    bodies = {
        "other": f"pathlib.Path({str(tmp_path / 'now')!r}).touch()\n"
        f"    while not os.path.exists({str(marker)!r}): time.sleep(0.01)"
    }
    with subprocess.Popen(
        ["sh", "-c", 'until [ -e "$1/now" ]; do sleep 0.01; done; shift; exec "$@"', "sh", str(tmp_path), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        with subprocess.Popen(
            [
                "sh",
                "-c",
                'until [ -e "$1/now" ]; do sleep 0.01; done; sleep 0.5; touch "$2"',
                "sh",
                str(tmp_path),
                str(marker),
            ]
        ):
            done = sub_suite.run(bodies, "no_leaks, tmp_path")
        assert process.stdout.readline() == "1\n" and process.poll() is None
        process.kill()
    marker.unlink()
    assert done.returncode == 0, done.stdout


@needs_root
def test_a_killed_suite_is_removed(sub_suite):
    """As tools/test.py does it after it had to kill a part."""
    body = LEAKS["box"][1] + "\n    os.kill(os.getpid(), 9)"
    done = sub_suite.run({"box": body})
    assert done.returncode == -signal.SIGKILL, done.stdout
    tops = isolation.places_of(sub_suite.name)
    assert any(group.name.startswith("glovebox-") for top in tops for group in isolation.all_groups(top))
    assert isolation.remove(sub_suite.name) and not isolation.places_of(sub_suite.name)


def test_the_command(no_leaks):
    """tests/isolation.py COMMAND fails for a process that is left, ends it, and hands on the command's status."""
    environ = {
        **os.environ,
        "GLOVEBOX_TEST_SUITE": f"{isolation.PREFIX}{secrets.token_hex(4)}",
        "GLOVEBOX_TEST_GRACE": "1",
    }

    def call(script):
        return subprocess.run(
            [sys.executable, str(ROOT / "tests/isolation.py"), "sh", "-c", script],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert call("exit 3").returncode == 3
    assert call(f'test "$TMPDIR" != {os.environ["TMPDIR"]}').returncode == 0
    done = call("setsid sleep 97 >/dev/null 2>&1 &")
    assert done.returncode == 1 and "left behind by" in done.stdout and "name='s" in done.stdout, done


def test_processes_are_known_by_number_and_start():
    """A process that changes its name while the check waits is still the same one."""
    with subprocess.Popen(["sh", "-c", "read x; exec sleep 97"], stdin=subprocess.PIPE) as process:
        [before] = [p for p in isolation.current.processes() if p.pid == process.pid]
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert wait_until(lambda: [p.name for p in isolation.current.processes() if p.pid == process.pid] == ["sleep"])
        assert before in isolation.current.processes()
        process.kill()
