"""Weights for models that nobody published any for: random, from a seed, and alive.

An untrained network is easily deaf: a signal fades, or drowns in a constant, from layer to layer until every input
gives the same answer, and a check of that answer means little. Here it doesn't: weights keep a signal's variance (He et
al., "Delving Deep into Rectifiers", 2015), batch normalisation knows the statistics of what it gets, and inputs have
patches, as pictures and spectrograms do, that a mean over all of it does not level out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ethos_hil.lowering.model import Method

NOTE = "its weights are random, from a seed: it was not trained"
"""What a run of such a model says of it."""
_CALIBRATION, _SETTLING = 4, 16
_PATCHES = 2
"""To a side."""
_SPREAD = 1.0
"""Deviation of a class's score over many inputs: probabilities differ, and none is 0 or 1 in eight bits."""

_SHIFT = 1.0
"""Of batch normalisation, in deviations: a ReLU after it cuts off little. Were it 0, every layer would amplify rounding
errors (Yang et al., "A Mean Field Theory of Batch Normalization", 2019), and those of eight bits would come to half of
what the answers of MobileNetV1 differ by from input to input; so they come to a sixth."""


def seeded(module: nn.Module, *shape: int, spread: bool = True) -> Method:
    """`module` with weights of seed 0, and inputs of `shape`, float32 of a deviation about 1, to run and calibrate it.

    Weights of convolutions and dense layers are normal with variance 2 / fan-in, which what follows a ReLU needs,
    biases with deviation 0.1. Batch normalisation has the statistics of random inputs, and a random scale and shift;
    the scores of a `classifier` are spread over such inputs too. Whatever else has weights keeps them.

    Args:
        module: the network.
        shape: of its input, the batch included.
        spread: whether to spread the scores. What a network of 50 layers adds in rounding errors of eight bits is, of
            what its scores differ by from input to input, too much for a comparison with PyTorch to mean anything.
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
    _settle(module, torch.cat([_input(shape, random) for _ in range(_SETTLING)]), spread)
    inputs = tuple((_input(shape, random),) for _ in range(_CALIBRATION))
    # The example is one of the calibration's sets: nothing in it saturates by surprise.
    return Method(module.eval(), inputs[0], inputs, notes=(NOTE,))


def _input(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=random)
    if len(shape) != 4:
        return noise
    patches = torch.randn((*shape[:2], _PATCHES, _PATCHES), generator=random)
    return nn.functional.interpolate(patches, shape[2:]) + 0.5 * noise


def _settle(module: nn.Module, inputs: Tensor, spread: bool) -> None:
    """Lets every batch normalisation take the statistics of what reaches it, and then the classifier's scores too.

    In float64: sums differ in their last bits with the number of threads, weights, and with them cache keys, must not.
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
