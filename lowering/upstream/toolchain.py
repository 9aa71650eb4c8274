"""What lowers a model: ExecuTorch's Arm backend, to TOSA alone or on to an Ethos-U."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.artifact import Delegate
from ethos_hil.lowering.errors import CompileError
from ethos_hil.lowering.formats.pte_model import ExecutionPlan
from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.scheme import Scheme
from ethos_hil.lowering.source import Sources
from ethos_hil.lowering.tosa_spec import TosaSpec
from ethos_hil.lowering.upstream.cpu_only import checks

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.map.delegate_map import AtenCall
    from ethos_hil.lowering.upstream.ethosu import Capture, CompiledPartition

_TOSA_BACKEND = "TOSABackend"
_TOSA_IDENTIFIER = b"TOSA"
"""In the flatbuffer, after the offset of its root (tosa-tools 2026.5.0, tosa/TosaGraph.py)."""


class Toolchain(abc.ABC):
    """Lowers one model. Its methods are called in the order they stand here.

    Attributes:
        scheme: how the model is quantised first; None for not at all.
        product: what comes out, for people.
    """

    scheme: Scheme | None
    product: str

    @property
    @abc.abstractmethod
    def key(self) -> tuple[str, ...]:
        """What, of the target, decides the result."""

    @cached_property
    def compile_spec(self) -> Any:
        """Upstream's compile spec. Importing it takes seconds.

        There is one for the whole way: upstream's quantiser writes into the one it is given what the backend is to do.
        """
        return self._compile_spec()

    @abc.abstractmethod
    def _compile_spec(self) -> Any:
        """See `compile_spec`."""

    @abc.abstractmethod
    def enter(self, method: str) -> None:
        """Told, where there is no partitioner, that what is given to the backend next is of this method."""

    @abc.abstractmethod
    def observe(self, method: str, floating: torch.fx.GraphModule, sources: Sources) -> None:
        """Told of a method's float graph before it is quantised."""

    @contextmanager
    def lowering(
        self, programs: Mapping[str, torch.export.ExportedProgram], leave: Mapping[str, Sequence[str]]
    ) -> Iterator[dict[str, Any]]:
        """Gives the partitioner with which each of the methods `programs` is to be lowered, while inside.

        Args:
            programs: the methods.
            leave: the operators that each of them leaves to the CPU (`ethos_hil.lowering.model.Method.leave`).
        """
        from executorch.backends.arm.util._factory import create_partitioner

        yield {method: create_partitioner(self.compile_spec, checks(leave[method])) for method in programs}

    @abc.abstractmethod
    def lowered(self, method: str, program: torch.export.ExportedProgram) -> None:
        """Told of a method's program with its delegates, which it may complete."""

    @abc.abstractmethod
    def delegates(self, plan: ExecutionPlan) -> tuple[Delegate, ...]:
        """What is known of each delegate of a method of the written program, in the order of their calls."""

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each way in which it departed from upstream, which would have failed."""
        return ()


class TosaToolchain(Toolchain):
    """To TOSA and no further: upstream's TOSA backend, whose delegates no device runs but any TOSA interpreter."""

    product = "TOSA"

    def __init__(self, spec: TosaSpec, scheme: Scheme) -> None:
        wide = spec.quantised and scheme == "a16w8" and "int16" not in spec.extensions
        self.spec = TosaSpec(spec.version, spec.profile, (*spec.extensions, "int16")) if wide else spec
        self.scheme = scheme if spec.quantised else None

    @property
    def key(self) -> tuple[str, ...]:
        return ("tosa", str(self.spec), str(self.scheme))

    def enter(self, method: str) -> None:
        """It makes no difference."""

    def _compile_spec(self) -> Any:
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

        return TosaCompileSpec(str(self.spec))

    def observe(self, method: str, floating: torch.fx.GraphModule, sources: Sources) -> None:
        """Nothing of it is needed."""

    def lowered(self, method: str, program: torch.export.ExportedProgram) -> None:
        """It is complete."""

    def delegates(self, plan: ExecutionPlan) -> tuple[Delegate, ...]:
        found = []
        for at, call in plan.delegate_calls:
            entry = plan.delegates[call.delegate]
            if entry.id != _TOSA_BACKEND:
                raise CompileError(f"delegate {call.delegate} of {plan.name} is {entry.id}'s, not {_TOSA_BACKEND}'s")
            if entry.data[4:8] != _TOSA_IDENTIFIER:
                raise CompileError(f"delegate {call.delegate} of {plan.name} is no TOSA: {entry.data[:8].hex(' ')}...")
            found.append(Delegate(call.delegate, at, entry.data, b""))
        return tuple(found)


class EthosUToolchain(Toolchain):
    """To TOSA and, with Vela, to an Ethos-U; keeps the delegate map (`ethos_hil.lowering.upstream.ethosu`)."""

    product = "TOSA and Vela"

    def __init__(self, npu: NpuName, memory_mode: MemoryMode, scheme: Scheme) -> None:
        self.npu = npu
        self.memory_mode = memory_mode
        self.scheme: Scheme = scheme
        self._calls: dict[str, Mapping[str, AtenCall]] = {}
        self._capture: Capture | None = None
        self._blobs: dict[str, list[bytes]] = {}

    @property
    def key(self) -> tuple[str, ...]:
        return ("vela", self.npu.name, self.memory_mode.name, self.scheme)

    def enter(self, method: str) -> None:
        assert self._capture is not None, "nothing is being lowered"
        self._capture.method = method

    def _compile_spec(self) -> Any:
        from ethos_hil.lowering.upstream import ethosu

        return ethosu.compile_spec(self.npu, self.memory_mode)

    def observe(self, method: str, floating: torch.fx.GraphModule, sources: Sources) -> None:
        from ethos_hil.lowering.upstream import ethosu

        self._calls[method] = ethosu.collect_calls(floating, sources)

    @contextmanager
    def lowering(
        self, programs: Mapping[str, torch.export.ExportedProgram], leave: Mapping[str, Sequence[str]]
    ) -> Iterator[dict[str, Any]]:
        from ethos_hil.lowering.upstream import ethosu

        surviving = {method: ethosu.surviving(program.graph_module) for method, program in programs.items()}
        self._capture = ethosu.Capture(self._calls, surviving)
        with ethosu.capturing(self._capture):
            yield {method: ethosu.partitioner(self.compile_spec, checks(leave[method])) for method in programs}

    def lowered(self, method: str, program: torch.export.ExportedProgram) -> None:
        from ethos_hil.lowering.upstream import ethosu

        self._blobs[method] = [module.processed_bytes for module in ethosu.adopt(program)]

    def delegates(self, plan: ExecutionPlan) -> tuple[Delegate, ...]:
        # Calls are written in graph order. The graph's own object tells partitions with equal blobs apart.
        blobs = self._blobs.get(plan.name, [])
        found = []
        for number, (at, call) in enumerate(plan.delegate_calls):
            data = plan.delegates[call.delegate].data
            done = self._compiled(blobs[number] if number < len(blobs) and blobs[number] == data else data)
            found.append(Delegate(call.delegate, at, done.tosa, data, done.npu_ops, done.summary, hoisted=done.hoisted))
        return tuple(found)

    def _compiled(self, blob: bytes) -> CompiledPartition:
        assert self._capture is not None, "nothing was lowered"
        return self._capture.compiled(blob)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._capture.notes) if self._capture is not None else ()
