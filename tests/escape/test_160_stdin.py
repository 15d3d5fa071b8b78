# SPDX-License-Identifier: Apache-2.0
"""160. Standard input is absent, huge, closed early or binary, in any mix with output => no deadlock, no byte lost.
"""
import os
import subprocess


def test_none(box):
    assert box.run("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


def test_closed(box):
    """glovebox itself is started without a standard input."""
    process = box.start("print('token')", stdin=None, popen={"preexec_fn": lambda: os.close(0)})
    assert box.finish(process).stdout == "token\n"


def test_binary_echo(box):
    data = bytes(range(256)) * 4096
    result = box.run("import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)", stdin=data, json=False)
    assert result.out == data


def test_large_echo(box):
    data = os.urandom(1 << 20) * 20
    result = box.run("exec cat", "sh", stdin=data, json=False, output_limit="30m")
    assert len(result.out) == len(data) and result.out == data


def test_program_that_never_reads(box):
    result = box.run("print('token')", stdin=b"x" * (20 << 20))
    assert (result.stdout, result.verdict) == ("token\n", "ok")


def test_program_that_closes_it(box):
    result = box.run("import os, time; os.close(0); time.sleep(0.2); print('token')", stdin=b"x" * (5 << 20))
    assert (result.stdout, result.verdict) == ("token\n", "ok")


def test_endless_writer(box):
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        result = box.run("import sys; print(sys.stdin.readline() * 2, end='')", stdin=yes.stdout)
        yes.kill()
    assert (result.stdout, result.verdict) == ("y\ny\n", "ok")


def test_stdin_that_never_ends_does_not_delay(box):
    ours, theirs = os.pipe()
    result = box.run("print('token')", stdin=ours)
    os.close(ours)
    os.close(theirs)
    assert result.stdout == "token\n" and result.json["duration_ms"] < 15000
