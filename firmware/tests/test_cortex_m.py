"""Kernels of ExecuTorch's Cortex-M backend on the board have the reference's bits, and refuse what CMSIS-NN errs with.

lowering/tests/test_cortex_m.py compares the reference with CMSIS-NN and with upstream's Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from kernel_cases import REFERENCE, Case, check_references
from plain_qemu import RunProgram
from programs import export

from ethos_hil.harness.image.formats import ErrorKind
from ethos_hil.lowering.testing.cortex_m_cases import EACH, NAMES, CortexMCall, calls

CONV, DEPTHWISE, TRANSPOSED = "quantized_conv2d", "quantized_depthwise_conv2d", "quantized_transpose_conv2d"


def cases(count: int) -> Iterator[Case]:
    """The first calls of each operator."""
    for call in (call for name in NAMES for call in calls(name, count)):
        yield Case(call.operator, call.call, call.tensors, REFERENCE)


@pytest.mark.parametrize("count", [4, pytest.param(EACH, marks=pytest.mark.proof)])
def test_the_board_has_the_references_bits(run_program: RunProgram, count: int) -> None:
    check_references(run_program, list(cases(count)))


def changed(name: str, number: int, *positions: tuple[int, Any]) -> CortexMCall:
    """Return one of the calls with other arguments."""
    call = list(calls(name))[number]
    arguments = list(call.arguments)
    for position, value in positions:
        arguments[position] = value
    return dataclasses.replace(call, arguments=tuple(arguments))


def test_a_channel_that_many_are_made_of(run_program: RunProgram) -> None:
    """Sixteen and four of them are computed together, and the last is left over."""
    few = changed(DEPTHWISE, 0)
    size = few.arguments[1].shape[2] * few.arguments[1].shape[1]
    weights = (
        torch.arange(21 * size).mul(37).remainder(255).sub(127).to(torch.int8).reshape(*few.arguments[1].shape[:3], 21)
    )
    each = {at: few.arguments[at][:1].repeat(21) for at in (2, 9, 10)}
    call = changed(DEPTHWISE, 0, (1, weights), (6, 21), *each.items())
    check_references(run_program, [Case(call.operator, call.call, call.tensors, REFERENCE)])


def plain(call: CortexMCall, position: int) -> CortexMCall:
    """Return the call with one image that is contiguous."""
    arguments = list(call.arguments)
    arguments[position] = arguments[position].contiguous()
    return dataclasses.replace(call, arguments=tuple(arguments))


REFUSED = [
    (changed("quantized_add", 0, (2, -(2**31))), "argument 2 is -2147483648, expected -2147483647 to 2147483647"),
    (changed("quantized_add", 0, (3, 31)), "argument 3 is 31, expected -31 to 30"),
    (changed("quantized_add", 0, (1, 40000)), "argument 1 is 40000, expected -32768 to 32767"),
    (changed("quantized_add", 0, (11, -129)), "argument 11 is -129, expected -128 to 127"),
    (changed("quantized_add", 0, (11, 3), (12, 2)), "argument 12 is 2, expected 3 to 127"),
    (plain(changed("quantized_add", 3), 4), "operands and result differ in dim_order"),
    (changed("quantized_div", 0, (5, -0.5)), "the scale is not a positive number"),
    (plain(changed(CONV, 1), 0), "the input is not [N, C, H, W] in channels_last"),
    (changed(CONV, 1, (6, 129)), "argument 6 is 129, expected -127 to 128"),
    (changed(CONV, 1, (4, [-1, 1])), "argument 4 has an item -1, expected 0 to 32767"),
    (changed(DEPTHWISE, 1, (6, 0)), "argument 6 is 0, expected 1 to 2147483647"),
    (changed(TRANSPOSED, 1, (5, [0, 1])), "output_padding and dilation are not for CMSIS-NN: expected 0 and 1"),
    (changed(TRANSPOSED, 1, (3, [9, 1])), "with strides 9x1 and padding 0x0 wrongly, or writes past the output"),
    (changed("softmax", 2, (1, 0)), "dim is 0, not the last one"),
    (changed("softmax", 2, (3, 0)), "argument 3 is 0, expected -128 to -128"),
    (changed("quantized_max_pool2d", 1, (7, 5), (6, 4)), "input and output have different zero points"),
    (changed("transpose", 1, (1, [0, 1])), "two dimensions stay in order, but CMSIS-NN swaps them"),
    (changed("quantized_linear", 1, (7, [1, 2])), "argument 7 has 2 items, the first 1, expected one from"),
    (changed("pad", 0, (3, 300)), "argument 3 is 300, expected -128 to 127"),
]


@pytest.mark.parametrize(("call", "reason"), REFUSED)
def test_what_cmsis_nn_cannot_compute_is_refused(run_program: RunProgram, call: CortexMCall, reason: str) -> None:
    exported = export(lambda *tensors: call.call(*tensors), call.tensors, run=False, preserve=True)
    run_program(exported).check_error(ErrorKind.KERNEL, reason)
