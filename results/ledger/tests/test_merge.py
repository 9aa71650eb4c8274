"""What is there twice counts once, and what contradicts itself is kept and said."""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.results.ledger.ledger_row import LedgerRow
from ethos_hil.results.ledger.merge import merge

ROW = LedgerRow(
    "conv", "net", "ethos-u55-128", "npu00000", "Conv2D", "Shared_Sram", stream="1", vela="5.1.0", vela_op=90,
    vela_npu=80, modelled=95, timing_model="m1", fvp=100, target="corstone-300", counter="cycles", spread=2,
    created="2026-01-02",
)  # fmt: skip


def test_a_row_that_is_there_twice_is_once_as_it_was() -> None:
    result = merge([ROW, replace(ROW, created="2026-01-05")])
    assert (result.rows, result.repeated, result.updated, result.contradictions) == ((ROW,), 1, 0, ())


def test_counts_within_their_spreads_are_equal_and_others_contradict_each_other() -> None:
    assert len(merge([ROW, replace(ROW, fvp=104)]).rows) == 1
    other = replace(ROW, fvp=105)
    result = merge([ROW, other])
    assert result.rows == (ROW, other)
    (contradiction,) = result.contradictions
    assert str(contradiction) == (
        "net npu00000 for ethos-u55-128 Shared_Sram: fvp is 100 and 105, from the same versions and target"
    )


def test_another_target_version_or_adapter_contradicts_nothing() -> None:
    others = [replace(ROW, fvp=200, target="other"), replace(ROW, fvp=200, simulator="11.30"),
              replace(ROW, fvp=200, timing_adapters="reset"), replace(ROW, fvp=200, case="other"),
              replace(ROW, fvp=200, memory_mode="Sram_Only"), replace(ROW, vela_op=1, vela="5.2.0"),
              replace(ROW, fvp=None, measured=200, target="board")]  # fmt: skip
    result = merge([ROW, *others])
    assert (len(result.rows), result.contradictions) == (8, ())


def test_one_version_of_vela_or_of_the_model_says_one_thing() -> None:
    for name in ("vela_op", "vela_npu", "modelled"):
        (contradiction,) = merge([ROW, replace(ROW, **{name: 7})]).contradictions  # type: ignore[arg-type]
        assert contradiction.field == name


def test_the_newer_timing_model_stays() -> None:
    newer = replace(ROW, modelled=99, timing_model="m2", rule="kernel", created="2026-01-03")
    for rows in ([ROW, newer], [newer, ROW]):
        result = merge(rows)
        assert result.rows == (newer,)
        assert result.contradictions == ()
    assert merge([ROW, newer]).updated == 1


def test_what_one_lacks_the_other_tells() -> None:
    bare = replace(ROW, vela_npu=None, modelled=None, timing_model="")
    (row,) = merge([bare, ROW]).rows
    assert (row.vela_npu, row.modelled, row.timing_model) == (80, 95, "m1")
    assert merge([ROW, bare]).rows == (ROW,)
