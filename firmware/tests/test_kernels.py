"""The CPU kernels give the bits that ExecuTorch's own host runtime gives, where that has the kernel and is right."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
import torch
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from kernel_calls import FUNCTIONS, GROUPS, ROUNDED
from kernel_cases import Case, check_cases, operators_of, values
from plain_qemu import RunProgram
from programs import edited, export, raw
from test_cortex_m import cases

from ethos_hil.harness.image.formats import ErrorKind


@pytest.mark.parametrize("one_in", [3, pytest.param(1, marks=pytest.mark.proof)])
@pytest.mark.parametrize("group", [name for name in GROUPS if name != "functions"])
def test_kernels_give_the_right_bits(run_program: RunProgram, group: str, one_in: int) -> None:
    """With all cases, or with one in some of each kernel, the first one, too."""
    cases: dict[str, list[Case]] = {}
    for case in (case for row in GROUPS[group] for case in row()):
        cases.setdefault(case.operator, []).append(case)
    outputs = check_cases(run_program, [case for those in cases.values() for case in those[::one_in]])
    assert any(output.dtype.kind != "f" or not np.isnan(output).all() for output in outputs)


def test_functions_are_near_the_truth_and_the_host(run_program: RunProgram) -> None:
    """The truth is the same function of doubles, which is off by less than 2^-28 of a float's last place."""
    cases = [case for row in GROUPS["functions"] for case in row()]
    for name, case, output in zip(FUNCTIONS.split(), cases, check_cases(run_program, cases), strict=True):
        (x,) = case.inputs
        with np.errstate(all="ignore"):
            function = np.vectorize(math.erf) if name == "erf" else getattr(np, name)
            off = errors(output, function(x.numpy().astype(np.float64)))
        worst = int(np.argmax(off))
        assert off[worst] <= ROUNDED, f"{name}({x[worst]}) is off by {off[worst]:.3f} units"


def errors(answers: Any, truth: Any) -> Any:
    """Return the errors in units in the last place of a float; 0 for equal values, and where both are NaN."""
    rounded = truth.astype(np.float32)
    unit = np.spacing(np.abs(rounded)).astype(np.float64)
    unit = np.where(np.isfinite(rounded), unit, np.spacing(np.float32(3e38)))
    # Beyond the range, infinity is a last place away from the largest float.
    reach = np.float64(2.0**128)
    off = np.abs(np.clip(answers.astype(np.float64), -reach, reach) - np.clip(truth, -reach, reach)) / unit
    return np.where((answers == rounded) | (np.isnan(answers) & np.isnan(rounded)), 0, off)


def test_quantize_saturates_what_upstream_leaves_undefined(run_program: RunProgram) -> None:
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor
    inputs = torch.tensor([float("inf"), float("-inf"), float("nan"), 3e38, -3e38, 1e10])
    exported = export(lambda x: quantize(x, 0.5, 1, -100, 100, torch.int8), (inputs,), run=False)
    (tensor,) = run_program(exported).results()
    assert np.frombuffer(tensor.data, np.int8).tolist() == [100, -100, -100, 100, -100, 100]


def test_copies_without_dim_orders_equal_the_host(run_program: RunProgram) -> None:
    exported = export(
        lambda x: (x.clone(), x.to(torch.int16), x.to(torch.float64)), (values("int32", 3, 5),), dim_orders=False
    )
    assert operators_of(exported.pte) == {"aten::clone.out", "aten::_to_copy.out"}
    assert [tensor.data for tensor in run_program(exported).results()] == [raw(output) for output in exported.outputs]


def operators_in(firmware: bytes) -> list[str]:
    """Return the operators that the ELF lists."""
    section = ELFFile(io.BytesIO(firmware)).get_section_by_name(".ethos_hil.operators")
    assert section["sh_flags"] & SH_FLAGS.SHF_ALLOC == 0, "it is not loaded"
    return section.data().decode("ascii").removesuffix("\n").split("\n")


def test_the_elf_lists_the_operators_it_finds(firmware: bytes, run_program: RunProgram) -> None:
    listed = operators_in(firmware)
    assert listed == sorted(set(listed))
    assert {"aten::add.out", "aten::copy_", "quantized_decomposed::quantize_per_tensor.out"} <= set(listed)
    # A program that names every one of them, and one more.
    named = [*listed, "aten::nothing.out"]

    def rename(program: Any) -> None:
        (plan,) = program.execution_plan
        plan.operators = [type(plan.operators[0])(*(*name.split("."), "")[:2]) for name in named]

    exported = export(lambda x: x + x, (torch.randn(3),), run=False)
    kind, text = run_program(edited(exported.pte, rename), [exported.input_set]).error()
    assert (kind, text) == (ErrorKind.UNSUPPORTED, "this firmware lacks operator aten::nothing.out")


# Kernels that are in no row, with the tests that compare them with the host.
ELSEWHERE = {
    "aten::_to_copy.out": "test_kernels.py",
    "aten::clone.out": "test_kernels.py",
    "aten::copy_": "test_features.py",
    "cortex_m::dequantize_per_tensor.out": "the kernel of quantized_decomposed under another name",
    "cortex_m::quantize_per_tensor.out": "the kernel of quantized_decomposed under another name",
    "dim_order_ops::_clone_dim_order.out": "the kernel of _to_dim_order_copy under another name",
}


def test_every_kernel_is_compared(firmware: bytes) -> None:
    compared = {case.operator for rows in GROUPS.values() for row in rows for case in row()}
    compared |= {case.operator for case in cases(1)}
    assert not compared & set(ELSEWHERE)
    there = set(operators_in(firmware))
    assert there - compared - set(ELSEWHERE) == set(), "kernels that no case compares with anything"
    assert (compared | set(ELSEWHERE)) - there == set(), "cases of kernels that are gone"
