"""Programs as users bring them from elsewhere: made by ExecuTorch's own flow, without our code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


class TwoHeads(nn.Module):
    """Its outputs have names; two of them lie deeper."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3)
        self.head = nn.Conv2d(4, 3, 1)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        features = torch.relu(self.stem(x))
        return {"mask": self.head(features), "class": {"logits": features.mean((2, 3)), "both": (features, -features)}}


NAMES = ("mask", "class.logits", "class.both.0", "class.both.1")


def inputs(count: int) -> list[tuple[torch.Tensor, ...]]:
    """Some input sets, always the same."""
    generator = torch.Generator().manual_seed(5)
    return [(torch.rand(1, 2, 8, 8, generator=generator),) for _ in range(count)]


def two_heads() -> tuple[nn.Module, tuple[torch.Tensor, ...], list[tuple[torch.Tensor, ...]]]:
    """A MODEL's function, in float, with inputs for the calibration."""
    torch.manual_seed(3)
    return TwoHeads(), inputs(1)[0], inputs(4)


def quantised() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A MODEL's function: the same, as the guide for PT2E quantises it."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    module, example, calibration = two_heads()
    quantiser = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantiser.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module.eval(), example).module(check_guards=False), quantiser)
    for entry in calibration:
        prepared(*entry)
    return convert_pt2e(prepared), example


def compiled(module: nn.Module, example: tuple[torch.Tensor, ...], *npus: str) -> Any:
    """ExecuTorch's program of a module; without an NPU all of it is on the CPU."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.exir import to_edge_transform_and_lower

    partitioner = [EthosUPartitioner(EthosUCompileSpec(npu)) for npu in npus]
    exported = torch.export.export(module, example)
    return to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()


def bundled(program: Any, module: nn.Module, input_sets: list[tuple[torch.Tensor, ...]], path: Path) -> None:
    """Write a .bpte whose test cases expect a module's outputs."""
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        answers = [[leaf.contiguous() for leaf in tree_leaves(module(*entry))] for entry in input_sets]
    pairs = zip(input_sets, answers, strict=True)
    cases = [MethodTestCase(inputs=list(entry), expected_outputs=answer) for entry, answer in pairs]
    suite = MethodTestSuite("forward", cases)
    path.write_bytes(serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, [suite])))


def write(folder: Path) -> None:
    """Write files that ExecuTorch alone made, and three input sets; floats.bpte expects a float module's answers."""
    module, example = quantised()
    program = compiled(module, example, "ethos-u55-128")
    (folder / "up.pte").write_bytes(program.buffer)
    sets = inputs(3)
    np.savez(folder / "x.npz", np.concatenate([entry[0].numpy() for entry in sets])[:, None])
    bundled(program, module, sets, folder / "up.bpte")
    bundled(program, two_heads()[0].eval(), sets, folder / "floats.bpte")
    bundled(compiled(nn.LeakyReLU(), example), nn.LeakyReLU(), sets, folder / "cpu.bpte")
