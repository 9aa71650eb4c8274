"""Where modelled cycles come from, as text for people: the timing model's rules, and how well they are validated."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ethos_hil.base.record import Record
from ethos_hil.harness.terminal.console import plain
from ethos_hil.results.ledger.rule_facts import Rules, confidence

_MODELLED = "modelled"


def modelled_by(record: Record, rules: Rules) -> Iterator[Text]:
    """Yield a line for each rule that decides modelled cycles of a profile, those of most cycles first; none where the
    target counted, or the record does not say.
    """
    costs = record.profile.costs if record.profile is not None else {}
    shares: dict[str, int] = {}
    for op in record.ops:
        cost = costs.get(op.id)
        if cost is not None and op.provenance == _MODELLED:
            shares[cost.rule] = shares.get(cost.rule, 0) + (cost.modelled or 0)
    total = sum(shares.values())
    if not total or not any(shares):
        return
    yield Text("")
    yield Text("where modelled cycles come from", style="bold")
    for rule, cycles in sorted(shares.items(), key=lambda item: (-item[1], item[0])):
        yield plain(f"{cycles / total:.0%}: {confidence(rule, rules)}")
