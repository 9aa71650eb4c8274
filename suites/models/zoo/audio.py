"""Networks for sound."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class BcResnet(nn.Module):
    """Broadcasted residuals: an average over the frequencies is added to all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 5, (2, 1), 2)
        self.frequency = nn.Conv2d(16, 16, (3, 1), padding=(1, 0), groups=16)
        self.norm = nn.BatchNorm2d(16)
        self.time = nn.Sequential(
            nn.Conv2d(16, 16, (1, 3), padding=(0, 1), groups=16), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 16, 1)
        )
        self.head = nn.Conv2d(16, 12, 1)

    def forward(self, spectrum: torch.Tensor) -> torch.Tensor:
        value = self.stem(spectrum)
        kept = self.norm(self.frequency(value))
        value = functional.relu(value + kept + self.time(kept.mean(2, keepdim=True)))
        return self.head(value.mean((2, 3), keepdim=True)).flatten(1)


class WaveSeparator(nn.Module):
    """An encoder, a mask, a decoder, as in Conv-TasNet."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 32, 16, 8, bias=False)
        self.mask = nn.Sequential(
            nn.GroupNorm(1, 32), nn.Conv1d(32, 16, 1), nn.PReLU(),
            nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=16), nn.PReLU(),
            nn.Conv1d(16, 32, 1), nn.Sigmoid(),
        )  # fmt: skip
        self.decoder = nn.ConvTranspose1d(32, 1, 16, 8, bias=False)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        code = self.encoder(wave)
        return self.decoder(code * self.mask(code))


class Conformer(nn.Module):
    """A block of attention and convolution over time, with gates."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(32), nn.LayerNorm(32), nn.LayerNorm(32)
        self.feed = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32))
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.widen, self.deep = nn.Conv1d(32, 64, 1), nn.Conv1d(32, 32, 7, padding=3, groups=32)
        self.narrow, self.norm = nn.Conv1d(32, 32, 1), nn.BatchNorm1d(32)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = value + 0.5 * self.feed(self.norm1(value))
        wanted = self.norm2(value)
        value = value + self.attention(wanted, wanted, wanted, need_weights=False)[0]
        gated = functional.glu(self.widen(self.norm3(value).transpose(1, 2)), 1)
        return value + self.narrow(functional.silu(self.norm(self.deep(gated)))).transpose(1, 2)


class KeywordBuffer(nn.Module):
    """Hears one frame in a call, and keeps those before: its answer depends on all of them."""

    frames: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frames", torch.zeros(1, 10, 16))
        self.body = nn.Sequential(nn.Conv1d(10, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 10, 6))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        self.frames.copy_(torch.cat([self.frames[:, :, 1:], frame], 2))
        return self.body(self.frames[:, :, -10:])


class KeywordStream(nn.Module):
    """The same with its state as inputs and outputs: each layer's last frames are given back in the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(10, 16, 3), nn.Conv1d(16, 16, 5)
        self.head = nn.Linear(16, 6)

    def forward(
        self, frame: torch.Tensor, near: torch.Tensor, far: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        near = torch.cat([near, frame], 2)
        value = torch.relu(self.first(near))
        far = torch.cat([far, value], 2)
        return self.head(torch.relu(self.second(far)).squeeze(2)), near[:, :, 1:], far[:, :, 1:]


class NoiseGains(nn.Module):
    """Three recurrent cells for speech, noise and gains, as in RNNoise."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.speech = nn.Linear(18, 12), nn.GRUCell(12, 12)
        self.noise, self.denoise = nn.GRUCell(42, 16), nn.GRUCell(46, 20)
        self.voice, self.gains = nn.Linear(12, 1), nn.Linear(20, 10)

    def forward(
        self, features: torch.Tensor, speech: torch.Tensor, noise: torch.Tensor, denoise: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        value = torch.tanh(self.enter(features))
        speech = self.speech(value, speech)
        noise = self.noise(torch.cat([value, speech, features], 1), noise)
        denoise = self.denoise(torch.cat([speech, noise, features], 1), denoise)
        return torch.sigmoid(self.gains(denoise)), torch.sigmoid(self.voice(speech)), speech, noise, denoise


class VoiceActivity(nn.Module):
    """A fixed transform as a convolution, its magnitudes, convolutions, and one step of an LSTM."""

    waves: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(64.0)[None] * torch.arange(17.0)[:, None] * (2 * torch.pi / 64)
        self.register_buffer("waves", torch.cat([angles.cos(), angles.sin()]).unsqueeze(1) / 8)
        self.body = nn.Sequential(nn.Conv1d(17, 16, 3, 2, 1), nn.ReLU(), nn.Conv1d(16, 16, 3, 2, 1), nn.ReLU())
        self.cell, self.head = nn.LSTMCell(16, 16), nn.Linear(16, 1)

    def forward(
        self, wave: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        real, imaginary = functional.conv1d(wave.unsqueeze(1), self.waves, stride=32).chunk(2, 1)
        power = real * real + imaginary * imaginary
        hidden, cell = self.cell(self.body(torch.sqrt(power + 1e-4)).mean(2), (hidden, cell))
        return torch.sigmoid(self.head(torch.relu(hidden))), hidden, cell


class SpeakerVector(nn.Module):
    """Dilated convolutions over time, then the mean and the deviation of each feature: x-vectors."""

    def __init__(self) -> None:
        super().__init__()
        layers = [(16, 24, 5, 1), (24, 24, 3, 2), (24, 32, 3, 3)]
        self.body = nn.Sequential(
            *(
                nn.Sequential(nn.Conv1d(inputs, outputs, size, dilation=apart), nn.ReLU(), nn.BatchNorm1d(outputs))
                for inputs, outputs, size, apart in layers
            )
        )
        self.head = nn.Linear(64, 16)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        value = self.body(features)
        mean = value.mean(2)
        deviation = ((value - mean.unsqueeze(2)).square().mean(2) + 1e-3).sqrt()
        return functional.normalize(self.head(torch.cat([mean, deviation], 1)), dim=1)


class ComplexMask(nn.Module):
    """Real and imaginary parts side by side, and a mask of magnitude and phase, as in DCCRN; no complex number."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.imaginary = (nn.Conv2d(1, 8, (5, 3), (2, 1), (2, 1)) for _ in range(2))
        self.act, self.norm = nn.PReLU(), nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(16, 2, (5, 3), (2, 1), (2, 1))

    def forward(self, spectrum: torch.Tensor) -> torch.Tensor:
        real, imaginary = spectrum[:, :1], spectrum[:, 1:]
        value = torch.cat([self.real(real) - self.imaginary(imaginary), self.real(imaginary) + self.imaginary(real)], 1)
        mask = self.up(self.act(self.norm(value)))
        size = torch.tanh(torch.sqrt(mask.square().sum(1, keepdim=True) + 1e-4))
        angle = torch.atan2(mask[:, 1:], mask[:, :1])
        cosine, sine = angle.cos() * size, angle.sin() * size
        return torch.cat([real * cosine - imaginary * sine, real * sine + imaginary * cosine], 1)


class Wavenet(nn.Module):
    """Gated, causal convolutions, and the sum of what each layer skips."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, 8, 1)
        self.gates = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2**level) for level in range(4)])
        self.skips = nn.ModuleList([nn.Conv1d(8, 16, 1) for _ in range(4)])
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv1d(16, 16, 1), nn.ReLU(), nn.Conv1d(16, 1, 1))

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        value, skipped = self.enter(wave), torch.zeros(())
        for level, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
            signal, opening = gate(functional.pad(value, (2**level, 0))).chunk(2, 1)
            made = torch.tanh(signal) * torch.sigmoid(opening)
            value, skipped = value + made, skipped + skip(made)
        return self.leave(skipped)


class WaveUnet(nn.Module):
    """Strided convolutions down, an LSTM, transposed ones up, with gates and skips, as in Demucs."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(1, 8, 8, 4, 2), nn.Conv1d(8, 16, 8, 4, 2)])
        self.gate = nn.ModuleList([nn.Conv1d(8, 16, 1), nn.Conv1d(16, 32, 1)])
        self.middle = nn.LSTM(16, 16, batch_first=True)
        self.up = nn.ModuleList([nn.ConvTranspose1d(8, 1, 8, 4, 2), nn.ConvTranspose1d(16, 8, 8, 4, 2)])

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        value, skips = wave, []
        for down, gate in zip(self.down, self.gate, strict=True):
            value = functional.glu(gate(torch.relu(down(value))), 1)
            skips.append(value)
        value = self.middle(value.transpose(1, 2))[0].transpose(1, 2)
        value = torch.relu(self.up[1](value + skips[1]))
        return self.up[0](value + skips[0])


class Letters(nn.Module):
    """Long convolutions from spectra to the likelihoods of letters, as in Wav2Letter."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(13, 24, 11, 2, 5), nn.ReLU(), nn.Conv1d(24, 24, 7, padding=3), nn.ReLU(),
            nn.Conv1d(24, 32, 15, padding=7), nn.ReLU(), nn.Conv1d(32, 29, 1),
        )  # fmt: skip

    def forward(self, spectrum: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.body(spectrum), 1)


class Separables(nn.Module):
    """Depthwise convolutions over time with residuals, as in MatchboxNet, from the logarithm of mel bands."""

    bands: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bands", torch.rand(16, 33) / 8)
        self.enter, self.deep = nn.Conv1d(16, 24, 11, padding=5), nn.Conv1d(24, 24, 13, padding=6, groups=24)
        self.point, self.norm, self.skip = nn.Conv1d(24, 24, 1), nn.BatchNorm1d(24), nn.Conv1d(24, 24, 1)
        self.head = nn.Conv1d(24, 8, 1)

    def forward(self, power: torch.Tensor) -> torch.Tensor:
        mels = torch.log(torch.matmul(self.bands, power.square()) + 0.01)
        value = torch.relu(self.enter(mels))
        value = torch.relu(self.norm(self.point(self.deep(value))) + self.skip(value))
        return self.head(value).mean(2)


class JointStep(nn.Module):
    """A step of a transducer: the predictor's GRU over the last letters, and the joint network of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.predict = nn.Embedding(20, 16), nn.GRU(16, 16, batch_first=True)
        self.encode, self.join = nn.Linear(24, 16), nn.Linear(16, 20)

    def forward(self, heard: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        predicted = self.predict(self.letters(said))[0]
        return torch.log_softmax(self.join(torch.tanh(self.encode(heard).unsqueeze(2) + predicted.unsqueeze(1))), -1)


class DeepFilter(nn.Module):
    """Gains by grouped layers over bands, and a filter over the last frames, as in DeepFilterNet."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.deep = nn.Conv2d(1, 8, 3, (1, 2), 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.rows = nn.GRU(8 * 8, 16, batch_first=True)
        self.gains, self.taps = nn.Linear(16, 16), nn.Linear(16, 3 * 16)

    def forward(self, bands: torch.Tensor) -> torch.Tensor:
        value = torch.relu(self.deep(torch.relu(self.enter(bands))))
        value = self.rows(value.transpose(1, 2).flatten(2))[0]
        frames = functional.pad(bands.squeeze(1), (0, 0, 2, 0)).unfold(1, 3, 1).transpose(2, 3)
        taps = torch.tanh(self.taps(value)).unflatten(2, (3, 16))
        return (frames * taps).sum(2) * torch.sigmoid(self.gains(value))
