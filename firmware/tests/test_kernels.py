"""The CPU kernels give the bits that ExecuTorch's own host runtime gives."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from plain_qemu import RunProgram
from programs import Exported, edited, export, raw

from ethos_hil.harness.image.formats import ErrorKind, FrameType


def check_outputs(run_program: RunProgram, exported: Exported) -> None:
    """Run a program and compare its outputs with the host's, byte for byte."""
    conversation = run_program(exported)
    assert conversation.one(FrameType.END).fields["status"] == 0, conversation.frames[-2:]
    tensors = conversation.tensors()
    assert len(tensors) == len(exported.outputs)
    for tensor, expected in zip(tensors, exported.outputs, strict=True):
        rank = tensor.info["rank"]
        assert tensor.sizes == tuple(expected.shape)
        assert tuple(tensor.info["dim_order"][:rank]) == tuple(expected.dim_order())
        assert tensor.data == raw(expected)


def awkward_floats(count: int) -> Any:
    """Return floats around ties, steps and the ends of the quantised ranges, and far outside them."""
    generator = torch.Generator().manual_seed(7)
    spread = torch.randn(count, generator=generator) * torch.logspace(-8, 5, count)
    ties = (torch.arange(-700, 700, dtype=torch.float32) + 0.5) * 0.25
    neighbours = torch.nextafter(ties, torch.tensor(float("inf")))
    ends = torch.tensor([0.0, -0.0, 1e30, -1e30, 3.4e38, 1e-45, -1e-45, 32767.5, -32768.5, 2.0**24 + 2, 2.0**31])
    # Far beyond 2^63 upstream's own cast is undefined; that corner has a test of its own.
    values = torch.cat([spread, ties, neighbours, ends])
    return values[values.abs() < 1e9]


DECOMPOSED = torch.ops.quantized_decomposed
CASES = [
    ("int8", -128, 127, 0.25, 0),
    ("int8", -127, 127, 0.037, -3),
    ("uint8", 0, 255, 0.0211, 131),
    ("uint8", 3, 200, 1.5, 0),
    ("int16", -32768, 32767, 3.1e-4, 0),
    ("int16", -32767, 32767, 0.5, 1000),
    ("int32", -(2**31), 2**31 - 1, 1e-3, 17),
    ("int32", -(2**31), 2**31 - 1, 7e-9, -(2**24) - 1),
]


def test_quantize_and_dequantize_equal_the_host(run_program: RunProgram) -> None:
    def cases(x: Any) -> Any:
        outputs = []
        for name, low, high, scale, zero_point in CASES:
            parameters = (scale, zero_point, low, high, getattr(torch, name))
            quantized = DECOMPOSED.quantize_per_tensor(x, *parameters)
            outputs += [quantized, DECOMPOSED.dequantize_per_tensor(quantized, *parameters)]
        return tuple(outputs)

    exported = export(cases, (awkward_floats(1000),))
    check_outputs(run_program, exported)


def test_dequantize_keeps_subnormal_floats(run_program: RunProgram) -> None:
    codes = torch.arange(-128, 128).to(torch.int8)
    exported = export(lambda x: DECOMPOSED.dequantize_per_tensor(x, 1.3e-41, 3, -128, 127, torch.int8), (codes,))
    assert np.count_nonzero(exported.outputs[0].numpy()) == 255, "the case must have subnormal results"
    check_outputs(run_program, exported)


def test_quantize_saturates_what_upstream_leaves_undefined(run_program: RunProgram) -> None:
    inputs = torch.tensor([float("inf"), float("-inf"), float("nan"), 3e38, -3e38, 1e10])
    exported = export(lambda x: DECOMPOSED.quantize_per_tensor(x, 0.5, 1, -100, 100, torch.int8), (inputs,), run=False)
    (tensor,) = run_program(exported).tensors()
    assert np.frombuffer(tensor.data, np.int8).tolist() == [100, -100, -100, 100, -100, 100]


def test_layouts_and_conversions_equal_the_host(run_program: RunProgram) -> None:
    def copies(image: Any, last: Any, whole: Any, flag: Any) -> Any:
        quantize = DECOMPOSED.quantize_per_tensor(last, 0.1, 2, -128, 127, torch.int8)
        return (
            image.to(memory_format=torch.channels_last),
            last.to(memory_format=torch.contiguous_format),
            quantize,
            whole.to(torch.int32),
            whole.to(torch.float32),
            whole.to(torch.int8),
            image.to(torch.int64),
            flag.to(torch.float32),
            whole.to(torch.bool),
            image.reshape(3, -1),
            image.to(torch.int16).to(memory_format=torch.channels_last),
        )

    generator = torch.Generator().manual_seed(3)
    image = torch.randn(2, 3, 5, 7, generator=generator) * 100
    last = torch.randn(2, 3, 5, 7, generator=generator).to(memory_format=torch.channels_last)
    whole = torch.tensor([[0, 1, -1, 2**31 + 5, -(2**40), 127]])
    exported = export(copies, (image, last, whole, torch.tensor([True, False])))
    check_outputs(run_program, exported)


def test_views_accept_any_order_of_dimensions_of_size_one(run_program: RunProgram) -> None:
    # Upstream's kernel refuses this program, although it only copies bytes.
    pooled = torch.randn(2, 6, 1, 1).to(memory_format=torch.channels_last)
    assert pooled.dim_order() == (0, 2, 3, 1)
    exported = export(lambda x: x.reshape(4, 3), (pooled,), run=False)
    (tensor,) = run_program(exported).tensors()
    assert tensor.data == pooled.reshape(4, 3).numpy().tobytes()


def test_branches_follow_the_condition(run_program: RunProgram) -> None:
    def branch(flag: Any, x: Any) -> Any:
        def double(value: Any) -> Any:
            return DECOMPOSED.quantize_per_tensor(value, 0.5, 0, -128, 127, torch.int8)

        def triple(value: Any) -> Any:
            return DECOMPOSED.quantize_per_tensor(value, 0.25, 9, -128, 127, torch.int8)

        return torch.cond(flag, double, triple, (x,))

    x = torch.linspace(-9, 9, 40)
    for flag in (True, False):
        exported = export(branch, (torch.tensor(flag), x))
        check_outputs(run_program, exported)


def test_all_missing_operators_are_named_at_once(run_program: RunProgram) -> None:
    def lacking(x: Any) -> Any:
        values, _ = torch.sort(x)
        return torch.lgamma(values), torch.digamma(x)

    exported = export(lacking, (torch.randn(6),), run=False)
    text = run_program(exported).check_error(ErrorKind.UNSUPPORTED)
    for name in ("aten::lgamma.out", "aten::digamma.out"):
        assert f"operator {name}" in text
    assert "aten::sort.values" not in text


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


# Kernels whose cases are not in groups, with the tests that compare them with the host.
ELSEWHERE = {
    "aten::_native_batch_norm_legit.no_stats_out": "test_kernels_beyond.py, with torch, for the host has none",
    "aten::max_pool3d_with_indices.out": "test_kernels_beyond.py, with torch, for the host has none",
    "aten::adaptive_max_pool2d.out": "test_kernels_beyond.py, with torch, for the host has none",
    "aten::_to_copy.out": "test_kernels_arrange.py",
    "aten::clone.out": "test_kernels_arrange.py",
    "aten::view_copy.out": "test_kernels.py",
    "aten::copy_": "test_features.py",
    "aten::sort.values": "test_kernels_reduce.py, with torch, for the host has none",
    "cortex_m::dequantize_per_tensor.out": "the kernel of quantized_decomposed under another name",
    "cortex_m::quantize_per_tensor.out": "the kernel of quantized_decomposed under another name",
    "dim_order_ops::_clone_dim_order.out": "the kernel of _to_dim_order_copy under another name",
    "quantized_decomposed::dequantize_per_tensor.out": "test_kernels.py",
    "quantized_decomposed::quantize_per_tensor.out": "test_kernels.py",
}


def test_every_kernel_is_compared_with_the_host(firmware: bytes) -> None:
    import test_kernels_arrange
    import test_kernels_elementwise
    import test_kernels_float
    import test_kernels_layers
    import test_kernels_reduce

    modules = (
        test_kernels_arrange,
        test_kernels_elementwise,
        test_kernels_float,
        test_kernels_layers,
        test_kernels_reduce,
    )
    groups = [test_kernels_float.functions, *(group for module in modules for group in module.GROUPS)]
    compared = {case.operator for group in groups for case in group()}
    assert not compared & set(ELSEWHERE)
    there = set(operators_in(firmware))
    assert there - compared - set(ELSEWHERE) == set(), "kernels that no case compares with the host"
    assert (compared | set(ELSEWHERE)) - there == set(), "cases of kernels that are gone"
