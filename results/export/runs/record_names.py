"""Names of the records of a run: no two have one name, and a name is the same in every run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ethos_hil.results.record import Record

_DIGITS = 12
PARTS: Mapping[str, Callable[[Record], str]] = MappingProxyType({
    "npu": lambda record: record.npu,
    "memory_mode": lambda record: record.memory_mode,
    "target": lambda record: record.target.name,
    "soc": lambda record: record.target.soc,
    "system_config": lambda record: record.system_config,
    "method": lambda record: record.method,
    "runner": lambda record: record.runner.sha256[:_DIGITS] if record.runner is not None else "",
    "inputs": lambda record: record.inputs_sha256[:_DIGITS],
    "part": lambda record: record.run.part if record.run is not None else "",
})  # fmt: skip
"""What tells records of one test apart, in the order in which it is looked at."""


def distinctions(records: Sequence[Record], always: Sequence[str]) -> list[str]:
    """Return what to put behind the label of each record: "[ethos-u55-128, Sram_Only]".

    Args:
        records: all of a run.
        always: the parts that are always there, where a record has them. Another one is there where records with the
            same label and the same parts before it differ in it. A record that is like one before it in all parts has
            its number.
    """
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        groups[record.label, *(PARTS[name](record) for name in always)].append(number)
    found = [""] * len(records)
    for key, numbers in groups.items():
        seen: Counter[tuple[str, ...]] = Counter()
        told = [name for name, part in PARTS.items()
                if name not in always and len({part(records[number]) for number in numbers}) > 1]  # fmt: skip
        for number in numbers:
            parts = (*key[1:], *(PARTS[name](records[number]) for name in told))
            seen[parts] += 1
            shown = [*filter(None, parts), *([f"#{seen[parts]}"] if seen[parts] > 1 else ())]
            found[number] = f"[{', '.join(shown)}]" if shown else ""
    return found
