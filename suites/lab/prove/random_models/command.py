"""Checks random networks: `python -m ethos_hil.suites.lab random --count 300 --seed 0`.

Exit status: 0 every network is verified on every NPU, or refused before boot with a line and advice; 1 one is not;
2 unusable arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from ethos_hil.base.console import table_of
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.prove.random_models.scheme import DrawnScheme
from ethos_hil.suites.lab.prove.random_models.trial import LIMIT_SECONDS, NetworkEnding, NetworkJob, NetworkTrial
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile, npus_of, run_jobs, show, write_json

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


def main(
    count: Annotated[int, typer.Option(min=1, help="Networks.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="The first one's seed; the others follow.")] = 0,
    npu: Annotated[
        list[str] | None, typer.Option(help=f"NPU; may be repeated. Default: one of each family, {', '.join(NPUS)}.")
    ] = None,
    scheme: Annotated[
        DrawnScheme | None, typer.Option(help="mixed: a8w8 with 16 bits in one or two layers. Default: drawn for each.")
    ] = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Lower random networks, compare delegates with tosa_reference_model, and run each network on a virtual board."""
    npus = npus_of(npu, NPUS)
    work = [NetworkJob(number, npus, scheme) for number in range(seed, seed + count)]
    trials = run_jobs(Crew(jobs, LIMIT_SECONDS), work, f"Trying {count} networks on {len(npus)} NPUs")
    write_json(json_file, [asdict(trial) for trial in trials])
    failed = [done for done in trials if done.ending.failed]
    for done in failed:
        show(f"{done}\n  {done.recipe}")
    show(endings(trials))
    repaired = Counter(defect for done in trials for defect in done.defects)
    for title, counted in (("refused", reasons(trials)), ("repaired", repaired)):
        for what, times in counted.most_common():
            show(f"{title} {times}: {what}")
    if failed:
        again = f"python -m ethos_hil.suites.lab random --count 1 --seed {failed[0].seed} --npu {failed[0].npu}"
        show(f"{len(failed)} failed; the first again: {again}")
        raise typer.Exit(1)


def endings(trials: Sequence[NetworkTrial]) -> Table:
    """Return a table of how many networks ended how on each NPU."""
    counted = Counter((done.npu, done.ending) for done in trials)
    seen = [ending for ending in NetworkEnding if any(done.ending is ending for done in trials)]
    table = table_of("NPU", *(str(ending) for ending in seen))
    for name in dict.fromkeys(done.npu for done in trials):
        table.add_row(name, *(str(counted[name, ending]) for ending in seen))
    return table


def reasons(trials: Sequence[NetworkTrial]) -> Counter[str]:
    """Count why networks were refused, without what differs from one to the other."""
    return Counter(done.reason for done in trials if done.ending is NetworkEnding.REFUSED)
