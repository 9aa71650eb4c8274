"""A process that uses a farm: `python -m ethos_hil_labgrid.tests.farm_user TARGET RUNS` runs a small program there.

It prints a line of JSON for each run: where it ran, how long that took, and whether the answer was right; or how it
failed, which ends it with status 1.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.cli.main import guard
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.virtual.tests.programs import NPU, load


def main() -> int:
    """Run a recorded program on a target, again and again."""
    target, runs = sys.argv[1:]
    program = load("convolutions")
    try:
        board = make_target(target, EthosU.parse(NPU))
        image = pack(find_firmware(board.soc), program.pte, [program.inputs], RunPlan(1, len(program.inputs)))
        for _ in range(int(runs)):
            began = time.perf_counter()
            try:
                board.load(image)
                outcome = board.run(timeout=60.0)
            finally:
                board.reset()
            seconds = time.perf_counter() - began
            (run,) = outcome.runs
            right = len(run.outputs) == len(program.outputs) and all(map(np.array_equal, run.outputs, program.outputs))
            _say(notes=outcome.notes, seconds=seconds, right=right)
    except EthosHilError as error:
        _say(kind=error.kind, message=error.message, hint=error.hint)
        return 1
    return 0


def _say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    guard(main)
