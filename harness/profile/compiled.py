"""What a delegate's command stream says, beside the rows of its delegate map: the common ground of costs, timeline and
data flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.memories import MemorySystem
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.npu import NpuProgram
from ethos_hil.harness.npu.isa.operations import Op
from ethos_hil.harness.npu.timing.kernel_cost import Cost, cost
from ethos_hil.harness.npu.timing.memory_system import MODES, memory_system
from ethos_hil.harness.profile.stream_parts import rows_of
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.lowering.map.rows import row_at
from ethos_hil.lowering.vela.ini import SystemConfiguration, VelaIni


@dataclass(frozen=True)
class CompiledDelegate:
    """A delegate's program, decoded, with the memories around its NPU.

    Attributes:
        delegate: as lowered.
        program: its command stream.
        rows: of the delegate map; one for each operation where there is no map.
        configuration: of the NPU.
        system: the memories.
        memories: Vela's names of the memories behind ports 0 and 1.
        ports: region -> port.
    """

    delegate: Delegate
    program: NpuProgram
    rows: tuple[NpuOp, ...]
    configuration: EthosU
    system: MemorySystem
    memories: tuple[str, str]
    ports: Mapping[int, int]

    @classmethod
    def of(cls, artifact: Artifact, delegate: Delegate, npu: EthosU, mode: DeviceMemoryMode) -> CompiledDelegate:
        """Return a delegate of an artifact that is run in a memory mode.

        Raises:
            Fault: its command stream cannot be decoded.
        """
        system = system_of(artifact, npu)
        program = NpuProgram(delegate.blob.command_stream, npu)
        return cls(
            delegate,
            program,
            rows_of(program, delegate.npu_ops),
            npu,
            memory_system(system, npu.family),
            (system.axi0.name, system.axi1.name),
            MODES[mode.name.title()],
        )

    def operations(self) -> Iterator[tuple[int, Op]]:
        """Yield each operation, with the index of its row. One behind the last row belongs to the last."""
        for op in self.program.ops:
            index = row_at(self.rows, op.offset)
            yield len(self.rows) - 1 if index is None else index, op

    def cost(self, op: Op) -> Cost:
        """Return the modelled cost of an operation alone."""
        return cost(op, self.configuration, self.system, self.ports)

    def memory(self, region: int) -> str:
        """Return the name of the memory that a region is in."""
        return self.memories[self.ports.get(region, 0)]


def system_of(artifact: Artifact, npu: EthosU) -> SystemConfiguration:
    """Return the system that an artifact is compiled for; where that is not known, the one that ExecuTorch chooses."""
    return artifact.system or VelaIni.shipped().system(npu.family.system.name, npu)
