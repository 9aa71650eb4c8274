"""Programs as users bring them from elsewhere: made by ExecuTorch's own flow, without our code."""

from __future__ import annotations

from collections.abc import Mapping
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


class Mixed(nn.Module):
    """Two inputs and two outputs of different scales."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + y, torch.sigmoid(x * y)


def pairs(count: int) -> list[tuple[torch.Tensor, ...]]:
    """Some input sets of `Mixed`, always the same."""
    generator = torch.Generator().manual_seed(7)
    return [
        (torch.rand(1, 6, 5, generator=generator) * 4 - 1, torch.rand(1, 6, 5, generator=generator) * 3)
        for _ in range(count)
    ]


def in_integers(npu: str) -> tuple[Any, nn.Module, Mapping[str, Any]]:
    """A program whose first input and both outputs are int8, the quantised module that it was made from, which has
    floats there, and what upstream notes of the conversions that it takes away.
    """
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    spec, sets = EthosUCompileSpec(npu), pairs(4)
    quantiser = EthosUQuantizer(spec)
    quantiser.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(Mixed(), sets[0]).module(check_guards=False), quantiser)
    for entry in sets:
        prepared(*entry)
    module = convert_pt2e(prepared)
    exported = torch.export.export(module, sets[0])
    manager = to_edge_transform_and_lower(exported, partitioner=[EthosUPartitioner(spec)])
    manager = manager.transform([QuantizeInputs(manager, [0]), QuantizeOutputs(manager, [0, 1])])
    return manager.to_executorch(), module, manager._config_methods


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
    _write_integers(folder)


def _write_integers(folder: Path) -> None:
    """Write int8.pte, three input sets in real numbers, and what PyTorch's quantised module answers; and a .bpte of
    them.
    """
    program, module, noted = in_integers("ethos-u55-128")
    (folder / "int8.pte").write_bytes(program.buffer)
    sets = pairs(3)

    def quantised(tensor: torch.Tensor, name: str) -> torch.Tensor:
        numbers = [noted[f"{name}_{what}"] for what in ("scale", "zp", "quant_min", "quant_max")]
        return torch.ops.quantized_decomposed.quantize_per_tensor(tensor, *numbers, torch.int8)

    class InIntegers(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            scale, zero = noted["input0_scale"], noted["input0_zp"]
            answers = module((x.to(torch.float32) - zero) * scale, y)
            return tuple(quantised(answer, f"output{at}") for at, answer in enumerate(answers))

    with torch.no_grad():
        answers = [module(*entry) for entry in sets]
    integers: list[tuple[torch.Tensor, ...]] = [(quantised(x, "input0"), y) for x, y in sets]
    for name, entries in {"real": sets, "real_y": answers, "int8": integers}.items():
        columns = {f"{name}_{at}": np.stack([entry[at].numpy() for entry in entries]) for at in range(2)}
        np.savez(folder / f"{name}.npz", **columns)
    bundled(program, InIntegers(), integers, folder / "int8.bpte")
    _without_scales(folder / "int8.pte", folder / "scaleless.pte")


def _without_scales(source: Path, path: Path) -> None:
    """Write a program without the methods that state its scales."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    file = deserialize_pte_binary(source.read_bytes())
    file.program.execution_plan = [plan for plan in file.program.execution_plan if plan.name == "forward"]
    path.write_bytes(bytes(serialize_pte_binary(file)))
