"""What lowers a model: ExecuTorch's Arm backend, to TOSA alone or on to an Ethos-U."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lowering.artifact import Delegate
from lowering.errors import CompileError
from lowering.memory_mode import MemoryMode
from lowering.profile import Npu
from lowering.program import DelegateCall, Program
from lowering.quantize import Scheme
from lowering.source import Sources
from lowering.specification import TosaSpec

if TYPE_CHECKING:
    import torch

    from lowering.ethosu import Capture, Compiled

_TOSA_BACKEND = "TOSABackend"


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

    @abc.abstractmethod
    def compile_spec(self) -> Any:
        """Upstream's compile spec. Importing it takes seconds."""

    @abc.abstractmethod
    def observe(self, floating: torch.fx.GraphModule, sources: Sources) -> None:
        """Told of the float graph before it is quantised."""

    @contextmanager
    def lowering(self, program: torch.export.ExportedProgram) -> Iterator[Any]:
        """Gives the partitioner with which `program` is to be lowered, while inside."""
        from executorch.backends.arm.util._factory import create_partitioner

        yield create_partitioner(self.compile_spec())

    @abc.abstractmethod
    def lowered(self, program: torch.export.ExportedProgram) -> None:
        """Told of the program with its delegates, which it may complete."""

    @abc.abstractmethod
    def delegates(self, pte: bytes, label: str) -> tuple[Delegate, ...]:
        """What is known of each delegate of the written program, in the order of their calls."""

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

    def compile_spec(self) -> Any:
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

        return TosaCompileSpec(str(self.spec))

    def observe(self, floating: torch.fx.GraphModule, sources: Sources) -> None:
        """Nothing of it is needed."""

    def lowered(self, program: torch.export.ExportedProgram) -> None:
        """It is complete."""

    def delegates(self, pte: bytes, label: str) -> tuple[Delegate, ...]:
        plan = Program.parse(pte, label).plan()
        found = []
        for at, call in _calls(plan.instructions):
            entry = plan.delegates[call.delegate]
            if entry.id != _TOSA_BACKEND:
                raise CompileError(f"{label}: delegate {call.delegate} is {entry.id}'s, expected {_TOSA_BACKEND}'s")
            found.append(Delegate(call.delegate, at, entry.data, b""))
        return tuple(found)


class EthosUToolchain(Toolchain):
    """To TOSA and, with Vela, to an Ethos-U; keeps the delegate map (`lowering.ethosu`)."""

    product = "TOSA and Vela"

    def __init__(self, npu: Npu, memory_mode: MemoryMode, scheme: Scheme) -> None:
        self.npu = npu
        self.memory_mode = memory_mode
        self.scheme: Scheme = scheme
        self._calls: dict[str, Any] = {}
        self._capture: Capture | None = None
        self._blobs: list[bytes] = []

    @property
    def key(self) -> tuple[str, ...]:
        return ("vela", self.npu.name, self.memory_mode.name, self.scheme)

    def compile_spec(self) -> Any:
        from lowering import ethosu

        return ethosu.compile_spec(self.npu, self.memory_mode)

    def observe(self, floating: torch.fx.GraphModule, sources: Sources) -> None:
        from lowering import ethosu

        self._calls = ethosu.collect_calls(floating.graph, sources)

    @contextmanager
    def lowering(self, program: torch.export.ExportedProgram) -> Iterator[Any]:
        from lowering import ethosu

        calls = (node for node in program.graph.nodes if node.op == "call_function")
        surviving = frozenset(key for key in map(ethosu.identifier, calls) if key is not None)
        self._capture = ethosu.Capture(self._calls, surviving)
        with ethosu.capturing(self._capture):
            yield ethosu.partitioner(self.compile_spec())

    def lowered(self, program: torch.export.ExportedProgram) -> None:
        from lowering import ethosu

        self._blobs = [module.processed_bytes for module in ethosu.adopt(program)]

    def delegates(self, pte: bytes, label: str) -> tuple[Delegate, ...]:
        plan = Program.parse(pte, label).plan()
        found = []
        for number, (at, call) in enumerate(_calls(plan.instructions)):
            data = plan.delegates[call.delegate].data
            # Calls are emitted in graph order. The graph's own object tells partitions with equal blobs apart.
            blob = self._blobs[number] if number < len(self._blobs) and self._blobs[number] == data else data
            done = self._compiled(blob)
            found.append(Delegate(call.delegate, at, done.tosa, data, done.npu_ops, done.summary, hoisted=done.hoisted))
        return tuple(found)

    def _compiled(self, blob: bytes) -> Compiled:
        assert self._capture is not None, "nothing was lowered"
        return self._capture.compiled(blob)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._capture.notes) if self._capture is not None else ()


def _calls(instructions: Sequence[object]) -> list[tuple[int, DelegateCall]]:
    return [(at, call) for at, call in enumerate(instructions) if isinstance(call, DelegateCall)]
