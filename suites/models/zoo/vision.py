"""Networks for pictures, of kinds that are in no package of the zoo."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ethos_hil.suites.models.zoo.blocks import block, separable


class Unet(nn.Module):
    """Two levels, skip connections, transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bottom = block(3, 16), block(16, 32), block(32, 64)
        self.up1, self.up2 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.join1, self.join2 = block(64, 32), block(32, 16)
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
        self.backbone = nn.Sequential(block(3, 16, 2, nn.SiLU), block(16, 32, 2, nn.SiLU), block(32, 64, 2, nn.SiLU))
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
        self.stem = nn.Sequential(separable(3, 16, 2), separable(16, 32, 2))
        self.stages = nn.ModuleList([separable(32, 64, 2), separable(64, 96, 2), separable(96, 96, 2)])
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
        self.stages = nn.ModuleList([block(3, 16, 2), block(16, 32, 2), block(32, 64, 2)])
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


class SplitBlock(nn.Module):
    """Half of the channels pass a residual pair of convolutions, and all are joined: the block of small detectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width + width // 2, width, 1)
        self.body = nn.Sequential(block(width // 2, width // 2, 1, nn.SiLU), block(width // 2, width // 2, 1, nn.SiLU))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        kept, half = self.enter(value).chunk(2, 1)
        return functional.silu(self.leave(torch.cat([kept, half, half + self.body(half)], 1)))


class AnchorFree(nn.Module):
    """A detector as YOLOv8's: split blocks, pooled pyramid, one step up, and boxes as the mean of a distribution."""

    bins: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(block(3, 8, 2, nn.SiLU), block(8, 16, 2, nn.SiLU), SplitBlock(16))
        self.deep, self.pooled = nn.Sequential(block(16, 24, 2, nn.SiLU), SplitBlock(24)), nn.Conv2d(24 * 4, 24, 1)
        self.join = nn.Sequential(nn.Conv2d(40, 16, 1), SplitBlock(16))
        self.boxes = nn.ModuleList([nn.Conv2d(width, 4 * 8, 1) for width in (16, 24)])
        self.classes = nn.ModuleList([nn.Conv2d(width, 5, 1) for width in (16, 24)])
        self.register_buffer("bins", torch.arange(8.0).view(1, 8, 1, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fine = self.stem(image)
        pools = [self.deep(fine)]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        coarse = self.pooled(torch.cat(pools, 1))
        maps = [self.join(torch.cat([fine, functional.interpolate(coarse, scale_factor=2.0)], 1)), coarse]
        boxes = torch.cat([head(value).flatten(2) for head, value in zip(self.boxes, maps, strict=True)], 2)
        classes = torch.cat([head(value).flatten(2) for head, value in zip(self.classes, maps, strict=True)], 2)
        shares = torch.softmax(boxes.view(1, 4, 8, -1).transpose(1, 2), 1)
        return (shares * self.bins).sum(1), torch.sigmoid(classes)


class TopBoxes(nn.Module):
    """A detector's head that keeps the ten best of all places, and looks their boxes up."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(block(3, 8, 2), separable(8, 16, 2), separable(16, 24, 2))
        self.scores, self.boxes = nn.Conv2d(24, 4, 1), nn.Conv2d(24, 4, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        value = self.body(image)
        scores, kinds = torch.sigmoid(self.scores(value)).flatten(2).max(1)
        best, places = torch.topk(scores, 10, 1)
        boxes = self.boxes(value).flatten(2).transpose(1, 2)
        return best, kinds.gather(1, places), boxes.gather(1, places.unsqueeze(-1).expand(-1, -1, 4))


class CentreNet(nn.Module):
    """Finds the points of a heat map: peaks by a pool, the best place of each kind, its row and column."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(separable(3, 16, 2), separable(16, 24, 2))
        self.heat, self.shift = nn.Conv2d(24, 3, 1), nn.Conv2d(24, 2, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        value = self.body(image)
        heat = torch.sigmoid(self.heat(value))
        peaks = heat * (functional.max_pool2d(heat, 3, 1, 1) == heat)
        place = peaks.flatten(2).argmax(2)
        width = heat.shape[-1]
        return torch.stack([place // width, place % width], -1).float(), peaks, self.shift(value)


class FaceBoxes(nn.Module):
    """5x5 depthwise blocks whose residuals are padded with channels of zeros, as in BlazeFace."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 5, 2, 2)
        self.deep = nn.ModuleList([nn.Conv2d(width, width, 5, 2, 2, groups=width) for width in (12, 16)])
        self.wide = nn.ModuleList([nn.Conv2d(12, 16, 1), nn.Conv2d(16, 24, 1)])
        self.head = nn.Conv2d(24, 2 * 17, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = torch.relu(self.stem(image))
        for deep, wide in zip(self.deep, self.wide, strict=True):
            kept = functional.max_pool2d(value, 2)
            made = wide(deep(value))
            value = torch.relu(made + functional.pad(kept, (0, 0, 0, 0, 0, made.shape[1] - kept.shape[1])))
        found = self.head(value).permute(0, 2, 3, 1).reshape(1, -1, 17)
        return found[..., :16], torch.sigmoid(found[..., 16:])


class CentroidGrid(nn.Module):
    """Classifies each cell of a coarse grid, as Edge Impulse's FOMO."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(block(1, 8, 2, nn.ReLU6), separable(8, 16, 2), separable(16, 24, 2))
        self.head = nn.Sequential(nn.Conv2d(24, 16, 1), nn.ReLU(), nn.Conv2d(16, 3, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.body(image)), 1)


class LowLight(nn.Module):
    """Eight curves for each pixel, as in Zero-DCE; bytes in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.curves = nn.Conv2d(24, 3 * 4, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = image.float() / 255
        first = torch.relu(self.first(value))
        for curve in torch.tanh(self.curves(torch.cat([first, torch.relu(self.second(first))], 1))).chunk(4, 1):
            value = value + curve * (value * value - value)
        return (value.clamp(0, 1) * 255).round().to(torch.uint8)


class SpatialTransformer(nn.Module):
    """Turns the picture as a small network says, then classifies it."""

    same: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 12 * 12, 6))
        self.register_buffer("same", torch.tensor([1.0, 0, 0, 0, 1, 0]))
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 13 * 13, 10))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        turn = (self.look(image) * 0.3 + self.same).view(-1, 2, 3)
        grid = functional.affine_grid(turn, list(image.shape), align_corners=False)
        return self.body(functional.grid_sample(image, grid, align_corners=False))


class OpticalFlow(nn.Module):
    """All pairs of places are compared; the flow is corrected twice from what was found there, as in RAFT."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(block(3, 8, 2), nn.Conv2d(8, 8, 3, 2, 1))
        self.update, self.head = nn.Conv2d(8 + 2 + 64, 16, 3, padding=1), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        one, two = self.features(first), self.features(second)
        batch, width, rows, columns = one.shape
        cost = torch.matmul(one.flatten(2).transpose(1, 2), two.flatten(2)) / width**0.5
        cost = cost.transpose(1, 2).reshape(batch, -1, rows, columns)
        flow = one[:, :2] * 0
        for _ in range(2):
            flow = flow + self.head(torch.tanh(self.update(torch.cat([one, flow, cost], 1))))
        return functional.interpolate(flow, scale_factor=4.0, mode="bilinear", align_corners=False)


class DenoisingUnet(nn.Module):
    """A step of diffusion: the time as sines, group norms, attention at the bottom."""

    rates: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rates", torch.exp(-torch.arange(8.0)))
        self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
        self.enter, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.mix = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up, self.leave = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        angles = time[:, None] * self.rates
        when = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        fine = functional.silu(self.enter(image))
        value = self.mix(functional.silu(self.norm(self.down(fine)) + when[:, :, None, None]))
        tokens = value.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return self.leave(torch.cat([fine, self.up(tokens.transpose(1, 2).reshape(value.shape))], 1))


class Distillation(nn.Module):
    """Super-resolution that keeps a quarter of the channels at each step, with attention by their contrast."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.steps = nn.ModuleList([nn.Conv2d(width, 16, 3, padding=1) for width in (16, 12, 12)])
        self.join, self.look = nn.Conv2d(4 + 4 + 16, 16, 1), nn.Conv2d(16, 16, 1)
        self.leave = nn.Sequential(nn.Conv2d(16, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = entered = self.enter(image)
        kept = []
        for step in self.steps[:2]:
            part, value = functional.leaky_relu(step(value), 0.05).split([4, 12], 1)
            kept.append(part)
        value = self.join(torch.cat([*kept, self.steps[2](value)], 1))
        contrast = value.std((2, 3), keepdim=True, correction=0) + value.mean((2, 3), keepdim=True)
        return self.leave(entered + value * torch.sigmoid(self.look(contrast)))


class GatedRestoration(nn.Module):
    """No activation but products of halves, with norms over channels: the block of NAFNet."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.wide, self.deep = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.look, self.narrow = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 1)
        self.feed, self.back = nn.Conv2d(16, 32, 1), nn.Conv2d(16, 16, 1)
        self.scale = nn.Parameter(torch.full((1, 16, 1, 1), 0.1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = self.enter(image)
        left, right = self.deep(self.wide(_over_channels(self.norm1, value))).chunk(2, 1)
        gated = left * right
        value = value + self.narrow(gated * self.look(functional.adaptive_avg_pool2d(gated, 1))) * self.scale
        left, right = self.feed(_over_channels(self.norm2, value)).chunk(2, 1)
        return image + self.leave(value + self.back(left * right) * self.scale)


def _over_channels(norm: nn.Module, value: torch.Tensor) -> torch.Tensor:
    return norm(value.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CapsuleNet(nn.Module):
    """Vectors in place of numbers, whose lengths are squashed; one round of routing by agreement."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.primary = nn.Conv2d(1, 16, 5, 2), nn.Conv2d(16, 4 * 8, 5, 2)
        self.turn = nn.Parameter(torch.randn(1, 4 * 16, 5, 4, 8) * 0.4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = self.primary(torch.relu(self.stem(image))).view(1, 4, 8, 16).transpose(2, 3).reshape(1, 64, 1, 8)
        votes = (self.turn * _squash(value).unsqueeze(3)).sum(-1)
        found = _squash(votes.mean(1, keepdim=True))
        shares = torch.softmax((votes * found).sum(-1, keepdim=True), 2)
        return _squash((shares * votes).sum(1)).square().sum(-1).sqrt()


def _squash(value: torch.Tensor) -> torch.Tensor:
    length = value.square().sum(-1, keepdim=True)
    return value * torch.sqrt(length) / (1 + length)


class PatchAnomaly(nn.Module):
    """The distance of each patch's features from a normal one's, scaled, as in PaDiM; and the largest."""

    mean: torch.Tensor
    inverse: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = block(3, 8, 2), block(8, 16, 2)
        self.register_buffer("mean", torch.rand(1, 24, 12, 12))
        self.register_buffer("inverse", torch.rand(1, 24, 12, 12))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.first(image)
        second = functional.interpolate(self.second(first), scale_factor=2.0)
        apart = functional.avg_pool2d(torch.cat([first, second], 1), 2) - self.mean
        distance = (apart * apart * self.inverse).sum(1, keepdim=True).sqrt()
        return distance, distance.amax((1, 2, 3))


class VectorQuantiser(nn.Module):
    """The nearest of 16 codes for each place, and a picture from them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 4, 2, 1))
        self.codes = nn.Parameter(torch.randn(16, 8) * 0.3)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(8, 16, 2, 2), nn.ReLU(), nn.ConvTranspose2d(16, 3, 2, 2))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = self.encoder(image)
        flat = value.flatten(2).transpose(1, 2)
        distances = self.codes.square().sum(1) - 2 * flat @ self.codes.t()
        nearest = distances.argmin(-1)
        chosen = functional.embedding(nearest, self.codes).transpose(1, 2).reshape(value.shape)
        return nearest, self.decoder(chosen)


class ShiftedFrames(nn.Module):
    """Actions in a clip: an eighth of the channels come from the frame before, an eighth from the one after."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mix = block(3, 16, 2), nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 6)

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        value = self.stem(clip.flatten(0, 1)).unflatten(0, (clip.shape[0], clip.shape[1]))
        before = functional.pad(value[:, :-1, :2], (0, 0, 0, 0, 0, 0, 1, 0))
        after = functional.pad(value[:, 1:, 2:4], (0, 0, 0, 0, 0, 0, 0, 1))
        shifted = torch.cat([before, after, value[:, :, 4:]], 2).flatten(0, 1)
        value = (shifted + torch.relu(self.mix(shifted))).mean((2, 3)).unflatten(0, (clip.shape[0], clip.shape[1]))
        return self.head(value.mean(1))


class Video(nn.Module):
    """Convolutions over time, rows and columns at once."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8)
        self.second, self.head = nn.Conv3d(8, 16, (3, 1, 1), padding=(1, 0, 0)), nn.Linear(16, 6)

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        value = torch.relu(self.second(torch.relu(self.norm(self.first(clip)))))
        return self.head(value.mean((2, 3, 4)))
