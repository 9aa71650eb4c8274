"""Cases for kernels: calls of single operators. Many go into one program, so that they share one boot.

A row has the operator that is called, the overload in the program (or its whole name, if that differs in more), types,
operands and arguments. "3,5 few | 5; 3 last | 3" are two calls for each type, of two operands each: sizes, the kind of
values, and a layout. An operand may have a type of its own, "int8 3,5", or be one of `NAMED`, "@grid". Operands come
before the other arguments, unless these say where (X, Y, ...). OWN is the row's type.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from plain_qemu import RunProgram, Tensor
from programs import Exported, export

from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.oracle.reference import Reference

WHOLE = "uint8 int8 int16 int32 int64"
FLOATS = "float16 bfloat16 float32 float64"
REAL = f"{WHOLE} {FLOATS}"
ALL = f"bool {REAL}"
HOST, CONTIGUOUS, TORCH, REFERENCE = "the host's runtime", "the host with contiguous operands", "torch", "the reference"
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 16777217.0)


@functools.cache
def values(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return random numbers over the whole range of a type, with its ends and, for floats, special values."""
    generator, count, kind = torch.Generator().manual_seed(seed), math.prod(sizes), getattr(torch, dtype)
    if dtype == "bool":
        flat = torch.rand(count, generator=generator) < 0.5
    elif not kind.is_floating_point:
        limits = torch.iinfo(kind)
        flat = torch.randint(-(2**62), 2**62, (count,), generator=generator)
        near = torch.randint(-9, 9, (count,), generator=generator)
        ends = torch.tensor([limits.min, limits.max, 0, 1, -1])[torch.randint(0, 5, (count,), generator=generator)]
        pick = torch.randint(0, 3, (count,), generator=generator)
        flat = torch.where(pick == 0, flat, torch.where(pick == 1, near, ends)).to(kind)
    else:
        flat = torch.randn(count, generator=generator, dtype=torch.float64)
        flat = flat * torch.exp2(torch.randint(-12, 12, (count,), generator=generator))
        special = torch.tensor((*SPECIAL, 0.5, -2.5), dtype=torch.float64)
        special = special[torch.randint(0, len(special), (count,), generator=generator)]
        flat = torch.where(torch.rand(count, generator=generator) < 0.25, special, flat).to(kind)
    return flat.reshape(sizes)


def plain(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return ordinary numbers of both signs."""
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))


def few(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return numbers that are often equal."""
    numbers = values(dtype, *sizes, seed=seed)
    return numbers if dtype in ("bool", "uint8") else numbers.clamp(-2, 2)


def odd(dtype: str, *sizes: int, seed: int = 1, share: float = 0.15) -> Any:
    """Return floats of many magnitudes, `share` of them special, and a run of -0.0."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(sizes, generator=generator) * torch.exp2(torch.randint(-12, 12, sizes, generator=generator))
    special = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), sizes, generator=generator)]
    flat = torch.where(torch.rand(sizes, generator=generator) < share, special, numbers).flatten()
    flat[: flat.numel() // 10] = -0.0
    return flat.reshape(sizes)


def curve(dtype: str, count: int, seed: int = 1) -> Any:
    """Return all magnitudes, special values, and the range where functions bend."""
    generator = torch.Generator().manual_seed(9)
    patterns = torch.randint(-(2**31), 2**31, (count,), generator=generator).to(torch.int32).view(torch.float32)
    near = (torch.rand(count, generator=generator) - 0.5) * 32
    ends = torch.tensor([0.0, -0.0, 1.0, -1.0, 88.72, 88.73, -87.33, -103.9, -104.0, 89.4, 9.01, 0.5, -0.5, 1e-45])
    numbers = torch.cat([patterns, near, near / 64, ends, torch.tensor([math.inf, -math.inf, math.nan])])
    return numbers.to(getattr(torch, dtype))


def ties(dtype: str, count: int, seed: int = 1) -> Any:
    """Return numbers half-way between whole ones, and around the largest that a float has."""
    tied = (torch.arange(-count // 2, count // 2, dtype=torch.float64) + 0.5) * 0.5
    return torch.cat([tied, tied * 2**23, tied * 2**22]).to(getattr(torch, dtype))


def awkward(dtype: str, count: int, seed: int = 1) -> Any:
    """Return floats around ties, steps and the ends of the quantised ranges, and far outside them."""
    spread = torch.randn(count, generator=torch.Generator().manual_seed(7)) * torch.logspace(-8, 5, count)
    tied = (torch.arange(-700, 700, dtype=torch.float32) + 0.5) * 0.25
    ends = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 32767.5, -32768.5, 2.0**24 + 2])
    # Far beyond 2^63 upstream's own cast is undefined; that corner has a test of its own.
    return torch.cat([spread, tied, torch.nextafter(tied, torch.tensor(math.inf)), ends])


def distinct(dtype: str, *sizes: int, seed: int = 1) -> Any:
    count = math.prod(sizes)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(3)) - count // 2
    return order.reshape(sizes).to(getattr(torch, dtype))


def divisor(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return divisors for `values` without 0 and -1: the host traps when the lowest integer is divided by -1.

    There are no quotients beyond 2^53 either, because the host computes those as doubles.
    """
    by, dividend = values(dtype, *sizes, seed=seed), values(dtype, *sizes)
    large = 2**14 - 1 if dtype == "int64" else 5
    return by.where((by != 0) & (by != -1), 3).where(abs(dividend.double()) < 2.0**52, large)


def variance(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return variances: ordinary, huge, tiny, 0, infinite, NaN and (never real) negative."""
    numbers = torch.exp(plain(dtype, *sizes, seed=seed) * 4)
    numbers[:7] = torch.tensor([0.0, 1e-42, 3e38, math.inf, math.nan, -3.0, -1e-6])
    return numbers


def peaks(dtype: str, *sizes: int, seed: int = 1) -> Any:
    """Return ordinary numbers with NaNs, a channel of equal ones, and a row of -inf."""
    numbers = plain(dtype, *sizes, seed=seed)
    numbers[0, 0, 2, ..., 1:3] = math.nan
    numbers[1, 1] = 4.0
    numbers[1, 2, 0] = -math.inf
    return numbers


KINDS: dict[str, Callable[..., Any]] = {
    "": values, "plain": plain, "few": few, "odd": odd, "rare": functools.partial(odd, share=0.03),
    "seldom": functools.partial(odd, share=0.002), "even": functools.partial(odd, share=0.0), "curve": curve,
    "ties": ties, "awkward": awkward, "distinct": distinct, "divisor": divisor, "variance": variance, "peaks": peaks,
    "positive": lambda *what, seed=1: values(*what, seed=seed).abs(),
    "near": lambda *what, seed=1: values(*what, seed=seed).clamp(-9, 9),
    "large": lambda *what, seed=1: values(*what, seed=seed).clamp(-1e30, 1e30),
    "count": lambda *what, seed=1: values(*what, seed=seed).clamp(1, 9),
    "wide": lambda *what, seed=1: plain(*what, seed=seed) * 3 + 1,
    "small": lambda dtype, *sizes, seed=1: values("int16", *sizes, seed=seed).to(getattr(torch, dtype)),
    "bounded": lambda *what, seed=1: curve(*what).clamp(-1e12, 1e12),
    "hundred": lambda *what, seed=1: values(*what, seed=seed) % 100,
    "defined": lambda *what, seed=1: torch.nan_to_num(curve(*what), nan=math.nan),
    "tame": lambda *what, seed=1: curve(*what).clamp(-80, None),
    "steep": lambda *what, seed=1: plain(*what, seed=seed) * 9,
}  # fmt: skip
GRID, THREE = torch.tensor([[0, -1, 1], [2, 2, -3]]), torch.tensor([2, 0, 2])
SLOPES = torch.randn(7, 33, generator=torch.Generator().manual_seed(1)) * 8
SLOPES[3, 5], SLOPES[4, 6], SLOPES[5] = math.nan, -math.inf, 1.0
NAMED = {
    "grid": GRID, "places": GRID.abs(), "column": torch.tensor([[1], [0]], dtype=torch.int32), "three": THREE,
    "three32": THREE.to(torch.int32), "pair": torch.tensor([1, 0]), "slopes": SLOPES, "gentle": SLOPES[:3],
    "scales": torch.tensor([0.1, 3.7e-3, 1.3, 7e-6]).double(), "zeros": torch.zeros(4, dtype=torch.int64),
    "points": torch.tensor([0, -3, 100, 7]), "codes": torch.arange(-128, 128).to(torch.int8),
    "exponents": torch.arange(-15.0, 15.0), "bits": values("uint8", 2, 3, 2).long() % 2,
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where an operand goes among the arguments."""

    number: int


X, Y, Z, V, W = map(Place, range(5))
OWN = object()
Bound = Callable[[Any, "Case"], Any]
"""Of an output of the oracle, and the case: how far each element may be off it."""


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        operator: as it is in the program. A check compares the names, so that no decomposition can put another kernel
            under test.
        by: what it is compared with.
        bound: without one its result must have the oracle's bits.
    """

    operator: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    by: str = HOST
    bound: Bound | None = None


Row = Callable[[], Iterator[Case]]


def row(
    called: str | Callable[..., Any], out: str, types: str, operands: str, *arguments: Any,
    by: str = HOST, bound: Bound | None = None, **named: Any,
) -> Row:  # fmt: skip
    """Return what makes the cases of a row. Of "add sub.Tensor" both are called."""

    def cases() -> Iterator[Case]:
        packets, _, overload = called.rpartition(".") if isinstance(called, str) else ("", "", "")
        for packet in packets.split() or [called]:
            namespace, name = packet.split("::") if "::" in str(packet) else ("aten", packet)
            operator = getattr(getattr(getattr(torch.ops, namespace), name), overload) if packets else called
            full = out if "::" in out else f"{namespace}::{out if '.' in out else f'{name}.{out}'}"
            for dtype, spec in itertools.product(types.split() or [""], operands.split(";")):
                tensors = tuple(operand(text, dtype, seed) for seed, text in enumerate(spec.split("|"), 1) if text)
                call = functools.partial(_call, operator, arguments, named, getattr(torch, dtype, None))
                yield Case(full, call, tensors, by, bound)

    return cases


def operand(text: str, dtype: str, seed: int) -> Any:
    words = text.split()
    if words[0].startswith("@"):
        return NAMED[words[0][1:]]
    if words[0][0].isalpha():
        dtype = words.pop(0)
    sizes = [int(size) for size in words.pop(0).strip("()").split(",") if size]
    is_last = words[-1:] == ["last"]
    made = KINDS["".join(words[: len(words) - is_last])](dtype, *sizes, seed=seed)
    last = torch.channels_last_3d if made.dim() == 5 else torch.channels_last
    return made.to(memory_format=last) if is_last else made


def _call(operator: Any, arguments: tuple[Any, ...], named: dict[str, Any], kind: Any, *tensors: Any) -> Any:
    placed = False

    def filled(argument: Any) -> Any:
        nonlocal placed
        if isinstance(argument, Place):
            placed = True
            return tensors[argument.number]
        if isinstance(argument, list):
            return [filled(item) for item in argument]
        return kind if argument is OWN else argument

    others = [filled(argument) for argument in arguments]
    return operator(*(() if placed else tensors), *others, **{name: filled(value) for name, value in named.items()})


def operators_of(pte: bytes) -> set[str]:
    """The `name.overload` of all kernels that the program calls."""
    (plan,) = Program.parse(pte).plans
    return set(plan.operators)


def export_cases(cases: Sequence[Case]) -> tuple[Exported, Sequence[Any], list[Case]]:
    """Return one program of all cases, the answers that they are compared with, and the case that each belongs to."""
    tensors: list[Any] = []
    for case in cases:
        tensors += [value for value in case.inputs if all(value is not tensor for tensor in tensors)]
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

    (by,) = {case.by for case in cases}
    exported = export(call_all, tuple(tensors), run=by is HOST, preserve=True)
    operators, named = operators_of(exported.pte), {case.operator for case in cases}
    assert operators == named, f"other operators than named: {sorted(operators ^ named)}"
    if by is CONTIGUOUS:
        answers = export(
            call_all, tuple(value.clone(memory_format=torch.contiguous_format) for value in tensors), preserve=True
        ).outputs
    else:
        answers = call_all(*tensors) if by is TORCH else exported.outputs
    return exported, answers, owners


def array_of(tensor: Any) -> Any:
    """Return a tensor as an array; bfloat16, which numpy lacks, as float32."""
    return (tensor.to(torch.float32) if tensor.dtype is torch.bfloat16 else tensor).numpy()


def received(tensor: Tensor, dtype: Any) -> Any:
    """Return what a device sent as an array, with the dimensions in their own order."""
    sent = torch.frombuffer(bytearray(tensor.data) or bytearray(8), dtype=dtype)
    sizes = [tensor.sizes[axis] for axis in tensor.order]
    return array_of(sent[: math.prod(sizes)].reshape(sizes).permute(tuple(np.argsort(tensor.order))))


def check_close(output: Any, expected: Any, allowed: Any, what: str) -> None:
    """Check for equal bits, or a difference within what is allowed. Any NaN equals any other."""
    assert (output.dtype, output.shape) == (expected.dtype, expected.shape), what
    output, expected = np.ascontiguousarray(output), np.ascontiguousarray(expected)
    if output.dtype.kind == "f":
        nan = np.isnan(expected)
        assert np.array_equal(np.isnan(output), nan), what
        if allowed is not None:
            with np.errstate(invalid="ignore"):
                off = np.abs(output.astype(np.float64) - expected.astype(np.float64)) / np.maximum(allowed, 1e-300)
            worst = np.max(np.where(nan | (output == expected), 0, off), initial=0)
            assert worst <= 1, f"{what} is off by {worst:.2f} times what is allowed"
            return
        output, expected = (array[~nan].view(f"i{array.itemsize}") for array in (output, expected))
    assert np.array_equal(output, expected), what


def check_cases(run_program: RunProgram, cases: Sequence[Case]) -> list[Any]:
    """Run all cases in one boot, compare every output with its answer, and return the outputs as arrays."""
    exported, answers, owners = export_cases(cases)
    arrays = []
    for case, tensor, answer in zip(owners, run_program(exported).results(), answers, strict=True):
        what = f"{case.operator} of {[(tuple(i.shape), i.dtype) for i in case.inputs]}"
        assert (tensor.sizes, len(tensor.data)) == (tuple(answer.shape), answer.nbytes), what
        assert case.by is not HOST or tensor.order == tuple(answer.dim_order()), what
        expected = array_of(answer)
        allowed = None if case.bound is None else case.bound(expected, case)
        arrays.append(received(tensor, answer.dtype))
        check_close(arrays[-1], expected, allowed, what)
    return arrays


def check_references(run_program: RunProgram, cases: Sequence[Case]) -> None:
    """Run all cases in one boot, and compare every output with that of the reference, `ethos_hil.lowering.oracle`."""
    exported, _, owners = export_cases(cases)
    artifact = Artifact.of_program(exported.pte, "cases")
    plan = artifact.plan
    inputs = [place.from_bytes(data) for place, data in zip(plan.input_tensors, exported.input_set, strict=True)]
    answers = Reference(artifact).run(inputs).outputs
    for case, sent, place, answer in zip(
        owners, run_program(exported).results(), plan.output_tensors, answers, strict=True
    ):
        check_close(place.from_bytes(sent.data), answer, None, f"{case.operator} of {[i.shape for i in case.inputs]}")
