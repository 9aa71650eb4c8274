"""What takes the place of operators that upstream's Arm quantiser does not know computes the same, is on the NPU, and
is told; what is the same in every call is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import Scheme
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.upstream.export import export, operator_calls
from ethos_hil.lowering.upstream.graph_repairs import TABLES, prepare
from ethos_hil.lowering.upstream.rewritten.branch_norms import FOLDED_NORMS
from ethos_hil.lowering.upstream.rewritten.constants import FOLDED, LARGEST

ROUNDING = 32 * 2**-24
"""Relative to the largest number: the sums of these tests have at most 32 terms, each with a rounding of its own."""


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def prepared(module: nn.Module, *inputs: Tensor, u55: bool = False) -> tuple[torch.fx.GraphModule, tuple[str, ...]]:
    floating: torch.fx.GraphModule = export(module.eval(), inputs).module(check_guards=False)
    return floating, prepare(floating, quantised=True, as_upstream=False, u55=u55)


def targets(module: torch.fx.GraphModule) -> set[str]:
    return {str(node.target) for node in module.graph.nodes if node.op == "call_function"}


def is_the_same(module: nn.Module, *inputs: Tensor, u55: bool = False) -> tuple[str, ...]:
    """Compare a module with what is made of it, and return the notes."""
    floating, notes = prepared(module, *inputs, u55=u55)
    for seed in (1, 2):
        sets = [drawn(*value.shape, seed=seed) * value.std().nan_to_num(1) for value in inputs]
        for answer, wanted in zip(tree_leaves(floating(*sets)), tree_leaves(module(*sets)), strict=True):
            torch.testing.assert_close(answer, wanted, rtol=0, atol=ROUNDING * float(wanted.detach().abs().max()))
    nodes = [node for node in floating.graph.nodes if node.op in ("call_function", "get_attr")]
    assert all("val" in node.meta for node in nodes)
    return notes


# --- Operators.


def product(beta: float, alpha: float, *, addend: tuple[int, ...], constant: bool) -> Callable[[], nn.Module]:
    def of_constants(net: Any, x: Tensor) -> Tensor:
        return torch.addmm(net.addend, x, net.weights, beta=beta, alpha=alpha)

    def of_inputs(net: Any, x: Tensor) -> Tensor:
        return torch.addmm(net.addend, x, x.t(), beta=beta, alpha=alpha)

    width = 5 if constant else 3
    shape = tuple(width if size < 0 else size for size in addend)
    parts = {"addend": drawn(*shape), "weights": nn.Parameter(drawn(8, 5, seed=1))}
    return lambda: keeping(of_constants if constant else of_inputs, **parts)


def cell(kind: type[nn.Module], **options: Any) -> Callable[[], nn.Module]:
    return lambda: kind(8, 6, **options)


def function(compute: Callable[..., Tensor]) -> Callable[[], nn.Module]:
    return lambda: module_of(compute)


ROWS, MAPS = (3, 8), (2, 6, 4, 5)


def bags(*, offsets: Sequence[int] = (), weighted: bool = False, **how: Any) -> Callable[[], nn.Module]:
    """Bags of embeddings, whose indices are 0 to 5."""

    def bag(net: Any, x: Tensor) -> Tensor:
        starts = torch.tensor(offsets) if offsets else None
        weights = x if weighted else None
        indices = (x.abs() * 3).to(torch.int64).clamp(max=5)
        return functional.embedding_bag(indices, net.w, starts, per_sample_weights=weights, **how)

    return lambda: keeping(bag, w=drawn(6, 5))


WRITTEN: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "addmm": (product(1, 1, addend=(-1,), constant=True), [ROWS]),
    "addmm scaled": (product(0.5, 3, addend=(-1,), constant=True), [ROWS]),
    "addmm whole addend": (product(0.5, 1, addend=(3, -1), constant=True), [ROWS]),
    "addmm column": (product(2, 1, addend=(3, 1), constant=True), [ROWS]),
    "addmm one": (product(2, 1, addend=(), constant=True), [ROWS]),
    "addmm no addend": (product(0, 2, addend=(-1,), constant=True), [ROWS]),
    "addmm inputs": (product(0.5, 2, addend=(-1,), constant=False), [ROWS]),
    "addmv": (lambda: keeping(lambda net, x: torch.addmv(net.b, net.w, x), b=drawn(5), w=drawn(5, 8)), [(8,)]),
    "mv": (lambda: keeping(lambda net, x: torch.mv(net.w, x), w=drawn(5, 8)), [(8,)]),
    "mv inputs": (function(torch.mv), [(5, 8), (8,)]),
    "baddbmm": (function(lambda z, x, y: torch.baddbmm(z, x, y, beta=0.5)), [(2, 4, 5), (2, 4, 8), (2, 8, 5)]),
    "addbmm": (function(lambda z, x, y: torch.addbmm(z, x, y, alpha=2)), [(4, 5), (2, 4, 8), (2, 8, 5)]),
    "addr": (function(torch.addr), [(4, 5), (4,), (5,)]),
    "dot": (function(torch.dot), [(9,), (9,)]),
    "outer": (function(torch.outer), [(4,), (5,)]),
    "addcmul": (function(lambda x, y: torch.addcmul(x, x, y, value=2)), [MAPS, MAPS]),
    "addcdiv": (function(lambda x, y: torch.addcdiv(x, x, y.abs() + 1)), [MAPS, MAPS]),
    "lerp": (function(lambda x, y: torch.lerp(x, y, 0.3)), [MAPS, MAPS]),
    "lerp by one": (function(lambda x, y: torch.lerp(x, y, torch.sigmoid(y))), [MAPS, MAPS]),
    "GRUCell": (cell(nn.GRUCell), [ROWS, (3, 6)]),
    "GRUCell without bias": (cell(nn.GRUCell, bias=False), [ROWS, (3, 6)]),
    "GRUCell of one": (cell(nn.GRUCell), [(8,), (6,)]),
    "RNNCell": (cell(nn.RNNCell), [ROWS, (3, 6)]),
    "RNNCell relu": (cell(nn.RNNCell, nonlinearity="relu", bias=False), [(8,), (6,)]),
    "RMSNorm": (lambda: nn.RMSNorm(5), [MAPS]),
    "RMSNorm of maps": (lambda: nn.RMSNorm((4, 5), eps=0.1, elementwise_affine=False), [MAPS]),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(6, affine=True), [MAPS]),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3, alpha=0.1), [MAPS]),
    "normalize": (function(functional.normalize), [MAPS]),
    "logsumexp": (function(lambda x: torch.logsumexp(30 * x, (1, 3))), [MAPS]),
    "logsumexp kept": (function(lambda x: torch.logsumexp(x, -1, keepdim=True)), [MAPS]),
    "logaddexp": (function(lambda x, y: torch.logaddexp(30 * x, y)), [MAPS, MAPS]),
    "clamp_min": (function(lambda x: x.clamp_min(0.1)), [MAPS]),
    "clamp_max": (function(lambda x: x.clamp_max(0.1)), [MAPS]),
    "hypot": (function(torch.hypot), [MAPS, MAPS]),
    "std": (function(lambda x: x.std(1)), [MAPS]),
    "std of all": (function(lambda x: x.std()), [MAPS]),
    "std kept": (function(lambda x: torch.std(x, dim=(2, 3), correction=0, keepdim=True)), [MAPS]),
    "pairwise_distance": (function(functional.pairwise_distance), [ROWS, ROWS]),
    "cumsum": (function(lambda x: torch.exp(torch.log(x.abs() + 0.1).cumsum(1))), [ROWS]),
    "cumsum of columns": (function(lambda x: (x * 2).cumsum(-2)), [(2, 4, 9)]),
    "avg_pool1d": (lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), [ROWS]),
    "avg_pool1d batch": (lambda: nn.AvgPool1d(3), [(2, 4, 9)]),
    "max_pool1d": (lambda: nn.MaxPool1d(2, 2, dilation=2, ceil_mode=True), [(2, 4, 9)]),
    "avg_pool3d": (lambda: nn.AvgPool3d((2, 3, 2), (2, 1, 2), (1, 1, 0)), [(2, 3, 4, 5, 6)]),
    "avg_pool3d unbatched": (lambda: nn.AvgPool3d(2), [(3, 4, 5, 6)]),
    "Conv1d unbatched": (lambda: nn.Conv1d(3, 4, 3), [(3, 8)]),
    "Conv2d unbatched": (lambda: nn.Conv2d(6, 4, 3, padding="same", groups=2), [MAPS[1:]]),
    "ConvTranspose2d unbatched": (lambda: nn.ConvTranspose2d(6, 4, 3, 2), [MAPS[1:]]),
    "Conv3d unbatched": (lambda: nn.Conv3d(2, 2, 2), [MAPS]),
    "avg_pool2d unbatched": (lambda: nn.AvgPool2d(2, ceil_mode=True), [MAPS[1:]]),
    "adaptive_avg_pool2d unbatched": (lambda: nn.AdaptiveAvgPool2d((2, 1)), [MAPS[1:]]),
    "adaptive_avg_pool2d without channels": (lambda: nn.AdaptiveAvgPool2d(1), [ROWS]),
    "argmax of one value": (function(lambda x: x.sum().argmax(0)), [ROWS]),
    "log_softmax of one value": (function(lambda x: x.sum() + x.sum().log_softmax(-1)), [ROWS]),
    "topk of one value": (function(lambda x: x.sum().topk(1, 0).values), [ROWS]),
    "softmax of one value": (function(lambda x: torch.softmax(x.sum(), -1) * 2), [ROWS]),
    "norm of one value": (function(lambda x: torch.linalg.vector_norm(x.sum(), dim=-1)), [ROWS]),
    "heads that are repeated": (
        function(functional.scaled_dot_product_attention), [(1, 1, 5, 8), (1, 2, 5, 8), (2, 5, 8)],
    ),
    "sigmoid_": (function(lambda x: (2 * x).sigmoid_()), [MAPS]),
    "elu_": (function(lambda x: functional.elu(2 * x, 0.5, inplace=True)), [MAPS]),
    **{f"norm of order {order}": (function(partial(torch.linalg.vector_norm, ord=order, dim=1)), [ROWS])
       for order in (0, 3, math.inf, -math.inf)},
    "norm of all": (function(lambda x: x.norm(p=3)), [ROWS]),
    "dist": (function(torch.dist), [ROWS, ROWS]),
    "dist of order 3": (function(partial(torch.dist, p=3)), [ROWS, ROWS]),
    "pairwise_distance of order 3": (function(partial(functional.pairwise_distance, p=3.0)), [ROWS, ROWS]),
    **{f"cdist of order {order}": (function(partial(torch.cdist, p=order)), [(2, 4, 3), (2, 5, 3)])
       for order in (1.0, 2.0, 3.0, math.inf)},
    "cdist of one": (function(lambda x: torch.cdist(x, x)), [(4, 3)]),
    "var_mean": (function(lambda x: torch.cat(torch.var_mean(x, 1, keepdim=True))), [ROWS]),
    "std_mean": (function(lambda x: torch.stack(torch.std_mean(x, (0, 2), correction=0))), [(2, 4, 3)]),
    "var_mean of all": (function(lambda x: torch.stack(torch.var_mean(x))), [ROWS]),
    "var of all": (function(lambda x: x.var() * 2), [ROWS]),
    "var of all axes": (function(lambda x: x.var((0, 1), unbiased=False) * 2), [ROWS]),
    "diagonal": (function(lambda x: x.diagonal(1, -1, 1)), [(2, 4, 3)]),
    "diagonal below": (function(lambda x: x.diagonal(-2, 1, 2)), [(2, 4, 3)]),
    "diag": (function(lambda x: torch.diag(x, 2)), [ROWS]),
    "trace": (function(torch.trace), [ROWS]),
    "take": (function(lambda x: torch.take(x, torch.tensor([[0, 7], [9, 7]]))), [ROWS]),
    "rrelu": (lambda: nn.RReLU(0.1, 0.4), [ROWS]),
    "Bilinear": (lambda: nn.Bilinear(4, 5, 3), [(3, 4), (3, 5)]),
    "LSTM with projections": (lambda: nn.LSTM(4, 5, 2, proj_size=3, bidirectional=True, batch_first=True), [(2, 4, 4)]),
    "LSTM with projections, no bias": (lambda: nn.LSTM(4, 5, proj_size=3, bias=False), [(4, 2, 4)]),
    "embedding_bag": (bags(), [ROWS]),
    "embedding_bag sum": (bags(mode="sum", padding_idx=1), [ROWS]),
    "embedding_bag max": (bags(mode="max"), [ROWS]),
    "embedding_bag weights": (bags(mode="sum", weighted=True), [ROWS]),
    "embedding_bag offsets": (bags(offsets=[0, 4, 8], include_last_offset=True), [(8,)]),
    "channel_shuffle": (function(lambda x: functional.channel_shuffle(x, 3)), [MAPS]),
    "Conv3d of maps, padded": (lambda: nn.Conv3d(6, 4, (1, 3, 3), (2, 1, 1), (2, 1, 0), groups=2), [(1, *MAPS[1:], 6)]),
    "Conv3d of maps, unbatched": (lambda: nn.Conv3d(2, 2, 1, padding=1), [MAPS]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_out_computes_the_same(name: str) -> None:
    make, shapes = WRITTEN[name]
    torch.manual_seed(0)
    notes = is_the_same(make(), *(drawn(*shape, seed=at) for at, shape in enumerate(shapes)))
    assert len([note for note in notes if "written with other operators" in note]) == 1


# Errors of upstream's, faults on the board ("aten::pow: INT to INT is not supported"), or another answer (a shift to
# the right is rounded for an Ethos-U55), if they are not written out or left to the CPU.
OF_INTEGERS: dict[str, Callable[[Tensor], Tensor]] = {
    "power": lambda x: x**2 + x**5 - x**0,
    "square": torch.square,
    "shift": lambda x: (x >> 1) + (x << 2) if x.dtype is not torch.uint8 else x << 2,
    "quotient": lambda x: x // 3,
    "remainder": lambda x: x % 3,
    "relu": torch.relu,
    "nearest": lambda x: torch.floor(x) + torch.round(x),
    "sign": torch.sign,
    "real": torch.exp,
}
DTYPES = (torch.int8, torch.uint8, torch.int32, torch.int64)


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_what_is_written_out_of_integers_is_equal(name: str) -> None:
    for dtype in (*DTYPES, *([torch.bool] if name in ("power", "square", "sign") else [])):
        x = torch.tensor([[-7, -3, -2, -1], [0, 1, 2, 11]]).to(dtype)
        floating, _ = prepared(module_of(OF_INTEGERS[name]), x)
        wanted = OF_INTEGERS[name](x)
        result = floating(x)
        assert (result.dtype, result.tolist()) == (wanted.dtype, wanted.tolist())


def until_large(x: Tensor) -> Tensor:
    result: Tensor = torch._higher_order_ops.while_loop(lambda x: x.sum() < 30, lambda x: (x * 0.5 + 10,), (x,))[0]
    return result


def counted(x: Tensor) -> Tensor:
    result: Tensor = torch._higher_order_ops.while_loop(
        lambda step, x: step < 3, lambda step, x: (step + 1, x * 0.5), (torch.tensor(0), x)
    )[1]
    return result


def test_the_condition_of_a_loop_compares_with_a_number(tmp_path: Path) -> None:
    """Sees red: "cond_fn must return a boolean scalar tensor or a boolean but got tensor([True])"."""
    x = drawn(1, 8)
    artifact = lower(from_module(module_of(until_large), (x,)), EthosU.parse("ethos-u85-256"), cache=Cache(tmp_path))
    answer = torch.from_numpy(Reference(artifact).run(artifact.example_inputs).outputs[0])
    torch.testing.assert_close(answer, until_large(x), rtol=0, atol=0.1)


def test_a_loop_that_counts_in_integers_is_refused(tmp_path: Path) -> None:
    """Sees red: "Expected carried_inputs and body_output to have same metadata"."""
    line = counted.__code__.co_firstlineno + 1
    model = from_module(module_of(counted), (drawn(1, 8),))
    with pytest.raises(CompileError, match=rf"a loop at test_written_out.py:{line} carries int64") as caught:
        lower(model, EthosU.parse("ethos-u85-256"), cache=Cache(tmp_path))
    assert "for _ in range(3)" in (caught.value.hint or "")


@pytest.mark.product
@pytest.mark.parametrize("name", [name for name in OF_INTEGERS if name != "quotient"])  # upstream quantises quotients
def test_functions_of_integers_are_verified(name: str, tmp_path: Path) -> None:
    dtype = DTYPES[list(OF_INTEGERS).index(name) % len(DTYPES)]
    x = torch.tensor([[0, 3, 2, 1], [0, 1, 2, 5]]).to(dtype)
    artifact = lower(
        from_module(module_of(OF_INTEGERS[name]), (x,)), EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path)
    )
    answer = torch.from_numpy(Reference(artifact).run(artifact.example_inputs).outputs[0])
    wanted = OF_INTEGERS[name](x)
    step = float(wanted.max()) / 255 if wanted.is_floating_point() else 0  # floats are quantised to 8 bits
    torch.testing.assert_close(answer, wanted.to(answer.dtype), rtol=0, atol=0.51 * step)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        pytest.param(lambda: nn.AvgPool3d(2, padding=1, count_include_pad=False), (1, 2, 4, 4, 4), id="counts no pad"),
        pytest.param(lambda: nn.AvgPool3d(2, ceil_mode=True), (1, 2, 5, 5, 5), id="ceil"),
        pytest.param(lambda: nn.InstanceNorm2d(6, track_running_stats=True), MAPS, id="running"),
        pytest.param(function(lambda x: torch.cdist(x, x)), (600, 2), id="too many distances"),
        pytest.param(function(lambda x: torch.diag(x) * 2), (4,), id="diag of a vector"),
        pytest.param(function(lambda x: x.norm(p=1)), ROWS, id="a norm that is known"),
        pytest.param(bags(padding_idx=1), ROWS, id="a mean without padding"),
        pytest.param(bags(offsets=[0, 2, 3]), (8,), id="bags of several sizes"),
        pytest.param(lambda: nn.Linear(5, 2), MAPS, id="linear"),
    ],
)
def test_what_they_cannot_express_stays(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    assert set(is_the_same(make(), drawn(*shape))) <= {FOLDED}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda net, x: x.sigmoid_() + x, id="input"),
        pytest.param(lambda net, x: (y := 2 * x)[0].sigmoid_() + y, id="view"),
        pytest.param(lambda net, x: net.kept.sigmoid_() + x, id="state"),
    ],
)
def test_what_is_overwritten_and_belongs_to_others_stays(step: Callable[..., Tensor]) -> None:
    x = drawn(3, 4)
    floating, notes = prepared(keeping(step, kept=torch.zeros(4)), x.clone())
    assert "aten.sigmoid_.default" in targets(floating)
    assert notes == ()
    torch.testing.assert_close(floating(x.clone()), keeping(step, kept=torch.zeros(4))(x.clone()))


def test_products_of_constants_are_linear_layers_and_beta_0_reads_no_addend() -> None:
    for name, linear in (("addmm scaled", True), ("addmm whole addend", True), ("addmm inputs", False)):
        floating, _ = prepared(WRITTEN[name][0](), drawn(*ROWS))
        assert ("aten.linear.default" in targets(floating)) is linear, name
    broken = keeping(lambda net, x: torch.addmm(net.b, x, net.w, beta=0), b=torch.full((5,), torch.nan), w=drawn(8, 5))
    floating, _ = prepared(broken, drawn(*ROWS))
    assert torch.isfinite(floating(drawn(*ROWS))).all()


def resized(**how: Any) -> nn.Module:
    return module_of(lambda x: functional.interpolate(x, **how))


RESIZES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "3": ({"scale_factor": 3}, (1, 2, 4, 3)),
    "2 and 3": ({"scale_factor": (2, 3)}, (2, 2, 4, 3)),
    "a batch by 2": ({"scale_factor": 2}, (3, 2, 4, 3)),
    "16": ({"scale_factor": 16}, (1, 1, 5, 4)),
    "size": ({"size": (13, 7)}, (1, 2, 6, 5)),
    "smaller": ({"size": (3, 2)}, (1, 2, 6, 5)),
    "uneven": ({"scale_factor": 1.7}, (1, 2, 6, 5)),
    "vectors": ({"scale_factor": 2}, (2, 3, 5)),
    "volumes": ({"scale_factor": (1, 2, 3)}, (1, 2, 3, 4, 3)),
    "exact": ({"scale_factor": 1.7, "mode": "nearest-exact"}, (1, 2, 6, 5)),
    "exact vectors": ({"size": 8, "mode": "nearest-exact"}, (1, 2, 5)),
}


@pytest.mark.parametrize("name", RESIZES)
def test_resizes_take_the_same_elements(name: str) -> None:
    how, shape = RESIZES[name]
    floating, (note,) = prepared(resized(**how), drawn(*shape), u55=True)
    assert "nearest" in note
    x = drawn(*shape, seed=1)
    assert torch.equal(floating(x), resized(**how)(x))


def test_resizes_that_upstream_delegates_stay() -> None:
    for factor in (2, 4, 8):
        assert prepared(resized(scale_factor=factor), drawn(1, 2, 4, 3), u55=True)[1] == ()
    assert prepared(resized(scale_factor=3), drawn(2, 2, 4, 3))[1] == (), "an Ethos-U85"
    assert prepared(resized(size=(131, 5)), drawn(1, 1, 70, 5), u55=True)[1] == (), "too many slices"


# --- Constants.


def positions(net: Any, x: Tensor) -> Tensor:
    """As Whisper's positions and T5's buckets: looked up by numbers that no input decides."""
    places = torch.arange(6)[None] - torch.arange(6)[:, None]
    buckets = torch.where(places < 0, places.abs().clamp(max=3), 0)
    return x + net.table(buckets).permute(2, 0, 1) + torch.triu(torch.ones(6, 6), 1) * torch.arange(6)


def buckets_in_place(net: Any, x: Tensor) -> Tensor:
    """As T5 has them: sums are written over a constant that nothing else reads."""
    places = torch.arange(6)[None] - torch.arange(6)[:, None]
    buckets = (places > 0).long() * 2
    buckets += torch.where(places.abs() < 2, places.abs(), 1)
    return x + net.table(buckets).permute(2, 0, 1)


def asked_by_constants(net: Any, x: Tensor) -> Tensor:
    """As DETR's decoder, whose first queries are parameters."""
    queries = net.queries(net.table.weight)
    return functional.scaled_dot_product_attention(queries, x, x, attn_mask=None)


def drawn_in_forward(x: Tensor) -> Tensor:
    return x + torch.rand(6) * torch.arange(6)


def with_state(net: Any, x: Tensor) -> Tensor:
    net.count.add_(1)
    return x + (net.count * torch.arange(6)).sum()


def too_large(x: Tensor) -> Tensor:
    return x + torch.arange(6).expand(LARGEST, 6).sin()


def test_what_no_input_decides_is_computed_once() -> None:
    module = keeping(positions, table=nn.Embedding(4, 3))
    x = drawn(2, 3, 6, 6)
    assert FOLDED in is_the_same(module, x)
    floating, _ = prepared(module, x)
    assert targets(floating) == {"aten.add.Tensor"}, "an addition for each constant"
    indices = module_of(lambda x: x[:, torch.triu_indices(6, 6, 1)[0]])
    assert FOLDED in is_the_same(indices, drawn(2, 6))
    assert FOLDED in is_the_same(keeping(buckets_in_place, table=nn.Embedding(4, 3)), x)
    own = module_of(lambda x: torch.where(torch.eye(6, dtype=torch.bool), x, torch.linspace(0, 1, 6)))
    assert FOLDED in is_the_same(own, drawn(6, 6)), "the firmware has no kernel for them"
    truth = keeping(lambda net, x: x * net.kept, kept=torch.arange(6) > 2)
    assert is_the_same(truth, drawn(2, 6)) == (FOLDED,), "upstream casts truth values on the CPU, in every call"


@pytest.mark.parametrize(
    ("module", "left"),
    [
        pytest.param(module_of(drawn_in_forward), "aten.rand.default", id="random"),
        pytest.param(keeping(with_state, count=torch.zeros(6)), "aten.add_.Tensor", id="state"),
        pytest.param(module_of(lambda x: x + x.argmax() // 2), "aten.div.Tensor_mode", id="of an input"),
        pytest.param(module_of(too_large), "aten.expand.default", id="large"),
        pytest.param(module_of(lambda x: x + torch.zeros(6)), "aten.zeros.default", id="upstream's"),
    ],
)
def test_what_is_not_the_same_in_every_call_stays(module: nn.Module, left: str) -> None:
    """Sees red: without its check, each of these would be a constant, or one of megabytes."""
    floating, _ = prepared(module, drawn(6))
    assert left in targets(floating)
    if left == "aten.add_.Tensor":
        assert [floating(torch.zeros(6))[0].item() for _ in range(3)] == [15, 30, 45]


def test_attention_with_constant_queries_is_lowered(tmp_path: Path) -> None:
    """Sees red: upstream's quantiser fails on it ('Tensor' object has no attribute 'to_tensor')."""
    module = keeping(asked_by_constants, table=nn.Embedding(5, 8), queries=nn.Linear(8, 8))
    x = drawn(1, 6, 8)
    (note,) = is_the_same(module, x)
    assert "scaled_dot_product_attention" in note
    artifact = lower(from_module(module.eval(), (x,)), EthosU.parse("ethos-u85-256"), cache=Cache(tmp_path))
    assert {name for name in artifact.cpu_ops if "quantize" not in name} == set()


# --- Look-up tables.

TABULATED: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus": lambda x: functional.softplus(x, 2.0, 3.0),
    "mish": functional.mish,
    "mish_": lambda x: functional.mish(2 * x, inplace=True),
    "log_sigmoid": functional.logsigmoid,
    "softshrink": lambda x: functional.softshrink(x, 0.3),
    "hardshrink": lambda x: functional.hardshrink(x),
    "threshold": lambda x: functional.threshold(x, 0.1, -0.2),
    "erfc": torch.erfc,
    "exp2": torch.exp2,
    "log2": lambda x: torch.log2(x.abs() + 0.5),
    "square": torch.square,
    "trunc": torch.trunc,
    "frac": torch.frac,
}


@pytest.mark.parametrize("name", TABULATED)
def test_functions_of_one_number_compute_the_same_and_are_told(name: str) -> None:
    assert TABLES in is_the_same(module_of(TABULATED[name]), drawn(2, 5))


def all_tables(x: Tensor) -> Tensor:
    """Each function of its own range, so that each has a scale of its own."""
    return torch.cat([function(x * (1 + 0.1 * at)) for at, function in enumerate(TABULATED.values())], -1)


@pytest.mark.parametrize(("npu", "scheme"), [("ethos-u55-128", "a8w8"), ("ethos-u85-256", "a16w8")])
def test_they_are_tables_of_the_npu(npu: str, scheme: Scheme, tmp_path: Path) -> None:
    """Sees red: with --as-upstream they are on the CPU. One that is left to it is one of aten, which has kernels."""
    model, cache = from_module(module_of(all_tables), (2 * drawn(1, 64),)), Cache(tmp_path)
    ours, theirs, left = (
        lower(model, EthosU.parse(npu), cache=cache, scheme=scheme, as_upstream=upstream, leave=leave)
        for upstream, leave in ((False, ()), (True, ()), (False, ("aten.mish", "aten.softplus")))
    )
    on_cpu, their_cpu, asked = (
        {name for name in each.cpu_ops if "quantize" not in name} for each in (ours, theirs, left)
    )
    assert on_cpu == set()
    assert {"aten::log1p.out", "aten::erfc.out"} <= their_cpu
    assert {"aten::log1p.out", "aten::tanh.out"} <= asked
    assert not any("ethos_hil" in name for name in asked)
    assert [TABLES in artifact.notes for artifact in (ours, theirs)] == [True, False]
    answer = Reference(ours).run(ours.example_inputs).outputs[0]
    wanted = ours.floating[0]
    assert ((answer - wanted) ** 2).sum() < (wanted**2).sum() * 10**-2.5, "25 dB"


# --- On the NPU.


def decoder(net: Any, x: Tensor, state: Tensor) -> Tensor:
    """As in GPT-2, a streaming model and a language model: a Conv1D, a cell, an RMSNorm; positions."""
    hidden = torch.addmm(net.bias, x, net.weights) + torch.arange(8) * 0.1
    return functional.normalize(net.norm(net.cell(hidden, state)))


def of_decoder() -> nn.Module:
    torch.manual_seed(0)
    parts = {"bias": nn.Parameter(drawn(8)), "weights": nn.Parameter(drawn(6, 8))}
    return keeping(decoder, **parts, cell=nn.GRUCell(8, 6), norm=nn.RMSNorm(6)).eval()


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_they_are_on_the_npu_and_told(npu: str, tmp_path: Path) -> None:
    model = from_module(of_decoder(), (drawn(2, 6), drawn(2, 6, seed=1)))
    artifact = lower(model, EthosU.parse(npu), cache=Cache(tmp_path))
    assert {name for name in artifact.cpu_ops if "quantize" not in name} == set()
    assert len(artifact.methods[0].delegates) == 1
    (note,) = (note for note in artifact.notes if "written with" in note)
    assert all(name in note for name in ("aten.addmm", "aten.gru_cell", "aten.rms_norm"))
    assert FOLDED in artifact.notes
    rows = {name for row in artifact.npu_ops for name in row.aten_ops}
    assert {"aten.gru_cell.default", "aten.rms_norm.default"} <= rows, "the map names what the model calls"
    answer = Reference(artifact).run(artifact.example_inputs).outputs[0]
    wanted = artifact.floating[0]
    assert ((answer - wanted) ** 2).sum() < (wanted**2).sum() * 10**-2.5, "25 dB"


# --- Branches.


def layers(net: Any, x: Tensor) -> Tensor:
    def inner(x: Tensor) -> Tensor:
        return torch.cond(x.mean() > 0, lambda x: net.norm(net.conv(x)), lambda x: x * 2, (x,))

    result: Tensor = torch.cond(x.sum() > 0, lambda x: net.grouped_norm(net.grouped(x)) + net.conv(x), inner, (x,))
    return result


def test_norms_of_branches_are_folded() -> None:
    """Sees red: "Expected get_attr node, got placeholder" of torchao's. The last one, with groups, is written out."""
    torch.manual_seed(0)
    norms = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    for norm in norms:
        norm.load_state_dict({**norm.state_dict(), "running_mean": drawn(4), "running_var": drawn(4).abs() + 0.5})
    module = keeping(
        layers,
        conv=nn.Conv2d(4, 4, 3, padding=1, bias=False),
        norm=norms[0],
        grouped=nn.ConvTranspose2d(4, 4, 3, padding=1, groups=2),
        grouped_norm=norms[1],
    )
    floating, notes = prepared(module, drawn(1, 4, 5, 5))
    assert FOLDED_NORMS in notes
    assert "aten.batch_norm.default" not in {str(node.target) for node in operator_calls(floating)}
    maps = drawn(1, 4, 5, 5)
    for x in (maps - maps.mean() + 1, maps - maps.mean() - 1):
        torch.testing.assert_close(floating(x), module(x), rtol=0, atol=ROUNDING * float(module(x).abs().max()))
