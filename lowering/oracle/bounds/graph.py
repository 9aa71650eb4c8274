"""A TOSA program, evaluated with bounds, operator by operator in the order of its flatbuffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator, attribute_of
from ethos_hil.lowering.oracle.bounds import elementwise, sums
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy, TosaOperation, of_constant

Array = np.ndarray


def rearrange(move: Callable[..., Array], *inputs: Bounded) -> Bounded:
    """Return values and errors after the same movement."""
    return Bounded(move(*(x.value for x in inputs)), move(*(x.error for x in inputs)), any(x.scaled for x in inputs))


def _slice(_: TosaOperation, x: Bounded, start: Bounded, size: Bounded) -> Bounded:
    part = tuple(slice(first, first + count) for first, count in zip(start.value, size.value, strict=True))
    return rearrange(lambda array: array[part], x)


def _pad(_: TosaOperation, x: Bounded, padding: Bounded, constant: Bounded) -> Bounded:
    widths = padding.value.reshape(-1, 2)
    return rearrange(lambda array, filler: np.pad(array, widths, constant_values=filler.reshape(())), x, constant)


def _exact_indices(operation: TosaOperation, indices: Bounded) -> Array:
    if not indices.is_exact:
        raise NoBound(f"{operation.op} by indices that may differ has no error bound")
    return indices.integers


def _gather(operation: TosaOperation, values: Bounded, indices: Bounded) -> Bounded:
    rows = _exact_indices(operation, indices)[..., None]
    return rearrange(lambda array: np.take_along_axis(array, rows, axis=1), values)


def _scatter(operation: TosaOperation, values: Bounded, indices: Bounded, updates: Bounded) -> Bounded:
    rows = _exact_indices(operation, indices)[..., None]

    def put(array: Array, update: Array) -> Array:
        result = array.copy()
        np.put_along_axis(result, rows, update, axis=1)
        return result

    return rearrange(put, values, updates)


ARRANGING: dict[str, Callable[..., Bounded]] = {
    "CONCAT": lambda op, *inputs: rearrange(lambda *arrays: np.concatenate(arrays, op.scalar("Axis")), *inputs),
    "GATHER": _gather,
    "IDENTITY": lambda _, x: x,
    "PAD": _pad,
    "RESHAPE": lambda op, x, _: rearrange(lambda array: array.reshape(op.output.shape), x),
    "REVERSE": lambda op, x: rearrange(lambda array: np.flip(array, op.scalar("Axis")), x),
    "SCATTER": _scatter,
    "SLICE": _slice,
    "TILE": lambda _, x, multiples: rearrange(lambda array: np.tile(array, multiples.value.tolist()), x),
    "TRANSPOSE": lambda op, x: rearrange(lambda array: array.transpose(op.vector("Perms")), x),
}

RULES: dict[str, Callable[..., Bounded]] = {**ARRANGING, **elementwise.RULES, **sums.RULES}
_FORMATS = {"FP32": "<f4", "FP16": "<f2", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "BOOL": "?"}


def evaluate(tosa: bytes, inputs: Sequence[Bounded], rounding: RoundingPolicy) -> tuple[Bounded, ...]:
    """Return the program's outputs.

    Args:
        tosa: the flatbuffer.
        inputs: in the shapes of its inputs.
        rounding: how its operators round.

    Raises:
        NoBound: an operator has no rule, or cannot be bounded where its inputs may differ.
    """
    graph = TosaGraph.parse(tosa)
    block = Buffer.GetRootAs(tosa, 0).Regions(0).Blocks(0)
    values = dict(_constants(block, graph, rounding))
    values.update((tensor.name, value) for tensor, value in zip(graph.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):  # infinities and NaNs are ordinary values; the rules handle their errors
        for operator in graph.operators:
            if operator.is_constant:
                if operator.outputs[0] not in values:
                    raise NoBound(f"{operator.op} {operator.outputs[0]} is of a type that is not read here")
                continue
            result = _apply(operator, attribute_of(block.Operators(operator.index)), graph, values, rounding)
            values[operator.outputs[0]] = result
    return tuple(values[tensor.name] for tensor in graph.outputs)


def _apply(
    operator: TosaOperator, attributes: Any, graph: TosaGraph, values: dict[str, Bounded], rounding: RoundingPolicy
) -> Bounded:
    rule = RULES.get(operator.op)
    if rule is None:
        raise NoBound(
            f"TOSA operator {operator.op} has no rule for its error", hint="add one to lowering/oracle/bounds"
        )
    inputs = tuple(graph.tensors[name] for name in operator.inputs if name in graph.tensors)
    output = graph.tensors[operator.outputs[0]]
    result = rule(
        TosaOperation(operator.op, attributes, inputs, output, rounding), *(values[name] for name in operator.inputs)
    )
    if result.value.shape != output.shape:
        raise NoBound(f"the rule of {operator.op} gives {list(result.value.shape)}, the program {list(output.shape)}")
    return result


def _constants(block: Any, graph: TosaGraph, rounding: RoundingPolicy) -> Iterator[tuple[str, Bounded]]:
    """Yield the constants whose data has a known type. Shapes are integers like others."""
    for index in range(block.TensorsLength()):
        raw = block.Tensors(index)
        tensor = graph.tensors[raw.Name().decode()]
        if raw.DataLength() and tensor.dtype in _FORMATS:
            count = int(np.prod(tensor.shape))
            array = np.frombuffer(raw.DataAsNumpy().tobytes(), _FORMATS[tensor.dtype], count).reshape(tensor.shape)
            yield tensor.name, of_constant(array, tensor.dtype, rounding)
        elif raw.DataLength() and tensor.dtype == "INT48":
            wide = np.zeros((int(np.prod(tensor.shape)), 8), np.uint8)
            wide[:, 2:] = raw.DataAsNumpy()[: 6 * len(wide)].reshape(-1, 6)
            yield tensor.name, Bounded.exact((wide.view("<i8") >> 16).reshape(tensor.shape))
    for index in range(block.ShapesLength()):
        raw = block.Shapes(index)
        data = np.frombuffer(raw.DataAsNumpy().tobytes(), "<i8", raw.Rank()) if raw.Rank() else np.zeros(0, np.int64)
        yield raw.Name().decode(), Bounded.exact(data, scaled=False)
