"""The reference for operators of ExecuTorch's Cortex-M backend has CMSIS-NN's answers and those of upstream's Python.

data/cmsis_nn.npz has what CMSIS-NN dbf45db, the version that ExecuTorch 1.5.1 builds, answers to the same calls, one
after the other. It was compiled for this computer, without vector instructions
(`python -m ethos_hil.suites.lab cmsis-nn CHECKOUT --record`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.lowering.oracle.cortex_m_kernels import CORTEX_M, PAD, answer_of, requantise
from ethos_hil.lowering.testing.cortex_m_cases import EACH, NAMES, NHWC, CortexMCall, calls
from ethos_hil.lowering.upstream.toolchain import import_executorch

ANSWERS = Path(__file__).parent / "data" / "cmsis_nn.npz"
IN_FLOAT = ("quantized_avg_pool2d", "softmax")
"""Upstream's Python computes these in float; it is a step off at times."""
WITHOUT_CMSIS_NN = ("quantized_activation", "quantized_div")
"""ExecuTorch has kernels of its own for these."""


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, np.ndarray]:
    with np.load(ANSWERS) as file:
        return dict(file)


def answer(call: CortexMCall) -> np.ndarray:
    return answer_of(call.operator, call.arguments)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_answers_as_upstreams_python_and_cmsis_nn(name: str, recorded: Mapping[str, np.ndarray]) -> None:
    import_executorch()
    plain = name.removesuffix(NHWC)
    made = list(calls(name))
    answers = [answer(call) for call in made]
    if plain not in WITHOUT_CMSIS_NN:
        in_order = [ours.transpose(0, 3, 1, 2) if plain != name else ours for ours in answers]
        assert np.array_equal(np.concatenate([ours.ravel() for ours in in_order]), recorded[plain])
    for number, (call, ours) in enumerate(zip(made, answers, strict=True)):
        if "conv2d" in name and call.arguments[6 if "transpose" in name else 5] != [1, 1]:
            continue  # torch has no dilated convolution of int32 on this computer
        upstreams = call.call(*call.tensors).numpy().astype(int)
        off = np.abs(ours.astype(int) - upstreams)
        assert off.max() <= (1 if plain in IN_FLOAT else 0), (name, number)


def test_every_operator_of_upstreams_backend_is_compared() -> None:
    """Its list has the two conversions, too: those are of quantized_decomposed under another name."""
    import executorch.backends.cortex_m
    import yaml

    listed = Path(executorch.backends.cortex_m.__path__[0]) / "ops" / "operators.yaml"
    names = {entry["func"].split("(")[0] for entry in yaml.safe_load(listed.read_text(encoding="utf-8"))}
    conversions = {"cortex_m::quantize_per_tensor.out", "cortex_m::dequantize_per_tensor.out"}
    assert names - conversions == {f"cortex_m::{name}.out" for name in NAMES} == {*CORTEX_M, PAD}


def test_the_calls_are_of_many_shapes_and_answers() -> None:
    for name in NAMES:
        made = list(calls(name))
        assert len({tuple(tensor.shape for tensor in call.tensors) for call in made}) > EACH // 5, name
        answers = np.concatenate([answer(call).ravel() for call in made])
        assert len(np.unique(answers)) > 100, f"{name} gives few values"


def test_a_value_is_rounded_twice() -> None:
    """2^31 / 3 as a factor: once rounded, 4 * factor / 2^34 would be 0.17; the first rounding makes 1 of 1.33."""
    assert requantise(np.array([3, -3, 4, 5]), 2**30, -1).tolist() == [1, -1, 1, 2]


def test_long_flat_rows_of_a_softmax_have_no_share() -> None:
    """Of 1024 equal values each has a quarter of a step. CMSIS-NN's C shifts by more than 31 there, which C leaves
    undefined; its vector instructions (VRSHL) give 0.
    """
    row = np.zeros((1, 1024), np.int8)
    assert set(CORTEX_M["cortex_m::softmax.out"](row, -1, 0, -128, 2**30, 20, -100).ravel()) == {-128}
