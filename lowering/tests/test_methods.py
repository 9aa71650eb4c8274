"""Programs of several methods: each is quantised, delegated and mapped on its own; shared constants are stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import Method, TorchModel, load_model
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


FILE = """
import torch
from ethos_hil.lowering.model import Method

class Twice(torch.nn.Module):
    def forward(self, x):
        return x + x

ones = torch.ones(1, 4)
def good():
    cpu = Method(Twice(), (ones,), on_cpu=True)
    return {"one": (Twice(), ones), "two": cpu, "three": (Twice(), ones, [(ones,)])}
def empty(): return {}
def misnamed(): return {"no name": (Twice(), ones)}
def long(): return {"n" * 32: (Twice(), ones)}
def numbered(): return {1: (Twice(), ones)}
def incomplete(): return {"one": Twice()}
def failing(): return {"one": (Twice(), ones), "two": (torch.nn.Linear(3, 2), ones)}
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(FILE)
    return path


def test_a_function_may_return_methods_by_name(user_file: Path) -> None:
    model = load_model(f"{user_file}:good")
    assert isinstance(model, TorchModel)
    assert {name: method.on_cpu for name, method in model.methods.items()} == {
        "one": False,
        "two": True,
        "three": False,
    }
    assert all(isinstance(method, Method) and not method.module.training for method in model.methods.values())
    assert all(len(method.calibration_inputs) == 1 for method in model.methods.values())
    assert model.default.module is model.methods["one"].module
    assert torch.equal(model.default.example_inputs[0], torch.ones(1, 4))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("empty", "returned an empty dictionary"),
        ("misnamed", "returned a method called 'no name'"),
        ("long", "returned a method called 'nnnn"),
        ("numbered", "returned a method called 1"),
        ("incomplete", "net.py:incomplete['one'] returned a Twice"),
        ("failing", "net.py:failing['two']: calling the module with its example inputs failed"),
    ],
)
def test_what_is_wrong_with_a_method_names_it(user_file: Path, function: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(f"{user_file}:{function}")
    assert message in caught.value.message
    assert caught.value.hint


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
