"""Photographs classified by EfficientNet-Lite0 on a device: `python -m ethos_hil.suites.models.classification`.

The device has to agree with tosa_reference_model on every bit, and so on the five likeliest classes of each photograph.
The distance of both from the float network is the cost of eight bits, and is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ethos_hil.base.console import console, table_of
from ethos_hil.base.ending import ending_of
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.cli.main import guard
from ethos_hil.harness.run import run
from ethos_hil.harness.terminal.progress import Live, Reporter
from ethos_hil.lowering.model.torch_model import ProgramFile, load_model
from ethos_hil.results.text.record import summary
from ethos_hil.suites.models.photographs import PHOTOGRAPHS, Photograph, label

TOP = 5
_MODEL = "ethos_hil.suites.models:efficientnet_lite0"


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


def classify(question: Question, reporter: Reporter | None = None) -> Classification:
    """Classify all photographs. The question says for which NPU and where; its model and inputs do not count.

    Raises:
        As `ethos_hil.harness.run.run`. A difference between device and reference is not raised; it is the record's
        verdict.
    """
    import torch

    source = load_model(_MODEL)
    assert not isinstance(source, ProgramFile)
    images = [photograph.prepare() for photograph in PHOTOGRAPHS]
    with torch.no_grad():
        floating = [source.default.module(torch.from_numpy(image)).numpy() for image in images]
    inputs = tuple((image,) for image in images)
    question = question.but(model=source, inputs=inputs, allow_cpu_only=False)
    report = run(question, reporter=reporter)
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
    return tuple(int(number) for number in np.argsort(-scores[0], kind="stable")[:TOP])


def main() -> int:
    """Run it. Return 0 if the device agrees with the reference on every bit, else 1."""
    with Live() as live:
        classification = classify(Question(""), live)
    stdout = console()
    stdout.print(summary(classification.record))
    table = table_of("photograph", "float, PyTorch", "quantised, device", "of five in common")
    for answers in classification.answers:
        words = (label(numbers[0]) for numbers in (answers.floating, answers.device))
        table.add_row(answers.photograph.name, *words, f"{answers.in_common}")
    stdout.print("", table)
    stdout.print(classification.agreement())
    return 0 if ending_of(classification.record).green else 1


if __name__ == "__main__":
    guard(main)
