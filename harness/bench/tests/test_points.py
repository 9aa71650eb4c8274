"""Which points a grid has, and which are refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.bench.order import BenchOrder, select
from ethos_hil.harness.bench.points import (
    ALL,
    SHORT,
    BenchCase,
    BenchGrid,
    BenchInput,
    BenchStep,
    PointSettings,
    points_of,
    refusal_of,
)

CASE = BenchCase("relu_8", "relu", (BenchStep("ReLU"),), (BenchInput((1, 8)),))
GRID = BenchGrid("test", (CASE, replace(CASE, name="relu_9", tags=(SHORT,))))
SETTINGS = PointSettings("test")


def places(grid: BenchGrid, settings: PointSettings = SETTINGS) -> set[tuple[str, str, str]]:
    return {(point.npu, point.memory_mode, point.system_config) for point in points_of(grid, ("virtual",), settings)}


def test_default_has_one_mode_of_each_kind() -> None:
    points = points_of(GRID, ("virtual",), SETTINGS)
    assert len(points) == len({point.key for point in points}) == 2 * (4 * 2 + 2 * 3 + 5 * 3)
    assert {point.npu for point in points} == set(EthosU.names())
    assert not [point for point in points if refusal_of(point, SETTINGS)]
    u55 = {place for place in places(GRID) if place[0] == "ethos-u55-64"}
    assert u55 == {("ethos-u55-64", mode, "Ethos_U55_High_End_Embedded") for mode in ("Shared_Sram", "Sram_Only")}


def test_points_with_one_tosa_stand_together() -> None:
    """Else a case would be lowered more often than it has to be."""
    mixed = replace(GRID, npus=("ethos-u85-128", "ethos-u55-32", "ethos-u85-256", "ethos-u65-256"))
    order = [(point.case.name, "u85" in point.npu) for point in points_of(mixed, ("virtual",), SETTINGS)]
    changes = sum(before != after for before, after in itertools.pairwise(order))
    assert changes == 3


def test_what_is_asked_for_is_refused_where_it_cannot_be() -> None:
    grid = replace(GRID, npus=("ethos-u55-128", "ethos-u65-256"), memory_modes=("Dedicated_Sram", "Shared_Sram"))
    points = points_of(grid, ("virtual",), SETTINGS)
    refused = {(point.npu, point.memory_mode) for point in points if refusal_of(point, SETTINGS)}
    assert refused == {("ethos-u55-128", "Dedicated_Sram")}
    every = points_of(replace(grid, memory_modes=(ALL,)), ("virtual",), SETTINGS)
    assert not [point for point in every if refusal_of(point, SETTINGS)]
    assert len({point.memory_mode for point in every if "u65" in point.npu}) == 6
    assert len({point.memory_mode for point in every if "u55" in point.npu}) == 2


def test_a_system_of_arms_is_for_its_family() -> None:
    grid = replace(GRID, npus=("ethos-u55-128", "ethos-u65-256"), memory_modes=("Sram_Only",))
    both = replace(grid, system_configs=("Ethos_U55_Deep_Embedded", "Ethos_U65_Embedded"))
    assert places(both) == {
        ("ethos-u55-128", "Sram_Only", "Ethos_U55_Deep_Embedded"),
        ("ethos-u65-256", "Sram_Only", "Ethos_U65_Embedded"),
    }
    single = replace(grid, system_configs=("Ethos_U55_Deep_Embedded",))
    points = points_of(single, ("virtual",), SETTINGS)
    refused = [point for point in points if refusal_of(point, SETTINGS)]
    assert {point.npu for point in refused} == {"ethos-u65-256"}
    assert len(points) == 4


ORDERS = (
    BenchOrder(npus=("ethos-u55-128",), memory_modes=("Dedicated_Sram",)),
    BenchOrder(npus=("ethos-u55-129",)),
    BenchOrder(memory_modes=("Shared",)),
    BenchOrder(npus=("ethos-u55-128",), system_configs=("Ethos_U65_Embedded",)),
    BenchOrder(system_configs=("Nothing",)),
    BenchOrder(cases=("no_such_*",)),
    BenchOrder(targets=("nowhere",)),
    BenchOrder(settings=PointSettings(repeat=0)),
    BenchOrder(settings=PointSettings(timeout=0)),
    BenchOrder(scheme="a4w4"),
    BenchOrder(models=("net.pte",)),
    BenchOrder(models=("net.py:net",), grid=Path("grid.toml")),
)


def test_bad_orders_are_refused_with_what_there_is(recorded: Recorded) -> None:
    lines = []
    for order in ORDERS:
        with pytest.raises(UsageError) as error:
            order.plan()
        lines.append(f"{error.value.message} ({error.value.hint})")
    recorded.check("\n".join(lines))


def test_what_is_booted() -> None:
    short, long = GRID.cases[1], GRID.cases[0]
    assert [SETTINGS.boots(case, virtual=True) for case in (short, long)] == [True, False]
    assert SETTINGS.boots(long, virtual=False)
    assert [replace(SETTINGS, boot=boot).boots(short, virtual=True) for boot in (True, False)] == [True, False]


def test_a_models_scheme_and_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no such file: net\.py"):
        BenchOrder(models=("net.py:net",)).plan()
    Path("net.py").touch()
    (case,) = {point.case for point in BenchOrder(models=("net.py:net",), scheme="a16w8").plan().points}
    assert (case.name, case.model, case.scheme, case.booted) == ("net.py:net", "net.py:net", "a16w8", False)


def test_a_board_that_is_given_as_a_file_has_the_key_of_its_records(tmp_path: Path) -> None:
    """Else a run's points are not found again, and --resume makes them all again."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mps3-an547"\n[link]\nurl = "/dev/ttyACM0"\n')
    npu = replace(GRID, npus=("ethos-u55-128",), memory_modes=("Shared_Sram",))
    point, _ = points_of(npu, (f"board:{path}",), SETTINGS)
    assert (point.target, point.key[-1]) == (f"board:{path}", "board:mine")


def test_two_targets_that_records_cannot_tell_apart(tmp_path: Path) -> None:
    files = [tmp_path / folder / "mine.toml" for folder in "ab"]
    for path in files:
        path.parent.mkdir()
        path.write_text('extends = "mps3-an547"\n')
    with pytest.raises(UsageError, match="are both called board:mine in records"):
        points_of(GRID, [f"board:{path}" for path in files], SETTINGS)


MINE = BenchGrid(
    "mine",
    (
        BenchCase("conv3x3_8x8x64", "conv3x3", (), (), tags=("short",)),
        BenchCase("conv3x3_56x56x64", "conv3x3", (), ()),
        BenchCase("add_14x14x96", "elementwise", (), (), tags=("short", "camera")),
    ),
    ("ethos-u55-128",),
)
CHOICES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "all": ((), ()),
    "a tag": (("short",), ()),
    "two tags": (("long", "camera"), ()),
    "a group": ((), ("conv3x3",)),
    "a pattern": ((), ("*x64",)),
    "a group and a pattern": ((), ("elementwise", "conv3x3_8*")),
    "a tag and a pattern": (("short",), ("conv*",)),
    "no such tag": (("shor",), ()),
    "no such name": ((), ("conv3x3", "conv3x4_8x8x64")),
    "no such pattern": ((), ("*zzz*",)),
    "nothing with both": (("camera",), ("conv*",)),
}


@pytest.mark.parametrize("what", CHOICES)
def test_cases_are_chosen_by_tag_name_and_group(what: str, recorded: Recorded) -> None:
    """What takes none is refused."""
    try:
        grid = select(MINE, *CHOICES[what])
    except UsageError as error:
        recorded.check(f"{error.message} ({error.hint})")
    else:
        assert (grid.name, grid.npus) == (MINE.name, MINE.npus)
        recorded.check(" ".join(case.name for case in grid.cases))
