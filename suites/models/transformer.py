"""A small transformer encoder block, seeded, not trained.

Self-attention and a feed-forward network, each with a shortcut and normalised after it: section 3.1 of Vaswani et al.,
"Attention Is All You Need" (2017), with GELU in the latter, as is usual since BERT.

The feed-forward network is the same for every position, so that it can be written as two dense layers or as two
convolutions with a kernel of 1 (section 3.3). Here it is convolutions: ExecuTorch turns dense layers over a sequence
into convolutions over a batch of as many images, and Vela 5.1 compiles those with a look-up between them wrongly
(docs/decisions/0004-where-lowering-departs-from-upstream.md, "Known limits").
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.seeded import seed

SHAPE = (1, 32, 64)
"""A sequence of 32 embeddings of width 64."""
_HEADS, _INNER = 4, 128


class SelfAttention(nn.Module):
    """Attention of every position to every other, in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, L, width] to the same shape."""
        query, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        return self.output((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """Map [N, L, width] to [N, heads, L, width / heads]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """A wider layer, GELU, and a narrow layer, applied to each position alone."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(width, inner, 1), nn.GELU(), nn.Conv1d(inner, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, L, width] to the same shape."""
        return self.layers(x.transpose(1, 2)).transpose(1, 2)


class EncoderBlock(nn.Module):
    """float32 [N, L, 64] -> the same."""

    def __init__(self, width: int = SHAPE[2], heads: int = _HEADS, inner: int = _INNER) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.attended = nn.LayerNorm(width)
        self.forwarded = FeedForward(width, inner)
        self.finished = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sequence with attention applied."""
        x = self.attended(x + self.attention(x))
        return self.finished(x + self.forwarded(x))


def transformer_encoder() -> Method:
    """Return the model for `ethos-hil run`."""
    return seed(EncoderBlock(), *SHAPE)
