"""The root of all errors that a user can meet, and its branches by cause.

The command line prints `message` and `hint` on one line and exits with `exit_status`; with --debug it prints the
traceback as well. `kind` goes into the JSON (`failure.kind`).
"""

from __future__ import annotations

import errno
import importlib.util
import resource
import sys
from collections.abc import Callable
from typing import Any, Self

from ethos_hil.base.plain_text import escape
from ethos_hil.base.verdict import Failure, FailureKind


class EthosHilError(Exception):
    """Root of all errors with a message for the user.

    An error never changes: `replace` returns another one, for a caller that knows more.

    Attributes:
        kind: what went wrong, for programs.
        message: what was wrong, where, and what was found.
        hint: what to do about it, or None.
        console: the target's console output so far, line by line.
        exit_status: 1 verification failed or fault on the target, 2 unusable arguments or model,
            3 target or tool not available.
    """

    kind: FailureKind = FailureKind.INTERNAL
    message: str
    hint: str | None
    console: tuple[str, ...]
    exit_status = 1

    def __init__(
        self, message: str, *, hint: str | None = None, kind: FailureKind | None = None, console: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.console = message, hint, tuple(console)
        self.kind = type(self).kind if kind is None else kind
        self.__notes__ = _notes(hint)  # Python and notebooks print it below the message

    def __str__(self) -> str:
        """Return the message, with escapes for control characters: it may quote a target or a file."""
        return escape(self.message, keep="\t\n")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[type[Self], tuple[Any, ...], dict[str, Any]]]:
        """Pickle and copy it field by field: constructors of subclasses have other arguments."""
        return _rebuilt, (type(self), self.args, dict(self.__dict__))

    @property
    def failure(self) -> Failure:
        """Return the failure for a record."""
        return Failure(self.kind, self.message, self.hint)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other fields, with the same traceback and cause.

        Args:
            changes: new values of kind, message, hint and console.
        """
        hint = changes.get("hint", self.hint)
        old = _notes(self.hint)
        notes = [*_notes(hint), *(note for note in self.__notes__ if note not in old)]
        fields = {**self.__dict__, **changes, "__notes__": notes}
        other: Self = _rebuilt(type(self), (changes.get("message", self.message),), fields)
        other.__cause__, other.__context__ = self.__cause__, self.__context__
        other.__suppress_context__ = self.__suppress_context__
        return other.with_traceback(self.__traceback__)


def _notes(hint: str | None) -> list[str]:
    return [escape(hint, keep="\t\n")] if hint else []


def _rebuilt(cls: type[Any], args: tuple[Any, ...], fields: dict[str, Any]) -> Any:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class UsageError(EthosHilError):
    """The arguments or the model cannot be used as given."""

    kind = FailureKind.USAGE
    exit_status = 2


class ToolError(EthosHilError):
    """A tool or target is missing or does not work."""

    kind = FailureKind.NOT_AVAILABLE
    exit_status = 3


class CompileError(UsageError):
    """The model cannot be exported, quantised or compiled."""

    kind = FailureKind.COMPILE


class OracleError(EthosHilError):
    """The oracle is missing or gave no usable answer. This never counts as a pass."""

    kind = FailureKind.NO_REFERENCE


class UndefinedAnswer(OracleError):
    """The oracle ran and says that its answer is not valid: TOSA does not define one."""


class TargetError(EthosHilError):
    """Something went wrong on the target, or on the way to it; `kind` names it."""

    kind = FailureKind.FAULT


class LinkError(TargetError):
    """What came over the link is damaged, incomplete or contradicts itself, or nothing comes any more."""

    kind = FailureKind.LINK


class TargetNotAvailable(ToolError):
    """The target could not be started: `NOT_LAUNCHED`, or `LICENCE` where an FVP lacks one."""

    kind = FailureKind.NOT_LAUNCHED


class HarnessError(EthosHilError):
    """The harness, or what drives it, is at fault: not the user, a tool or the device."""

    kind = FailureKind.INTERNAL
    exit_status = 70  # as for any other defect (harness/cli/main.py)


class StateError(HarnessError):
    """A method was called in a state that it is not for."""


def causes(error: BaseException) -> list[BaseException]:
    """Return the error and the errors that it was raised from or during, the innermost last."""
    chain = [error]
    while True:
        last = chain[-1]
        following = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if following is None or following in chain:
            return chain
        chain.append(following)


def raise_if_interrupted(error: BaseException) -> None:
    """Raise KeyboardInterrupt when it caused `error`: libraries wrap an interrupt that comes during an import."""
    if any(isinstance(link, KeyboardInterrupt) for link in causes(error)):
        raise KeyboardInterrupt from error


def error_of_exit(end: SystemExit) -> UsageError:
    """Return the error for sys.exit() in code that is not ours: its status is not the verdict's."""
    return UsageError(
        f"the model's code, or a library, ended the program with status {end.code}", hint="--debug shows where"
    )


_REMEDIES = {
    errno.ENOSPC: "free some space, or set TMPDIR to a folder with more",
    errno.EDQUOT: "free some space, or set TMPDIR to a folder with more",
    errno.EFBIG: "raise the limit of the sizes of files: ulimit -f unlimited",
    errno.EROFS: "set TMPDIR to a folder that can be written",
    errno.EAGAIN: "end other processes, or raise the limit: ulimit -u",
    errno.ENOMEM: "end other processes, or raise the limit: ulimit -v",
    errno.ENOSYS: "the kernel, or a sandbox around this program, lacks a system call; --debug shows which",
    errno.EIO: "look for a defect of the disk or of the terminal",
}
DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def shortage(error: BaseException) -> ToolError | None:
    """Return the error for a shortage that caused `error`, or None if there is none."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package and package not in sys.modules and importlib.util.find_spec(package) is None:
        return ToolError(f"{package} is not installed", hint="`ethos-hil doctor` lists what is missing")
    for cause in causes(error):
        if isinstance(cause, MemoryError):
            return ToolError("out of memory", hint=_REMEDIES[errno.ENOMEM])
        if isinstance(cause, RuntimeError) and "can't start new thread" in str(cause):  # Python drops its EAGAIN
            return ToolError("no thread can be started", hint=_REMEDIES[errno.EAGAIN])
        if not isinstance(cause, OSError):
            continue
        place = f": {cause.filename}" if cause.filename is not None else ""
        if cause.errno in DESCRIPTORS:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return ToolError(
                f"too many open files{place}; this process may have {limit}", hint="raise the limit: ulimit -n 1024"
            )
        if cause.errno in _REMEDIES:
            return ToolError(f"{cause.strerror}{place}", hint=_REMEDIES[cause.errno])
    return None


def unforeseen(error: BaseException) -> EthosHilError:
    """Return what a worker's record says of an error: itself; of one that was not foreseen a shortage, or a defect."""
    if isinstance(error, EthosHilError):
        return error
    return shortage(error) or EthosHilError(
        f"{type(error).__name__}: {error}".partition("\n")[0], kind=FailureKind.INTERNAL
    )
