"""The zoo's results, as text and as the tables of docs/zoo.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ethos_hil.base.plain_text import one_line
from ethos_hil.suites.lab.prove.zoo.pair import Group, PairResult
from ethos_hil.suites.lab.shared import markdown_table
from ethos_hil.suites.models.zoo.architectures import ARCHITECTURES


def line(result: PairResult) -> str:
    """Return one result on one line."""
    parts = [f"{result.group:8}", f"{result.architecture:26}", f"{result.npu:14}", f"{result.seconds:6.1f} s"]
    if result.delegated is not None:
        parts.append(f"{result.delegated:5} NPU  {_calls(result):4} CPU")
    if result.group != "verified":
        parts.append(f"{result.kind or result.verdict or result.status}: {result.told}")
    return one_line("  ".join(parts))


def summary(results: Sequence[PairResult]) -> str:
    """Return the counts, and the pairs that are not verified."""
    counts = Counter(result.group for result in results)
    lines = [line(result) for result in results if result.group != "verified"]
    lines.append(", ".join(f"{count} {group}" for group, count in sorted(counts.items())) or "nothing ran")
    return "\n".join(lines) + "\n"


def markdown(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of docs/zoo.md, by name, from what is in docs/data/zoo.json."""
    results = [PairResult.of_json(entry) for entry in data["pairs"]]
    npus = list(dict.fromkeys(result.npu for result in results))
    return {
        "zoo-run": _table(("", ""), data["facts"].items()),
        "zoo-verdicts": _verdicts(results, npus),
        "zoo-architectures": _architectures(results, npus),
        "zoo-cpu": _cpu(results),
        "zoo-refused": _refused(results),
        "zoo-waiting": _waiting({result.architecture for result in results}),
    }


def _verdicts(results: Sequence[PairResult], npus: Sequence[str]) -> str:
    groups: tuple[Group, ...] = ("verified", "refused", "wrong")
    counts = Counter((result.npu, result.group) for result in results)
    rows = [(npu, *(str(counts[npu, group]) for group in groups)) for npu in npus]
    return _table(("NPU", *groups), rows)


def _architectures(results: Sequence[PairResult], npus: Sequence[str]) -> str:
    by_name: dict[str, dict[str, PairResult]] = {}
    for result in results:
        by_name.setdefault(result.architecture, {})[result.npu] = result
    rows = []
    for name, pairs in by_name.items():
        architecture, least = ARCHITECTURES[name], pairs[min(pairs)]
        row = [f"`{name}`", architecture.origin, architecture.shapes]
        row += [_cell(pairs[npu]) if npu in pairs else "" for npu in npus]
        row += [f"{_calls(least)}", _number(least.sram and least.sram // 1024), _number(least.lowering)]
        rows.append(row)
    head = ("architecture", "from", "inputs", *(npu.removeprefix("ethos-") for npu in npus))
    return _table((*head, "CPU calls", "SRAM, KiB", "lowering, s"), rows)


def _waiting(ran: set[str]) -> str:
    rows = [
        (f"`{name}`", architecture.origin, architecture.shapes, architecture.kind)
        for name, architecture in ARCHITECTURES.items()
        if name not in ran
    ]
    return _table(("architecture", "from", "inputs", "kind"), rows)


def _cell(result: PairResult) -> str:
    return f"{result.cycles:,}" if result.group == "verified" and result.cycles is not None else result.group


def _cpu(results: Sequence[PairResult]) -> str:
    by_kernel: dict[tuple[str, str], set[str]] = {}
    for result in results:
        for operator in result.on_cpu:
            by_kernel.setdefault((operator.operator, operator.reason), set()).add(result.architecture)
    rows = [
        (f"`{operator}`", reason, str(len(names)), ", ".join(f"`{name}`" for name in sorted(names)[:4]))
        for (operator, reason), names in sorted(by_kernel.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return _table(("kernel", "why it is on the CPU", "architectures", "such as"), rows)


def _refused(results: Sequence[PairResult]) -> str:
    rows = [
        (f"`{result.architecture}`", result.npu, result.kind, f"{result.told} ({result.hint})")
        for result in results
        if result.group != "verified"
    ]
    return _table(("architecture", "NPU", "kind", "what it says"), rows)


def _calls(result: PairResult) -> int:
    return sum(operator.calls for operator in result.on_cpu)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return markdown_table(head, ([one_line(str(cell)) for cell in row] for row in rows))
