"""A process that uses a farm: `python -m ethos_hil_labgrid.tests.farm_user TARGET` runs a small program there.

It prints a line of JSON for each run: where it ran, how long that took, and whether the answer was right; or how it
failed, which ends it with status 1.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import numpy as np
import typer

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.cli.main import guard
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.virtual.tests.programs import NPU, Recorded, load

_SECONDS = 60.0


def main(
    target: Annotated[str, typer.Argument(help="As `--target` takes it.")],
    runs: Annotated[int, typer.Option(min=1)] = 1,
    repeat: Annotated[int, typer.Option(min=1, help="Inferences of a run.")] = 1,
) -> None:
    """Run a recorded program on a target, again and again."""
    program = load("convolutions")
    try:
        board = make_target(target, EthosU.parse(NPU))
        plan = RunPlan(1, len(program.inputs), repeat)
        image = pack(find_firmware(board.soc), program.pte, [list(program.inputs)], plan)
        for _ in range(runs):
            began = time.perf_counter()
            try:
                board.load(image)
                outcome = board.run(timeout=_SECONDS)
            finally:
                board.reset()
            seconds = time.perf_counter() - began
            _say(notes=outcome.notes, seconds=seconds, right=_is_right(outcome, program, image))
    except EthosHilError as error:
        _say(kind=error.kind, message=error.message, hint=error.hint)
        raise typer.Exit(1) from None


def _is_right(outcome: Outcome, program: Recorded, image: Image) -> bool:
    return len(outcome.runs) == image.plan.input_set_count * image.plan.repeat and all(
        len(run.outputs) == len(program.outputs) and all(map(np.array_equal, run.outputs, program.outputs))
        for run in outcome.runs
    )


def _say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(main)
    guard(lambda: app(standalone_mode=False))
