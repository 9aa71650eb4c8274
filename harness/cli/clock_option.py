"""The option `--clock` of `run`, `profile`, `bench` and `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.lowering.errors import UsageError

if TYPE_CHECKING:
    from ethos_hil.results.clock import StatedClock

CLOCK = Annotated[
    str | None,
    typer.Option(
        metavar="CLOCK",
        help="The NPU's clock that cycles become milliseconds with: 400MHz, 500MHz/1GHz for NPU and CPU, or a part "
        "such as alif-e8-hp, ek-ra8p1 or mps4-fi101 (docs/latency.md). Cycles stay as they are.",
        show_default="that of Vela's system configuration",
    ),
]


def asked_clock(text: str | None) -> StatedClock | None:
    """Return the clock that an option states, None where it states none.

    Raises:
        UsageError: it is no clock, or one that no part has.
    """
    from ethos_hil.results.known_clocks import stated_clock

    if text is None:
        return None
    try:
        return stated_clock(text)
    except ValueError as error:
        raise UsageError(f"--clock: {error}", hint="--clock 400MHz") from error
