"""The option `--clock` of `run`, `profile` and `bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethos_hil.harness.ask.asked_clock import asked_clock as asked_clock

CLOCK = Annotated[
    str | None,
    typer.Option(
        metavar="CLOCK",
        help="The NPU's clock that cycles become milliseconds with: 400MHz, 500MHz/1GHz for NPU and CPU, or a part "
        "such as alif-e8-hp, ek-ra8p1 or mps4-fi101 (docs/latency.md). Cycles stay as they are.",
        show_default="that of Vela's system configuration",
    ),
]
