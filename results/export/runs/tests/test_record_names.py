"""Names of records: each has its own, and nothing is in one that need not be."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from ethos_hil.base.record import BenchInfo, Record, RunInfo, RunnerInfo, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.export.runs.run_exporter import PARTS, distinctions
from ethos_hil.results.export.runs.tests.samples import record


def model(scheme: str = "a8w8", **changes: Any) -> Record:
    artifact = record().artifact
    assert artifact is not None
    return record(test=None, model="net.py:net", artifact=dataclasses.replace(artifact, scheme=scheme), **changes)


OTHERS = {
    "npu": record(npu="ethos-u55-256"),
    "memory_mode": record(memory_mode="Sram_Only"),
    "target": record(target=TargetInfo("fvp", "virtual", "corstone-300")),
    "soc": record(target=TargetInfo("virtual", "virtual", "corstone-310")),
    "system_config": record(system_config="Ethos_U55_Deep_Embedded"),
    "method": record(method="decode"),
    "runner": record(runner=RunnerInfo("runner", "cd" * 32)),
    "bench_case": record(bench=BenchInfo("grid", "wide", "models")),
    "scheme": model("a16w8"),
    "inputs": record(inputs_sha256="ef" * 32),
    "part": record(run=RunInfo("20261125T100247Z-c394cb", part="again (audit)")),
}


def test_records_of_one_test_are_told_apart_by_what_differs(recorded: Recorded) -> None:
    """And one that is like another has its number."""
    assert tuple(OTHERS) == PARTS
    lines = [f"{part}: {distinctions((model() if part == 'scheme' else record(), OTHERS[part]), ())}" for part in PARTS]
    recorded.check("\n".join([*lines, f"three alike: {distinctions([record()] * 3, ('npu',))}"]))


@pytest.mark.parametrize("seed", range(20))
def test_no_two_records_have_one_name_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    records = [chance.choice([record(), record(name="sub"), *OTHERS.values()]) for _ in range(40)]
    names = [f"{record.label}{name}" for record, name in zip(records, distinctions(records, ("npu",)), strict=True)]
    assert len(set(names)) == len(names)
    order = chance.sample(range(40), 40)
    moved = [records[at] for at in order]
    again = [f"{record.label}{name}" for record, name in zip(moved, distinctions(moved, ("npu",)), strict=True)]
    assert sorted(again) == sorted(names)
