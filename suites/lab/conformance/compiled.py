"""Compiles TOSA graphs with Vela and runs tosa_reference_model: what the functional NPU is compared with."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_reference_model

from ethos_hil.harness.npu import Configuration, Execution, Npu, NpuProgram
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.silence_tools import quiet

Array = npt.NDArray[Any]

POISON = 0x5A  # what memory holds before a run, so that reading what nobody wrote shows
WEIGHTS, SCRATCH, FAST = 0, 1, 2  # Vela's regions: constants, the arena, and its fast part when there is one
TARGETS = NpuName.VALID
# The system of each family that ExecuTorch 1.4.1 compiles for by default, and the memory modes of Arm/vela.ini that
# Vela accepts with it, ExecuTorch's default first.
SYSTEMS = {"u55": "Ethos_U55_High_End_Embedded", "u65": "Ethos_U65_High_End", "u85": "Ethos_U85_SYS_DRAM_Mid"}
MODES = {
    "u55": ("Shared_Sram", "Sram_Only"),
    "u65": ("Dedicated_Sram_384KB", "Shared_Sram", "Sram_Only"),
    "u85": ("Sram_Only", "Shared_Sram", "Dedicated_Sram_384KB"),
}


class NotCompiledError(Exception):
    """Vela refuses a graph, or would leave a part of it to the CPU; says why."""


class NotComparableError(Exception):
    """tosa_reference_model has no defined answer; says why."""


@dataclass(frozen=True)
class Slot:
    """Where an input or output lies: bytes [offset, offset + size) of a region."""

    offset: int
    size: int
    region: int = SCRATCH

    def of(self, memory: dict[int, npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
        """A view of it."""
        return memory[self.region][self.offset : self.offset + self.size]


@dataclass(frozen=True)
class CompiledGraph:
    """What Vela made of a graph: everything a run needs.

    Attributes:
        npu: the configuration it was compiled for.
        mode: the memory mode.
        stream: the register command stream, without driver actions.
        weights: region 0.
        scratch_bytes: size of region 1.
        inputs: in the graph's order; they may share memory with outputs.
        outputs: likewise.
        listing: what Vela printed, with --verbose-register-command-stream its disassembly.
        fast_bytes: size of region 2, zero when there is none.
        database: Vela's debug database, with --enable-debug-db.
    """

    npu: str
    mode: str
    stream: bytes
    weights: npt.NDArray[np.uint8]
    scratch_bytes: int
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    listing: str
    fast_bytes: int = 0
    database: str = ""

    def program(self) -> NpuProgram:
        """The decoded stream."""
        return Npu(Configuration.parse(self.npu)).decode(self.stream)

    def memory(self, inputs: Sequence[Array]) -> dict[int, npt.NDArray[np.uint8]]:
        """Regions with poison everywhere but in weights and inputs (no inputs: all poison)."""
        memory = {WEIGHTS: self.weights, SCRATCH: np.full(self.scratch_bytes, POISON, np.uint8)}
        if self.fast_bytes:
            memory[FAST] = np.full(self.fast_bytes, POISON, np.uint8)
        for values, slot in zip(inputs, self.inputs, strict=bool(inputs)):
            slot.of(memory)[:] = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        return memory

    def run(self, inputs: Sequence[Array]) -> tuple[list[bytes], Execution]:
        """Executes on a fresh NPU that tolerates no hazards; the outputs' bytes."""
        npu = Npu(Configuration.parse(self.npu), strict=True)
        memory = self.memory(inputs)
        execution = npu.run(npu.decode(self.stream), memory)
        return [slot.of(memory).tobytes() for slot in self.outputs], execution


@contextlib.contextmanager
def standard_output(path: Path) -> Iterator[Path]:
    """Sends what this process prints, native code included, to a file meanwhile."""
    libc = ctypes.CDLL(None)
    saved = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield path
        finally:
            libc.fflush(None)
            os.dup2(saved, 1)
            os.close(saved)


def modes_of(npu: str) -> tuple[str, ...]:
    """The memory modes of a configuration, ExecuTorch's default first."""
    return MODES[NpuName.parse(npu).family]


def compile_graph(tosa: bytes, npu: str, *flags: str, mode: str | None = None) -> CompiledGraph:
    """Compiles with Vela, in this process; for the default memory mode unless `mode` names another.

    Raises NotCompiledError.
    """
    from ethosu.vela import vela

    mode = mode or modes_of(npu)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.tosa"
        path.write_bytes(tosa)
        arguments = [
            str(path),
            f"--accelerator-config={npu}",
            "--output-format=raw",
            "--config=Arm/vela.ini",
            f"--system-config={SYSTEMS[NpuName.parse(npu).family]}",
            f"--memory-mode={mode}",
            f"--output-dir={folder}",
            *flags,
        ]
        with standard_output(Path(folder) / "listing.txt") as listing:
            try:
                vela.main(arguments)
            except RuntimeError as error:
                raise NotCompiledError(" ".join(str(error).split())) from error
        database = Path(folder) / "graph_debug.xml"
        with np.load(Path(folder) / "graph_vela.npz", allow_pickle=False) as file:
            fast_bytes = int(file["scratch_fast_size"])
            regions = int(file["weight_region"]), int(file["scratch_region"]), int(file["scratch_fast_region"])
            assert regions[: 2 + bool(fast_bytes)] == (WEIGHTS, SCRATCH, FAST)[: 2 + bool(fast_bytes)], regions
            return CompiledGraph(
                npu,
                mode,
                register_stream(file["cmd_data"].tobytes()),
                np.frombuffer(file["weight_data"].tobytes(), np.uint8),
                int(file["scratch_size"]),
                _slots(file, "input"),
                _slots(file, "output"),
                listing.read_text(errors="replace"),
                fast_bytes,
                database.read_text() if database.exists() else "",
            )


def _slots(file: Any, kind: str) -> tuple[Slot, ...]:
    columns = (file[f"{kind}_{name}"] for name in ("offset", "shape", "elem_size", "region"))
    return tuple(
        Slot(int(offset), int(np.prod(shape)) * int(size), int(region))
        for offset, shape, size, region in zip(*columns, strict=True)
    )


def register_stream(command_data: bytes) -> bytes:
    """The register command stream among the driver actions of Vela's command data."""
    words = [int(word) for word in np.frombuffer(command_data, "<u4")]
    at = 1
    while words[at] & 0xFF != 2:
        at += 3 if words[at] & 0xFF == 1 else 1
    length = (words[at] >> 8 & 0xFF) << 16 | words[at] >> 16
    return command_data[(at + 1) * 4 : (at + 1 + length) * 4]


def reference_arrays(tosa: bytes, inputs: Sequence[Array]) -> list[Array]:
    """What tosa_reference_model makes of the graph. Raises NotComparableError unless it says that this is defined."""
    with quiet():
        outputs, status = tosa_reference_model.run(tosa, [np.ascontiguousarray(values) for values in inputs])
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        raise NotComparableError(f"the reference's status is {status.name}")
    return [np.ascontiguousarray(values) for values in outputs]


def reference(tosa: bytes, inputs: Sequence[Array]) -> list[bytes]:
    """The bytes of `reference_arrays`."""
    return [values.tobytes() for values in reference_arrays(tosa, inputs)]
