# SPDX-License-Identifier: Apache-2.0
"""Programs under the AppArmor profile for them: Debian's kernel has it, most test machines have not."""
import json
import pathlib
import subprocess

import guest_session
from guest_host import USER, Place, Skip

DIRECTORY = "/usr/local/share/glovebox/apparmor"
NATIVE, CONTAINER, TOOL = "glovebox-native", "glovebox-container", "agentcore-python-sandbox"
ENABLED = pathlib.Path("/sys/module/apparmor/parameters/enabled")
SECURITYFS = pathlib.Path("/sys/kernel/security")

# What a program sees and may do, as one JSON object.
LOOK = """
import ctypes, errno, json, os, socket, subprocess, threading, pathlib
libc = ctypes.CDLL(None, use_errno=True)
def attempt(function):
    try:
        function()
    except OSError as e:
        return errno.errorcode[e.errno]
    return "ok"
def label():
    return open("/proc/thread-self/attr/apparmor/current").read().strip()
def loopback():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as there:
            listener.accept()[0].sendall(b"x")
            assert there.recv(1) == b"x"
def mount():
    if libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
def trace(pid):
    if libc.ptrace(16, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
def foreign_name():
    done = threading.Event()
    t = threading.Thread(target=done.wait)
    t.start()
    try:
        pathlib.Path(f"/proc/self/task/{t.native_id}/comm").write_text("named")
    finally:
        done.set()
        t.join()
def own_program():
    place = pathlib.Path("/tmp/own")
    place.write_bytes(pathlib.Path("/bin/true").read_bytes())
    place.chmod(0o755)
    subprocess.run([place], check=True)
child = subprocess.run(["python3", "-c", "print(open('/proc/self/attr/apparmor/current').read())"], stdout=subprocess.PIPE, text=True)
print(json.dumps({
    "label": label(), "child": child.stdout.strip(), "loopback": attempt(loopback), "foreign_name": attempt(foreign_name),
    "own_program": attempt(own_program), "file": attempt(lambda: pathlib.Path("/tmp/file").write_text("x")),
    "look_at_child": attempt(lambda: open("/proc/%d/stat" % os.getpid()).read()),
    "oom_score": attempt(lambda: pathlib.Path("/proc/self/oom_score_adj").write_text("500")),
    "timerslack": attempt(lambda: pathlib.Path("/proc/self/timerslack_ns").write_text("1")),
    "coredump": attempt(lambda: pathlib.Path("/proc/self/coredump_filter").write_text("1")),
    "leave": attempt(lambda: pathlib.Path("/proc/self/attr/apparmor/current").write_text("changeprofile unconfined")),
    "on_exec": attempt(lambda: pathlib.Path("/proc/self/attr/apparmor/exec").write_text("exec unconfined")),
    "mount": attempt(mount), "trace": attempt(lambda: trace(os.getppid())),
    "raw": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)), "packet": attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "sysctl": attempt(lambda: pathlib.Path("/proc/sys/kernel/hostname").write_text("other")),
    "signal": attempt(lambda: os.kill(os.getppid(), 0)),
    "chown": attempt(lambda: os.chown("/tmp/file", 12, 12)),
    "sys": attempt(lambda: pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")),
    "engine": attempt(lambda: open("/run/docker.sock").close()),
}))
"""
ALLOWED = ["loopback", "own_program", "file", "look_at_child"]
REFUSED = ["oom_score", "timerslack", "coredump", "leave", "on_exec", "mount", "trace", "raw", "packet", "sysctl", "sys"]
ALONE = ["signal", "chown", "engine"]  # in a box there is nobody to signal, no file of others, and no socket


def parse(*argv):
    done = subprocess.run(["apparmor_parser", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def control(result):
    return next(c for c in result["controls"] if c["name"] == "apparmor")


def judge(seen, profile, allowed, refused):
    assert seen["label"] == seen["child"] == f"{profile} (enforce)", seen
    assert all(seen[key] == "ok" for key in allowed), seen
    assert not any(seen[key] == "ok" for key in refused), seen


def profile_alone(profile):
    """As root with every capability and no other confinement, so that nothing but the profile can be what refuses."""
    def change():
        pathlib.Path("/proc/thread-self/attr/apparmor/current").write_text(f"changeprofile {profile}")

    pathlib.Path("/run/docker.sock").write_text("")
    done = subprocess.run(["python3", "-c", LOOK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=change)
    assert done.returncode == 0, done.stderr
    judge(json.loads(done.stdout), profile, [*ALLOWED, "foreign_name"], [*REFUSED, *ALONE])


def check(place, result):
    assert result["verdict"]["kind"] == "ok", result
    assert control(result) == {"name": "apparmor", "state": "enforced", "how": "the profile glovebox-native"}, control(result)
    seen = json.loads(result["stdout"])
    judge(seen, NATIVE, ALLOWED, REFUSED)


def not_loaded(place):
    """Without the profile everything works, and the control says what to do."""
    if not ENABLED.exists() or ENABLED.read_text().strip() != "Y":
        raise Skip("this kernel has no AppArmor")
    if not (SECURITYFS / "apparmor").exists():
        subprocess.run(["mount", "-t", "securityfs", "securityfs", SECURITYFS], check=True)
    result = place.run("print(1)").expect("ok")
    assert result.control("apparmor") == {"name": "apparmor", "state": "off", "how": f"the profile is not loaded: apparmor_parser -r -W {DIRECTORY}/{NATIVE}"}, result
    assert not any("apparmor" in note for note in result.json["notes"]), result
    for profile in [NATIVE, CONTAINER, TOOL]:
        parse("-r", f"{DIRECTORY}/{profile}")


def one_shot(place):
    check(place, place.run(LOOK, "--guard", "off").expect("ok").json)  # which refuses to look for an engine's socket


def in_a_session(place, *flags):
    code = "exec(" + repr(LOOK) + ")"
    first, second = guest_session.repl(place, [code, code], "--guard", "off", *flags)
    check(place, first)
    check(place, second)
    return guest_session.layout(first)


def cold(place):
    assert in_a_session(place, "--warm=false").startswith("fresh exec")


def warm(place):
    assert in_a_session(place, "--template", "python").startswith(guest_session.TEMPLATE)


def ends(place):
    """The warden's signals arrive."""
    place.run("import time; time.sleep(60)", "--timeout", "1s").expect("timeout")


def tests():
    places = [Place("root", 0, "system.slice/test.service"), Place("user", USER, "user/leaf")]
    yield "apparmor/not_loaded", not_loaded, places[1]
    for profile in [NATIVE, CONTAINER, TOOL]:
        yield f"apparmor/alone/{profile}", profile_alone, profile
    for place in places:
        for test in [one_shot, cold, warm, ends, *guest_session.SESSIONS]:
            yield f"apparmor/{place.name}/{test.__name__}", test, place
