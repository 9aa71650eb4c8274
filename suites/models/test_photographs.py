"""EfficientNet-Lite0 classifies photographs on the target: the same five classes as the quantised reference.

The agreement with the float network is printed at the end, and is in JUnit's XML. For each photograph, `python -m
ethos_hil.suites.models.classification` prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.question import NOWHERE, Question
from ethos_hil.base.verdict import Verdict
from ethos_hil.suites.models import test_models
from ethos_hil.suites.plugin.options import Options

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
    options = Options.of(config)
    question = options.question.but(npu=str(options.profiles[profile].npu))
    record_property("operator", "efficientnet_lite0")
    record_property("case", "photographs")
    reason = lacking(question, options.replay)
    if reason is not None:
        record_property("verdict", "skipped")
        pytest.skip(reason)
    verdict = "failed"
    try:
        record_property("agreement", check_the_same_five(question))
        verdict = "verified"
    finally:
        record_property("verdict", verdict)


def lacking(question: Question, replay: Path | None) -> str | None:
    """Return why photographs cannot be classified on the target, or None."""
    if question.target == NOWHERE or replay is not None:
        return "no target: photographs are looked at on one, and neither compiled only nor replayed"
    from ethos_hil.suites.trial.declared import missing_packages
    from ethos_hil.suites.trial.run_trial import missing

    packages = test_models.efficientnet_lite0.requires
    reason = missing_packages(packages) or missing(question)
    return None if reason is None else f"{reason.message}: {reason.hint}"


def check_the_same_five(question: Question) -> str:
    """Classify all photographs. Return a text about the agreement with the float network."""
    from ethos_hil.suites.models.classification import classify

    classification = classify(question)
    assert classification.record.verdict == Verdict.VERIFIED, classification.record.failure
    for answers in classification.answers:
        assert answers.device == answers.reference, answers
        shown = answers.photograph.shows
        assert not shown or shown & set(answers.device), f"none of the five classes names what it shows: {answers}"
    return classification.agreement()
