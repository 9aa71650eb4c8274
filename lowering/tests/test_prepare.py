"""What is changed in a float program before upstream gets it computes the same; most programs keep their graph. Lone
batch norms, and activations whose range is shared, run on the NPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.verdict.against_pytorch import against_example
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.tests.conftest import is_as_pytorch
from ethos_hil.lowering.upstream import graph_repairs
from ethos_hil.lowering.upstream.explain import explain
from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.graph_repairs import (
    CUT_OFF,
    LONE_NORMS,
    NEGATED,
    RELU6,
    REPEATED,
    SEPARATED,
    prepare,
    rewrite_graphs,
    write_as_convolutions,
)
from ethos_hil.lowering.upstream.quantizers import GroupedFinder, grouped_notes, quantise
from ethos_hil.lowering.user_code.user_function import Sources
from ethos_hil.lowering.vela.compiler import VelaRefusal


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
    (note,) = prepare(module, quantised=True, as_upstream=False)
    assert "argmax" in note
    assert targets(module).count("aten.max.dim") == 1, "one whose indices no one uses"
    for mine, theirs in zip(module(x), wanted, strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("pads", [(-1, -2), (-1, 2, 1, -2)], ids=str)
def test_what_padding_takes_away_is_cut_off(pads: tuple[int, ...], mode: str) -> None:
    def padded(x: Tensor) -> Tensor:
        return 2 * functional.pad(x, pads, mode)

    x = torch.randn((2, 3, 4, 5)[: len(pads) // 2 + 2])
    module = floating(padded, x)
    (note,) = prepare(module, quantised=True, as_upstream=True)
    assert note == CUT_OFF
    assert not [node for node in module.graph.nodes if "pad" in str(node.target) and min(node.args[1]) < 0]
    assert torch.equal(module(x), padded(x))


REPEATS: dict[str, Callable[[Tensor], Tensor]] = {
    "cat": lambda x: torch.cat([x, x, x], 1),
    "stack": lambda x: torch.stack([x[:, 0]] * 3, 1),
    "equal parts": lambda x: torch.cat([x[..., :2], x[..., 2:4], x[..., :2]], 1),
    "others between": lambda x: torch.cat([x, x * 2, x], 1),
    "again": lambda x: torch.cat([torch.cat([x, x], 1)] * 2, -1),
    "last axis": lambda x: torch.cat([x, x], -1).flatten(1).unflatten(1, (3, -1, 1)),
}


@pytest.mark.parametrize("name", REPEATS)
def test_what_is_concatenated_with_itself_is_repeated(name: str) -> None:
    x = torch.randn(1, 1, 6, 6)
    module = floating(lambda x: REPEATS[name](x) + 1, x)
    wanted = module(x)
    (note,) = prepare(module, quantised=True, as_upstream=True)
    assert note == REPEATED
    assert torch.equal(module(x), wanted)
    assert not [node for node in module.graph.nodes if "cat" in str(node.target) and len({*node.args[0]}) == 1]


def test_what_is_overwritten_in_between_is_not_taken_for_equal() -> None:
    def moved(x: Tensor) -> Tensor:
        y = x.clone()
        before = y * 2
        y.add_(1)
        return torch.cat([before, y * 2], 1)

    x = torch.randn(1, 4)
    module = floating(moved, x.clone())
    prepare(module, quantised=True, as_upstream=True)
    assert torch.equal(module(x.clone()), moved(x.clone()))


def test_a_grey_picture_has_three_channels_and_what_vela_refuses_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(3, 4, 3)
    model = from_module(keeping(lambda net, x: net.c(torch.cat([x, x, x], 1)), c=module), (torch.rand(1, 1, 8, 8),))
    with monkeypatch.context() as patch:
        patch.setattr(graph_repairs, "repeat_parts", lambda module: 0)
        with pytest.raises(VelaRefusal, match=r"ERROR_IF.* CONV2D, aten\.conv2d\.default at test_prepare\.py:\d+\)\n"):
            lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path / "red"))
    artifact = lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path / "green"))
    assert not artifact.placement.on_cpu
    assert against_example(artifact, Reference(artifact).run(artifact.example_inputs).outputs).failure is None


@pytest.mark.parametrize("pads", [(1, 2), (2, 0, 0, 3), (-1, -1, 0, 3), (0, 0, 1, 1, 2, 2)], ids=str)
def test_circular_padding_is_concatenated(pads: tuple[int, ...]) -> None:
    def wrapped(x: Tensor) -> Tensor:
        return 2 * nn.functional.pad(x, pads, "circular")

    x = torch.randn((2, 3, 4, 5, 6)[: len(pads) // 2 + 2])
    module = floating(wrapped, x)
    (note,) = prepare(module, quantised=True, as_upstream=True)
    assert "circular" in note
    assert "aten.pad.default" not in targets(module)
    assert torch.equal(module(x), wrapped(x))
    assert all("val" in node.meta for node in module.graph.nodes if node.op == "call_function")


@pytest.mark.parametrize(
    ("out", "options", "expected"),
    [(4, {"groups": 2}, True), (4, {"groups": 2, "bias": False}, False), (8, {"groups": 8}, False), (4, {}, False)],
)
def test_transposed_convolutions_that_upstream_cannot_quantise_are_found(
    out: int, options: dict[str, Any], expected: bool
) -> None:
    module = floating(nn.Sequential(nn.ConvTranspose2d(8, out, 3, 2, **options)), torch.rand(1, 8, 5, 5))
    assert bool(list(GroupedFinder().find_nodes(module))) is expected
    assert bool(grouped_notes(module, Sources())) is expected
    assert bool(list(GroupedFinder(frozenset({"0"})).find_nodes(module))) is expected
    assert list(GroupedFinder(frozenset({"1"})).find_nodes(module)) == []


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


# --- Protects that lone batch norms, and activations whose range is shared, run on the NPU, and compute what they did.


def settled(norm: nn.Module) -> nn.Module:
    """Statistics and weights that are not those of a new norm."""
    random = torch.Generator().manual_seed(1)
    for name, tensor in norm.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=random) + (0.5 if name.endswith("var") else -0.4))
    return norm


def dense(net: Any, image: Tensor) -> Tensor:
    """As in DenseNet: a norm and a ReLU before each convolution, of all that came before."""
    image = torch.cat([image, net.first(image)], 1)
    folded: Tensor = net.folded(net.second(torch.relu(net.norm(image))))
    return folded


def of_dense() -> nn.Module:
    layers = {"first": nn.Conv2d(3, 4, 3, padding=1), "second": nn.Conv2d(7, 4, 1)}
    return keeping(dense, **layers, norm=settled(nn.BatchNorm2d(7)), folded=settled(nn.BatchNorm2d(4)))


@pytest.mark.parametrize(
    ("norm", "shape"),
    [(nn.BatchNorm2d(3), (2, 3, 4)), (nn.BatchNorm2d(3, affine=False), (1, 3, 4)), (nn.BatchNorm1d(3, 0.1), (2, 3))],
)
def test_they_compute_the_same(norm: nn.Module, shape: tuple[int, ...]) -> None:
    norm = settled(norm).eval()
    inputs = torch.randn(*shape, 5)
    floating = export(norm, (inputs,)).module(check_guards=False)
    assert rewrite_graphs(floating, write_as_convolutions) == 1
    # Either rounds a factor, a product and a sum.
    torch.testing.assert_close(floating(inputs), norm(inputs), rtol=4 * 2**-24, atol=4 * 2**-24 * 8)


def test_others_stay() -> None:
    """One that is folded, one of no map, and one with statistics of the input."""
    chains = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)), nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48))
    for module in (*chains, nn.BatchNorm2d(3, track_running_stats=False)):
        floating = export(module.eval(), (torch.randn(2, 3, 4, 4),)).module(check_guards=False)
        assert rewrite_graphs(floating, write_as_convolutions) == 0, module


# --- What upstream makes more of than it needs, or leaves to the CPU.


def skip(net: Any, image: Tensor) -> Tensor:
    """A skip connection: its sibling in the concatenation has negative values."""
    skipped = net.activation(net.stem(image))
    return torch.cat([net.up(net.below(functional.max_pool2d(skipped, 2, 2))), skipped], 1)


def of_skip(activation: Callable[[Tensor], Tensor] = functional.relu6) -> nn.Module:
    stem, below = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    return keeping(skip, activation=activation, stem=stem, below=below, up=nn.ConvTranspose2d(8, 8, 2, 2))


@pytest.mark.parametrize(
    ("kind", "shape", "npu", "note"),
    [
        pytest.param(of_dense, (2, 3, 6, 6), "ethos-u55-128", LONE_NORMS, id="norm"),
        pytest.param(of_skip, (1, 3, 8, 8), "ethos-u85-256", RELU6, id="relu6"),
    ],
)
def test_they_are_delegated(
    kind: Callable[[], nn.Module], shape: tuple[int, ...], npu: str, note: str, tmp_path: Path
) -> None:
    """Sees red: as upstream lowers them, the norm is three operations on the NPU, and the ReLU6 is on the CPU."""
    torch.manual_seed(0)
    inputs = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * (1 if note == LONE_NORMS else 4),)
    model, cache = from_module(kind().eval(), inputs), Cache(tmp_path)
    ours, theirs = (lower(model, EthosU.parse(npu), cache=cache, as_upstream=flag) for flag in (False, True))
    left, others = ({name for name in each.cpu_ops if "quantize" not in name} for each in (ours, theirs))
    assert (left, len(ours.methods[0].delegates)) == (set(), 1)
    assert [note in artifact.notes for artifact in (ours, theirs)] == [True, False]
    if note == RELU6:
        assert others == {"aten::hardtanh.out"}
        return
    assert len(theirs.npu_ops) > len(ours.npu_ops) + 2
    mine, other = (artifact.methods[0].quantised[0] for artifact in (ours, theirs))
    # Eight bits for the norm's answer, too: close to the other program's, not equal.
    assert np.abs(mine - other).max() < 8 * np.ptp(other) / 255


def beside(net: Any, vector: Tensor) -> Tensor:
    return torch.cat([net.activation(net.layer(vector)), vector], 1)


def clipped(value: Tensor) -> Tensor:
    return functional.hardtanh(value, 0, 0.1)


ACTIVATIONS = {
    "relu": (of_skip(functional.relu), (1, 3, 8, 8)),
    "hardtanh": (keeping(beside, activation=clipped, layer=nn.Conv2d(3, 4, 1)), (1, 3, 8, 8)),
    "linear": (keeping(beside, activation=functional.relu, layer=nn.Linear(8, 8)), (1, 8)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_that_shares_the_range_of_a_concatenation_is_in_the_program(name: str, tmp_path: Path) -> None:
    """Sees red: as upstream 1.5 lowers it, negative numbers pass, which the bound of the program notices."""
    module, shape = ACTIVATIONS[name]
    # Below zero: the range of the concatenation ends where the activation's does, as upstream asks of a hardtanh.
    inputs = (-torch.rand(shape, generator=torch.Generator().manual_seed(0)),)
    model, cache = from_module(module.eval(), inputs), Cache(tmp_path)
    npu = EthosU.parse("ethos-u85-256")
    ours, theirs = (lower(model, npu, cache=cache, as_upstream=flag) for flag in (False, True))
    assert [SEPARATED in artifact.notes for artifact in (ours, theirs)] == [True, False]
    np.testing.assert_array_equal(ours.quantised[0], theirs.quantised[0], "no number of the quantised model changes")
    near, far = (against_example(it, Reference(it).run(it.example_inputs).outputs).failure for it in (ours, theirs))
    assert near is None
    assert far is not None
    assert far.kind is FailureKind.ACCURACY
    assert not {name for name in ours.cpu_ops if "quantize" not in name}


def test_a_program_that_its_user_quantised_keeps_its_activations_too(tmp_path: Path) -> None:
    """There is a note, and only where the range is shared."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config

    for name, noted in (("linear", True), ("alone", False)):
        module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()) if name == "alone" else ACTIVATIONS[name][0]
        inputs = (torch.randn(2, 8),)
        quantiser = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128")).set_global(get_symmetric_quantization_config())
        given, _ = quantise(export(module.eval(), inputs).module(check_guards=False), [inputs], quantiser)
        artifact = lower(from_module(given, inputs), EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path / name))
        assert (SEPARATED in artifact.notes) is noted
        answer = Reference(artifact).run(artifact.example_inputs).outputs
        assert against_example(artifact, answer).failure is None


# --- Negations, and what numbers of 16 bits need.


WIDE: dict[str, Callable[[Tensor], Tensor]] = {
    "a negation": lambda x: -x,
    "weights of ones": lambda x: functional.conv1d(x[:, None], torch.ones(2, 1, 3)),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_upstream_lowers_wrongly_for_16_bits_is_rewritten(name: str, tmp_path: Path) -> None:
    """Sees red as upstream has it: the scale of a NEGATE is another one, and no NPU has weights of 16 bits."""
    x = torch.tensor([[-7.0, -3.0, 0.0, 5.0, 11.0, 40.0, -20.0, 3.0]])
    model, npu = from_module(module_of(WIDE[name]), (x,)), EthosU.parse("ethos-u85-256")
    artifact = lower(model, npu, cache=Cache(tmp_path), scheme="a16w8")
    assert not artifact.placement.on_cpu
    assert is_as_pytorch(artifact)
    assert (NEGATED in artifact.notes) is (name == "a negation")
    if name == "a negation":
        assert not is_as_pytorch(lower(model, npu, cache=Cache(tmp_path), scheme="a16w8", as_upstream=True))


@pytest.mark.parametrize("as_upstream", [False, True])
def test_a_negation_behind_which_a_maximum_shares_the_scale(as_upstream: bool, tmp_path: Path) -> None:
    x = torch.rand(3, 7) * 0.8 + 0.2
    model = from_module(module_of(lambda x: -(-x).amax(-1, keepdim=True)), (x,))
    artifact = lower(model, EthosU.parse("ethos-u55-128"), cache=Cache(tmp_path), as_upstream=as_upstream)
    assert is_as_pytorch(artifact) is not as_upstream


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_the_least_number_of_16_bits_is_one_higher_in_pytorch(npu: str, tmp_path: Path) -> None:
    """TOSA saturates at -32768. Sees red: "roundings explain at most 0"."""
    x = torch.tensor([[-4.0, 3.0, -2.0, 1.0]])
    model = from_module(module_of(lambda x: x * 3.0), (x,), [(x / 2,)])
    artifact = lower(model, EthosU.parse(npu), cache=Cache(tmp_path), scheme="a16w8")
    ((program,), (pytorch,)) = (Reference(artifact).run(artifact.example_inputs).outputs, artifact.quantised)
    assert program.min() < pytorch.min()
    assert is_as_pytorch(artifact)
