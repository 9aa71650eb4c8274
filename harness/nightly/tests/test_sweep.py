"""Sweeps: points of a benchmark as a part of a night."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.base.verdict import FailureKind, Standing
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.plan import plan_of
from ethos_hil.harness.nightly.preparation import today
from ethos_hil.harness.nightly.tests.plans import night, record, write

GRID = """
schema_version = 1
npus = ["ethos-u55-128", "ethos-u85-256"]
memory_modes = ["Sram_Only"]

[[case]]
name = "relu_64"
steps = [{layer = "ReLU"}]
inputs = [[1, 64]]
tags = ["short"]

[[case]]
name = "resize_4x4x8"
steps = [{layer = "Upsample", options = {scale_factor = 2}}]
inputs = [[1, 8, 4, 4]]
"""
SWEEP = '[[sweep]]\ngrid = "grid.toml"\n'
PARTS = [
    "sweep 1: ethos-u55-128 virtual Sram_Only Ethos_U55_High_End_Embedded",
    "sweep 1: ethos-u85-256 virtual Sram_Only Ethos_U85_SYS_DRAM_Mid",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "grid.toml").write_text(GRID)
    return write(tmp_path, SWEEP)


def point(case: str, part: str, kind: FailureKind | None = None) -> Record:
    result = record(case, part, kind, npu=part.split()[2])
    return replace(result, test=None, bench=BenchInfo("grid", case, "group"))


def test_a_part_for_each_place(file: Path) -> None:
    plan = plan_of(read_config(file))
    assert [part.name for part in plan.parts] == PARTS
    assert [case.name for case in plan.sweeps[0].cases] == ["relu_64", "resize_4x4x8"]
    file.write_text(f"schema_version = 1\n{SWEEP}cases = ['relu*']\nnpus = ['ethos-u85-128']\nboot = false\n")
    (part,) = plan_of(read_config(file)).sweeps
    assert (part.npu, len(part.cases), part.settings.boot) == ("ethos-u85-128", 1, False)
    assert plan_of(read_config(file)).digest != plan.digest


def test_refusals_are_not_red_and_lost_points_are(file: Path) -> None:
    plan = plan_of(read_config(file))
    first, second = PARTS
    records = [
        point("relu_64", first, FailureKind.MISMATCH),
        point("resize_4x4x8", first, FailureKind.DELEGATION),
        point("relu_64", second),
    ]
    account = account_of_night(plan, replace(night(plan), records=tuple(records)), Conducted(), (), today())
    endings = {(test.name, test.record.npu): test.standing for test in account.tests}
    assert endings == {
        ("relu_64", "ethos-u55-128"): Standing.FAILED,
        ("resize_4x4x8", "ethos-u55-128"): Standing.REFUSED,
        ("relu_64", "ethos-u85-256"): Standing.VERIFIED,
        ("resize_4x4x8", "ethos-u85-256"): Standing.MISSING,
    }
    assert {(test.name, test.record.npu) for test in account.tests if test.red} == {
        ("relu_64", "ethos-u55-128"),
        ("resize_4x4x8", "ethos-u85-256"),
    }


def test_a_boards_file_is_looked_for_beside_the_nightlys(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all paths of the file are; and its points are of the board that its records will name."""
    (file.parent / "mine.toml").write_text('extends = "mps3-an547"\n[link]\nurl = "/dev/ttyACM0"\n')
    file.write_text(
        f'schema_version = 1\n[run]\ntargets = ["board:mine.toml"]\n{SWEEP}npus = ["ethos-u55-128"]\n'
        f'{SWEEP}npus = ["ethos-u55-128"]\ntargets = ["board:./mine.toml", "virtual"]\n'
    )
    monkeypatch.chdir("/")
    targets = [part.target for part in plan_of(read_config(file)).sweeps]
    assert targets == [f"board:{file.parent / 'mine.toml'}"] * 2 + ["virtual"]
    assert {row.key[-1] for part in plan_of(read_config(file)).sweeps for row in part.points} == {
        "board:mine",
        "virtual",
    }
