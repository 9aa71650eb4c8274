"""What stays on the CPU: upstream's reasons are kept while it partitions, and found again in the program; and what is
left there because the user asked for it, or because upstream takes it and cannot lower it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import did_you_mean, list_of
from ethos_hil.lowering.formats.pte_model import ExecutionPlan
from ethos_hil.lowering.formats.tosa import module_path
from ethos_hil.lowering.program.placement import CpuCall, Placement, cpu_call, kernel_calls, place_of
from ethos_hil.lowering.upstream.export import graphs, lowered_parts, operator_calls
from ethos_hil.lowering.upstream.names.operators import full_name, is_operator, is_overload, unwrap
from ethos_hil.lowering.upstream.partition_checks import PAD, TAG, check, name_of, upstream_checks
from ethos_hil.lowering.upstream.patches.in_executorch import table_operators
from ethos_hil.lowering.upstream.reasons.reason import Circumstances, Origin, find_reasons
from ethos_hil.lowering.upstream.reasons.rule import Reason
from ethos_hil.lowering.upstream.reasons.rules import ADDED, MISPLACED, ONLY_MOVED, UNKNOWN_CALL, UNNAMED
from ethos_hil.lowering.upstream.state import state_inputs
from ethos_hil.lowering.user_code.user_function import Sources

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.map.delegate_map import AtenCall


_KEY = "ethos_hil_left"
"""In the metadata of a node that is not delegated: the operator's name before memory was planned, why, and a remedy."""


class Site(NamedTuple):
    """Where a node comes from: the user's line ("net.py:12"), the module ("stem.0"), and the operator of the float
    model that it is a part of ("aten.gru_cell.default"); each "" when unknown.
    """

    line: str
    module: str
    origin: str


Locate = Callable[["torch.fx.Node"], Site]


def keep_reasons(partitioner: Any, misplaced: set[str], circumstances: Circumstances) -> Any:
    """Return the partitioner, which from now on writes its reasons into the nodes that it leaves to the CPU.

    It also partitions again where upstream's choice cannot work: a partition gives a float (in a profile of integers)
    or an int64, or takes state in int64, and TOSA has neither; or it gives an input as it is, which Vela refuses.
    ExecuTorch 1.4.1 lowers a partition with an output of another type, and the delegate then writes int8 or int32 where
    the program expects that type.

    Partitions are handed over in the order of their numbers. Upstream's order is that of a set of texts, which Python
    shuffles in each process, and with it the order of delegates and of their inputs.

    Args:
        partitioner: upstream's TOSAPartitioner or EthosUPartitioner (executorch 1.5.1): `partition` makes a reporter
            and hands it to `_create_operator_support`.
        misplaced: receives the names of the nodes that make such outputs, or read such state. The further checks
            (`ethos_hil.lowering.upstream.cpu_calls.checks`) refuse them.
        circumstances: what the reasons depend on beside the nodes.
    """
    create, partition = partitioner._create_operator_support, partitioner.partition
    floats = partitioner.tosa_spec.support_float()
    reporters: list[Any] = []

    def create_and_keep(program: Any, reporter: Any) -> Any:
        reporters.append(reporter)
        return create(program, reporter)

    def partition_and_note(program: Any) -> Any:
        carried: set[str] = set()
        misplaced.clear()
        while True:
            reporters.clear()
            result = partition(program)
            nodes = [node for part in graphs(program.graph_module) for node in part.graph.nodes]
            wrong = {maker.name for node in nodes for maker in _makers(node, floats)}
            wrong |= {reader.name for reader in _state_readers(program)}
            carried |= {carrier.name for node in nodes for carrier in _carriers(node)}
            wrong = (wrong | carried) - misplaced
            if not wrong:
                break
            misplaced.update(wrong)
            for node in nodes:
                node.meta.pop(TAG, None)
        tags = sorted(result.partition_tags.items(), key=lambda tag: int(tag[0].removeprefix("tag")))
        result.partition_tags = dict(tags)
        reported = {node: text for reporter in reporters for node, text in reporter._rejected_nodes.items()}
        left = [node for node in nodes if node.op == "call_function" and TAG not in node.meta]
        said = {node: MISPLACED if node.name in misplaced else reported.get(node) for node in left}
        said |= {node: ONLY_MOVED for node in left if node.name in carried}
        for node, reason in find_reasons(said, circumstances).items():
            node.meta[_KEY] = (str(unwrap(node.target)), *reason)
        return result

    partitioner._create_operator_support = create_and_keep
    partitioner.partition = partition_and_note
    return partitioner


def _makers(node: torch.fx.Node, floats: bool) -> list[torch.fx.Node]:
    """The node that makes an output of a partition in a type that TOSA lacks, in a list; an empty list otherwise."""
    import torch

    tag, value = node.meta.get(TAG), node.meta.get("val")
    if node.op != "call_function" or tag is None or not isinstance(value, torch.Tensor):
        return []
    lacking = value.dtype is torch.int64 or (value.dtype is torch.float32 and not floats)
    if not lacking or all(user.meta.get(TAG) == tag for user in node.users):
        return []
    return [node.args[0] if node.target is operator.getitem else node]  # type: ignore[list-item]


_MOVING = frozenset({
    "aten.view_copy.default", "aten.expand_copy.default", "aten.squeeze_copy.dims", "aten.squeeze_copy.dim",
    "aten.unsqueeze_copy.default", "aten.alias_copy.default", "aten.permute_copy.default",
})  # fmt: skip


def _carriers(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The calls between an input of a partition and an output that is the same bytes; an empty list otherwise."""
    tag, calls, at = node.meta.get(TAG), [], node
    if node.op != "call_function" or tag is None or all(user.meta.get(TAG) == tag for user in node.users):
        return []
    while at.op == "call_function" and at.meta.get(TAG) == tag:
        name = name_of(at)
        if name in _MOVING:
            calls.append(at)
        elif not name.startswith("quantized_decomposed."):
            return []
        at = at.all_input_nodes[0]
    return calls if _stays(at.meta["val"], reversed(calls), node.meta["val"]) else []


def _stays(given: Any, calls: Iterable[Any], value: Any) -> bool:
    """Whether calls that move elements leave each at its place in memory, in a tensor of the same sizes there."""
    import torch

    order, orders = given.dim_order(), value.dim_order()
    sizes = [given.shape[axis] for axis in order]
    if sizes != [value.shape[axis] for axis in orders]:
        return False
    places = torch.arange(given.numel(), dtype=torch.int32)
    moved = places.reshape(sizes).permute([order.index(axis) for axis in range(len(order))])
    for call in calls:
        moved = unwrap(call.target)(moved, *call.args[1:], **call.kwargs)
    return torch.equal(moved.permute(orders).flatten(), places)


def _state_readers(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """The nodes in partitions that read state in int64: upstream takes it for a constant, which it could convert."""
    import torch

    return [
        user
        for node in state_inputs(program)
        if node.meta["val"].dtype is torch.int64
        for user in node.users
        if TAG in user.meta
    ]


def placement(plan: ExecutionPlan, written: Any, lowered: Any, locate: Locate, on_cpu: Reason | None) -> Placement:
    """The placement of a method.

    Args:
        plan: the method in the .pte.
        written: ExecuTorch's manager of the programs that it wrote: each node that became an instruction has the
            instruction's index as its debug handle (exir/emit/_emitter.py, executorch 1.5.1).
        lowered: its manager of the programs with their delegates.
        locate: names the line and module of a node.
        on_cpu: why all of the method is on the CPU, so that no partitioner saw it; None if one did.
    """
    graph = written.exported_program(plan.name).graph_module
    calls = [node for node in operator_calls(graph) if is_overload(node.target)]
    nodes = {(node.meta.get("debug_handle"), full_name(node.target)): node for node in calls}
    # Those of branches have no number. They are written in the order of their graphs.
    inner: dict[str, list[torch.fx.Node]] = {}
    for node in calls:
        if node.graph is not graph.graph:
            inner.setdefault(full_name(node.target), []).append(node)

    def node_of(at: int, name: str) -> torch.fx.Node | None:
        known = nodes.get((at, name))
        return inner[name].pop(0) if known is None and inner.get(name) else known

    on_the_cpu = [
        _call(at, call.operator, node_of(at, call.operator), locate, on_cpu) for at, call in kernel_calls(plan)
    ]
    targets = map(str, _targets(lowered.exported_program(plan.name)))
    computed = [target for target in targets if not target.startswith("quantized_decomposed.")]
    return Placement(len(computed), tuple(on_the_cpu))


def _call(at: int, kernel: str, node: torch.fx.Node | None, locate: Locate, on_cpu: Reason | None) -> CpuCall:
    if node is None:
        reason, remedy = ADDED.get(kernel) or on_cpu or UNKNOWN_CALL
        return cpu_call(at, kernel, reason=reason, remedy=remedy)
    site = locate(node)
    aten, *reason = node.meta.get(_KEY, (str(node.target), *UNNAMED))
    why, remedy = on_cpu or reason
    return cpu_call(at, kernel, reason=why, remedy=remedy, aten=aten, source=site.line, module=site.module)


def _targets(program: torch.export.ExportedProgram) -> list[Any]:
    """The operator of each call in a program's delegates, branches and bodies of control flow included."""
    return [target for node in operator_calls(*lowered_parts(program)) if is_operator(target := unwrap(node.target))]


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
        return Site(sources.line_of(node) or "", module_path(stack[-1]) if stack else "", "")

    return locate


def lines_of(locate: Locate) -> Callable[[torch.fx.Node], str]:
    """A function that names the line of a node, "" where it is not known."""
    return lambda node: locate(node).line


def origins(locate: Locate, identify: Callable[[Any], str]) -> Callable[[torch.fx.Node], Origin]:
    """A function that tells where a node is from, in words.

    Args:
        locate: names the line and module of a node.
        identify: gives a node's identifier.
    """

    def origin(node: torch.fx.Node) -> Origin:
        site = locate(node)
        return Origin(site.origin, place_of(site.line, site.module), identify(node))

    return origin


# Operators that are left to the CPU because the user asked for it, though the NPU could take them; and those that
# upstream's partitioner takes, and then cannot lower.
#
# An entry names an operator ("aten.sigmoid.default", or "aten.sigmoid" for all its overloads; also one of the float
# model, for all that it becomes), a line of the model ("net.py:12", all operators that it calls), or a module
# ("head.0", all operators in it and below).

_LINE = re.compile(r".+:\d+$")
_MOST_LISTED = 40
_WHOLE = (PAD, "aten.linear.default")


def checks(leave: Sequence[str], locate: Locate, misplaced: Collection[str], *, integers: bool, u55: bool) -> list[Any]:
    """Return further checks for upstream's partitioners, which refuse what is left to the CPU.

    Args:
        leave: entries as above.
        locate: names the line and module of a node.
        misplaced: names of nodes that cannot be delegated either, see `keep_reasons` of
            `ethos_hil.lowering.upstream.cpu_calls`.
        integers: whether the profile computes with integers.
        u55: whether the NPU is an Ethos-U55 or U65.
    """

    def is_left(node: torch.fx.Node) -> bool:
        name = name_of(node)
        if not is_computation(name):
            return False
        if node.name in misplaced or any(_names(entry, name, locate(node)) for entry in leave):
            return True
        # A convolution that is quantised together with the activation behind it has no quantised output of its
        # own. Upstream's partitioner takes it, and then fails to lower it (executorch 1.5.1).
        return any(_is_quantised(user) and is_left(user) for user in node.users)

    return [check("NotLeft", lambda node: not is_left(node)), *upstream_checks(integers=integers, u55=u55)]


def let_wholes_go(partitioner: Any, further: Sequence[Any]) -> Any:
    """Return the partitioner, which from now on keeps whole what is delegated, of pads, linear layers and our tables.

    Upstream (executorch 1.5.1) keeps `aten.pad` and a quantised `aten.linear` for the NPU, and fails where a check
    leaves one to the CPU: there is no kernel of these names. Otherwise they become operators that have one. A function
    that is quantised as a table (`ethos_hil.lowering.upstream.patches.in_executorch`) it would take apart.

    Args:
        partitioner: upstream's.
        further: our checks.
    """
    ask, tables = partitioner.ops_to_not_decompose, table_operators()

    def ask_and_let_go(program: torch.export.ExportedProgram) -> Any:
        kept, is_kept = ask(program)

        def is_whole(node: torch.fx.Node) -> bool:
            name = name_of(node)
            if not (_is_annotated(node) if name in tables else is_kept is None or is_kept(node)):
                return False
            return name not in (*_WHOLE, *tables) or all(check.is_node_supported({}, node) for check in further)

        return [*kept, *tables.values()], is_whole

    partitioner.ops_to_not_decompose = ask_and_let_go
    return partitioner


@dataclass(frozen=True)
class Leavable:
    """What a method has that can be left to the CPU."""

    operators: frozenset[str]
    lines: frozenset[str]
    modules: frozenset[str]

    @classmethod
    def of(cls, program: torch.export.ExportedProgram, locate: Locate) -> Leavable:
        """Return what a program with its delegates has, inside of them and outside."""
        everywhere = operator_calls(program.graph_module, *lowered_parts(program))
        nodes = [node for node in everywhere if is_computation(name_of(node))]
        sites = list(map(locate, nodes))
        return cls(
            frozenset((*map(name_of, nodes), *(site.origin for site in sites if site.origin))),
            frozenset(site.line for site in sites if site.line),
            frozenset(module for site in sites for module in _outer(site.module)),
        )

    def has(self, entry: str) -> bool:
        """Whether an entry names something of it."""
        if _LINE.match(entry):
            return any(_is_line(entry, line) for line in self.lines)
        return entry in self.modules or any(_is_operator(entry, operator) for operator in self.operators)


def require_known(leave: Sequence[str], known: Mapping[str, Leavable], what: str) -> None:
    """Check that every entry names something: what is misspelt would be delegated.

    Args:
        leave: the entries.
        known: of each method, what it has.
        what: who asks for it, for the message.

    Raises:
        UsageError: an entry names nothing in any method. The message lists what there is.
    """
    for entry in leave:
        if any(choice.has(entry) for choice in known.values()):
            continue
        kind = "line" if _LINE.match(entry) else "operator" if entry.startswith("aten.") else "operator or module"
        operators, lines, modules = (
            sorted({name for choice in known.values() for name in getattr(choice, field)})
            for field in ("operators", "lines", "modules")
        )
        offered = lines if kind == "line" else operators if kind == "operator" else [*operators, *modules]
        suggestion = did_you_mean(entry, offered)
        raise UsageError(
            f"{what} leaves {entry!r} to the CPU, and has no such {kind}",
            hint=f"{suggestion}it has: {list_of(offered, _MOST_LISTED) or 'none'}",
        )


def _names(entry: str, operator: str, site: Site) -> bool:
    """Whether an entry names a node, by its operator, by the one that it is a part of, by its line or module."""
    operators = any(_is_operator(entry, name) for name in (operator, site.origin))
    return operators or _is_line(entry, site.line) or entry in _outer(site.module)


def _is_operator(entry: str, operator: str) -> bool:
    return operator == entry or operator.startswith(f"{entry}.")


def _is_line(entry: str, line: str) -> bool:
    return bool(line) and (line == entry or entry.endswith(f"/{line}"))


def _outer(module: str) -> Iterator[str]:
    """The path of a module, and those of the modules that it is in."""
    parts = module.split(".") if module else []
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _is_quantised(node: torch.fx.Node) -> bool:
    return any(name_of(user).startswith("quantized_decomposed.quantize") for user in node.users)


def _is_annotated(node: torch.fx.Node) -> bool:
    """Whether upstream's quantiser has quantised a node itself, and not just its neighbours."""
    from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo

    known = node.meta.get("custom", {}).get(ArmAnnotationInfo.CUSTOM_META_KEY)
    return known is not None and bool(ArmAnnotationInfo(known).quantized)


def is_computation(name: str) -> bool:
    return name.count(".") == 2 and not name.startswith("quantized_decomposed.")
