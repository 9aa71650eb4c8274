"""What can go wrong on the bench, how a command line names it (`[to-board.|to-host.]NAME[:ARGUMENT]...`), and what the
faults of the serial line do to its bytes.
"""

from __future__ import annotations

import random
from collections import Counter
from enum import StrEnum

from ethos_hil.base.dataclasses import dataclass
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

    @property
    def counts_bytes(self) -> bool:
        """Whether it happens after a number of bytes on the line."""
        others = (BenchFault.RESET, BenchFault.HANG, BenchFault.BROWN_OUT, BenchFault.UNPLUG)
        return self is BenchFault.CUT or self in others


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
    BenchFault.RESET: (1000,),
    BenchFault.HANG: (1000,),
    BenchFault.BROWN_OUT: (1000,),
    BenchFault.UNPLUG: (1000,),
    BenchFault.NPU_HANG: (1,),
    BenchFault.NPU_DEAD: (),
    BenchFault.STUCK: (None, 1, 1, 0),
    BenchFault.GDB_DIES: (50,),
    BenchFault.GDB_MUTE: (50,),
}
"""The arguments of each, and their defaults; None for one that has to be given."""
_LEAST_DISTANCE = 2
_MOST_IN_A_ROW = 64
"""Bytes that one fault strikes at most. Half of them strike one."""

Piece = tuple[float, bytes]
"""Seconds that the line stands still, and the bytes that come then."""


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
        if kind in ON_THE_LINE and not kind.counts_bytes and arguments[0] < _LEAST_DISTANCE:
            raise UsageError(f"the fault {text!r} would strike every byte", hint=f"say {_LEAST_DISTANCE} or more")
        return cls(kind, arguments, ways if kind in ON_THE_LINE else ())


def _form(kind: BenchFault) -> str:
    """Return how a fault is written, with its defaults."""
    return "write " + ":".join([kind, *("NUMBER" if default is None else str(default) for default in _DEFAULTS[kind])])


@dataclass
class _Armed:
    """A fault, and after how many more bytes it strikes."""

    spec: FaultSpec
    left: int


class LineFaults:
    """The faults of one direction of the line, which change the bytes that pass. The seed alone decides where and how.

    Attributes:
        struck: how often each kind has struck.
    """

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._armed: list[_Armed] = []
        self._is_cut = False
        self.struck: Counter[BenchFault] = Counter()

    def arm(self, spec: FaultSpec) -> None:
        """Let a fault strike from now on."""
        self._armed.append(_Armed(spec, self._distance(spec)))

    def heal(self) -> None:
        """Let bytes pass as they are."""
        self._armed.clear()
        self._is_cut = False

    def through(self, data: bytes) -> list[Piece]:
        """Return what comes out when `data` goes in."""
        pieces: list[tuple[float, bytearray]] = [(0.0, bytearray())]
        while data and not self._is_cut:
            nearest = min(self._armed, key=lambda fault: fault.left, default=None)
            passing = len(data) if nearest is None else min(nearest.left, len(data))
            pieces[-1][1].extend(data[:passing])
            data = data[passing:]
            for fault in self._armed:
                fault.left -= passing
            if nearest is not None and nearest.left == 0 and data:
                data = self._strike(nearest.spec, data, pieces)
                nearest.left = self._distance(nearest.spec)
        return [(pause, bytes(part)) for pause, part in pieces if part or pause]

    def noise(self, count: int) -> bytes:
        """Return what a receiver with another speed makes of that many bytes."""
        return self._chance.randbytes(count)

    def _strike(self, spec: FaultSpec, data: bytes, pieces: list[tuple[float, bytearray]]) -> bytes:
        """Let a fault strike the first bytes of `data`. Return the rest."""
        self.struck[spec.kind] += 1
        count = 1 if self._chance.random() < 0.5 else self._chance.randint(2, _MOST_IN_A_ROW)
        out = pieces[-1][1]
        if spec.kind is BenchFault.CUT:
            self._is_cut = True
        elif spec.kind is BenchFault.DROP:
            return data[count:]
        elif spec.kind is BenchFault.REPEAT:
            out.extend(data[:count] * 2)
            return data[count:]
        elif spec.kind is BenchFault.CORRUPT:
            out.append(data[0] ^ self._chance.randint(1, 255))
            return data[1:]
        elif spec.kind is BenchFault.INSERT:
            out.extend(self._chance.randbytes(count))
        else:
            pieces.append((self._chance.uniform(0, spec.arguments[1] / 1000), bytearray()))
        return data

    def _distance(self, spec: FaultSpec) -> int:
        """Return how many bytes pass before it strikes."""
        if spec.kind is BenchFault.CUT:
            return spec.arguments[0]
        return 1 + round(self._chance.expovariate(1 / spec.arguments[0]))
