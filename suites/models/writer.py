"""A small transformer that writes text, character by character, on the device.

It learns the Zen of Python by heart, which every CPython has in its module `this`; nothing is downloaded. Each
execution of the program writes one character. What the model remembers is state of the program: the keys and values of
the last 32 characters (the cache of section 3.2 of Pope et al., "Efficiently Scaling Transformer Inference", 2022, as a
shift register), the character that was written last, and how many were. So the character that the device chose is what
it reads next.

Each character attends to itself and to the 31 before it. How far they are away is learned as a number that is added to
their scores (T5's relative bias, Raffel et al., 2020), so that positions need no counter. There are no layer norms,
which would be half of the program's operations; the network is shallow enough to learn without.
"""

from __future__ import annotations

import codecs
import importlib.util
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from ethos_hil.lowering.cache.trained_weights import trained_weights
from ethos_hil.lowering.conditions.process import one_torch_thread, tell_within
from ethos_hil.lowering.model import Method

PROMPT = "Testing is better than "
"""What the text starts with; it is not in the Zen."""
WRITTEN = 200
"""Characters that a run writes after the prompt."""
_CHARACTERS = 128
"""ASCII; 0 stands before every text."""
_WIDTH, _HEADS, _INNER, _LAYERS, _REACH = 64, 4, 128, 2, 32
_STEPS, _BATCH, _LENGTH, _RATE = 1000, 8, 96, 3e-3
_WRONG = 0.1
"""How many characters that the model reads in training are replaced by others: it learns to go on after a mistake, of
its own or of the 8 bits that it will have."""
_CALIBRATION = 40
"""Executions that decide the scales: after 32 the cache is full."""


class WriterBlock(nn.Module):
    """Attention to the last characters, and a feed-forward network, each with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(_WIDTH, _WIDTH) for _ in range(4))
        self.age = nn.Parameter(torch.zeros(_HEADS, 1, _REACH))
        self.inner = nn.Sequential(nn.Linear(_WIDTH, _INNER), nn.ReLU(), nn.Linear(_INNER, _WIDTH))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Read one character.

        Args:
            x: its features, [1, width].
            keys: of the characters before it, the latest last, [heads, width / heads, reach].
            values: theirs, [heads, reach, width / heads].

        Returns:
            The features, and the keys and values with this character's in place of the oldest.
        """
        keys = torch.cat([keys[:, :, 1:], self.key(x).view(_HEADS, -1, 1)], 2)
        values = torch.cat([values[:, 1:], self.value(x).view(_HEADS, 1, -1)], 1)
        return self._mix(x, self.query(x).view(_HEADS, 1, -1), keys, values, self.age), keys, values

    def read(self, x: Tensor) -> Tensor:
        """Read whole texts, [N, L, width], as `forward` does one character after the other."""
        before = (0, 0, _REACH - 1, 0)  # zeros, as in the empty cache
        query, keys, values = (
            nn.functional.pad(part(x), padding).unflatten(2, (_HEADS, -1)).transpose(1, 2)
            for part, padding in ((self.query, (0, 0)), (self.key, before), (self.value, before))
        )
        slots = torch.arange(keys.shape[2])[None] - torch.arange(x.shape[1])[:, None]
        age = self.age[:, 0, slots.clamp(0, _REACH - 1)]
        age = age.masked_fill((slots < 0) | (slots >= _REACH), -torch.inf)
        return self._mix(x, query, keys.transpose(2, 3), values, age)

    def _mix(self, x: Tensor, query: Tensor, keys: Tensor, values: Tensor, age: Tensor) -> Tensor:
        weights = (query @ keys / (_WIDTH / _HEADS) ** 0.5 + age).softmax(-1)
        heads = (weights @ values).transpose(-2, -3)
        x = x + self.output(heads.reshape(x.shape))
        return x + self.inner(x)


class Writer(nn.Module):
    """int32 [1, P], the prompt's characters -> the next character of the text, int32 [1], and logits, [1, 128].

    Every call writes the next character: the first P calls those of the prompt, later ones the likeliest. The state is
    zero at first: nothing is remembered or written.
    """

    written: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_CHARACTERS, _WIDTH)
        self.blocks = nn.ModuleList(WriterBlock() for _ in range(_LAYERS))
        self.head = nn.Linear(_WIDTH, _CHARACTERS)
        self.register_buffer("written", torch.zeros(1, dtype=torch.int32))
        self.register_buffer("last", torch.zeros(1, dtype=torch.int32))
        for layer in range(_LAYERS):
            self.register_buffer(f"keys{layer}", torch.zeros(_HEADS, _WIDTH // _HEADS, _REACH))
            self.register_buffer(f"values{layer}", torch.zeros(_HEADS, _REACH, _WIDTH // _HEADS))

    def forward(self, prompt: Tensor) -> dict[str, Tensor]:
        """Write one character."""
        x = self.embedding(self.last)
        for layer, block in enumerate(self.blocks):
            keys, values = self.get_buffer(f"keys{layer}"), self.get_buffer(f"values{layer}")
            x, new_keys, new_values = block(x, keys, values)
            keys.copy_(new_keys)
            values.copy_(new_values)
        logits = self.head(x)
        length = prompt.shape[1]
        given = prompt[0].index_select(0, self.written.clamp(max=length - 1))
        character = torch.where(self.written < length, given, logits.argmax(-1).to(torch.int32))
        self.last.copy_(character)
        self.written.add_(1)
        return {"character": character, "logits": logits}

    def read(self, texts: Tensor) -> Tensor:
        """Return the logits of what follows each character of whole texts, [N, L] -> [N, L, 128]."""
        x = self.embedding(texts)
        for block in self.blocks:
            assert isinstance(block, WriterBlock)
            x = block.read(x)
        return self.head(x)


def zen() -> str:
    """Return the Zen of Python from the source of CPython's module `this`, which prints it when it is imported."""
    spec = importlib.util.find_spec("this")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    enciphered = re.search(r'"""(.*?)"""', source, re.DOTALL)
    assert enciphered is not None, f"{spec.origin} is not CPython's"
    return codecs.decode(enciphered.group(1), "rot13")


def encode(text: str) -> Tensor:
    """Return the numbers of a text's characters, int32 [L]."""
    return torch.tensor(list(text.encode("ascii")), dtype=torch.int32)


def train(steps: int = _STEPS) -> tuple[Writer, tuple[float, ...]]:
    """Return a trained model, and the loss of each step in nats per character.

    The same every time on the same machine.
    """
    text = encode(zen()).long()
    losses = []
    with one_torch_thread():  # a fixed order of sums: the weights, and with them the cache key, repeat
        torch.manual_seed(0)
        model = Writer().train()
        optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: min(1, (at + 1) / 20) * (1 - at / steps))
        for step in range(steps):
            if step % 10 == 0:
                tell_within(f"training the writer, step {step} of {steps}")
            starts = torch.randint(len(text) - _LENGTH, (_BATCH,)).tolist()
            wanted = torch.stack([text[start : start + _LENGTH] for start in starts])
            read = nn.functional.pad(wanted[:, :-1], (1, 0))
            others = torch.randint(_CHARACTERS, read.shape)
            logits = model.read(torch.where(torch.rand(read.shape) < _WRONG, others, read))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
    return model.eval(), tuple(losses)


def trained_writer() -> Writer:
    """Return the trained model; its weights are kept in the cache."""
    torch.manual_seed(0)
    model = Writer()
    made_from = (Path(__file__).read_text(encoding="utf-8"), zen(), torch.__version__)
    weights = trained_weights(
        "writer", made_from, lambda: {name: part.detach().numpy() for name, part in train()[0].named_parameters()}
    )
    model.load_state_dict({name: torch.from_numpy(part) for name, part in weights.items()}, strict=False)
    return model.eval()


def tiny_writer() -> Method:
    """Return for `ethos-hil run`: the model, and a prompt that it continues with 200 characters."""
    prompt = (encode(PROMPT)[None],)
    return Method(trained_writer(), prompt, (prompt,) * _CALIBRATION, repeat=len(PROMPT) + WRITTEN, text="character")
