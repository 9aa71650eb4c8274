"""A program that is not on the NPU, or not enough of it, fails before it boots, unless that is accepted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from ethos_hil.base.question import JudgeOptions, Question
from ethos_hil.harness.image.preflight import PreflightFailed, delegation_check, raise_if_failed
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.program.placement import CpuCall, Placement

ADD = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
SORT = CpuCall(
    3, "aten::sort.values", aten="aten.sort.default", source="net.py:4", reason="TOSA cannot sort", remedy="do"
)


def with_calls(*calls: CpuCall, delegated: int = 2) -> Artifact:
    delegates = ADD.delegates if delegated else ()
    placed = Placement(delegated, calls)
    return dataclasses.replace(ADD, placement=placed, key="1" * 64, scheme="a8w8", delegates=delegates)


@pytest.mark.parametrize(
    ("demand", "artifact", "ok"),
    [
        (JudgeOptions(), with_calls(SORT), True),
        (JudgeOptions(), with_calls(SORT, delegated=0), False),
        (JudgeOptions(), with_calls(delegated=0), False),
        (JudgeOptions(allow_cpu_only=True), with_calls(SORT, delegated=0), True),
        (JudgeOptions(require_delegated=True), with_calls(), True),
        (JudgeOptions(require_delegated=True), with_calls(SORT), False),
        (JudgeOptions(max_cpu_ops=1), with_calls(SORT), True),
        (JudgeOptions(max_cpu_ops=1), with_calls(SORT, SORT), False),
        (JudgeOptions(max_cpu_ops=9), with_calls(SORT, delegated=0), False),
        (JudgeOptions(require_delegated=True), with_calls(CpuCall(0, "a::quantize_per_x", "conversion")), True),
        (JudgeOptions(require_delegated=True), with_calls(CpuCall(0, "aten::copy_", "state")), True),
        (JudgeOptions(), dataclasses.replace(with_calls(SORT, delegated=0), scheme=None), True),
        (JudgeOptions(), dataclasses.replace(with_calls(SORT, delegated=0), key="", scheme=None), False),
    ],
)
def test_what_is_demanded_is_checked(demand: JudgeOptions, artifact: Artifact, ok: bool) -> None:
    check = delegation_check(artifact, demand)
    assert (check.status == "ok") is ok
    if not ok:
        with pytest.raises(PreflightFailed) as caught:
            raise_if_failed([check])
        assert (caught.value.kind, caught.value.exit_status) == ("delegation", 1)


def test_the_message_names_operators_lines_reasons_and_the_way_out() -> None:
    error = PreflightFailed([delegation_check(with_calls(*[SORT] * 3, delegated=0), JudgeOptions())])
    assert "nothing is on the NPU; on the CPU: 3 x aten::sort.values at net.py:4 (TOSA cannot sort)" in error.message
    assert error.hint == "do; --allow-cpu-only accepts a program for the CPU alone"
    many = [dataclasses.replace(SORT, source=f"net.py:{at}") for at in range(9)]
    assert "and 5 more" in delegation_check(with_calls(*many), JudgeOptions(require_delegated=True)).available


SORTS = """
import torch


class Sort(torch.nn.Module):
    def forward(self, x):
        return x.sort(-1)[0]


def sorts():
    return Sort(), (torch.rand(2, 9),)
"""


@pytest.mark.slow
def test_a_program_of_which_nothing_is_delegated_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(SORTS)
    monkeypatch.chdir(tmp_path)
    from ethos_hil.harness.cli import commands

    with pytest.raises(PreflightFailed, match=r"aten::sort.values at net.py:7 \(TOSA cannot sort\)"):
        commands.run(Question("net.py:sorts"), commands.RunFiles(Path("failed.json"), None, Path("runs")))
    record = json.loads(Path("failed.json").read_text())
    assert (record["verdict"], record["failure"]["kind"]) == ("failed", "delegation")
    (call,) = [call for call in record["artifact"]["cpu_calls"] if call["kind"] == "operator"]
    assert (call["aten"], call["source"], call["reason"]) == ("aten.sort.default", "net.py:7", "TOSA cannot sort")
    question = Question("net.py:sorts", allow_cpu_only=True)
    assert commands.run(question, commands.RunFiles(Path("passed.json"), None, Path("runs"))) == 0
    record = json.loads(Path("passed.json").read_text())
    assert record["verdict"] == "verified"
    assert record["artifact"]["delegated"] == 0
    assert [output["reference"] for output in record["outputs"]] == ["the host's kernels"]
    assert record["artifact"]["cpu_ops"] == [call["operator"] for call in record["artifact"]["cpu_calls"]]
