"""A graph module whose code is generated on demand does whatever one does that has it from the start."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
import torch
from torch.fx import GraphModule, symbolic_trace

from ethos_hil.lowering.upstream.patches.in_torch import generated_on_demand
from ethos_hil.lowering.upstream.patches.patch import replace_attribute


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, factor: int = 2) -> torch.Tensor:
        return self.linear(x) * factor


X = torch.arange(3.0)


def on_demand() -> AbstractContextManager[None]:
    """The patch, on whatever `recompile` is now: the tests count its calls."""
    return replace_attribute(GraphModule, "recompile", generated_on_demand(GraphModule.recompile))


@pytest.fixture
def generations(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The modules whose code torch generated, in order."""
    generated: list[GraphModule] = []
    by_torch = GraphModule.recompile

    def recompile(module: GraphModule) -> object:
        generated.append(module)
        return by_torch(module)

    monkeypatch.setattr(GraphModule, "recompile", recompile)
    return generated


@pytest.fixture
def module(generations: list[GraphModule]) -> Iterator[GraphModule]:
    """A module without code."""
    with on_demand():
        module = symbolic_trace(Twice())
        assert not generations
        yield module


def expected(module: GraphModule, factor: int = 2) -> torch.Tensor:
    answer: torch.Tensor = module.get_submodule("linear")(X) * factor
    return answer


def test_it_is_generated_once_when_it_is_called(module: GraphModule, generations: list[GraphModule]) -> None:
    assert module(X).equal(expected(module))
    assert module.forward(X, factor=2).equal(expected(module))
    assert generations == [module]


def test_it_can_still_be_called_afterwards(generations: list[GraphModule]) -> None:
    with on_demand():
        module = symbolic_trace(Twice())
    assert not generations
    assert module(X).equal(expected(module))
    assert generations == [module]
    module.recompile()
    assert generations == [module, module], "outside torch generates as ever"


def test_it_has_torchs_code_and_signature(module: GraphModule) -> None:
    theirs = symbolic_trace(Twice())
    assert inspect.signature(type(module).forward) == inspect.signature(type(theirs).forward)
    assert inspect.signature(module.forward) == inspect.signature(theirs.forward)
    assert module.code == theirs.code
    assert str(module) == str(theirs)


def test_what_changes_in_the_graph_is_in_it_after_recompiling(module: GraphModule) -> None:
    module(X)
    product = next(node for node in module.graph.nodes if node.name == "mul")
    product.args = (product.args[0], 3)
    assert module(X).equal(expected(module))
    module.recompile()
    assert module(X).equal(expected(module, 3))


def test_modules_inside_are_recompiled_with_it(module: GraphModule) -> None:
    graph = torch.fx.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    outer = GraphModule({"inner": module}, graph)
    outer(X)
    product = next(node for node in module.graph.nodes if node.name == "mul")
    product.args = (product.args[0], 3)
    outer.recompile()
    assert module(X).equal(expected(module, 3))


@pytest.mark.parametrize("called", [False, True])
def test_it_can_be_copied(module: GraphModule, called: bool) -> None:
    if called:
        module(X)
    for other in (copy.copy(module), copy.deepcopy(module)):
        assert other(X).equal(expected(module))
        assert other.code == module.code


def test_an_exported_program_runs(generations: list[GraphModule]) -> None:
    module = Twice()
    with on_demand():
        program = torch.export.export(module, (X,)).run_decompositions({})
        unlifted = program.module()
        few = len(generations)
        assert unlifted(X).equal(module(X))
    assert few < len(generations), "what is called is generated then"
    assert torch.export.export(unlifted, (X,)).module()(X).equal(module(X))


def test_a_module_that_is_gone_is_not_kept(generations: list[GraphModule]) -> None:
    import gc
    import weakref

    with on_demand():
        module = symbolic_trace(Twice())
        alive = weakref.ref(module)
        del module
        gc.collect()
    assert alive() is None
