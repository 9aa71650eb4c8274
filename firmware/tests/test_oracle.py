"""The reference of a run (lowering/oracle) gives the firmware's bits, kernel by kernel.

The host's runtime may differ from the firmware in the last place, where a function is not exact or sums are in another
order. A run compares the firmware with the reference for equality, so these two may not.
"""

from __future__ import annotations

import dataclasses
import itertools
from operator import attrgetter

import pytest
import torch
from kernel_calls import FUNCTIONS, GROUPS
from kernel_cases import REFERENCE, Case, X, check_references, row
from plain_qemu import RunProgram

from ethos_hil.lowering.oracle.float_kernels import FLOATS, LAYERS, SEVERAL

PORTED = {
    *FLOATS, *LAYERS, *SEVERAL, "aten::avg_pool2d.out", "aten::mean.out", "aten::max_pool2d_with_indices.out",
    "aten::_native_batch_norm_legit_no_training.out", "aten::upsample_bilinear2d.vec_out",
}  # fmt: skip
MORE = (
    row(f"{FUNCTIONS} sigmoid rsqrt.default", "out", "float32", "400 curve; 200 steep"),
    row("gelu.default", "out", "float32", "400 curve; 200 steep"),
    row("gelu.default", "out", "float32", "400 bounded; 200 steep", approximate="tanh"),
    row("pow.Tensor_Tensor", "Tensor_Tensor_out", "float32", "300 positive | 300 plain"),
    row("pow.Tensor_Scalar", "Tensor_Scalar_out", "float32", "300 positive", 0.4),
    row("pow.Scalar", "Scalar_out", "float32", "300 plain", 1.7, X),
    *(row("_softmax _log_softmax.default", "out", "float32", "3,5,7 steep", axis, False) for axis in (0, 1, -1)),
    *(row("cumsum.default", "out", "float32", "3,5,7 steep", axis) for axis in (0, 1, -1)),
    *(row("sum.dim_IntList", "IntList_out", "float32", "33,9 plain", dims) for dims in ([1], [0], [0, 1], None)),
    row("atan2.default", "out", "float32", "300 steep | 300 plain"),
    *(row("prod.dim_int", "int_out", "float32", "3,5,7 plain", axis) for axis in (0, 1, -1)),
    row("prod.default", "out", "float32", "11 plain"),
    row("addmm.default", "out", "float32", "6 plain | 5,40 plain | 40,6 plain", beta=2, alpha=0.3),
)
"""Calls whose results on the host differ more, or that it orders otherwise."""


COMPARED = ("functions", "sums", "products of matrices", "quantised by channel", "convolutions", "norms and resizing",
            "pools", "what the host has not", "more")  # fmt: skip


LONG = ("functions", "norms and resizing", "pools")


@pytest.mark.parametrize(("group", "one_in"), [
    *((group, 2 if group in LONG else 1) for group in COMPARED),
    *(pytest.param(group, 1, marks=pytest.mark.proof) for group in LONG),
])  # fmt: skip
def test_the_reference_has_the_firmwares_bits(run_program: RunProgram, group: str, one_in: int) -> None:
    name = attrgetter("operator")
    of_each = itertools.groupby(sorted(compared(group), key=name), name)
    cases = [case for _, some in of_each for case in list(some)[::one_in]]
    check_references(run_program, cases)


def compared(group: str) -> list[Case]:
    """Return the cases of ordinary types that are written out; float16 and bfloat16 are left to torch."""
    cases = (case for row in GROUPS.get(group, MORE) for case in row() if case.operator in PORTED)
    return [dataclasses.replace(case, by=REFERENCE) for case in cases if is_ordinary(case)]


def is_ordinary(case: Case) -> bool:
    others = set() if case.operator.startswith("quantized") else {torch.float16, torch.bfloat16, torch.float64}
    if "mean" in case.operator or "sum." in case.operator:
        return case.inputs[0].dtype is torch.float32
    return not others & {value.dtype for value in case.inputs}


def test_every_kernel_that_is_written_out_is_compared() -> None:
    assert {case.operator for group in COMPARED for case in compared(group)} >= PORTED
