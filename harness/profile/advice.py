"""What costs most for a reason that can be dealt with, in sentences.

Each piece follows from a record alone, and says by how much its remedy may help at most. `harness/profile/tests/
test_advice.py` has a model for each, and shows that the remedy helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.inference_profile import KERNEL, InferenceProfile, OpCost
from ethos_hil.base.plain_text import count_of, list_of, one_line, sentence
from ethos_hil.base.program_info import CpuOp
from ethos_hil.base.record import Op, Record

_LEAST_SHARE = 0.01
"""Of the inference: less is not worth a sentence."""
_TOP = 3
"""Pieces of advice that are shown beside other things."""
_MOVES = ("aten.permute", "aten.transpose", "aten.t.", "aten.movedim", "aten.swapaxes")
"""Operators by which a model asks for a transposition itself."""
_FEWER_WEIGHTS = "fewer weights: a smaller or grouped layer, or weights pruned to zero, which encode to less"
_WEIGHTS_TO_SRAM = "a memory mode with the weights in SRAM, if they fit (--memory-mode Sram_Only)"
_ARENA_TO_SRAM = (
    "a memory mode with the arena in SRAM, if it fits (--memory-mode Shared_Sram or Sram_Only); else a larger "
    "--arena-cache-size, or smaller activations"
)


@dataclass(frozen=True)
class Advice:
    """Something that costs time, and what to do about it.

    Attributes:
        kind: "layout", "flatten", "transposition", "cpu-operator", "activations" or "weights".
        what: what takes the time, where, and why.
        remedy: what to do.
        saving: cycles that the remedy saves at most, the CPU's instructions counted as cycles.
        rows: ids of the rows in the record.
    """

    kind: str
    what: str
    remedy: str
    saving: int
    rows: tuple[str, ...]


def advice(record: Record) -> tuple[Advice, ...]:
    """Return what is worth doing something about, the largest saving first; nothing for a record without a profile."""
    profile = record.profile
    if profile is None:
        return ()
    rules: tuple[Callable[[Record, InferenceProfile], Iterator[Advice]], ...] = (_layouts, _cpu_operators, _memories)
    advices = [item for rule in rules for item in rule(record, profile)]
    total = sum(op.cycles or 0 for op in record.ops) + sum(row.count or 0 for row in profile.cpu if row.part == KERNEL)
    worth = [item for item in advices if item.saving >= max(1, total * _LEAST_SHARE)]
    return tuple(sorted(worth, key=lambda item: -item.saving))


def sentences(record: Record) -> tuple[str, ...]:
    """Return the advice with the largest savings, each in a line."""
    texts = []
    for entry in advice(record)[:_TOP]:
        texts.append(one_line(f"{sentence(entry.what)}. {sentence(entry.remedy)} (saves up to {entry.saving:,})."))
    return tuple(texts)


def _layouts(record: Record, profile: InferenceProfile) -> Iterator[Advice]:
    """Transpositions: those that the model asks for, and those between PyTorch's layout and the NPU's, at the border of
    a delegate or inside it.
    """
    turning = [op for op in record.ops if op.tosa_op == "TRANSPOSE"]
    asked = [op for op in turning if any(name.startswith(_MOVES) for name in op.aten_ops)]
    rest = [op for op in turning if op not in asked]
    within = _inside({op.id for op in turning}, profile)
    inside = [op for op in rest if op.id in within]
    others = [op for op in rest if op.id not in within]
    if asked:
        yield Advice(
            "transposition",
            f"{count_of(len(asked), 'transposition')} that the model asks for {_take(asked)}, at {_lines(asked)}",
            "keep one layout through the model: leave out a permute whose effect a later one undoes",
            _cycles(asked),
            _ids(asked),
        )
    if inside:
        yield Advice(
            "flatten",
            f"{count_of(len(inside), 'transposition')} inside the model, where a flatten, view or reshape needs "
            f"PyTorch's order of a map's elements, {_take(inside)}, for {_lines(inside)}",
            "pool the map to one pixel before it is flattened, or put a convolution as large as the map in place of "
            "the flatten and the linear layer",
            _cycles(inside),
            _ids(inside),
        )
    if others:
        yield Advice(
            "layout",
            f"{count_of(len(others), 'transposition')} between PyTorch's layout (channels first) and the NPU's "
            f"(channels last) {_take(others)}, for {_lines(others)}",
            "give model and example inputs in memory format torch.channels_last",
            _cycles(others),
            _ids(others),
        )


def _inside(turning: Set[str], profile: InferenceProfile) -> Set[str]:
    """Return the transpositions that are between two other operations of the NPU, not at the border of a delegate."""
    before = {edge.target: edge.source for edge in profile.edges}
    after = {edge.source: edge.target for edge in profile.edges}
    return {row for row in turning if all(_beyond(row, turning, step) in profile.costs for step in (before, after))}


def _beyond(row: str, turning: Set[str], step: Mapping[str, str]) -> str:
    """Return the first row behind transpositions, which may be none of the NPU's."""
    passed: set[str] = set()
    while row in turning and row not in passed:
        passed.add(row)
        row = step.get(row, "")
    return row


def _cpu_operators(record: Record, profile: InferenceProfile) -> Iterator[Advice]:
    calls: Sequence[CpuOp] = record.artifact.cpu_calls if record.artifact is not None else ()
    kernels = [row for row in profile.cpu if row.part == KERNEL]
    if len(calls) != len(kernels):
        return
    delegates = [row.instruction for row in profile.cpu if row.part == "start"]
    for call, row in zip(calls, kernels, strict=True):
        if call.kind != "operator":
            continue
        between = any(at < row.instruction for at in delegates) and any(at > row.instruction for at in delegates)
        # What it takes, and the conversions that the CPU needs around it.
        around = [kernel for other, kernel in zip(calls, kernels, strict=True) if other.kind == "conversion"
                  and min(abs(kernel.instruction - row.instruction), 2) == 1]  # fmt: skip
        saving = (row.count or 0) + sum(kernel.count or 0 for kernel in around)
        place = " between two delegates" if between else ""
        where = f" at {call.source}" if call.source else ""
        yield Advice(
            "cpu-operator",
            f"{call.aten or call.operator} runs on the CPU{place}{where}: {call.reason or 'the reason is not known'}; "
            f"it and the conversions around it take {saving:,} {row.unit or 'cycles'}",
            call.remedy or "use an operator that the NPU has",
            saving,
            (row.id, *(kernel.id for kernel in around)),
        )


def _memories(record: Record, profile: InferenceProfile) -> Iterator[Advice]:
    """Rows that a memory or the weight decoders hold up, by what is moved."""
    held: dict[tuple[str, str], list[Op]] = {}
    for op in record.ops:
        cost = profile.costs.get(op.id)
        if cost is not None and op.cycles and cost.bound_by not in ("", "mac", "output", "latency"):
            held.setdefault((_traffic_text(cost), cost.bound_by), []).append(op)
    for (moved, bound), ops in held.items():
        saving = sum(min(op.cycles or 0, _excess(profile.costs[op.id])) for op in ops)
        if moved == "weights":
            weights = sum(profile.costs[op.id].weight_bytes for op in ops)
            how = "decoding weights" if bound == "weights" else f"reading weights from {bound}"
            yield Advice(
                "weights",
                f"{how} bounds {count_of(len(ops), 'operation')} ({weights:,} bytes of encoded weights), "
                f"which {_take(ops)}: {_lines(ops)}",
                _FEWER_WEIGHTS if bound in ("weights", "Sram") else f"{_WEIGHTS_TO_SRAM}; or {_FEWER_WEIGHTS}",
                saving,
                _ids(ops),
            )
        elif bound != "Sram":
            yield Advice(
                "activations",
                f"activations in {bound} bound {count_of(len(ops), 'operation')}, which {_take(ops)}: {_lines(ops)}",
                _ARENA_TO_SRAM,
                saving,
                _ids(ops),
            )


def _traffic_text(cost: OpCost) -> str:
    """Return whether a row waits rather for weights or for activations."""
    if cost.bound_by == "weights":
        return "weights"
    sizes = {"weights": 0, "activations": 0}
    for traffic in cost.traffic:
        if traffic.memory == cost.bound_by:
            constant = traffic.purpose in ("weights", "scales") or (traffic.purpose == "dma" and cost.weight_bytes)
            sizes["weights" if constant else "activations"] += traffic.read + traffic.written
    return max(sizes, key=lambda name: sizes[name])


def _excess(cost: OpCost) -> int:
    """Return how much longer a row's busiest unit works than the next one."""
    units = sorted((cost.mac_cycles, cost.output_cycles, cost.weight_cycles, *cost.port_cycles))
    return units[-1] - units[-2]


def _cycles(ops: Sequence[Op]) -> int:
    return sum(op.cycles or 0 for op in ops)


def _ids(ops: Sequence[Op]) -> tuple[str, ...]:
    return tuple(op.id for op in ops)


def _take(ops: Sequence[Op]) -> str:
    return f"take{'s' if len(ops) == 1 else ''} {_cycles(ops):,} cycles"


def _lines(ops: Sequence[Op]) -> str:
    by_line: dict[str, int] = {}
    for op in ops:
        place = op.source or op.module or op.id
        by_line[place] = by_line.get(place, 0) + (op.cycles or 0)
    first = sorted(by_line, key=lambda line: -by_line[line])
    return list_of(first)
