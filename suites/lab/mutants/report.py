"""The report of a session."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.suites.lab.mutants.mutate import WEIGHTS
from ethos_hil.suites.lab.mutants.trial import ENDINGS, MutantEnding

_EXAMPLES = 3


def summary(endings: Sequence[MutantEnding], seconds: float) -> RenderableType:
    """Return the report for people: endings by the way of damage, and findings."""
    total = Counter(ending.ending for ending in endings)
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    table.add_column("damage", footer="total")
    columns = [name for name in ENDINGS if total[name]]
    for name in columns:
        table.add_column(name, justify="right", footer=f"{total[name]:,}")
    for way in WEIGHTS:
        counts = Counter(ending.ending for ending in endings if ending.way == way)
        if counts:
            table.add_row(way, *(f"{counts[name]:,}" for name in columns))
    wrong = [ending for ending in endings if ending.finding]
    slowest = max(endings, key=lambda ending: ending.seconds)
    parts: list[RenderableType] = [
        table,
        "",
        f"{len(endings):,} boots in {seconds:.0f} seconds, the slowest in {slowest.seconds:.1f} ({slowest.mutant}); "
        f"findings: {len(wrong) or 'none'}",
    ]
    groups: dict[str, list[str]] = defaultdict(list)
    for ending in wrong:
        groups[f"{ending.ending}: {re.sub(r'0x[0-9a-f]+|[0-9]+', 'N', ending.words)}"].append(ending.mutant)
    for words, mutants in sorted(groups.items(), key=lambda item: -len(item[1])):
        more = f" and {len(mutants) - _EXAMPLES} more" if len(mutants) > _EXAMPLES else ""
        parts.append(Text(f"  {len(mutants):4} x {words}\n         {', '.join(mutants[:_EXAMPLES])}{more}"))
    return Group(*parts)
