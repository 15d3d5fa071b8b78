# SPDX-License-Identifier: Apache-2.0
"""Runs of the command line: what a program gets, and how it is told that it ended."""
import json
import os
import signal
import subprocess

from backends import CANNOT, WEAKER, can, told
from suite import wait_until

# Not about the backend: `layout` is weaker by `warm`, and AppArmor is one layer more where the host has it.
OTHERS = {"layout", "apparmor"}

EVERYTHING = """
import os, sys
print(sys.argv[1:], os.environ["GREETING"], sys.stdin.read(), os.getcwd())
print("to stderr", file=sys.stderr)
open("made", "w").write("by code")
sys.exit(7)
"""


def test_what_goes_in_and_out(backend, scratch):
    os.chown(scratch, 12345, 12346) if os.geteuid() == 0 else None
    result = backend.run(EVERYTHING, args=["a b", "--c"], env="GREETING=hällo", stdin=b"in\n", workspace=scratch)
    assert (result.verdict, result.exit_code, result.returncode, result.signal) == ("error", 7, 7, None), result.explain()
    assert (result.stdout, result.stderr) == ("['a b', '--c'] hällo in\n /sandbox\n", "to stderr\n"), result.explain()
    made = scratch / "made"
    assert made.read_text() == "by code"
    # What is made in a directory of the host belongs to the directory's owner there, whoever the code was inside.
    assert (made.stat().st_uid, made.stat().st_gid) == (scratch.stat().st_uid, scratch.stat().st_gid)
    assert result.json["backend"] == backend.policy.get("backend", "native")
    assert result.json["duration_ms"] > 0 and result.json["setup_ms"] > 0


def test_controls_are_those_of_the_table(backend):
    result = backend.run("print(1)")
    assert result.verdict == "ok", result.explain()
    states = {c["name"]: c["state"] for c in result.json["controls"]}
    assert {name for name, state in states.items() if state != "enforced"} - OTHERS == WEAKER[backend.name], result.json["controls"]
    assert all(c["how"] for c in result.json["controls"])


def test_a_weaker_control_must_be_allowed(backend):
    if not WEAKER[backend.name]:
        assert backend.run("1", "python", allow_weaker=None).verdict == "ok"
        return
    result = backend.run("print(1)", allow_weaker=None)
    assert result.error["code"] == "unenforceable" and any(name in result.error["message"] for name in WEAKER[backend.name]), result.explain()
    assert result.returncode == 112 and backend.containers() == []


def test_a_signal_ends_it(backend):
    result = backend.run("kill -SEGV $$", "bash")
    assert (result.verdict, result.exit_code, result.signal, result.returncode) == ("error", None, "SIGSEGV", 128 + signal.SIGSEGV), result.explain()


def test_the_time_limit(backend):
    result = backend.run("import signal, time\nfor s in range(1, 32):\n  if s not in (9, 19): signal.signal(s, signal.SIG_IGN)\nprint('on', flush=True)\ntime.sleep(60)", timeout="3s")
    assert (result.verdict, result.returncode, result.stdout) == ("timeout", 124, "on\n"), result.explain()
    assert 3000 <= result.json["duration_ms"] < 20000


def test_cancelled_by_the_caller(backend):
    process = backend.start("print('on', flush=True)\nwhile True: pass", events=True, json=False)
    while b"stdout" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    last = json.loads(out.splitlines()[-1])
    assert process.returncode == 130 and last["verdict"]["kind"] == "cancelled", last


def test_nothing_is_left_when_it_is_killed(backend):
    marker = os.urandom(8).hex()
    code = f"import subprocess, time\nsubprocess.Popen(['sh', '-c', 'sleep 1000; : {marker[:8]}' + '{marker[8:]}'])\nprint('on', flush=True)\ntime.sleep(1000)"
    process = backend.start(code, events=True, json=False)
    while b"stdout" not in process.stdout.readline():
        assert process.poll() is None
    # While a process is being executed it has no command yet.
    assert backend.name == "runsc" or wait_until(lambda: backend.processes_with(marker)), "the marker finds nothing"
    process.kill()
    process.communicate()
    assert wait_until(lambda: not backend.containers() and not backend.processes_with(marker), 10), \
        "it goes on after the kill"


def test_events_come_in_order(backend):
    code = "import sys, time\nfor i in range(5):\n  print(i, flush=True); time.sleep(0.05)\nprint('e', file=sys.stderr)"
    process = backend.start(code, events=True, json=False)
    events = [json.loads(line) for line in process.stdout]
    assert process.wait(20) == 0, process.stderr.read()
    process.stderr.close()
    kinds = [e["event"] for e in events]
    assert kinds[0] == "started" and kinds[-2:] == ["stderr", "verdict"], events
    # On a busy host two lines may have come before anybody looks: then they are one event.
    assert kinds.count("stdout") > 1 and "".join(e["data"] for e in events if e["event"] == "stdout") == "0\n1\n2\n3\n4\n", events
    times = [e["t_usec"] for e in events[:-1]]
    assert times == sorted(times) and times[-1] >= 200000


def test_bytes_that_are_no_text(backend):
    result = backend.run("cat; printf '\\377\\000x'", "sh", stdin=b"\x00\xfe")
    assert result.json["stdout_base64"] == "AP7/AHg=", result.explain()


def test_a_mount_of_the_host(backend, scratch):
    (scratch / "file").write_text("of the host")
    scratch.chmod(0o777)  # nothing but the mount is in the way
    code = "print(open('/data/file').read())\ntry: open('/data/new', 'w')\nexcept OSError as e: print(e.strerror)"
    result = backend.run(code, mount=f"{scratch}:/data")
    assert result.stdout == "of the host\nRead-only file system\n", result.explain()
    assert os.listdir(scratch) == ["file"]


def test_a_mount_of_somebody_else(backend, scratch):
    if os.geteuid() == 0:
        os.chown(scratch, 12345, 12346)
    result = backend.run("open('/data/new', 'w').write('by code')", mount=f"{scratch}:/data:rw")
    if can("mount_owner", backend.name):
        assert result.verdict == "ok" and (scratch / "new").stat().st_uid == scratch.stat().st_uid, result.explain()
    else:
        assert result.verdict == "error" and "Permission denied" in result.stderr and os.listdir(scratch) == [], (result.explain(), CANNOT["mount_owner"])


def test_who_it_is(backend):
    result = backend.run("import os; print(os.getuid(), os.getgid(), os.getgroups() in ([], [4242], [4243]))", user="4242:4243")
    assert result.stdout == "4242 4243 True\n", result.explain()


def test_a_root_directory(backend, scratch):
    result = backend.run("print(1)", rootfs=scratch)
    if can("rootfs", backend.name):  # it is used: and there is nothing in it
        assert result.error["code"] == "not_found" and "python3 is not installed in the box" in result.error["message"], result.explain()
    else:
        assert "root directory" in result.error["message"] and result.error["code"] in ("usage", "policy"), (result.explain(), CANNOT["rootfs"])


def test_a_runtime_can_be_chosen(backend):
    """With Podman: another than that of its service, which would be ignored."""
    result = backend.run("print(1)", runtime="runsc" if backend.name in ("podman", "runsc") else "runc")
    if can("runtime", backend.name):
        assert (result.verdict, result.stdout) == ("ok", "1\n"), result.explain()
    else:
        assert result.error["code"] in ("usage", "policy", "unenforceable") and "runtime" in result.error["message"], (result.explain(), CANNOT["runtime"])


def test_a_runtime_that_is_not_there(backend):
    """Podman ignores the field: it must be refused by us."""
    result = backend.run("print(1)", runtime="kata-of-nobody")
    assert result.error["code"] in ("usage", "policy", "unenforceable", "not_found"), result.explain()
    assert "runtime" in result.error["message"] and backend.containers() == [], told(result)


def test_an_image_that_is_not_there(backend):
    result = backend.run("print(1)", image="no-such-image-anywhere")
    assert result.error["code"] == "not_found" and "no-such-image-anywhere" in result.error["message"], result.explain()
    assert "glovebox image" in result.error["message"] + result.error.get("hint", ""), "the remedy is not told"


def test_a_host_name_of_its_own(backend):
    assert backend.run("uname -n", "sh").stdout == "glovebox\n"


def test_by_standard_input(backend):
    process = subprocess.run([str(backend.box.binary), "run", "--json", *[w for k, v in backend.options({}).items() for w in (f"--{k.replace('_', '-')}", str(v))], "-"],
                             input=b"print(6 * 7)", capture_output=True, env={**backend.box.environ}, timeout=60, check=False)
    assert json.loads(process.stdout)["stdout"] == "42\n", process
