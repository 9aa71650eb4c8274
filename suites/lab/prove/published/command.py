"""`python -m ethos_hil.suites.lab published`: what FVPs counted and others published, beside the timing model and Vela.

Exit status: 0 all was compared, 2 unusable arguments.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from ethos_hil.base.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.prove.published import tables
from ethos_hil.suites.lab.prove.published.comparison import compare, rule_errors
from ethos_hil.suites.lab.prove.published.published_point import kept_streams, published_points


def main(
    rules: Annotated[
        bool, typer.Option("--rules", help="Print the errors by the timing model's rules, as its rules.py has them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Compare published totals with the timing model's and Vela's, points of the fit and held-out ones apart."""
    points = published_points()
    if rules:
        for rule, numbers in rule_errors(points, kept_streams()).items():
            sys.stdout.write(f'    "{rule}": {numbers},\n')
        return
    with Live() as live:
        live.stage(f"Modelling {len(points)} published runs")
        rows = compare(points, kept_streams(), live.step)
    if as_json:
        sys.stdout.write(json.dumps(tables.to_json(rows), indent=1) + "\n")
    else:
        console().print(tables.point_table(rows), "", tables.beat_table(rows), "", tables.spread_table(rows), sep="\n")
