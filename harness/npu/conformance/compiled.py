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

from harness.npu import Configuration, Execution, Npu, Program

Array = npt.NDArray[Any]

POISON = 0x5A  # what memory holds before a run, so that reading what nobody wrote shows
VELA_FLAGS = (
    "--output-format=raw",
    "--config=Arm/vela.ini",
    "--system-config=Ethos_U55_High_End_Embedded",
    "--memory-mode=Shared_Sram",
)


@dataclass(frozen=True)
class Compiled:
    """What Vela made of a graph: everything a run needs."""

    npu: str
    stream: bytes
    weights: Array
    scratch_bytes: int
    input_offsets: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]  # offset, bytes
    listing: str

    def program(self) -> Program:
        """The decoded stream."""
        return Npu(Configuration.parse(self.npu)).decode(self.stream)

    def memory(self, inputs: Sequence[Array]) -> dict[int, npt.NDArray[np.uint8]]:
        """Regions with poison everywhere but in weights and inputs (no inputs: all poison)."""
        scratch = np.full(self.scratch_bytes, POISON, np.uint8)
        for values, offset in zip(inputs, self.input_offsets, strict=bool(inputs)):
            raw = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            scratch[offset : offset + raw.size] = raw
        return {0: self.weights, 1: scratch}

    def run(self, inputs: Sequence[Array]) -> tuple[list[bytes], Execution]:
        """Executes on a fresh NPU; the outputs' bytes."""
        npu = Npu(Configuration.parse(self.npu))
        memory = self.memory(inputs)
        execution = npu.run(npu.decode(self.stream), memory)
        return [memory[1][offset : offset + size].tobytes() for offset, size in self.outputs], execution


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


def compile_graph(tosa: bytes, npu: str, *flags: str) -> Compiled:
    """Compiles with Vela, in this process."""
    from ethosu.vela import vela

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.tosa"
        path.write_bytes(tosa)
        with standard_output(Path(folder) / "listing.txt") as listing:
            vela.main([str(path), f"--accelerator-config={npu}", *VELA_FLAGS, f"--output-dir={folder}", *flags])
        with np.load(Path(folder) / "graph_vela.npz", allow_pickle=False) as file:
            sizes = [
                (int(offset), int(np.prod(shape)) * int(size))
                for offset, shape, size in zip(
                    file["output_offset"], file["output_shape"], file["output_elem_size"], strict=True
                )
            ]
            return Compiled(
                npu,
                register_stream(file["cmd_data"].tobytes()),
                np.frombuffer(file["weight_data"].tobytes(), np.uint8),
                int(file["scratch_shape"][0]),
                tuple(int(offset) for offset in file["input_offset"]),
                tuple(sizes),
                listing.read_text(),
            )


def register_stream(command_data: bytes) -> bytes:
    """The register command stream among the driver actions of Vela's command data."""
    words = [int(word) for word in np.frombuffer(command_data, "<u4")]
    at = 1
    while words[at] & 0xFF != 2:
        at += 3 if words[at] & 0xFF == 1 else 1
    length = (words[at] >> 8 & 0xFF) << 16 | words[at] >> 16
    return command_data[(at + 1) * 4 : (at + 1 + length) * 4]


def reference(tosa: bytes, inputs: Sequence[Array]) -> list[bytes]:
    """What tosa_reference_model makes of the graph; AssertionError unless it says that the result is defined."""
    outputs, status = tosa_reference_model.run(
        tosa, [np.ascontiguousarray(values) for values in inputs], initialize_variable_tensor_from_numpy=1
    )
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    return [np.ascontiguousarray(values).tobytes() for values in outputs]
