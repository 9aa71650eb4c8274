"""Real programs, small ones: what the fuzzers start from, and what the virtual board gets to run damaged."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seed:
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


def seeds() -> tuple[Seed, ...]:
    """All programs."""
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

    class Branch(nn.Module):
        def forward(self, flag: Any, x: Any) -> Any:
            return torch.cond(
                flag, lambda value: value.to(torch.int32), lambda value: (value * 2).to(torch.int32), (x,)
            )

    class Loop(nn.Module):
        def forward(self, rows: Any, x: Any) -> Any:
            from torch._higher_order_ops.map import map as map_rows

            return map_rows(lambda row, other: row * other, rows, x)

    class Sandwich(nn.Module):
        """Two delegates with what the NPU cannot do between them."""

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

    return (
        Seed("layers", lambda: exported(layers, image)),
        Seed("branch", lambda: exported(Branch(), torch.tensor(True), torch.randn(4, 6))),
        Seed("loop", lambda: exported(Loop(), torch.randn(5, 6), torch.randn(6))),
        Seed("copies", lambda: exported(Copies(), torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))),
        Seed("add", lambda: delegated(Add(), *pair)),
        Seed("network", lambda: delegated(network, image)),
        Seed("segments", lambda: delegated(network, image, segments=True)),
        Seed("sandwich", lambda: delegated(Sandwich(), image)),
        Seed("network85", lambda: delegated(network, image, npu="ethos-u85-256"), "ethos-u85-256"),
        Seed("bundle", lambda: bundled(Add(), *pair), board=False),
    )


def exported(module: Any, *inputs: Any) -> bytes:
    """Without a delegate."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge

    importlib.import_module("executorch.kernels.quantized")  # registers quantize and dequantize's out variants
    program = torch.export.export(module.eval(), inputs)
    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    return bytes(edge.to_executorch().buffer)


def delegated(module: Any, *inputs: Any, npu: str = "ethos-u55-128", segments: bool = False) -> bytes:
    """Quantised, and compiled for an NPU; with its blobs in the flatbuffer or in segments behind it."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    spec = EthosUCompileSpec(npu)
    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(check_guards=False), quantizer)
    prepared(*inputs)
    edge = to_edge_transform_and_lower(
        torch.export.export(convert_pt2e(prepared), inputs),
        partitioner=[EthosUPartitioner(spec)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return bytes(edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=segments)).buffer)


def bundled(module: Any, *inputs: Any) -> bytes:
    """A .bpte with two test cases."""
    import torch
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from executorch.exir import to_edge

    program = to_edge(torch.export.export(module.eval(), inputs)).to_executorch()
    cases = [MethodTestCase(inputs=list(inputs), expected_outputs=[module(*inputs)]) for _ in range(2)]
    bundle = BundledProgram(program, [MethodTestSuite("forward", cases)])
    return bytes(serialize_from_bundled_program_to_flatbuffer(bundle))
