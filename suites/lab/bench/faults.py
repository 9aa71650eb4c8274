"""What can go wrong on the bench, and how a command line names it: `[to-board.|to-host.]NAME[:ARGUMENT]...`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ethos_hil.base.errors import UsageError


class BenchFault(StrEnum):
    """A kind of fault. The comments say what the arguments are, and their defaults."""

    DROP = "drop"
    """Bytes on the line are lost: mean number of bytes between two faults (5000)."""
    REPEAT = "repeat"
    """Bytes come twice: mean distance (5000)."""
    CORRUPT = "corrupt"
    """A byte comes with some of its bits turned: mean distance (5000)."""
    INSERT = "insert"
    """Bytes come that no one sent: mean distance (5000)."""
    DELAY = "delay"
    """The line stands still for a while: mean distance (20000), milliseconds at most (400)."""
    CUT = "cut"
    """Nothing passes any more: bytes before that (0)."""
    OVERRUN = "overrun"
    """The UART loses what arrives while bytes are older than that: milliseconds (20)."""
    RESET = "reset"
    """The board resets by itself: bytes on the line before that, both directions together (1000)."""
    HANG = "hang"
    """The processor stops for good: bytes on the line before that (1000)."""
    BROWN_OUT = "brown-out"
    """Power goes and comes back: bytes on the line before that (1000)."""
    UNPLUG = "unplug"
    """The serial cable is pulled: the device is gone, and later there under another name. Bytes before that (1000)."""
    NPU_HANG = "npu-hang"
    """A job of the NPU never ends: which one since the start (1)."""
    NPU_DEAD = "npu-dead"
    """The NPU does not answer: its registers read as zero."""
    STUCK = "stuck"
    """One bit of a memory is stuck: address, bytes (1), mask of the bit (1), its value (0)."""
    GDB_DIES = "gdb-dies"
    """The gdb server ends: packets that it takes before that (50)."""
    GDB_MUTE = "gdb-mute"
    """The gdb server takes packets and answers none: packets before that (50)."""
    GDB_LIES = "gdb-lies"
    """The gdb server lies about memory: mean number of bytes between two lies (20000), and which (0): 0 what it reads,
    1 what it wrote, so that memory has something else than it reads."""


class Way(StrEnum):
    """A direction of the serial line."""

    TO_BOARD = "to-board"
    TO_HOST = "to-host"


ON_THE_LINE = (
    BenchFault.DROP,
    BenchFault.REPEAT,
    BenchFault.CORRUPT,
    BenchFault.INSERT,
    BenchFault.DELAY,
    BenchFault.CUT,
)
"""Those that have a direction."""
_DEFAULTS: dict[BenchFault, tuple[int | None, ...]] = {
    BenchFault.DROP: (5000,),
    BenchFault.REPEAT: (5000,),
    BenchFault.CORRUPT: (5000,),
    BenchFault.INSERT: (5000,),
    BenchFault.DELAY: (20000, 400),
    BenchFault.CUT: (0,),
    BenchFault.OVERRUN: (20,),
    BenchFault.RESET: (1000,),
    BenchFault.HANG: (1000,),
    BenchFault.BROWN_OUT: (1000,),
    BenchFault.UNPLUG: (1000,),
    BenchFault.NPU_HANG: (1,),
    BenchFault.NPU_DEAD: (),
    BenchFault.STUCK: (None, 1, 1, 0),
    BenchFault.GDB_DIES: (50,),
    BenchFault.GDB_MUTE: (50,),
    BenchFault.GDB_LIES: (20000, 0),
}
"""The arguments of each, and their defaults; None for one that has to be given."""
_LEAST_DISTANCE = 2


@dataclass(frozen=True)
class FaultSpec:
    """One fault, as it was asked for.

    Attributes:
        kind: what.
        arguments: all of its kind.
        ways: the directions of the line that have it; () where it is not the line's.
    """

    kind: BenchFault
    arguments: tuple[int, ...]
    ways: tuple[Way, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FaultSpec:
        """Return what a text names, e.g. "to-board.drop:2000".

        Raises:
            UsageError: it names nothing; says what there is.
        """
        name, *words = text.split(":")
        ways: tuple[Way, ...] = tuple(Way)
        for way in Way:
            if name.startswith(f"{way}."):
                name, ways = name.removeprefix(f"{way}."), (way,)
        if name not in list(BenchFault):
            raise UsageError(f"the bench has no fault {name!r}", hint=f"there are {', '.join(BenchFault)}")
        kind = BenchFault(name)
        if kind not in ON_THE_LINE and len(ways) == 1:
            raise UsageError(f"the fault {kind} has no direction, found {text!r}", hint=f"write {kind}")
        defaults = _DEFAULTS[kind]
        try:
            numbers = [int(word, 0) for word in words]
        except ValueError:
            raise UsageError(f"the fault {text!r} has an argument that is not a number", hint=_form(kind)) from None
        if len(numbers) > len(defaults) or any(number < 0 for number in numbers):
            raise UsageError(f"the fault {text!r} has arguments that it does not take", hint=_form(kind))
        arguments = (*numbers, *(default for default in defaults[len(numbers) :] if default is not None))
        if len(arguments) < len(defaults):
            raise UsageError(f"the fault {text!r} lacks an argument", hint=_form(kind))
        spaced = (kind in ON_THE_LINE and kind is not BenchFault.CUT) or kind is BenchFault.GDB_LIES
        if spaced and arguments[0] < _LEAST_DISTANCE:
            raise UsageError(f"the fault {text!r} would strike every byte", hint=f"say {_LEAST_DISTANCE} or more")
        return cls(kind, arguments, ways if kind in ON_THE_LINE else ())


def _form(kind: BenchFault) -> str:
    """Return how a fault is written, with its defaults."""
    return "write " + ":".join([kind, *("NUMBER" if default is None else str(default) for default in _DEFAULTS[kind])])
