"""EfficientNet-Lite0 classifies photographs on the target: the same five classes as the quantised reference.

The device has to agree with tosa_reference_model on every bit, and so on the five likeliest classes of each photograph.
The distance of both from the float network is the cost of eight bits: it is printed at the end, and is in JUnit's XML.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ethos_hil.base.options import NOWHERE
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.suites.models import test_models
from ethos_hil.suites.plugin.options import Options

if TYPE_CHECKING:
    import numpy as np

    from ethos_hil.suites.models.photographs import Photograph

Property = Callable[[str, object], None]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TOP = 5
_MODEL = "ethos_hil.suites.models:efficientnet_lite0"


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
    reason = lacking(question)
    if reason is not None:
        record_property("verdict", "skipped")
        pytest.skip(reason)
    verdict = "failed"
    try:
        record_property("agreement", check_the_same_five(question))
        verdict = "verified"
    finally:
        record_property("verdict", verdict)


def lacking(question: Question) -> str | None:
    """Return why photographs cannot be classified on the target, or None."""
    if question.target == NOWHERE:
        return "no target: photographs are looked at on one, and not compiled only"
    from ethos_hil.suites.trial.declared import missing_packages
    from ethos_hil.suites.trial.run_trial import missing

    packages = test_models.efficientnet_lite0.requires
    reason = missing_packages(packages) or missing(question)
    return None if reason is None else f"{reason.message}: {reason.hint}"


def check_the_same_five(question: Question) -> str:
    """Classify all photographs. Return a text about the agreement with the float network."""
    classification = classify(question)
    assert classification.record.verdict == Verdict.VERIFIED, classification.record.failure
    for answers in classification.answers:
        assert answers.device == answers.reference, answers
        shown = answers.photograph.shows
        assert not shown or shown & set(answers.device), f"none of the five classes names what it shows: {answers}"
    return classification.agreement()


@dataclass(frozen=True)
class Answers:
    """The likeliest classes of one photograph, the likeliest first.

    Attributes:
        photograph: the photograph.
        floating: the classes of the network in PyTorch, float32.
        reference: the classes of the quantised network in tosa_reference_model.
        device: the classes of the quantised network on the device.
    """

    photograph: Photograph
    floating: tuple[int, ...]
    reference: tuple[int, ...]
    device: tuple[int, ...]

    @property
    def in_common(self) -> int:
        """Number of the device's classes that are among the float network's."""
        return len(set(self.device) & set(self.floating))


@dataclass(frozen=True)
class Classification:
    """All photographs, and the record of the run."""

    record: Record
    answers: tuple[Answers, ...]

    def agreement(self) -> str:
        """The agreement with the float network, as text."""
        first = sum(answers.device[0] == answers.floating[0] for answers in self.answers)
        common = sum(answers.in_common for answers in self.answers)
        count = len(self.answers)
        return f"first class as in float: {first} of {count}; of the first five: {common} of {TOP * count}"


def classify(question: Question) -> Classification:
    """Classify all photographs. The question says for which NPU and where; its model and inputs do not count.

    Raises:
        As `ethos_hil.harness.run.run`. A difference between device and reference is not raised; it is the record's
        verdict.
    """
    import torch

    from ethos_hil.harness.run import run
    from ethos_hil.lowering.model.torch_model import ProgramFile, load_model
    from ethos_hil.suites.models.photographs import PHOTOGRAPHS

    source = load_model(_MODEL)
    assert not isinstance(source, ProgramFile)
    images = [photograph.prepare() for photograph in PHOTOGRAPHS]
    with torch.no_grad():
        floating = [source.default.module(torch.from_numpy(image)).numpy() for image in images]
    inputs = tuple((image,) for image in images)
    question = question.but(model=source, inputs=inputs, allow_cpu_only=False)
    report = run(question)
    answers = zip(PHOTOGRAPHS, floating, report.references, report.outcome.runs, strict=True)
    return Classification(
        report.record,
        tuple(
            Answers(photograph, top(scores), top(reference.outputs[0]), top(device.outputs[0]))
            for photograph, scores, reference, device in answers
        ),
    )


def top(scores: np.ndarray) -> tuple[int, ...]:
    """Return the classes of the highest of [1, 1000] scores; among equal scores (common with eight bits) the lower
    number wins.
    """
    return tuple(int(number) for number in (-scores[0]).argsort(kind="stable")[:TOP])
