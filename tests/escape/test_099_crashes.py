# SPDX-License-Identifier: Apache-2.0
"""99. Code inside crashes in every way => the signal is named, no core file is left, no crash handler of the host is started.
"""
import pytest


CRASHES = {"segv": ("SIGSEGV", 139), "bus": ("SIGBUS", 135), "abrt": ("SIGABRT", 134), "fpe": ("SIGFPE", 136), "stack": ("SIGSEGV", 139), "ill": ("SIGILL", 132), "kill": ("SIGKILL", 137)}


@pytest.mark.parametrize("how", CRASHES)
def test_crashes(box, how):
    workspace = box.directory("workspace")
    attack = box.attack("crash", how, workspace=workspace)
    assert attack.notes["start"] == "1"
    assert (attack.result.verdict, attack.result.signal, attack.result.returncode) == ("error", *CRASHES[how]), attack.result.explain()
    assert attack.result.exit_code is None
    assert not list(workspace.iterdir())


def test_no_crash_handler(box):
    """Where core_pattern is a pipe the kernel starts the handler as root, with the dead program's
    memory, whatever the limit of core files is; only a limit of exactly 1 byte forbids it."""
    attack = box.attack("core_limit")
    attack.assert_refused("EPERM", "EINVAL")
    assert (attack.notes["soft"], attack.notes["hard"]) == ("1", "1")
