"""The possible ends of a run: its verdict, the kind of a failure, how it stands. docs/formats.md lists the words."""

from __future__ import annotations

import enum

from ethos_hil.base.dataclasses import dataclass


class Verdict(enum.StrEnum):
    """The end of a run. Only `VERIFIED` is green; `ethos_hil.base.judge.decide` chooses it."""

    VERIFIED = "verified"
    """It ran, every output equals its reference, and nothing certain speaks against it in PyTorch's own answer."""
    COMPILED_ONLY = "compiled-only"
    """It was lowered; the user requested only this."""
    UNVERIFIED = "unverified"
    """It ran, and nothing says what is right: the failure names what is missing. Its outputs and cycles are in the
    record."""
    SKIPPED = "skipped"
    """It could not run: the failure names the capability that is missing."""
    FAILED = "failed"
    """It went wrong: the failure names the reason."""


_FROM_WORST = (Verdict.FAILED, Verdict.SKIPPED, Verdict.COMPILED_ONLY, Verdict.UNVERIFIED, Verdict.VERIFIED)


def rank(verdict: str) -> int:
    """Return how good a verdict is, 0 for the worst: a test whose verdict has a lower rank than before has regressed.

    Args:
        verdict: a verdict, or one with its failure's kind: "failed: mismatch".

    Raises:
        ValueError: it is not a verdict.
    """
    return _FROM_WORST.index(Verdict(verdict.partition(":")[0]))


class FailureKind(enum.StrEnum):
    """What went wrong, as a stable word for programs. A word is added, never changed."""

    # The answer.
    MISMATCH = "mismatch"
    """An output differs from its reference."""
    NO_REFERENCE = "no-reference"
    """The reference is missing, or gave no valid answer."""
    NO_BOUND = "no-bound"
    """In profiles MI and BI: no bound on the difference of the answers is known."""

    ACCURACY = "accuracy"
    """The answer is the reference's, and cannot be PyTorch's: see docs/formats.md."""
    OVERFLOW = "overflow"
    """An integer of the model does not fit the narrower type that it was lowered to."""
    DTYPE = "dtype"
    """An output has another type than in the model, and other values."""
    STATE = "state"
    """The model keeps something between its calls that the program does not keep."""

    # The run on a target.
    FAULT = "fault"
    """A CPU exception, an NPU fault, or an error that a runner reports."""
    TIMEOUT = "timeout"
    """The run did not end in time."""
    CRASHED = "crashed"
    """The simulator ended."""
    LINK = "link"
    """Frames are damaged, missing or incomplete."""
    STALE_OUTPUT = "stale-output"
    """The answer belongs to another run."""
    MISSING_OUTPUT = "missing-output"
    """A runner left no output file."""
    DAMAGED_OUTPUT = "damaged-output"
    """A runner's output file has the wrong size."""
    WRONG_PROGRAM = "wrong-program"
    """The device runs another image or program, or the firmware is for another board."""
    OUT_OF_MEMORY = "out-of-memory"
    """The program does not fit."""
    UNSUPPORTED = "unsupported"
    """The firmware lacks an operator, or the functional NPU does not know an operation's arithmetic."""
    NPU_MISMATCH = "npu-mismatch"
    """The program is for another NPU, memory mode or command stream version."""
    BOARD_RULE = "board-rule"
    """The program did what a real part may not forgive: it broke a rule of the strict virtual board."""
    PROFILE = "profile"
    """The cycles of a profile contradict one another."""
    HAZARD = "hazard"
    """With --strict-waits: the NPU's command stream lacks a wait."""
    PARSE = "parse"
    """The functional NPU found an invalid command stream."""
    BUS = "bus"
    """The functional NPU found an access outside a region, or a write to a read-only region."""

    # The way to a board.
    PROBE = "probe"
    """The debug probe, or its server, refused something, stopped answering or ended."""
    READBACK = "readback"
    """The board's memory does not have what was written to it."""
    WRONG_BOARD = "wrong-board"
    """Another board, NPU or firmware answers than the board's file says."""
    LOST_BOARD = "lost-board"
    """The board started again by itself, or lost its power."""
    LEASED = "leased"
    """Someone else uses the board."""

    # Before the run.
    USAGE = "usage"
    """The arguments or the model cannot be used."""
    COMPILE = "compile"
    """The model cannot be exported, quantised or compiled."""
    NOT_AVAILABLE = "not-available"
    """A tool is missing or does not work."""
    NOT_LAUNCHED = "not-launched"
    """The target did not start."""
    LICENCE = "licence"
    """An FVP lacks its licence."""
    CACHE = "cache"
    """The cache of lowered models cannot be used."""
    INTERNAL = "internal"
    """A defect of the harness."""

    # The suites.
    CAPABILITY = "capability"
    """The target, the firmware or the environment lacks something that the test needs. The verdict is `SKIPPED`."""
    DELEGATION = "delegation"
    """Nothing is on the NPU, or less than was asked for, or other operators than a test declares."""
    UNMAPPED = "unmapped"
    """An NPU operation has no known operator of the model."""
    DECLARATION = "declaration"
    """The test is right, but its declaration says that it must be wrong."""
    NO_RECORDING = "no-recording"
    """There is no recording to replay."""
    STALE_RECORDING = "stale-recording"
    """The recording is for another question."""
    DAMAGED_RECORDING = "damaged-recording"
    """The recording cannot be read."""
    RECORDING = "recording"
    """A recording cannot be written."""
    RECORDS = "records"
    """A record cannot be written."""

    OTHER = "other"
    """A word from a later version of this program; the message starts with it."""


NOT_ATTEMPTED = frozenset(
    {
        FailureKind.NOT_LAUNCHED,
        FailureKind.TIMEOUT,
        FailureKind.LINK,
        FailureKind.LICENCE,
        FailureKind.PROBE,
        FailureKind.READBACK,
        FailureKind.LOST_BOARD,
        FailureKind.LEASED,
    }
)
"""Kinds of failures after which another attempt counts in place of the first: the target, or the way to it, may have
failed, and not what was tested. A nightly makes a second attempt where the target is not a program of ours."""


@dataclass(frozen=True)
class Failure:
    """Why a run is not verified: a stable word, the message, and a hint."""

    kind: FailureKind
    message: str
    hint: str | None = None


class Standing(enum.StrEnum):
    """A verdict, or a failure that is known; the terminal of the suites has the same words."""

    VERIFIED = "verified"
    FAILED = "failed"
    MISSING = "missing"
    UNVERIFIED = "unverified"
    DEFECT = "known defect"
    """It fails for the defect that its test declares."""
    QUARANTINED = "quarantined"
    """It fails, and may for a while."""
    REFUSED = "refused"
    """A point of a benchmark that could not be made."""
    SKIPPED = "skipped"
    COMPILED_ONLY = "compiled-only"

    @property
    def letter(self) -> str:
        """Its letter."""
        return self.value[0].upper() if self is not Standing.DEFECT else "D"

    @property
    def spoken(self) -> str:
        """What follows the letter where it is read aloud: "erified"."""
        return self.value[1:] if self.letter == self.value[0].upper() else f", {self.value}"

    @property
    def red(self) -> bool:
        """Whether someone has to look at it."""
        return self in RED


RED = frozenset({Standing.FAILED, Standing.MISSING, Standing.UNVERIFIED})
"""What someone has to look at; a verdict is in it by its word."""
WORST = (Standing.MISSING, Standing.FAILED, Standing.UNVERIFIED, Standing.QUARANTINED, Standing.DEFECT,
         Standing.REFUSED, Standing.SKIPPED, Standing.COMPILED_ONLY, Standing.VERIFIED)  # fmt: skip
