"""Random weights, from a seed, for models without published weights. They keep a model sensitive to its inputs.

An untrained network easily loses its input: a signal fades, or drowns in a constant, from layer to layer until every
    input gives the same answer, and then a check of that answer proves little. Here the weights keep a signal's
    variance (He et al., "Delving Deep into Rectifiers", 2015), batch normalisation has the statistics of its inputs,
    and the inputs have patches, as pictures and spectrograms do, which a mean over the whole input does not level out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ethos_hil.lowering.model import Method

NOTE = "its weights are random, from a seed: it was not trained"
"""The note in the record of a run of such a model."""
_CALIBRATION, _SETTLING = 4, 16
_PATCHES = 2
"""Patches along one side of an input."""
_SPREAD = 1.0
"""Deviation of a class's score over many inputs: probabilities differ, and none is 0 or 1 in eight bits."""

_SHIFT = 1.0
"""Shift of batch normalisation, in deviations: the ReLU after it cuts off little. With 0, every layer would amplify
rounding errors (Yang et al., "A Mean Field Theory of Batch Normalization", 2019), and eight-bit rounding errors
would be half as large as the differences between MobileNetV1's answers to different inputs. With this shift they
are a sixth.
"""


def seed(module: nn.Module, *shape: int, spread: bool = True) -> Method:
    """Return `module` with weights of seed 0, and inputs of `shape` to run and calibrate it (float32, deviation about
    1).

    Weights of convolutions and dense layers are normal with variance 2 / fan-in, which suits a ReLU, and biases have
    deviation 0.1. Batch normalisation has the statistics of random inputs, and a random scale and shift; the scores of
    a `classifier` are spread over such inputs too. All other layers keep their weights.

    Args:
        module: the network.
        shape: shape of its input, the batch included.
        spread: whether to spread the scores. In a network of 50 layers the eight-bit rounding errors are too large,
            relative to the differences between its scores for different inputs, for a useful comparison with PyTorch.
    """
    random = torch.Generator().manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu", generator=random)
            if part.bias is not None:
                nn.init.normal_(part.bias, 0, 0.1, generator=random)
        elif isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.7, 1.3, generator=random)
            nn.init.normal_(part.bias, _SHIFT, 0.3, generator=random)
    _settle(module, torch.cat([random_input(shape, random) for _ in range(_SETTLING)]), spread)
    inputs = tuple((random_input(shape, random),) for _ in range(_CALIBRATION))
    # The example is one of the calibration sets, so none of its values saturates unexpectedly.
    return Method(module.eval(), inputs[0], inputs, notes=(NOTE,))


def random_input(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Return an input such as a seeded model is calibrated with."""
    noise = torch.randn(shape, generator=random)
    if len(shape) != 4:
        return noise
    patches = torch.randn((*shape[:2], _PATCHES, _PATCHES), generator=random)
    return nn.functional.interpolate(patches, shape[2:]) + 0.5 * noise


def _settle(module: nn.Module, inputs: Tensor, spread: bool) -> None:
    """Give every batch normalisation the statistics of its inputs, then spread the classifier's scores.

    It computes in float64: sums differ in their last bits with the number of threads, but weights and cache keys must
        not.
    """
    module.double()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        module.train()(inputs.double())
        classifier = getattr(module.eval(), "classifier", None)
        if spread and isinstance(classifier, nn.Linear):
            scores: list[Tensor] = []
            handle = classifier.register_forward_hook(lambda _module, _inputs, output: scores.append(output))
            module(inputs.double())
            handle.remove()
            scale = _SPREAD / scores[0].std(0)
            classifier.bias.sub_(scores[0].mean(0)).mul_(scale)
            classifier.weight.mul_(scale[:, None])
    module.float()
