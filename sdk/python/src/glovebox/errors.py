# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by type.

Three kinds, all of them a GloveboxError:

* an answer of the server that is an error: one class for each code of the one list of errors (include/glovebox/error.h);
* no answer: ConnectionFailed;
* a run that did not end well, when that was asked for: VerdictError, from Result.raise_for_verdict().

    >>> try:
    ...     box.files.read("missing")
    ... except glovebox.NotFoundError as error:
    ...     print(error.code, error.status)
    not_found 404
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Tuple, Type

if TYPE_CHECKING:
    from .findings import Findings
    from .results import Result, Verdict


class GloveboxError(Exception):
    """The base of all errors of this package.

    code: of the list of errors ("not_found"), or a word of this package's own; message: what happened; hint: what to do about it, or "";
    details: a dict, of which the field that is wrong is one ("field"); status: of HTTP, or None when there was no answer.
    """

    code = "internal"

    def __init__(self, message: str, *, code: Optional[str] = None, hint: str = "", details: Optional[Mapping[str, Any]] = None,
                 status: Optional[int] = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.hint = hint
        self.details: Dict[str, Any] = dict(details or {})
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(cls: Type[GloveboxError], message: str, state: Dict[str, Any]) -> GloveboxError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


# ---- answers ----


class UsageError(GloveboxError):
    """A field, a parameter or an address is wrong. details["field"] names it where there is one."""

    code = "usage"


class PolicyError(GloveboxError):
    """A value of the policy is wrong."""

    code = "policy"


class UnenforceableError(GloveboxError):
    """The host cannot enforce a control that the policy asks for; nothing was run."""

    code = "unenforceable"


class NotFoundError(GloveboxError):
    """There is no such session, run, file, language or template; or not any more."""

    code = "not_found"


class LimitError(GloveboxError):
    """Above a maximum."""

    code = "limit"


class InternalError(GloveboxError):
    """glovebox itself failed."""

    code = "internal"


class LostError(GloveboxError):
    """The outcome is not known."""

    code = "lost"


class UnauthorizedError(GloveboxError):
    """No token, or none that counts."""

    code = "unauthorized"


class DeniedError(GloveboxError):
    """The token lacks the right, or the caller may not ask for that."""

    code = "denied"


class ConflictError(GloveboxError):
    """Busy: the interpreter runs something already; or a key was used for something else."""

    code = "conflict"


class TooLargeError(GloveboxError):
    """More than the server takes in one request, or than the caller wants to have."""

    code = "too_large"


class _TryLater(GloveboxError):
    """retry_after: seconds after which it may work, or None."""

    retry_after: Optional[float] = None


class QuotaError(_TryLater):
    """The tenant has as much as it may have. retry_after: seconds, or None."""

    code = "quota"


class UnavailableError(_TryLater):
    """The server is full, or ends. retry_after: seconds, or None."""

    code = "unavailable"


class DiskFullError(GloveboxError):
    """The workspace is full, or the host's disk."""

    code = "disk_full"


class MethodError(GloveboxError):
    """Not at this address: the server is of another version, or no glovebox."""

    code = "method"


class MediaError(GloveboxError):
    """A content type that the server does not read or write."""

    code = "media"


class ProtocolError(GloveboxError):
    """Not HTTP as it should be, or not what this API would answer."""

    code = "protocol"


class Code(NamedTuple):
    """A row of the list of errors."""

    error: Type[GloveboxError]
    status: int


#: The list of include/glovebox/error.h: code to exception and status of HTTP.
CODES: Dict[str, Code] = {
    "usage": Code(UsageError, 400),
    "policy": Code(PolicyError, 400),
    "unenforceable": Code(UnenforceableError, 503),
    "not_found": Code(NotFoundError, 404),
    "limit": Code(LimitError, 400),
    "internal": Code(InternalError, 500),
    "lost": Code(LostError, 500),
    "unauthorized": Code(UnauthorizedError, 401),
    "denied": Code(DeniedError, 403),
    "conflict": Code(ConflictError, 409),
    "too_large": Code(TooLargeError, 413),
    "quota": Code(QuotaError, 429),
    "unavailable": Code(UnavailableError, 503),
    "disk_full": Code(DiskFullError, 507),
    "method": Code(MethodError, 405),
    "media": Code(MediaError, 415),
    "protocol": Code(ProtocolError, 400),
}


def error_from_object(error: Any, status: Optional[int] = None, retry_after: Optional[float] = None) -> GloveboxError:
    """The exception for the error object of the API. A code that is not known here (a newer server's) is a GloveboxError."""
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code")
    message = fields.get("message")
    hint = fields.get("hint")
    details = fields.get("details")
    row = CODES.get(code) if isinstance(code, str) else None
    made: GloveboxError = (row.error if row else GloveboxError)(
        message if isinstance(message, str) else f"the server answered with status {status} and no explanation",
        code=code if isinstance(code, str) else None,
        hint=hint if isinstance(hint, str) else "",
        details=details if isinstance(details, dict) else None,
        status=status if status is not None else row.status if row else None)
    if isinstance(made, _TryLater):
        made.retry_after = retry_after
    return made


# ---- no answer ----


class ConnectionFailed(GloveboxError):
    """The server is not there, or went away and did not come back. sent: whether it may have got the request."""

    code = "connection"
    sent = False
    stale = False  # on a connection that was kept from before, without any answer
    hangs = False  # it is there, and says nothing


class NotInstalled(ConnectionFailed):
    """There is no server, and no program `glovebox` that could be started as one."""


# ---- verdicts ----


class VerdictError(GloveboxError):
    """A run did not end well. result: all that is known of it; verdict: why it ended."""

    code = "verdict"
    result: "Result"
    verdict: "Verdict"


class ErrorVerdict(VerdictError):
    """The code failed by itself: an exception, or a status that is not 0."""

    code = "error"


class TimeoutVerdict(VerdictError):
    """It took longer than its time limit."""

    code = "timeout"


class CpuVerdict(VerdictError):
    """It used up its processor time."""

    code = "cpu"


class MemoryVerdict(VerdictError):
    """The kernel killed a process of the box for the memory limit."""

    code = "memory"


class PidsVerdict(VerdictError):
    """Too many processes or threads."""

    code = "pids"


class DiskVerdict(VerdictError):
    """A place that can be written to was full."""

    code = "disk"


class OutputVerdict(VerdictError):
    """It printed more than its limit."""

    code = "output"


class SyscallVerdict(VerdictError):
    """It was killed for a system call."""

    code = "syscall"


class BlockedVerdict(VerdictError):
    """The code was refused before it ran. findings: by which rules, where, and what to do instead."""

    code = "blocked"

    @property
    def findings(self) -> "Findings":
        return self.result.guard


class CancelledVerdict(VerdictError):
    """Somebody cancelled it."""

    code = "cancelled"


class LostVerdict(VerdictError):
    """The server or the host failed under the run; its outcome is not known."""

    code = "lost"


#: Verdict to exception; "ok" has none.
VERDICTS: Dict[str, Type[VerdictError]] = {
    cls.code: cls
    for cls in (ErrorVerdict, TimeoutVerdict, CpuVerdict, MemoryVerdict, PidsVerdict, DiskVerdict, OutputVerdict, SyscallVerdict,
                BlockedVerdict, CancelledVerdict, LostVerdict)
}


def verdict_error(result: "Result") -> VerdictError:
    """The exception for a result whose verdict is not ok."""
    verdict, explained = result.verdict, result.verdict.message
    if verdict == "error" and result.error is not None:
        explained = f"{result.error.name}: {result.error.value}"
    made = VERDICTS.get(verdict.kind, VerdictError)(explained or verdict.kind, code=verdict.kind)
    made.result, made.verdict = result, verdict
    return made
