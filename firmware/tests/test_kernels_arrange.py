"""Kernels that move elements, fill and pick them give the bits that ExecuTorch's own host runtime gives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_cases import REAL, Cases, check_cases, operators_of, values
from plain_qemu import RunProgram
from programs import export, raw

from ethos_hil.harness.image.formats import ErrorKind

TYPES = ("bool", *REAL)
CONVERT = "dim_order_ops::_to_dim_order_copy.out"


def of_types(*sizes: int) -> list[tuple[Any]]:
    return [(values(dtype, *sizes),) for dtype in TYPES]


def rearrangements() -> Cases:
    cube, number = [(values("float32", 3, 4, 5),)], [(values("int64"),)]
    cases = Cases()
    cases.add("permute_copy.out", "permute.default", of_types(2, 3, 5), [2, 0, 1])
    cases.add("permute_copy.out", "permute.default", [(values("int8", 2, 3, 1, 4, 5, 2),)], [5, -2, 0, 3, 1, 2])
    cases.add("permute_copy.out", "permute.default", number, [])
    cases.add("transpose_copy.int_out", "transpose_copy.int", [*cube, *of_types(4, 3, 2)[:3]], 0, -1)
    cases.add("expand_copy.out", "expand.default", of_types(3, 1)[:5], [2, 3, 4])
    cases.add("expand_copy.out", "expand.default", number, [2, 2])
    cases.add("expand_copy.out", "expand.default", [(values("int16", 1, 5, 1),)], [-1, -1, 6])
    for start, end, step in ((1, 4, 1), (None, -2, 1), (-3, None, 2), (0, 2**63 - 1, 3), (4, 2, 1), (-99, 99, 5)):
        cases.add("slice_copy.Tensor_out", "slice_copy.Tensor", cube, -1, start, end, step)
        cases.add("slice_copy.Tensor_out", "slice_copy.Tensor", of_types(7)[:6], 0, start, end, step)
    cases.add("select_copy.int_out", "select_copy.int", [*cube, *of_types(3, 2, 2)], 0, -1)
    cases.add("select_copy.int_out", "select_copy.int", [(values("uint8", 3),)], 0, 2)
    cases.add("flip.out", "flip.default", [*cube, *of_types(2, 3, 3)], [0, -1])
    cases.add("repeat.out", "repeat.default", [*cube, *of_types(2, 1, 3)], [2, 1, 3])
    cases.add("repeat.out", "repeat.default", [(values("int32", 2, 3),)], [2, 1, 3])
    cases.add("unfold_copy.out", "unfold_copy.default", cube, 2, 3, 2)
    cases.add("unfold_copy.out", "unfold_copy.default", [(values("int8", 9),)], 0, 4, 1)
    cases.add("as_strided_copy.out", "as_strided_copy.default", [*cube, *of_types(60)], [3, 2, 4], [1, 7, 3], 5)
    cases.add("roll.out", "roll.default", of_types(3, 4, 5), [2, -1], [0, 2])
    cases.add("roll.out", "roll.default", cube, [0, 9], [1, 1])
    cases.add("constant_pad_nd.out", "constant_pad_nd.default", of_types(2, 3, 4)[1:], [1, 2, 0, 3], 3)
    cases.add("constant_pad_nd.out", "constant_pad_nd.default", cube, [1, 2, 1, 0, 2, 0], -0.5)
    return cases


def copies() -> Cases:
    cases = Cases()
    for name in ("alias", "detach"):
        cases.add("out", f"{name}_copy.default", of_types(2, 3))
    cases.add("out", "copy.default", [(values("int8", 2, 3), values("int8", 3, seed=2))])
    cases.add("squeeze_copy.dim_out", "squeeze_copy.dim", [(values("float32", 2, 1, 3),), (values("int64", 2, 3),)], 1)
    return cases


def joins_and_splits() -> Cases:
    aten = torch.ops.aten
    cases = Cases()
    for dtype in TYPES:
        parts = (values(dtype, 2, 3, 4), values(dtype, 2, 1, 4, seed=2), values(dtype, 2, 5, 4, seed=3))
        cases.call("cat.out", lambda *tensors: aten.cat.default(list(tensors), -2), *parts)
    cases.call("cat.out", lambda a, b: aten.cat.default([a, b]), values("int32", 5), values("int64", 6))
    cases.call("cat.out", lambda a, b: aten.cat.default([a, b], 0), values("float32", 0), values("float32", 3, 2))
    cases.add("split_with_sizes_copy.out", "split_with_sizes_copy.default", [(values("int8", 2, 9),)], [4, 0, 5], -1)
    return cases


def conversions() -> Cases:
    """Return conversions of every type to every type.

    Values beyond the range of an integer type are left out: upstream's result is undefined.
    """
    cases = Cases()
    for source in TYPES:
        for target in TYPES:
            if source == target:
                continue
            numbers = values(source, 41)
            kind = getattr(torch, target)
            if source in TYPES[6:] and target not in TYPES[6:]:
                low, high = (0, 1) if target == "bool" else (torch.iinfo(kind).min, torch.iinfo(kind).max)
                numbers = torch.nan_to_num(numbers, 0.0).double().clamp(max(low, -3e4), min(high, 3e4))
                numbers = numbers.to(getattr(torch, source))
            cases.call(CONVERT, lambda x, kind=kind: x.to(kind), numbers)
    image = values("int64", 2, 3, 4, 5) % 1000
    last = {"memory_format": torch.channels_last}
    for kind in (torch.int32, torch.float32, torch.int8):
        cases.call(CONVERT, lambda x, kind=kind: x.to(kind).to(**last), image)
    return cases


def conversions_by_channel() -> Cases:
    operator = torch.ops.quantized_decomposed.dequantize_per_channel
    cases = Cases()
    scales = torch.tensor([0.1, 3.7e-3, 1.3, 7e-6], dtype=torch.float64)
    zeros, none = torch.tensor([0, -3, 100, 7]), torch.zeros(4, dtype=torch.int64)
    limits = {"int8": (-127, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
    for dtype, (low, high) in limits.items():
        kind = getattr(torch, dtype)
        for axis, sizes in ((0, (4, 3, 5)), (1, (2, 4, 3, 3)), (-1, (3, 4)), (0, (4,))):
            codes = values(dtype, *sizes) if dtype != "int32" else values("int16", *sizes).to(kind)
            points = zeros if low < 0 and dtype != "int32" else none
            call = functools.partial(_call, operator, axis, low, high, kind)
            cases.call("quantized_decomposed::dequantize_per_channel.out", call, codes, scales, points)
    return cases


def _call(operator: Any, axis: int, low: int, high: int, kind: Any, *tensors: Any) -> Any:
    return operator(*tensors, axis, low, high, kind)


def fillings() -> Cases:
    aten = torch.ops.aten

    # A program needs an input; each call ignores it.
    x = values("float32", 3)
    cases = Cases()
    for dtype in TYPES:
        kind = getattr(torch, dtype)
        cases.call("full.out", lambda x, kind=kind: aten.full.default([2, 3], 1, dtype=kind), x)
        cases.add("full_like.out", "full_like.default", [(values(dtype, 3, 2),)], 1)
        cases.add("fill.Scalar_out", "fill.Scalar", [(values(dtype, 3, 2),)], 0)
    cases.call("scalar_tensor.out", lambda x: aten.scalar_tensor.default(2.7, dtype=torch.int32), x)
    cases.call("scalar_tensor.out", lambda x: aten.scalar_tensor.default(-7, dtype=torch.float16), x)
    cases.call("full.out", lambda x: aten.full.default([], float("-inf")), x)
    cases.call("zeros.out", lambda x: aten.zeros.default([4, 0, 2]), x)
    cases.call("zeros.out", lambda x: aten.zeros.default([4, 2], dtype=torch.int8), x)
    cases.call("ones.out", lambda x: aten.ones.default([3], dtype=torch.bool), x)
    cases.call("arange.out", lambda x: aten.arange.default(7), x)
    cases.call("arange.start_out", lambda x: aten.arange.start_step(-3, 20, 4), x)
    cases.call("arange.start_out", lambda x: aten.arange.start_step(1.5, -2.0, -0.3), x)
    return cases


def picks() -> Cases:
    aten = torch.ops.aten
    three = torch.tensor([2, 0, 2])
    grid = torch.tensor([[0, -1, 1], [2, 2, -3]])
    column = torch.tensor([[1], [0]], dtype=torch.int32)

    def select(dimension: int) -> Any:
        return lambda x, at: aten.index_select.default(x, dimension, at)

    def index(*places: int | None) -> Any:
        return lambda x, *picks: aten.index.Tensor(x, [None if place is None else picks[place] for place in places])

    def put(*places: int | None, add: bool = False) -> Any:
        return lambda x, values, *picks: aten.index_put.default(
            x, [None if place is None else picks[place] for place in places], values, add
        )

    cases = Cases()
    for dtype in TYPES:
        for add in (False, True):
            inputs = (values(dtype, 3, 4, 2), values(dtype, 3, 1, 2, seed=2), three)
            cases.call("index_put.out", put(0, add=add), *inputs)
        cases.call("index_select.out", select(1), values(dtype, 2, 3, 4), three)
        cases.add("embedding.out", "embedding.default", [(values(dtype, 5, 7), grid.abs())])
        cases.call("index.Tensor_out", index(None, 0), values(dtype, 2, 3, 4), grid)
    cases.call("index_select.out", select(0), values("float32", 6), three.to(torch.int32))
    cases.call("index.Tensor_out", index(0), values("float32", 4, 3), three)
    cases.call("index.Tensor_out", index(0, 1), values("int8", 3, 3, 4), grid, column)
    cases.call("index.Tensor_out", index(0, None, 1), values("int64", 3, 2, 3, 5), grid, column)
    cases.call("index.Tensor_out", index(None, 0, 1), values("float32", 2, 3, 3, 2), grid, three)
    cases.call("index_put.out", put(None, 0), values("int8", 2, 3, 4), values("int8", 2, 2, 3, 4, seed=2), grid)
    cases.call("index_put.out", put(0, 1, add=True), values("float32", 3, 3, 4), values("float32", 4), grid, column)
    cases.call("index_put.out", put(0, None, 1), values("int64", 3, 2, 3, 5), values("int64", 2, 3, 2, 1), grid, column)
    cases.call("index_put.out", put(None, 0, 1), values("float32", 2, 3, 3, 2), values("float32", 2, 3, 2), grid, three)
    cases.call("index_put.out", put(0), values("float32", 4, 3), values("float32", 1), three.to(torch.int32))
    indices = torch.randint(0, 2, (2, 3, 2))
    for dtype, dimension in (("float32", 0), ("int16", -1)):
        pair = (values(dtype, 2, 4, 3), indices)
        cases.call("gather.out", lambda x, at, d=dimension: aten.gather.default(x, d, at), *pair)
    return cases


def test_layouts_that_the_host_refuses_or_mistakes_equal_torch(run_program: RunProgram) -> None:
    def layouts(a: Any, b: Any) -> Any:
        aten = torch.ops.aten
        return (
            aten.slice_copy.Tensor(a, 1, 1, 3, 1),
            aten.cat.default([a, b], 1),
            aten.select_copy.int(a, 2, 1),
            aten.constant_pad_nd.default(a, [1, 2], 0.5),
            aten.index_select.default(a, 3, torch.tensor([1, 0])),
        )

    inputs = tuple(values("float32", 2, 3, 4, 5, seed=s).to(memory_format=torch.channels_last) for s in (1, 2))
    exported = export(layouts, inputs, run=False)
    for tensor, expected in zip(run_program(exported).tensors(), layouts(*inputs), strict=True):
        assert tensor.array.tobytes() == expected.contiguous().numpy().tobytes()


def test_copies_without_dim_orders_equal_the_host(run_program: RunProgram) -> None:
    exported = export(
        lambda x: (x.clone(), x.to(torch.int16), x.to(torch.float64)), (values("int32", 3, 5),), dim_orders=False
    )
    assert operators_of(exported.pte) == {"aten::clone.out", "aten::_to_copy.out"}
    tensors = run_program(exported).tensors()
    assert [tensor.data for tensor in tensors] == [raw(output) for output in exported.outputs]


@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_an_index_outside_is_refused(run_program: RunProgram, index: int) -> None:
    exported = export(
        lambda x, at: torch.ops.aten.index_select.default(x, 0, at),
        (values("float32", 3, 2), torch.tensor([0, index])),
        run=False,
    )
    text = run_program(exported).check_error(ErrorKind.KERNEL)
    assert text == f"instruction 0, aten::index_select: index {index} in a dimension of 3"


GROUPS = (
    copies,
    rearrangements,
    joins_and_splits,
    conversions,
    conversions_by_channel,
    fillings,
    picks,
)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
