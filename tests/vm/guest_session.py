# SPDX-License-Identifier: Apache-2.0
"""Sessions in the guest, through `glovebox repl` with its input from a pipe: one result for each line."""
import json
import subprocess

from guest_host import GLOVEBOX, PATIENCE

TEMPLATE = "forked from the template python"


def repl(place, lines, *flags):
    """The results of the lines, run one after the other in one session."""
    process = subprocess.Popen([GLOVEBOX, "repl", "--json", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                               env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}, preexec_fn=place.enter)
    out, err = process.communicate("".join(line + "\n" for line in lines).encode(), timeout=PATIENCE)
    results = [json.loads(line) for line in out.splitlines()]
    assert len(results) == len(lines), f"{len(results)} results for {len(lines)} lines\nstdout: {out[-3000:]}\nstderr: {err[-3000:]}"
    return results


def layout(result):
    return next(c["how"] for c in result["controls"] if c["name"] == "layout")


def warm_session(place):
    """From a template: state is kept, the child is in the session's cgroup and in no other."""
    first, second, third = repl(place, ["x = 41", "x + 1", "print(open('/proc/self/cgroup').read())"], "--template", "python")
    assert layout(first).startswith(TEMPLATE), layout(first)
    assert second["results"][0]["data"]["text/plain"] == "42", second
    assert third["verdict"]["kind"] == "ok", third
    assert 0 < third["peaks"]["memory_bytes"] < 64 << 20, third["peaks"]


def cold_session(place):
    first, second = repl(place, ["x = 41", "x + 1"], "--warm=false")
    assert layout(first).startswith("fresh exec"), layout(first)
    assert second["results"][0]["data"]["text/plain"] == "42", second


def memory_in_a_session(place):
    for warm in ["true", "false"]:
        first, second = repl(place, ["x = bytearray(200 << 20)", "1 + 1"], "--template", "python", "--memory", "64m", f"--warm={warm}")
        assert first["verdict"]["kind"] == "memory", first
        assert second["verdict"]["kind"] == "ok", second


def resisting_code(place):
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    for warm in ["true", "false"]:
        first, second = repl(place, [code, "1 + 1"], "--template", "python", "--timeout", "8s", f"--warm={warm}")  # an emulated interpreter starts within it
        assert first["verdict"]["kind"] == "timeout" and not first["state"]["kept"], first
        assert second["verdict"]["kind"] == "ok", second


SESSIONS = [warm_session, cold_session, memory_in_a_session, resisting_code]
