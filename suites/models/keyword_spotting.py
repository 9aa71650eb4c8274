"""MLPerf Tiny's keyword spotting: DS-CNN, seeded, not trained.

The architecture is that of github.com/mlcommons/tiny, benchmark/training/keyword_spotting, after Zhang et al., "Hello
Edge: Keyword Spotting on Microcontrollers" (2017); dropout, which has no effect on inference, is left out.
"""

from __future__ import annotations

from torch import Tensor, nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.layers import same
from ethos_hil.suites.models.seeded import seeded

SHAPE = (1, 1, 49, 10)
"""A second of sound: 49 windows of 10 Mel-frequency coefficients."""
_FILTERS, _KEYWORDS, _BLOCKS = 64, 12, 4


def _block() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(_FILTERS, _FILTERS, 3, padding=1, groups=_FILTERS),
        nn.BatchNorm2d(_FILTERS),
        nn.ReLU(),
        nn.Conv2d(_FILTERS, _FILTERS, 1),
        nn.BatchNorm2d(_FILTERS),
        nn.ReLU(),
    )


class DsCnn(nn.Module):
    """float32 [N, 1, 49, 10] -> probabilities [N, 12]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *same((49, 10), (10, 4), stride=2),
            nn.Conv2d(1, _FILTERS, (10, 4), stride=2),
            nn.BatchNorm2d(_FILTERS),
            nn.ReLU(),
        )
        self.blocks = nn.Sequential(*(_block() for _ in range(_BLOCKS)))
        self.pool = nn.AvgPool2d((49 // 2, 10 // 2))  # of 25 x 5: the last row is unused
        self.classifier = nn.Linear(_FILTERS, _KEYWORDS)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return the probabilities of the keywords."""
        features = self.pool(self.blocks(self.stem(spectrum)))
        return self.classifier(features.flatten(1)).softmax(-1)


def ds_cnn() -> Method:
    """Return the model for `ethos-hil run`."""
    return seeded(DsCnn(), *SHAPE)
