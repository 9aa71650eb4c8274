"""Ways to damage data: a seed makes the same damage again, and each way does what it says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

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
def test_a_seed_makes_the_same_damage_and_others_make_other_damage(way: Way[Letters]) -> None:
    first = [damaged(way, seed) for seed in range(50)]
    assert first == [damaged(way, seed) for seed in range(50)]
    assert sum(data != SUBJECT.data for data, _ in first) >= 40
    assert len({data for data, _ in first}) > 10
    assert len({damage for _, damage in first}) > 10


def pieces(data: bytes) -> str:
    """The letters, if all pieces are whole."""
    assert all(len(set(data[at : at + 4])) == 1 for at in range(0, len(data), 4))
    return data[::4].decode()


def test_pieces_stay_whole_and_come_from_where_they_should() -> None:
    for seed in range(200):
        dropped, repeated, swapped, spliced = (
            pieces(damaged(way, seed)[0]) for way in (mutation.drop, mutation.repeat, mutation.swap, mutation.splice)
        )
        assert len(dropped) < len(SUBJECT.text)
        assert set(dropped) < set(SUBJECT.text)
        assert len(repeated) > len(SUBJECT.text)
        assert set(repeated) == set(SUBJECT.text)
        assert Counter(swapped) == Counter(SUBJECT.text)
        assert set(spliced) <= set(SUBJECT.text + OTHER.text)
    assert any(set(pieces(damaged(mutation.splice, seed)[0])) & set(OTHER.text) for seed in range(20))


def test_numbers_are_near_far_and_at_boundaries() -> None:
    drawn = [number(random.Random(seed), 1000, 16, (77,)) for seed in range(2000)]
    assert {1001, 999, 77, -1000, 0xFFFF, 0x8000, 2000, 500} <= set(drawn)
    assert len(set(drawn) & set(mutation.BOUNDARIES)) > 15
