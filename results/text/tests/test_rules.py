"""Modelled cycles say which rule they come from, and how far it is to be trusted."""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.base.inference_profile import InferenceProfile, OpCost
from ethos_hil.base.record import Op, Record, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.ledger.summary import RuleFacts
from ethos_hil.results.text.profile import rule_lines

OPS = tuple(Op(f"npu{at}", "Conv2D", "", (), "", "", 1, "modelled") for at in range(3))
COSTS = {"npu0": OpCost(modelled=60, rule="conv"), "npu1": OpCost(modelled=10, rule="dma"),
         "npu2": OpCost(modelled=30, rule="conv")}  # fmt: skip
RECORD = Record(Verdict.VERIFIED, model="net", npu="ethos-u55-128",
                target=TargetInfo("virtual", "virtual", "corstone-300"), ops=OPS,
                profile=InferenceProfile(costs=COSTS))  # fmt: skip
RULES = {"conv": RuleFacts("a convolution", "a fit", "12 operations", 0.02, 0.1)}


def lines(record: Record) -> list[str]:
    return [line.plain for line in rule_lines(record, RULES)]


def test_each_rule_has_its_share_and_what_it_is_worth() -> None:
    assert lines(RECORD) == [
        "",
        "where modelled cycles come from",
        "90%: conv: a convolution (a fit); validated on 12 operations: median error 2.0%, worst +10.0%",
        "10%: dma: nothing is known of this rule here",
    ]


def test_counts_and_records_without_rules_say_nothing() -> None:
    counted = tuple(replace(op, provenance="fvp") for op in OPS)
    assert lines(replace(RECORD, ops=counted)) == []
    bare = {row: replace(cost, rule="") for row, cost in COSTS.items()}
    assert lines(replace(RECORD, profile=InferenceProfile(costs=bare))) == []
    assert lines(replace(RECORD, profile=None)) == []
