"""MLPerf Tiny's anomaly detection: a deep autoencoder of sounds, seeded, not trained.

The architecture is that of github.com/mlcommons/tiny, benchmark/training/anomaly_detection, after Koizumi et al.,
"Description and Discussion on DCASE2020 Challenge Task 2" (2020). Batch normalisation is folded into the dense layers,
as converters do: ExecuTorch 1.4.1 itself folds it only when it quantises, and cannot lower both to float TOSA (its
FuseBatchNorm2dPass puts a convolution of images between them).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_linear_bn_eval

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.seeded import seeded

SHAPE = (1, 640)
"""Five windows of 128 Mel bands."""
_WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)


class Autoencoder(nn.Module):
    """float32 [N, 640] -> [N, 640]; the distance between the two is the strangeness of the sound."""

    def __init__(self) -> None:
        super().__init__()
        hidden = [
            nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())
            for inputs, outputs in pairwise(_WIDTHS)
        ]
        self.layers = nn.Sequential(*hidden, nn.Linear(_WIDTHS[-1], _WIDTHS[0]))

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return the sound as the network reconstructs it."""
        return self.layers(spectrum)


def folded(model: Autoencoder) -> Autoencoder:
    """Return the same function without batch normalisation; changes `model`, which is in eval mode."""
    for layer in model.layers:
        if isinstance(layer, nn.Sequential):
            dense, normalisation, _ = layer
            assert isinstance(dense, nn.Linear)
            assert isinstance(normalisation, nn.BatchNorm1d)
            layer[0] = fuse_linear_bn_eval(dense, normalisation)
            del layer[1]
    return model


def autoencoder() -> Method:
    """Return the model for `ethos-hil run`."""
    model = Autoencoder()
    return replace(seeded(model, *SHAPE), module=folded(model))
