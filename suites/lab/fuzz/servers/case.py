"""A case of the fuzzer: what kind of server it is, and which tricks it plays when."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ethos_hil.harness.testing.gdb_peer import GdbPeer, PeerTraits
from ethos_hil.suites.lab.fuzz.servers.tricks import TRICKS, is_sound

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
        return f"case {self.number} of seed {self.seed}: {', '.join(map(str, self.tricks)) or 'honest'}; {self.traits}"

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
            single=rng.random() < 0.8,
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
