"""What is changed in a float program before upstream gets it computes the same; most programs keep their graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.process import one_torch_thread
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.upstream.cpu_calls import picks_alike
from ethos_hil.lowering.upstream.explain import explain
from ethos_hil.lowering.upstream.graph_repairs import prepare
from ethos_hil.lowering.upstream.quantizers import GroupedFinder, grouped_notes
from ethos_hil.lowering.user_code.user_function import Sources


def extremes(x: Tensor) -> tuple[Tensor, ...]:
    """Maxima and minima of a dimension, with and without their indices."""
    most, at = torch.max(x, -1)
    least = torch.min(x, 1, keepdim=True)[1]
    return most, at, least, torch.max(x, 0)[0]


def floating(function: Callable[..., Any], *inputs: Tensor) -> torch.fx.GraphModule:
    graph: torch.fx.GraphModule = torch.export.export(module_of(function).eval(), inputs).module(check_guards=False)
    return graph


def targets(module: torch.fx.GraphModule) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("batch", [1, 2])
def test_extremes_whose_indices_are_used_are_taken_apart(batch: int) -> None:
    x = torch.randint(-3, 3, (batch, 4, 6)).float()
    module = floating(extremes, x)
    wanted = module(x)
    (note,) = prepare(module, Sources(), quantised=True, as_upstream=False)
    assert "argmax" in note
    assert targets(module).count("aten.max.dim") == 1, "one whose indices no one uses"
    for mine, theirs in zip(module(x), wanted, strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("pads", [(1, 2), (2, 0, 0, 3), (-1, -1, 0, 3), (0, 0, 1, 1, 2, 2)], ids=str)
def test_circular_padding_is_concatenated(pads: tuple[int, ...]) -> None:
    def wrapped(x: Tensor) -> Tensor:
        return 2 * nn.functional.pad(x, pads, "circular")

    x = torch.randn((2, 3, 4, 5, 6)[: len(pads) // 2 + 2])
    module = floating(wrapped, x)
    (note,) = prepare(module, Sources(), quantised=True, as_upstream=True)
    assert "circular" in note
    assert "aten.pad.default" not in targets(module)
    assert torch.equal(module(x), wrapped(x))
    assert all("val" in node.meta for node in module.graph.nodes if node.op == "call_function")


POOLS = {
    "max": lambda: nn.MaxPool2d(4, 4, 2, ceil_mode=True),
    "max with dilation": lambda: nn.MaxPool2d(2, 5, 1, dilation=2, ceil_mode=True),
    "average": lambda: nn.AvgPool2d(4, 4, 2, ceil_mode=True),
    "average of what is inside": lambda: nn.AvgPool2d(4, 4, 2, ceil_mode=True, count_include_pad=False),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_window_that_begins_in_the_padding_is_none(name: str) -> None:
    x = torch.rand(2, 3, 12, 9)
    module = floating(POOLS[name](), x)
    wanted = module(x)
    (note,) = prepare(module, Sources(), quantised=True, as_upstream=False)
    assert note.startswith("pools whose ceil_mode adds no window")
    assert torch.equal(module(x), wanted)


def test_a_pool_that_needs_ceil_mode_keeps_it() -> None:
    x = torch.rand(1, 3, 10, 10)
    module = floating(nn.MaxPool2d(3, 2, ceil_mode=True), x)
    before = module.code
    assert prepare(module, Sources(), quantised=True, as_upstream=False) == ()
    assert module.code == before


def test_a_pool_that_has_and_lacks_a_window_is_refused_with_its_line() -> None:
    pooled = floating(lambda x: nn.functional.max_pool2d(x, 4, 4, 2, ceil_mode=True), torch.rand(1, 3, 15, 9))
    with pytest.raises(CompileError, match=r"aten.max_pool2d.default at test_prepare.py:\d+: ceil_mode") as caught:
        prepare(pooled, Sources(Path(__file__).parent), quantised=True, as_upstream=False)
    assert "functional.pad" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.ConvTranspose2d(8, 4, 3, 2, groups=2), True),
        (nn.ConvTranspose2d(8, 4, 3, 2, groups=2, bias=False), False),
        (nn.ConvTranspose2d(8, 8, 3, 2, groups=8), False),
        (nn.ConvTranspose2d(8, 4, 3, 2), False),
    ],
)
def test_transposed_convolutions_that_upstream_cannot_quantise_are_found(layer: nn.Module, expected: bool) -> None:
    module = floating(nn.Sequential(layer), torch.rand(1, 8, 5, 5))
    assert bool(list(GroupedFinder().find_nodes(module))) is expected
    assert bool(grouped_notes(module, Sources())) is expected
    assert bool(list(GroupedFinder(frozenset({"0"})).find_nodes(module))) is expected
    assert list(GroupedFinder(frozenset({"1"})).find_nodes(module)) == []


def test_nearest_elements_are_pytorchs_for_whole_factors_only() -> None:
    whole = {(size, size * factor) for size in range(1, 12) for factor in (1, 2, 3, 4)}
    assert all(picks_alike(*sizes) for sizes in whole)
    assert not any(picks_alike(*sizes) for sizes in [(6, 8), (5, 7), (6, 9), (6, 3), (6, 15), (7, 10)])
    assert picks_alike(6, 12, 2.0)
    for size, target in ((6, 8), (7, 10), (4, 6), (9, 4)):  # PyTorch's elements are as this takes them to be
        elements = torch.nn.functional.interpolate(torch.arange(size).float().view(1, 1, 1, size), size=(1, target))
        assert elements.flatten().long().tolist() == [at * size // target for at in range(target)]


def test_a_failure_at_a_node_without_a_trace_names_a_line_that_is_near() -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(torch.neg, (graph.placeholder("x"),))
    reader = graph.call_function(torch.abs, (node,))
    reader.meta["stack_trace"] = 'File "/home/ada/net.py", line 7, in forward'

    names: dict[str, Any] = {}
    exec(compile("def fails(node): raise ValueError('TOSA doesn\\'t support tensor 7')", "<pass>", "exec"), names)
    try:
        names["fails"](node)
    except ValueError as error:
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None  # without this file's frame
        explained = explain("lowering the model", error, Sources(Path("/home/ada")))
    assert "near net.py:7): ValueError: TOSA doesn't support tensor 7" in explained.message
    assert "--leave" in (explained.hint or "")


def test_the_number_of_threads_is_as_it_was_after_a_failure() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        with one_torch_thread():
            assert torch.get_num_threads() == 1
        with pytest.raises(ZeroDivisionError), one_torch_thread():
            _ = 1 / 0
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_model_is_lowered_in_one_thread(tmp_path: Path) -> None:
    """Else sums differ in the last bit from machine to machine, and programs with them."""
    threads: dict[str, int] = {}

    def noted(stage: str) -> None:
        threads[stage] = torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model = from_module(module_of(lambda x: x * 2), (torch.ones(1, 4),))
        lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path), progress=noted)
    finally:
        torch.set_num_threads(before)
    assert threads.pop("exporting") == threads.pop("loading ExecuTorch") == 2
    assert "compiling with Vela" in threads
    assert set(threads.values()) == {1}
