"""The host's quantise and dequantise are ExecuTorch's, bit for bit, where roundings are decided by a hair."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from lowering.errors import OracleError
from lowering.kernels import Store, run_kernel
from lowering.plan import KernelCall, Plan, Tensor, Value, ValueList

COUNT = 3000


def tensor(scalar_type: str, code: int, sizes: tuple[int, ...], offset: int, data: bytes | None = None) -> Tensor:
    order = tuple(range(len(sizes)))
    return Tensor(scalar_type, code, sizes, order, None if data is not None else 0, offset, data)


def make_plan(values: tuple[Value, ...], size: int = 65536) -> Plan:
    return Plan("forward", values, (), (), (), (), (), (size,))


def near_ties(rng: np.random.Generator, scale: float, zero_point: int) -> np.ndarray:
    """Values half a step between two codes, or one float next to that."""
    codes = rng.integers(-140, 140, COUNT)
    values = ((codes - zero_point + 0.5) * scale).astype(np.float32)
    side = rng.integers(-1, 2, COUNT)
    return np.where(
        side == 0, values, np.nextafter(values, np.where(side > 0, np.inf, -np.inf).astype(np.float32))
    ).astype(np.float32)


@pytest.mark.slow
def test_quantise_and_dequantise_equal_executorchs_kernels_bit_for_bit() -> None:
    import torch

    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the operators' signatures
    importlib.import_module("executorch.kernels.quantized")  # registers the C++ kernels as out variants
    operators = torch.ops.quantized_decomposed
    rng = np.random.default_rng(7)
    torch_differs = 0
    for _ in range(60):
        scale, zero_point = float(np.exp(rng.uniform(-8, 1))), int(rng.integers(-128, 128))
        values = near_ties(rng, scale, zero_point)
        tensors = (
            tensor("FLOAT", 6, (COUNT,), 0),
            tensor("CHAR", 1, (COUNT,), 12000),
            tensor("FLOAT", 6, (COUNT,), 15000),
        )
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
    values = (tensor("FLOAT", 6, (6,), 0), tensor("CHAR", 1, (6,), 24), 0.5, 10, -128, 127, 1)
    store = Store(make_plan(values, 32))
    store.set(0, np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.26], np.float32))
    run_kernel(KernelCall("quantized_decomposed::quantize_per_tensor.out", (0, 2, 3, 4, 5, 6, 1, 1)), store)
    assert store.get(1).tolist() == [127, -128, -128, 127, -128, 11]


def test_tensors_at_the_same_place_share_memory() -> None:
    values = (tensor("INT", 3, (1, 4), 16), tensor("INT", 3, (2, 2), 16), None)
    store = Store(make_plan(values, 32))
    store.set(0, np.array([[1, 2, 3, 4]], np.int32))
    assert store.get(1).tolist() == [[1, 2], [3, 4]]
    store.move(1, 2)
    assert store.get(2).tolist() == [[1, 2], [3, 4]]


def test_any_operator_of_torch_runs() -> None:
    values = (
        tensor("FLOAT", 6, (2, 3), 0), tensor("FLOAT", 6, (2, 3), 32), tensor("LONG", 4, (2, 3), 64), 1, True,
        ValueList("tensor", (1, 2)), tensor("BOOL", 11, (2, 3), 128), 0,
    )  # fmt: skip
    store = Store(make_plan(values, 256))
    array = np.array([[3, 1, 2], [5, 6, 4]], np.float32)
    store.set(0, array)
    run_kernel(KernelCall("aten::sort.values", (0, 3, 4, 1, 2, 5)), store)
    assert store.get(1).tolist() == [[3, 2, 1], [6, 5, 4]]
    assert store.get(2).tolist() == [[0, 2, 1], [1, 0, 2]]
    run_kernel(KernelCall("aten::gt.Tensor_out", (0, 1, 6, 6)), store)
    assert store.get(6).tolist() == (array > store.get(1)).tolist()
    assert not store.is_true(6)


@pytest.mark.parametrize("operator", ["aten::no_such_operator.out", "nowhere::add.out", "aten::add.no_overload"])
def test_an_operator_without_a_host_kernel_is_no_reference(operator: str) -> None:
    store = Store(make_plan((tensor("FLOAT", 6, (2,), 0),)))
    with pytest.raises(OracleError, match="has no host implementation") as caught:
        run_kernel(KernelCall(operator, (0, 0)), store)
    assert caught.value.kind == "no-reference"


def test_a_kernel_that_fails_is_no_reference() -> None:
    store = Store(make_plan((tensor("FLOAT", 6, (2,), 0), tensor("FLOAT", 6, (3,), 16), None)))
    with pytest.raises(OracleError, match=r"aten::mm\.out cannot be computed on the host"):
        run_kernel(KernelCall("aten::mm.out", (0, 0, 1, 1)), store)


def test_a_constant_is_never_written() -> None:
    store = Store(make_plan((tensor("CHAR", 1, (2,), 0, b"\x01\x02"),)))
    assert store.get(0).tolist() == [1, 2]
    with pytest.raises(OracleError, match="constant"):
        store.set(0, np.zeros(2, np.int8))
