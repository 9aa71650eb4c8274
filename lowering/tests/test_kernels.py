"""The host's quantise and dequantise equal ExecuTorch's in every bit, also where a value lies next to a tie."""

from __future__ import annotations

import importlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import OracleError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, KernelCall, Tensor, Value, ValueList
from ethos_hil.lowering.oracle import kernels
from ethos_hil.lowering.oracle.cortex_m_kernels import CORTEX_M
from ethos_hil.lowering.oracle.exact_kernels import EXACT, SPLIT
from ethos_hil.lowering.oracle.float_kernels import LAYERS
from ethos_hil.lowering.oracle.kernels import Store, run_kernel
from ethos_hil.lowering.tests.conftest import refusals

COUNT = 3000


def tensor(scalar_type: str, sizes: tuple[int, ...], offset: int, data: bytes | None = None) -> Tensor:
    order = tuple(range(len(sizes)))
    return Tensor(scalar_type, sizes, order, None if data is not None else 0, offset, data)


def make_plan(values: tuple[Value, ...], size: int = 65536) -> ExecutionPlan:
    return ExecutionPlan("forward", values, (), (), (), (), (), (size,))


def near_ties(rng: np.random.Generator, scale: float, zero_point: int) -> np.ndarray:
    """Return values that lie half-way between two codes, and the floats next to these."""
    codes = rng.integers(-140, 140, COUNT)
    values = ((codes - zero_point + 0.5) * scale).astype(np.float32)
    side = rng.integers(-1, 2, COUNT)
    beside = np.nextafter(values, np.where(side > 0, np.inf, -np.inf).astype(np.float32))
    return np.where(side == 0, values, beside).astype(np.float32)


@pytest.mark.slow
def test_quantise_and_dequantise_equal_executorchs_kernels_bit_for_bit() -> None:
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the operators' signatures
    importlib.import_module("executorch.kernels.quantized")  # registers the C++ kernels as out variants
    operators = torch.ops.quantized_decomposed
    rng = np.random.default_rng(7)
    torch_differs = 0
    for _ in range(60):
        scale, zero_point = float(np.exp(rng.uniform(-8, 1))), int(rng.integers(-128, 128))
        values = near_ties(rng, scale, zero_point)
        tensors = [tensor(kind, (COUNT,), at) for kind, at in (("FLOAT", 0), ("CHAR", 12000), ("FLOAT", 15000))]
        plan = make_plan((*tensors, scale, zero_point, -128, 127, 1, None))
        store = Store(plan)
        store.set(0, values)
        run_kernel(KernelCall("quantized_decomposed::quantize_per_tensor.out", (0, 3, 4, 5, 6, 7, 1, 1)), store)
        run_kernel(KernelCall("quantized_decomposed::dequantize_per_tensor.out", (1, 3, 4, 5, 6, 7, 8, 2, 2)), store)
        arguments = (scale, zero_point, -128, 127, torch.int8)
        codes = torch.empty(COUNT, dtype=torch.int8)
        operators.quantize_per_tensor.out(torch.from_numpy(values), *arguments, out=codes)
        back = torch.empty(COUNT)
        operators.dequantize_per_tensor.out(codes, *arguments, out=back)
        assert np.array_equal(store.get(1), codes.numpy())
        assert np.array_equal(store.get(2), back.numpy())
        torch_differs += int((operators.quantize_per_tensor(torch.from_numpy(values), *arguments) != codes).sum())
    assert torch_differs > 0, "torch's own operator agrees too: these values test nothing"


def test_quantise_saturates() -> None:
    values = (tensor("FLOAT", (6,), 0), tensor("CHAR", (6,), 24), 0.5, 10, -128, 127, 1)
    store = Store(make_plan(values, 32))
    store.set(0, np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.26], np.float32))
    run_kernel(KernelCall("quantized_decomposed::quantize_per_tensor.out", (0, 2, 3, 4, 5, 6, 1, 1)), store)
    assert store.get(1).tolist() == [127, -128, -128, 127, -128, 11]


def test_tensors_at_the_same_place_share_memory() -> None:
    values = (tensor("INT", (1, 4), 16), tensor("INT", (2, 2), 16), None)
    store = Store(make_plan(values, 32))
    store.set(0, np.array([[1, 2, 3, 4]], np.int32))
    assert store.get(1).tolist() == [[1, 2], [3, 4]]
    store.move(1, 2)
    assert store.get(2).tolist() == [[1, 2], [3, 4]]


def test_any_operator_of_torch_runs() -> None:
    shape = (2, 3)
    tensors = tensor("FLOAT", shape, 0), tensor("FLOAT", shape, 32), tensor("LONG", shape, 64)
    values = (*tensors, 1, True, ValueList("tensor", (1, 2)), tensor("BOOL", shape, 128), 0)
    store = Store(make_plan(values, 256))
    array = np.array([[3, 1, 2], [5, 6, 4]], np.float32)
    store.set(0, array)
    run_kernel(KernelCall("aten::sort.values", (0, 3, 4, 1, 2, 5)), store)
    assert store.get(1).tolist() == [[3, 2, 1], [6, 5, 4]]
    assert store.get(2).tolist() == [[0, 2, 1], [1, 0, 2]]
    run_kernel(KernelCall("aten::gt.Tensor_out", (0, 1, 6, 6)), store)
    assert store.get(6).tolist() == (array > store.get(1)).tolist()
    assert not store.is_true(6)


def test_an_operator_without_a_host_kernel_or_one_that_fails_is_no_reference(recorded: Recorded) -> None:
    store = Store(make_plan((tensor("FLOAT", (2,), 0),)))
    names = [f"{package}::{name}" for package in ("aten", "nowhere") for name in ("no_such.out", "add.no_overload")]
    calls = [KernelCall(name, (0, 0, 0, 0)) for name in (*names, "aten::mm.out")]
    recorded.check(refusals(*(partial(run_kernel, call, store) for call in calls)))


def test_a_constant_is_never_written() -> None:
    store = Store(make_plan((tensor("CHAR", (2,), 0, b"\x01\x02"),)))
    assert store.get(0).tolist() == [1, 2]
    with pytest.raises(OracleError, match="constant"):
        store.set(0, np.zeros(2, np.int8))


SCALAR_TYPES = {"float32": "FLOAT", "int8": "CHAR", "int32": "INT", "int64": "LONG", "bool": "BOOL"}


def call_of(operator: str, arguments: list[Any], out: np.ndarray | list[np.ndarray]) -> tuple[KernelCall, Store]:
    """A call of `operator` with arrays, numbers and lists, and a store with them; the output is the last value."""
    values: list[Value] = []
    data: list[tuple[int, np.ndarray]] = []

    def add(value: Any) -> int:
        if isinstance(value, np.ndarray):
            at = sum(array.nbytes for _, array in data)
            data.append((len(values), value))
            values.append(tensor(SCALAR_TYPES[str(value.dtype)], value.shape, at))
        elif isinstance(value, list):
            items = tuple(map(add, value))
            values.append(ValueList("tensor" if isinstance(value[0], np.ndarray) else "int", items))
        else:
            values.append(value)
        return len(values) - 1

    indices = [add(argument) for argument in arguments]
    at = add(out)
    store = Store(make_plan(tuple(values)))
    for index, array in data:
        store.set(index, array)
    return KernelCall(operator, (*indices, at, at)), store


def exact_calls() -> list[tuple[str, list[Any], tuple[int, ...], str]]:
    """Operator, arguments, shape and type of the output."""
    rng = np.random.default_rng(5)
    floats = rng.choice(np.array([0.0, -0.0, 1.5, -2, np.inf, np.nan], np.float32), (4, 3, 5))
    ints, bools = rng.integers(-3, 4, (4, 3, 5)).astype(np.int32), rng.integers(0, 2, (4, 3, 5)).astype(bool)
    calls: list[tuple[str, list[Any], tuple[int, ...], str]] = []
    for name in EXACT:
        short, scalar = name.removeprefix("aten::").partition(".")[0], name.endswith("Scalar_out")
        bitwise, lone = short.startswith("bitwise"), short.endswith("not")
        if short in ("add", "sub", "mul", "div"):
            other = 1.7 if scalar else floats[::-1, :, :1].copy()
            calls.append((name, [floats, other, *([1] if short in ("add", "sub") else [])], (4, 3, 5), "float32"))
        elif short in ("relu", "neg", "abs"):
            calls.append((name, [floats], (4, 3, 5), "float32"))
        elif bitwise or short.startswith("logical") or short in ("eq", "ne", "lt", "le", "gt", "ge"):
            for x in (floats,) if scalar else (ints, bools) if bitwise or lone else (floats, ints, bools):
                others: list[list[Any]] = [[1.5], [0], [-2]] if scalar else [[]] if lone else [[x[:, :1, ::-1].copy()]]
                calls += [(name, [x, *other], (4, 3, 5), str(x.dtype) if bitwise else "bool") for other in others]
    rows, columns = np.array([2, 0, 3], np.int64), np.array([1, 4, 4], np.int32)
    places, words = rng.integers(0, 3, (2, 6, 5)), np.array([[0, 2], [1, 1]], np.int64)
    calls += [
        ("aten::view_copy.out", [floats, [3, 20]], (3, 20), "float32"),
        ("aten::clone.out", [bools, None], (4, 3, 5), "bool"),
        ("aten::alias_copy.out", [ints], (4, 3, 5), "int32"),
        ("aten::detach_copy.out", [ints], (4, 3, 5), "int32"),
        ("aten::squeeze_copy.dim_out", [floats[:, :1].copy(), 1], (4, 5), "float32"),
        ("aten::squeeze_copy.dims_out", [floats[:1, :1].copy(), [0, 1]], (5,), "float32"),
        ("aten::unsqueeze_copy.out", [floats, -1], (4, 3, 5, 1), "float32"),
        ("aten::permute_copy.out", [floats, [2, 0, -2]], (5, 4, 3), "float32"),
        ("aten::transpose_copy.int_out", [ints, -1, 0], (5, 3, 4), "int32"),
        ("aten::expand_copy.out", [floats[:, :1].copy(), [2, -1, 3, 5], False], (2, 4, 3, 5), "float32"),
        ("aten::slice_copy.Tensor_out", [floats, -1, -4, 9, 2], (4, 3, 2), "float32"),
        ("aten::slice_copy.Tensor_out", [floats, 0, None, -1, 1], (3, 3, 5), "float32"),
        ("aten::select_copy.int_out", [bools, 1, -1], (4, 5), "bool"),
        ("aten::repeat.out", [ints, [2, 1, 1, 3]], (2, 4, 3, 15), "int32"),
        ("aten::cat.out", [[floats, floats[:, :2].copy()], -2], (4, 5, 5), "float32"),
        ("aten::cat.out", [[floats, np.zeros(0, np.float32)], 0], (4, 3, 5), "float32"),
        ("aten::constant_pad_nd.out", [floats, [1, 2, 0, 3], -1.5], (4, 6, 8), "float32"),
        ("aten::where.self_out", [bools, floats, floats[:1]], (4, 3, 5), "float32"),
        ("aten::flip.out", [floats, [0, -1]], (4, 3, 5), "float32"),
        ("aten::any.out", [floats, -2, False], (4, 5), "bool"),
        ("aten::any.out", [bools, 0, True], (1, 3, 5), "bool"),
        ("aten::any.dims_out", [ints, [0, 2], False], (3,), "bool"),
        ("aten::any.all_out", [bools & False], (), "bool"),
        ("aten::index_select.out", [floats, -1, columns], (4, 3, 3), "float32"),
        ("aten::embedding.out", [floats[0], words, -1, False, False], (2, 2, 5), "float32"),
        ("aten::gather.out", [ints, 1, places, False], (2, 6, 5), "int32"),
        ("aten::index.Tensor_out", [floats, [rows, rows - 2]], (3, 5), "float32"),
    ]  # fmt: skip
    return calls


def assert_alike(operator: str, arguments: list[Any], out: np.ndarray | list[np.ndarray]) -> None:
    answers = []
    for run in (kernels._run_exact, kernels._torch_kernel):
        instruction, store = call_of(operator, arguments, out)
        assert run(instruction, store) in (True, None)
        answers.append([store.get(index).tobytes() for index in store.outputs(instruction.args[-1])])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("call", exact_calls(), ids=lambda call: call[0])
def test_what_numpy_computes_equals_torch_bit_for_bit(call: tuple[str, list[Any], tuple[int, ...], str]) -> None:
    operator, arguments, shape, dtype = call
    assert_alike(operator, arguments, np.zeros(shape, dtype))


def test_every_operator_that_numpy_computes_is_compared_and_what_it_splits_equals_torch_too() -> None:
    assert {call[0] for call in exact_calls()} == EXACT.keys()
    floats = np.random.default_rng(6).standard_normal((4, 3, 5)).astype(np.float32)
    assert_alike(SPLIT, [floats, [1, 3, 1], -1], [np.zeros((4, 3, width), np.float32) for width in (1, 3, 1)])


@pytest.mark.parametrize(
    ("operator", "arguments", "dtype"),
    [
        ("aten::eq.Tensor_out", [np.array([1.5], np.float32), np.array([1], np.int32)], "bool"),
        ("aten::add.out", [np.ones(1, np.float32), np.ones(1, np.float32), 2], "float32"),
        ("aten::mul.Scalar_out", [np.ones(1, np.int32), 2], "int32"),
        ("aten::constant_pad_nd.out", [np.ones(2, np.float32), [0, -1], 0.0], "float32"),
        ("aten::index_select.out", [np.ones(3, np.float32), 0, np.array([-1], np.int64)], "float32"),
        ("aten::embedding.out", [np.ones((3, 1), np.float32), np.array([3], np.int64), -1, False, False], "float32"),
        ("aten::gather.out", [np.ones(3, np.float32), 0, np.array([3], np.int64), False], "float32"),
        ("aten::index.Tensor_out", [np.ones(1, np.float32), [np.array([True])]], "float32"),
    ],
)
def test_what_is_not_as_simple_is_left_to_torch(operator: str, arguments: list[Any], dtype: str) -> None:
    assert not kernels._run_exact(*call_of(operator, arguments, np.zeros(1, dtype)))


def test_what_only_executorch_registers_is_written_out() -> None:
    """A program from the cache is verified in a process that never imported ExecuTorch."""
    table = (Path(__file__).resolve().parents[2] / "firmware/runtime/operators.cc").read_text("utf-8")
    names = {f"{name}.{overload}" for name, overload in re.findall(r'\{"([a-z_]+::\w+)", "(\w+)",', table)}
    others = {name for name in names if not name.startswith("aten::")}
    assert {"dim_order_ops::_clone_dim_order.out", "quantized_decomposed::quantize_per_tensor.out"} <= others
    assert others <= kernels._KERNELS.keys() | LAYERS.keys() | CORTEX_M.keys()
