"""Servers that play tricks: the client of GDB's remote protocol loads and starts a program through them.

Whatever a server does, the load must end in time, in success or in an error of the probe, the memory or the board that
says which server it was. It must not succeed where the program is not in memory as it should be, or the processor does
not start where it should.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from traceback import extract_tb

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import ResetWords
from ethos_hil.harness.boards.loader import THUMB, load, start
from ethos_hil.harness.gdb.remote import GdbRemote
from ethos_hil.harness.testing.gdb_peer import BASE, SIZE, GdbPeer, PeerTraits
from ethos_hil.harness.testing.tiny_elf import tiny_elf
from ethos_hil.suites.lab.damage import loop
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.damage.streams import limit_memory
from ethos_hil.suites.lab.damage.tricks import TRICKS, is_sound
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile

LIMIT_SECONDS = 8.0
"""Of a case. The deadlines below come to less than four seconds; the machine may do other things as well."""
_HANG_SECONDS = 60.0
_ANSWER_SECONDS, _LOAD_SECONDS = 0.3, 3.0
_HONEST_SECONDS = 15.0
"""For a server that must be served, on a machine that does other things as well. Nothing else limits such a case."""
_KINDS = (FailureKind.PROBE, FailureKind.READBACK, FailureKind.LOST_BOARD)
_NAME = "the hostile server"
_BLOCK = 100
SUCCESS = "success"
OUTCOMES = (SUCCESS, *map(str, _KINDS), CRASHED)

CODE = bytes((7 * at + at // 256) % 256 for at in range(3000)) + b"#$}*\0\0\0\0\0\0" * 20
STACK, ENTRY = BASE + SIZE - 64, BASE + 0x40
ELF = tiny_elf(BASE, CODE, stack=STACK, entry=ENTRY | 1, empty=(BASE + 0x8000, 64))
RESET = ResetWords(("reset halt",))
_IPSR = 0x1FF
_ANSWERS = 90
"""About as many as a load needs."""
_HONEST = 0.1
"""Of the cases: they must succeed."""


@dataclass(frozen=True)
class PlannedTrick:
    """A trick, and when it is played.

    Attributes:
        name: which.
        first: the number of the first answer that it gets.
        every: and every so-manieth answer after that; 0: only that one.
    """

    name: str
    first: int
    every: int

    def is_due(self, number: int) -> bool:
        """Return whether it gets the answer of this number."""
        return number == self.first or (
            self.every > 0 and number > self.first and (number - self.first) % self.every == 0
        )

    def __str__(self) -> str:
        return f"{self.name} at {self.first}" + (f" and every {self.every}" if self.every else "")


@dataclass(frozen=True)
class ServerCase:
    """A hostile server.

    Attributes:
        seed, number: what it was drawn from.
        traits: what kind of server it is.
        tricks: what it does.
    """

    seed: int
    number: int
    traits: PeerTraits
    tricks: tuple[PlannedTrick, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.tricks)) or 'honest'}; {self.traits}"

    @property
    def recoverable(self) -> bool:
        """Whether a client that does all that the protocol offers gets through."""
        once = all(trick.name == "noise" and not trick.every for trick in self.tricks)
        return not self.tricks or (once and not self.traits.no_ack and len({t.first for t in self.tricks}) == 1)

    @classmethod
    def draw(cls, seed: int, number: int) -> ServerCase:
        """Return the case of a number."""
        rng = random.Random(f"{seed}/{number}")
        traits = PeerTraits(
            no_ack=rng.random() < 0.5,
            binary=rng.random() < 0.5,
            packet_size=rng.choice((None, 64, 100, 0x800, 0x4000)),
            files=rng.choice((0, 1, 1, 3)),
            xpsr=25,
            run_length=rng.random() < 0.3,
            most=rng.choice((50, 1000, 1 << 16)),
            greeting=rng.choice(((), (), (b"T02thread:01;",), (b"O41",))),
        )
        count = 0 if rng.random() < _HONEST else rng.choice((1, 1, 1, 2, 4))
        tricks = (
            PlannedTrick(rng.choice(list(TRICKS)), int(_ANSWERS * rng.random() ** 2), rng.choice((0, 0, 1, 5, 20)))
            for _ in range(count)
        )
        return cls(seed, number, traits, tuple(tricks))


class TrickPlayer:
    """The hook that plays a case's tricks.

    Attributes:
        described: whether the description that was sent is the right one.
    """

    def __init__(self, case: ServerCase) -> None:
        self._case = case
        self._number = -1
        self._rng = random.Random(f"{case.seed}/{case.number}/tricks")
        self._unsound = self._doubtful = False
        self.described = True

    @property
    def unsound(self) -> bool:
        """Whether an answer with a wrong checksum went to a client that has not asked for it again."""
        return self._unsound or self._doubtful

    def __call__(self, peer: GdbPeer, command: bytes, packets: list[bytes]) -> list[bytes] | None:
        """Play the tricks that are due."""
        self._number += 1
        # A client that did not understand the agreement on acknowledgements may ask again all the same.
        self._unsound |= self._doubtful and command != b"-"
        self._doubtful = False
        sent: list[bytes] | None = packets
        for trick in self._case.tricks:
            if trick.is_due(self._number) and sent is not None:
                sent = TRICKS[trick.name](self._rng, peer, command, sent)
                if trick.name == "noise" and sent and not is_sound(sent[-1]):
                    self._doubtful |= not peer.acknowledges and not peer.state.running
        self.described &= sent == packets or not command.startswith((b"qXfer", b"qSupported"))
        return sent


@dataclass(frozen=True)
class Servers:
    """The hostile servers of a seed.

    Attributes:
        seed: of all randomness.
    """

    seed: int
    title = "Loading through hostile servers"
    seconds = _HANG_SECONDS
    outcomes = OUTCOMES

    @property
    def command(self) -> str:
        """The words of its command line."""
        return f"servers --seed {self.seed}"

    def kin(self, number: int) -> int:
        """Return the block: cases in a row."""
        return number // _BLOCK

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        """Limit the memory of this process."""
        limit_memory()
        return lambda number: examine_smallest(ServerCase.draw(self.seed, number))

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a case that crashed or hung."""
        case = ServerCase.draw(self.seed, number)
        return DamageEnding(number, str(case), "servers", CRASHED, finding=reason)


def examine_smallest(case: ServerCase) -> DamageEnding:
    """Examine a case; one with a finding again, with as few of its tricks as still show it."""

    def with_tricks(kept: Collection[int]) -> DamageEnding:
        return examine(replace(case, tricks=tuple(case.tricks[at] for at in kept)))

    return loop.smallest(len(case.tricks), with_tricks)[1]


def examine(case: ServerCase) -> DamageEnding:
    """Load and start a program through a case's server. Return how that ended, and what is wrong with it."""
    player = TrickPlayer(case)
    started = time.monotonic()
    message = ""
    with GdbPeer(case.traits, player) as peer:
        try:
            if case.recoverable:
                _load_and_start(peer, _HONEST_SECONDS, _HONEST_SECONDS)
            else:
                _load_and_start(peer, _ANSWER_SECONDS, _LOAD_SECONDS)
            outcome = SUCCESS
        except TargetError as error:
            outcome, message = str(error.kind), error.message
        except Exception as error:  # whatever it is, it is a finding
            frame = extract_tb(error.__traceback__)[-1]
            outcome, message = CRASHED, f"{type(error).__name__}: {error} ({frame.name}:{frame.lineno})"
        seconds = time.monotonic() - started
    finding = _finding(case, player, peer, outcome, seconds, message)
    return DamageEnding(case.number, str(case), "servers", outcome, seconds, message, finding)


def _load_and_start(peer: GdbPeer, answer_seconds: float, load_seconds: float) -> None:
    remote = GdbRemote(peer.client, server=_NAME, seconds=answer_seconds)
    loaded = load(remote, ELF, words=RESET, vector_table=BASE, deadline=Deadline(load_seconds))
    start(remote, loaded, Deadline(answer_seconds))


def _finding(case: ServerCase, player: TrickPlayer, peer: GdbPeer, outcome: str, seconds: float, message: str) -> str:
    """Return what is wrong with an ending; "" if nothing is."""
    if outcome not in OUTCOMES or outcome == CRASHED:
        return f"ended with {outcome}: {message}"
    if seconds > LIMIT_SECONDS and not case.recoverable:
        return f"took {seconds:.1f} s"
    if outcome != SUCCESS:
        if not message.startswith(_NAME):
            return f"an error does not name the server: {message}"
        return f"a server that can be served was not: {message}" if case.recoverable else ""
    if player.unsound:
        return "a packet with a wrong checksum was taken for an answer"
    if peer.state.memory[8 : 8 + len(CODE)] != CODE:
        return "success, and the program is not in memory"
    registers = peer.state.registers
    right = {"sp": STACK, "pc": ENTRY, "xpsr": THUMB}
    actual = {**{name: registers[name] for name in ("sp", "pc")}, "xpsr": registers["xpsr"] & (THUMB | _IPSR)}
    if player.described and actual != right:  # who lies about the numbers of registers lies with success
        return f"success, and the registers are {actual}"
    return "" if peer.state.running else "success, and the processor does not run"


def main(
    count: loop.Count = 3000,
    seed: loop.Seed = 1,
    first: loop.First = 0,
    only: loop.Only = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Load a program through hostile servers; find what hangs, crashes or succeeds where it must not."""
    loop.damage(Servers(seed), count=count, first=first, only=only, jobs=jobs, json_file=json_file)
