"""A model in int8 on this computer's processor: quantised and lowered for ExecuTorch's XNNPACK backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.conditions.silence_tools import quiet
from ethos_hil.lowering.upstream.names.operators import use_threads
from ethos_hil.lowering.upstream.process import import_executorch

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.model import Method

_DELEGATES = {"executorch_call_delegate", "getitem"}


@dataclass(frozen=True)
class XnnpackProgram:
    """A program of which XNNPACK computes everything.

    Attributes:
        pte: the program.
    """

    pte: bytes

    @classmethod
    def of(cls, model: Method) -> XnnpackProgram:
        """Quantise and lower a float model, weights per channel.

        Raises:
            ToolError: an operator is left to other kernels.
        """
        import torch

        with quiet(), torch.no_grad():
            import_executorch()
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
            from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
            from executorch.exir import to_edge_transform_and_lower
            from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

            how = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
            quantiser = xnnpack_quantizer.XNNPACKQuantizer().set_global(how)
            prepared = prepare_pt2e(torch.export.export(model.module, model.example_inputs).module(), quantiser)
            for inputs in model.calibration_inputs:
                prepared(*inputs)
            quantised = torch.export.export(convert_pt2e(prepared), model.example_inputs)
            edge = to_edge_transform_and_lower(quantised, partitioner=[XnnpackPartitioner()])
            called = [node.target for node in edge.exported_program().graph.nodes if node.op == "call_function"]
            left = [str(target) for target in called if getattr(target, "__name__", "") not in _DELEGATES]
            if left:
                raise ToolError(f"XNNPACK does not take {', '.join(left)}")
            return cls(bytes(edge.to_executorch().buffer))

    def loaded(self, threads: int) -> LoadedXnnpack:
        """Return the program, ready to compute with so many threads. One that was loaded before must not run again."""
        with quiet():
            from executorch.runtime import Runtime

            use_threads(threads)
            program = Runtime.get().load_program(self.pte)
            return LoadedXnnpack(program, program.load_method("forward"))


@dataclass(frozen=True)
class LoadedXnnpack:
    """A program in memory."""

    program: object
    """Has the bytes that the method computes with."""
    method: object

    def answer(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return output 0."""
        output: torch.Tensor = self.method.execute(inputs)[0]  # type: ignore[attr-defined]
        return output
