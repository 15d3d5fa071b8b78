# SPDX-License-Identifier: Apache-2.0
"""What glovebox run is given: files, code and flags that are wrong in some way. The message says what to do."""
import os
import subprocess
import threading

import pytest
from conftest import IS_ROOT


def refused(result, status, *words):
    assert result.returncode == status, result.explain()
    for word in words:
        assert word in result.error["message"], result.error["message"]


TIMEOUTS = {
    "0": ["allowed: 1ms to 24h"], "-1": ["-1"], "NaN": ["NaN"], "inf": ["inf"], "1e308": ["1e308"], "301s": ["301s is above timeout_max, which is 300s"],
    "": [], "5 s": ["5 s"], "0x10": ["0x10"], "10d": ["10d"], "99999999999999999999": [], "1ms ": [],
}


@pytest.mark.parametrize("text", TIMEOUTS)
def test_wrong_timeouts(own_box, text):
    result = own_box.run("print(1)", timeout=text)
    assert result.returncode in (110, 111, 114), result.explain()
    assert result.error["message"].startswith("--timeout"), result.error
    for word in TIMEOUTS[text]:
        assert word in result.error["message"]


@pytest.mark.parametrize("flag", ["memory", "pids", "disk", "output-limit", "nofile", "cpus", "inodes", "tmp-size", "cpu-time"])
@pytest.mark.parametrize("text", ["0", "-1", "NaN", "1e308", "9223372036854775808", "18446744073709551617", "x"])
def test_wrong_limits(own_box, flag, text):
    result = own_box.run("print(1)", **{flag: text})
    assert result.returncode in (110, 111, 114), result.explain()
    assert result.error["message"].startswith(f"--{flag}: "), result.error


def test_good_timeouts(own_box):
    for text, usec in (("1", 1000000), ("1.5s", 1500000), ("2m", 120000000), ("900ms", 900000), ("300s", 300000000)):
        assert own_box.run(":", "sh", timeout=text).json["limits"]["timeout_usec"] == usec


def test_missing_file(own_box):
    refused(own_box.run(file="/nowhere/x.py"), 113, "No such file")


def test_directory(own_box):
    refused(own_box.run(file=own_box.directory()), 110, "is a directory", "--workspace")


@pytest.mark.skipif(not IS_ROOT, reason="somebody else's file needs root to make")
def test_unreadable_file(user_box):
    path = user_box.directory() / "x.py"
    path.write_text("print(1)")
    os.chown(path, 0, 0)
    path.chmod(0o600)
    refused(user_box.run(file=path), 113, "Permission denied")


def test_fifo(own_box):
    path = own_box.directory() / "x.py"
    os.mkfifo(path, 0o644)
    writer = threading.Thread(target=lambda: path.write_text("print('by fifo')"))
    writer.start()
    assert own_box.run(file=path).stdout == "by fifo\n"
    writer.join()


def test_device(own_box):
    refused(own_box.run(file="/dev/zero", lang="python"), 110, "neither a file nor a pipe")


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_too_much_code(own_box, how):
    if how == "file":
        path = own_box.directory() / "big.py"
        with open(path, "wb") as file:
            file.truncate(64 << 20)
        refused(own_box.run(file=path), 114, "16 MB")
    else:
        process = own_box.start(file="-", stdin=subprocess.PIPE)
        try:
            process.stdin.write(b"#" * (64 << 20))
        except BrokenPipeError:
            pass
        refused(own_box.finish(process), 114, "16 MB")


def test_much_code(own_box):
    path = own_box.directory() / "big.py"
    path.write_bytes(b"#" * (15 << 20) + b"\nprint('end')\n")
    assert own_box.run(file=path).stdout == "end\n"


def test_binary_code(own_box):
    path = own_box.directory() / "x.py"
    path.write_bytes(b"\x7fELF\2\1\1" + bytes(100))
    refused(own_box.run(file=path), 110, "compiled program")
    path.write_bytes(b"print(1)\0print(2)\n")
    refused(own_box.run(file=path), 110, "NUL")


def test_code_that_is_not_utf8(own_box):
    path = own_box.directory() / "x.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\nprint(len('\xe9'))\n")
    assert own_box.run(file=path).stdout == "1\n"
    path.write_bytes(b"print('\xe9')\n")
    result = own_box.run(file=path)
    assert result.verdict == "error" and "SyntaxError" in result.stderr


def test_empty_code(own_box):
    assert own_box.run("").verdict == "ok"


def test_names(own_box):
    assert own_box.run("import sys; print(sys.argv[0].split('/')[-1])", name="my file.py").stdout == "my file.py\n"
    for name in ("../x.py", "a/b.py", "-x.py", ".", "", "a\nb.py", "x" * 300 + ".py"):
        refused(own_box.run("print(1)", name=name), 110, "--name")


USAGE = [
    (["run"], "nothing to run"), (["run", "-c"], "-c"), (["run", "-c", "1", "-c", "2"], "twice"), (["run", "-c", "1", "file.py"], "both"),
    (["run", "--nonsense", "-c", "1"], "nonsense"), (["run", "--timeot", "5", "-c", "1"], "--timeout"), (["run", "a.py", "b.py"], "b.py"),
    (["rnu"], "run"), (["run", "--json=5", "-c", "1"], "json"), (["run", "--user", "0", "-c", "1"], "root"), (["run", "--user", "70000", "-c", "1"], "65533"),
    (["run", "--network", "bridge", "-c", "1"], "none"), (["run", "--trust", "nobody", "-c", "1"], "nobody"), (["run", "--allow-weaker", "seccomp", "-c", "1"], "seccomp"),
]


@pytest.mark.parametrize("argv,word", USAGE, ids=[" ".join(a) for a, _ in USAGE])
def test_usage(own_box, argv, word):
    result = own_box.call(*argv)
    assert result.returncode in (110, 111), result.explain()
    assert result.out == b"" and result.err.startswith(b"glovebox: ") and word in result.err.decode()


MOUNTS = {
    "/nowhere:/data": (113, "/nowhere"), "/etc": (110, "SOURCE:TARGET"), "/etc:/": (110, "cannot be /"), "/etc:/usr/x": (110, "belongs to the box"),
    "/etc:/data/../etc": (110, ".."), "/etc:relative": (110, "absolute"), "/dev/null:/data": (110, "only directories and regular files"),
    "/etc:/proc": (110, "belongs to the box"), ":/data": (110, "SOURCE"), "/etc:/data:rx": (110, ""), "/etc:/sandbox/x": (110, "belongs to the box"),
}


@pytest.mark.parametrize("text", MOUNTS)
def test_wrong_mounts(own_box, text):
    status, word = MOUNTS[text]
    refused(own_box.run("print(1)", mount=[text]), status, word)


def test_nested_mounts(own_box):
    a, b = own_box.directory(), own_box.directory()
    refused(own_box.run("print(1)", mount=[f"{a}:/data", f"{b}:/data/inner"]), 110, "cannot be nested")
    refused(own_box.run("print(1)", mount=[f"{a}:/data", f"{b}:/data"]), 110, "two mounts")


def test_missing_workspace(own_box):
    refused(own_box.run("print(1)", workspace="/nowhere/at/all"), 113, "make the directory first")


def test_workspace_that_is_a_file(own_box):
    path = own_box.directory() / "file"
    path.write_text("x")
    refused(own_box.run("print(1)", workspace=path), 110, "Not a directory")


def test_memory_below_what_the_language_needs(box):
    """When it cannot even start the message says how much it needs."""
    code = "x = bytearray(3 << 20); import json, decimal, email.message, asyncio"
    result = box.run(code, memory="4m" if box.has_cgroup else "8m")
    text = result.error["message"] if "error" in result.json else result.message
    assert result.verdict != "ok" if "verdict" in result.json else True, result.explain()
    if box.has_cgroup:
        assert result.returncode in (110, 111, 114, 118) and "python needs about 16 MB" in text, text
    else:
        assert "16 MB" in text, text
