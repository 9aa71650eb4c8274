"""The clock that a user asks times to be made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.base.errors import UsageError

if TYPE_CHECKING:
    from ethos_hil.base.clock import StatedClock


def asked_clock(text: str | None) -> StatedClock | None:
    """Return the clock that a text states, None where there is none.

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
