"""Cells of recurrent networks, and layers that upstream cannot take apart, as it takes the others apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ethos_hil.lowering.upstream.rewritten.splice import Constants


def _products(
    source: Tensor,
    state: Tensor,
    weights: Tensor,
    state_weights: Tensor,
    bias: Tensor | None = None,
    state_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The input and the state of a cell, each multiplied by its weights."""
    from torch.nn import functional

    return functional.linear(source, weights, bias), functional.linear(state, state_weights, state_bias)


def gru_cell(source: Tensor, state: Tensor, *weights: Tensor | None) -> Tensor:
    import torch

    given, kept = (product.chunk(3, -1) for product in _products(source, state, *weights))  # type: ignore[arg-type]
    reset, update = (torch.sigmoid(one + other) for one, other in zip(given[:2], kept[:2], strict=True))
    new = torch.tanh(given[2] + reset * kept[2])
    return (state - new) * update + new


def rnn_cell(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def cell(*given: Tensor) -> Tensor:
        product, kept = _products(*given)
        return activation(product + kept)

    return cell


def choose_lstm(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One with projections (proj_size), whose state is smaller than its cells: upstream fails on it."""
    output, cell = (value.meta["val"] for value in node.args[1])  # type: ignore[union-attr]
    return _projected_lstm if output.shape[-1] != cell.shape[-1] else None


def _projected_lstm(
    source: Tensor,
    state: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """What aten.lstm computes, when it is not training."""
    import torch

    steps, size, directions = source, 5 if biases else 3, 2 if both else 1
    if batch_first:
        steps = steps.transpose(0, 1)
    ends: list[tuple[Tensor, Tensor]] = []
    for layer in range(layers):
        answers = []
        for direction in range(directions):
            at = layer * directions + direction
            given = steps.flip(0) if direction else steps
            answer, *end = _projected_cells(given, state[0][at], state[1][at], weights[at * size : (at + 1) * size])
            answers.append(answer.flip(0) if direction else answer)
            ends.append((end[0], end[1]))
        steps = torch.cat(answers, -1) if both else answers[0]
    last = [torch.stack(parts) for parts in zip(*ends, strict=True)]
    return steps.transpose(0, 1) if batch_first else steps, last[0], last[1]


def _projected_cells(
    steps: Tensor, output: Tensor, cell: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    import torch
    from torch.nn import functional

    *of_cell, projection = weights
    answers = []
    for step in steps.unbind(0):
        given, kept = _products(step, output, *of_cell)
        enter, keep, new, leave = (given + kept).chunk(4, -1)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
        output = functional.linear(torch.sigmoid(leave) * torch.tanh(cell), projection)
        answers.append(output)
    return torch.stack(answers), output, cell
