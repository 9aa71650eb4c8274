"""What is known of the timing model's rules, for what shows modelled cycles."""

from __future__ import annotations

from ethos_hil.harness.npu.timing.rules import RULES
from ethos_hil.results.ledger.rule_facts import Rules


def timing_rules() -> Rules:
    """Return the facts by the rule's id."""
    return RULES
