# SPDX-License-Identifier: Apache-2.0
"""102. Programs end in every way: exit codes, signals, memory, time, limits => distinct verdicts, never guessed from a number such as 137.
"""


def test_distinct_verdicts(box):
    runs = {
        "ok": box.run("exit 0", "sh"),
        "error": box.run("exit 137", "sh"),
        "timeout": box.run("sleep 100", "sh", timeout="200ms"),
        "output": box.run("while :; do echo xxxxxxxxxxxxxxxx; done", "sh", output_limit="4k"),
        "syscall": box.attack("crash", "sys").result,
        "disk": box.run("head -c 50000000 /dev/zero > /sandbox/f", "sh", disk="1m"),
    }
    if box.has_cgroup:
        runs["memory"] = box.attack("memory_bomb", memory="32m").result
        runs["cpu"] = box.run("while :; do :; done", "sh", cpu_time="200ms")
    for kind, result in runs.items():
        assert result.verdict == kind, (kind, result.explain())
    assert len({result.returncode for result in runs.values()}) == len(runs)


def test_exit_137_is_not_a_signal(box):
    result = box.run("exit 137", "sh")
    assert (result.verdict, result.exit_code, result.signal) == ("error", 137, None)
    result = box.run("exit 124", "sh")
    assert (result.verdict, result.exit_code) == ("error", 124)
