"""A delegate, or a network that Vela compiled, on the functional NPU: inputs in, outputs out. There is no board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu import Execution, Npu, NpuProgram
from ethos_hil.harness.npu.npu import Observer
from ethos_hil.harness.npu.timing.memory_system import DEFAULT_PORTS, MODES
from ethos_hil.lowering.formats.npu_network import CONSTANTS, NetworkTensor, NpuNetwork
from ethos_hil.lowering.formats.vela_blob import VelaBlob, VelaIo
from ethos_hil.lowering.vela.memory_mode import MemoryMode

# How Ethos-U programs of ExecuTorch address memory: region 0 has the constants, region 1 the scratch area, region 2 the
# fast memory of the runtime; a delegate does not state the size of region 2.
WEIGHTS, SCRATCH, FAST = 0, 1, 2
POISON = 0x5A  # fills memory that nothing has written; zeros would hide reads of it
Memory = dict[int, npt.NDArray[np.uint8]]


@dataclass(frozen=True)
class DelegateResult:
    """Raw bytes of each output, and the NPU's report of the run."""

    outputs: tuple[bytes, ...]
    execution: Execution


def run_delegate(
    npu: Npu,
    blob: VelaBlob,
    inputs: Sequence[bytes],
    observe: Observer | None = None,
    *,
    program: NpuProgram | None = None,
    ports: Mapping[int, int] = DEFAULT_PORTS,
) -> DelegateResult:
    """Execute a delegate blob on `npu`.

    Args:
        npu: a simulated NPU in the configuration that the blob was compiled for.
        blob: the delegate.
        inputs: raw bytes of each input, in the memory order of the delegate's first arguments.
        observe: called after each operation, as in `Npu.run`.
        program: the blob's command stream, if it is decoded already.
        ports: of each region, as in `Npu.run`.

    Raises:
        Fault: the NPU cannot execute the command stream.
        ValueError: the number of inputs, or of bytes in one, is wrong.
    """
    program = program or npu.decode(blob.command_stream)
    weights = np.frombuffer(blob.weights, np.uint8)
    memory = regions(weights, blob.scratch_size, program.used(FAST), blob.inputs, inputs)
    execution = npu.run(program, memory, ports, observe)
    return DelegateResult(tuple(place.of(memory[SCRATCH]).tobytes() for place in blob.outputs), execution)


def regions(
    weights: npt.NDArray[np.uint8],
    scratch_bytes: int,
    fast_bytes: int,
    places: Sequence[VelaIo],
    inputs: Sequence[bytes],
) -> dict[int, npt.NDArray[np.uint8]]:
    """Return the memory of a delegate before a run, by region: its constants, its inputs, and POISON everywhere else.

    Args:
        weights: the constants.
        scratch_bytes: size of the scratch area.
        fast_bytes: size of the fast memory; 0 for none.
        places: the places of the inputs in the scratch area.
        inputs: raw bytes of each input.

    Raises:
        ValueError: the number of inputs, or of bytes in one, is wrong.
    """
    memory = {WEIGHTS: weights, SCRATCH: np.full(scratch_bytes, POISON, np.uint8)}
    if fast_bytes:
        memory[FAST] = np.full(fast_bytes, POISON, np.uint8)
    for place, data in zip(places, inputs, strict=True):
        if len(data) != place.size:
            raise ValueError(f"an input of {place.size} bytes was given {len(data)}")
        place.of(memory[SCRATCH])[:] = np.frombuffer(data, np.uint8)
    return memory


class NetworkMemory:
    """The memory of a file's operators, which what is in it outlives: one may read what another left, and so may the
    next inference.
    """

    def __init__(self, networks: Sequence[NpuNetwork]) -> None:
        """Set the states of all networks to what means 0, and POISON everywhere else."""
        sizes = [(network.origin + network.memory[SCRATCH], network.memory.get(FAST, 0)) for network in networks]
        self._arena, self._fast = (np.full(max(ends), POISON, np.uint8) for ends in zip(*sizes, strict=True))
        for network in networks:
            memory = self.regions(network)
            for state in network.states:
                zeros = np.full(state.shape, state.zero, state.dtype)
                _place(memory, state)[:] = np.frombuffer(zeros.tobytes(), np.uint8)

    def regions(self, network: NpuNetwork) -> Memory:
        """Return what a network sees of it, by region, and its constants."""
        seen = {CONSTANTS: np.frombuffer(network.weights, np.uint8)}
        seen[SCRATCH] = self._arena[network.origin : network.origin + network.memory[SCRATCH]]
        if FAST in network.memory:
            seen[FAST] = self._fast[: network.memory[FAST]]
        return seen


def _place(memory: Memory, tensor: NetworkTensor) -> npt.NDArray[np.uint8]:
    return memory[tensor.region][tensor.offset : tensor.offset + tensor.nbytes]


class NetworkRunner:
    """A network with its memory, which keeps states from one inference to the next."""

    def __init__(
        self,
        network: NpuNetwork,
        *,
        mode: MemoryMode | None = None,
        strict: bool = False,
        memory: NetworkMemory | None = None,
    ) -> None:
        """Decode the network.

        Args:
            network: the network.
            mode: the memory mode that it was compiled for, which only its cycles depend on; ExecuTorch's default for
                the NPU if None.
            strict: whether a missing wait is a fault.
            memory: of all networks of its file; by default its own.

        Raises:
            Fault: the command stream cannot be decoded.
        """
        self.network = network
        self.mode = mode or MemoryMode.default(network.npu)
        self._npu = Npu(network.npu, strict=strict)
        self.program: NpuProgram = self._npu.decode(network.stream)
        self._memory = (memory or NetworkMemory((network,))).regions(network)

    def run(self, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], Execution]:
        """Return the outputs of an inference, and the NPU's report.

        Args:
            inputs: arrays of the inputs' shapes and types.

        Raises:
            Fault: the NPU cannot execute the command stream.
            ValueError: an input is missing, or has another shape or type.
        """
        for tensor, array in zip(self.network.inputs, inputs, strict=True):
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise ValueError(f"{tensor.name} is {tensor}, given is {array.dtype}{list(array.shape)}")
            _place(self._memory, tensor)[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        execution = self._npu.run(self.program, self._memory, MODES[self.mode.kind])
        outputs = [
            _place(self._memory, tensor).view(tensor.dtype).reshape(tensor.shape).copy()
            for tensor in self.network.outputs
        ]
        return outputs, execution
