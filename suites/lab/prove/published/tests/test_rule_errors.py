"""The table of how well the timing model's rules are validated is what the published runs say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.harness.npu.timing.rules import RULES
from ethos_hil.suites.lab.prove.published.comparison import rule_errors
from ethos_hil.suites.lab.prove.published.published_point import PointKind, kept_streams, published_points

pytestmark = pytest.mark.product


def test_the_rules_have_the_errors_of_the_published_runs() -> None:
    errors = rule_errors(published_points(), kept_streams())
    assert {
        rule: (int(facts.validated_on.split()[0]), facts.median, facts.worst)
        for rule, facts in RULES.items()
        if facts.validated_on
    } == errors
    assert all(facts.title and facts.source for facts in RULES.values())


def test_a_run_that_takes_longer_is_seen() -> None:
    streams = kept_streams()
    point = next(
        point
        for point in published_points()
        if (point.network, point.npu, point.kind) == ("kws", "ethos-u55-32", PointKind.NETWORK)
    )
    assert all(abs(worst) < 0.02 for _, _, worst in rule_errors([point], streams).values())
    slower = replace(point, total=2 * point.total, active=None if point.active is None else 2 * point.active)
    errors = rule_errors([slower], streams)
    assert errors
    assert all(worst < -0.45 for _, _, worst in errors.values())
