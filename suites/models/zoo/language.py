"""Networks for text, beside those of transformers: the steps of a loop that the caller runs, and small classifiers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class CharTextcnn(nn.Module):
    """Characters, convolutions of three lengths, the largest of each, and what is padding left out."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(40, 12, padding_idx=0)
        self.convolutions = nn.ModuleList([nn.Conv1d(12, 8, size, padding=size // 2) for size in (3, 5, 7)])
        self.head = nn.Linear(24, 4)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        value = self.letters(text).transpose(1, 2)
        padding = (text == 0).unsqueeze(1)
        found = [torch.relu(layer(value)).masked_fill(padding, -1e9).amax(2) for layer in self.convolutions]
        return torch.softmax(self.head(torch.cat(found, 1)), -1)


class WordBag(nn.Module):
    """The mean of the words' vectors, weighted with how much each says, as in small intent classifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.weights, self.head = nn.Embedding(60, 16), nn.Embedding(60, 1), nn.Linear(16, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        shares = torch.softmax(self.weights(words), 1)
        return self.head((self.words(words) * shares).sum(1))


class CachedStep(nn.Module):
    """One letter more of a decoder: keys and values of those before come in, and go out with one more."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)
        self.norm1, self.norm2 = nn.RMSNorm(16), nn.RMSNorm(16)
        self.ask, self.answer = nn.Linear(16, 48, bias=False), nn.Linear(16, 16, bias=False)
        self.gate, self.feed, self.back = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(
        self, word: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        state = self.words(word)
        query, key, value = (
            part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.ask(self.norm1(state)).chunk(3, -1)
        )
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        heard = functional.scaled_dot_product_attention(query, keys, values)
        state = state + self.answer(heard.transpose(1, 2).flatten(2))
        wanted = self.norm2(state)
        state = state + self.back(functional.silu(self.gate(wanted)) * self.feed(wanted))
        return self.head(state), keys, values


class TranslatorStep(nn.Module):
    """One word of a translation: an LSTM's cell, and attention to what was read, as long as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(30, 16), nn.LSTMCell(32, 16)
        self.ask, self.join, self.head = nn.Linear(16, 16), nn.Linear(32, 16), nn.Linear(16, 30)

    def forward(
        self,
        word: torch.Tensor,
        read: torch.Tensor,
        padding: torch.Tensor,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        told: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden, cell = self.cell(torch.cat([self.words(word), told], 1), (hidden, cell))
        scores = (read @ self.ask(hidden).unsqueeze(2)).squeeze(2).masked_fill(padding, float("-inf"))
        told = (torch.softmax(scores, 1).unsqueeze(1) @ read).squeeze(1)
        told = torch.tanh(self.join(torch.cat([told, hidden], 1)))
        return torch.log_softmax(self.head(told), 1), hidden, cell, told


class SelectiveStep(nn.Module):
    """One step of a selective state space (Mamba): the last inputs and the state come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(12, 32), nn.Linear(16, 12)
        self.taps, self.rates = nn.Parameter(torch.randn(16, 4) * 0.5), nn.Parameter(torch.rand(16, 4))
        self.look, self.time = nn.Linear(16, 1 + 8), nn.Linear(1, 16)

    def forward(
        self, value: torch.Tensor, last: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        value, gate = self.enter(value).chunk(2, 1)
        last = torch.cat([last[:, :, 1:], value.unsqueeze(2)], 2)
        value = functional.silu((last * self.taps).sum(2))
        time, take, give = self.look(value).split([1, 4, 4], 1)
        step = functional.softplus(self.time(time))
        kept = torch.exp(-step.unsqueeze(2) * torch.exp(self.rates))
        state = state * kept + (step * value).unsqueeze(2) * take.unsqueeze(1)
        told = (state * give.unsqueeze(1)).sum(2) + value
        return self.leave(told * functional.silu(gate)), last, state


class Translator(nn.Module):
    """PyTorch's own Transformer layers: what is read, and what is said so far, with a causal mask."""

    later: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(30, 16), nn.Linear(16, 30)
        self.reader = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.writer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
        self.register_buffer("later", torch.triu(torch.full((6, 6), float("-inf")), 1))

    def forward(self, read: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        return self.head(self.writer(self.words(said), self.reader(self.words(read)), tgt_mask=self.later))


class Tagger(nn.Module):
    """A tag for each word from both directions of a GRU, with the score of each pair of tags, and the best tags."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.steps = nn.Embedding(40, 12), nn.GRU(12, 8, batch_first=True, bidirectional=True)
        self.head, self.pairs = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 4))

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.head(self.steps(self.words(words))[0])
        best = scores[:, 0]
        for step in range(1, 6):
            best = (best.unsqueeze(2) + self.pairs).amax(1) + scores[:, step]
        return best, scores.argmax(-1)
