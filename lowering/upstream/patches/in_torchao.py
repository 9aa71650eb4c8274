"""What is replaced in torchao while a model is lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# torchao's search for batch norms of quantisation-aware training, left out where there can be none.
#
# `convert_pt2e` looks for convolutions with batch norms as `prepare_qat_pt2e` wrote them, in any program that has a
# batch norm (torchao 0.18, quantization/pt2e/qat_utils.py, `_fold_conv_bn_qat_helper`). It traces 96 patterns for that.
# Each of them takes the square root of a variance. So a program without a square root has none, and keeps what else is
# done to it: dead nodes go, and each reader gets a DEQUANTIZE of its own and loses it again.

_Fold = Callable[..., "torch.fx.GraphModule"]


def searched_where_there_may_be(fold: _Fold) -> _Fold:
    """Return torchao's `fold`, for programs with a square root only."""

    def fold_if_any(module: torch.fx.GraphModule, *arguments: Any, **options: Any) -> torch.fx.GraphModule:
        import torch
        from torchao.quantization.pt2e import qat_utils

        roots = (torch.ops.aten.sqrt.default, torch.ops.aten.sqrt_.default)
        if any(node.target in roots for node in module.graph.nodes):
            return fold(module, *arguments, **options)
        module.graph.eliminate_dead_code()
        module.recompile()
        qat_utils._duplicate_dequantize_node(module)
        qat_utils._remove_extra_dequantize(module)
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    return fold_if_any
