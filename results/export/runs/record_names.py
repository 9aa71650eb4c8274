"""Names of the records of a run: no two have one name, and a name is the same in every run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ethos_hil.base.record import Record
from ethos_hil.results.gate.account import part_of
from ethos_hil.results.subject import subject_of

_DIGITS = 12
PARTS = ("npu", "memory_mode", "target", "soc", "system_config", "method", "runner", "bench_case", "scheme", "inputs",
         "part")  # fmt: skip
"""What tells records of one test apart, in the order in which it is looked at."""
SELDOM = ("bench_case", "scheme")
"""Parts that are told only of records that are alike in all others but the inputs: the others were there first, and CI
systems follow names."""
_Parts = Mapping[str, str]


def parts_of(record: Record) -> _Parts:
    """Return what a record has of `PARTS`."""
    subject = subject_of(record)
    return {
        "npu": subject.npu, "memory_mode": subject.memory_mode, "target": subject.target, "soc": subject.soc,
        "system_config": subject.system_config, "method": subject.method, "runner": subject.runner[:_DIGITS],
        "bench_case": subject.case, "scheme": subject.scheme, "inputs": record.inputs_sha256[:_DIGITS],
        "part": part_of(record),
    }  # fmt: skip


def distinctions(records: Sequence[Record], always: Sequence[str]) -> list[str]:
    """Return what to put behind the label of each record: "[ethos-u55-128, Sram_Only]".

    Args:
        records: all of a run.
        always: the parts that are always there, where a record has them. Another one is there where records with the
            same label and the same parts of these differ in it. A record that is like one before it in all parts has
            its number.
    """
    parts = [{**parts_of(record), "label": record.label} for record in records]
    texts = [""] * len(records)
    for group in alike(range(len(parts)), parts, ("label", *always)):
        extra = _choose_parts([parts[number] for number in group], always)
        seen: Counter[tuple[str, ...]] = Counter()
        for number in group:
            values = tuple(parts[number][name] for name in (*always, *extra))
            seen[values] += 1
            shown = [*filter(None, values), *([f"#{seen[values]}"] if seen[values] > 1 else ())]
            texts[number] = f"[{', '.join(shown)}]" if shown else ""
    return texts


def alike(numbers: Iterable[int], parts: Sequence[_Parts], names: Iterable[str]) -> list[list[int]]:
    """Return the numbers of what has the same in some parts, in groups."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number in numbers:
        groups[tuple(parts[number][name] for name in names)].append(number)
    return list(groups.values())


def _choose_parts(group: Sequence[_Parts], always: Sequence[str]) -> list[str]:
    """Return which parts tell records apart. A case or scheme, where it has to be told, makes it unnecessary to tell
    the inputs, which may be edited."""

    def differing(names: Iterable[str], among: Sequence[str]) -> list[str]:
        groups = [[group[at] for at in numbers] for numbers in alike(range(len(group)), group, among)]
        return [name for name in names if any(len({parts[name] for parts in members}) > 1 for members in groups)]

    others = differing((name for name in PARTS if name not in (*always, *SELDOM, "inputs")), ())
    own = differing((name for name in SELDOM if name not in always), others)
    inputs = differing(("inputs",), (*others, *own) if own else ()) if "inputs" not in always else []
    return [name for name in PARTS if name in (*others, *own, *inputs)]
