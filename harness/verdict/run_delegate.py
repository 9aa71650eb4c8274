"""One delegate on the functional NPU, without a board: inputs in, outputs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ethos_hil.harness.npu import Execution, Npu
from ethos_hil.harness.npu.npu import Observer
from ethos_hil.lowering.formats.vela_blob import VelaBlob

# How Ethos-U programs of ExecuTorch address memory: region 0 the constants, region 1 the scratch area, region 2 fast
# memory, which the runtime has and a delegate does not say the size of.
_WEIGHTS, _SCRATCH, _FAST = 0, 1, 2
_POISON = 0x5A  # memory nobody wrote; zeros would hide reads of it


@dataclass(frozen=True)
class DelegateResult:
    """Raw bytes of each output, and what the NPU says of the run."""

    outputs: tuple[bytes, ...]
    execution: Execution


def run_delegate(npu: Npu, blob: VelaBlob, inputs: Sequence[bytes], observe: Observer | None = None) -> DelegateResult:
    """Execute a delegate blob on `npu`.

    Args:
        npu: of the configuration the blob was compiled for.
        blob: the delegate.
        inputs: raw bytes of each input, as the delegate's first arguments lie in memory.
        observe: is called after each operation, as `Npu.run` does.

    Raises:
        Fault: the command stream is not one the NPU can execute.
        ValueError: wrong number of inputs, or of bytes in one.
    """
    scratch = np.full(blob.scratch_size, _POISON, np.uint8)
    for place, data in zip(blob.inputs, inputs, strict=True):
        if len(data) != place.size:
            raise ValueError(f"an input of {place.size} bytes was given {len(data)}")
        scratch[place.offset : place.offset + place.size] = np.frombuffer(data, np.uint8)
    program = npu.decode(blob.command_stream)
    regions = {_WEIGHTS: np.frombuffer(blob.weights, np.uint8), _SCRATCH: scratch}
    if _FAST in program.extents:
        fast = program.extents[_FAST]
        regions[_FAST] = np.full(max(fast.read_end, fast.write_end), _POISON, np.uint8)
    execution = npu.run(program, regions, observe=observe)
    outputs = tuple(scratch[place.offset : place.offset + place.size].tobytes() for place in blob.outputs)
    return DelegateResult(outputs, execution)
