"""EfficientNet-Lite0 classifies photographs on the target: the same five classes as the quantised reference.

How far that agrees with the network in float goes into JUnit's XML, and is printed by
`python -m suites.models.classification`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from suites.options import OPTIONS

Property = Callable[[str, object], None]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.u55
def test_photographs_U55_BI(pytestconfig: pytest.Config, record_property: Property) -> None:
    classify_photographs("U55_BI", pytestconfig, record_property)


@pytest.mark.u65
def test_photographs_U65_BI(pytestconfig: pytest.Config, record_property: Property) -> None:
    classify_photographs("U65_BI", pytestconfig, record_property)


@pytest.mark.u85
def test_photographs_U85_BI(pytestconfig: pytest.Config, record_property: Property) -> None:
    classify_photographs("U85_BI", pytestconfig, record_property)


def classify_photographs(profile: str, config: pytest.Config, record_property: Property) -> None:
    from suites.models.classification import classify

    options = config.stash[OPTIONS]
    npu, settings = options.profiles[profile].npu, options.settings
    assert npu is not None
    if settings.target is None or settings.replay is not None:
        pytest.skip("photographs are looked at on a target only")
    classification = classify(npu, settings.target, strict=settings.strict)
    assert classification.record.verdict == "verified", classification.record.failure
    for answers in classification.answers:
        assert answers.device == answers.reference, answers
        shown = answers.photograph.shows
        assert not shown or shown & set(answers.device), f"none of the five classes names what it shows: {answers}"
    record_property("agreement", classification.agreement())
