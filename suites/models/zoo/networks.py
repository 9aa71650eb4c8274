"""Networks of kinds that are in neither torchvision nor timm, or that cannot be had from there without a download."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional


def _block(inputs: int, outputs: int, stride: int = 1, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), act())


def _separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class Unet(nn.Module):
    """Two levels, skip connections, transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bottom = _block(3, 16), _block(16, 32), _block(32, 64)
        self.up1, self.up2 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.join1, self.join2 = _block(64, 32), _block(32, 16)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.first(image)
        second = self.second(functional.max_pool2d(first, 2))
        bottom = self.bottom(functional.max_pool2d(second, 2))
        joined = self.join1(torch.cat([self.up1(bottom), second], 1))
        return self.head(self.join2(torch.cat([self.up2(joined), first], 1)))


class YoloHead(nn.Module):
    """A small backbone, and a head that gives boxes of three anchors in a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(_block(3, 16, 2, nn.SiLU), _block(16, 32, 2, nn.SiLU), _block(32, 64, 2, nn.SiLU))
        self.head = nn.Conv2d(64, 3 * 10, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        grid = self.head(self.backbone(image))
        batch, _, height, width = grid.shape
        boxes = grid.view(batch, 3, 10, height, width).permute(0, 1, 3, 4, 2)
        return torch.sigmoid(boxes).reshape(batch, -1, 10)


class Ssd(nn.Module):
    """Three maps of falling size, each with a head for boxes and one for classes, side by side in one list."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_separable(3, 16, 2), _separable(16, 32, 2))
        self.stages = nn.ModuleList([_separable(32, 64, 2), _separable(64, 96, 2), _separable(96, 96, 2)])
        self.boxes = nn.ModuleList([nn.Conv2d(width, 4 * 4, 3, padding=1) for width in (64, 96, 96)])
        self.classes = nn.ModuleList([nn.Conv2d(width, 4 * 6, 3, padding=1) for width in (64, 96, 96)])

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = self.stem(image)
        boxes, classes = [], []
        for stage, box, kind in zip(self.stages, self.boxes, self.classes, strict=True):
            value = stage(value)
            boxes.append(box(value).permute(0, 2, 3, 1).reshape(value.shape[0], -1, 4))
            classes.append(kind(value).permute(0, 2, 3, 1).reshape(value.shape[0], -1, 6))
        return torch.cat(boxes, 1), torch.softmax(torch.cat(classes, 1), -1)


class CenterNet(nn.Module):
    """A heat map, its peaks kept by a max pool, and sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(_block(3, 16, 2), _block(16, 32, 2))
        self.heat, self.size = nn.Conv2d(32, 4, 1), nn.Conv2d(32, 2, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = self.backbone(image)
        heat = torch.sigmoid(self.heat(value))
        return functional.max_pool2d(heat, 3, 1, 1), self.size(value)


class FeaturePyramid(nn.Module):
    """Three maps of one width; the smaller ones are enlarged and added to the larger ones."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([_block(3, 16, 2), _block(16, 32, 2), _block(32, 64, 2)])
        self.sides = nn.ModuleList([nn.Conv2d(width, 24, 1) for width in (16, 32, 64)])
        self.smooth = nn.ModuleList([nn.Conv2d(24, 24, 3, padding=1) for _ in range(3)])

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        maps = []
        for stage in self.stages:
            image = stage(image)
            maps.append(image)
        sides = [side(value) for side, value in zip(self.sides, maps, strict=True)]
        for level in (1, 0):
            sides[level] = sides[level] + functional.interpolate(sides[level + 1], scale_factor=2.0, mode="nearest")
        return [smooth(value) for smooth, value in zip(self.smooth, sides, strict=True)]


class Espcn(nn.Module):
    """Upscales by rearranging channels into pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 16, 3, padding=1), nn.Tanh())
        self.last = nn.Conv2d(16, 9, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return functional.pixel_shuffle(self.last(self.body(image)), 3)


class Srcnn(nn.Module):
    """Enlarges bilinearly, then sharpens."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 24, 9, padding=4), nn.ReLU(), nn.Conv2d(24, 12, 1), nn.ReLU(), nn.Conv2d(12, 1, 5, padding=2)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.body(functional.interpolate(image, scale_factor=2.0, mode="bilinear", align_corners=False))


class ResidualUpscaler(nn.Module):
    """Residual blocks without batch norms, as in EDSR, and two outputs of it added."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 24, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(24, 24, 3, padding=1), nn.PReLU(24), nn.Conv2d(24, 24, 3, padding=1))
            for _ in range(3)
        )
        self.tail = nn.Conv2d(24, 12, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = value = self.head(image)
        for block in self.blocks:
            value = value + block(value) * 0.1
        return functional.pixel_shuffle(self.tail(value + first), 2)


class StyleTransfer(nn.Module):
    """Instance norms, reflected edges, nearest upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 16, 3, 2), nn.InstanceNorm2d(16, affine=True))
        self.body = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.InstanceNorm2d(16), nn.ReLU())
        self.up = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = functional.relu(self.down(image))
        value = value + self.body(value)
        return torch.sigmoid(self.up(functional.interpolate(value, scale_factor=2.0)))


class ImageAutoencoder(nn.Module):
    """Strided convolutions down, transposed ones up."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(_block(1, 8, 2), _block(8, 16, 2), _block(16, 16, 2))
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 16, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(image))


class Generator(nn.Module):
    """From a vector of noise to an image, as in DCGAN."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ConvTranspose2d(32, 32, 4, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return self.body(noise.view(-1, 32, 1, 1))


class Hourglass(nn.Module):
    """Down and up again with skips, and a heat map after each half."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _block(3, 16, 2)
        self.down, self.low, self.side = _block(16, 24, 2), _block(24, 16), _block(16, 16)
        self.first, self.back, self.second = nn.Conv2d(16, 5, 1), nn.Conv2d(5, 16, 1), nn.Conv2d(16, 5, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stem = self.stem(image)
        low = self.low(self.down(stem))
        value = self.side(stem) + functional.interpolate(low, scale_factor=2.0, mode="bilinear", align_corners=False)
        first = self.first(value)
        return first, self.second(value + self.back(first))


class KeywordCnn(nn.Module):
    """Key words, with depthwise separable convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.body = nn.Sequential(*(_separable(32, 32) for _ in range(3)))
        self.head = nn.Linear(32, 12)

    def forward(self, spectrum: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(spectrum)).mean((2, 3)))


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


class M5(nn.Module):
    """One-dimensional convolutions over a waveform."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 16, 80, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(16, 32, 3), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4),
        )  # fmt: skip
        self.head = nn.Linear(32, 8)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        return functional.log_softmax(self.head(self.body(wave).mean(-1)), -1)


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


class TemporalCnn(nn.Module):
    """Causal, dilated convolutions with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.Conv1d(8, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=2**level) for level in range(3))
        self.head = nn.Linear(16, 4)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        value = self.widen(series)
        for level, layer in enumerate(self.layers):
            value = value + torch.relu(layer(functional.pad(value, (2 ** (level + 1), 0))))
        return self.head(value[:, :, -1])


class RecurrentClassifier(nn.Module):
    """One recurrent layer over a sequence, and a classifier of its last state."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.layer, self.head = kind(12, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        values, _ = self.layer(series)
        return self.head(values[:, -1])


class GruCell(nn.Module):
    """One step from a state of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(12, 16), nn.Linear(16, 5)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(value))


class Crnn(nn.Module):
    """Reads a line of text: convolutions, then a recurrent layer over the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(1, 16), nn.MaxPool2d(2), _block(16, 32), nn.MaxPool2d((4, 2)))
        self.lstm, self.head = nn.LSTM(128, 24, bidirectional=True, batch_first=True), nn.Linear(48, 20)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = self.body(image)
        columns = value.flatten(1, 2).permute(0, 2, 1)
        return torch.log_softmax(self.head(self.lstm(columns)[0]), -1)


class EncoderClassifier(nn.Module):
    """torch's own encoder layers, with GELU."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 6)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(sequence).mean(1))


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


class PointNet(nn.Module):
    """The same layers for each point, then the largest value of each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU()
        )
        self.head = nn.Linear(64, 10)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(points).amax(-1))


class MlpMixer(nn.Module):
    """Dense layers over patches and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.tokens = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = self.patches(image).flatten(2).transpose(1, 2)
        value = value + self.tokens(self.norm1(value).transpose(1, 2)).transpose(1, 2)
        value = value + self.channels(self.norm2(value))
        return self.head(value.mean(1))


class Siamese(nn.Module):
    """Two images in one batch, and how far their embeddings are apart."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(1, 8, 2), _block(8, 16, 2), nn.Flatten(), nn.Linear(16 * 49, 16))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        embedded = self.body(images)
        return (embedded[:1] - embedded[1:]).abs().sum(-1)


class VideoCnn(nn.Module):
    """Convolutions over time, height and width."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2))
        self.head = nn.Linear(8, 5)

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(clip).mean((2, 3, 4)))


class MultiTask(nn.Module):
    """One backbone; a class, a mask, an age, and the features themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(3, 16, 2), _block(16, 24, 2))
        self.kind, self.age, self.mask = nn.Linear(24, 4), nn.Linear(24, 1), nn.Conv2d(24, 1, 1)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.body(image)
        pooled = features.mean((2, 3))
        return {
            "class": self.kind(pooled).softmax(-1),
            "age": self.age(pooled),
            "mask": torch.sigmoid(self.mask(features)),
            "features": features,
        }


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "unet": Unet,
    "yolo_head": YoloHead,
    "ssd": Ssd,
    "center_net": CenterNet,
    "feature_pyramid": FeaturePyramid,
    "espcn": Espcn,
    "srcnn": Srcnn,
    "residual_upscaler": ResidualUpscaler,
    "style_transfer": StyleTransfer,
    "autoencoder": ImageAutoencoder,
    "generator": Generator,
    "hourglass": Hourglass,
    "ds_cnn": KeywordCnn,
    "bc_resnet": BcResnet,
    "m5": M5,
    "wave_separator": WaveSeparator,
    "temporal_cnn": TemporalCnn,
    "lstm": lambda: RecurrentClassifier(nn.LSTM),
    "gru": lambda: RecurrentClassifier(nn.GRU),
    "gru_cell": GruCell,
    "crnn": Crnn,
    "transformer_encoder": EncoderClassifier,
    "conformer": Conformer,
    "point_net": PointNet,
    "mlp_mixer": MlpMixer,
    "siamese": Siamese,
    "video_cnn": VideoCnn,
    "multi_task": MultiTask,
}


def settle(network: nn.Module, inputs: Sequence[torch.Tensor]) -> None:
    """Give a network with random weights values that neither vanish nor explode: its batch norms get the averages of
    some inputs, and layers whose weights start at zero get others.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.05)
    norms = [
        module for module in network.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
    ]
    for norm in norms:
        norm.momentum = None  # the plain average of all calls
        norm.reset_running_stats()
    network.train()
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    with torch.no_grad():
        for value in inputs:
            network(value)
    network.eval()
