# SPDX-License-Identifier: Apache-2.0
"""An ending: code, and each outcome that is true of it. The programs themselves are in tests/endings.py."""
import collections

GRACE_MSEC = 2000  # between an interrupt and the kill

Outcome = collections.namedtuple("Outcome", "kind exit_code signal phase error kept", defaults=("run", None, None))


def exited(status):
    """The program called exit()."""
    return Outcome("ok" if status == 0 else "error", status, None)


def killed(signal):
    """The program was killed by a signal of its own."""
    return Outcome("syscall" if signal == "SIGSYS" else "error", None, signal)


def ended_by(kind, signal="SIGKILL"):
    """glovebox ended it."""
    return Outcome(kind, None, signal)


def kept(kind="ok", error=None, exit_code=None):
    """In a context: the code is through and its interpreter goes on. A shell has the status of its last command, and so
    has Python that code of it has left by sys.exit()."""
    return Outcome(kind, exit_code, None, "run", error, True)


def gone(outcome):
    """In a context: the interpreter itself has ended."""
    return outcome._replace(kept=False)


class Ending:
    """`stdout` is the whole output, or a function that judges it; None: not looked at. `cancel` is for programs that
    print a line and go on until they are cancelled: None, "interrupt" or "kill". `late` is the outcome of a program
    that obeys an interrupt but had no processor for the two seconds that it is given. `spoils`: a session in which
    this has run is not the same afterwards, such as one with a full disk."""

    def __init__(self, name, language, code, *outcomes, stdout="", cancel=None, late=None, spoils=False, **fields):
        self.name, self.language, self.code, self.outcomes = name, language, code, outcomes
        self.stdout, self.cancel, self.late, self.spoils, self.fields = stdout, cancel, late, spoils, fields

    def __repr__(self):
        return f"{self.name} ({self.language})"

    def may_be_cancelled(self):
        """It may be killed at any moment; the status or signal of an end of its own stays true."""
        own = [
            o._replace(kind="cancelled") for o in self.outcomes if o.exit_code is not None or o.signal is not None
        ]
        kills = [ended_by("cancelled")]
        compiling = [o._replace(phase="compile") for o in kills if self.language == "c"]
        self.outcomes, self.stdout = (*self.outcomes, *own, *kills, *compiling), None
        return self

    def request(self):
        return {"code": self.code, "language": self.language, **self.fields}

    def problem(self, result):
        """What is wrong with this result, in a line; None: it is one of those that are true."""
        found = outcome_of(result)
        if not isinstance(found, Outcome):
            return found
        wrong = contradiction(found)
        if wrong:
            return wrong
        is_late = found == self.late and result["duration_ms"] >= GRACE_MSEC
        if found not in self.outcomes and not is_late:
            return f"{show(found)}, instead of {' or '.join(map(show, self.outcomes))}"
        if callable(self.stdout):
            good = self.stdout(result["stdout"])
        else:
            good = self.stdout is None or result["stdout"] == self.stdout
        if not good:
            return f"a wrong output: {result['stdout'][:200]!r}"
        return None


def show(outcome):
    return " ".join(
        f"{name}={value}"
        for name, value in outcome._asdict().items()
        if value is not None and (name, value) != ("phase", "run")
    )


def outcome_of(result):
    """The outcome in a result object, or a line that says why it is not a result."""
    if not isinstance(result, dict) or "verdict" not in result:
        return f"no verdict: {result}"
    error = result.get("error")
    return Outcome(
        result["verdict"]["kind"],
        result["exit_code"],
        result["signal"],
        result["phase"],
        error and error["name"],
        result["state"]["kept"] if "state" in result else None,
    )


def contradiction(o):
    """Contradictions that no result may have, whatever was run."""
    if o.exit_code is not None and not 0 <= o.exit_code <= 255:
        return f"there is no exit status {o.exit_code}: {show(o)}"
    if o.exit_code is not None and o.signal is not None:
        return f"a status and a signal: {show(o)}"
    if o.kind == "ok" and (o.signal or o.exit_code not in ((None, 0) if o.kept else (0,))):
        return f"ok, with a failure: {show(o)}"
    if o.kind == "error" and o.exit_code in (None, 0) and o.signal is None and o.error is None:
        return f"an error without an exit status, a signal or an error: {show(o)}"
    if o.kept and o.signal is not None:
        return f"the interpreter goes on, and has ended: {show(o)}"
    if o.kept and o.exit_code is not None and (o.exit_code == 0) != (o.error is None) and o.kind in ("ok", "error"):
        return f"an exit status that does not fit the error: {show(o)}"
    return None
