"""The reasons of a partitioned program: for each operator that upstream left to the CPU, why, and what would help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import version
from ethos_hil.lowering.upstream.names.operators import unwrap
from ethos_hil.lowering.upstream.reasons import rules
from ethos_hil.lowering.upstream.reasons.by_operator import OPERATORS
from ethos_hil.lowering.upstream.reasons.quantised_by import QuantisedBy
from ethos_hil.lowering.upstream.reasons.rule import UNREADABLE, CpuRule, Reason, is_one_of, short

if TYPE_CHECKING:
    import torch

_EDGE_OPERATOR = re.compile(r"<EdgeOpOverload: ([\w.]+)>(: schema = .*?\) -> (?:\([^)]*\)|[\w\[\]]+(?:\([a-z!]+\))?))?")
"""An operator in upstream's reasons, with all of its schema."""
_GENERAL = re.compile(
    f"{rules.UNMAPPED}|{rules.UNQUANTISED}|{rules.OF_TYPES}|{rules.MISPLACED}|int64|int32 range|"
    "None .from slice|ymbolic|REDUCE_PRODUCT|had fp dtype|not quantized"
)
"""Reports that say only that an operator is not known, or not with these types."""
_CONVERSIONS = "quantized_decomposed."


@dataclass(frozen=True)
class Origin:
    """Where a node is from.

    Attributes:
        operator: its operator in the float model, "aten.mish.default"; "" when unknown.
        place: its line and module, in words.
        identifier: of the call in the float program.
    """

    operator: str
    place: str
    identifier: str = ""


@dataclass(frozen=True)
class Circumstances:
    """What a reason depends on beside the node.

    Attributes:
        npu: what is lowered for, for people: "an Ethos-U65".
        quantised: who quantised the method.
        origin: where a node is from.
    """

    npu: str
    quantised: QuantisedBy
    origin: Callable[[torch.fx.Node], Origin]


def find_reasons(said: Mapping[torch.fx.Node, str | None], circumstances: Circumstances) -> dict[torch.fx.Node, Reason]:
    """Return the reasons of the operators that are left to the CPU.

    Args:
        said: those operators, and what upstream's partitioner reported of each; None where it reported nothing.
        circumstances: the rest.
    """
    found = {node: _rule(node, text, circumstances) for node, text in said.items()}
    return {node: _reason(node, said, found, circumstances) for node in said}


def without_schemas(text: str) -> str:
    """Return a reason of upstream's on one line, with operators by their names alone."""
    return _EDGE_OPERATOR.sub(r"\1", " ".join(text.split()))


def rule_of(text: str, operators: Sequence[str] = (), node: torch.fx.Node | None = None) -> CpuRule | None:
    """Return the rule for what upstream reports of an operator; None if there is none.

    Args:
        text: what upstream's partitioner reported.
        operators: the operator of the program, and the operator of the model that it is a part of.
        node: the operator; None where only the report is known.
    """
    for rule in rules.ASKED:
        if rule.match(text, operators, node):
            return rule
    own = next((rule for rule in rules.RULES if rule.operators and rule.match(text, operators, node)), None)
    if own is not None:
        return own
    if _GENERAL.search(text):
        for rule in OPERATORS:
            if any(is_one_of(name, rule.operators) for name in reversed(operators)):
                return rule
    return next((rule for rule in rules.IN_GENERAL if not rule.operators and rule.match(text, (), node)), None)


def _rule(node: torch.fx.Node, text: str | None, circumstances: Circumstances) -> CpuRule | None:
    if text is None:
        return None
    text = without_schemas(text)
    origin = circumstances.origin(node)
    if text.startswith(rules.UNQUANTISED):
        by_user = _left_by_user(node, circumstances.quantised, origin.identifier)
        if by_user is not None:
            return by_user
    return rule_of(text, (str(unwrap(node.target)), origin.operator), node)


def _left_by_user(node: torch.fx.Node, quantised: QuantisedBy, identifier: str) -> CpuRule | None:
    """The rule for a node that a quantiser of the user's decided about; None if ExecuTorch's would not quantise it."""
    converted = any(_CONVERSIONS in str(near.target) for near in (*node.all_input_nodes[:1], *node.users))
    match quantised.kind:
        case "foreign":
            return rules.FOREIGN if converted else rules.FOREIGN_LEFT
        case "given":
            return rules.FOREIGN if converted else rules.GIVEN
        case "arm" if identifier in quantised.would:
            return rules.NOT_FOUND if quantised.unmatched else rules.LEFT_OUT
    return None


def _reason(
    node: torch.fx.Node,
    said: Mapping[Any, str | None],
    found: Mapping[Any, CpuRule | None],
    circumstances: Circumstances,
) -> Reason:
    reported, rule = said[node], found[node]
    if reported is None:
        return rules.UNNAMED
    text = without_schemas(reported)
    as_it_is = Reason(f"ExecuTorch's partitioner says: {text}", rules.PAGE)
    if rule is None:
        return as_it_is
    try:
        why, remedy = _sentences(node, rule, text, circumstances)
    except UNREADABLE:  # upstream's text is shown then
        return as_it_is
    if not rule.follows:
        return Reason(why, remedy)
    cause = _cause(node, rule.follows, found)
    if cause is None:
        return Reason(why, remedy)
    what = _name(cause, circumstances)
    if what == _name(node, circumstances):  # two parts of one operator of the model
        return _reason(cause, said, found, circumstances)
    made = "is made by" if rule.follows == "inputs" else "is used by"
    return Reason(f"{why}: it {made} {what}, which is on the CPU", f"mend {what} first")


def _sentences(node: torch.fx.Node, rule: CpuRule, text: str, circumstances: Circumstances) -> tuple[str, str]:
    match = re.search(rule.said, text)
    quantised = circumstances.quantised
    words: dict[str, object] = {
        **{name: value or "" for name, value in (match.groupdict() if match is not None else {}).items()},
        **rule.values(node),
        "npu": circumstances.npu,
        "executorch": f"ExecuTorch {version('executorch')}",
        "operator": short(circumstances.origin(node).operator or str(unwrap(node.target))),
        "quantizer": quantised.name or "of the model",
        "unmatched": quantised.unmatched,
        "there": quantised.there,
    }
    return rule.why.format(**words), rule.remedy.format(**words)


def _name(node: torch.fx.Node, circumstances: Circumstances) -> str:
    origin = circumstances.origin(node)
    return " ".join(filter(None, (short(origin.operator or str(unwrap(node.target))), origin.place)))


def _cause(node: torch.fx.Node, follows: str, found: Mapping[Any, CpuRule | None]) -> Any:
    """The nearest operator on the CPU before or behind a node whose reason is its own; None if there is none."""
    seen = {node}
    waiting = [node]
    while waiting:
        ahead = [other for near in waiting for other in _next(near, follows) if other not in seen]
        waiting = list(dict.fromkeys(ahead))
        seen.update(waiting)
        for other in waiting:
            rule = found.get(other)
            known = other in found and _CONVERSIONS not in str(other.target)
            if known and (rule is None or not rule.follows):
                return other
    return None


def _next(node: Any, follows: str) -> Iterator[Any]:
    near = node.all_input_nodes if follows == "inputs" else node.users
    return (other for other in near if other.op == "call_function")
