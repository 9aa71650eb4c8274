"""Layers that upstream leaves to the CPU: firmware and host reference give the bits of ExecuTorch's host runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from plain_qemu import RunProgram
from programs import Exported, export
from torch import nn

from ethos_hil.harness.image.formats import ErrorKind, FrameType
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.oracle.kernels import Store, run_kernel

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 16777217.0)


def odd_values(*sizes: int, share: float = 0.15, seed: int = 5) -> Any:
    """Return random floats of many magnitudes, `share` of them from SPECIAL, and a run of -0.0."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(sizes, generator=generator) * torch.exp2(torch.randint(-12, 12, sizes, generator=generator))
    special = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), sizes, generator=generator)]
    values = torch.where(torch.rand(sizes, generator=generator) < share, special, values)
    flat = values.flatten()
    flat[: flat.numel() // 10] = -0.0
    return flat.reshape(sizes)


def check_equal(output: Any, expected: Any, what: str) -> None:
    """Check for equal bits. A NaN equals any NaN: its sign and payload depend on the processor."""
    assert (output.dtype, output.shape) == (expected.dtype, expected.shape)
    if output.dtype == np.float32:
        assert np.array_equal(np.isnan(output), np.isnan(expected)), what
        output, expected = (values[~np.isnan(values)].view(np.int32) for values in (output, expected))
    assert np.array_equal(output, expected), what


def run_reference(exported: Exported) -> list[np.ndarray]:
    """Run the program on lowering/oracle/kernels.py."""
    (plan,) = Program.parse(exported.pte).plans
    store = Store(plan)
    for index, data in zip(plan.inputs, exported.input_set, strict=True):
        store.set(index, plan.tensor(index).from_bytes(data))
    for instruction in plan.instructions:
        assert isinstance(instruction, KernelCall)
        run_kernel(instruction, store)
    return [store.get(index) for index in plan.outputs]


def check_floats(run_program: RunProgram, exported: Exported) -> None:
    """Run a program and compare its outputs, and the reference's, with the host's."""
    conversation = run_program(exported)
    assert conversation.one(FrameType.END).fields["status"] == 0, conversation.frames[-2:]
    tensors, reference = conversation.tensors(), run_reference(exported)
    assert len(tensors) == len(exported.outputs)
    for number, (tensor, computed, expected) in enumerate(zip(tensors, reference, exported.outputs, strict=True)):
        assert tensor.sizes == tuple(expected.shape)
        order = tuple(tensor.info["dim_order"][: tensor.info["rank"]])
        assert order == tuple(expected.dim_order())
        in_memory = expected.permute(order).contiguous().numpy()
        output = np.frombuffer(tensor.data, in_memory.dtype).reshape(in_memory.shape)
        check_equal(output, in_memory, f"output {number} of the firmware")
        check_equal(computed, expected.numpy(), f"output {number} of the reference")


def run_all(run_program: RunProgram, layers: Sequence[Any], inputs: Sequence[Any]) -> Exported:
    """Run every layer on every input, in one program, and compare with the host."""
    modules = nn.ModuleList(layers).eval()
    exported = export(lambda *values: tuple(layer(value) for value in values for layer in modules), tuple(inputs))
    check_floats(run_program, exported)
    return exported


def test_average_pools_equal_the_host(run_program: RunProgram) -> None:
    pools = [
        nn.AvgPool2d(4),
        nn.AvgPool2d((2, 7), stride=(5, 3)),
        nn.AvgPool2d(1),
        nn.AvgPool2d(3, stride=2, padding=1),
        nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.AvgPool2d((5, 4), stride=4, padding=(2, 1), ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(5, stride=4, padding=2, count_include_pad=False),
        nn.AvgPool2d(3, divisor_override=7),
        nn.AvgPool2d(3, padding=1, divisor_override=-2, ceil_mode=True),
        nn.AvgPool2d((9, 11)),
    ]
    run_all(run_program, pools, (odd_values(2, 3, 9, 11, share=0.03), odd_values(5, 14, 13, share=0.03, seed=6)))


def test_max_pools_and_their_indices_equal_the_host(run_program: RunProgram) -> None:
    def both(image: Any, plain: Any) -> Any:
        pool = torch.nn.functional.max_pool2d
        outputs: list[Any] = []
        for x in (image, plain):
            outputs += [
                pool(x, 4),
                pool(x, (2, 5), (4, 3)),
                pool(x, 1),
                pool(x, 3, 2, 1),
                pool(x, 3, 2, 1, ceil_mode=True),
                pool(x, (3, 2), 1, (1, 0), (2, 3)),
                pool(x, 3, 4, 1, 2, ceil_mode=True),
                *pool(x, 5, 4, 2, return_indices=True),
                *pool(x, (3, 4), (2, 5), 1, ceil_mode=True, return_indices=True),
            ]
        return tuple(outputs)

    exported = export(both, (odd_values(2, 3, 9, 11), odd_values(4, 13, 10, seed=6)))
    assert any(output.dtype == torch.int64 for output in exported.outputs)
    check_floats(run_program, exported)


def test_channels_last_pools_equal_contiguous_ones(run_program: RunProgram) -> None:
    image = odd_values(2, 6, 9, 11, share=0.03)
    layers = nn.ModuleList([nn.AvgPool2d(4, padding=1), nn.MaxPool2d(5, stride=4), nn.BatchNorm2d(6, affine=False)])

    def each(x: Any) -> Any:
        return tuple(layer(x) for layer in layers.eval())

    # Upstream's average pool and batch norm refuse this layout; what they would give is what they give for the other.
    last = export(each, (image.to(memory_format=torch.channels_last),), run=False)
    plain = export(each, (image,))
    tensors = run_program(last).tensors()
    assert len(tensors) == 3
    assert any(tuple(tensor.info["dim_order"][:4]) == (0, 2, 3, 1) for tensor in tensors)
    for tensor, expected in zip(tensors, plain.outputs, strict=True):
        check_equal(np.ascontiguousarray(tensor.array), expected.contiguous().numpy(), str(tensor.info))


def test_pools_of_one_dimension_equal_the_host(run_program: RunProgram) -> None:
    pools = [nn.MaxPool1d(2), nn.MaxPool1d(5, stride=3, padding=2, dilation=2), nn.AvgPool1d(4), nn.AvgPool1d(3, 2, 1)]
    run_all(run_program, pools, (odd_values(2, 5, 31), odd_values(3, 24)))


def test_shapes_gain_and_lose_dimensions(run_program: RunProgram) -> None:
    exported = export(
        lambda x: (torch.squeeze(x.unsqueeze(2), 2), torch.squeeze(x.unsqueeze(-1), (-1, 0)), x.unsqueeze(-4)),
        (odd_values(3, 1, 5),),
    )
    check_floats(run_program, exported)


def test_means_equal_the_host(run_program: RunProgram) -> None:
    def means(x: Any) -> Any:
        dimensions: list[Any] = [-1, (2, 3), 1, (3, 0), 0, (1, -1)]
        means = [x.mean(axes, keepdim=True) for axes in dimensions]
        return (*means, *(x.mean(axes) for axes in dimensions), x.mean(()))

    exported = export(means, (odd_values(3, 5, 17, 23, share=0.002),))
    check_floats(run_program, exported)


def test_bilinear_interpolations_equal_the_host(run_program: RunProgram) -> None:
    layers = [
        nn.Upsample(scale_factor=2.0, mode="bilinear"),
        nn.Upsample(scale_factor=(1.7, 0.6), mode="bilinear"),
        nn.Upsample(size=(3, 21), mode="bilinear"),
        nn.Upsample(size=(9, 7), mode="bilinear", align_corners=True),
        nn.Upsample(size=(1, 1), mode="bilinear", align_corners=True),
        nn.Upsample(size=(5, 7), mode="bilinear"),
    ]
    run_all(run_program, layers, (odd_values(2, 3, 5, 7, share=0.03), odd_values(1, 2, 5, 3, share=0.0, seed=6)))


def make_norm(kind: Any, channels: int, seed: int, *, affine: bool = True, eps: float = 1e-5) -> Any:
    """Return a batch norm with variances that are ordinary, huge, tiny, 0, infinite, NaN and (never real) negative."""
    generator = torch.Generator().manual_seed(seed)
    norm = kind(channels, affine=affine, eps=eps)
    norm.running_mean = torch.randn(channels, generator=generator) * 3
    norm.running_var = torch.exp(torch.randn(channels, generator=generator) * 4)
    odd = torch.tensor([0.0, 1e-42, 3e38, float("inf"), float("nan"), -3.0, -1e-6])
    norm.running_var[: min(channels, 7)] = odd[:channels]
    if affine:
        norm.weight.data = torch.randn(channels, generator=generator)
        norm.bias.data = torch.randn(channels, generator=generator)
    return norm.eval()


def test_batch_norms_equal_the_host(run_program: RunProgram) -> None:
    flat = [make_norm(nn.BatchNorm1d, 60, 1), make_norm(nn.BatchNorm1d, 60, 2, affine=False, eps=0.3)]
    exported = run_all(run_program, flat, (odd_values(7, 60), odd_values(3, 60, 17)))
    assert not all(torch.isnan(output).all() for output in exported.outputs)
    torch_differs = [layer(value) for value in (odd_values(7, 60), odd_values(3, 60, 17)) for layer in flat]
    assert any(
        not np.array_equal(a.detach().numpy(), b.numpy(), equal_nan=True)
        for a, b in zip(torch_differs, exported.outputs, strict=True)
    ), "torch's own operator agrees too: these values test nothing"
    run_all(run_program, [make_norm(nn.BatchNorm2d, 9, 3, eps=1e-3)], (odd_values(3, 9, 7, 5), odd_values(1, 9, 1, 1)))


@pytest.mark.parametrize(
    ("operator", "layer", "dtype"),
    [
        ("avg_pool2d", nn.AvgPool2d(2), torch.int64),
        ("max_pool2d", nn.MaxPool2d(2), torch.int64),
        ("batch_norm", nn.BatchNorm2d(3).double().eval(), torch.float64),
    ],
)
def test_other_types_are_refused_by_name(run_program: RunProgram, operator: str, layer: Any, dtype: Any) -> None:
    exported = export(layer, (torch.ones(1, 3, 4, 4, dtype=dtype),), run=False)
    run_program(exported).check_error(ErrorKind.KERNEL, "is not supported", operator)
