"""A network that Vela compiled, on the functional NPU: inputs in, outputs out. There is no board and no reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu import Execution, Npu, NpuProgram
from ethos_hil.harness.npu.timing.memory_system import MODES
from ethos_hil.harness.verdict.run_delegate import POISON
from ethos_hil.lowering.formats.npu_network import CONSTANTS, NetworkTensor, NpuNetwork
from ethos_hil.lowering.vela.memory_mode import MemoryMode

Memory = dict[int, npt.NDArray[np.uint8]]


class NetworkRunner:
    """A network with its memory, which keeps states from one inference to the next."""

    def __init__(self, network: NpuNetwork, *, mode: MemoryMode | None = None, strict: bool = False) -> None:
        """Decode the network, and set its states to what means 0.

        Args:
            network: the network.
            mode: the memory mode that it was compiled for, which only its cycles depend on; ExecuTorch's default for
                the NPU if None.
            strict: whether a missing wait is a fault.

        Raises:
            Fault: the command stream cannot be decoded.
        """
        self.network = network
        self.mode = mode or MemoryMode.default(network.npu)
        self._npu = Npu(network.npu, strict=strict)
        self.program: NpuProgram = self._npu.decode(network.stream)
        self._memory: Memory = {
            **{region: np.full(size, POISON, np.uint8) for region, size in network.memory.items()},
            CONSTANTS: np.frombuffer(network.weights, np.uint8),
        }
        for state in network.states:
            self._place(state)[:] = np.frombuffer(np.full(state.shape, state.zero, state.dtype).tobytes(), np.uint8)

    def run(self, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], Execution]:
        """Return the outputs of an inference, and the NPU's report.

        Args:
            inputs: arrays of the inputs' shapes and types.

        Raises:
            Fault: the NPU cannot execute the command stream.
            ValueError: an input is missing, or has another shape or type.
        """
        for tensor, given in zip(self.network.inputs, inputs, strict=True):
            if given.shape != tensor.shape or given.dtype != tensor.dtype:
                raise ValueError(f"{tensor.name} is {tensor}, given is {given.dtype}{list(given.shape)}")
            self._place(tensor)[:] = np.frombuffer(np.ascontiguousarray(given).tobytes(), np.uint8)
        execution = self._npu.run(self.program, self._memory, MODES[self.mode.kind])
        outputs = [
            self._place(tensor).view(tensor.dtype).reshape(tensor.shape).copy() for tensor in self.network.outputs
        ]
        return outputs, execution

    def _place(self, tensor: NetworkTensor) -> npt.NDArray[np.uint8]:
        return self._memory[tensor.region][tensor.offset : tensor.offset + tensor.nbytes]
