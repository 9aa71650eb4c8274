"""From a model to a verdict on every kind of target: each NPU generation, memory modes, and runners."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Metric, Record
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.preflight import Destination, examine
from ethos_hil.harness.run import run
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.virtual.rules import FOREIGN_BOARD, STRICT_BOARD
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.vela.memory_mode import MemoryMode

SLACK = 8 << 10
"""Bytes of the firmware's tables, which preflight leaves out."""


@pytest.fixture(scope="module")
def model() -> TorchModel:
    import torch

    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    inputs = (torch.randn(1, 3, 12, 12),)
    return from_module(torch.nn.Sequential(*layers), inputs, label="net")


def run_on(model: TorchModel, npu: str, target: str, mode: str | None = None, **options: object) -> Report:
    return run(Question(model, npu=npu, target=target, memory_mode=mode, **options))  # type: ignore[arg-type]


def value(record: Record, name: str) -> float:
    metric = record.metric(name)
    assert metric is not None, name
    return metric.value


@pytest.mark.parametrize(
    ("npu", "mode", "target"),
    [
        pytest.param("ethos-u55-128", "Sram_Only", "corstone-300", marks=pytest.mark.proof),
        ("ethos-u65-256", None, "corstone-300"),
        ("ethos-u85-256", "Dedicated_Sram_384KB", "corstone-320"),
        pytest.param("ethos-u85-512", None, "virtual", marks=pytest.mark.proof),
        ("ethos-u65-512", "Shared_Sram", "virtual"),
    ],
)
@pytest.mark.usefixtures("use_launchers")
def test_it_is_verified_and_the_record_says_all_of_it(
    model: TorchModel, npu: str, mode: str | None, target: str
) -> None:
    report = run_on(model, npu, target, mode)
    record = report.record
    assert record.verdict == "verified"
    expected = MemoryMode.chosen(mode, EthosU.parse(npu))
    assert record.memory_mode == expected.name
    assert [metric.provenance for metric in record.metrics if metric.name == "npu_cycles"] == ["modelled"]
    assert (value(record, "fast_scratch_bytes") > 0) is expected.dedicated
    assert 0 < value(record, "stack_used") < value(record, "stack_size")
    assert ("fvp" in record.versions) is (target != "virtual")
    # The device lays memory out as preflight says it will.
    soc = record.target.soc
    firmware = Firmware.read(find_firmware(soc))
    footprint = Footprint.of(report.artifact)
    checks = examine(report.artifact, Destination(npu, soc, firmware), footprint, input_sets=1)
    assert not [check for check in checks if check.status == "fail"]
    placed = {"SRAM": 0, "DDR": 0}
    for check in checks:
        if check.name in ("constants", "scratch", "fast scratch", "planned"):
            placed["SRAM" if "SRAM" in check.available else "DDR"] += int(check.needed.split()[0].replace(",", ""))
    assert placed["SRAM"] <= value(record, "sram_used") <= placed["SRAM"] + SLACK
    assert placed["DDR"] <= value(record, "ddr_used") <= placed["DDR"] + SLACK
    assert value(record, "scratch_bytes") == footprint.scratch
    assert value(record, "fast_scratch_bytes") == footprint.fast_scratch
    assert value(record, "planned_bytes") == sum(footprint.planned)


@pytest.mark.usefixtures("use_launchers")
def test_a_fast_fvp_reports_no_cycles(model: TorchModel, tmp_path: Path) -> None:
    for runner in (None, runner_in(tmp_path, "corstone-300")):
        record = run_on(model, "ethos-u55-128", "corstone-300", fast=True, runner=runner).record
        assert record.verdict == "verified"
        assert counted(record.metrics) == ["npu_cycles_estimate"]
        assert {op.provenance for op in record.ops} == {"vela"}


def counted(metrics: Sequence[Metric]) -> list[str]:
    return [metric.name for metric in metrics if "cycles" in metric.name]


def runner_in(folder: Path, soc: str) -> Path:
    """Our firmware's ELF as a file: it is a runner as well."""
    path = folder / "arm_executor_runner"
    path.write_bytes(find_firmware(soc))
    return path


def test_a_record_names_the_rules_of_a_strict_board(model: TorchModel) -> None:
    """A history must not take a strict run for a lenient one."""
    strict, lenient = (run_on(model, "ethos-u55-128", "virtual", strict_board=flag).record for flag in (True, False))
    assert strict.target.rules == tuple(sorted(STRICT_BOARD))
    assert lenient.target.rules == ()
    assert Record.from_json(json.loads(strict.dumps())).target == strict.target
    held = VirtualTarget("ethos-u55-128", rules=STRICT_BOARD).rules(foreign=True)
    assert held == tuple(sorted(FOREIGN_BOARD & STRICT_BOARD))
    assert held, "of a runner fewer are asked, but some"


@pytest.mark.parametrize(("npu", "target"), [("ethos-u55-128", "virtual"), ("ethos-u85-256", "corstone-320")])
@pytest.mark.usefixtures("use_launchers")
def test_a_runner_is_verified_and_named(model: TorchModel, tmp_path: Path, npu: str, target: str) -> None:
    elf = runner_in(tmp_path, "corstone-320" if "u85" in npu else "corstone-300")
    # A runner is not told the memory mode; ours works in Shared_Sram then.
    report = run_on(model, npu, target, "Shared_Sram", runner=elf, repeat=2)
    record = report.record
    assert record.verdict == "verified"
    assert [(run.input_set, run.repeat) for run in report.outcome.runs] == [(0, 0), (0, 1)]
    assert all(run.counted == run.cycles > 0 for run in report.outcome.runs)
    assert 0 < value(record, "stack_used") < value(record, "stack_size")
    assert value(record, "planned_bytes") == sum(report.artifact.plan.planned_sizes)
    assert value(record, "sram_used") > 0
    assert [output.name for output in record.outputs] == ["output 0"], "a runner shows no delegate's outputs"
    assert record.runner is not None
    assert (record.runner.path, record.runner.sha256) == (str(elf), hashlib.sha256(elf.read_bytes()).hexdigest())
    assert "npu_cycles" in counted(record.metrics)
    packed = run_on(model, npu, "virtual", "Shared_Sram").record
    assert value(record, "npu_cycles") == value(packed, "npu_cycles")
    assert Record.from_json(json.loads(record.dumps())) == record
