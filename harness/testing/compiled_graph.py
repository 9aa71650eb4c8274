"""A TOSA graph as Vela compiled it, ready to run on the functional NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Execution, Npu, NpuProgram
from ethos_hil.harness.verdict.run_delegate import SCRATCH, regions
from ethos_hil.lowering.formats.vela_blob import VelaIo
from ethos_hil.lowering.vela.compiler import flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class CompiledGraph:
    """What Vela made of a graph: everything a run needs. Tests replace parts of it."""

    npu: str  # the configuration it was compiled for
    mode: str  # the memory mode
    stream: bytes  # the register command stream, without driver actions
    weights: npt.NDArray[np.uint8]  # region 0
    scratch_bytes: int  # size of region 1
    inputs: tuple[VelaIo, ...]  # in the graph's order, all in region 1; they may share memory with outputs
    outputs: tuple[VelaIo, ...]
    listing: str  # what Vela printed, with --verbose-register-command-stream its disassembly
    fast_bytes: int = 0  # size of region 2, zero when there is none
    database: str = ""  # Vela's debug database, with --enable-debug-db

    def program(self) -> NpuProgram:
        """The decoded stream."""
        return Npu(EthosU.parse(self.npu)).decode(self.stream)

    def memory(self, inputs: Sequence[Array]) -> dict[int, npt.NDArray[np.uint8]]:
        """Regions with poison everywhere but in weights and inputs (no inputs: all poison)."""
        data = [np.ascontiguousarray(values).tobytes() for values in inputs]
        return regions(self.weights, self.scratch_bytes, self.fast_bytes, self.inputs if inputs else (), data)

    def run(self, inputs: Sequence[Array]) -> tuple[list[bytes], Execution]:
        """Executes on a fresh NPU that tolerates no hazards; the outputs' bytes."""
        npu = Npu(EthosU.parse(self.npu), strict=True)
        memory = self.memory(inputs)
        execution = npu.run(npu.decode(self.stream), memory)
        return [place.of(memory[SCRATCH]).tobytes() for place in self.outputs], execution


def modes_of(npu: str) -> tuple[str, ...]:
    """The memory modes to try on a configuration, one of each kind, ExecuTorch's default first."""
    return tuple(mode.name for mode in MemoryMode.one_of_each_kind(EthosU.parse(npu)))


def compile_graph(tosa: bytes, npu: str, *more: str, mode: str | None = None) -> CompiledGraph:
    """Compiles a graph with Vela, in this process.

    Args:
        tosa: the graph's flatbuffer.
        npu: the configuration, as "ethos-u55-128".
        more: further arguments of Vela.
        mode: the memory mode; ExecuTorch's default for the NPU when it is None.

    Raises:
        VelaRefusal: the NPU cannot run the graph; CompileError: Vela fails in another way.
    """
    name = EthosU.parse(npu)
    chosen = MemoryMode.chosen(mode, name)
    output = run_vela(tosa, [*flags(name, chosen), *more])
    blob = output.parsed
    assert {place.region for place in (*blob.inputs, *blob.outputs)} == {SCRATCH}, blob
    return CompiledGraph(
        npu, chosen.name, blob.command_stream, np.frombuffer(blob.weights, np.uint8), blob.scratch_size,
        blob.inputs, blob.outputs, output.listing, output.fast_bytes, output.database,
    )  # fmt: skip
