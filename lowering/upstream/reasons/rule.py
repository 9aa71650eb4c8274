"""What a reason is made of: a rule of upstream's that failed, the words for it, and what would help."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ethos_hil.base.dataclasses import dataclass

if TYPE_CHECKING:
    import torch

Values = Callable[["torch.fx.Node"], Mapping[str, object]]
"""Reads from a node what a sentence has in braces: the value that was found."""
U55 = "ethos-u55-128"
U85 = "ethos-u85-256"

UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What reading a node raises that is not as in the ExecuTorch that is known."""


class Reason(NamedTuple):
    """Why an operator is on the CPU, and what would help; the second is "" where nothing is known."""

    why: str
    remedy: str = ""


@dataclass(frozen=True)
class Example:
    """A line of a model that a rule leaves to the CPU, and one in its place that is delegated.

    Attributes:
        before, after: expressions of Python with the inputs x, y and z, torch, nn and F. A layer is made where it is
            called: `nn.ReLU()(x)`.
        inputs: dtypes and shapes of the inputs, "float32[1, 8]; int64[4]".
        npu: what both are lowered for.
        other: the NPU that the line in its place is lowered for, where this is the remedy.
        given: the inputs of the line in its place; "" for the same.
        alike: whether both compute the same of the same inputs, but for rounding and weights.
    """

    before: str
    after: str
    inputs: str = "float32[1, 4, 8, 8]"
    npu: str = U55
    other: str = ""
    given: str = ""
    alike: bool = True


def _nothing(node: torch.fx.Node) -> Mapping[str, object]:
    del node
    return {}


@dataclass(frozen=True)
class CpuRule:
    """Why upstream leaves an operator to the CPU, and what would help.

    The sentences have in braces what `values` reads from the node, named groups of `said`, and:

    - `npu`: what is lowered for, "an Ethos-U65"; a rule of upstream's for the Ethos-U55 holds for the Ethos-U65, too;
    - `executorch`: "ExecuTorch 1.5.1", the one that is installed;
    - `operator`: the operator of the model, "aten.conv1d".

    Attributes:
        name: its name, for tests and for people.
        said: a pattern of what upstream's partitioner reports (executorch 1.5.1); "" for any report that says only that
            it does not know the operator, or not with these types.
        why, remedy: the sentences. The remedy of a rule that follows is that of the operator that it leads to.
        operators: parts of names of operators that the rule is for; empty for all.
        values: reads what was found.
        applies: whether the rule is for a node, where the report alone does not say so.
        follows: where the cause is another operator: one that makes an input, or one that uses the result.
        examples: what it is met by, and what to write instead.
    """

    name: str
    said: str
    why: str
    remedy: str = ""
    operators: tuple[str, ...] = ()
    values: Values = _nothing
    applies: Callable[[torch.fx.Node], bool] | None = None
    follows: Literal["", "inputs", "users"] = ""
    examples: tuple[Example, ...] = ()

    def match(self, said: str, operators: Sequence[str], node: torch.fx.Node | None) -> re.Match[str] | None:
        """Return where upstream's report has the rule's pattern, if it is for one of the operators and the node."""
        if self.operators and not any(is_one_of(name, self.operators) for name in operators):
            return None
        match = re.search(self.said, said)
        return match if match is not None and self._is_for(node) else None

    def _is_for(self, node: torch.fx.Node | None) -> bool:
        if self.applies is None:
            return True
        try:
            return node is not None and self.applies(node)
        except UNREADABLE:  # it has not what the rule looks at, so the rule is for others
            return False


def is_one_of(name: str, parts: tuple[str, ...]) -> bool:
    """Return whether an operator's name is one of the names, with any overload: "aten.sort.default" is "aten.sort"."""
    return any(name == part or name.startswith((f"{part}.", f"{part}_.")) for part in parts)


def short(name: str) -> str:
    """Return an operator's name without an overload that says nothing: "aten.conv1d" of "aten.conv1d.default"."""
    return name.removesuffix(".default")
