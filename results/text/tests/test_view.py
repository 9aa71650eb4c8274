"""Groups of a profile's rows: nothing is lost or counts twice; and the rules that modelled cycles come from."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ethos_hil.base.inference_profile import InferenceProfile, OpCost
from ethos_hil.base.record import JOB, Op, Record, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.profile_view import By, Group, RuleFacts, Sort, groups
from ethos_hil.results.tests import profiled
from ethos_hil.results.text.profile import profile, rule_lines


def op(number: int, module: str, cycles: int | None, source: str = "net.py:3", name: str = "Conv2D") -> Op:
    return Op(f"npu{number:05d}", name, "CONV2D", (), module, source, cycles, "modelled", method="prefix", spread=1)


OPS = (
    Op(JOB, JOB, "", (), "", "", 7, "modelled", method="prefix"),
    op(0, "stem.0", 100),
    op(1, "body.0.left", 30, "net.py:9"),
    op(2, "body.0.right", 50, "net.py:9", "Add"),
    op(3, "body.1", 20),
    op(4, "", 5, ""),
    op(5, "stem.1", None),
)
TOTAL = 212


def named(rows: list[Group]) -> list[tuple[str, int, int]]:
    return [(group.name, group.depth, group.cycles) for group in rows]


def test_modules_are_a_tree() -> None:
    assert named(groups(OPS, By.MODULE, Sort.PROGRAM, 3)) == [
        ("stem", 0, 100),
        ("0", 1, 100),
        ("1", 1, 0),
        ("body", 0, 100),
        ("0", 1, 80),
        ("left", 2, 30),
        ("right", 2, 50),
        ("1", 1, 20),
        ("(itself)", 0, 5),
        ("job", 0, 7),
    ]


def test_depth_and_order() -> None:
    rows = named(groups(OPS, By.MODULE, Sort.CYCLES, 1))
    assert rows == [("stem", 0, 100), ("body", 0, 100), ("job", 0, 7), ("(itself)", 0, 5)]


@pytest.mark.parametrize("by", list(By))
def test_no_cycle_is_lost_or_counted_twice(by: By) -> None:
    outer = [group for group in groups(OPS, by, Sort.CYCLES, 3) if group.depth == 0]
    assert sum(group.cycles for group in outer) == TOTAL
    assert sorted(row.id for group in outer for row in group.ops) == sorted(row.id for row in OPS)


def shown(by: By, top: int = 25, width: int = 120, ops: tuple[Op, ...] = OPS) -> str:
    target = TargetInfo("virtual", "virtual", "corstone-300")
    record = Record(Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=target, ops=ops)
    written = io.StringIO()
    Console(file=written, width=width).print(profile(record, by=by, sort=Sort.CYCLES, depth=2, top=top))
    return written.getvalue()


def test_what_is_not_shown_is_in_the_last_row() -> None:
    text = shown(By.OP, top=2)
    assert "and 5 more" in text
    assert [line.split()[-2:] for line in text.splitlines() if "more" in line] == [["62", "29.2%"]]


def test_a_merged_row_names_the_other() -> None:
    merged = Op("npu00009", "Add", "ADD", (), "", "", None, "fvp", merged_with="npu00010")
    assert "with npu00010" in shown(By.OP, ops=(merged,))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(By.MODULE, width=width).splitlines())) <= width


def test_a_damaged_record_whose_tensors_outlive_its_rows_is_shown() -> None:
    written = io.StringIO()
    shown = profile(profiled.large(30, 10), by=By.MEMORY, sort=Sort.CYCLES, depth=2, top=5)
    Console(file=written, width=200).print(shown)
    assert "at its peak" in written.getvalue()


RULED_OPS = tuple(Op(f"npu{at}", "Conv2D", "", (), "", "", 1, "modelled") for at in range(3))
COSTS = {"npu0": OpCost(modelled=60, rule="conv"), "npu1": OpCost(modelled=10, rule="dma"),
         "npu2": OpCost(modelled=30, rule="conv")}  # fmt: skip
RULED = Record(Verdict.VERIFIED, model="net", npu="ethos-u55-128",
                target=TargetInfo("virtual", "virtual", "corstone-300"), ops=RULED_OPS,
                profile=InferenceProfile(costs=COSTS))  # fmt: skip
RULES = {"conv": RuleFacts("a convolution", "a fit", "12 operations", 0.02, 0.1)}


def rules_of(record: Record) -> list[str]:
    return [line.plain for line in rule_lines(record, RULES)]


def test_each_rule_has_its_share_and_what_it_is_worth() -> None:
    assert rules_of(RULED) == [
        "",
        "where modelled cycles come from",
        "90%: conv: a convolution (a fit); validated on 12 operations: median error 2.0%, worst +10.0%",
        "10%: dma: nothing is known of this rule here",
    ]


def test_counts_and_records_without_rules_say_nothing() -> None:
    counted = tuple(replace(op, provenance="fvp") for op in RULED_OPS)
    assert rules_of(replace(RULED, ops=counted)) == []
    bare = {row: replace(cost, rule="") for row, cost in COSTS.items()}
    assert rules_of(replace(RULED, profile=InferenceProfile(costs=bare))) == []
    assert rules_of(replace(RULED, profile=None)) == []
