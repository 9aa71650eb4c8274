"""The benchmark leaves out what it names, compares what it should, and notices a patch that changes a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, Patch, fingerprint
from ethos_hil.lowering.upstream.patches.table import SPEED
from ethos_hil.suites.declare.case import case, f32, layer
from ethos_hil.suites.lab.measure.cost import patches as bench
from ethos_hil.suites.lab.measure.cost.patches import Lowerings, choices, figures, lowerings
from ethos_hil.suites.trial.build import build


def test_every_way_but_the_first_leaves_something_out() -> None:
    ways = choices(SPEED)
    assert ways.pop("none") == SPEED
    assert ways.pop("all") == ()
    for name, applied in ways.items():
        assert {bench.detour(patch) for patch in SPEED if patch not in applied} == {name}
    assert sorted(patch.name for left in ways.values() for patch in SPEED if patch not in left) == sorted(
        patch.name for patch in SPEED
    )


def test_a_ratio_is_the_median_over_rounds_of_two_lowerings_of_one_round() -> None:
    row = Lowerings("model", {"none": (1.0, 2.0, 4.0), "this": (1.5, 5.0, 4.0)})
    assert row.patched == 2.0
    assert row.ratio("this") == 1.5
    assert row.ratio("none") == 1.0


def test_a_patch_that_pays_for_no_model_is_named() -> None:
    rows = [
        Lowerings("one", {"none": (1.0,), "here": (1.5,), "nowhere": (1.01,)}),
        Lowerings("other", {"none": (1.0,), "here": (0.9,), "nowhere": (1.0,)}),
    ]
    assert [figure.what for figure in figures(rows) if figure.short] == ["without the patches of nowhere"]
    assert bench.table(rows).row_count == 2


def convolution() -> Any:
    declared = case("conv2d", layer("Conv2d", 4, 8, 3), f32(1, 4, 6, 6))
    return build(declared.name, declared, Path(__file__).parent)


@pytest.mark.proof
def test_a_model_is_lowered_in_every_way_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[int] = []
    lower = bench.lowering.lower

    def counted(*arguments: Any, **options: Any) -> Any:
        applied.append(len(bench.lowering.SPEED))
        return lower(*arguments, **options)

    monkeypatch.setattr(bench.lowering, "lower", counted)
    done: list[tuple[int, int]] = []
    times = lowerings(
        "conv2d",
        convolution(),
        2,
        [patch for patch in SPEED if patch.name == "history"],
        lambda *both: done.append(both),
    )
    assert applied == [1, 0, 0] * 2
    assert done == [(0, 2), (1, 2)]
    assert {way: len(seconds) for way, seconds in times.seconds.items()} == {"none": 2, "shared_history": 2, "all": 2}
    assert all(seconds > 0 for both in times.seconds.values() for seconds in both)
    assert bench.lowering.SPEED is SPEED


def for_whole_tensors(configuration: Any) -> Any:
    """Upstream's configuration, with one scale for all channels of a weight."""
    return lambda: configuration(is_per_channel=False)


@pytest.mark.proof
def test_a_patch_that_changes_the_program_is_an_error() -> None:
    name = "executorch.backends.arm.quantizer.get_symmetric_quantization_config"
    wrong = Patch(
        name="wrong",
        package="executorch",
        versions=("any",),
        owner=name.rpartition(".")[0],
        attribute=name.rpartition(".")[2],
        make=for_whole_tensors,
        fingerprints=((name, fingerprint(name)),),
        why="",
        gain="",
        changes_result=False,
    )
    with pytest.raises(ToolError, match="the program of conv2d depends on patches that only save time"):
        lowerings("conv2d", convolution(), 1, [wrong])


def test_with_patches_off_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    with pytest.raises(ToolError, match="nothing to measure"):
        lowerings("conv2d", convolution(), 1)
