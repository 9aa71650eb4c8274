"""TOSA's control flow: branches and loops, whose bodies are separate regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tosa_serializer as ts  # type: ignore[import-untyped]

from ethos_hil.lowering.testing.tosa_graph.tensors import Tensors, Value

Body = Callable[..., Value | Sequence[Value]]


class Control(Tensors):
    """Builds COND_IF and WHILE_LOOP. Bodies get their arguments as values and return their results."""

    def cond_if(self, condition: Value, then: Body, otherwise: Body, arguments: Sequence[Value]) -> Value:
        """Add COND_IF on one bool. The result has the first argument's shape and type."""
        attribute = ts.TosaSerializerAttribute()
        attribute.CondIfAttribute(self._body(then, arguments), self._body(otherwise, arguments))
        first = arguments[0]
        return self._op(ts.Op.COND_IF, attribute, [condition, *arguments], first.shape, first.dtype)

    def while_loop(self, condition: Body, body: Body, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Add WHILE_LOOP. The results have the arguments' shapes and types."""
        attribute = ts.TosaSerializerAttribute()
        attribute.WhileLoopAttribute(self._body(condition, arguments), self._body(body, arguments))
        first, *rest = arguments
        more = [self._named(value.shape, value.dtype) for value in rest]
        result = self._op(ts.Op.WHILE_LOOP, attribute, arguments, first.shape, first.dtype, *more)
        return (result, *more)
