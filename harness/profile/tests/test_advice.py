"""Advice of a profile: each has a model that needs it, and following it helps by no more than it promises."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.profile.advice import Advice, advice
from ethos_hil.harness.run import run

MODELS = Path(__file__).with_name("advised.py")


@functools.cache
def profiled(model: str, npu: str, memory_mode: str | None = None) -> Record:
    return run(Question(f"{MODELS}:{model}", npu=npu, target="virtual", memory_mode=memory_mode, profile=True)).record


def cost(record: Record) -> int:
    """Return cycles and instructions of an inference, as savings count them."""
    assert record.profile is not None
    return sum(op.cycles or 0 for op in record.ops) + sum(
        row.count or 0 for row in record.profile.cpu if row.part == "kernel"
    )


def advice_of(record: Record, kind: str) -> Advice | None:
    return next((entry for entry in advice(record) if entry.kind == kind), None)


FOLLOWED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "layout": ("ethos-u55-128", ("channels_first",), ("channels_last",)),
    "flatten": ("ethos-u55-128", ("flattened",), ("pooled",)),
    "transposition": ("ethos-u55-128", ("permuted",), ("unpermuted",)),
    "cpu-operator": ("ethos-u55-128", ("sort_between",), ("relu_between",)),
    "activations": ("ethos-u65-512", ("large_activations", "Dedicated_Sram_256KB"), ("large_activations", "Sram_Only")),
    "weights": ("ethos-u55-128", ("dense", "Shared_Sram"), ("dense", "Sram_Only")),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FOLLOWED)
def test_following_it_helps(kind: str) -> None:
    npu, *models = FOLLOWED[kind]
    before, after = (profiled(model, npu, *memory_mode) for model, *memory_mode in models)
    hint = advice_of(before, kind)
    assert hint is not None, [entry.kind for entry in advice(before)]
    assert kind != "flatten" or advice_of(before, "layout") is None, "its input is in the NPU's layout already"
    assert kind != "transposition" or re.search(r"advised\.py:\d+", hint.what)
    left = advice_of(after, kind)
    assert left is None or left.saving < hint.saving
    assert cost(after) < cost(before)
    assert hint.saving > 0
    assert before.profile is not None
    rows = {op.id for op in before.ops} | {row.id for row in before.profile.cpu}
    assert set(hint.rows) <= rows
