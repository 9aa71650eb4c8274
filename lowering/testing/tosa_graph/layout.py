"""TOSA's operators that move, select or reduce elements along axes."""

from __future__ import annotations

from collections.abc import Sequence

import tosa_serializer as ts  # type: ignore[import-untyped]

from ethos_hil.lowering.testing.tosa_graph.tensors import Tensors, Value


class AxisOperators(Tensors):
    """Builds operators along axes."""

    def reduce(self, name: str, source: Value, axis: int) -> Value:
        """Add a reduction by the last word of its name: SUM, PRODUCT (int32), MAX, MIN, ALL or ANY (bool).

        The axis stays, with size 1.
        """
        attribute = ts.TosaSerializerAttribute()
        modes = (ts.NanPropagationMode.PROPAGATE,) if name in ("MAX", "MIN") else ()
        getattr(attribute, f"Reduce{name.capitalize()}Attribute")(axis, *modes)
        shape = tuple(1 if i == axis else n for i, n in enumerate(source.shape))
        return self._op(getattr(ts.Op, f"REDUCE_{name}"), attribute, [source], shape, source.dtype)

    def argmax(self, source: Value, axis: int) -> Value:
        """Add ARGMAX; the result is int32, without the axis."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ArgMaxAttribute(axis, ts.NanPropagationMode.PROPAGATE)
        shape = source.shape[:axis] + source.shape[axis + 1 :]
        return self._op(ts.Op.ARGMAX, attribute, [source], shape, "int32")

    def transpose(self, source: Value, axes: Sequence[int]) -> Value:
        """Add TRANSPOSE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.TransposeAttribute(list(axes))
        shape = tuple(source.shape[axis] for axis in axes)
        return self._op(ts.Op.TRANSPOSE, attribute, [source], shape, source.dtype)

    def reverse(self, source: Value, axis: int) -> Value:
        """Add REVERSE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ReverseAttribute(axis)
        return self._op(ts.Op.REVERSE, attribute, [source], source.shape, source.dtype)

    def reshape(self, source: Value, shape: Sequence[int]) -> Value:
        """Add RESHAPE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ReshapeAttribute()
        return self._op(ts.Op.RESHAPE, attribute, [source, self._shape(shape)], tuple(shape), source.dtype)

    def tile(self, source: Value, multiples: Sequence[int]) -> Value:
        """Add TILE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.TileAttribute()
        shape = tuple(n * times for n, times in zip(source.shape, multiples, strict=True))
        return self._op(ts.Op.TILE, attribute, [source, self._shape(multiples)], shape, source.dtype)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Add CONCAT."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ConcatAttribute(axis)
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self._op(ts.Op.CONCAT, attribute, list(values), tuple(shape), values[0].dtype)

    def slice(self, source: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        """Add SLICE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.SliceAttribute()
        inputs = [source, self._shape(start), self._shape(size)]
        return self._op(ts.Op.SLICE, attribute, inputs, tuple(size), source.dtype)

    def pad(self, source: Value, amounts: Sequence[int], value: int) -> Value:
        """Add PAD; `amounts` are before and after each axis."""
        attribute = ts.TosaSerializerAttribute()
        attribute.PadAttribute()
        shape = tuple(n + amounts[2 * i] + amounts[2 * i + 1] for i, n in enumerate(source.shape))
        inputs = [source, self._shape(amounts), self.const([value], source.dtype)]
        return self._op(ts.Op.PAD, attribute, inputs, shape, source.dtype)

    def gather(self, values: Value, indices: Value) -> Value:
        """Add GATHER of (N, K, C) by (N, W) int32; the result is (N, W, C)."""
        attribute = ts.TosaSerializerAttribute()
        attribute.GatherAttribute()
        shape = (*indices.shape, values.shape[2])
        return self._op(ts.Op.GATHER, attribute, [values, indices], shape, values.dtype)

    def scatter(self, values: Value, indices: Value, rows: Value) -> Value:
        """Add SCATTER of (N, W, C) rows into (N, K, C) at (N, W) int32."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ScatterAttribute()
        return self._op(ts.Op.SCATTER, attribute, [values, indices, rows], values.shape, values.dtype)
