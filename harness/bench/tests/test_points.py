"""Which points a grid has, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
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
from ethos_hil.harness.testing.refusals import refusal

CASE = BenchCase("relu_8", "relu", (BenchStep("ReLU"),), (BenchInput((1, 8)),))
GRID = BenchGrid("test", (CASE, replace(CASE, name="relu_9", tags=(SHORT,))))
SETTINGS = PointSettings("test")


TWO = replace(GRID, cases=GRID.cases[:1], npus=("ethos-u55-128", "ethos-u65-256"))
GRIDS = {
    "one mode of each kind": replace(GRID, cases=GRID.cases[:1]),
    "points with one TOSA stand together": replace(
        GRID, npus=("ethos-u85-128", "ethos-u55-32", "ethos-u85-256", "ethos-u65-256")
    ),
    "modes that are asked for are refused where they cannot be": replace(
        TWO, memory_modes=("Dedicated_Sram", "Shared_Sram")
    ),
    "all modes": replace(TWO, memory_modes=(ALL,)),
    "a system of Arm's is for its family": replace(
        TWO, memory_modes=("Sram_Only",), system_configs=("Ethos_U55_Deep_Embedded", "Ethos_U65_Embedded")
    ),
    "a system of one family": replace(
        TWO, memory_modes=("Sram_Only",), system_configs=("Ethos_U55_Deep_Embedded",)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GRIDS)
def test_a_grid_has_these_points(what: str, recorded: Recorded) -> None:
    points = points_of(GRIDS[what], ("virtual",), SETTINGS)
    assert len(points) == len({point.key for point in points})
    lines = []
    for point in points:
        refused = refusal_of(point, SETTINGS)
        place = f"{point.case.name} {point.npu} {point.memory_mode} {point.system_config}"
        lines.append(f"{place}: {refused}" if refused else place)
    recorded.check("\n".join(lines))


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
    recorded.check("\n".join(refusal(order.plan) for order in ORDERS))


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


def test_cases_are_chosen_by_tag_name_and_group(recorded: Recorded) -> None:
    """What takes none is refused."""
    lines = []
    for what, choice in CHOICES.items():
        if what.startswith("no"):
            lines.append(f"{what}: {refusal(select, MINE, *choice)}")
        else:
            grid = select(MINE, *choice)
            assert (grid.name, grid.npus) == (MINE.name, MINE.npus)
            lines.append(" ".join([f"{what}:", *(case.name for case in grid.cases)]))
    recorded.check("\n".join(lines))
