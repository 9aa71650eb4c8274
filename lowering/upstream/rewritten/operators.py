"""Operators that upstream's Arm quantiser does not know, written with those that it knows.

It leaves the former in float, on the CPU, or fails on them (executorch 1.5.1). Each function here computes what its
operator does, in float, as torch documents it; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ethos_hil.lowering.upstream.patches.in_executorch import table_operators
from ethos_hil.lowering.upstream.rewritten.constants import constant_nodes, is_fresh, values_of
from ethos_hil.lowering.upstream.rewritten.splice import write_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Constants = set[torch.fx.Node]
    """The nodes of a graph that are the same in every call."""
    Choice = Callable[[torch.fx.Node, Constants], Callable[..., Any] | None]
    """The function that is written in the place of a node, or None where it stays."""

Number = float | int


def written_note(names: Iterable[str]) -> str:
    """The note that operators of these names were written out."""
    verb = "was" if len(tuple(names)) == 1 else "were"
    return (
        f"{', '.join(names)} {verb} written with other operators, which compute the same: ExecuTorch's Arm quantiser "
        "fails on the former, or leaves it in float, on the CPU"
    )


_IN_PLACE = (
    "abs", "celu", "clamp", "clamp_max", "clamp_min", "elu", "exp", "hardsigmoid", "log", "masked_fill", "mish", "neg",
    "pow", "reciprocal", "rsqrt", "selu", "sigmoid", "sqrt", "square", "tanh", "threshold",
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


@cache
def _choices() -> Mapping[Any, Choice]:
    import torch

    aten = torch.ops.aten
    always: dict[Any, Callable[..., Any]] = {
        aten.gru_cell.default: _gru_cell,
        aten.rnn_tanh_cell.default: _rnn_cell(torch.tanh),
        aten.rnn_relu_cell.default: _rnn_cell(torch.relu),
        aten.rms_norm.default: _rms_norm,
        aten.baddbmm.default: _addmm,
        aten.logsumexp.default: _logsumexp,
        aten.logaddexp.default: _logaddexp,
        aten.clamp_min.default: lambda source, low: torch.clamp(source, low, None),
        aten.clamp_max.default: lambda source, high: torch.clamp(source, None, high),
        aten.channel_shuffle.default: _channel_shuffle,
        aten.addbmm.default: lambda addend, one, other, **scales: _addmm(addend, *_joined(one, other), **scales),
        aten.addr.default: lambda addend, one, other, **scales: _addmm(addend, one[:, None], other[None], **scales),
        aten.addcmul.default: lambda addend, one, other, value=1: addend + _times(one * other, value),
        aten.addcdiv.default: lambda addend, one, other, value=1: addend + _times(one / other, value),
        aten.lerp.Scalar: lambda start, end, weight: start + (end - start) * weight,
        aten.lerp.Tensor: lambda start, end, weight: start + (end - start) * weight,
        aten.outer.default: lambda one, other: one[:, None] * other[None],
        aten.dot.default: lambda one, other: (one * other).sum(),
        aten.hypot.default: lambda one, other: torch.sqrt(one * one + other * other),
        aten.expand_as.default: lambda source, other: source.expand(other.shape),
        aten.avg_pool1d.default: _in_two_dimensions(aten.avg_pool2d.default),
        aten.max_pool1d.default: _in_two_dimensions(aten.max_pool2d.default),
        aten.pairwise_distance.default: _pairwise_distance,
    }
    ours = table_operators()
    for name, defaults in (("softplus", (1, 20)), ("softshrink", (0.5,)), ("hardshrink", (0.5,))):
        always[getattr(aten, name).default] = _with_defaults(ours[f"ethos_hil.{name}.default"], defaults)
    for form in ("default", "dim", "correction"):
        always[getattr(aten.std, form)] = _root_of(getattr(aten.var, form))
    chosen: dict[Any, Choice] = {target: lambda *_, function=function: function for target, function in always.items()}
    scalars = [getattr(aten, f"{name}{end}").Tensor for name in ("add", "sub", "mul", "div") for end in ("", "_")]
    comparisons = [getattr(aten, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")]
    return {
        **chosen,
        **dict.fromkeys((*scalars, aten.rsub.Scalar), _choose_of_scalars),
        **{comparison.Scalar: _choose_comparison(comparison.Tensor) for comparison in comparisons},
        **dict.fromkeys(
            (aten.argmax.default, aten.argmin.default), _of_one(lambda *_: torch.zeros((), dtype=torch.int64))
        ),
        aten.softmax.int: _of_one(lambda source, *_: torch.ones_like(source)),
        aten.linalg_vector_norm.default: _of_one(
            lambda source, order=2, *_: source.abs() if order else (source != 0).to(source.dtype)
        ),
        **dict.fromkeys(_layers_of_maps(aten), _choose_with_batch),
        aten.conv3d.default: _choose_conv3d,
        aten.pow.Tensor_Scalar: _choose_power,
        aten.square.default: _of_integers(_squared),
        aten.sign.default: lambda node, _: None if node.meta["val"].dtype is not torch.bool else lambda source: source,
        aten.relu.default: _of_integers(lambda source: torch.where(source > 0, source, 0)),
        **{
            getattr(aten, name).default: _of_integers(lambda source: source)
            for name in ("floor", "ceil", "trunc", "round")
        },
        **dict.fromkeys((aten.bitwise_right_shift.Tensor_Scalar, aten.__rshift__.Scalar), _choose_right_shift),
        aten.floor_divide.default: _of_integers(_whole_quotient),
        **dict.fromkeys((aten.remainder.Scalar, aten.remainder.Tensor), _choose_remainder),
        aten.addmm.default: _choose_addmm,
        aten.addmv.default: _choose_addmv,
        aten.mv.default: _choose_mv,
        aten.scaled_dot_product_attention.default: _choose_attention,
        aten.instance_norm.default: _choose_instance_norm,
        aten.avg_pool3d.default: _choose_avg_pool3d,
        aten.cumsum.default: _choose_cumsum,
        aten.embedding_bag.padding_idx: _choose_embedding_bag,
    }


# Values without axes, and layers of inputs without a batch.


def _choose_of_scalars(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One of a number and a tensor without axes. Upstream gives such a number an axis, and so the result.

    Where that is written to a buffer without axes, ScalarsToAttributePass (executorch 1.5.1) then fails.
    """
    import torch

    value = node.meta["val"]
    numbers = not hasattr(node.args[1], "meta") or node.kwargs.get("alpha", 1) != 1
    if value.dim() or not value.is_floating_point() or not numbers:
        return None
    operator: Any = node.target

    def constant(number: Number) -> Tensor:
        return torch.full((), number, dtype=value.dtype)

    def of_scalars(source: Tensor, other: Tensor | Number, alpha: Number = 1) -> Tensor:
        second = other if isinstance(other, torch.Tensor) else constant(other)
        if operator is torch.ops.aten.rsub.Scalar:
            return second - (source if alpha == 1 else source * constant(alpha))
        result: Tensor = operator(source, second if alpha == 1 else second * constant(alpha))
        return result

    return of_scalars


def _choose_comparison(compare: Any) -> Choice:
    """The choice of a comparison of a number and a value without axes, such as the condition of a loop.

    Upstream gives that number an axis, too, and torch takes no truth value with an axis for a condition.
    """

    def compared(source: Tensor, number: Number) -> Tensor:
        import torch

        result: Tensor = compare(source, torch.full((), number, dtype=torch.result_type(source, number)))
        return result

    def choose(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
        source: Any = node.args[0]
        return None if source.meta["val"].dim() else compared

    return choose


def _of_one(compute: Callable[..., Tensor]) -> Choice:
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


# Integers.


def _choose_power(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One of integers, as products: ExecuTorch's kernel computes no powers of integers."""
    value: Any = node.meta["val"]
    exponent: Any = node.args[1]
    if value.is_floating_point() or not isinstance(exponent, int):
        return None

    def power(source: Tensor, exponent: int) -> Tensor:
        square, result = source.to(value.dtype), None
        while exponent:
            if exponent % 2:
                result = square if result is None else result * square
            exponent //= 2
            square = square * square if exponent else square
        import torch

        return torch.ones_like(square) if result is None else result

    return power


def _of_integers(compute: Callable[..., Any]) -> Choice:
    """The choice of an operator of which upstream takes floats alone: of integers it is `compute`."""

    def choose(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
        value: Any = node.meta["val"]
        return None if value.is_floating_point() else compute

    return choose


def _squared(source: Tensor) -> Tensor:
    import torch

    wide = source.to(torch.result_type(source, 1))
    return wide * wide


def _choose_right_shift(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One by a number: of a number whose last bits are cleared, as upstream rounds to the nearest for an Ethos-U55."""
    import torch

    bits: Any = node.args[1]
    dtype = node.meta["val"].dtype
    if not isinstance(bits, int) or not 0 < bits < torch.iinfo(dtype).bits - 1 or dtype is torch.uint8:
        return None
    return lambda source, bits: (source & -(2**bits)) >> bits


def _whole_quotient(source: Tensor, other: Any) -> Tensor:
    """Upstream takes a floor_divide of integers apart, and gives a delegate that reads none of its inputs."""
    import torch

    return torch.div(source, other, rounding_mode="floor")


def _choose_remainder(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One of integers of 8 and 16 bits: what upstream makes of it computes with floats, on an NPU that has none."""
    import torch

    value: Any = node.meta["val"]

    def remainder(*operands: Any) -> Tensor:
        whole = (part.to(torch.int32) if isinstance(part, torch.Tensor) else part for part in operands)
        return torch.remainder(*whole).to(value.dtype)

    return remainder if value.dtype in (torch.int8, torch.int16, torch.uint8) else None


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


# Products with an addend. Of constant weights they are linear layers, whose weights are quantised per channel.


def _choose_addmm(node: torch.fx.Node, constants: Constants) -> Callable[..., Any]:
    if node.args[2] not in constants:
        return _addmm
    weights: Any = node.args[2]
    addend: Any = node.args[0]
    whole = addend in constants and addend.meta["val"].shape in ((weights.meta["val"].shape[1],), (1,), ())
    return _linear if whole else _linear_and_addition


def _addmm(addend: Tensor, first: Tensor, second: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _plus(_times(first @ second, alpha), addend, beta)


def _linear(addend: Tensor, first: Tensor, second: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    from torch.nn import functional

    bias = None if beta == 0 else _times(addend, beta).expand(second.shape[1])
    return functional.linear(first, _times(second.t(), alpha), bias)


def _linear_and_addition(
    addend: Tensor, first: Tensor, second: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    from torch.nn import functional

    return _plus(functional.linear(first, _times(second.t(), alpha)), addend, beta)


def _choose_addmv(node: torch.fx.Node, constants: Constants) -> Callable[..., Any]:
    constant = node.args[1] in constants

    def addmv(addend: Tensor, matrix: Tensor, vector: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        from torch.nn import functional

        row = vector.unsqueeze(0)
        product = functional.linear(row, _times(matrix, alpha)) if constant else _times(row @ matrix.t(), alpha)
        return _plus(product.squeeze(0), addend, beta)

    return addmv


def _choose_mv(node: torch.fx.Node, constants: Constants) -> Callable[..., Any]:
    constant = node.args[0] in constants

    def mv(matrix: Tensor, vector: Tensor) -> Tensor:
        from torch.nn import functional

        row = vector.unsqueeze(0)
        return (functional.linear(row, matrix) if constant else row @ matrix.t()).squeeze(0)

    return mv


def _choose_cumsum(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """A running sum of what another operator computes, as a product with a triangle of ones.

    Upstream (executorch 1.5.1, DecomposeCumsumPass) makes a convolution of it, with weights of the type that it finds
    its input in: in float between two tables, which TOSA refuses. A kernel of more than 64 elements is not
    for an Ethos-U55.
    """
    import torch

    source: Any = node.args[0]
    if source.op != "call_function" or not source.meta["val"].is_floating_point() or not source.meta["val"].dim():
        return None

    def cumsum(values: Tensor, dimension: int, **_: Any) -> Tensor:
        size = values.shape[dimension]
        ones = torch.tril(torch.ones(size, size))
        return torch.nn.functional.linear(values.movedim(dimension, -1), ones).movedim(-1, dimension)

    return cumsum


def _choose_embedding_bag(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """Bags of one size, as rows of indices have: a sum, mean or maximum of embeddings.

    ExecuTorch has no kernel of it. What a padding index leaves out of a mean or maximum is only known from the indices.
    """
    import torch

    given: tuple[Any, ...] = (*node.args, *_BAG_DEFAULTS[len(node.args) :])
    table, indices, offsets, _, mode, _, weights, last, padding = given
    if offsets not in constants or any(use.args[1] != 0 and use.users for use in node.users):
        return None
    module = cast("torch.fx.GraphModule", node.graph.owning_module)
    starts = values_of(module, constants, [offsets])[offsets].tolist()
    count, size = len(starts) - bool(last), indices.meta["val"].numel()
    if not count or starts != [size // count * number for number in range(len(starts))] or size % count or not size:
        return None
    if padding is not None and (mode != _SUM or table not in constants):
        return None

    def embedding_bag(table: Tensor, indices: Tensor, *rest: Any) -> Tensor:
        from torch.nn import functional

        if padding is not None:
            table = table * torch.arange(table.shape[0]).ne(padding).to(table.dtype)[:, None]
        rows = functional.embedding(indices.reshape(count, -1), table)
        if weights is not None:
            rows = rows * rest[4].reshape(count, -1, 1)
        reductions: Any = (torch.sum, torch.mean, torch.amax)
        result: Tensor = reductions[mode](rows, 1)
        return result

    return embedding_bag


_BAG_DEFAULTS = (None, None, None, False, 0, False, None, False, None)
"""The arguments of aten.embedding_bag that need not be given: its third is the mode."""
_SUM = 0


def _choose_attention(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One whose queries or keys are constants, as in DETR: upstream takes it apart after it has folded constants, and
    fails on their scaling. And one whose heads or batches are repeated, for which upstream asks for enable_gqa.
    """
    given: Any = node.args[:3]
    repeated = len({tuple(part.meta["val"].shape[:-2]) for part in given}) > 1 and not node.kwargs.get("enable_gqa")
    return attention if repeated or constants.intersection(given[:2]) else None


def _joined(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two matrices whose product is the sum of the products of a batch."""
    return first.transpose(0, 1).reshape(first.shape[1], -1), second.reshape(-1, second.shape[2])


def _times(value: Tensor, factor: Number) -> Tensor:
    return value if factor == 1 else value * factor


def _plus(product: Tensor, addend: Tensor, beta: Number) -> Tensor:
    """beta 0: torch does not read the addend, which may be NaN."""
    return product if beta == 0 else product + _times(addend, beta)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What aten.scaled_dot_product_attention computes, with the mask apart."""
    import torch

    mask = attn_mask if mask is None else mask
    rank = max(query.dim(), key.dim())
    query, key, value = (part[(None,) * (rank - part.dim())] for part in (query, key, value))
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (part.repeat_interleave(times, -3) for part in (key, value))
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-2, -1)
    if causal or is_causal:
        kept = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(kept.logical_not(), float("-inf"))
    elif mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return torch.softmax(scores, -1) @ value


# Cells of recurrent networks, as upstream takes whole layers apart.


def _gru_cell(
    source: Tensor,
    state: Tensor,
    weights: Tensor,
    state_weights: Tensor,
    bias: Tensor | None = None,
    state_bias: Tensor | None = None,
) -> Tensor:
    import torch
    from torch.nn import functional

    given = functional.linear(source, weights, bias).chunk(3, -1)
    kept = functional.linear(state, state_weights, state_bias).chunk(3, -1)
    reset, update = (torch.sigmoid(one + other) for one, other in zip(given[:2], kept[:2], strict=True))
    new = torch.tanh(given[2] + reset * kept[2])
    return (state - new) * update + new


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def cell(
        source: Tensor,
        state: Tensor,
        weights: Tensor,
        state_weights: Tensor,
        bias: Tensor | None = None,
        state_bias: Tensor | None = None,
    ) -> Tensor:
        from torch.nn import functional

        given, kept = functional.linear(source, weights, bias), functional.linear(state, state_weights, state_bias)
        return activation(given + kept)

    return cell


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


# Reductions, and functions of two values.


def _logsumexp(source: Tensor, axes: Any, keepdim: bool = False) -> Tensor:
    import torch

    most = source.amax(axes, True)
    total = torch.log(torch.exp(source - most).sum(axes, True)) + most
    return total if keepdim else total.squeeze(axes)


def _logaddexp(one: Tensor, other: Tensor) -> Tensor:
    import torch

    softplus = table_operators()["ethos_hil.softplus.default"]
    total: Tensor = torch.maximum(one, other) + softplus(-(one - other).abs(), 1, 20)
    return total


def _with_defaults(operator: Callable[..., Tensor], defaults: tuple[Number, ...]) -> Callable[..., Tensor]:
    def tabulated(source: Tensor, *given: Number) -> Tensor:
        return operator(source, *given, *defaults[len(given) :])

    return tabulated


def _root_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def root(*given: Any, **named: Any) -> Tensor:
        import torch

        return torch.sqrt(function(*given, **named))

    return root


def _pairwise_distance(
    one: Tensor, other: Tensor, p: Number = 2, epsilon: Number = 1e-6, keepdim: bool = False
) -> Tensor:
    import torch

    return torch.linalg.vector_norm(one - other + epsilon, p, -1, keepdim)


def _channel_shuffle(source: Tensor, groups: int) -> Tensor:
    batch, channels, *rest = source.shape
    return source.reshape(batch, groups, channels // groups, *rest).transpose(1, 2).reshape(source.shape)
