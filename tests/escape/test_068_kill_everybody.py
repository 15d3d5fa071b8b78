# SPDX-License-Identifier: Apache-2.0
"""68. Code inside kills everybody it can => its own processes only; when it kills itself the result says so.
"""


def test_kill_everybody(box):
    attack = box.attack("kill_everybody")
    assert attack.finished and attack.notes["still_here"] == "1", attack.result.explain()
    assert attack.notes["child"] == "SIGKILL"
    assert attack.notes["kill_init"] in ("0", "EPERM", "ESRCH")  # 0: the kernel drops what is sent to an init from inside


def test_killing_oneself_is_an_error_of_the_program(box):
    result = box.run("import os; print('token', flush=True); os.kill(os.getpid(), 9)")
    assert (result.stdout, result.verdict, result.signal, result.returncode) == ("token\n", "error", "SIGKILL", 137)
