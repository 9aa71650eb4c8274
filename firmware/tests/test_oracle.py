"""The reference of a run (lowering/oracle) gives the firmware's bits, kernel by kernel.

The host's runtime may differ from the firmware in the last place, where a function is not exact or sums are in another
order. A run compares the firmware with the reference for equality, so these two may not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import test_kernels_arrange
import test_kernels_float
import test_kernels_layers
import test_kernels_reduce
import torch
from kernel_cases import Case, Cases, check_close, export_cases, plain
from plain_qemu import RunProgram

from ethos_hil.harness.image.formats import FrameType
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.oracle.float_kernels import FLOATS, LAYERS, SEVERAL
from ethos_hil.lowering.oracle.reference import Reference

PORTED = {
    *FLOATS, *LAYERS, *SEVERAL, "aten::avg_pool2d.out", "aten::mean.out", "aten::max_pool2d_with_indices.out",
    "aten::_native_batch_norm_legit_no_training.out", "aten::upsample_bilinear2d.vec_out",
}  # fmt: skip
BEYOND = {"aten::_native_batch_norm_legit.no_stats_out"}
"""Of these, the host refuses all calls; test_kernels_beyond.py has them."""


def softmaxes_and_sums() -> Cases:
    cases = Cases()
    x = plain(3, 5, 7) * 9
    for dimension in (0, 1, -1):
        cases.add("out", "_softmax.default", [(x,)], dimension, False)
        cases.add("out", "_log_softmax.default", [(x,)], dimension, False)
        cases.add("out", "cumsum.default", [(x,)], dimension)
    for dims, keep in (([1], False), ([0], True), ([0, 1], False), (None, False)):
        cases.add("IntList_out", "sum.dim_IntList", [(plain(33, 9),)], dims, keep)
    cases.add("dtype_out", "mean.default", [(plain(9, 11),)], dtype=torch.float32)
    matrices = (plain(5, 40), plain(40, 6, seed=2))
    cases.add("out", "mm.default", [matrices])
    cases.add("out", "bmm.default", [(plain(2, 5, 30), plain(2, 30, 6, seed=2))])
    cases.add("out", "addmm.default", [(plain(6), *matrices)], beta=2, alpha=0.3)
    linear = (plain(2, 3, 19), plain(8, 19, seed=2), plain(8, seed=3))
    cases.add("out", "linear.default", [linear, linear[:2]])
    return cases


def functions() -> Cases:
    cases = Cases()
    x = torch.cat([test_kernels_float.inputs(400), plain(200, seed=5) * 20])
    for name in (*test_kernels_float.FUNCTIONS, "sigmoid", "rsqrt"):
        cases.add("out", f"{name}.default", [(x,)])
    for how in ("none", "tanh"):
        cases.add("out", "gelu.default", [(x.clamp(-4, 9),)], approximate=how)
    base, exponent = plain(300).abs() * 5, plain(300, seed=2) * 4
    cases.add("Tensor_Tensor_out", "pow.Tensor_Tensor", [(base, exponent)])
    cases.add("Tensor_Scalar_out", "pow.Tensor_Scalar", [(base,)], 0.4)
    cases.call("pow.Scalar_out", lambda e: torch.ops.aten.pow.Scalar(1.7, e), exponent)
    return cases


GROUPS: tuple[tuple[Callable[[], Cases], ...], ...] = (
    (functions,),
    (softmaxes_and_sums,),
    (test_kernels_arrange.conversions_by_channel,),
    (test_kernels_reduce.convolutions, test_kernels_reduce.norms_and_resizing),
    test_kernels_layers.GROUPS,
)


@pytest.mark.parametrize("groups", GROUPS, ids=lambda groups: groups[0].__name__)
def test_the_reference_has_the_firmwares_bits(run_program: RunProgram, groups: tuple[Callable[[], Cases], ...]) -> None:
    cases = [case for group in groups for case in group() if case.operator in PORTED and simple(case)]
    exported, owners = export_cases(cases)
    conversation = run_program(exported)
    assert conversation.one(FrameType.END).fields["status"] == 0, conversation.frames[-2:]
    artifact = Artifact.of_program(exported.pte, "cases")
    inputs = [
        tensor.from_bytes(data) for tensor, data in zip(artifact.plan.input_tensors, exported.input_set, strict=True)
    ]
    answers = Reference(artifact).run(inputs).outputs
    for at, (case, sent, answer) in enumerate(zip(owners, conversation.tensors(), answers, strict=True)):
        tensor = artifact.plan.output_tensors[at]
        output = tensor.from_bytes(sent.data)
        check_close(output, answer, None, f"output {at}, {case.operator} of {[tuple(i.shape) for i in case.inputs]}")


def simple(case: Case) -> bool:
    """Whether a case has ordinary types; float16 and bfloat16 are left to torch."""
    return all(str(value.dtype) not in ("torch.float16", "torch.bfloat16", "torch.float64") or
               case.operator.startswith("quantized") for value in case.inputs)  # fmt: skip


def test_every_kernel_that_is_written_out_is_compared() -> None:
    compared = {case.operator for groups in GROUPS for group in groups for case in group() if simple(case)}
    assert compared >= PORTED - BEYOND
