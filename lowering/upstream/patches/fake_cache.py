"""torch's cache of what operators give for fake tensors, for those that quantise as well.

torch (torch/_subclasses/fake_tensor.py) keeps that for operators of its own. Half the calls in a quantised graph are
those of torchao's operators that quantise and dequantise: functions in Python that compute nothing but a shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_OPERATORS = frozenset(
    f"quantized_decomposed::{name}"
    for name in ("quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel")
)
"""Their schemas change no argument and return no view, which is what torch asks of its own operators."""


def quantising_too(by_torch: Callable[..., None]) -> Callable[..., None]:
    """torch's method `_validate_cache_key`, which raises where the result of a call may not be kept."""

    def validate(self: Any, operator: Any, args: Any, kwargs: Any) -> None:
        if operator.name() not in _OPERATORS:
            by_torch(self, operator, args, kwargs)

    return validate
