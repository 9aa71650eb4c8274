"""Kernels that move elements, fill and pick them give the bits that ExecuTorch's own host runtime gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kernel_cases import REAL, Case, Cases, check_cases, operators_of, values
from plain_qemu import RunProgram
from programs import export, raw

from ethos_hil.harness.image.formats import ErrorKind

TYPES = ("bool", *REAL)


def of_types(*sizes: int) -> list[tuple[Any]]:
    return [(values(dtype, *sizes),) for dtype in TYPES]


def rearrangements() -> Cases:
    cube, number = [(values("float32", 3, 4, 5),)], [(values("int64"),)]
    cases = Cases()
    cases.add("permute_copy.out", "permute.default", of_types(2, 3, 5), [2, 0, 1])
    cases.add("permute_copy.out", "permute.default", [(values("int8", 2, 3, 1, 4, 5, 2),)], [5, -2, 0, 3, 1, 2])
    cases.add("permute_copy.out", "permute.default", number, [])
    cases.add("transpose_copy.int_out", "transpose_copy.int", [*cube, *of_types(4, 3, 2)[:3]], 0, -1)
    cases.add("t_copy.out", "t_copy.default", of_types(3, 7)[4:8])
    cases.add("expand_copy.out", "expand.default", of_types(3, 1)[:5], [2, 3, 4])
    cases.add("expand_copy.out", "expand.default", number, [2, 2])
    cases.add("expand_copy.out", "expand.default", [(values("int16", 1, 5, 1),)], [-1, -1, 6])
    for start, end, step in ((1, 4, 1), (None, -2, 1), (-3, None, 2), (0, 2**63 - 1, 3), (4, 2, 1), (-99, 99, 5)):
        cases.add("slice_copy.Tensor_out", "slice_copy.Tensor", cube, -1, start, end, step)
        cases.add("slice_copy.Tensor_out", "slice_copy.Tensor", of_types(7)[:6], 0, start, end, step)
    cases.add("narrow_copy.out", "narrow_copy.default", cube, 1, 1, 2)
    cases.add("select_copy.int_out", "select_copy.int", [*cube, *of_types(3, 2, 2)], 0, -1)
    cases.add("select_copy.int_out", "select_copy.int", [(values("uint8", 3),)], 0, 2)
    cases.add("flip.out", "flip.default", [*cube, *of_types(2, 3, 3)], [0, -1])
    cases.add("repeat.out", "repeat.default", [*cube, *of_types(2, 1, 3)], [2, 1, 3])
    cases.add("repeat.out", "repeat.default", [(values("int32", 2, 3),)], [2, 1, 3])
    cases.add("unfold_copy.out", "unfold_copy.default", cube, 2, 3, 2)
    cases.add("unfold_copy.out", "unfold_copy.default", [(values("int8", 9),)], 0, 4, 1)
    cases.add("as_strided_copy.out", "as_strided_copy.default", [*cube, *of_types(60)], [3, 2, 4], [1, 7, 3], 5)
    cases.add("pixel_shuffle.out", "pixel_shuffle.default", [(values("float32", 2, 12, 3, 2),)], 2)
    cases.add("pixel_unshuffle.out", "pixel_unshuffle.default", [(values("float32", 2, 3, 6, 4),)], 2)
    cases.add("constant_pad_nd.out", "constant_pad_nd.default", of_types(2, 3, 4)[1:], [1, 2, 0, 3], 3)
    cases.add("constant_pad_nd.out", "constant_pad_nd.default", cube, [1, 2, 1, 0, 2, 0], -0.5)
    cases.add("select_scatter.out", "select_scatter.default", [(values("int8", 3, 4), values("int8", 3))], 1, -2)
    pair = [(values("float32", 5, 3), values("float32", 2, 3, seed=2))]
    cases.add("slice_scatter.out", "slice_scatter.default", pair, 0, 1, -1, 2)
    return cases


def copies() -> Cases:
    cases = Cases()
    for name in ("alias", "detach"):
        cases.add("out", f"{name}_copy.default", of_types(2, 3))
    cases.add("out", "copy.default", [(values("int8", 2, 3), values("int8", 3, seed=2))])
    cases.add("squeeze_copy.dim_out", "squeeze_copy.dim", [(values("float32", 2, 1, 3),), (values("int64", 2, 3),)], 1)
    return cases


def joins_and_splits() -> Cases:
    import torch

    def cat(*tensors: Any) -> Any:
        return torch.ops.aten.cat.default(list(tensors), -2)

    cases = Cases()
    for dtype in TYPES:
        parts = (values(dtype, 2, 3, 4), values(dtype, 2, 1, 4, seed=2), values(dtype, 2, 5, 4, seed=3))
        cases.append(Case("aten::cat.out", cat, parts))
    mixed = (values("int32", 5), values("int64", 6))
    cases.append(Case("aten::cat.out", lambda a, b: torch.ops.aten.cat.default([a, b]), mixed))
    empty = (values("float32", 0), values("float32", 3, 2))
    cases.append(Case("aten::cat.out", lambda a, b: torch.ops.aten.cat.default([a, b], 0), empty))
    two = (values("int32", 2, 3), values("int32", 2, 3, seed=2))
    for dimension in (0, 1, -1):
        cases.append(Case("aten::stack.out", lambda a, b, d=dimension: torch.ops.aten.stack.default([a, b], d), two))
    cases.add("split_copy.Tensor_out", "split_copy.Tensor", [(values("float32", 7, 3),)], 3, 0)
    cases.add("split_with_sizes_copy.out", "split_with_sizes_copy.default", [(values("int8", 2, 9),)], [4, 0, 5], -1)
    cases.add("unbind_copy.int_out", "unbind_copy.int", [(values("int64", 2, 3, 2),)], 1)
    return cases


def conversions() -> Cases:
    """Return conversions of every type to every type.

    Values beyond the range of an integer type are left out: upstream's result is undefined.
    """
    import torch

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
            cases.append(Case("dim_order_ops::_to_dim_order_copy.out", lambda x, kind=kind: x.to(kind), (numbers,)))
    image = values("int64", 2, 3, 4, 5) % 1000
    last = {"memory_format": torch.channels_last}
    for kind in (torch.int32, torch.float32, torch.int8):
        cases.append(
            Case("dim_order_ops::_to_dim_order_copy.out", lambda x, kind=kind: x.to(kind).to(**last), (image,))
        )
    return cases


def fillings() -> Cases:
    import torch

    aten = torch.ops.aten

    def new_case(operator: str, call: Any) -> Case:
        # A program needs an input; the sum keeps the constant from being folded.
        return Case(operator, call, (values("float32", 3),))

    cases = Cases()
    for dtype in TYPES:
        kind = getattr(torch, dtype)
        cases.append(new_case("aten::full.out", lambda x, kind=kind: aten.full.default([2, 3], 1, dtype=kind)))
        cases.add("full_like.out", "full_like.default", [(values(dtype, 3, 2),)], 1)
        cases.add("fill.Scalar_out", "fill.Scalar", [(values(dtype, 3, 2),)], 0)
    cases.append(new_case("aten::scalar_tensor.out", lambda x: aten.scalar_tensor.default(2.7, dtype=torch.int32)))
    cases.append(new_case("aten::scalar_tensor.out", lambda x: aten.scalar_tensor.default(-7, dtype=torch.float16)))
    cases.append(new_case("aten::full.out", lambda x: aten.full.default([], float("-inf"))))
    cases.append(new_case("aten::zeros.out", lambda x: aten.zeros.default([4, 0, 2])))
    cases.append(new_case("aten::zeros.out", lambda x: aten.zeros.default([4, 2], dtype=torch.int8)))
    cases.append(new_case("aten::ones.out", lambda x: aten.ones.default([3], dtype=torch.bool)))
    cases.append(new_case("aten::arange.out", lambda x: aten.arange.default(7)))
    cases.append(new_case("aten::arange.start_out", lambda x: aten.arange.start_step(-3, 20, 4)))
    cases.append(new_case("aten::arange.start_out", lambda x: aten.arange.start_step(1.5, -2.0, -0.3)))
    return cases


def picks() -> Cases:
    import torch

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
            cases.append(Case("aten::index_put.out", put(0, add=add), inputs))
        cases.append(Case("aten::index_select.out", select(1), (values(dtype, 2, 3, 4), three)))
        cases.add("embedding.out", "embedding.default", [(values(dtype, 5, 7), grid.abs())])
        cases.append(Case("aten::index.Tensor_out", index(None, 0), (values(dtype, 2, 3, 4), grid)))
    cases.append(Case("aten::index_select.out", select(0), (values("float32", 6), three.to(torch.int32))))
    cases.append(Case("aten::index.Tensor_out", index(0), (values("float32", 4, 3), three)))
    cases.append(Case("aten::index.Tensor_out", index(0, 1), (values("int8", 3, 3, 4), grid, column)))
    cases.append(Case("aten::index.Tensor_out", index(0, None, 1), (values("int64", 3, 2, 3, 5), grid, column)))
    cases.append(Case("aten::index.Tensor_out", index(None, 0, 1), (values("float32", 2, 3, 3, 2), grid, three)))
    put_case = partial(Case, "aten::index_put.out")
    cases.append(put_case(put(None, 0), (values("int8", 2, 3, 4), values("int8", 2, 2, 3, 4, seed=2), grid)))
    cases.append(put_case(put(0, 1, add=True), (values("float32", 3, 3, 4), values("float32", 4), grid, column)))
    cases.append(put_case(put(0, None, 1), (values("int64", 3, 2, 3, 5), values("int64", 2, 3, 2, 1), grid, column)))
    cases.append(put_case(put(None, 0, 1), (values("float32", 2, 3, 3, 2), values("float32", 2, 3, 2), grid, three)))
    cases.append(put_case(put(0), (values("float32", 4, 3), values("float32", 1), three.to(torch.int32))))
    indices = torch.randint(0, 2, (2, 3, 2))
    for dtype, dimension in (("float32", 0), ("int16", -1)):
        pair = (values(dtype, 2, 4, 3), indices)
        cases.append(Case("aten::gather.out", lambda x, at, d=dimension: aten.gather.default(x, d, at), pair))
    for dtype in ("int8", "float32", "float16", "bool"):
        cases.add("masked_fill.Scalar_out", "masked_fill.Scalar", [(values(dtype, 3, 4), values("bool", 4))], 1)
    return cases


def test_layouts_that_the_host_refuses_or_mistakes_equal_torch(run_program: RunProgram) -> None:
    import torch

    class Layouts(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            aten = torch.ops.aten
            return (
                aten.slice_copy.Tensor(a, 1, 1, 3, 1),
                aten.cat.default([a, b], 1),
                aten.select_copy.int(a, 2, 1),
                aten.constant_pad_nd.default(a, [1, 2], 0.5),
                aten.index_select.default(a, 3, torch.tensor([1, 0])),
            )

    inputs = tuple(values("float32", 2, 3, 4, 5, seed=s).to(memory_format=torch.channels_last) for s in (1, 2))
    exported = export(Layouts(), inputs, run=False)
    tensors = run_program(exported.pte, [exported.input_set]).tensors()
    for tensor, expected in zip(tensors, Layouts()(*inputs), strict=True):
        order = tensor.info["dim_order"][: tensor.info["rank"]]
        assert tensor.data == expected.permute(tuple(order)).contiguous().numpy().tobytes()


def test_copies_without_dim_orders_equal_the_host(run_program: RunProgram) -> None:
    import torch

    class Copies(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.clone(), x.to(torch.int16), x.to(torch.float64)

    exported = export(Copies(), (values("int32", 3, 5),), dim_orders=False)
    assert operators_of(exported.pte) == {"aten::clone.out", "aten::_to_copy.out"}
    tensors = run_program(exported.pte, [exported.input_set]).tensors()
    assert [tensor.data for tensor in tensors] == [raw(output) for output in exported.outputs]


@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_an_index_outside_is_refused(run_program: RunProgram, index: int) -> None:
    import torch

    class Pick(torch.nn.Module):
        def forward(self, x: Any, at: Any) -> Any:
            return torch.ops.aten.index_select.default(x, 0, at)

    exported = export(Pick(), (values("float32", 3, 2), torch.tensor([0, index])), run=False)
    kind, text = run_program(exported.pte, [exported.input_set]).error()
    assert kind is ErrorKind.KERNEL
    assert text == f"instruction 0, aten::index_select: index {index} in a dimension of 3"


GROUPS = (
    copies,
    rearrangements,
    joins_and_splits,
    conversions,
    fillings,
    picks,
)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
