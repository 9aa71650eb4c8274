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


class GruCell(nn.Module):
    """One step from a state of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(12, 16), nn.Linear(16, 5)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(value))


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


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "unet": Unet,
    "yolo_head": YoloHead,
    "ssd": Ssd,
    "feature_pyramid": FeaturePyramid,
    "espcn": Espcn,
    "style_transfer": StyleTransfer,
    "bc_resnet": BcResnet,
    "wave_separator": WaveSeparator,
    "temporal_cnn": TemporalCnn,
    "gru_cell": GruCell,
    "conformer": Conformer,
    "point_net": PointNet,
    "mlp_mixer": MlpMixer,
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
