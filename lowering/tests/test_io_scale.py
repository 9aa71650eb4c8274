"""Protects the real numbers that a program's integers stand for: elements are those that PyTorch's operator gives, and
what a program says is found under the names that exir has for it, and only where it can be.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from executorch.exir.passes.quantize_io_pass import get_config_method_name
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines the operator

from ethos_hil.lowering.formats.io_scale import IoScale, io_scales
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, FreeCall, Tensor, Value


@pytest.mark.parametrize(
    "scale",
    [
        IoScale(0.015397, -68, -128, 127),
        IoScale(2**-5, 3, 0, 255),
        IoScale(1e-3, 0, -32768, 32767),
        IoScale(0.1, 7, -8, 9),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_elements_are_those_of_pytorchs_operator(scale: IoScale, dtype: type) -> None:
    """Random values, the half-way ones between elements, and some that are beyond both ends."""
    rng = np.random.default_rng(0)
    steps = np.concatenate([np.arange(-40, 40, 0.5), rng.uniform(scale.low - 60, scale.high + 60, 4000)])
    values = ((steps - scale.zero_point) * scale.scale).astype(dtype)
    kind = {255: torch.uint8, 32767: torch.int16}.get(scale.high, torch.int8)
    numbers = (scale.scale, scale.zero_point, scale.low, scale.high, kind)
    right = torch.ops.quantized_decomposed.quantize_per_tensor(torch.from_numpy(values).float(), *numbers).numpy()
    elements = scale.quantised(values, right.dtype)
    assert elements.dtype == right.dtype
    assert np.array_equal(elements, right)
    real = scale.real(elements)
    kept = (values >= scale.real(np.array(scale.low))) & (values <= scale.real(np.array(scale.high)))
    assert scale.beyond(values) <= np.count_nonzero(~kept)
    resolution = np.abs(values.astype(np.float64)) * 2.0**-22
    assert (np.abs(real - values)[kept] <= scale.scale / 2 + resolution[kept]).all()


def plan(name: str, values: tuple[Value, ...], inputs: tuple[int, ...] = (), busy: bool = False) -> ExecutionPlan:
    """A method that answers the values that are not its inputs."""
    outputs = tuple(index for index in range(len(values)) if index not in inputs)
    return ExecutionPlan(name, values, inputs, outputs, (FreeCall(0),) * busy, (), (), ())


def tensor(kind: str = "CHAR") -> Tensor:
    return Tensor(kind, (2,), (0,), None, 0, None)


def stated(prefix: str | None, index: int, **numbers: float) -> list[ExecutionPlan]:
    """What exir writes of an input."""
    return [plan(get_config_method_name(prefix, "input", index, key), (value,)) for key, value in numbers.items()]


RIGHT = {"scale": 0.5, "zp": 3, "quant_min": -100, "quant_max": 100}


@pytest.mark.parametrize(
    ("method", "prefix", "kind", "numbers", "expected"),
    [
        ("forward", None, "CHAR", RIGHT, IoScale(0.5, 3, -100, 100)),
        ("forward", "forward", "CHAR", RIGHT, IoScale(0.5, 3, -100, 100)),
        ("encode", "encode", "SHORT", {"scale": 2, "zp": 0}, IoScale(2.0, 0, -32768, 32767)),
        ("forward", None, "BYTE", {"scale": 0.5, "zp": 128}, IoScale(0.5, 128, 0, 255)),
        ("encode", None, "CHAR", RIGHT, None),
        ("forward", "encode", "CHAR", RIGHT, None),
        ("forward", None, "FLOAT", RIGHT, None),
        ("forward", None, "BOOL", RIGHT, None),
        ("forward", None, "CHAR", {"scale": 0.5}, None),
        ("forward", None, "CHAR", {"zp": 3}, None),
        *(("forward", None, "CHAR", RIGHT | {"scale": scale}, None) for scale in (0.0, -1.0, np.inf, np.nan)),
        ("forward", None, "CHAR", RIGHT | {"quant_max": 300}, None),
        ("forward", None, "CHAR", RIGHT | {"quant_min": 100}, None),
        ("forward", None, "CHAR", RIGHT | {"zp": 0.5}, None),
        ("forward", None, "CHAR", RIGHT | {"zp": True}, None),
    ],
)
def test_what_is_stated_is_found_by_its_name(
    method: str, prefix: str | None, kind: str, numbers: dict[str, float], expected: IoScale | None
) -> None:
    main = plan(method, (tensor("FLOAT"), tensor(kind), tensor()), (0, 1))
    assert io_scales([main, *stated(prefix, 1, **numbers)], main) == ((None, expected), (None,))


def test_a_method_that_computes_or_takes_something_states_nothing() -> None:
    main = plan("forward", (tensor(), tensor()), (0,))
    names = [get_config_method_name(None, "input", 0, key) for key in ("scale", "zp")]
    for others in (
        [plan(names[0], (0.5,), busy=True), plan(names[1], (3,))],
        [plan(names[0], (1.0, 0.5), (0,)), plan(names[1], (3,))],
        [plan(names[0], (0.5, 0.25)), plan(names[1], (3,))],
    ):
        assert io_scales([main, *others], main) == ((None,), (None,))
