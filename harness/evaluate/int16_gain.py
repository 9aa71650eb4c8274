"""What 16 bits for the activations of one module would give, in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ethos_hil.base.question import ModelOptions, Question
from ethos_hil.harness.ask.quantisation import quantise_as_asked
from ethos_hil.harness.evaluate.tally import FLOAT, QUANTISED
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.lower import host_modules
from ethos_hil.lowering.model.torch_model import TorchModel
from ethos_hil.lowering.upstream.layer_errors import LayerError, decibels
from ethos_hil.lowering.vela.options import VelaSetup


@dataclass(frozen=True)
class Sample:
    """The inputs of an item, and what PyTorch answers to them, by source."""

    inputs: InputSet
    answers: Mapping[str, Sequence[np.ndarray]]


@dataclass(frozen=True)
class Int16Gain:
    """SQNR of all outputs against the float model's, in dB, over the same items.

    Attributes:
        module: the module whose activations have 16 bits.
        before_db: as the model is quantised now.
        after_db: with these 16 bits.
    """

    module: str
    before_db: float
    after_db: float


def int16_gains(
    model: TorchModel,
    layers: Sequence[LayerError],
    samples: Sequence[Sample],
    method: str,
    question: Question,
    most: int,
    reporter: Reporter,
) -> Iterator[Int16Gain]:
    """Quantise the model anew for each of the worst modules, and yield what that gives.

    Args:
        model: the model, as it is quantised now.
        layers: its layers, the worst first.
        samples: the items to compare over.
        method: the method's name.
        question: how it is lowered.
        most: how many modules to try.
        reporter: receives the progress.

    Raises:
        UsageError: a module cannot have 16 bits.
    """
    modules = list(dict.fromkeys(layer.module for layer in layers if layer.module))[:most]
    now = _sqnr((sample.answers[FLOAT], sample.answers[QUANTISED]) for sample in samples)
    for number, module in enumerate(modules):
        reporter.stage(f"Trying 16 bits in {module} ({number + 1} of {len(modules)})")
        changed = quantise_as_asked(model, ModelOptions(model, method=method, int16=(module,)))
        assert isinstance(changed, TorchModel)
        hosts = host_modules(changed, method, question.npu_name, vela=VelaSetup.asked(question), scheme=question.scheme)
        pairs = ((sample.answers[FLOAT], hosts.answers(sample.inputs)[QUANTISED]) for sample in samples)
        yield Int16Gain(module, now, _sqnr(pairs))


def _sqnr(pairs: Iterator[tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]) -> float:
    signal = noise = 0.0
    for wanted, found in pairs:
        for one, other in zip(wanted, found, strict=True):
            signal += float(np.sum(one.astype(np.float64) ** 2))
            noise += float(np.sum((one.astype(np.float64) - other.astype(np.float64)) ** 2))
    return decibels(signal, noise)
