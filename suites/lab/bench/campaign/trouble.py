"""What may happen to a board and its users, and which endings of a run are right then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ethos_hil.base.verdict import FailureKind
from ethos_hil.suites.lab.bench.faults import BenchFault

VERIFIED = "verified"
"""The run ended with the right answer."""
KILLED = "killed"
"""The process of the run was ended before it had an answer."""
NO_END = "no end"
"""The run did not end in time, nor within its grace."""


class Human(StrEnum):
    """What people and other programs do."""

    SECOND_USER = "second-user"
    """Another harness wants the board at the same time."""
    DEBUGGER = "debugger"
    """Someone has a debugger at the gdb server, which halts the board."""
    TERMINAL = "terminal"
    """Someone has the serial port open, for that program alone."""
    SIGINT = "sigint"
    """Ctrl-C, in the middle of a run."""
    SIGTERM = "sigterm"
    SIGKILL = "sigkill"


Trouble = BenchFault | Human
TROUBLES: tuple[Trouble, ...] = (*BenchFault, *Human)


@dataclass(frozen=True)
class RightEndings:
    """How a run may end when it has a trouble. It may always be verified, unless the trouble does not let it.

    Attributes:
        kinds: of failures.
        silences: whether the board may fall silent for good, so that a run ends by its time limit.
        prevents: whether no run can be verified; one that ends before the trouble starts can.
    """

    kinds: frozenset[str]
    silences: bool = False
    prevents: bool = False


def _right(*kinds: str, silences: bool = False, prevents: bool = False) -> RightEndings:
    return RightEndings(frozenset(kinds), silences, prevents)


# The answer is sent once, and a part of it was lost or damaged; or so much is lost that nothing is understood at all.
_LINE = _right(FailureKind.LINK, FailureKind.TIMEOUT, silences=True)
# An upload stands still, or nothing comes any more.
_SILENT = _right(FailureKind.LINK, FailureKind.TIMEOUT, silences=True)
# The server ended or fell silent in the middle, no one listens at its port, or the run's time was over before its own.
_PROBE_IS_GONE = _right(FailureKind.PROBE, FailureKind.NOT_LAUNCHED, FailureKind.TIMEOUT, silences=True)
_ENDED = _right(KILLED)
RIGHT: Mapping[Trouble, RightEndings] = {
    BenchFault.DROP: _LINE,
    BenchFault.REPEAT: _LINE,
    BenchFault.CORRUPT: _LINE,
    BenchFault.INSERT: _LINE,
    BenchFault.DELAY: _LINE,  # it stands still more than it moves, or the port does not take a kilobyte within seconds
    BenchFault.CUT: _SILENT,
    BenchFault.RESET: _right(FailureKind.LOST_BOARD),  # the firmware says that it has started again
    BenchFault.HANG: _SILENT,
    # Memory is empty, and no one is there to say so; or the debugger sees it; or its server loses the board.
    BenchFault.BROWN_OUT: _right(*_SILENT.kinds, FailureKind.LOST_BOARD, FailureKind.PROBE, silences=True),
    BenchFault.UNPLUG: _right(FailureKind.LINK, FailureKind.NOT_LAUNCHED),  # gone, perhaps before it was opened
    BenchFault.NPU_HANG: _right(FailureKind.TIMEOUT),  # the firmware waits for the NPU so long, and reports it
    BenchFault.NPU_DEAD: _right(FailureKind.WRONG_BOARD, prevents=True),  # no NPU answers where the file says one is
    BenchFault.STUCK: _right(FailureKind.READBACK),  # what was written is not what is read
    BenchFault.GDB_DIES: _PROBE_IS_GONE,
    BenchFault.GDB_MUTE: _PROBE_IS_GONE,
    Human.SECOND_USER: _right(FailureKind.LEASED),  # the other one did not end in time
    # The server answers only the debugger that came first, or the run's time was over before the server's.
    Human.DEBUGGER: _right(FailureKind.PROBE, FailureKind.TIMEOUT, silences=True),
    Human.TERMINAL: _right(FailureKind.NOT_LAUNCHED, prevents=True),  # the port cannot be opened
    Human.SIGINT: _ENDED,
    Human.SIGTERM: _ENDED,
    Human.SIGKILL: _ENDED,
}
"""For each trouble, the endings that are right."""
