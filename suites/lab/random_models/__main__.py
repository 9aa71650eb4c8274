"""Checks random networks: `python -m ethos_hil.suites.lab.random_models --count 300 --seed 0`.

Exit status: 0 every network is exact or refused by name on every NPU, 1 one is not.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


def main(
    count: Annotated[int, typer.Option(min=1, help="Networks.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="The first one's seed; the others follow.")] = 0,
    npu: Annotated[list[str] | None, typer.Option(help="NPU; can be repeated. Default: one of each family.")] = None,
    scheme: Annotated[str, typer.Option(help="a8w8 or a16w8.")] = "a8w8",
) -> None:
    """Lower random networks and compare each delegate on the functional NPU with tosa_reference_model."""
    from ethos_hil.suites.lab.random_models.networks import network
    from ethos_hil.suites.lab.random_models.trial import NetworkTrial, trial

    endings: Counter[tuple[str, str]] = Counter()
    repaired: Counter[str] = Counter()
    failed: list[NetworkTrial] = []
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        for number in range(seed, seed + count):
            sys.stderr.write(f"\r{number - seed} of {count}, {len(failed)} failed ")
            drawn = network(number)
            for each in npu or NPUS:
                done = trial(drawn, each, Path(folder), "a16w8" if scheme == "a16w8" else "a8w8")
                endings[each, done.ending.value] += 1
                repaired.update(done.defects)
                if done.ending.failed or done.detail:
                    sys.stdout.write(f"{done}\n  {drawn.module.recipe}\n")
                    sys.stdout.flush()
                if done.ending.failed:
                    failed.append(done)
    for (where, ending), times in sorted(endings.items()):
        sys.stdout.write(f"{where}  {ending}  {times}\n")
    for defect, times in sorted(repaired.items()):
        sys.stdout.write(f"repaired  {defect}  {times}\n")
    if failed:
        again = f"python -m ethos_hil.suites.lab.random_models --count 1 --seed {failed[0].seed} --npu {failed[0].npu}"
        sys.stdout.write(f"{len(failed)} failed; the first again: {again}\n")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
