"""Medians and worst ratios, by hand; what is there twice counts once, and another count is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.results.ledger.ledger_row import NETWORK, LedgerRow, join, merge
from ethos_hil.results.ledger.summary import (
    ALL,
    NO_RULE,
    Grouping,
    LedgerGroup,
    LedgerSummary,
    RuleFacts,
    confidence,
    summarise,
)

CONV = LedgerRow("conv", "net", "ethos-u55-128", "npu00000", "Conv2D", "Shared_Sram", stream="1", vela="5.1.0")


def counted(operation: str, at: int, vela: int, modelled: int | None, fvp: int, **other: object) -> LedgerRow:
    row = replace(CONV, operation=operation, row=f"npu{at:05}", vela_op=vela, modelled=modelled, fvp=fvp)
    return replace(row, target="corstone-300", timing_model="m1" if modelled else "", **other)  # type: ignore[arg-type]


def group(summary: LedgerSummary, name: str) -> LedgerGroup:
    (result,) = (entry for entry in (*summary.counted, *summary.estimated) if entry.name == name)
    return result


def test_the_median_is_the_middle_one_and_the_worst_is_farthest_from_one_on_either_side() -> None:
    rows = [counted("conv", 1, 90, 101, 100), counted("conv", 2, 50, 99, 100), counted("conv", 3, 190, 110, 100)]
    summary = summarise(rows)
    conv = group(summary, "conv")
    assert (conv.rows, conv.against) == (3, {"fvp": 3})
    assert (conv.ratios["vela_op"].median, conv.ratios["vela_op"].worst) == (0.9, 0.5)  # 1 / 2 is farther than 1.9
    assert conv.ratios["vela_op"].worst_row.row == "npu00002"
    assert (conv.ratios["modelled"].median, conv.ratios["modelled"].worst) == (1.01, 1.1)
    assert conv.ratios["vela_op"].error == pytest.approx(0.9)  # of 1 / 9, 1 and 0.9
    assert conv.ratios["modelled"].error == pytest.approx(1 / 99)  # of 0.01, 1 / 99 and 0.1
    assert "vela_npu" not in conv.ratios


def test_of_an_even_number_the_median_is_the_mean_of_the_middle_two() -> None:
    rows = [counted("pool", at, 100, modelled, 100) for at, modelled in enumerate((100, 104, 120, 300))]
    assert group(summarise(rows), "pool").ratios["modelled"].median == pytest.approx(1.12)


def test_an_estimate_of_nothing_is_the_worst_of_all() -> None:
    rows = [counted("lut", 1, 0, 100, 100), counted("lut", 2, 900, 100, 100)]
    assert group(summarise(rows), "lut").ratios["vela_op"].worst == 0


def test_a_count_of_nothing_has_no_ratio_and_is_told() -> None:
    summary = summarise([counted("lut", 1, 10, 10, 0), counted("lut", 2, 10, 10, 10)])
    assert (summary.rows, summary.references, summary.without_ratio) == (2, 2, 1)
    assert group(summary, "lut").rows == 1


def test_a_boards_count_comes_before_an_fvps() -> None:
    row = counted("conv", 1, 100, 100, 100, measured=200)
    conv = group(summarise([row]), "conv")
    assert (conv.against, conv.ratios["modelled"].median) == ({"measured": 1}, 0.5)


def test_classes_sum_up_to_all_operations_and_networks_stand_apart() -> None:
    rows = [counted("conv", 1, 100, 100, 100), counted("pool", 2, 100, 100, 50),
            replace(counted(NETWORK, 0, 100, 100, 25), row="")]  # fmt: skip
    summary = summarise(rows)
    assert [(entry.name, entry.where, entry.rows) for entry in summary.counted] == [
        (NETWORK, "ethos-u55", 1), (ALL, "ethos-u55", 2), ("conv", "ethos-u55", 1), ("pool", "ethos-u55", 1)
    ]  # fmt: skip
    assert group(summary, ALL).ratios["modelled"].median == 1.5


def test_without_a_count_the_timing_model_stands_over_vela() -> None:
    row = replace(CONV, vela_op=50, vela_npu=25, modelled=100, timing_model="m1")
    summary = summarise([row])
    assert (summary.counted, summary.references, summary.timing_models) == ((), 0, {"m1": 1})
    assert {name: ratio.median for name, ratio in group(summary, "conv").ratios.items()} == {
        "vela_op": 2,
        "vela_npu": 4,
    }


def test_what_was_counted_somewhere_is_not_among_the_uncounted() -> None:
    single = replace(CONV, vela_op=50, modelled=100, timing_model="m1")
    other = replace(single, row="npu00001")
    together = replace(counted("conv", 0, 100, 200, 200), row="npu00000+npu00001")
    assert summarise([single, other, together]).estimated == ()
    assert len(summarise([single, other]).estimated) == 2  # the class, and all operations


def test_a_count_that_several_firmwares_gave_alike_counts_once() -> None:
    row = counted("conv", 1, 90, 100, 100)
    assert summarise([row, replace(row, firmware="f2")]).rows == 1
    assert summarise([row, replace(row, firmware="f2", fvp=101)]).rows == 2


def test_groups_by_npu_rule_and_case() -> None:
    row = counted("conv", 1, 90, 100, 100, rule="kernel", held_out=True)
    rows = [row, counted("pool", 2, 90, 100, 100), replace(row, npu="ethos-u55-256", case="other", stream="2")]
    by_rule = summarise(rows, Grouping.RULE)
    assert [(entry.name, entry.rows, entry.held_out) for entry in by_rule.counted] == [
        ("kernel", 2, 2),
        (NO_RULE, 1, 0),
    ]
    assert by_rule.rules == ("", "kernel")
    assert [(entry.name, entry.where) for entry in summarise([replace(row, source="a link") for row in rows],
                                                          Grouping.SOURCE).counted] == [
        ("published", "ethos-u55, operations"), ("published, held out", "ethos-u55, operations")
    ]  # fmt: skip
    assert [entry.name for entry in summarise(rows, Grouping.NPU).counted] == ["ethos-u55-128", "ethos-u55-256"]
    assert [entry.name for entry in summarise(rows, Grouping.CASE).counted] == ["net", "other"]


def test_a_row_takes_what_others_say_of_the_same_operation_and_the_newest_model() -> None:
    fvp = counted("conv", 0, 90, 80, 100, created="2026-01-02", counter="cycles")
    board = replace(fvp, fvp=None, measured=110, modelled=None, timing_model="", target="board")
    later = replace(CONV, modelled=99, timing_model="m2", rule="kernel", created="2026-01-03")
    first, second, third = join([fvp, board, later])
    assert (first.fvp, first.measured, first.modelled, first.timing_model, first.rule) == (100, 110, 99, "m2", "kernel")
    assert (second.fvp, second.measured, second.modelled) == (100, 110, 99)
    assert third == later
    other = replace(board, memory_mode="Sram_Only")
    assert join([fvp, other])[1] == other


def test_what_was_published_keeps_the_cycles_that_were_modelled_with_its_own_memories() -> None:
    published = counted("conv", 0, 90, 80, 100, source="a link", timing_adapters="off", created="2026-01-01")
    later = replace(CONV, modelled=99, timing_model="m2", created="2026-01-03")
    other = counted("conv", 0, 90, None, 100)
    assert [row.modelled for row in join([published, later, other])] == [80, 99, 99]
    assert [row.modelled for row in join([published, other])] == [80, None]
    assert summarise([published, replace(published, timing_adapters="on")]).rows == 2


def test_operations_that_share_a_count_take_the_sum() -> None:
    parts = [replace(CONV, row=f"npu0000{at}", modelled=40 + at, timing_model="m1", created="2026-01-03")
             for at in (0, 1)]  # fmt: skip
    shared = replace(counted("conv", 0, 90, None, 100, created="2026-01-01"), row="npu00000+npu00001")
    assert join([*parts, shared])[-1].modelled == 81
    older = replace(shared, modelled=70, timing_model="m0", rule="whole", created="2026-01-02")
    assert join([*parts, older])[-1].modelled == 81
    assert join([*parts, replace(older, created="2026-01-04")])[-1].modelled == 70
    assert join([parts[0], shared])[-1].modelled is None


def test_each_number_says_how_far_it_is_to_be_trusted() -> None:
    facts = RuleFacts("cycles of a convolution", "a fit", "12 single operations on an FVP", 0.02, -0.09)
    rules = {"conv": facts, "dma": RuleFacts("a transfer", "a header")}
    assert confidence("conv", rules) == (
        "conv: cycles of a convolution (a fit); validated on 12 single operations on an FVP: median error 2.0%, "
        "worst -9.0%"
    )
    assert confidence("dma", rules) == "dma: a transfer (a header); not validated"
    assert confidence("new", rules) == "new: nothing is known of this rule here"
    assert confidence("", rules).startswith("no rule is known")


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
