# SPDX-License-Identifier: Apache-2.0
"""glovebox run: languages, streams, statuses, arguments, variables, results."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

BOX_PATH = "/usr/local/bin:/usr/bin:/bin"
HELLO = {
    "python": "print('hello', 6 * 7)",
    "bash": "a=(6 7); echo hello $((a[0] * a[1]))",
    "sh": "echo hello $((6 * 7))",
    "node": "console.log('hello', 6 * 7)",
    "perl": 'print "hello ", 6 * 7, "\\n";',
    "ruby": "puts 'hello ' + (6 * 7).to_s",
    "php": "<?php echo 'hello ', 6 * 7, \"\\n\";",
    "lua": "print('hello ' .. 6 * 7)",
    "awk": 'BEGIN { print "hello", 6 * 7 }',
    "c": '#include <stdio.h>\nint main(void) { printf("hello %d\\n", 6 * 7); }',
    "c++": '#include <iostream>\nint main() { std::cout << "hello " << 6 * 7 << "\\n"; }',
}
COMMANDS = {"python": "python3", "c": "cc", "c++": "c++"}


@pytest.mark.parametrize("lang", HELLO)
def test_languages(box, lang):
    installed = shutil.which(COMMANDS.get(lang, lang), path=BOX_PATH)
    # V8 reserves address space that only a limit by address space counts.
    result = box.run(HELLO[lang], lang, memory="512m" if box.has_cgroup else "8g")
    if installed:
        assert (result.stdout, result.verdict, result.json["language"]) == ("hello 42\n", "ok", lang), result.explain()
    else:
        assert (result.returncode, result.error["code"]) == (113, "not_found")
        assert "not installed" in result.error["message"]


@pytest.mark.smoke
def test_compile_error_is_an_error_while_compiling(box):
    result = box.run("int main(void) { return x; }", "c")
    assert (result.verdict, result.json["phase"]) == ("error", "compile"), result.explain()
    assert "undeclared" in result.stderr and result.returncode == result.exit_code != 0


def test_language_by_extension(own_box):
    directory = own_box.directory()
    for name, code in (("a.py", "print('py')"), ("a.sh", "echo sh"), ("a.pl", "print 'pl'")):
        (directory / name).write_text(code)
        assert own_box.run(file=directory / name).stdout.strip() == name[2:]
    (directory / "noext").write_text("echo x")
    result = own_box.run(file=directory / "noext")
    assert result.returncode in (110, 113) and "--lang" in result.error["message"], result.explain()
    assert own_box.run(file=directory / "noext", lang="sh").stdout == "x\n"


def test_unknown_language(own_box):
    result = own_box.run("x", "pyhton")
    assert result.returncode == 113 and "python" in result.error["message"], result.explain()


@pytest.mark.smoke
def test_code_from_stdin(own_box):
    result = own_box.run(file="-", stdin=b"import sys; print(repr(sys.stdin.read()))")
    assert result.stdout == "''\n"


@pytest.mark.smoke
def test_arguments(box):
    words = ["a b", "", "--json", "-c", "*", "$HOME", "\u20ac", "x\ny"]
    result = box.run("import sys, json; print(json.dumps(sys.argv[1:]))", args=words)
    assert json.loads(result.stdout) == words


@pytest.mark.smoke
def test_environment(box):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    result = box.run(code, env=["A=1", "B=x=y", "EMPTY=", "HOME=/tmp", "A=2"], environ={"SECRET": "of the caller", "LD_PRELOAD": ""})
    env = json.loads(result.stdout)
    assert (env["A"], env["B"], env["EMPTY"], env["HOME"]) == ("2", "x=y", "", "/tmp")
    assert "SECRET" not in env and "LD_PRELOAD" not in env
    assert set(env) <= {"A", "B", "EMPTY", "HOME", "PATH", "USER", "LOGNAME", "LANG", "TMPDIR", "TERM", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONSAFEPATH", "LC_CTYPE", "PWD"}


@pytest.mark.parametrize("text", ["=x", "A", "1A=x", "A B=x", "A-B=x", "\u00e9=x"])
def test_wrong_variables(own_box, text):
    result = own_box.run("print(1)", env=[text])
    assert (result.returncode, result.error["code"]) == (110, "usage"), result.explain()
    assert result.error["message"].startswith("--env: ")


def test_exit_codes(own_box):
    for code in [*range(0, 8), *range(100, 150), 254, 255]:
        result = own_box.run(f"exit {code}", "sh")
        assert (result.returncode, result.exit_code, result.verdict) == (code, code, "error" if code else "ok")


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM", "KILL", "USR1", "PIPE", "SEGV"])
def test_signals(box, name):
    result = box.run(f"kill -{name} $$", "sh")
    assert (result.signal, result.exit_code, result.verdict) == (f"SIG{name}", None, "error"), result.explain()
    assert result.returncode == 128 + getattr(signal, f"SIG{name}")


@pytest.mark.smoke
def test_json_shape(box):
    result = box.run("import sys; print('out'); print('err', file=sys.stderr)")
    j = result.json
    assert set(j) == {"id", "verdict", "exit_code", "signal", "phase", "duration_ms", "cpu_ms", "setup_ms", "stdout", "stderr", "truncated", "peaks",
                      "limits", "policy", "language", "backend", "controls", "notes", "guard", "scrubbed"}
    assert (j["guard"], j["scrubbed"]) == ({"findings": [], "more": 0}, {"total": 0, "names": {}})
    assert set(j["verdict"]) == {"kind", "message", "limit", "peak", "unit"}
    assert set(j["peaks"]) == {"memory_bytes", "cpu_usec", "pids", "disk_bytes", "inodes", "output_bytes"}
    assert len(j["id"]) == 32 and (j["stdout"], j["stderr"], j["peaks"]["output_bytes"]) == ("out\n", "err\n", 8)
    assert {c["name"] for c in j["controls"]} >= {"namespaces", "seccomp", "landlock", "memory", "network", "cleanup"}
    assert all(set(c) == {"name", "state", "how"} for c in j["controls"])
    assert result.out.count(b"\n") == 1


@pytest.mark.smoke
def test_events(box):
    result = box.run("import sys, time\nprint('one', flush=True)\ntime.sleep(0.5)\nprint('two', file=sys.stderr, flush=True)\ntime.sleep(0.5)\nprint('three')",
                     json=False, events=True)
    events = [json.loads(line) for line in result.out.splitlines()]
    assert [(e["event"], e.get("data")) for e in events] == [("started", None), ("stdout", "one\n"), ("stderr", "two\n"), ("stdout", "three\n"), ("verdict", None)]
    times = [e["t_usec"] for e in events if "t_usec" in e]
    assert times == sorted(times)
    assert events[-1]["verdict"]["kind"] == "ok" and "stdout" not in events[-1]


def test_error_as_event(own_box):
    result = own_box.run("x", json=False, events=True, timeout="0")
    events = [json.loads(line) for line in result.out.splitlines()]
    assert [e["event"] for e in events] == ["error"] and events[0]["error"]["code"] in ("usage", "policy")


def test_json_and_events_exclude_each_other(own_box):
    assert own_box.run("x", json=True, events=True).returncode == 110


@pytest.mark.smoke
def test_output_streams_live(box):
    """What is printed arrives while the program still runs."""
    process = box.start("print('first', flush=True); input(); print('second')", json=False, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"first\n"
    assert process.poll() is None
    assert box.finish(process, b"go\n").out == b"second\n"


@pytest.mark.smoke
def test_stderr_and_verdict_line(box):
    result = box.run("import sys; print('err', file=sys.stderr)", json=False, quiet=True)
    assert (result.out, result.err) == (b"", b"err\n")
    result = box.run("sleep 100", "sh", json=False, timeout="100ms")
    assert result.returncode == 124 and b"glovebox: timeout: Stopped by the time limit of 100 ms" in result.err


def test_large_output(own_box):
    result = own_box.run("import sys\nfor _ in range(100): sys.stdout.write('x' * 1048576)", json=False, output_limit="200m")
    assert len(result.out) == 100 << 20 and result.returncode == 0


def test_reader_that_leaves(own_box):
    """| head -1: ends soon, with the status of a broken pipe, and quietly."""
    process = own_box.start("while :; do echo line; done", "sh", json=False, output_limit="1g")
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    process.stdout = None
    start = time.monotonic()
    result = own_box.finish(process)
    assert result.returncode == 141 and time.monotonic() - start < 20
    assert b"rror" not in result.err.replace(b"not enforced in full", b""), result.err


@pytest.mark.parametrize("mode", ["plain", "json", "events"])
def test_full_disk_on_output(own_box, mode):
    with open("/dev/full", "wb") as full:
        result = own_box.finish(own_box.start("print('x')", json=mode == "json", events=mode == "events", stdout=full))
    assert result.returncode == 115, result.explain()
    assert b"No space left on device" in result.err


def test_closed_output(own_box):
    result = own_box.finish(own_box.start("print('x')", json=False, stdout=None, popen={"preexec_fn": lambda: os.close(1)}))
    assert result.returncode in (0, 115), result.explain()


def test_many_at_once(box, no_leaks):
    runs = [box.start(f"print({i})") for i in range(20)]
    for i, run in enumerate(runs):
        result = box.finish(run)
        assert (result.stdout, result.verdict) == (f"{i}\n", "ok"), result.explain()


def test_many_one_after_the_other(own_box, no_leaks):
    for _ in range(100):
        assert own_box.call("run", "-q", "--allow-weaker", "cgroup", "--lang", "sh", "-c", ":").returncode == 0
