"""One root for every error a user can meet, split by whose fault it is.

The command line prints `message` and `hint` on one line and exits with `exit_status`; with --debug it shows the
traceback as well. `kind` is the stable word that goes into the JSON (`failure.kind`).
"""

from __future__ import annotations


class EthosHilError(Exception):
    """Root of all errors with a message meant for the user.

    Attributes:
        kind: stable word for machines ("usage", "not-launched", "mismatch", ...).
        message: what was wrong, where, and what was found.
        hint: what to do about it, or None.
        exit_status: 1 verification failed or fault on the target, 2 unusable arguments or model,
            3 target or tool not available.
    """

    kind = "internal"
    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if kind is not None:
            self.kind = kind

    def __str__(self) -> str:
        """The message as it is now: who passes an error on may have added to it."""
        return self.message


class UsageError(EthosHilError):
    """The arguments or the model cannot be used as given."""

    kind = "usage"
    exit_status = 2


class ToolError(EthosHilError):
    """A tool or target that is needed is missing or does not work."""

    kind = "not-available"
    exit_status = 3


class CompileError(UsageError):
    """The model cannot be exported, quantised or compiled."""

    kind = "compile"


class OracleError(EthosHilError):
    """The oracle is missing or gave no usable answer: never a pass."""

    kind = "no-reference"


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from or during, the innermost last."""
    chain = [error]
    while True:
        last = chain[-1]
        following = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if following is None or following in chain:
            return chain
        chain.append(following)


def raise_if_interrupted(error: BaseException) -> None:
    """Raises KeyboardInterrupt when one is behind `error`: libraries wrap those that hit them in mid-import."""
    if any(isinstance(link, KeyboardInterrupt) for link in causes(error)):
        raise KeyboardInterrupt from error
