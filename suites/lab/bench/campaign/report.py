"""The campaign's table: a row for each trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from ethos_hil.suites.lab.bench.campaign.trial import ScenarioEnding
from ethos_hil.suites.lab.bench.campaign.trouble import TROUBLES, VERIFIED


def table(endings: Sequence[ScenarioEnding]) -> Table:
    """Return it. A scenario with two troubles is in two rows."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("trouble")
    for title in ("scenarios", "verified"):
        grid.add_column(title, justify="right")
    grid.add_column("other endings")
    for title in ("slowest", "well again", "findings"):
        grid.add_column(title, justify="right")
    for trouble in TROUBLES:
        those = [ending for ending in endings if trouble in ending.troubles]
        if not those:
            continue
        kinds = Counter(kind for ending in those for kind in ending.endings)
        verified = kinds.pop(VERIFIED, 0)
        others = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        slowest, well = (max(getattr(ending, name) for ending in those) for name in ("seconds", "well_seconds"))
        findings = sum(1 for ending in those if ending.violations)
        cells = (str(len(those)), str(verified), others, f"{slowest:.1f} s", f"{well:.1f} s", str(findings or "none"))
        grid.add_row(str(trouble), *cells)
    return grid
