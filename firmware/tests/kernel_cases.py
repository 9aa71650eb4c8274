"""Cases for kernels: calls of single operators. Many go into one program, so that they share one boot.

A case names its operator as it is in the program. A check compares the names, so that no decomposition can put another
kernel under test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from plain_qemu import RunProgram
from programs import Exported, export

from ethos_hil.harness.image.formats import FrameType
from ethos_hil.lowering.formats.pte_reader import Program

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 16777217.0, 0.5, -2.5)
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
REAL = (*WHOLE, "float16", "bfloat16", "float32", "float64")


@cache
def values(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return random numbers over the whole range of a type, with its ends and, for floats, special values."""
    generator = torch.Generator().manual_seed(seed)
    count = 1
    for size in sizes:
        count *= size
    kind = getattr(torch, dtype)
    if dtype == "bool":
        flat = torch.rand(count, generator=generator) < 0.5
    elif dtype in WHOLE:
        limits = torch.iinfo(kind)
        flat = torch.randint(-(2**62), 2**62, (count,), generator=generator)
        near = torch.randint(-9, 9, (count,), generator=generator)
        ends = torch.tensor([limits.min, limits.max, 0, 1, -1])[torch.randint(0, 5, (count,), generator=generator)]
        pick = torch.randint(0, 3, (count,), generator=generator)
        flat = torch.where(pick == 0, flat, torch.where(pick == 1, near, ends)).to(kind)
    else:
        flat = torch.randn(count, generator=generator, dtype=torch.float64)
        flat = flat * torch.exp2(torch.randint(-12, 12, (count,), generator=generator))
        special = torch.tensor(SPECIAL, dtype=torch.float64)
        special = special[torch.randint(0, len(SPECIAL), (count,), generator=generator)]
        flat = torch.where(torch.rand(count, generator=generator) < 0.25, special, flat).to(kind)
    return flat.reshape(sizes)


def plain(*sizes: int, seed: int = 1, dtype: str = "float32") -> Any:
    """Return ordinary numbers of both signs."""
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))


Bound = Callable[[Any, Any], Any]
"""Of an output of the host, and the case's inputs: how far each element may be off it."""


@dataclass(frozen=True)
class Case:
    """One call. Without a bound its result must have the host's bits."""

    operator: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    bound: Bound | None = None


class Cases(list[Case]):
    """Cases of operators of torch.ops.aten, written as "add.Tensor" and named as in a program."""

    def __init__(self, bound: Bound | None = None) -> None:
        super().__init__()
        self.bound = bound

    def add(self, out_name: str, name: str, operands: Iterable[tuple[Any, ...]], *numbers: Any, **named: Any) -> None:
        """One case for each tuple of operands (tensors), followed by `numbers`.

        Args:
            out_name: the overload in the program, or the whole name if that differs in more.
        """
        packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        call = functools.partial(_call, operator, numbers, named)
        full_name = out_name if "." in out_name else f"{packet}.{out_name}"
        self.extend(Case(f"aten::{full_name}", call, tuple(tensors), self.bound) for tensors in operands)

    def call(self, operator: str, function: Callable[..., Any], *inputs: Any) -> None:
        """Add a case whose call is not one of tensors followed by numbers.

        Args:
            operator: as it is in the program; without a namespace one of aten.
        """
        full_name = operator if "::" in operator else f"aten::{operator}"
        self.append(Case(full_name, function, inputs, self.bound))


def _call(operator: Any, numbers: tuple[Any, ...], named: dict[str, Any], *tensors: Any) -> Any:
    return operator(*tensors, *numbers, **named)


def operators_of(pte: bytes) -> set[str]:
    """The `name.overload` of all kernels that the program calls."""
    (plan,) = Program.parse(pte).plans
    return set(plan.operators)


def export_cases(cases: Sequence[Case]) -> tuple[Exported, list[Case]]:
    """Return one program of all cases, run on ExecuTorch's host runtime, and the case that each output belongs to."""
    tensors: list[Any] = []
    for case in cases:
        for value in case.inputs:
            if all(value is not tensor for tensor in tensors):
                tensors.append(value)
    places = [[next(i for i, t in enumerate(tensors) if t is value) for value in case.inputs] for case in cases]

    owners: list[Case] = []

    def call_all(*values: Any) -> Any:
        outputs: list[Any] = []
        owners.clear()
        for case, where in zip(cases, places, strict=True):
            result = case.call(*(values[i] for i in where))
            results = list(result) if isinstance(result, (tuple, list)) else [result]
            outputs += results
            owners.extend([case] * len(results))
        return tuple(outputs)

    exported = export(call_all, tuple(tensors), preserve=True)
    operators, named = operators_of(exported.pte), {case.operator for case in cases}
    assert operators == named, f"other operators than named: {sorted(operators ^ named)}"
    return exported, owners


def check_close(output: Any, expected: Any, allowed: Any, what: str) -> None:
    """Check for equal bits, or a difference within what is allowed. Any NaN equals any other."""
    assert (output.dtype, output.shape) == (expected.dtype, expected.shape), what
    if output.dtype.kind == "f":
        nan = np.isnan(expected)
        assert np.array_equal(np.isnan(output), nan), what
        output, expected = output[~nan], expected[~nan]
        if allowed is not None:
            allowed = np.broadcast_to(allowed, nan.shape)[~nan]
            equal = output == expected
            with np.errstate(invalid="ignore"):
                off = np.abs(output.astype(np.float64) - expected.astype(np.float64))
            worst = np.max(np.where(equal, 0, off / np.maximum(allowed, 1e-300)), initial=0)
            assert worst <= 1, f"{what} is off by {worst:.2f} times what is allowed"
            return
        output, expected = output.view(f"i{output.itemsize}"), expected.view(f"i{output.itemsize}")
    assert np.array_equal(output, expected), what


def check_cases(run_program: RunProgram, cases: Iterable[Case]) -> list[Any]:
    """Run all cases in one boot, compare every output with the host's, and return the outputs as arrays."""
    cases = list(cases)
    exported, owners = export_cases(cases)
    conversation = run_program(exported)
    assert conversation.one(FrameType.END).fields["status"] == 0, conversation.frames[-2:]
    tensors = conversation.tensors()
    assert len(tensors) == len(exported.outputs)
    arrays = []
    for number, (case, tensor, expected) in enumerate(zip(owners, tensors, exported.outputs, strict=True)):
        what = f"output {number}, {case.operator} of {[(tuple(i.shape), i.dtype) for i in case.inputs]}"
        assert tensor.sizes == tuple(expected.shape), what
        order = tuple(tensor.info["dim_order"][: tensor.info["rank"]])
        assert order == tuple(expected.dim_order()), what
        in_memory = expected.permute(order).contiguous()
        sent = torch.frombuffer(bytearray(tensor.data) or bytearray(8), dtype=expected.dtype)
        output = array_of(sent[: in_memory.numel()].reshape(in_memory.shape))
        wanted = array_of(in_memory)
        allowed = None if case.bound is None else case.bound(wanted, [array_of(value) for value in case.inputs])
        check_close(output, wanted, allowed, what)
        arrays.append(output)
    return arrays


def array_of(tensor: Any) -> Any:
    """Return a tensor as an array; bfloat16, which numpy lacks, as float32."""
    return (tensor.to(torch.float32) if tensor.dtype is torch.bfloat16 else tensor).numpy()


def equal_numbers(expected: Any, inputs: Any) -> Any:
    """Allow 0.0 in place of -0.0, and nothing else."""
    return 0.0


def ulps(number: float) -> Bound:
    """Allow `number` units in the last place of the host's result."""
    return lambda expected, inputs: number * np.spacing(np.abs(expected)).astype(np.float64)
