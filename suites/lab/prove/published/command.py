"""`python -m ethos_hil.suites.lab published`: what FVPs counted and others published, beside the timing model and Vela.

Exit status: 0 all was compared, 1 a stream that was compiled again is not the one that is kept, 2 unusable arguments,
3 Vela cannot be installed or does not work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.console import console
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.harness.npu.timing.rules import RULES
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.ledger.summary import summarise
from ethos_hil.results.text.ledger import ledger as error_ledger
from ethos_hil.suites.lab.prove.published import compile_streams, stream_archive, tables
from ethos_hil.suites.lab.prove.published.comparison import compare, rule_errors
from ethos_hil.suites.lab.prove.published.published_point import PointKind, PublishedPoint, published_points, select
from ethos_hil.suites.lab.prove.published.stream_archive import CompiledStream, kept_streams
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
    again: Annotated[
        bool, typer.Option("--compile", help="Compile the streams again, and compare them with those that are kept.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--networks", metavar="DIR", help="TensorFlow Lite files of the published networks, known by SHA-256."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep what --compile made, in place of what is kept.")] = False,
    environments: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where Vela 5.0.0 is installed; default: in the user's cache.")
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
    if (keep or folder or environments) and not again:
        raise UsageError("--networks, --keep and --environments are for --compile", hint="add --compile")
    points = _chosen(networks or (), kind or (), family or ())
    with Live() as live:
        streams, changed = kept_streams(), []
        if again:
            files = compile_streams.networks_in(folder) if folder else {}
            place = compile_streams.environment(environments, live)
            fresh = {stream.name: stream for stream in compile_streams.compiled(points, files, place, live)}
            changed = _changed(streams, fresh)
            streams = {**streams, **{name: stream for name, stream in fresh.items() if not _weaker(stream, streams)}}
        live.stage(f"Modelling {len(points)} published runs")
        rows = compare(points, streams, live.step)
    if rules:
        for rule, numbers in rule_errors(points, streams).items():
            sys.stdout.write(f'    "{rule}": {numbers},\n')
        return
    if keep:
        stream_archive.write(streams.values())
    if as_json:
        sys.stdout.write(json.dumps({**tables.to_json(rows), "changed": changed}, indent=1) + "\n")
    elif ledger:
        console().print(error_ledger(summarise(ledger_rows(rows)), RULES, top=60))
    else:
        shown = [tables.point_table(rows), "", tables.beat_table(rows), "", tables.spread_table(rows)]
        console().print(*shown, *(f"another stream than the kept one: {name}" for name in changed), sep="\n")
    raise typer.Exit(1 if changed and not keep else 0)


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


def _weaker(new: CompiledStream, kept: Mapping[str, CompiledStream]) -> bool:
    """Return whether a stream of a stand-in would replace one of the network itself."""
    there = kept.get(new.name)
    return new.stand_in and there is not None and not there.stand_in


def _changed(kept: Mapping[str, CompiledStream], new: Mapping[str, CompiledStream]) -> list[str]:
    return [
        name
        for name, stream in new.items()
        if not _weaker(stream, kept) and (name not in kept or kept[name].code != stream.code)
    ]
