"""The calls that stay on the CPU: upstream's reasons are kept while it partitions, and found again in the program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ethos_hil.lowering.formats.pte_model import ExecutionPlan
from ethos_hil.lowering.formats.tosa import module_path
from ethos_hil.lowering.program.placement import CpuCall, Placement, cpu_call, kernel_calls
from ethos_hil.lowering.upstream.export import graphs, lowered_parts, operator_calls
from ethos_hil.lowering.upstream.names.operators import full_name, is_operator, is_overload, unwrap
from ethos_hil.lowering.upstream.plain_reasons import BY_METHOD, MISPLACED, plain
from ethos_hil.lowering.upstream.state import state_inputs
from ethos_hil.lowering.user_code.source import Sources

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.map.delegate_map import AtenCall

_TAG = "delegation_tag"
"""In the metadata of a node: the partition that upstream put it into."""
_KEY = "ethos_hil_left"
"""In the metadata of a node that is not delegated: the operator's name before memory was planned, and the reason."""


class Site(NamedTuple):
    """Where a node comes from: the user's line ("net.py:12"), the module ("stem.0"), and the operator of the float
    model that it is a part of ("aten.gru_cell.default"); each "" when unknown.
    """

    line: str
    module: str
    origin: str


Locate = Callable[["torch.fx.Node"], Site]


def keep_reasons(partitioner: Any, misplaced: set[str]) -> Any:
    """Return the partitioner, which from now on writes its reasons into the nodes that it leaves to the CPU.

    It also partitions again where upstream's choice cannot work: a partition gives a float (in a profile of integers)
    or an int64, or takes state in int64, and TOSA has neither. ExecuTorch 1.4.1 lowers a partition with such an output,
    and the delegate then writes int8 or int32 where the program expects the other type.

    Partitions are handed over in the order of their numbers. Upstream's order is that of a set of texts, which Python
    shuffles in each process, and with it the order of delegates and of their inputs.

    Args:
        partitioner: upstream's TOSAPartitioner or EthosUPartitioner (executorch 1.4.1): `partition` makes a reporter
            and hands it to `_create_operator_support`.
        misplaced: receives the names of the nodes that make such outputs, or read such state. The further checks
            (`ethos_hil.lowering.upstream.cpu_only.checks`) refuse them.
    """
    create, partition = partitioner._create_operator_support, partitioner.partition
    floats = partitioner.tosa_spec.support_float()
    reporters: list[Any] = []

    def create_and_keep(program: Any, reporter: Any) -> Any:
        reporters.append(reporter)
        return create(program, reporter)

    def partition_and_note(program: Any) -> Any:
        misplaced.clear()
        while True:
            reporters.clear()
            result = partition(program)
            nodes = [node for part in graphs(program.graph_module) for node in part.graph.nodes]
            wrong = {maker.name for node in nodes for maker in _makers(node, floats)}
            wrong |= {reader.name for reader in _state_readers(program)}
            wrong -= misplaced
            if not wrong:
                break
            misplaced.update(wrong)
            for node in nodes:
                node.meta.pop(_TAG, None)
        tags = sorted(result.partition_tags.items(), key=lambda tag: int(tag[0].removeprefix("tag")))
        result.partition_tags = dict(tags)
        reasons = {node: text for reporter in reporters for node, text in reporter._rejected_nodes.items()}
        for node in nodes:
            if node.op == "call_function" and _TAG not in node.meta:
                why = MISPLACED if node.name in misplaced else reasons.get(node)
                node.meta[_KEY] = (str(unwrap(node.target)), why)
        return result

    partitioner._create_operator_support = create_and_keep
    partitioner.partition = partition_and_note
    return partitioner


def _makers(node: torch.fx.Node, floats: bool) -> list[torch.fx.Node]:
    """The node that makes an output of a partition in a type that TOSA lacks, in a list; an empty list otherwise."""
    import torch

    tag, value = node.meta.get(_TAG), node.meta.get("val")
    if node.op != "call_function" or tag is None or not isinstance(value, torch.Tensor):
        return []
    lacking = value.dtype is torch.int64 or (value.dtype is torch.float32 and not floats)
    if not lacking or all(user.meta.get(_TAG) == tag for user in node.users):
        return []
    return [node.args[0] if node.target is operator.getitem else node]  # type: ignore[list-item]


def _state_readers(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """The nodes in partitions that read state in int64: upstream takes it for a constant, which it could convert."""
    import torch

    return [
        user
        for node in state_inputs(program)
        if node.meta["val"].dtype is torch.int64
        for user in node.users
        if _TAG in user.meta
    ]


def placement(
    plan: ExecutionPlan,
    written: Any,
    lowered: Any,
    locate: Locate,
    *,
    on_cpu: bool,
) -> Placement:
    """The placement of a method.

    Args:
        plan: the method in the .pte.
        written: ExecuTorch's manager of the programs that it wrote: each node that became an instruction has the
            instruction's index as its debug handle (exir/emit/_emitter.py, executorch 1.4.1).
        lowered: its manager of the programs with their delegates.
        locate: names the line and module of a node.
        on_cpu: whether the model keeps the method on the CPU, so that no partitioner saw it.
    """
    nodes = {
        (node.meta.get("debug_handle"), _kernel_name(node.target)): node
        for node in operator_calls(written.exported_program(plan.name).graph_module)
    }
    on_the_cpu = [
        _call(at, call.operator, nodes.get((at, call.operator)), locate, on_cpu) for at, call in kernel_calls(plan)
    ]
    computed = [target for target in _targets(lowered.exported_program(plan.name)) if not _converts(target)]
    return Placement(len(computed), tuple(on_the_cpu))


def _call(at: int, kernel: str, node: torch.fx.Node | None, locate: Locate, on_cpu: bool) -> CpuCall:
    if node is None:
        return cpu_call(at, kernel, reason="not known: ExecuTorch added this call")
    site = locate(node)
    aten, reason = node.meta.get(_KEY, (str(node.target), None))
    why, remedy = BY_METHOD if on_cpu else plain(reason, f"{aten} {site.origin}")
    return cpu_call(at, kernel, reason=why, remedy=remedy, aten=aten, source=site.line, module=site.module)


def _kernel_name(target: Any) -> str:
    """The name that a program has for an operator ("aten::sort.values"); "" for what is not an operator."""
    return full_name(target) if is_overload(target) else ""


def _targets(program: torch.export.ExportedProgram) -> list[Any]:
    """The operator of each call in a program's delegates, branches and bodies of control flow included."""
    return [target for node in operator_calls(*lowered_parts(program)) if is_operator(target := unwrap(node.target))]


def _converts(target: Any) -> bool:
    """Whether an operator only converts between numbers and integers."""
    return str(target).startswith("quantized_decomposed.")


def delegated_operators(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """The operators inside the delegates of a lowered program, as the backend received them.

    Returns:
        Aten's names of ExecuTorch's edge operators ("aten.view_copy.default"), each once, sorted. Upstream's lists of
        supported operators use the same names. Branches and bodies of control flow are included.
    """
    return tuple(sorted({str(target) for target in _targets(program)}))


def sites(calls: Mapping[str, AtenCall], identify: Callable[[Any], str], sources: Sources) -> Locate:
    """A function that names the line and module of a node.

    Args:
        calls: the calls of the method's float graph by identifier (`ethos_hil.lowering.upstream.ethosu.collect_calls`).
        identify: gives a node's identifier.
        sources: names the line of a node that descends from none of them.
    """

    def locate(node: Any) -> Site:
        call = calls.get(identify(node))
        if call is not None:
            return Site(call.source, call.module, call.aten)
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        return Site(sources.locate(node.meta.get("stack_trace")) or "", module_path(stack[-1]) if stack else "", "")

    return locate
