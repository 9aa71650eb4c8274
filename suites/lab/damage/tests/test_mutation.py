"""Ways to damage data: a seed makes the same damage again, and each way does what it says."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.lab.damage import mutation
from ethos_hil.suites.lab.damage.mutation import Way, number

WAYS = (mutation.bits, mutation.word, mutation.cut, mutation.drop, mutation.repeat, mutation.swap, mutation.splice)


@dataclass(frozen=True)
class Letters:
    """Pieces of four bytes, each of one letter."""

    text: str
    name: str = "letters"

    @property
    def data(self) -> bytes:
        return b"".join(letter.encode() * 4 for letter in self.text)

    def span(self, rng: random.Random) -> tuple[int, int]:
        first = rng.randrange(len(self.text))
        return 4 * first, min(len(self.data), 4 * (first + rng.choice((1, 2, 5))))


SUBJECT, OTHER = Letters("abcdefghijklmnop"), Letters("ABCDEFGH", "capitals")


def damaged(way: Way[Letters], seed: int) -> tuple[bytes, str]:
    data = bytearray(SUBJECT.data)
    damage = way(random.Random(seed), data, SUBJECT, [SUBJECT, OTHER])
    return bytes(data), damage


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_seed_makes_its_damage(way: Way[Letters], recorded: Recorded) -> None:
    recorded.check({seed: damaged(way, seed) for seed in range(8)})


def test_a_seed_draws_its_number(recorded: Recorded) -> None:
    """Near to the old one, far from it, and at boundaries."""
    recorded.check([number(random.Random(seed), 1000, 16, (77,)) for seed in range(60)])
