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
    SERVER_KILLED = "server-killed"
    """The gdb server that the harness has started gets SIGKILL."""


Trouble = BenchFault | Human
TROUBLES: tuple[Trouble, ...] = (*BenchFault, *Human)


@dataclass(frozen=True)
class RightEndings:
    """How a run may end when it has a trouble. It may always be verified, unless the trouble does not let it.

    Attributes:
        kinds: of failures, each with the reason why it is right.
        silences: whether the board may fall silent for good, so that a run ends by its time limit.
        prevents: why no run can be verified; "" where one can, such as when it ends before the trouble starts.
    """

    kinds: Mapping[str, str]
    silences: bool = False
    prevents: str = ""


_DAMAGED_ANSWER = "the answer is sent once, and a part of it was lost or damaged"
_LOUD_LINE = "so much is lost that nothing is understood at all"
_LINE = RightEndings(
    {FailureKind.LINK: _DAMAGED_ANSWER, FailureKind.TIMEOUT: _LOUD_LINE},
    silences=True,
)
_PROBE_IS_GONE = RightEndings(
    {
        FailureKind.PROBE: "the server ended or fell silent in the middle",
        FailureKind.NOT_LAUNCHED: "no one listens at its port",
        FailureKind.TIMEOUT: "the run's time was over before the server's",
    },
    silences=True,
)
_ENDED = RightEndings({KILLED: "it was"})
RIGHT: Mapping[Trouble, RightEndings] = {
    BenchFault.DROP: _LINE,
    BenchFault.REPEAT: _LINE,
    BenchFault.CORRUPT: _LINE,
    BenchFault.INSERT: _LINE,
    BenchFault.DELAY: RightEndings(
        {
            FailureKind.TIMEOUT: "it stands still more than it moves",
            FailureKind.LINK: "it is so slow that the port does not take a kilobyte within seconds",
        },
        silences=True,
    ),
    BenchFault.CUT: RightEndings(
        {FailureKind.LINK: "an upload stands still", FailureKind.TIMEOUT: "nothing comes any more"}, silences=True
    ),
    BenchFault.OVERRUN: RightEndings({FailureKind.LINK: "no chunk arrives whole"}),
    BenchFault.RESET: RightEndings({FailureKind.LOST_BOARD: "the firmware says that it has started again"}),
    BenchFault.HANG: RightEndings(
        {FailureKind.LINK: "an upload stands still", FailureKind.TIMEOUT: "nothing comes any more"}, silences=True
    ),
    BenchFault.BROWN_OUT: RightEndings(
        {
            FailureKind.LINK: "an upload stands still: memory is empty, and no one is there to say so",
            FailureKind.TIMEOUT: "nothing comes any more: memory is empty",
            FailureKind.LOST_BOARD: "the debugger sees it",
            FailureKind.PROBE: "the server loses the board",
        },
        silences=True,
    ),
    BenchFault.UNPLUG: RightEndings(
        {FailureKind.LINK: "the port is gone", FailureKind.NOT_LAUNCHED: "the port was gone before it was opened"}
    ),
    BenchFault.NPU_HANG: RightEndings({FailureKind.TIMEOUT: "the firmware waits for the NPU so long, and reports it"}),
    BenchFault.NPU_DEAD: RightEndings(
        {FailureKind.WRONG_BOARD: "no NPU answers where the file says that one is"}, prevents="there is no NPU"
    ),
    BenchFault.STUCK: RightEndings({FailureKind.READBACK: "what was written is not what is read"}),
    BenchFault.GDB_DIES: _PROBE_IS_GONE,
    BenchFault.GDB_MUTE: _PROBE_IS_GONE,
    BenchFault.GDB_LIES: RightEndings(
        {
            FailureKind.READBACK: "what is read, or the firmware's own checksum, is not what was written",
            FailureKind.PROBE: "a register in memory reads as it cannot be",
            FailureKind.TIMEOUT: "other instructions are in memory than were written, and they do anything",
            FailureKind.FAULT: "the same, and the firmware could say so",
            FailureKind.LINK: "the same, and the firmware sends nonsense",
            FailureKind.LOST_BOARD: "the same, and the firmware starts again",
            FailureKind.MISMATCH: "the same, in a variable's first value",
        },
        silences=True,
    ),
    Human.SECOND_USER: RightEndings({FailureKind.LEASED: "the other one did not end in time"}),
    Human.DEBUGGER: RightEndings(
        {
            FailureKind.PROBE: "the server answers only the debugger that came first",
            FailureKind.TIMEOUT: "the run's time was over before the server's",
        },
        silences=True,
    ),
    Human.TERMINAL: RightEndings(
        {FailureKind.NOT_LAUNCHED: "the port cannot be opened"}, prevents="another program has the port"
    ),
    Human.SIGINT: _ENDED,
    Human.SIGTERM: _ENDED,
    Human.SIGKILL: _ENDED,
    Human.SERVER_KILLED: RightEndings(
        {FailureKind.PROBE: "the connection is lost", FailureKind.NOT_LAUNCHED: "it did not listen yet"}
    ),
}
"""For each trouble, the endings that are right, and why."""
