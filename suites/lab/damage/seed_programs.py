"""Small real programs. The fuzzers start from them, and the virtual board boots damaged copies of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.upstream.delegation import edge_config
from ethos_hil.lowering.upstream.names.operators import map_rows
from ethos_hil.lowering.upstream.toolchain import import_executorch


@dataclass(frozen=True)
class SeedProgram:
    """A program.

    Attributes:
        name: of its file.
        make: gives the file; importing torch and lowering take seconds.
        npu: what it is compiled for.
        board: the virtual board gets damaged ones too.
    """

    name: str
    make: Callable[[], bytes]
    npu: str = "ethos-u55-128"
    board: bool = True


def seeds() -> tuple[SeedProgram, ...]:
    """Return all programs."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    image = torch.randn(1, 3, 8, 8)
    pair = torch.randn(1, 4, 5), torch.randn(1, 4, 5)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 4))
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.AvgPool2d(2, padding=1), nn.Softmax(1))

    class Add(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    class BranchingNet(nn.Module):
        def forward(self, flag: Any, x: Any) -> Any:
            return torch.cond(
                flag, lambda value: value.to(torch.int32), lambda value: (value * 2).to(torch.int32), (x,)
            )

    class Loop(nn.Module):
        def forward(self, rows: Any, x: Any) -> Any:
            return map_rows(lambda row, other: row * other, rows, x)

    class Sandwich(nn.Module):
        """Two delegates, with an operator between them that the NPU cannot run."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3)

        def forward(self, x: Any) -> Any:
            return self.last(torch.erf(torch.sort(self.first(x), dim=1).values))

    class Copies(nn.Module):
        table: Any

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(24.0).reshape(2, 3, 4))

        def forward(self, x: Any, y: Any) -> Any:
            joined = torch.cat([x.transpose(1, 2), y.transpose(1, 2)])
            return joined.to(torch.int8), self.table.permute(2, 0, 1) + 1, x.to(memory_format=torch.channels_last)

    class Calls(nn.Module):
        """Operators in forms that the suites' first cases do not have."""

        def __init__(self, calls: Callable[[Any], Any]) -> None:
            super().__init__()
            self.calls = calls

        def forward(self, x: Any) -> Any:
            return self.calls(x)

    def quantise(x: Any) -> Any:
        # Registered by the import in `exported`.
        operators = torch.ops.quantized_decomposed
        outputs = []
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
            limits = torch.iinfo(dtype)
            parameters = (0.1, 0, limits.min, limits.max, dtype)
            quantised = operators.quantize_per_tensor(x, *parameters)
            outputs.append(operators.dequantize_per_tensor(quantised, *parameters))
        return outputs

    functions = nn.functional
    calls: dict[str, Callable[[Any], Any]] = {
        "splits": lambda x: (*x.split(3, 2), *x.split([1, 2], 1), *x.unbind(1)),
        "rounding": lambda x: [
            torch.div(value, other, rounding_mode=mode)
            for mode in ("trunc", "floor")
            for value, other in ((x, 3.0), (x, x + 9), (x.int(), 2), (x.int(), x.int() + 9))
        ],
        "pools": lambda x: (*functions.max_pool2d(x, 3, 2, 1, return_indices=True), functions.avg_pool2d(x, 2, 1)),
        "resizes": lambda x: (
            functions.interpolate(x, scale_factor=2.0, mode="nearest"),
            functions.interpolate(x, size=(5, 11), mode="bilinear"),
            functions.interpolate(x, size=(3, 1), mode="bilinear", align_corners=True),
        ),
        "limits": lambda x: (
            x.clamp(-1, 1),
            x.clamp(x - 1, x + 1),
            functions.gelu(x, approximate="tanh"),
            x.double() * 2,
        ),
        "scatters": lambda x: (torch.select_scatter(x, x[:, 0], 1, 1), torch.slice_scatter(x, x[:, :1], 1, 0, 1)),
        "quantise": quantise,
    }
    convolutions = {
        "conv": nn.Conv2d(3, 4, 3, stride=2, padding=1, dilation=2),
        "depthwise": nn.Conv2d(3, 6, 2, groups=3, bias=False),
        "transposed": nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1),
        "conv1d": nn.Sequential(nn.Flatten(1, 2), nn.Conv1d(24, 2, 3, padding=2)),
    }

    def exports(name: str, module: Any) -> SeedProgram:
        return SeedProgram(name, lambda: exported(module, image), board=False)

    return (
        *(exports(name, Calls(call)) for name, call in calls.items()),
        *(exports(name, module) for name, module in convolutions.items()),
        SeedProgram("layers", lambda: exported(layers, image)),
        SeedProgram("branch", lambda: exported(BranchingNet(), torch.tensor(True), torch.randn(4, 6))),
        SeedProgram("loop", lambda: exported(Loop(), torch.randn(5, 6), torch.randn(6))),
        SeedProgram("copies", lambda: exported(Copies(), torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))),
        SeedProgram("add", lambda: delegated(Add(), *pair)),
        SeedProgram("network", lambda: delegated(network, image)),
        SeedProgram("segments", lambda: delegated(network, image, segments=True)),
        SeedProgram("sandwich", lambda: delegated(Sandwich(), image)),
        SeedProgram("network85", lambda: delegated(network, image, npu="ethos-u85-256"), "ethos-u85-256"),
        SeedProgram("bundle", lambda: bundled(Add(), *pair), board=False),
    )


def exported(module: Any, *inputs: Any) -> bytes:
    """Return a program without a delegate."""
    import torch

    import_executorch()
    from executorch.exir import to_edge

    importlib.import_module("executorch.kernels.quantized")  # registers quantize and dequantize's out variants
    program = torch.export.export(module.eval(), inputs)
    edge = to_edge(program, compile_config=edge_config())
    return bytes(edge.to_executorch().buffer)


def delegated(module: Any, *inputs: Any, npu: str = "ethos-u55-128", segments: bool = False) -> bytes:
    """Return a quantised program for an NPU, its blobs in the flatbuffer or in segments behind it."""
    import torch

    import_executorch()
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    spec = EthosUCompileSpec(npu)
    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    edge = to_edge_transform_and_lower(
        torch.export.export(convert_pt2e(prepared), inputs),
        partitioner=[EthosUPartitioner(spec)],
        compile_config=edge_config(),
    )
    return bytes(edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=segments)).buffer)


def bundled(module: Any, *inputs: Any) -> bytes:
    """Return a .bpte with two test cases."""
    import torch
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from executorch.exir import to_edge

    program = to_edge(torch.export.export(module.eval(), inputs)).to_executorch()
    cases = [MethodTestCase(inputs=list(inputs), expected_outputs=[module(*inputs)]) for _ in range(2)]
    bundle = BundledProgram(program, [MethodTestSuite("forward", cases)])
    return bytes(serialize_from_bundled_program_to_flatbuffer(bundle))
