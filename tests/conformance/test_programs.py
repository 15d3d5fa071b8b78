# SPDX-License-Identifier: Apache-2.0
"""Programs that do no harm behave in a box as on the bare host, on every backend. They are in programs/, one file for each group."""
import functools
import os
import pathlib
import re
import subprocess
import tempfile

import pytest
from backends import can
from server import in_threads

HERE = pathlib.Path(__file__).resolve().parent / "programs"
HEAD = re.compile(r"=== (?P<name>.+?) (?P<language>python|bash|sh|perl)(?: exit=(?P<status>\d+))?(?: stdin=(?P<stdin>.*))?")
INTERPRETERS = {"python": ("/usr/bin/python3", "main.py"), "bash": ("/bin/bash", "main.bash"), "sh": ("/bin/sh", "main.sh"), "perl": ("/usr/bin/perl", "main.pl")}
# In front of each: a directory of its own, since what came before it in the session has left files.
OWN_DIRECTORY = {"python": "import os; os.mkdir({0!r}); os.chdir({0!r})\n", "bash": "mkdir {0} && cd {0}\n", "sh": "mkdir {0} && cd {0}\n", "perl": "mkdir '{0}'; chdir '{0}';\n"}
ENVIRON = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
HOST_UID = 1000
# Programs that need what not every backend can.
NEED = {"umask": "statx", "split and join": "statx", "files and sizes": "statx"}
GROUPS = sorted(p.stem for p in HERE.glob("*.txt"))


class Program:
    def __init__(self, number, name, language, status, stdin, code):
        self.name, self.language, self.status = name, language, int(status or 0)
        self.stdin = (stdin or "").encode().decode("unicode_escape").encode("latin-1")
        self.code = OWN_DIRECTORY[language].format(f"d{number}") + code


@functools.cache
def programs(group):
    found, lines = [], (HERE / f"{group}.txt").read_text().splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line.startswith("=== ")]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)])):
        head = HEAD.fullmatch(lines[start].rstrip("\n"))
        assert head, lines[start]
        found.append(Program(number, **head.groupdict(), code="".join(lines[start + 1:end])))
    return found


@functools.cache
def on_the_host(group):
    """Standard output and exit status of each, without any box."""
    ids = {"user": HOST_UID, "group": HOST_UID, "extra_groups": []} if os.geteuid() == 0 else {}
    answers = []
    with tempfile.TemporaryDirectory(prefix="gbtest-host-") as name:
        place = pathlib.Path(name)
        place.chmod(0o755)
        (place / "cwd").mkdir()
        if ids:
            os.chown(place / "cwd", HOST_UID, HOST_UID)
        for program in programs(group):
            interpreter, file = INTERPRETERS[program.language]
            (place / file).write_text(program.code)
            done = subprocess.run([interpreter, str(place / file)], input=program.stdin, cwd=place / "cwd", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**ENVIRON, "HOME": str(place / "cwd")}, timeout=60, check=False, **ids)
            answers.append((done.stdout.decode(errors="replace"), done.returncode, done.stderr[-300:]))
    return answers


def test_there_are_enough_of_them():
    names = [(group, p.name) for group in GROUPS for p in programs(group)]
    assert len(names) == len(set(names)) >= 200


@pytest.mark.parametrize("group", GROUPS)
def test_as_on_the_host(backend, group):
    expected = on_the_host(group)
    wrong = [f"{p.name}: ends with {status} on the host: {err!r}" for p, (_, status, err) in zip(programs(group), expected) if status != p.status]
    assert not wrong, wrong
    with backend.session() as session:
        def run(program):
            return session.program(program.code, program.language, stdin=program.stdin.decode())

        found = []
        for pair in zip(*[iter([*programs(group), None])] * 2):  # two at a time: one waits while the other computes
            found += in_threads([lambda p=p: run(p) for p in pair if p])
        found += [run(p) for p in programs(group)[len(found):]]
    for program, (stdout, status, _), result in zip(programs(group), expected, found):
        need = NEED.get(program.name)
        if need and not can(need, backend.name):
            if "Invalid argument" not in result["stderr"]:
                wrong.append(f"{program.name}: it can by now, and CANNOT says that it cannot: {result['stderr'][-300:]!r}")
            continue
        if (result["stdout"], result["exit_code"]) != (stdout, status):
            wrong.append(f"{program.name}: {result['stdout'][-500:]!r} {result['exit_code']} {result['verdict']['kind']} {result['stderr'][-300:]!r}, on the host {stdout[-500:]!r} {status}")
    assert not wrong, "\n".join(wrong)
