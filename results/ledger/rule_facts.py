"""What is known of a rule of the timing model: where it comes from, and how well it is validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ethos_hil.base.plain_text import one_line
from ethos_hil.results.ledger.ledger_row import SEVERAL


@dataclass(frozen=True)
class RuleFacts:
    """A rule of the timing model. Errors are modelled over counted, less one: 0.03 is 3 % too many cycles.

    Attributes:
        title: what it says, in a few words.
        source: where it comes from: a manual, a header, Vela's code, a fit.
        validated_on: what it was held against, "12 single operations on an FVP"; "" where it was not.
        median: the median of the errors' sizes; `worst` is the error that is farthest from 0. None where not known.
    """

    title: str
    source: str
    validated_on: str = ""
    median: float | None = None
    worst: float | None = None


Rules = Mapping[str, RuleFacts]
"""Facts by the id of the rule, as `OpCost.rule` has it."""
UNKNOWN = "no rule is known"


def confidence(rule: str, rules: Rules) -> str:
    """Return one line: which rule a modelled number comes from, and how far it is to be trusted."""
    facts = rules.get(rule)
    if not rule:
        return f"{UNKNOWN}, so nothing says how far the modelled cycles are off"
    if rule == SEVERAL:
        return f"{rule}: operations that share one count, and do not follow one rule"
    if facts is None:
        return one_line(f"{rule}: nothing is known of this rule here")
    if not facts.validated_on:
        return one_line(f"{rule}: {facts.title} ({facts.source}); not validated")
    errors = [f"{word} {value:{sign}.1%}" for word, value, sign in
              (("median error", facts.median, ""), ("worst", facts.worst, "+")) if value is not None]  # fmt: skip
    told = f": {', '.join(errors)}" if errors else ""
    return one_line(f"{rule}: {facts.title} ({facts.source}); validated on {facts.validated_on}{told}")
