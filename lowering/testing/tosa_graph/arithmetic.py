"""TOSA's elementwise operators: arithmetic, comparisons, logic, rescaling, tables, casts, selection."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tosa_serializer as ts  # type: ignore[import-untyped]

from ethos_hil.lowering.testing.tosa_graph.tensors import Array, Tensors, Value

Scale = float | Sequence[tuple[int, int]]
COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL")


class Arithmetic(Tensors):
    """Builds elementwise operators; shapes broadcast where a dimension is one."""

    def rescale(
        self,
        source: Value,
        scale: Scale,
        *,
        zero_in: int = 0,
        zero_out: int = 0,
        dtype: str = "int8",
        double_round: bool = False,
        unsigned: tuple[bool, bool] = (False, False),
    ) -> Value:
        """Add RESCALE, by a factor or by (multiplier, shift) pairs (more than one: per channel).

        Multipliers have 31 bits, or 15 where the source is int48. It rounds once unless `double_round`; `unsigned` says
        whether input and output are unsigned.
        """
        bits = 15 if source.dtype == "int48" else 31
        pairs = [multiplier_shift(scale, bits)] if isinstance(scale, float) else list(scale)
        attribute = ts.TosaSerializerAttribute()
        attribute.RescaleAttribute(
            scale32=bits == 31,
            rounding_mode=ts.RoundingMode.DOUBLE_ROUND if double_round else ts.RoundingMode.SINGLE_ROUND,
            per_channel=len(pairs) > 1,
            input_unsigned=unsigned[0],
            output_unsigned=unsigned[1],
        )
        inputs = [
            source,
            self.const([m for m, _ in pairs], "int16" if bits == 15 else "int32"),
            self.const([s for _, s in pairs], "int8"),
            self.const([zero_in], source.dtype),
            self.const([zero_out], dtype),
        ]
        return self._op(ts.Op.RESCALE, attribute, inputs, source.shape, dtype)

    def binary(self, name: str, first: Value, second: Value, *, shift: int = 0) -> Value:
        """Add an operator on two values, by its TOSA name.

        "ARITHMETIC_RIGHT_SHIFT_ROUND" is ARITHMETIC_RIGHT_SHIFT with rounding; `shift` is that of MUL, whose result is
        int32; comparisons give bool.
        """
        attribute = ts.TosaSerializerAttribute()
        inputs = [first, second]
        if name in ("MINIMUM", "MAXIMUM"):
            getattr(attribute, f"{name.capitalize()}Attribute")(ts.NanPropagationMode.PROPAGATE)
        elif name.startswith("ARITHMETIC_RIGHT_SHIFT"):
            attribute.ArithmeticRightShiftAttribute(name.endswith("ROUND"))
            name = "ARITHMETIC_RIGHT_SHIFT"
        else:
            getattr(attribute, _attribute(name))()
        if name == "MUL":
            inputs.append(self.const([shift], "int8"))
        shape = tuple(max(a, b) for a, b in zip(first.shape, second.shape, strict=True))
        dtype = "int32" if name == "MUL" else "bool" if name in COMPARISONS else first.dtype
        return self._op(getattr(ts.Op, name), attribute, inputs, shape, dtype)

    def unary(self, name: str, source: Value) -> Value:
        """Add ABS, CLZ, IDENTITY, BITWISE_NOT or LOGICAL_NOT."""
        attribute = ts.TosaSerializerAttribute()
        getattr(attribute, _attribute(name))()
        return self._op(getattr(ts.Op, name), attribute, [source], source.shape, source.dtype)

    def negate(self, source: Value, zeros: tuple[int, int] = (0, 0)) -> Value:
        """Add NEGATE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.NegateAttribute()
        inputs = [source, *(self.const([zero], source.dtype) for zero in zeros)]
        return self._op(ts.Op.NEGATE, attribute, inputs, source.shape, source.dtype)

    def cast(self, source: Value, dtype: str) -> Value:
        """Add CAST."""
        attribute = ts.TosaSerializerAttribute()
        attribute.CastAttribute()
        return self._op(ts.Op.CAST, attribute, [source], source.shape, dtype)

    def select(self, condition: Value, first: Value, second: Value) -> Value:
        """Add SELECT: the first value where the condition holds, else the second."""
        attribute = ts.TosaSerializerAttribute()
        attribute.SelectAttribute()
        shape = tuple(max(extents) for extents in zip(condition.shape, first.shape, second.shape, strict=True))
        return self._op(ts.Op.SELECT, attribute, [condition, first, second], shape, first.dtype)

    def table(self, source: Value, entries: Array) -> Value:
        """Add TABLE: 256 int8 entries for int8, 513 int16 entries for int16 (int32 result)."""
        attribute = ts.TosaSerializerAttribute()
        attribute.TableAttribute()
        dtype = "int8" if source.dtype == "int8" else "int32"
        return self._op(ts.Op.TABLE, attribute, [source, self.const(entries, source.dtype)], source.shape, dtype)

    def clamp(self, source: Value, low: int, high: int) -> Value:
        """Add CLAMP."""
        attribute = ts.TosaSerializerAttribute()
        size = 1 if source.dtype == "int8" else 2
        low_bytes, high_bytes = (list(v.to_bytes(size, "little", signed=True)) for v in (low, high))
        attribute.ClampAttribute(low_bytes, high_bytes, nan_mode=ts.NanPropagationMode.PROPAGATE)
        return self._op(ts.Op.CLAMP, attribute, [source], source.shape, source.dtype)


def _attribute(name: str) -> str:
    special = {"INTDIV": "IntDivAttribute"}
    return special.get(name) or "".join(part.capitalize() for part in name.split("_")) + "Attribute"


def multiplier_shift(factor: float, bits: int = 31) -> tuple[int, int]:
    """Return the multiplier of `bits` bits and the shift that come closest to `factor`."""
    mantissa, exponent = math.frexp(factor)
    multiplier = round(mantissa * (1 << bits))
    if multiplier == 1 << bits:
        multiplier, exponent = multiplier // 2, exponent + 1
    return multiplier, bits - exponent
