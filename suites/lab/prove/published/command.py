"""`python -m ethos_hil.suites.lab published`: what FVPs counted and others published, beside the timing model and Vela.

Exit status: 0 all was compared, 2 unusable arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from ethos_hil.base.console import console
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.harness.npu.timing.rules import RULES
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.ledger.summary import summarise
from ethos_hil.results.text.ledger import ledger as error_ledger
from ethos_hil.suites.lab.prove.published import tables
from ethos_hil.suites.lab.prove.published.comparison import compare, rule_errors
from ethos_hil.suites.lab.prove.published.published_point import PointKind, PublishedPoint, published_points, select
from ethos_hil.suites.lab.prove.published.stream_archive import kept_streams
from ethos_hil.suites.lab.prove.published.tables import ledger_rows

_FAMILIES = tuple(family.name for family in FAMILIES)
_KINDS = ", ".join(PointKind)


def main(
    networks: Annotated[
        list[str] | None, typer.Argument(metavar="[NETWORK]...", help="As kws or conv3x3-6x6; default: all.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help=f"Of {_KINDS}; may be given again. Default: all.")
    ] = None,
    family: Annotated[
        list[str] | None, typer.Option(metavar="FAMILY", help="u55, u65 or u85; may be given again. Default: all.")
    ] = None,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Print the table of the error ledger for these points, and no other.")
    ] = False,
    rules: Annotated[
        bool, typer.Option("--rules", help="Print the errors by the timing model's rules, as its rules.py has them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Compare published totals with the timing model's and Vela's, points of the fit and held-out ones apart.

    Example: python -m ethos_hil.suites.lab published --kind network --family u85
    """
    points = _chosen(networks or (), kind or (), family or ())
    if rules:
        for rule, numbers in rule_errors(points, kept_streams()).items():
            sys.stdout.write(f'    "{rule}": {numbers},\n')
        return
    with Live() as live:
        live.stage(f"Modelling {len(points)} published runs")
        rows = compare(points, kept_streams(), live.step)
    if as_json:
        sys.stdout.write(json.dumps(tables.to_json(rows), indent=1) + "\n")
    elif ledger:
        console().print(error_ledger(summarise(ledger_rows(rows)), RULES, top=60))
    else:
        console().print(tables.point_table(rows), "", tables.beat_table(rows), "", tables.spread_table(rows), sep="\n")


def _chosen(networks: Sequence[str], kinds: Sequence[str], families: Sequence[str]) -> list[PublishedPoint]:
    points = published_points()
    known: Mapping[str, Sequence[str]] = {
        "network": [point.network for point in points],
        "kind": [str(kind) for kind in PointKind],
        "family": _FAMILIES,
    }
    for what, names in (("network", networks), ("kind", kinds), ("family", families)):
        for name in names:
            if name not in known[what]:
                raise UsageError(
                    f"no published run has the {what} {name!r:.60}",
                    hint=f"there are {', '.join(dict.fromkeys(known[what]))}",
                )
    chosen = select(points, kinds=[PointKind(name) for name in kinds], families=[f"ethos-{name}" for name in families])
    matches = [point for point in chosen if not networks or point.network in networks]
    if not matches:
        raise UsageError("no published run is of all these", hint="ask for less at once")
    return matches
