"""A small transformer encoder block, seeded, not trained.

Self-attention and two dense layers, each with a shortcut and normalised after it: section 3.1 of Vaswani et al.,
"Attention Is All You Need" (2017), with GELU between the dense layers, as most have had it since BERT.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from lowering.model import Method
from suites.models.seeded import seeded

SHAPE = (1, 32, 64)
"""A sequence of 32 embeddings of width 64."""
_HEADS, _INNER = 4, 128


class SelfAttention(nn.Module):
    """Every position looks at every other, in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[N, L, width] -> the same."""
        query, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        return self.output((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """[N, L, width] -> [N, heads, L, width / heads]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class EncoderBlock(nn.Module):
    """float32 [N, L, 64] -> the same."""

    def __init__(self, width: int = SHAPE[2], heads: int = _HEADS, inner: int = _INNER) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.attended = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.finished = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """The sequence, each position with what it learned of the others."""
        x = self.attended(x + self.attention(x))
        return self.finished(x + self.dense(x))


def transformer_encoder() -> Method:
    """For `ethos-hil run`."""
    return seeded(EncoderBlock(), *SHAPE)
