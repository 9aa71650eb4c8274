"""The rows that a record gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.base.inference_profile import InferenceProfile, OpCost
from ethos_hil.base.record import JOB, ArtifactInfo, DelegateInfo, Metric, Op, Record, TargetInfo
from ethos_hil.base.record_context import SuiteTest
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.ledger.ledger_row import NETWORK, LedgerRow, case_name, operation_class, rows_of


def op(
    number: int, npu_op: str, cycles: int | None, provenance: str = "fvp", active: int | None = None, **other: str
) -> Op:
    events = {"npu_active": active} if active is not None else {}
    return Op(f"npu{number:05}", npu_op, "", (), "secret.module", "secret.py:1", cycles, provenance, method="prefix",
              events=events, samples=(cycles or 0,) * 3, **other)  # type: ignore[arg-type]  # fmt: skip


def cost(vela: int | None, modelled: int | None, rule: str = "kernel") -> OpCost:
    return OpCost(vela_cycles=vela, vela_npu_cycles=vela, modelled=modelled, rule=rule, kernels=1)


JOB_ROW = Op(JOB, JOB, "", (), "", "", 36, "fvp", instruction=1, method="prefix", events={"npu_active": 30})
RECORD = Record(
    Verdict.VERIFIED, model="/home/secret/net.py:net", npu="ethos-u85-256",
    target=TargetInfo("corstone-320", "fvp", "corstone-320"),
    metrics=(Metric("npu_cycles", 1036, "cycles", "fvp", (1036, 1040)),
             Metric("npu_cycles_estimate", 900, "cycles", "vela")),
    ops=(JOB_ROW, op(0, "Conv2D", None, merged_with="npu00001"), op(1, "Add", 800), op(2, "MaxPool", 200)),
    artifact=ArtifactInfo("", 0, 3, (), question="q" * 64, delegates=(DelegateInfo(1, "", "s" * 64, ""),)),
    versions={"ethos-u-vela": "5.1.0", "fvp": "11.27"}, memory_mode="Sram_Only", system_config="High",
    clock_hz=1e9, firmware_sha256="f" * 64, timing_adapters="reset", created="2026-11-25T10:00:00+00:00",
    profile=InferenceProfile(timing_model="m1", costs={
        "npu00000": cost(500, 450), "npu00001": cost(100, 300, "dma"), "npu00002": cost(300, 210)}),
)  # fmt: skip


def by_row(record: Record) -> dict[str, LedgerRow]:
    return {row.row: row for row in rows_of(record)}


def test_a_network_and_each_count_have_a_row_with_what_everybody_says() -> None:
    rows = by_row(RECORD)
    assert list(rows) == ["", "npu00000+npu00001", "npu00002"]
    whole, shared, pool = rows.values()
    assert (whole.operation, whole.vela_op, whole.vela_npu, whole.modelled, whole.fvp) == (NETWORK, 900, 900, 960, 1036)
    assert (whole.samples, whole.spread, whole.counter) == (2, 4, "cycles")
    assert (shared.operation, shared.name, shared.rule) == ("mixed", "Conv2D+Add", "several")
    assert (shared.vela_op, shared.modelled, shared.fvp) == (600, 750, 800)
    assert (pool.operation, pool.vela_op, pool.modelled, pool.fvp, pool.rule) == ("pool", 300, 210, 200, "kernel")
    assert (pool.target, pool.simulator, pool.vela, pool.timing_adapters) == ("corstone-320", "11.27", "5.1.0", "reset")
    assert (pool.timing_model, pool.firmware, pool.method, pool.samples) == ("m1", "f" * 16, "prefix", 3)
    assert (pool.memory_mode, pool.system_config, pool.clock_hz) == ("Sram_Only", "High", 1e9)
    assert pool.stream
    assert pool.question == "q" * 16


def test_a_row_tells_others_nothing_of_modules_lines_and_folders() -> None:
    assert "secret" not in repr(rows_of(RECORD))
    assert rows_of(RECORD)[0].case == "net.py:net"
    assert case_name("package.module:net") == "package.module:net"
    assert case_name("suites/ops/test_add.py::test_add_MI") == "suites/ops/test_add.py::test_add_MI"


def test_on_an_fvp_the_finer_counter_counts() -> None:
    ops = (JOB_ROW, op(0, "Conv2D", 1000, active=430), op(1, "Add", 0, active=81))
    costs = {"npu00000": cost(500, 450), "npu00001": cost(100, 90)}
    assert RECORD.profile is not None
    record = replace(RECORD, ops=ops, profile=replace(RECORD.profile, costs=costs))
    rows = by_row(record)
    assert [(row.fvp, row.counter) for row in rows.values()] == [
        (541, "npu_active"), (430, "npu_active"), (81, "npu_active")
    ]  # fmt: skip
    board = replace(record, metrics=(Metric("npu_cycles", 1036, "cycles", "measured"),),
                    ops=tuple(replace(op, provenance="measured") for op in ops))  # fmt: skip
    assert [(row.measured, row.fvp, row.counter) for row in rows_of(board)] == [
        (1036, None, "cycles"), (1000, None, "cycles"), (0, None, "cycles")
    ]  # fmt: skip


def test_what_was_not_counted_does_not_depend_on_where_and_how_it_was_asked() -> None:
    modelled = replace(
        RECORD, ops=tuple(replace(op, provenance="modelled") for op in RECORD.ops), timing_model="m1",
        metrics=(Metric("npu_cycles", 960, "cycles", "modelled"), RECORD.metrics[1]), timing_adapters="",
    )  # fmt: skip
    for row in rows_of(modelled):
        assert (row.target, row.simulator, row.firmware, row.counter, row.method, row.samples) == (
            "",
            "",
            "",
            "",
            "",
            0,
        )
        assert (row.modelled is not None, row.reference) == (True, None)


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.UNVERIFIED, Verdict.SKIPPED])
def test_an_answer_that_nobody_vouches_for_counts_for_nothing(verdict: Verdict) -> None:
    assert rows_of(replace(RECORD, verdict=verdict)) == ()


def test_without_a_profile_only_the_network_is_comparable() -> None:
    (row,) = rows_of(replace(RECORD, profile=None, test=SuiteTest("t.py::t", "", "", "", "")))
    assert (row.case, row.vela_op, row.vela_npu, row.modelled, row.fvp) == ("t.py::t", 900, None, None, 1036)
    assert rows_of(replace(RECORD, profile=None, metrics=RECORD.metrics[:1])) == ()


def test_a_sum_with_an_unknown_part_is_not_known() -> None:
    assert RECORD.profile is not None
    costs = {**RECORD.profile.costs, "npu00000": cost(None, 450)}
    rows = by_row(replace(RECORD, profile=replace(RECORD.profile, costs=costs)))
    assert (rows[""].vela_npu, rows["npu00000+npu00001"].vela_op, rows["npu00000+npu00001"].modelled) == (
        None,
        None,
        750,
    )


def test_a_number_that_nothing_counts_to_is_none_and_is_written_as_none() -> None:
    for value in (-1.0, 1e300):
        metrics = (Metric("npu_cycles", value, "cycles", "fvp"), RECORD.metrics[1])
        row = rows_of(replace(RECORD, metrics=metrics))[0]
        assert (row.fvp, row.vela_op) == (None, 900)


def test_what_the_npu_does_makes_the_class() -> None:
    assert operation_class("Conv2D", "DEPTHWISE_CONV2D") == "conv"
    assert operation_class("", "DEPTHWISE_CONV2D") == "depthwise"
    assert operation_class("MemoryCopy", "PAD", kernels=0, transfers=1) == "dma"
    assert operation_class("MemoryCopy", "PAD") == "copy"
    assert operation_class("Nonsense", "") == "other"
