"""The gate on real runs: a network is run, something is done to it, and the gate says what it was.

The regressions of results/testing are made of records; these are made of models, compilers and a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import ethos_hil
from ethos_hil.base.record import Record
from ethos_hil.harness.npu import npu
from ethos_hil.harness.npu.timing import kernel_cost, model_id
from ethos_hil.results.gate.change import VERDICT, Cause, Word
from ethos_hil.results.gate.gate import Side, side_of
from ethos_hil.results.run_results import RunResults

U55 = "ethos-u55-128"
pytestmark = pytest.mark.slow  # a dozen models are lowered


class Net(nn.Module):
    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.head = nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.second(torch.relu(self.conv(images))))
        return torch.softmax(self.head(features.mean((2, 3))), 1)


class Moved(Net):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        # The same network, some lines further down.

        features = torch.relu(self.second(torch.relu(self.conv(images))))
        return torch.softmax(self.head(features.mean((2, 3))), 1)


def run(kind: type[Net] = Net, *, channels: int = 8, scale: float = 1.0, **options: object) -> Side:
    torch.manual_seed(0)
    module = kind(channels)
    inputs = scale * torch.rand(1, 3, 16, 16)
    result = ethos_hil.run(module, inputs, **{"npu": "ethos-u85-128", **options})  # type: ignore[arg-type]
    return night(result.record)


def night(record: Record) -> Side:
    return side_of(RunResults("a night", record.created, (record,)))


@pytest.fixture(scope="module")
def good() -> Side:
    return run()


def changes_between(before: Side, after: Side) -> dict[str, tuple[Word, Cause]]:
    """What is different, by metric. The name of a model in memory is that of its class."""
    return {change.metric: (change.word, change.cause) for change in ethos_hil.gate(before, after).changes}


def test_the_same_network_is_the_same_wherever_its_lines_are(good: Side) -> None:
    assert changes_between(good, run()) == {}
    assert changes_between(good, run(Moved)) == {VERDICT: (Word.CHANGED, Cause.NAME)}


def test_an_argument_of_vela_is_named(good: Side) -> None:
    """An Ethos-U85 gets other weights, an Ethos-U55 another stream that needs less SRAM and more cycles."""
    assert {cause for _, cause in changes_between(good, run(optimise="Size")).values()} == {Cause.WEIGHTS}
    comparison = ethos_hil.gate(run(npu=U55), run(npu=U55, optimise="Size"))
    words = {change.metric: (change.word, change.cause) for change in comparison.changes}
    assert words["scratch_bytes"] == (Word.IMPROVED, Cause.STREAM)
    assert words["npu_cycles"] == (Word.REGRESSED, Cause.STREAM)
    assert {change.detail for change in comparison.changes} == {
        "another command stream: Vela's arguments: nothing became --optimise=Size"
    }


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"memory_mode": "Dedicated_Sram"}, Cause.MEMORY_MODE),
        ({"npu": "ethos-u85-512"}, Cause.NPU),
        ({"scheme": "a16w8"}, Cause.SCHEME),
    ],
)
def test_another_place_is_not_compared_and_its_numbers_are_shown(
    good: Side, options: dict[str, object], cause: Cause
) -> None:
    comparison = ethos_hil.gate(good, run(**options))  # type: ignore[arg-type]
    assert {(change.word, change.cause) for change in comparison.changes} == {(Word.INCOMPARABLE, cause)}
    assert [change.metric for change in comparison.failing] == [VERDICT]
    assert "npu_cycles" in {change.metric for change in comparison.changes}


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        ({"channels": 16}, {"npu_cycles", "sqnr_db"}),
        ({"scale": 0.5}, {"sqnr_db"}),
        # `--leave` is asked for. What is lost without being asked for is in the same question: see results/testing.
        ({"leave": ["aten.softmax"]}, {"npu_cycles", "cpu_ops"}),
    ],
    ids=["channels", "scale", "leave"],
)
def test_an_edit_is_called_so_with_what_moved(good: Side, options: dict[str, object], moved: set[str]) -> None:
    comparison = ethos_hil.gate(good, run(**options))  # type: ignore[arg-type]
    assert {(change.word, change.cause) for change in comparison.changes} == {(Word.EDITED, Cause.QUESTION)}
    assert {change.metric for change in comparison.changes} >= {VERDICT, *moved}
    assert comparison.passed


@pytest.fixture
def slower_output(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The timing model's output unit is half as fast."""
    before = kernel_cost.output_cycles_per_element
    monkeypatch.setattr(kernel_cost, "output_cycles_per_element", lambda kernel, npu: before(kernel, npu) * 2)
    npu.forget()  # decoded programs are kept with their cycles
    yield
    npu.forget()


@pytest.mark.usefixtures("slower_output")
def test_an_edit_of_the_timing_model_is_named_with_the_operations_that_moved(
    good: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id is made of the source, which a test does not edit: with the old id nothing explains the new cycles."""
    assert changes_between(good, run()) == {"npu_cycles": (Word.UNSTABLE, Cause.NONE)}
    monkeypatch.setattr(model_id, "source_digest", lambda *_folders: "e" * 64)
    model_id.timing_model_id.cache_clear()
    try:
        (change,) = ethos_hil.gate(good, run()).changes
    finally:
        model_id.timing_model_id.cache_clear()
    assert (change.metric, change.word, change.cause) == ("npu_cycles", Word.REGRESSED, Cause.TIMING_MODEL)
    assert change.rows
    assert {row.source.partition(":")[0] for row in change.rows} == {Path(__file__).name}
    assert isinstance(change.before, int | float)
    assert isinstance(change.after, int | float)
    assert math.isclose(sum(row.delta for row in change.rows), change.after - change.before)


def test_a_wrong_answer_is_a_regression_with_its_failure() -> None:
    """Vela compiles the model of the README wrongly for an Ethos-U55, unless that is repaired."""
    model = str(Path(__file__).parents[2] / "docs/examples/monitor.py") + ":monitor"
    good, bad = (night(ethos_hil.run(model, as_upstream=flag).record) for flag in (False, True))
    (change,) = ethos_hil.gate(good, bad).changes
    assert (change.metric, change.word, change.after) == (VERDICT, Word.REGRESSED, "failed: mismatch")
    (back,) = ethos_hil.gate(bad, good).changes
    assert (back.word, back.effect) == (Word.IMPROVED, "warn")
