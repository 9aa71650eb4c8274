"""What is said of a ledger, in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Mapping

from ethos_hil.results.ledger.rule_facts import Rules, confidence
from ethos_hil.results.ledger.summary import ESTIMATES, LedgerSummary

NOTHING_COUNTED = (
    "No FVP and no board has counted any of this, so nothing here says how far an estimate is off: it is the timing "
    "model against the compiler."
)
NOT_COUNTED = "Not counted by anybody: the timing model against the compiler."
OVER_COUNT: Mapping[str, str] = {name: f"{title} / counted" for name, title in ESTIMATES.items()}
OVER_VELA: Mapping[str, str] = {
    "vela_op": "modelled / Vela",
    "vela_npu": "modelled / Vela without memories",
}
"""What is divided by what, by the name in `LedgerGroup.ratios`."""


def heading(found: LedgerSummary) -> str:
    """Return the line that says how many rows there are, who counted them, and by how many timing models."""
    text = f"{found.rows:,} rows, {found.references:,} of them counted by an FVP or a board"
    if found.without_ratio:
        text += f", {found.without_ratio:,} of these without a ratio"
    models = ", ".join(f"{name or 'not named'} ({count:,})" for name, count in found.timing_models.items())
    return f"{text}; modelled by timing model {models}" if models else text


def trust(found: LedgerSummary, rules: Rules) -> tuple[str, ...]:
    """Return a line for each rule of the timing model that decides some of the cycles, and how well it is validated."""
    return tuple(confidence(name, rules) for name in found.rules)
