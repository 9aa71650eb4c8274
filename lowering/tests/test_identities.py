"""Calls that give what they are given, or take nothing but a shape, are in no delegate: a program runs with and
without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.upstream.graph_repairs import prepare
from ethos_hil.lowering.upstream.rewritten.constants import WITHOUT_INPUT

SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "all of a slice": lambda x: x[:, 0:4],
    "another name": lambda x: x[...],
    "concatenation of one": lambda x: torch.cat([x], 1),
    "copy": lambda x: x.clone(),
    "dropout": lambda x: functional.dropout(x, 0.5, training=False),
    "expanded to its shape": lambda x: x.expand(1, -1, 6, 6),
    "flipped at no axis": lambda x: x.flip([]),
    "one part": lambda x: x.split(4, 1)[0],
    "pad by nothing": lambda x: functional.pad(x, (0, 0, 0, 0)),
    "permuted in order": lambda x: x.permute(0, 1, 2, 3),
    "shuffled by one": lambda x: functional.pixel_shuffle(x, 1),
    "squeezed where it is not": lambda x: x.squeeze(2).squeeze((1, 3)),
    "to another shape and back": lambda x: x.flatten(1).unsqueeze(0).reshape(1, 4, 6, 6),
    "transposed with itself": lambda x: x.transpose(-1, 3),
}
OTHER: dict[str, Callable[[Tensor], Tensor]] = {
    "a part": lambda x: x[:, 1:3],
    "concatenation of two": lambda x: torch.cat([x, x], 1),
    "flipped": lambda x: x.flip([2]),
    "other pads": lambda x: functional.pad(x, (1, -1)),
    "another order": lambda x: x.permute(0, 1, 3, 2),
    "another layout": lambda x: x.clone(memory_format=torch.channels_last),
    "negative slice": lambda x: x[:, -3:],
}
X = torch.arange(144.0).reshape(1, 4, 6, 6) / 100


def calls(function: Callable[[Tensor], Tensor]) -> list[str]:
    """Return the operators that are left of a function of a product."""
    module = torch.export.export(module_of(lambda x: function(x * 2)), (X,)).module(check_guards=False)
    prepare(module, quantised=True, as_upstream=True)
    assert torch.equal(module(X), function(X * 2))
    names = [str(node.target) for node in module.graph.nodes if node.op == "call_function"]
    return [name for name in names if name != "aten.mul.Tensor"]


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_is_left_out(name: str) -> None:
    assert calls(SAME[name]) == []


def test_reductions_of_one_value_are_left_out() -> None:
    assert calls(lambda x: x.sum().mean(-1).amax(0).logsumexp(0)) == ["aten.sum.default"]
    assert "aten.index_select.default" not in calls(lambda x: x.sum().index_select(0, torch.tensor([0])))


@pytest.mark.parametrize("name", OTHER)
def test_what_changes_something_stays(name: str) -> None:
    assert calls(OTHER[name])


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_a_program_may_return_its_input_and_numbers(npu: str, cache: Cache) -> None:
    def passes(x: Tensor) -> tuple[Tensor, ...]:
        numbers = torch.full_like(x, 0.5), torch.zeros_like(x[:, 0]), x.new_full((2, 2), 3.0), torch.ones(2, 3)
        return (*(function(x) for function in SAME.values()), x * 2, *numbers)

    artifact = lower(from_module(module_of(passes), (X,), label="passes"), EthosU.parse(npu), cache=cache)
    assert WITHOUT_INPUT in artifact.notes
    outputs = Reference(artifact).run((X.numpy(),)).outputs
    step = float(X.max()) / 255
    for output, expected in zip(outputs, passes(X), strict=True):
        assert np.abs(output - expected.numpy()).max() <= 2 * step, "the product's step is twice the input's"


def test_what_only_carries_an_input_beside_others_is_left_to_the_cpu(cache: Cache) -> None:
    """An Ethos-U55 multiplies no matrices of 16 bits, and what shapes them for it would be a program of nothing."""
    inputs = torch.linspace(-1, 1, 48).reshape(2, 4, 6), torch.linspace(0, 1, 12).reshape(2, 1, 6)
    module = module_of(lambda q, k: torch.einsum("bqd,bkd->bqk", q, k))
    artifact = lower(from_module(module, inputs), EthosU.parse("ethos-u55-128"), cache=cache, scheme="a16w8")
    assert "only moves or renames data" in reasons_of(artifact)["aten::permute_copy.out"]
    expected = module(*inputs).numpy()
    (answer,) = Reference(artifact).run(tuple(value.numpy() for value in inputs)).outputs
    assert np.abs(answer - expected).max() <= 4 * np.abs(expected).max() / 32767, "four roundings to 16 bits"


def reasons_of(artifact: Artifact) -> dict[str, str]:
    return {call.operator: call.reason for call in artifact.placement.on_cpu}


@pytest.mark.parametrize("axes", [(2, 0, 1), (2, 1, 0)])
def test_a_permutation_that_gives_the_order_of_memory_is_left_to_the_cpu(axes: Sequence[int], cache: Cache) -> None:
    """Sees red: Vela refuses a program whose output "does not have any writers". What moves a byte is delegated."""
    x = torch.linspace(-1, 1, 60).reshape(5, 3, 4).permute(1, 2, 0)
    module = module_of(lambda x: (x.permute(axes), x * 2))
    artifact = lower(from_module(module, (x,)), EthosU.parse("ethos-u55-128"), cache=cache)
    assert ("aten::permute_copy.out" in reasons_of(artifact)) is (axes == (2, 0, 1))
    for answer, expected in zip(Reference(artifact).run((x.numpy(),)).outputs, module(x), strict=True):
        assert np.abs(answer - expected.numpy()).max() <= 2 / 127, "two roundings to 8 bits, of 2 at most"
