#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the documentation and compares what they print.

A block of ```console is a session: lines with "$ " are commands, the lines below each are what it
prints (both streams). All blocks of a page share a fresh directory and a shell, as a reader
would have it. A block of ```yaml with a path behind it is that file in the directory. $GLOVEBOX is the program. The last line says how many commands passed and failed.
"""
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
FILE = re.compile(r"^```[a-z]+ ([a-z][a-z/.-]*)\n(.*?)^```", re.M | re.S)
END = "--end-of-command--"


def commands(page):
    """(line, command, expected output) of each command of a page."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        command, output = None, []
        for number, row in enumerate(block.group(1).splitlines(), line + 1):
            if row.startswith("$ "):
                if command:
                    yield command[0], command[1], output
                command, output = (number, row[2:]), []
            else:
                output.append(row)
        if command:
            yield command[0], command[1], output


def write_files(page, place):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for name, content in FILE.findall(text):
        os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(content)


def run_page(page, glovebox):
    wanted = list(commands(page))
    # The status of a command must still be there for an "echo $?" in the next.
    script = ['glovebox() { "$GLOVEBOX" "$@"; }'] + [
        f"{command}\n{{ s=$?; echo; echo {END}; (exit $s); }}" for _, command, _ in wanted]
    with tempfile.TemporaryDirectory(prefix="doc-examples-") as place:
        os.chmod(place, 0o755)
        write_files(page, place)
        shell = subprocess.run(["bash", "-c", "\n".join(script)], cwd=place, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                               env={**os.environ, "GLOVEBOX": glovebox}, encoding="utf-8", errors="replace")
    got = shell.stdout.split(END + "\n")
    failed = 0
    for (line, command, expected), output in zip(wanted, got + [""] * len(wanted)):
        # What a host cannot enforce in full is said in a warning of its own.
        rows = [r for r in output.splitlines() if not r.startswith("glovebox: warning:")]
        if "\n".join(rows).strip("\n") != "\n".join(expected).strip("\n"):
            failed += 1
            print(f"{page}:{line}: $ {command}\n  expected: {expected}\n  got:      {rows}")
    return len(wanted) - failed, failed


def main():
    glovebox = os.path.abspath(os.environ.get("GLOVEBOX", "build/src/cli/glovebox"))
    if subprocess.run([glovebox, "run", "-c", "pass"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 112:
        os.environ["GLOVEBOX_ALLOW_WEAKER"] = "cgroup"
    passed = failed = 0
    for page in sys.argv[1:]:
        good, bad = run_page(page, glovebox)
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
