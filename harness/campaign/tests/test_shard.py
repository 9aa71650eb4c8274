"""Shards: each piece of work is in one of them, the same on every machine."""

from __future__ import annotations

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.campaign.shard import Shard


def test_each_piece_of_work_is_in_one_shard() -> None:
    shards = [Shard(number, 3) for number in (1, 2, 3)]
    takers = [[shard.number for shard in shards if shard.takes("conv", f"case{n}")] for n in range(300)]
    assert all(len(numbers) == 1 for numbers in takers)
    sizes = [sum(numbers == [number] for numbers in takers) for number in (1, 2, 3)]
    assert min(sizes) > 70


def test_every_machine_gives_the_same_answer() -> None:
    """It would not if it were Python's own hash, which has a seed of each process."""
    assert [Shard(1, 2).takes("plus", name) for name in ("same", "itself", "")] == [True, False, True]


@pytest.mark.parametrize("text", ["3/2", "0/2", "1", "1/0", "a/b", "1/2/3", "-1/2", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a shard"):
        Shard.parse(text)


def test_a_shard_is_written_as_it_is_read() -> None:
    assert str(Shard.parse(" 2/4 ")) == "2/4"
