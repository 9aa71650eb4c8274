"""`python -m ethos_hil.suites.lab cmsis-nn CHECKOUT`: the reference of the Cortex-M backend against CMSIS-NN."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ethos_hil.suites.lab.shared import ROOT

ANSWERS = ROOT / "lowering/tests/data/cmsis_nn.npz"
WITHOUT = ("quantized_activation", "quantized_div")
"""ExecuTorch has kernels of its own for these."""


def main(
    checkout: Annotated[
        Path, typer.Argument(metavar="CHECKOUT", help="Of ARM-software/CMSIS-NN, at the commit that ExecuTorch builds.")
    ],
    count: Annotated[int, typer.Option("-n", min=1, help="Calls of each operator.")] = 200,
    record: Annotated[bool, typer.Option("--record", help=f"Write {ANSWERS.name}, which the tests read.")] = False,
) -> None:
    """Compare the reference of the Cortex-M backend's operators with CMSIS-NN, built for this computer."""
    from ethos_hil.lowering.oracle.cortex_m_kernels import answer_of
    from ethos_hil.lowering.testing.cortex_m_cases import EACH, NAMES, NHWC, calls
    from ethos_hil.suites.lab.prove.cmsis_nn.library import CmsisNn, build

    names = [name for name in NAMES if name not in WITHOUT and not name.endswith(NHWC)]
    recorded, wrong = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        library = CmsisNn(build(checkout, Path(folder)))
        for name in names:
            different = 0
            answers = []
            for call in calls(name, max(count, EACH)):
                ours = answer_of(call.operator, call.arguments)
                answers.append(np.ascontiguousarray(library.answer(call, ours.shape)))
                different += not np.array_equal(ours, answers[-1])
            recorded[name] = np.concatenate([answer.ravel() for answer in answers[:EACH]])
            sys.stdout.write(f"{name}: {different} of {len(answers)} calls differ\n")
            wrong += different
    if record:
        np.savez_compressed(ANSWERS, **recorded)
    if wrong:
        raise typer.Exit(1)
