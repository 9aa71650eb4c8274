"""ExecuTorch's Ethos-U backend, with its by-products kept.

Upstream's backend keeps nothing of a partition but the compiled blob. Ours calls it, and has it write the TOSA program
with locations and Vela's debug database into a new folder for each partition. From these it builds the delegate map,
which it returns as ExecuTorch's `debug_handle_map`. The program stays byte for byte what upstream alone would make: the
additional flags and the folder's path are in the compile specs only during the call, and `adopt` hands the lowered
modules to upstream's backend before the program is written. Where upstream fails, or no hardware could run Vela's
program, a second attempt departs from upstream and leaves a note. docs/decisions/0004 lists these cases.
"""

from __future__ import annotations

import contextvars
import copy
import operator
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import ToolError, raise_if_interrupted
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.artifact import Delegate
from ethos_hil.lowering.conditions.process import tell
from ethos_hil.lowering.formats.pte_model import FORWARD
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator, module_path, without_locations
from ethos_hil.lowering.map.delegate_map import AtenCall, Partition, build_map, origins_of
from ethos_hil.lowering.repairs.defect import DefectFinding, VelaDefect
from ethos_hil.lowering.repairs.mend import Mended, mend, mend_crash, treat_program, vela
from ethos_hil.lowering.upstream.export import operator_calls
from ethos_hil.lowering.upstream.names.operators import is_conversion
from ethos_hil.lowering.upstream.patches.patch import apply, patches_on
from ethos_hil.lowering.upstream.patches.table import TABLES_FIRST, VELA_PROCESS
from ethos_hil.lowering.upstream.refusals import refuse_empty
from ethos_hil.lowering.upstream.rewritten.splice import WRITTEN_OUT
from ethos_hil.lowering.user_code.user_function import Sources
from ethos_hil.lowering.vela.compiler import (
    DEBUG_FLAGS,
    VelaCrash,
    VelaOutput,
    VelaRefusal,
    refused_operator,
    with_ini,
)
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup

if TYPE_CHECKING:
    import torch

BACKEND = "EthosUBackend"
# What an artifact says of the departures from upstream made here.
REORDERED = (
    "look-up tables were made before average pools were rewritten: in the order of ExecuTorch's Arm passes, lowering "
    "an average pool or mean fed by a look-up fails"
)

_UNKNOWN = -1
"""The place of a delegate in a program that is not written yet."""


@dataclass
class Capture:
    """What our backend knows of the model, and what it found out while it compiled the partitions.

    Attributes:
        calls: the aten calls of each method's float program (`collect_calls`).
        surviving: the calls of each method that still have nodes when it is quantised (`surviving`).
        ini: Vela's configuration file.
        method: the one that is being compiled.
        partitions: the compiled ones, of all methods; which call of the program runs each is not known yet.
        notes: a sentence for each departure from upstream.
        as_upstream: repair none of Vela's known defects.
    """

    calls: Mapping[str, Mapping[str, AtenCall]]
    surviving: Mapping[str, frozenset[str]]
    ini: VelaIni
    method: str = FORWARD
    partitions: list[Delegate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    as_upstream: bool = False
    waiting: int = 1
    """Delegates of the method."""
    begun: dict[str, int] = field(default_factory=dict)
    """Of each method, how many were started."""

    def enter(self, method: str, delegates: int) -> None:
        """Note which method is compiled next, and how many delegates it has."""
        self.method, self.waiting = method, delegates

    def start_one(self) -> Capture:
        """Say that one more delegate of the method is started. Return this object."""
        number = self.begun[self.method] = self.begun.get(self.method, 0) + 1
        tell(f"lowering delegate {number} of {max(number, self.waiting)} to TOSA")
        return self

    def partition_with(self, blob: bytes) -> Delegate:
        """The partition with this blob. Of partitions with equal blobs, it is the one with this object.

        Raises:
            LookupError: no partition has it.
        """
        for same in (lambda other: other is blob, lambda other: other == blob):
            for partition in self.partitions:
                if same(partition.vela):
                    return partition
        raise LookupError("a delegate of the program was not compiled by this backend")


_current: contextvars.ContextVar[Capture] = contextvars.ContextVar("capture")


def compile_spec(vela: VelaSetup) -> Any:
    """Upstream's compile spec for what Vela is asked."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    return EthosUCompileSpec(
        vela.npu.name,
        system_config=vela.system.name,
        memory_mode=vela.mode.name,
        extra_flags=list(vela.extra),
        config_ini=vela.ini.name,
    )


@contextmanager
def capturing(capture: Capture) -> Iterator[None]:
    """While inside, our backend uses `capture`."""
    token = _current.set(capture)
    try:
        with apply(VELA_PROCESS):
            yield
    finally:
        _current.reset(token)


def partitioner(spec: Any, checks: list[Any]) -> Any:
    """Upstream's partitioner with further checks, which delegates to our backend.

    Args:
        spec: upstream's compile spec (`compile_spec`).
        checks: of torch's class OperatorSupportBase; an operator that one of them refuses stays on the CPU.
    """
    from executorch.backends.arm.ethosu import EthosUPartitioner
    from executorch.exir.backend.partitioner import DelegationSpec

    chosen = EthosUPartitioner(spec, checks)
    chosen.delegation_spec = DelegationSpec(_backend().__name__, spec._to_list())
    return chosen


def adopt(program: torch.export.ExportedProgram) -> list[Any]:
    """Hands what our backend lowered to upstream's, which the program names in its place.

    Returns:
        The lowered modules that the program calls, in the order of the calls.
    """
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    captures = []
    for owner, name in list(_lowered_calls(program.graph_module)):
        lowered = getattr(owner, name)
        if lowered.backend_id == _backend().__name__:
            adopted = LoweredBackendModule(
                lowered.original_module,
                BACKEND,
                lowered.processed_bytes,
                lowered.compile_specs,
                lowered.named_data_store_output,
            )
            adopted.meta = lowered.meta
            setattr(owner, name, adopted)
        captures.append(getattr(owner, name))
    return captures


def _lowered_calls(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.GraphModule, str]]:
    """Module and attribute of each lowered module that a graph calls, in the order in which ExecuTorch writes them.

    A branch is written where the operator that chooses it stands, the true one first (exir/emit/_emitter.py).
    """
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.exir.graph_module import get_control_flow_submodules

    inner: dict[Any, list[torch.fx.GraphModule]] = {}
    for _, body, node in get_control_flow_submodules(module):
        inner.setdefault(node, []).append(body)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target == executorch_call_delegate:
            yield module, node.args[0].target
        for body in inner.get(node, ()):
            yield from _lowered_calls(body)


def identifier(node: Any) -> str:
    """The node of the float graph that `node` descends from, as ExecuTorch identifies it for debug handles.

    A node without a trace, such as a node of a branch, is such a node itself.
    """
    from executorch.exir.debug_handle_utils import get_greatest_ancestor_node_identifier

    known = node.meta.get("from_node")
    return str(get_greatest_ancestor_node_identifier(node)) if known else f"{node.name}.{id(node.graph)}"


def collect_calls(module: torch.fx.GraphModule, sources: Sources) -> dict[str, AtenCall]:
    """The aten calls of a float program by identifier, branches included, in the order of each graph."""
    calls: dict[str, AtenCall] = {}
    for node in operator_calls(module):
        # The first picks one of several results. The others have the identifier of the call whose result they convert.
        if node.target is operator.getitem or is_conversion(node):
            continue
        key = identifier(node)
        first = node.args[0] if node.args else None
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        calls[key] = AtenCall(
            identifier=key,
            aten=node.meta.get(WRITTEN_OUT, str(node.target)),
            module=module_path(stack[-1]) if stack else "",
            source=sources.line_of(node) or "",
            producer=identifier(first) if getattr(first, "op", None) == "call_function" else None,
        )
    return calls


def surviving(module: torch.fx.GraphModule) -> frozenset[str]:
    """The identifiers of the calls that still have nodes in a program, branches included."""
    return frozenset(map(identifier, operator_calls(module)))


def _telling(compile_specs: Sequence[Any], ini: VelaIni, folder: str) -> list[Any]:
    """Upstream's compile specs, so that Vela takes `ini`, and leaves its TOSA and its debug database in `folder`."""
    from executorch.backends.arm.common.arm_compile_spec import ArmCompileSpec
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    if " " in folder:  # upstream joins Vela's arguments with blanks
        raise ToolError(f"the temporary folder {folder!r} has a blank in its name", hint="set TMPDIR")

    def arguments(value: bytes) -> str:
        return " ".join([*with_ini(value.decode().split(" "), ini, Path(folder)), *DEBUG_FLAGS])

    return [
        *(
            CompileSpec(spec.key, arguments(spec.value).encode())
            if spec.key == ArmCompileSpec._COMPILE_FLAGS_KEY
            else spec
            for spec in compile_specs
        ),
        CompileSpec(ArmCompileSpec._DEBUG_ARTIFACT_KEY, folder.encode()),
        CompileSpec(ArmCompileSpec._DEBUG_MODE_KEY, ArmCompileSpec.DebugMode.TOSA.name.encode()),
    ]


def _mendable(error: RuntimeError, flags: Sequence[str], folder: Path) -> VelaRefusal | None:
    """What Vela said, if the error is its refusal of a program that a treatment changes."""
    refusal, refused = error.__cause__, folder / "out.tosa"
    if not isinstance(refusal, VelaRefusal) or not refused.exists():
        return None
    program = refused.read_bytes()
    return refusal if treat_program(program, _family(flags))[0] != program else None


@cache
def _backend() -> Any:
    # Defined late, because importing the base class takes seconds. ExecuTorch finds backends among its subclasses.
    from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    class EthosHilEthosUBackend(BackendDetails):
        @classmethod
        def preprocess_multimethod(cls, edge_programs: Any, compile_specs: Any) -> Any:
            """Compiles one method after the other, so that each is mapped to its own calls."""
            results: dict[str, Any] = {}
            for method, programs in edge_programs.items():
                _current.get().enter(method, len(programs))
                results |= super().preprocess_multimethod({method: programs}, {method: compile_specs[method]})
            return results

        @staticmethod
        def preprocess(edge_program: Any, compile_specs: list[Any]) -> Any:
            capture = _current.get().start_one()

            nodes, handles = _nodes(edge_program.graph_module)
            calls = capture.calls[capture.method]
            refuse_empty(edge_program.graph_module, lambda node: _line(calls.get(identifier(node))))
            with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
                specs = _telling(compile_specs, capture.ini, folder)
                flags = EthosUCompileSpec._from_list(specs).compiler_flags

                def compile_program(program: Any) -> Compiled:
                    try:
                        blob = bytes(EthosUBackend.preprocess(program, specs).processed_bytes)
                    except VelaCrash as crash:
                        return _locate_crash(crash, calls)
                    except RuntimeError as error:
                        if capture.as_upstream or (refusal := _mendable(error, flags, Path(folder))) is None:
                            raise
                        return refusal
                    return VelaOutput.read(blob, Path(folder))

                written = Path(folder, "out.tosa")
                try:
                    upstreams = _in_some_order(edge_program, compile_program, capture.notes)
                except RuntimeError as error:
                    if isinstance(error.__cause__, VelaRefusal) and written.exists():
                        raise _locate_refusal(error.__cause__, written.read_bytes(), flags, calls) from error
                    raise
                tosa = written.read_bytes()
                partition = Partition(calls, nodes, handles, capture.surviving[capture.method])
                done = mend_partition(upstreams, tosa, flags, partition, capture.notes, as_upstream=capture.as_upstream)
                output = done.output
            first_id = sum(len(done.npu_ops) for done in capture.partitions)
            stream = output.parsed.command_stream
            npu_ops = build_map(
                TosaGraph.regions(output.tosa),
                output.database,
                stream,
                partition,
                first_id=first_id,
                total_cycles=int(float(output.summary["cycles_total"])),
            )
            capture.partitions.append(
                Delegate(
                    _UNKNOWN,
                    _UNKNOWN,
                    # The reference is upstream's program, so that a run also verifies what a rewrite made of it.
                    without_locations(tosa),
                    output.blob,
                    npu_ops,
                    output.summary,
                    without_locations(output.tosa) if output is not upstreams else None,
                    tuple(dict.fromkeys(finding.defect.id for finding in done.findings)),
                )
            )
            return PreprocessResult(
                processed_bytes=output.blob, debug_handle_map={op.id: tuple(op.debug_handles) for op in npu_ops}
            )

    return EthosHilEthosUBackend


def _line(call: AtenCall | None) -> str | None:
    return call.source if call is not None else None


def _locate_crash(crash: VelaCrash, calls: Mapping[str, AtenCall]) -> VelaCrash:
    """The same crash, with the model's operation and line in its message, as far as they are known."""
    place = _call_of(crash.operator, calls)
    if not place:
        return crash
    located = VelaCrash(crash.crash, crash.operator, f" ({place})")
    located.__cause__ = crash
    return located


def _locate_refusal(
    refusal: VelaRefusal, tosa: bytes, arguments: Sequence[str], calls: Mapping[str, AtenCall]
) -> VelaRefusal:
    """The same refusal, with the model's operation and line in its message, as far as they are known."""
    operator = refused_operator(tosa, arguments)
    place = "" if operator is None else f" ({', '.join(filter(None, (str(operator), _call_of(operator, calls))))})"
    return VelaRefusal(f"{refusal.message}{place}", hint="leave that operator to the CPU (--leave LINE)")


def _call_of(operator: TosaOperator | None, calls: Mapping[str, AtenCall]) -> str:
    location = operator.location if operator is not None else None
    call = calls.get(location.root.identifier) if location is not None and location.root is not None else None
    if call is None:
        return ""
    return f"{call.aten} at {call.source}" if call.source else call.aten


def _nodes(module: torch.fx.GraphModule) -> tuple[dict[str, str], dict[str, int]]:
    """`Partition.nodes` and `Partition.handles` of a partition's graph and its branches."""
    nodes: dict[str, str] = {}
    handles: dict[str, int] = {}
    for path, part in module.named_modules():
        region = path.replace(".", "__")  # as upstream names the regions of TOSA (backends/arm/tosa/backend.py)
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            if node.op == "call_function":
                key = nodes[f"{node.name}_{region}" if region else node.name] = identifier(node)
                if node.meta.get("debug_handle"):
                    handles[key] = node.meta["debug_handle"]
    return nodes, handles


def _in_some_order(program: Any, compile_program: Callable[[Any], Compiled], notes: list[str]) -> Compiled:
    """What is compiled of a program in upstream's order of passes. Where that fails, look-up tables are made first."""
    untouched = copy.deepcopy(program)  # passes change the program they work on
    try:
        return compile_program(program)
    except Exception as error:
        raise_if_interrupted(error)
        if not patches_on():
            raise
        with apply(TABLES_FIRST, untouched):
            output: Compiled = _retry(lambda: compile_program(untouched), error)
        notes.append(REORDERED)
        return output


def _retry(attempt: Callable[[], Any], first: Exception) -> Any:
    """The result of a second attempt. If that fails too, the first error is raised, which says more."""
    try:
        return attempt()
    except Exception as error:
        raise_if_interrupted(error)
    raise first


_NPU = "--accelerator-config="
Compiled = VelaOutput | VelaCrash | VelaRefusal
"""What became of a program: what Vela made of it, or how Vela failed where a known defect may be the reason."""


def _family(arguments: Sequence[str]) -> Family:
    """Return the family of the NPU that Vela's arguments name."""
    return EthosU.parse(next(word.removeprefix(_NPU) for word in arguments if word.startswith(_NPU))).family


def mend_partition(
    output: Compiled,
    tosa: bytes,
    arguments: Sequence[str],
    partition: Partition,
    notes: list[str],
    *,
    as_upstream: bool,
) -> Mended:
    """Repair the known defects of a partition, and note them.

    Args:
        output: what Vela made of upstream's program, or how it failed.
        tosa: upstream's program, with locations.
        arguments: Vela's.
        partition: the partition.
        notes: where the notes go.
        as_upstream: repair nothing.

    Raises:
        VelaCrash: Vela crashes, and no known defect explains it.
        CompileError: see `ethos_hil.lowering.repairs.mend.mend`.
    """
    origins = {name: origins_of(graph, partition) for name, graph in TosaGraph.regions(tosa).items()}

    def place(finding: DefectFinding) -> str:
        return _place(finding, origins)

    if isinstance(output, VelaOutput):
        done = mend(output, arguments, as_upstream=as_upstream, place=place)
    elif as_upstream:
        raise output
    else:
        done = mend_crash(output, tosa, arguments, _family(arguments), place)
    notes += _notes(done, place, as_upstream=as_upstream)
    return done


def _place(finding: DefectFinding, origins: Mapping[str, Sequence[AtenCall | None]]) -> str:
    """Return where in the model a defect is met: the operator, its module and its line, as far as they are known."""
    call = origins[finding.region][finding.index]
    if call is None:
        return f"TOSA's {finding.op}"
    module = f" in {call.module}" if call.module else ""
    return f"{call.aten.removeprefix('aten.')}{module}{f' at {call.source}' if call.source else ''}"


def _notes(mended: Mended, place: Callable[[DefectFinding], str], *, as_upstream: bool) -> list[str]:
    """Return a sentence for each defect that a program meets, and another for what of it cannot be repaired."""
    places: dict[tuple[VelaDefect, bool], list[str]] = {}
    for finding in mended.findings:
        places.setdefault((finding.defect, finding.repaired), []).append(place(finding))
    done = "not repaired, as asked" if as_upstream else "the TOSA program was rewritten"
    return [
        f"{defect.id}: {done} (at {', '.join(dict.fromkeys(where))}): {vela()} {defect.effect}"
        for (defect, _), where in places.items()
    ]
