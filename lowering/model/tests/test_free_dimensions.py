"""Dimensions that a program leaves free get the size of its example, or the one that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.model.torch_model import TorchModel, from_exported, load_model
from ethos_hil.lowering.tests.conftest import refusals


class Net(nn.Module):
    """Of y, the second dimension is twice the batch."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum(1) + y[:, : 2 * x.shape[0]].sum()


def exported(least: int = 1, most: int = 8) -> torch.export.ExportedProgram:
    """Return a program with a free batch, and a width that follows from it."""
    batch = Dim("batch", min=least, max=most)
    shapes = ({0: batch, 1: Dim("width")}, {1: 2 * batch})
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(20.0).reshape(5, 4)
    return torch.export.export(Net(), (x, y), dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def model() -> TorchModel:
    return from_exported(exported(), label="net")


def test_what_is_free_runs_at_the_size_of_its_example_which_is_said(model: TorchModel, recorded: Recorded) -> None:
    assert [tuple(tensor.shape) for tensor in model.default.example_inputs] == [(2, 3), (5, 4)]
    recorded.check("\n".join(model.notes))


def test_a_size_is_chosen_by_any_of_its_names(model: TorchModel) -> None:
    symbol = model.default.free.dimensions[0].symbol
    for asked in (["batch=4"], ["x[0]=4"], [f"{symbol}=4"], ["batch=4", "x[0]=4"]):
        sized = model.at_sizes(asked)
        assert [tuple(tensor.shape) for tensor in sized.default.example_inputs] == [(4, 3), (5, 8)]
        assert [note for note in sized.notes if "as asked" in note] == [
            "free dimension x[0] (1 to 8) runs at 4, as asked"
        ]
        assert len(sized.notes) == len(model.notes)


def test_inputs_of_another_size_are_the_first_part_or_a_repetition_of_the_examples(model: TorchModel) -> None:
    x, y = model.at_sizes(["batch=3", "x[1]=2"]).default.example_inputs
    assert x.tolist() == [[0, 1], [3, 4], [0, 1]]
    assert y[0].tolist() == [0, 1, 2, 3, 0, 1]
    assert torch.equal(*(method.module(x, y) for method in (model.default, model.at_sizes(["batch=3"]).default)))


def test_a_size_that_cannot_be_is_refused(model: TorchModel, recorded: Recorded) -> None:
    fixed = from_exported(torch.export.export(nn.ReLU(), (torch.zeros(2),)), label="fixed")
    both: Any = ({0: Dim("a", max=9)}, {0: Dim("b", max=9)})
    two = from_exported(torch.export.export(Sum(), (torch.zeros(2), torch.zeros(3)), dynamic_shapes=both), label="two")
    refused = {
        "model": (["batch=9"], ["batch=0"], ["batch=x"], ["batch"], ["bach=2"], ["batch=2", "x[0]=3"], ["y[1]=2"]),
        "fixed": (["batch=2"],),
        "two": (["batch=2"],),
    }
    models = {"model": model, "fixed": fixed, "two": two}
    asks = [lambda name=name, asked=asked: models[name].at_sizes(asked) for name in refused for asked in refused[name]]
    text = refusals(*asks)
    for found in (model, two):
        for dimension in found.default.free.dimensions:
            text = text.replace(f"'{dimension.symbol}'", "'SYMBOL'")
    recorded.check(text)


class Sum(nn.Module):
    """Of inputs of two free sizes."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y.sum()


class Counter(nn.Module):
    """Keeps state."""

    n: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.n.add_(1)
        return x + self.n


@pytest.mark.parametrize(
    ("module", "state"),
    [
        (nn.Sequential(nn.Linear(4, 4)), ()),
        (nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.Dropout()), ()),
        (Counter(), ("n",)),
    ],
)
def test_a_pt2_keeps_state_if_its_program_does(module: nn.Module, state: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(module.eval(), (torch.rand(2, 4, 4),)), path)
    loaded = load_model(str(path))
    assert isinstance(loaded, TorchModel)
    assert loaded.default.changed == state
    traced = TorchModel("traced", {"forward": loaded.default}).default.fresh  # as a file's function may return it
    again = from_exported(torch.export.export(traced, (torch.rand(2, 4, 4),)))
    assert again.default.changed == state
