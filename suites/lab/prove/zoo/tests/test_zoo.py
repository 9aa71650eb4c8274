"""Protects what the zoo says of a run: how it ended, what ran on the CPU, and its tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.suites.lab.prove.zoo import table
from ethos_hil.suites.lab.prove.zoo.pair import PairJob, PairResult
from ethos_hil.suites.lab.tests.running import part_command


@pytest.fixture(scope="module")
def cell() -> PairResult:
    return PairJob("gru_cell", "ethos-u55-128", "b", 250).run()


@pytest.mark.slow
def test_a_run_is_reported_with_what_the_cpu_computed_and_why(cell: PairResult) -> None:
    assert (cell.group, cell.status) == ("verified", 0), cell
    assert cell.cycles
    assert cell.sram
    assert cell.lowering
    assert cell.delegated
    left = {operator.operator: operator for operator in cell.on_cpu}
    assert left["aten::addmm.out"].calls == 2
    assert "recurrent" in left["aten::addmm.out"].reason
    assert not any("quantize" in name for name in left), "conversions are not operators of the model"
    assert PairResult.of_json(json.loads(json.dumps(cell.to_json()))) == cell


@pytest.mark.slow
def test_the_tables_have_it(cell: PairResult) -> None:
    refused = replace(
        cell, npu="ethos-u85-256", status=1, verdict="failed", kind="compile", message="no | room", hint="x"
    )
    tables = table.markdown({"facts": {"date": "today"}, "pairs": [pair.to_json() for pair in (cell, refused)]})
    assert f"| {cell.cycles:,} | refused |" in tables["zoo-architectures"]
    assert "| ethos-u85-256 | 0 | 1 | 0 |" in tables["zoo-verdicts"]
    assert "no \\| room (x)" in tables["zoo-refused"]
    assert "`aten::addmm.out`" in tables["zoo-cpu"]


def test_a_run_that_names_nothing_or_takes_too_long_is_wrong() -> None:
    missing = PairJob("no_such", "ethos-u55-128", "b", 60).run()
    assert (missing.group, missing.status) == ("wrong", 2)
    late = PairJob("gru_cell", "ethos-u55-128", "b", 1).run()
    assert (late.group, late.status) == ("wrong", -signal.SIGKILL)


@pytest.mark.parametrize(
    ("status", "verdict", "kind", "group"),
    [
        (0, "verified", "", "verified"),
        (1, "unverified", "", "wrong"),
        (0, "", "", "wrong"),
        (1, "failed", "mismatch", "wrong"),
        (1, "failed", "fault", "wrong"),
        (1, "failed", "unsupported", "wrong"),
        (4, "", "compile", "wrong"),
        (1, "failed", "compile", "refused"),
        (1, "failed", "delegation", "refused"),
    ],
)
def test_only_a_verified_run_is_verified_and_only_words_before_boot_are_a_refusal(
    status: int, verdict: str, kind: str, group: str
) -> None:
    assert PairResult("net", "npu", "b", status, verdict, kind).group == group


def test_an_interrupted_zoo_leaves_no_process(tmp_path: Path) -> None:
    """It says so at once, and the run that it had started is gone."""
    command = part_command("zoo", "gru_cell", "--npu", "ethos-u55-128", "--out", tmp_path)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    children: list[str] = []
    while not children and process.poll() is None:
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [child for path in tasks for child in path.read_text().split()]
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)
