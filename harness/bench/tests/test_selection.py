"""The cases that are asked for; what takes none is refused."""

from __future__ import annotations

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.bench.case import BenchCase, BenchGrid
from ethos_hil.harness.bench.order import select

GRID = BenchGrid(
    "mine",
    (
        BenchCase("conv3x3_8x8x64", "conv3x3", (), (), tags=("short",)),
        BenchCase("conv3x3_56x56x64", "conv3x3", (), ()),
        BenchCase("add_14x14x96", "elementwise", (), (), tags=("short", "camera")),
    ),
    ("ethos-u55-128",),
)


@pytest.mark.parametrize(
    ("tags", "names", "chosen"),
    [
        ((), (), (0, 1, 2)),
        (("short",), (), (0, 2)),
        (("long", "camera"), (), (1, 2)),
        ((), ("conv3x3",), (0, 1)),
        ((), ("*x64",), (0, 1)),
        ((), ("elementwise", "conv3x3_8*"), (0, 2)),
        (("short",), ("conv*",), (0,)),
    ],
)
def test_cases_are_chosen_by_tag_name_and_group(tags: tuple[str], names: tuple[str], chosen: tuple[int]) -> None:
    grid = select(GRID, tags, names)
    assert grid.cases == tuple(GRID.cases[index] for index in chosen)
    assert (grid.name, grid.npus) == (GRID.name, GRID.npus)


@pytest.mark.parametrize(
    ("tags", "names", "message"),
    [
        (("shor",), (), "no case of the grid mine has the tag 'shor' (did you mean short?)"),
        ((), ("conv3x3", "conv3x4_8x8x64"), "has the name or group 'conv3x4_8x8x64' (did you mean conv3x3_8x8x64"),
        ((), ("*zzz*",), "has the name or group '*zzz*' (there are add_14x14x96, conv3x3, "),
        (("camera",), ("conv*",), "no case of the grid mine is tagged camera and called conv*"),
    ],
)
def test_what_takes_no_case_is_refused(tags: tuple[str], names: tuple[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        select(GRID, tags, names)
    assert message in f"{error.value.message} ({error.value.hint})"
