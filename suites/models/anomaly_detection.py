"""MLPerf Tiny's anomaly detection: a deep autoencoder of sounds, seeded, not trained.

The architecture is that of github.com/mlcommons/tiny, benchmark/training/anomaly_detection, after Koizumi et al.,
"Description and Discussion on DCASE2020 Challenge Task 2" (2020).
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from suites.models.seeded import Example, seeded

SHAPE = (1, 640)
"""Five windows of 128 Mel bands."""
_WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)


class Autoencoder(nn.Module):
    """float32 [N, 640] -> [N, 640]; how far the two are apart is how strange the sound is."""

    def __init__(self) -> None:
        super().__init__()
        hidden = [
            nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())
            for inputs, outputs in pairwise(_WIDTHS)
        ]
        self.layers = nn.Sequential(*hidden, nn.Linear(_WIDTHS[-1], _WIDTHS[0]))

    def forward(self, spectrum: Tensor) -> Tensor:
        """The sound as the network would have it."""
        return self.layers(spectrum)


def autoencoder() -> Example:
    """For `ethos-hil run`."""
    return seeded(Autoencoder(), *SHAPE)
