"""Operators that upstream's Arm quantiser does not know, written with those that it knows.

It leaves the former in float, on the CPU, or fails on them (executorch 1.5.1). Each function here computes what its
operator does, in float, as torch documents it; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.patches.in_executorch import table_operators
from ethos_hil.lowering.upstream.rewritten.cells import choose_lstm, gru_cell, rnn_cell
from ethos_hil.lowering.upstream.rewritten.constants import constant_nodes, is_fresh
from ethos_hil.lowering.upstream.rewritten.elements import (
    channel_shuffle,
    choose_diagonal,
    choose_embedding_bag,
    diagonal,
    take,
)
from ethos_hil.lowering.upstream.rewritten.integers import (
    choose_power,
    choose_remainder,
    choose_right_shift,
    of_integers,
    squared,
    whole_quotient,
)
from ethos_hil.lowering.upstream.rewritten.products import (
    addmm,
    bilinear,
    choose_addmm,
    choose_addmv,
    choose_attention,
    choose_cumsum,
    choose_mv,
    joined,
    times,
)
from ethos_hil.lowering.upstream.rewritten.reductions import (
    choose_cdist,
    choose_variance,
    choose_vector_norm,
    distance,
    in_a_row,
    logaddexp,
    logsumexp,
    pairwise_distance,
    root_of,
    with_mean,
)
from ethos_hil.lowering.upstream.rewritten.splice import write_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ethos_hil.lowering.upstream.rewritten.splice import Choice, Constants, Number


def written_note(names: Iterable[str]) -> str:
    """The note that operators of these names were written out."""
    verb = "was" if len(tuple(names)) == 1 else "were"
    return (
        f"{', '.join(names)} {verb} written with other operators, which compute the same: ExecuTorch's Arm quantiser "
        "fails on the former, or leaves it in float, on the CPU"
    )


_IN_PLACE = (
    "abs", "celu", "clamp", "clamp_max", "clamp_min", "elu", "exp", "hardsigmoid", "log", "masked_fill", "mish", "neg",
    "pow", "reciprocal", "rrelu", "rsqrt", "selu", "sigmoid", "sqrt", "square", "tanh", "threshold",
)  # fmt: skip
"""Operators that upstream's quantiser knows, or that are written out, whose forms in place it does not know."""


def write_out_of_place(module: torch.fx.GraphModule) -> tuple[str, ...]:
    """Make calls that overwrite what nothing else reads calls that do not (`x.sigmoid_()`, nn.Mish(inplace=True)).

    Returns:
        As for `write_operators`.
    """
    import torch

    names: dict[str, None] = {}
    for node in module.graph.nodes:
        name = str(node.target).removeprefix("aten.")
        plain, _, overload = name.partition("_.")
        if plain not in _IN_PLACE or not overload or not is_fresh(node.args[0]):
            continue
        names[f"aten.{name}"] = None
        node.target = getattr(getattr(torch.ops.aten, plain), overload)
    return tuple(names)


def write_operators(module: torch.fx.GraphModule) -> tuple[str, ...]:
    """Write out the operators of one graph that upstream leaves to the CPU or fails on.

    Returns:
        The names of those that were written out, as aten has them, each once.
    """
    choices, constants = _choices(), constant_nodes(module)
    names: dict[str, None] = {}
    for node in list(module.graph.nodes):
        if node.target not in choices or (function := choices[node.target](node, constants)) is None:
            continue
        names[str(node.target)] = None
        write_out(module, node, function)
    if names:
        module.graph.eliminate_dead_code()
    return tuple(names)


_FORMS = ("default", "dim", "correction")
"""Of aten.var and aten.std."""


def _always() -> Mapping[Any, Callable[..., Any]]:
    """The operators that are written out wherever they are, and the functions that are written in their place."""
    import torch

    aten = torch.ops.aten
    always: dict[Any, Callable[..., Any]] = {
        aten.gru_cell.default: gru_cell,
        aten.rnn_tanh_cell.default: rnn_cell(torch.tanh),
        aten.rnn_relu_cell.default: rnn_cell(torch.relu),
        aten.rms_norm.default: _rms_norm,
        aten.baddbmm.default: addmm,
        aten.logsumexp.default: logsumexp,
        aten.logaddexp.default: logaddexp,
        aten.clamp_min.default: lambda source, low: torch.clamp(source, low, None),
        aten.clamp_max.default: lambda source, high: torch.clamp(source, None, high),
        aten.channel_shuffle.default: channel_shuffle,
        aten.addbmm.default: lambda addend, one, other, **scales: addmm(addend, *joined(one, other), **scales),
        aten.addr.default: lambda addend, one, other, **scales: addmm(addend, one[:, None], other[None], **scales),
        aten.addcmul.default: lambda addend, one, other, value=1: addend + times(one * other, value),
        aten.addcdiv.default: lambda addend, one, other, value=1: addend + times(one / other, value),
        aten.lerp.Scalar: lambda start, end, weight: start + (end - start) * weight,
        aten.lerp.Tensor: lambda start, end, weight: start + (end - start) * weight,
        aten.take.default: take,
        aten.trace.default: lambda source: diagonal(source).sum(),
        aten.dist.default: distance,
        aten.rrelu.default: lambda source, low=1 / 8, high=1 / 3, *_: aten.leaky_relu(source, (low + high) / 2),
        aten.bilinear.default: bilinear,
        aten.outer.default: lambda one, other: one[:, None] * other[None],
        aten.dot.default: lambda one, other: (one * other).sum(),
        aten.hypot.default: lambda one, other: torch.sqrt(one * one + other * other),
        aten.expand_as.default: lambda source, other: source.expand(other.shape),
        aten.avg_pool1d.default: _in_two_dimensions(aten.avg_pool2d.default),
        aten.max_pool1d.default: _in_two_dimensions(aten.max_pool2d.default),
        aten.pairwise_distance.default: pairwise_distance,
    }
    ours = table_operators()
    for name, defaults in (("softplus", (1, 20)), ("softshrink", (0.5,)), ("hardshrink", (0.5,))):
        always[getattr(aten, name).default] = _with_defaults(ours[f"ethos_hil.{name}.default"], defaults)
    for form in _FORMS:
        variance = in_a_row(getattr(aten.var, form))
        always[getattr(aten.std, form)] = root_of(variance)
        if form != "default":
            always[getattr(aten.var_mean, form)] = with_mean(variance)
            always[getattr(aten.std_mean, form)] = with_mean(root_of(variance))
    return always


@cache
def _choices() -> Mapping[Any, Choice]:
    import torch

    aten = torch.ops.aten
    chosen: dict[Any, Choice] = {
        target: lambda *_, function=function: function for target, function in _always().items()
    }
    return {
        **chosen,
        **dict.fromkeys(
            (aten.argmax.default, aten.argmin.default), _of_one(lambda *_: torch.zeros((), dtype=torch.int64))
        ),
        aten.softmax.int: _of_one(lambda source, *_: torch.ones_like(source)),
        aten.log_softmax.int: _of_one(lambda source, *_: torch.zeros_like(source)),
        aten.topk.default: _of_one(lambda source, *_: (source, torch.zeros((), dtype=torch.int64))),
        aten.linalg_vector_norm.default: choose_vector_norm,
        **{getattr(aten.var, form): choose_variance(getattr(aten.var, form)) for form in _FORMS},
        aten.cdist.default: choose_cdist,
        **dict.fromkeys((aten.diagonal.default, aten.diag.default), choose_diagonal),
        **dict.fromkeys(_layers_of_maps(aten), _choose_with_batch),
        aten.conv3d.default: _choose_conv3d,
        aten.pow.Tensor_Scalar: choose_power,
        aten.square.default: of_integers(squared),
        aten.sign.default: lambda node, _: None if node.meta["val"].dtype is not torch.bool else lambda source: source,
        aten.relu.default: of_integers(lambda source: torch.where(source > 0, source, 0)),
        **{
            getattr(aten, name).default: of_integers(lambda source: source)
            for name in ("floor", "ceil", "trunc", "round")
        },
        **dict.fromkeys((aten.bitwise_right_shift.Tensor_Scalar, aten.__rshift__.Scalar), choose_right_shift),
        aten.floor_divide.default: of_integers(whole_quotient),
        **dict.fromkeys((aten.remainder.Scalar, aten.remainder.Tensor), choose_remainder),
        aten.addmm.default: choose_addmm,
        aten.addmv.default: choose_addmv,
        aten.mv.default: choose_mv,
        aten.scaled_dot_product_attention.default: choose_attention,
        aten.instance_norm.default: _choose_instance_norm,
        aten.avg_pool3d.default: _choose_avg_pool3d,
        aten.cumsum.default: choose_cumsum,
        aten.embedding_bag.padding_idx: choose_embedding_bag,
        aten.lstm.input: choose_lstm,
    }


# Values without axes, and layers of inputs without a batch.


def _of_one(compute: Callable[..., Any]) -> Choice:
    """The choice of an operator along an axis: of a value without axes, for which upstream fails, it is `compute`."""

    def choose(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
        source: Any = node.args[0]
        return None if source.meta["val"].dim() else lambda *given, **_: compute(*given)

    return choose


def _layers_of_maps(aten: Any) -> list[Any]:
    """The convolutions, and the pools that upstream does not know without a batch."""
    named = ["avg_pool2d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding"]
    named += ["conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input"]
    named += [f"{name}{axes}d.default" for name in ("conv", "adaptive_avg_pool") for axes in (1, 2, 3)]
    return [attrgetter(name)(aten) for name in named]


def _choose_with_batch(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """A layer of an input without a batch. Upstream fails on pools of it, and leaves convolutions to the CPU."""
    operator: Any = node.target
    axes = next(count for count in (1, 2, 3) if f"{count}d" in str(operator))
    given: Any = node.args[0]
    missing = axes + 2 - given.meta["val"].dim()  # a global average is also taken without channels
    if missing < 1:
        return None

    def with_batch(source: Tensor, *rest: Any, **named: Any) -> Tensor:
        result: Tensor = operator(source[(None,) * missing], *rest, **named)
        return result.reshape(result.shape[missing:])

    return with_batch


# Layers.


def _choose_conv3d(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One over maps alone, with padding before and behind them, is padded first.

    Vela makes what is computed from padding alone of its bias, by an operation that the second core of an Ethos-U65-512
    has no scales for, and the NPU stops.
    """
    batched = _choose_with_batch(node, constants)
    weights: Any = node.args[1]
    given: tuple[Any, ...] = (*node.args, *(None, 1, 0)[len(node.args) - 2 :])
    if weights.meta["val"].shape[2] > 1 or not _three(given[4])[0]:
        return batched
    convolve: Any = batched or node.target

    def conv3d(
        source: Tensor, weights: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, *rest: Any
    ) -> Tensor:
        from torch.nn import functional

        depth, *map_axes = _three(padding)
        padded = functional.pad(source, (0, 0, 0, 0, depth, depth))
        result: Tensor = convolve(padded, weights, bias, stride, [0, *map_axes], *rest)
        return result

    return conv3d


# Norms and pools.


def _rms_norm(source: Tensor, shape: list[int], scale: Tensor | None = None, epsilon: float | None = None) -> Tensor:
    import torch

    epsilon = torch.finfo(source.dtype).eps if epsilon is None else epsilon
    axes = list(range(-len(shape), 0))
    normal = source * torch.rsqrt(source.pow(2).mean(axes, keepdim=True) + epsilon)
    return normal if scale is None else normal * scale


def _choose_instance_norm(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One with running statistics stays; it is rare."""
    if not node.args[5]:
        return None

    def instance_norm(source: Tensor, scale: Any, offset: Any, mean: Any, variance: Any, *rest: Any) -> Tensor:
        from torch.nn import functional

        return functional.group_norm(source, source.shape[1], scale, offset, rest[2])

    return instance_norm


def _choose_avg_pool3d(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """An average over three axes is one over two of them, and one over the third, where each divides by its kernel."""
    given: list[Any] = [*node.args[1:]]
    kernel, *rest = given
    defaults: list[Any] = [None, 0, False, True, None]
    stride, padding, ceil, counts, divisor = [*rest, *defaults[len(rest) :]]
    plain = counts or not any(_three(padding))
    if ceil or divisor is not None or not plain:
        return None
    depth, *map_axes = zip(_three(kernel), _three(stride or kernel), _three(padding), strict=True)

    def avg_pool3d(source: Tensor, *_: Any) -> Tensor:
        from torch.nn import functional

        def pool(value: Tensor, *axes: tuple[int, ...]) -> Tensor:
            if all(axis == (1, 1, 0) for axis in axes):
                return value
            kernel, stride, padding = (list(sizes) for sizes in zip(*axes, strict=True))
            return functional.avg_pool2d(value, kernel, stride, padding)

        *outer, channels, planes, rows, columns = source.shape
        flat = pool(source.reshape(-1, channels * planes, rows, columns), *map_axes)
        rows, columns = flat.shape[2:]
        deep = pool(flat.reshape(-1, channels, planes, rows * columns), depth, (1, 1, 0))
        return deep.reshape(*outer, channels, deep.shape[2], rows, columns)

    return avg_pool3d


def _three(value: Any) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return (values * 3)[:3]


def _in_two_dimensions(pool: Callable[..., Any]) -> Callable[..., Any]:
    """A pool over the last axis, as one over a map whose rows are the batch: an Ethos-U55 pools one map at a time.

    Its arguments are those of the pool of maps.
    """
    # of the axis that is added: kernel, stride, padding, dilation
    neutral = (1, 1, 0, *((1,) if "max" in str(pool) else ()), 0, 0)

    def pooled(source: Tensor, *arguments: Any) -> Any:
        def widened(number: int, value: Any) -> Any:
            if isinstance(value, bool) or not value:
                return value
            (one,) = (value,) if isinstance(value, int) else value
            return [number, one]

        if source.dim() == 2:  # no batch
            return pooled(source.unsqueeze(0), *arguments).squeeze(0)
        given = [widened(number, value) for number, value in zip(neutral, arguments, strict=False)]
        batched = source.dim() == 3 and source.shape[0] > 1
        if batched:
            return pool(source.transpose(0, 1).unsqueeze(0), *given).squeeze(0).transpose(0, 1)
        return pool(source.unsqueeze(-2), *given).squeeze(-2)

    return pooled


def _with_defaults(operator: Callable[..., Tensor], defaults: tuple[Number, ...]) -> Callable[..., Tensor]:
    def tabulated(source: Tensor, *given: Number) -> Tensor:
        return operator(source, *given, *defaults[len(given) :])

    return tabulated
