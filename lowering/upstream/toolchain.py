"""What lowers a model: ExecuTorch's Arm backend, to TOSA alone or on to an Ethos-U."""

from __future__ import annotations

import abc
import functools
import gc
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import LoweringOptions, Scheme
from ethos_hil.lowering.artifact import Delegate
from ethos_hil.lowering.formats.pte_model import ExecutionPlan
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.native.worker import VELA
from ethos_hil.lowering.upstream.computed_weights import leave_computed
from ethos_hil.lowering.upstream.cortex_m import calls_left
from ethos_hil.lowering.upstream.cpu_calls import Locate, checks, keep_reasons, let_wholes_go, origins, sites
from ethos_hil.lowering.upstream.export import graphs, lowered_parts
from ethos_hil.lowering.upstream.patches.in_executorch import without_origin
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, patches_on
from ethos_hil.lowering.upstream.reasons.quantised_by import QuantisedBy
from ethos_hil.lowering.upstream.reasons.reason import Circumstances
from ethos_hil.lowering.upstream.refusals import refuse_empty
from ethos_hil.lowering.user_code.user_function import Sources
from ethos_hil.lowering.vela.options import VelaSetup

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.map.delegate_map import AtenCall
    from ethos_hil.lowering.upstream.ethosu import Capture

_MODULES = (
    "executorch.exir",
    "executorch.backends.arm.ethosu",
    "executorch.backends.arm.quantizer",
    "executorch.backends.arm.util._factory",
    "torchao.quantization.pt2e.quantize_pt2e",
)


@functools.cache
def import_executorch() -> None:
    """Imports what lowering needs, once in a process. Objects that exist then are never examined for cycles again.

    That includes the graph of the first model, if it exists then: its cycles are never freed.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        for module in _MODULES:
            importlib.import_module(module)
        gc.freeze()
    finally:
        if collecting:
            gc.enable()


_TOSA_BACKEND = "TOSABackend"
_TOSA_IDENTIFIER = b"TOSA"
"""In the flatbuffer, after the offset of its root (tosa-tools 2026.5.0, tosa/TosaGraph.py)."""

LEFT_FOR_TYPES = (
    "operators whose result is used as float or int64 were left to the CPU: upstream's partitioner delegates them, "
    "and a delegate gives int8 or int32 in their place"
)


class Toolchain(abc.ABC):
    """Lowers one model. Its methods are called in the order in which they stand here.

    Attributes:
        scheme: how the model is quantised first, or None if it stays in float.
        product: a name of the result, for people.
        device: a name of what computes the delegates, for people.
        as_upstream: whether nothing is repaired.
        options: what was asked.
    """

    scheme: Scheme | None
    product: str
    device: str
    as_upstream: bool = False

    def __init__(self, options: LoweringOptions) -> None:
        self.options = options
        self._calls: dict[str, Mapping[str, AtenCall]] = {}
        self._misplaced: list[set[str]] = []
        self.circumstances: dict[str, Circumstances] = {}
        """By method that has a partitioner: what reasons depend on."""
        self.quantised_by: dict[str, QuantisedBy] = {}
        """By method, where it is not quantised as by default."""

    @property
    @abc.abstractmethod
    def key(self) -> tuple[str, ...]:
        """The properties of the target that decide the result, for the artifact's key."""

    @property
    def wishes(self) -> tuple[str, ...]:
        """What of it was asked by the user and is not a property of the target."""
        return (str(self.scheme), *(("as-upstream",) if self.as_upstream else ()), *self.options.further)

    @cached_property
    def compile_spec(self) -> Any:
        """Upstream's compile spec. Importing its class takes seconds.

        All stages share one object, because upstream's quantiser writes instructions for the backend into it.
        """
        return self._compile_spec()

    @abc.abstractmethod
    def _compile_spec(self) -> Any:
        """Makes `compile_spec`."""

    @abc.abstractmethod
    def start(self) -> None:
        """Starts what takes time to start, and does not wait for it."""

    @abc.abstractmethod
    def enter(self, method: str) -> None:
        """Takes note that the backend is given this method next. It is called where there is no partitioner."""

    def observe(self, method: str, floating: torch.fx.GraphModule, sources: Sources) -> None:
        """Takes note of a method's float graph, before it is quantised."""
        from ethos_hil.lowering.upstream import ethosu

        self._calls[method] = ethosu.collect_calls(floating, sources)

    def sites(self, method: str, sources: Sources) -> Locate:
        """A function that names the line and the module of a node of the method."""
        from ethos_hil.lowering.upstream import ethosu

        return sites(self._calls.get(method, {}), ethosu.identifier, sources)

    @contextmanager
    def lowering(
        self,
        programs: Mapping[str, torch.export.ExportedProgram],
        leave: Mapping[str, Sequence[str]],
        locate: Mapping[str, Locate],
    ) -> Iterator[dict[str, Any]]:
        """While inside, methods can be lowered.

        Args:
            programs: the methods that are delegated, by name.
            leave: by method, what it leaves to the CPU (`ethos_hil.lowering.upstream.cpu_calls`).
            locate: by method, names the lines and modules of nodes.

        Yields:
            The partitioner of each method.
        """
        from executorch.backends.arm.util._factory import create_partitioner

        yield {name: self._partitioner(create_partitioner, name, leave[name], locate[name]) for name in programs}

    def calls_left(
        self, method: str, program: torch.export.ExportedProgram, leave: Sequence[str], sources: Sources
    ) -> frozenset[str]:
        """The identifiers of a method's calls that its partitioner leaves to the CPU; nothing is lowered."""
        leave, locate = (*leave, *self.options.leave), self.sites(method, sources)
        with self.lowering({method: program}, {method: leave}, {method: locate}) as partitioners:
            return calls_left(program, partitioners[method])

    def _partitioner(
        self, make: Callable[[Any, list[Any]], Any], method: str, leave: Sequence[str], locate: Locate
    ) -> Any:
        """A partitioner that `make` makes with our checks; it notes why it leaves what it leaves."""
        from ethos_hil.lowering.upstream import ethosu

        misplaced: set[str] = set()
        self._misplaced.append(misplaced)
        spec = self.compile_spec
        tosa = spec.tosa_spec
        further = checks(leave, locate, misplaced, integers=tosa.support_integer(), u55=tosa.is_U55_subset)
        chosen = leave_computed(make, spec, further)
        quantised = self.quantised_by.get(method, QuantisedBy())
        known = self.circumstances[method] = Circumstances(self.device, quantised, origins(locate, ethosu.identifier))
        return keep_reasons(let_wholes_go(chosen, further), misplaced, known)

    @abc.abstractmethod
    def finish(self, method: str, program: torch.export.ExportedProgram) -> None:
        """Completes a method's program that has its delegates."""

    @abc.abstractmethod
    def delegates(self, plan: ExecutionPlan) -> tuple[Delegate, ...]:
        """The delegates of a method of the written program, in the order of their calls.

        Args:
            plan: the method, as it was read back from the .pte.

        Raises:
            CompileError: a delegate is not one that this toolchain makes.
        """

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each way in which the result differs from what the model asks for or upstream makes."""
        return (LEFT_FOR_TYPES,) if any(self._misplaced) else ()


class TosaToolchain(Toolchain):
    """Lowers to TOSA only, with upstream's TOSA backend. A TOSA interpreter can run the delegates, a device cannot."""

    product = "TOSA"

    def __init__(self, spec: TosaSpec, options: LoweringOptions, *, int16: bool = False) -> None:
        """Makes a toolchain.

        Args:
            spec: what to lower to.
            options: what is asked.
            int16: whether some module has 16 bits, whatever the scheme.
        """
        super().__init__(options)
        wide = spec.quantised and (int16 or options.scheme == "a16w8") and "int16" not in spec.extensions
        self.spec = TosaSpec(spec.version, spec.profile, (*spec.extensions, "int16")) if wide else spec
        self.device = str(self.spec)
        self.scheme = options.scheme if spec.quantised else None
        self._sources: dict[str, Sources] = {}

    @property
    def key(self) -> tuple[str, ...]:
        return ("tosa", str(self.spec), str(self.scheme), *self.options.further)

    def start(self) -> None:
        """Does nothing: ExecuTorch does it all."""

    def enter(self, method: str) -> None:
        """Does nothing: this backend treats all methods alike."""

    def _compile_spec(self) -> Any:
        from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

        return TosaCompileSpec(str(self.spec))

    def observe(self, method: str, floating: torch.fx.GraphModule, sources: Sources) -> None:
        super().observe(method, floating, sources)
        self._sources[method] = sources

    def finish(self, method: str, program: torch.export.ExportedProgram) -> None:
        """Refuses what TOSA does not have. The program itself is complete."""
        sources = self._sources.get(method)
        for part in lowered_parts(program):
            refuse_empty(part, sources.line_of if sources else lambda node: None)

    def delegates(self, plan: ExecutionPlan) -> tuple[Delegate, ...]:
        delegates = []
        for at, call in plan.delegate_calls:
            entry = plan.delegates[call.delegate]
            if entry.id != _TOSA_BACKEND:
                raise CompileError(f"delegate {call.delegate} of {plan.name} is {entry.id}'s, not {_TOSA_BACKEND}'s")
            if entry.data[4:8] != _TOSA_IDENTIFIER:
                raise CompileError(f"delegate {call.delegate} of {plan.name} is not TOSA: {entry.data[:8].hex(' ')}...")
            delegates.append(Delegate(call.delegate, at, entry.data, b""))
        return tuple(delegates)


class EthosUToolchain(Toolchain):
    """Lowers to TOSA and then, with Vela, for an Ethos-U. `ethos_hil.lowering.upstream.ethosu` keeps its map."""

    product = "TOSA and Vela"

    def __init__(self, vela: VelaSetup, options: LoweringOptions) -> None:
        super().__init__(options)
        self.as_upstream = options.as_upstream
        self.vela = vela
        self.device = f"an {vela.npu.family.title}"
        self.scheme: Scheme = options.scheme
        self._capture: Capture | None = None
        self._blobs: dict[str, list[bytes]] = {}
        self._without_origin: list[str] = []

    @property
    def key(self) -> tuple[str, ...]:
        repairs = ("as-upstream",) if self.as_upstream else ()
        return (
            "vela",
            self.vela.npu.name,
            self.vela.mode.name,
            self.scheme,
            *self.vela.key,
            *repairs,
            *self.options.further,
        )

    def start(self) -> None:
        VELA.start()  # it imports Vela while ExecuTorch is imported and the model is quantised

    def enter(self, method: str) -> None:
        assert self._capture is not None, "nothing is being lowered"
        self._capture.method = method

    def _compile_spec(self) -> Any:
        from ethos_hil.lowering.upstream import ethosu

        return ethosu.compile_spec(self.vela)

    def observe(self, method: str, floating: torch.fx.GraphModule, sources: Sources) -> None:
        super().observe(method, floating, sources)
        lost = () if patches_on() else without_origin(graphs(floating))
        if lost:
            self._without_origin.append(
                f"NPU operations that compute {', '.join(lost)} have no origin in the map: upstream's quantiser drops "
                f"it, and {VARIABLE}=off"
            )

    @contextmanager
    def lowering(
        self,
        programs: Mapping[str, torch.export.ExportedProgram],
        leave: Mapping[str, Sequence[str]],
        locate: Mapping[str, Locate],
    ) -> Iterator[dict[str, Any]]:
        from ethos_hil.lowering.upstream import ethosu

        surviving = {method: ethosu.surviving(program.graph_module) for method, program in programs.items()}
        self._capture = ethosu.Capture(self._calls, surviving, self.vela.ini, as_upstream=self.as_upstream)
        with ethosu.capturing(self._capture):
            yield {name: self._partitioner(ethosu.partitioner, name, leave[name], locate[name]) for name in programs}

    def finish(self, method: str, program: torch.export.ExportedProgram) -> None:
        from ethos_hil.lowering.upstream import ethosu

        self._blobs[method] = [module.processed_bytes for module in ethosu.adopt(program)]

    def delegates(self, plan: ExecutionPlan) -> tuple[Delegate, ...]:
        # Calls are written in the order of the graph. Equal blobs of different partitions are different objects there.
        assert self._capture is not None, "nothing was lowered"
        blobs = self._blobs.get(plan.name, [])
        delegates = []
        for number, (at, call) in enumerate(plan.delegate_calls):
            data = plan.delegates[call.delegate].data
            blob = blobs[number] if number < len(blobs) and blobs[number] == data else data
            done = self._capture.partition_with(blob)
            delegates.append(replace(done, index=call.delegate, instruction=at))
        return tuple(delegates)

    @property
    def notes(self) -> tuple[str, ...]:
        of_capture = self._capture.notes if self._capture is not None else ()
        return (*super().notes, *self.vela.notes, *self._without_origin, *of_capture)


def toolchain_for(
    target: EthosU | TosaSpec, options: LoweringOptions, vela: VelaSetup | None = None, *, int16: bool = False
) -> Toolchain:
    """Return the toolchain that lowers to TOSA, or for an NPU.

    Args:
        target: the TOSA, or the NPU.
        options: what is asked.
        vela: what Vela is asked; by default what ExecuTorch asks.
        int16: whether some module has 16 bits, whatever the scheme.
    """
    if isinstance(target, TosaSpec):
        return TosaToolchain(target, options, int16=int16)
    return EthosUToolchain(vela or VelaSetup.default(target), options)
