"""Where a quantised answer loses what the float model says, and what to try first: each remedy is tried in PyTorch.

Nothing of this is computed for an answer that is near.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.question import Question
from ethos_hil.base.record import FAR_DB, AccuracyLoss
from ethos_hil.harness.ask.lower_question import as_asked
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.verdict.against_pytorch import accuracy
from ethos_hil.lowering.model.torch_model import HostModules, ProgramFile, TorchModel

if TYPE_CHECKING:
    from ethos_hil.lowering.upstream.layer_errors import LayerErrors
    from ethos_hil.lowering.upstream.loss_cause import LossCause

_MOST_SETS = 4
"""Input sets that the layers are compared with: PyTorch computes each three times more."""
_HALF = 3.0
"""dB: an error of a layer that has half of the energy of the output's."""
_GAIN = 6.0
"""dB, one bit: a remedy that gains less is not named."""
_NO_HELP = "16 bits do not help, as PyTorch computes it: look at the numbers of that line"


def with_layer(
    loss: AccuracyLoss,
    question: Question,
    method: str,
    input_sets: Sequence[InputSet],
    load: Callable[[], TorchModel | ProgramFile | None],
    tell: Callable[[str], None],
) -> AccuracyLoss:
    """Return a loss with the layer where it is lost, and the first thing to try; without, where they cannot be known.

    Args:
        loss: what shows it.
        question: what was asked.
        method: of the program, which keeps no state.
        input_sets: the inputs of the run.
        load: loads the model; None where there is none, as of a program.
        tell: called with what is being done.
    """
    tell("Looking for the layer that loses the answer")
    try:
        model = load()
        if not isinstance(model, TorchModel):
            return loss
        search = _Search(model, question, method, tuple(input_sets[:_MOST_SETS]), tell)
        return search.complete(loss, search.modules(question))
    except EthosHilError as error:  # the answer stands without it
        return replace(loss, remedy=f"nothing is known of the layers: {error.message}")


@dataclass(frozen=True)
class _Search:
    """The search for the layer and for what helps."""

    model: TorchModel
    question: Question
    method: str
    input_sets: tuple[InputSet, ...]
    tell: Callable[[str], None]

    def complete(self, loss: AccuracyLoss, hosts: HostModules) -> AccuracyLoss:
        """Return the loss with all that is found. Raises EthosHilError where the model cannot be called."""
        layers = hosts.layers
        if layers is None:
            return loss
        for inputs in self.input_sets:
            layers.add(inputs)
        level = self._level(hosts)
        loss, cause = _with_place(loss, layers, hosts, level)
        if loss.inputs:
            helps = self._try("calibrate with inputs like these (--calibrate X.npz)", level, calibrate=self._tensors())
            if helps:
                return replace(loss, remedy=helps)
        if cause is not None and cause.number is not None:
            return replace(loss, remedy=cause.text)
        wider = (helps for text, changes in self._wider(loss) if (helps := self._try(text, level, **changes)))
        return replace(loss, remedy=next(wider, cause.text if cause is not None else _NO_HELP))

    def _wider(self, loss: AccuracyLoss) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield what gives more bits: the layer's module, then all."""
        asked = self.question
        if asked.scheme == "a16w8":
            return
        if loss.module and loss.module not in asked.int16:
            yield f"--int16 {loss.module}", {"int16": (*asked.int16, loss.module)}
        yield "--scheme a16w8", {"scheme": "a16w8"}

    def _try(self, text: str, before: float, **changes: object) -> str:
        """Return a remedy with what it gains, as PyTorch computes it; "" where it gains less than a bit."""
        self.tell(f"Looking for what helps: {text}")
        try:
            level = self._level(self.modules(self.question.but(**changes)))
        except EthosHilError:
            return ""
        return f"{text}: {level:.1f} dB in PyTorch" if level >= before + _GAIN else ""

    def modules(self, question: Question) -> HostModules:
        """Return the modules of the model, quantised as a question says. Raises UsageError where that fails."""
        from ethos_hil.lowering.lower import host_modules

        model = as_asked(self.model, question)
        assert isinstance(model, TorchModel)
        return host_modules(model, self.method, question)

    def _tensors(self) -> list[tuple[object, ...]]:
        import torch

        return [tuple(torch.from_numpy(np.array(array)) for array in inputs) for inputs in self.input_sets]

    def _level(self, hosts: HostModules) -> float:
        """Return the lowest SQNR of an output of the quantised module, in dB."""
        answers = [hosts.answers(inputs) for inputs in self.input_sets]
        sides = [[answer[name] for answer in answers] for name in ("float", "quantised")]
        levels = []
        for pairs in zip(*(zip(*side, strict=True) for side in sides), strict=True):
            wanted, found = (np.concatenate([array.ravel() for array in arrays]) for arrays in pairs)
            level = accuracy("", wanted, found).sqnr_db
            levels += [level] if level is not None else []
        return min(levels, default=math.inf)


def _with_place(
    loss: AccuracyLoss, layers: LayerErrors, hosts: HostModules, level: float
) -> tuple[AccuracyLoss, LossCause | None]:
    """Return the loss with the layer where it is lost, and what its numbers say of the cause, if anything."""
    from ethos_hil.lowering.upstream.loss_cause import cause_of

    lost = layers.lost_at(max(level, FAR_DB) + _HALF)
    if lost is None:
        return loss, None
    error, cause = lost.error, cause_of(lost, hosts.sources)
    place = replace(loss, aten=error.aten, module=error.module, source=error.source, sqnr_db=error.so_far_db)
    return place, cause
