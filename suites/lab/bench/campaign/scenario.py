"""A scenario: a board, what happens to it, and the runs on it. Its number alone decides on all of it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from enum import StrEnum

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.verdict import FailureKind
from ethos_hil.suites.lab.bench.campaign.programs import INPUT_SETS, NAMES, CampaignRun
from ethos_hil.suites.lab.bench.faults import ON_THE_LINE, BenchFault, FaultSpec, Way

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


SEEDS_A_CAMPAIGN = 100_000
"""Scenario n of the campaign with seed s has the number s * SEEDS_A_CAMPAIGN + n."""
_SHORT, _LONG = 10.0, 25.0
"""Seconds that a run gets: where the board may fall silent, and where it may not."""
_MOST_SETS = 8
_MOST_BYTES = 16_000
_MOST_PACKETS = 220
"""Of a load of the firmware."""
_CODE, _CODE_BYTES = 0x10000000, 0x18000
_OF_THE_PROBE = (BenchFault.STUCK, BenchFault.GDB_DIES, BenchFault.GDB_MUTE, Human.DEBUGGER)
"""What only a load of the firmware meets."""
_HARMLESS_BYTES = 2000
"""Mean distance of faults on the way to the board, at least, that cost an upload time only."""


@dataclass(frozen=True)
class Moment:
    """When someone does something: once the board has seen so much since the run started.

    Attributes:
        packets: of its gdb server.
        passed: bytes on the line, both directions together.
    """

    packets: int
    passed: int


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    Attributes:
        number: what it was drawn from; also the seed of what is random on the bench.
        faults: that the bench has during the run, as `FaultSpec.parse` takes them.
        human: what a person does meanwhile, or None.
        moment: when.
        warm: whether a run went well just before, so that the firmware is there.
        has_power: whether the board's file says how to switch the board off and on.
        goes_on: whether the process that ran into the trouble makes the next run, too; else another one does.
        runs: the one before (if `warm`), the one in trouble, the one of a second user, and the one afterwards.
        timeout: seconds that the run in trouble gets.
    """

    number: int
    faults: tuple[str, ...]
    human: Human | None
    moment: Moment
    warm: bool
    has_power: bool
    goes_on: bool
    runs: tuple[CampaignRun, ...]
    timeout: float

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """All that happens to it."""
        faults = (FaultSpec.parse(text).kind for text in self.faults)
        return (*faults, *((self.human,) if self.human is not None else ()))

    @property
    def right(self) -> set[str]:
        """The endings of the run in trouble that are right."""
        if self.faults and self.human is None and all(_is_harmless(FaultSpec.parse(text)) for text in self.faults):
            return {VERIFIED}  # the monitor's way of asking again makes good for all of it
        endings = [RIGHT[trouble] for trouble in self.troubles]
        verified = set() if any(ending.prevents for ending in endings) else {VERIFIED}
        return verified.union(*(ending.kinds for ending in endings))

    def __str__(self) -> str:
        words = [*self.faults]
        if self.human is not None:
            words.append(str(self.human))
            if self.human in (Human.SIGINT, Human.SIGTERM, Human.SIGKILL):
                words[-1] += f" after {self.moment.packets} packets and {self.moment.passed} bytes"
        words += ["firmware there" if self.warm else "no firmware", *["no power switch"] * (not self.has_power)]
        run = self.runs[1]
        return f"{', '.join(words)}; {run.program}, {len(run.sets)} input sets, {run.repeat} times each"


def draw(number: int) -> Scenario:
    """Return the scenario of a number. Numbers in a row have all troubles in turn, some with a second one."""
    chance = random.Random(number)
    first = TROUBLES[number % len(TROUBLES)]
    troubles = [first]
    if chance.random() < 0.3:
        troubles.append(chance.choice([fault for fault in BenchFault if fault is not first]))
    runs = tuple(_run(chance) for _ in range(4))
    warm = chance.random() < 0.5
    at_line = warm or chance.random() < 0.3
    needs_load = any(trouble in _OF_THE_PROBE for trouble in troubles)
    return Scenario(
        number,
        tuple(_fault(chance, fault, runs[1]) for fault in troubles if isinstance(fault, BenchFault)),
        first if isinstance(first, Human) else None,
        Moment(0, _bytes(chance)) if at_line else Moment(chance.randint(0, _MOST_PACKETS), 0),
        warm and (not needs_load or chance.random() < 0.2),
        chance.random() < 0.6,
        chance.random() < 0.5,
        runs,
        _SHORT if any(RIGHT[trouble].silences for trouble in troubles) else _LONG,
    )


def _run(chance: random.Random) -> CampaignRun:
    sets = chance.sample(range(INPUT_SETS), chance.randint(1, _MOST_SETS))
    return CampaignRun(chance.choice(NAMES), tuple(sets), chance.choice((1, 1, 2)))


def _bytes(chance: random.Random) -> int:
    """Return a number of bytes; small ones are as likely as large ones."""
    return round(math.exp(chance.uniform(0, math.log(_MOST_BYTES))))


def _distance(chance: random.Random) -> int:
    return round(math.exp(chance.uniform(5, 10)))


def _packets(chance: random.Random) -> tuple[object, ...]:
    return (chance.randint(0, _MOST_PACKETS),)


def _stuck(chance: random.Random) -> tuple[object, ...]:
    address = hex(_CODE + chance.randrange(_CODE_BYTES))
    return address, chance.choice((1, 4, 64)), hex(1 << chance.randrange(8)), chance.randrange(2)


_ARGUMENTS: dict[BenchFault, Callable[[random.Random], tuple[object, ...]]] = {
    BenchFault.DELAY: lambda chance: (_distance(chance), chance.randint(20, 500)),
    BenchFault.NPU_DEAD: lambda chance: (),
    BenchFault.STUCK: _stuck,
    BenchFault.GDB_DIES: _packets,
    BenchFault.GDB_MUTE: _packets,
    **{fault: lambda chance: (_bytes(chance),) for fault in BenchFault if fault.counts_bytes},
}


def _fault(chance: random.Random, kind: BenchFault, run: CampaignRun) -> str:
    """Return a fault of a kind, as text."""
    if kind is BenchFault.NPU_HANG:
        words: tuple[object, ...] = (chance.randint(1, run.executions),)
    else:
        words = _ARGUMENTS.get(kind, lambda chance: (_distance(chance),))(chance)
    way = chance.choice(("", *(f"{direction}." for direction in Way))) if kind in ON_THE_LINE else ""
    return way + ":".join(map(str, (kind, *words)))


def _is_harmless(spec: FaultSpec) -> bool:
    on_the_way = spec.kind in ON_THE_LINE and spec.kind is not BenchFault.CUT and spec.ways == (Way.TO_BOARD,)
    return on_the_way and spec.arguments[0] >= _HARMLESS_BYTES
