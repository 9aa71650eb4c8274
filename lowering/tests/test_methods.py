"""Programs of several methods: each is quantised, delegated and mapped on its own; shared constants are stored once."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.tests.conftest import DATA, MODELS, U55, Lowered

NAMES = ("encode", "score", "encode_again", "rank", "rank_again")


@pytest.mark.slow
def test_each_method_is_lowered_by_itself(lowered: Lowered) -> None:
    artifact = lowered("methods")
    assert tuple(method.name for method in artifact.methods) == NAMES
    assert artifact.method == "encode", "there is no forward, so the first is meant"
    for name in NAMES:
        view = artifact.of(name)
        assert view.plan.name == name
        assert (view.pte, view.sha256) == (artifact.pte, artifact.sha256)
        on_cpu = name.startswith("rank")
        assert [len(view.delegates), view.scheme] == ([0, None] if on_cpu else [1, "a8w8"])
        (answer,) = Reference(view).run(view.example_inputs).outputs
        (expected,) = view.floating
        allowed = 1e-6 if on_cpu else 0.02  # float32, and eight bits of the range
        assert np.abs(answer - expected).max() <= allowed * np.ptp(expected)


def test_a_method_that_is_not_there_lists_the_others() -> None:
    artifact = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    assert artifact.of(None) is artifact
    assert artifact.of("forward") is artifact
    with pytest.raises(UsageError, match=r"add\.pte has no method 'backward'") as caught:
        artifact.of("backward")
    assert caught.value.hint == "it has: forward"


@pytest.mark.slow
def test_each_method_has_a_partitioner_of_its_own(lowered: Lowered) -> None:
    artifact = lowered("partitioned")
    whole, parts = artifact.of("all"), artifact.of("some")
    assert set(whole.delegated) - set(parts.delegated) == {"aten.sigmoid.default"}
    assert (len(whole.delegates), len(parts.delegates)) == (1, 2), "the sigmoid stands between two"
    assert "aten::sigmoid.out" not in whole.cpu_ops
    assert parts.cpu_ops.count("aten::sigmoid.out") == 1
    answers = [Reference(program).run(program.example_inputs).outputs[0] for program in (whole, parts)]
    assert np.abs(answers[0] - answers[1]).max() <= 0.02 * np.ptp(answers[0])


def test_a_method_that_leaves_something_cannot_be_delegated_whole(cache: Cache) -> None:
    with pytest.raises(UsageError, match="cannot be lowered whole: some leaves aten") as caught:
        lower(f"{MODELS}:partitioned", U55, whole=True, cache=cache)
    assert "--whole" in str(caught.value.hint)
