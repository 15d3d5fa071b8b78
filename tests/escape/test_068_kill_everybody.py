# SPDX-License-Identifier: Apache-2.0
"""68. Code inside kills everybody it can => its own processes only; when it kills itself the result says so.
"""
from conftest import wait_until
from server import Server, in_threads


def test_kill_everybody(box):
    attack = box.attack("kill_everybody")
    assert attack.finished and attack.notes["still_here"] == "1", attack.result.explain()
    assert attack.notes["child"] == "SIGKILL"
    assert attack.notes["kill_init"] in ("0", "EPERM", "ESRCH")  # 0: the kernel drops what is sent to an init from inside


def test_killing_oneself_is_an_error_of_the_program(box):
    result = box.run("import os; print('token', flush=True); os.kill(os.getpid(), 9)")
    assert (result.stdout, result.verdict, result.signal, result.returncode) == ("token\n", "error", "SIGKILL", 137)


KILLER = "echo up; while :; do kill -9 -1 2>/dev/null; done"  # everybody in the session but itself and init


def is_true(answer):
    """Whether an answer about `exit 5` can be true while a neighbour kills every process: the program ended by itself,
    was killed, or never began. Any other answer was made up."""
    if answer.status != 200:
        return answer.json["error"]["code"] == "lost", answer.json
    result = answer.json["result"]
    observed = result["verdict"]["kind"], result["exit_code"], result["signal"]
    return observed in (("error", 5, None), ("error", None, "SIGKILL")), observed


def test_programs_that_start_beside_a_killer_have_true_results():
    with Server() as server:
        path = "/v1/sessions/" + server.session(template=None)
        killer = server.post(f"{path}/runs", {"language": "sh", "code": KILLER, "context": None, "timeout": 60,
                                              "detach": True}).expect(202).json
        wait_until(lambda: server.get(f"/v1/runs/{killer['id']}").json["state"] == "running", 20)

        def start_some(_):
            return [is_true(server.post(f"{path}/runs", {"language": "sh", "code": "exit 5", "context": None}))
                    for _ in range(25)]

        answers = [a for some in in_threads([lambda i=i: start_some(i) for i in range(4)]) for a in some]
        assert len(answers) == 100 and all(ok for ok, _ in answers), [seen for ok, seen in answers if not ok][:5]
        assert server.get(f"/v1/runs/{killer['id']}").json["state"] == "running"  # it was there all the time
        server.delete(path).expect(204)
