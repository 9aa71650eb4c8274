"""Where the operators of a method run: how many the NPU computes, and each call on the CPU with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.formats.pte_model import IN_PLACE, ExecutionPlan, KernelCall

CallKind = Literal["operator", "conversion", "state"]
_UNKNOWN = "not known: the program was not lowered here"
_CONVERSIONS = ("quantize_per_", "dequantize_per_")


@dataclass(frozen=True)
class CpuCall:
    """One call of a kernel on the CPU.

    Attributes:
        instruction: its index in the method's plan.
        operator: the kernel's full name, "aten::sort.values".
        kind: "operator" for a part of the model's arithmetic; "conversion" between numbers and integers, which is
            needed wherever the CPU and the NPU meet; "state" where a buffer of the model is written back.
        aten: the operator as the partitioner saw it, "aten.sort.default"; "" when unknown.
        module: path of the module that calls it ("stem.0"); "" for the model itself.
        source: the user's line that makes the call, "net.py:12"; "" when unknown.
        reason: why it is not on the NPU, in plain words; "" for a conversion and for state.
        remedy: what would put it there, or make it cheaper; "" when nothing is known.
    """

    instruction: int
    operator: str
    kind: CallKind = "operator"
    aten: str = ""
    module: str = ""
    source: str = ""
    reason: str = ""
    remedy: str = ""

    @property
    def place(self) -> str:
        """The line of the model, and its module, as far as they are known: "at net.py:12 in stem.0"."""
        return place_of(self.source, self.module) or ("in the model itself" if self.aten else "")


@dataclass(frozen=True)
class Placement:
    """What of a method is on the NPU and what is not.

    Attributes:
        delegated: number of operators in its delegates, conversions between numbers and integers not counted.
        calls: what the CPU runs, in the order of the plan.
    """

    delegated: int = 0
    calls: tuple[CpuCall, ...] = ()

    @property
    def on_cpu(self) -> tuple[CpuCall, ...]:
        """The operators of the model that are not delegated."""
        return tuple(call for call in self.calls if call.kind == "operator")

    @property
    def conversions(self) -> int:
        """Number of calls that convert between numbers and integers."""
        return sum(call.kind == "conversion" for call in self.calls)

    @classmethod
    def of_plan(cls, plan: ExecutionPlan) -> Placement:
        """Return the placement of a program that was not lowered here: no line and no reason is known."""
        return cls(0, tuple(cpu_call(at, call.operator, reason=_UNKNOWN) for at, call in kernel_calls(plan)))


def place_of(line: str, module: str) -> str:
    """Return where a call is, in words: "at net.py:12 in stem.0", "in module 0"; "" where nothing is known."""
    if not line:
        return f"in module {module}" if module else ""
    return f"at {line} in {module}" if module else f"at {line}"


def kernel_calls(plan: ExecutionPlan) -> list[tuple[int, KernelCall]]:
    """Return the instructions of a plan that call kernels, with their indices."""
    return [(at, call) for at, call in enumerate(plan.instructions) if isinstance(call, KernelCall)]


def cpu_call(instruction: int, operator: str, *, reason: str = "", remedy: str = "", **known: str) -> CpuCall:
    """Return a call; only an operator of the model has a reason and a remedy."""
    kind = kind_of(operator)
    texts = {"reason": reason, "remedy": remedy} if kind == "operator" else {}
    return CpuCall(instruction, operator, kind, **known, **texts)


def kind_of(operator: str) -> CallKind:
    """Return the kind of a call by the kernel's full name."""
    if operator == IN_PLACE:
        return "state"
    return "conversion" if operator.rpartition("::")[2].startswith(_CONVERSIONS) else "operator"


def group_calls(calls: Sequence[CpuCall]) -> list[tuple[CpuCall, int]]:
    """Return calls of one operator at one place for one reason once each, with how many there are."""
    counts: dict[CpuCall, int] = {}
    for call in calls:
        key = CpuCall(-1, call.operator, call.kind, call.aten, call.module, call.source, call.reason, call.remedy)
        counts[key] = counts.get(key, 0) + 1
    return list(counts.items())
