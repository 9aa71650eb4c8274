"""What is there twice counts once, and another count is kept."""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.results.ledger.ledger_row import LedgerRow, merge

ROW = LedgerRow(
    "conv", "net", "ethos-u55-128", "npu00000", "Conv2D", "Shared_Sram", stream="1", vela="5.1.0", vela_op=90,
    vela_npu=80, modelled=95, timing_model="m1", fvp=100, target="corstone-300", counter="cycles", spread=2,
    created="2026-01-02",
)  # fmt: skip


def test_of_a_row_that_is_there_twice_the_newest_stays_and_another_count_is_kept() -> None:
    newer = replace(ROW, created="2026-01-05")
    for rows in ([ROW, newer], [newer, ROW]):
        assert merge(rows) == (newer,)
    assert merge([ROW, replace(ROW, fvp=105)]) == (ROW, replace(ROW, fvp=105))


def test_another_target_version_or_adapter_is_another_count() -> None:
    others = [replace(ROW, target="other"), replace(ROW, simulator="11.30"), replace(ROW, timing_adapters="reset"),
              replace(ROW, case="other"), replace(ROW, memory_mode="Sram_Only"), replace(ROW, vela="5.2.0"),
              replace(ROW, fvp=None, measured=200, target="board")]  # fmt: skip
    assert merge([ROW, *others]) == (ROW, *others)


def test_the_newer_timing_model_stays() -> None:
    newer = replace(ROW, modelled=99, timing_model="m2", rule="kernel", created="2026-01-03")
    for rows in ([ROW, newer], [newer, ROW]):
        assert merge(rows) == (newer,)


def test_what_one_lacks_the_other_tells() -> None:
    bare = replace(ROW, vela_npu=None, modelled=None, timing_model="", created="2026-01-04")
    for rows in ([bare, ROW], [ROW, bare]):
        assert merge(rows) == (replace(ROW, created="2026-01-04"),)
