"""The smallest programs: one call of one operator, for every operator of the firmware.

A call is made from PyTorch's schema of the operator. Its arguments are guessed until PyTorch accepts them. What the
programs compute does not matter: a fuzzer starts from them.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.lowering.upstream.names.operators import schema_arguments
from ethos_hil.suites.lab.damage import fields

SOURCE = Path(__file__).resolve().parents[3] / "firmware" / "runtime" / "operators.cc"
SHAPES = ((2, 3), (1, 2, 4, 4), (3, 3), (2, 3, 3), (6,), (), (1, 1, 2, 5))
DTYPES = ("float32", "float64", "int8", "bool", "int64", "int32", "uint8", "bfloat16", "float16", "int16")
LISTS = ((0,), (1, 1), (2, 2), (0, 1), (2, 3), (1, 2, 4, 4), (0, 0), (3,), (1, 0), (-1,), (0, 2, 3, 1), (1, 1, 1, 1))
SCALAR_TYPES = {"uint8": "BYTE", "int8": "CHAR", "int16": "SHORT", "int32": "INT", "int64": "LONG", "float16": "HALF",
                "bfloat16": "BFLOAT16", "float32": "FLOAT", "float64": "DOUBLE", "bool": "BOOL"}  # fmt: skip
PER_OPERATOR = 5
_INDICES = ("index", "indices")
_ENTRY = re.compile(r'^    \{"(\w+::\w+)", "(\w+)", ', re.MULTILINE)


def operators() -> list[tuple[str, str]]:
    """Return name and overload of each of the firmware's operators."""
    return _ENTRY.findall(SOURCE.read_text())


@dataclass(frozen=True)
class OperatorCall:
    """One call: its arguments, in the schema's order, and what they are written to."""

    name: str
    overload: str
    arguments: tuple[Any, ...]
    outs: tuple[Any, ...]

    def pte(self) -> bytes | None:
        """The program."""
        table = _Values()
        inputs: list[int] = []
        arguments = [table.put(argument, inputs) for argument in self.arguments]
        results: list[int] = []
        outs = [table.put(out, results) for out in self.outs]
        # As the exporter does: what a call returns is one more argument.
        returned = outs[0] if len(outs) == 1 else table.add("TensorList", items=outs)
        call = {"op_index": 0, "args": [*arguments, *outs, returned]}
        plan = {
            "name": "forward",
            "values": table.values,
            "inputs": inputs,
            "outputs": results,
            "chains": [{"inputs": [], "outputs": [], "instructions": [_instruction("OperatorCall", call)]}],
            "operators": [{"name": self.name, "overload": self.overload}],
            "delegates": [],
            "non_const_buffer_sizes": [0, table.planned],
        }
        return fields.write({"version": 0, "execution_plan": [plan]}, b"")


def calls(name: str, overload: str) -> list[OperatorCall]:
    """Return some calls that PyTorch can execute, or one of the right form only, when no guess was right."""
    import torch

    packet, _, short = name.partition("::")
    try:
        operator = getattr(getattr(getattr(torch.ops, packet), short), overload)
    except (AttributeError, RuntimeError):
        return []
    outs = [argument for argument in schema_arguments(operator) if argument.is_out]
    inputs = [argument for argument in schema_arguments(operator) if not argument.is_out]
    by_type: dict[tuple[str, int], OperatorCall] = {}
    for shape, dtype, numbers, like in itertools.product(SHAPES, DTYPES, LISTS, (0, 1, 2)):
        if len(by_type) == PER_OPERATOR:
            break
        if (dtype, len(shape)) in by_type or sum(dtype == known for known, _ in by_type) > 1:
            continue
        if "batch_norm" in name and like == 0:  # PyTorch 2.13 reads weights without a look at their shape, and crashes
            continue
        arguments = [_guess(argument, shape, dtype, numbers, like) for argument in inputs]
        results = _carry_out(operator, inputs, arguments, outs, dtype)
        if results is not None:
            by_type[dtype, len(shape)] = OperatorCall(name, overload, tuple(arguments), results)
    if by_type:
        return list(by_type.values())
    guesses = [_guess(argument, (1, 2, 4, 4), "float32", (1, 1), 0) for argument in inputs]
    return [OperatorCall(name, overload, tuple(guesses), tuple(torch.ones(1, 2, 4, 4) for _ in outs))]


def _carry_out(operator: Any, inputs: Any, arguments: Any, outs: Any, dtype: str) -> tuple[Any, ...] | None:
    import torch

    positional = [value for argument, value in zip(inputs, arguments, strict=True) if not argument.kwarg_only]
    named = {a.name: value for a, value in zip(inputs, arguments, strict=True) if a.kwarg_only}
    attempts: list[dict[str, Any]]
    if str(outs[0].type) == "List[Tensor]":
        kind = getattr(torch, dtype)
        attempts = [{outs[0].name: [torch.empty(0, dtype=kind) for _ in range(count)]} for count in range(1, 5)]
    else:
        attempts = [
            {out.name: torch.empty(0, dtype=getattr(torch, kind)) for out, kind in zip(outs, kinds, strict=False)}
            for kinds in ((dtype,) * 3, ("bool",) * 3, ("int64",) * 3, (dtype, "int64", "int64"), ("float32",) * 3)
        ]
    for empty in attempts:
        try:
            operator(*positional, **named, **empty)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            continue
        return tuple(empty.values())
    return None


def _guess(argument: Any, shape: tuple[int, ...], dtype: str, numbers: tuple[int, ...], like: int) -> Any:
    import torch

    kind = str(argument.type)
    optional = kind.startswith("Optional[")
    kind = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
    if argument.has_default_value() and not (kind.startswith("List[int") and argument.default_value is not None):
        return argument.default_value
    if kind == "Tensor":
        if optional and like == 2:
            return None
        if argument.name in _INDICES:
            return torch.zeros(shape if like else (2,), dtype=torch.int64)
        if argument.name in ("running_mean", "running_var", "weight", "bias", "mask", "condition") and like == 1:
            kinds = torch.bool if argument.name in ("mask", "condition") else getattr(torch, dtype)
            return torch.ones(shape if kinds is torch.bool else shape[1:2] or (1,), dtype=kinds)
        return torch.ones(shape, dtype=getattr(torch, dtype))
    if kind == "List[Tensor]":
        return [torch.ones(shape, dtype=getattr(torch, dtype))] * 2
    if kind == "List[Optional[Tensor]]" or kind == "List[Optional[Tensor":
        return [torch.zeros((2,), dtype=torch.int64)]
    if kind.startswith("List[int"):
        return list(numbers)
    if kind.startswith("List["):
        return [1.0, 2.0] if "float" in kind else [True, False]
    return {"int": 1 if like else 0, "number": 2, "float": 0.5, "bool": bool(like), "str": "none"}.get(kind)


class _Values:
    """A plan's table of values, and its planned memory."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self.planned = 0

    def add(self, kind: str, **value: Any) -> int:
        self.values.append({"val_type": kind, "val": value})
        return len(self.values) - 1

    def put(self, value: Any, tensors: list[int]) -> int:
        """Index of a value; those of tensors go to `tensors` too."""
        import torch

        if value is None:
            return self.add("Null")
        if isinstance(value, bool):
            return self.add("Bool", bool_val=value)
        if isinstance(value, int):
            return self.add("Int", int_val=value)
        if isinstance(value, float):
            return self.add("Double", double_val=value)
        if isinstance(value, str):
            return self.add("String", string_val=value)
        if isinstance(value, torch.Tensor):
            tensors.append(self._tensor(value))
            return tensors[-1]
        assert isinstance(value, list)
        if value and isinstance(value[0], bool):
            return self.add("BoolList", items=value)
        if value and isinstance(value[0], float):
            return self.add("DoubleList", items=value)
        items = [self.put(item, tensors) for item in value]
        return self.add("TensorList" if value and isinstance(value[0], torch.Tensor) else "IntList", items=items)

    def _tensor(self, tensor: Any) -> int:
        where = {"memory_id": 1, "memory_offset_low": self.planned, "memory_offset_high": 0}
        self.planned += -(-tensor.nbytes // 16) * 16
        return self.add(
            "Tensor",
            scalar_type=SCALAR_TYPES[str(tensor.dtype).removeprefix("torch.")],
            sizes=list(tensor.shape),
            dim_order=list(range(tensor.dim())),
            allocation_info=where,
            shape_dynamism="STATIC",
        )


def _instruction(kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"instr_args_type": kind, "instr_args": arguments}
