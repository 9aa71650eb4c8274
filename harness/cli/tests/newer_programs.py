"""Programs of kinds that newer ExecuTorch makes, each in a folder with the .ptd files that belong to it.

ExecuTorch alone makes them, without our code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

FLASH, DRAM = "flash", "dram"
"""How the user tags what is to be outside of a program."""
STATE = torch.arange(1.0, 9.0)
LARGE = 1 << 20
"""Elements of a tensor that no SRAM has room for."""


class Keeps(nn.Module):
    """A buffer that starts with some values, and one that starts with zeros."""

    cache: torch.Tensor
    other: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", STATE.clone())
        self.register_buffer("other", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.cache.add_(x)
        self.other.sub_(x)
        return self.cache * 2, self.other * 2


class Mixes(nn.Module):
    def forward(self, a: torch.Tensor) -> torch.Tensor:
        b = a + a
        c = a * b
        return c * (c + b)


def write(folder: Path) -> None:
    """Write all of them."""
    from executorch.backends.arm.ethosu.compile_spec import VelaExternalBlockPlacements
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    weights = VelaExternalBlockPlacements(weight_data=DRAM)
    both = VelaExternalBlockPlacements(cmd_data=FLASH, weight_data=DRAM)
    inline = ExecutorchBackendConfig(extract_delegate_segments=False)
    direct = ["--separate-io-regions", "--cop-format=COP2"]
    keep = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["cache"])])
    vector = (torch.linspace(-2, 2, 8),)
    programs = {
        "whole": _delegated("ethos-u55-128"),
        "weights": _delegated("ethos-u55-128", external_block_placements=weights),
        "both": _delegated("ethos-u55-128", external_block_placements=both, config=inline),
        "direct": _delegated("ethos-u85-256", extra_flags=direct),
        "constants": _on_cpu(nn.Linear(8, 4), vector, ExecutorchBackendConfig(external_constants=True)),
        "initial": _on_cpu(Keeps(), vector, keep),
        "pools": _on_cpu(Mixes(), vector, _in_pools()),
        "large": _on_cpu(Mixes(), (torch.ones(LARGE),), _in_pools()),
    }
    for name, program in programs.items():
        (folder / name).mkdir()
        (folder / name / "net.pte").write_bytes(program.buffer)
        program.write_tensor_data_to_file(str(folder / name))
    _derive(folder)


def _delegated(npu: str, config: Any = None, **specification: Any) -> Any:
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(1)
    module, inputs = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), (torch.randn(1, 3, 8, 8),)
    spec = EthosUCompileSpec(npu, **specification)
    quantiser = EthosUQuantizer(spec)
    quantiser.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(check_guards=False), quantiser)
    prepared(*inputs)
    exported = torch.export.export(convert_pt2e(prepared), inputs)
    return to_edge_transform_and_lower(exported, partitioner=[EthosUPartitioner(spec)]).to_executorch(config)


def _on_cpu(module: nn.Module, inputs: tuple[torch.Tensor, ...], config: Any) -> Any:
    from executorch.exir import to_edge

    return to_edge(torch.export.export(module.eval(), inputs)).to_executorch(config)


def _in_pools() -> Any:
    """Plan the sums in memory 3, FAST_MEMORY, as backends/arm/test/assets/export_memory_planning_mem_id_3.py does."""
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    class InPools(MemoryPlanningPass):
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            for node in graph_module.graph.nodes:
                if node.op == "placeholder" or node.target == torch.ops.aten.mul.out:
                    node.meta["spec"].mem_id = 1
                elif node.target == torch.ops.aten.add.out:
                    node.meta["spec"].mem_id = 3
            return super().run(graph_module, graph_signature)

    return ExecutorchBackendConfig(memory_planning_pass=InPools())


def _edited(source: Path, edit: Callable[[Any], None], folder: Path) -> None:
    """Write what upstream makes of its own object of a program after `edit`."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    folder.mkdir()
    file = deserialize_pte_binary(source.read_bytes())
    edit(file)
    (folder / "net.pte").write_bytes(bytes(serialize_pte_binary(file)))


def _derive(folder: Path) -> None:
    """Write programs that no flow of upstream's makes for an Ethos-U, but its format has."""
    from executorch.exir import schema
    from executorch.exir._serialize._cord import Cord
    from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
    from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
    from executorch.exir.tensor_layout import TensorLayout
    from executorch.extension.flat_tensor.serialize import serialize

    ptd = serialize.FlatTensorSerializer()

    def tensors(file: Any) -> list[Any]:
        values = [value.val for value in file.program.execution_plan[0].values]
        return [value for value in values if isinstance(value, schema.Tensor)]

    def read_from_outside(file: Any) -> None:
        """Have the initial value in a .ptd, as that of a weight is that is trained on the device."""
        (tensor,) = [tensor for tensor in tensors(file) if tensor.data_buffer_idx and tensor.allocation_info]
        external = schema.TensorDataLocation.EXTERNAL
        tensor.data_buffer_idx, tensor.extra_tensor_info = 0, schema.ExtraTensorInfo(0, "cache", external)
        file.mutable_data, file.program.mutable_data_segments = None, []

    def take_in(file: Any) -> None:
        """Have what is beside the program as its own named data, where XNNPACK's backend has its weights."""
        beside = ptd.deserialize(Cord((folder / "weights" / f"{DRAM}.ptd").read_bytes()))
        for entry in beside.named_data.values():
            entry.alignment = 16
        file.named_data = NamedDataStoreOutput(list(beside.buffers), beside.named_data, {})

    def move_tensor(file: Any) -> None:
        tensors(file)[0].extra_tensor_info = schema.ExtraTensorInfo(device_type=schema.DeviceType.CUDA)

    def move_memory(file: Any) -> None:
        elsewhere = schema.NonConstBufferDevice(1, schema.DeviceType.CUDA, 0)
        file.program.execution_plan[0].non_const_buffer_device = [elsewhere]

    _edited(folder / "initial" / "net.pte", read_from_outside, folder / "variable")
    _edited(folder / "weights" / "net.pte", take_in, folder / "inside")
    _edited(folder / "pools" / "net.pte", move_tensor, folder / "tensor_elsewhere")
    _edited(folder / "pools" / "net.pte", move_memory, folder / "memory_elsewhere")
    trained = DataPayload([STATE.numpy().tobytes()], {"cache": DataEntry(0, 16, TensorLayout.from_tensor(STATE))})
    (folder / "variable" / "trained.ptd").write_bytes(bytes(ptd.serialize(trained)))
    with mock.patch.object(serialize, "_FLAT_TENSOR_VERSION", 1):
        (folder / "newer.ptd").write_bytes(bytes(ptd.serialize(trained)))
