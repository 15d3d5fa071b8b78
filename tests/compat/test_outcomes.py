# SPDX-License-Identifier: Apache-2.0
"""How the five modules report the end of a run. The results are made up, so no box is needed; real results are tested
beside each module."""
import signal

import pytest

import glovebox
from glovebox.compat import _backend, _env_files, agentcore, annie, dolphin, ironclaw, policy
from glovebox.errors import LimitError
from glovebox.events import VerdictEvent


def result(kind, exit_code=None, signal=None, error=None, **more):
    return glovebox.Result({"verdict": {"kind": kind, "message": f"It was {kind}."}, "exit_code": exit_code,
                            "signal": signal, "error": error, "stdout": "out\n", "stderr": "",
                            "state": {"kept": False}, **more})


SYSTEM_EXIT = {"name": "SystemExit", "value": "0", "traceback": "t"}
SEGFAULT = result("error", signal="SIGSEGV")
LOST = result("lost")


@pytest.mark.parametrize("ended, code", [
    (result("ok"), 0), (result("error", exit_code=3), 3), (SEGFAULT, -signal.SIGSEGV),
    (result("error", signal="SIGKILL"), -9),
    (result("error", error={"name": "ValueError", "value": "", "traceback": ""}), 1),
    (result("error", exit_code=7, error=dict(SYSTEM_EXIT, value="7")), 7),
    (result("error", exit_code=1, error=dict(SYSTEM_EXIT, value="7")), 1),  # sys.exit("7")
    (result("timeout", signal="SIGKILL"), 124), (result("memory", signal="SIGKILL"), 118), (result("cancelled"), 130),
    # It has caught the interrupt of its time limit and ended well: its time was over all the same.
    (result("timeout", error=SYSTEM_EXIT), 124), (result("output", exit_code=0), 121),
    (result("error"), None),  # the interpreter was ended, and its status is not known
])
def test_annie_returns_what_was_seen(ended, code):
    answer = annie._answer(ended, [])
    assert answer["returncode"] == code and type(answer["returncode"]) is type(code)
    assert code == 0 or ended.error is not None or ended.verdict.message in answer["stderr"]


@pytest.mark.parametrize("ended", [LOST, result("lost", exit_code=0), result("of the future")])
def test_annie_raises_when_the_outcome_is_not_known(ended):
    with pytest.raises(glovebox.VerdictError) as caught:
        annie._answer(ended, [])
    assert caught.value.result is ended


@pytest.mark.parametrize("ended", [SEGFAULT, LOST, result("timeout")])
def test_no_module_is_silent_about_an_end_without_an_exception(ended):
    assert ended.verdict.message in dolphin._text(ended)
    assert [ended.verdict.message + "\n"] == [each["content"] for each in ironclaw._messages(VerdictEvent(1, ended))]
    told = agentcore._tool_result(ended)
    assert not told.success and ended.verdict.message in told.error
    assert told.metadata["exit_code"] is None and told.metadata["duration"] is None
    settings = {"trust": "t", "origin": "o", "network_mode": "none", "read_only": True, "guard": "on", "scrub": "on"}
    outcome = policy._outcome(ended, settings, [])
    assert not outcome.success and outcome.message == ended.verdict.message
    assert outcome.exit_code is None and outcome.usage == {}


class Box:
    """Runs nothing: returns the given results."""

    def __init__(self, shadow):
        self.shadow = shadow

    def run(self, code, check=False, stdin=None, **_):
        made = self.shadow if stdin is not None else result("ok", exit_code=0)
        return made.raise_for_verdict() if check else made


class Manager:
    def __init__(self, box, place):
        self._box, self.workspace = box, place

    def get_or_create_container(self):
        return self._box


@pytest.mark.parametrize("shadow", [LOST, result("timeout"), result("blocked"), result("cancelled"), result("error", signal="SIGKILL", stdout=""),
                                    result("error", exit_code=254, stdout="", stderr="fork: retry: Resource temporarily unavailable")])
def test_a_question_without_an_answer_proves_no_isolation(shadow, tmp_path):
    with pytest.raises(glovebox.VerdictError):
        ironclaw.verify(Manager(Box(shadow), tmp_path))


@pytest.mark.parametrize("shadow, held", [
    (result("ok", stdout="Permission denied\n"), True), (result("ok", stdout="No such file or directory\n"), True),
    (result("ok", stdout="it can be opened\n"), False), (result("ok", stdout="root:x:0:0\n"), False), (result("ok", stdout=""), False),
])
def test_the_proof_is_the_refusal_of_the_file(shadow, held, tmp_path):
    checks = {check.name: check.held for check in ironclaw.verify(Manager(Box(shadow), tmp_path))}
    assert checks["cannot read /etc/shadow"] is held


def test_files_that_stay_are_told(tmp_path, monkeypatch):
    def fails(place):
        raise PermissionError(13, "Permission denied", str(place))
    monkeypatch.setattr(dolphin.shutil, "rmtree", fails)
    with pytest.raises(PermissionError):
        dolphin._remove(tmp_path)
    monkeypatch.undo()
    dolphin._remove(tmp_path / "not there")


@pytest.mark.parametrize("status, error", [
    (200, None), (404, _backend.ImageNotFound), (500, _backend.DockerNotAvailable),
])
def test_an_engine_that_does_not_say_has_no_image(status, error, monkeypatch):
    monkeypatch.setattr(_backend, "engine_socket", lambda: "/s")
    monkeypatch.setattr(_backend, "_ask", lambda path, method, target: (200 if target == "/_ping" else status, None))
    if error is None:
        _backend.check_engine("image")
        return
    with pytest.raises(error):
        _backend.check_engine("image")


def test_secrets_beyond_the_bound_of_a_file_are_not_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(_env_files, "BYTES_MAX", 32)
    (tmp_path / ".env").write_text("A=" + "x" * 30)
    assert _env_files.values(tmp_path) == [("A", "x" * 30)]
    (tmp_path / ".env").write_text("# " + "-" * 40 + "\nPASSWORD=correct horse\n")
    with pytest.raises(LimitError):
        _env_files.values(tmp_path)
