"""Batch norms that no convolution takes in, which upstream's quantiser leaves in float.

PT2E folds a batch norm into the convolution before it. One that follows a concatenation, an addition or a pool
(DenseNet, MixNet, RepVGG) stays, and ExecuTorch's Arm quantiser does not know it (executorch 1.4.1,
backends/arm/quantizer/quantization_annotator.py): it runs on the CPU, over whole maps in float. With fixed statistics
it is a factor and an offset for each channel, hence a depthwise convolution with a kernel of one element.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs

if TYPE_CHECKING:
    import torch

LONE_NORMS = (
    "batch norms that no convolution before them takes in were written as depthwise convolutions with a kernel of one "
    "element: ExecuTorch's Arm quantiser leaves batch norms in float, on the CPU"
)
_INPUT, _SCALE, _OFFSET, _MEAN, _VARIANCE, _TRAINING, _EPSILON = 0, 1, 2, 3, 4, 5, 7
"""Numbers of the arguments in aten's signature."""


def write_as_convolutions(floating: torch.fx.GraphModule) -> int:
    """Rewrite such norms of maps with one or two dimensions, in place. Return how many there were.

    Args:
        floating: the module of a float exported program, in eval mode.
    """
    count = 0
    for module in graphs(floating):
        found = list(_lone(module))
        for number, node in enumerate(found):
            _rewrite(module, node, f"_norm_{number}")
        if found:
            module.graph.eliminate_dead_code()
            module.recompile()
        count += len(found)
    return count


def _lone(module: torch.fx.GraphModule) -> Iterator[Any]:
    import torch

    aten = torch.ops.aten
    takers = {aten.conv1d.default, aten.conv2d.default, aten.conv_transpose1d.default, aten.conv_transpose2d.input}
    for node in module.graph.nodes:
        if node.target != aten.batch_norm.default or node.args[_TRAINING]:
            continue
        before, value = node.args[_INPUT], node.meta.get("val")
        taken = before.target in takers and len(before.users) == 1
        if taken or value is None or value.dim() not in (3, 4) or value.dtype != torch.float32:
            continue
        if all(at is None or at.op == "get_attr" for at in node.args[_SCALE : _VARIANCE + 1]):
            yield node


def _rewrite(module: torch.fx.GraphModule, node: Any, name: str) -> None:
    import torch

    def held(index: int) -> torch.Tensor | None:
        return None if node.args[index] is None else attrgetter(node.args[index].target)(module).detach().double()

    mean, variance, scale, offset = (held(index) for index in (_MEAN, _VARIANCE, _SCALE, _OFFSET))
    assert mean is not None, "a norm with fixed statistics has them"
    assert variance is not None, "a norm with fixed statistics has them"
    factor = (variance + node.args[_EPSILON]).rsqrt() * (1 if scale is None else scale)
    bias = (0 if offset is None else offset) - mean * factor
    dimensions = node.meta["val"].dim() - 2
    constants = {"weight": factor.reshape(-1, 1, *[1] * dimensions).float(), "bias": bias.float()}
    for part, values in constants.items():
        module.register_parameter(f"{name}_{part}", torch.nn.Parameter(values, requires_grad=False))
    aten = torch.ops.aten
    with module.graph.inserting_before(node):
        weight, added = (module.graph.get_attr(f"{name}_{part}") for part in constants)
        for attribute, values in zip((weight, added), constants.values(), strict=True):
            # The quantiser passes by what has no shape and type.
            attribute.meta["val"] = node.meta["val"].fake_mode.from_tensor(values)
        places: tuple[Any, ...] = ([1] * dimensions, [0] * dimensions, [1] * dimensions, factor.numel())
        target = aten.conv1d.default if dimensions == 1 else aten.conv2d.default
        convolution = module.graph.call_function(target, (node.args[_INPUT], weight, added, *places))
    convolution.meta = dict(node.meta)
    node.replace_all_uses_with(convolution)
    module.graph.erase_node(node)
