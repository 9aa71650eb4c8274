"""The options that commands about a model share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.harness.cli import completion

DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
RUNS = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where run folders are kept.")]
_MODEL = (
    "file.py:function or package.module:function, returning (module, example_inputs) or "
    "(module, example_inputs, calibration_inputs), or a dictionary of these by method name; a .pt2; a .pte; "
    "or a .bpte, which has inputs and expected outputs."
)
MODEL = Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL)]
MODEL_OR_BUNDLE = Annotated[
    str,
    typer.Argument(metavar="MODEL", help=f"{_MODEL} Or a .zip that `ethos-hil bundle` wrote, which has all of these."),
]
MODEL_OR_NONE = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help=f"{_MODEL} Without one, only the ELF of --runner is checked.")
]
TRUST_MODEL = Annotated[
    bool,
    typer.Option(
        "--trust-model", help="Load a .pt2 that has more than data in it. Such a file can run any code on this machine."
    ),
]
NPU = Annotated[
    str | None,
    typer.Option(
        help="NPU to compile for and run on, e.g. ethos-u55-256.",
        show_default="ethos-u55-128, or the only one of the target",
        autocompletion=completion.npus,
    ),
]
TARGET = Annotated[
    str,
    typer.Option(help="Where to run; `ethos-hil targets` lists what there is.", autocompletion=completion.targets),
]
MEMORY_MODE = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        autocompletion=completion.memory_modes,
        help="Where Vela puts the parts of the program: Shared_Sram, Sram_Only or Dedicated_Sram (or with a limit, as "
        "in Dedicated_Sram_384KB). Default: ExecuTorch's for the NPU.",
    ),
]
RUNNER = Annotated[
    Path | None,
    typer.Option(metavar="ELF", help="Run with this arm_executor_runner, by semihosting, not with our firmware."),
]
METHOD = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The method to run, in a program with several. Default: forward, or the first."),
]
AS_UPSTREAM = Annotated[
    bool,
    typer.Option(
        "--as-upstream",
        help="Repair none of Vela's known defects: the program is byte for byte what ExecuTorch alone makes.",
    ),
]
INPUTS = Annotated[
    Path | None,
    typer.Option(
        metavar="X.npz",
        help="One array per input, in order; one more leading axis than the input gives several input sets. "
        "Default: the model's example inputs.",
    ),
]

LEAVE = Annotated[
    list[str] | None,
    typer.Option(
        "--leave",
        metavar="WHAT",
        help="Leave this to the CPU: an operator (aten.sigmoid), a line of the model (net.py:12) or a module (head.0). "
        "May be repeated.",
    ),
]
ALLOW_CPU_ONLY = Annotated[
    bool, typer.Option("--allow-cpu-only", help="Accept a program of which nothing is on the NPU.")
]
REQUIRE_DELEGATED = Annotated[
    bool,
    typer.Option(
        "--require-delegated", help="Fail if an operator is on the CPU; conversions of inputs and outputs may be."
    ),
]
MAX_CPU_OPS = Annotated[
    int | None, typer.Option("--max-cpu-ops", metavar="N", help="Fail if more than N operators are on the CPU.")
]
