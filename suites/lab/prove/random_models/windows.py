"""Layers of random networks that move a window over a map [N, C, H, W]: convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.suites.lab.prove.conformance.random_graphs import Dice
from ethos_hil.suites.lab.prove.random_models.network_step import LARGEST, Drawer, DrawSite, NetworkStep, activation


def _conv(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    kernel, stride, dilation = dice.pick(1, 1, 3, 3, 5), dice.pick(1, 1, 1, 2, 3), dice.pick(1, 1, 1, 1, 2)
    padding = dice.pick(0, kernel // 2 * dilation)
    if min(h, w) + 2 * padding < dilation * (kernel - 1) + 1:
        return None
    out = dice.pick(c, 5, 8, 12, 16, 24)
    groups = dice.pick(1, 1, 1, 2) if c % 2 == 0 and out % 2 == 0 else 1
    parts: list[nn.Module] = [nn.Conv2d(c, out, kernel, stride, padding, dilation, groups, bias=dice.chance(0.7))]
    if dice.chance(0.4):
        parts.append(nn.BatchNorm2d(out))
    name = f"conv {kernel}x{kernel} /{stride} d{dilation} g{groups}"
    if dice.chance(0.6):
        act, module = activation(dice)
        parts.append(module)
        name += f" {act}"
    return site.step(name, nn.Sequential(*parts))


def _uneven(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """A convolution whose kernel and stride differ in y and x, as in networks for sound."""
    _, c, h, w = site.shape
    kernel, stride = dice.pick((1, 3), (3, 1), (1, 7), (5, 3), (4, 2)), dice.pick((1, 1), (2, 1), (1, 2))
    if h < kernel[0] or w < kernel[1]:
        return None
    return site.step(f"conv {kernel} /{stride}", nn.Conv2d(c, dice.pick(c, 6, 8), kernel, stride))


def _depthwise(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    kernel, stride, times = dice.pick(3, 3, 5), dice.pick(1, 1, 2), dice.pick(1, 1, 2)
    if min(h, w) < kernel or c * times > 48:
        return None
    act, module = activation(dice)
    convolution = nn.Conv2d(c, c * times, kernel, stride, kernel // 2, groups=c)
    return site.step(
        f"depthwise {kernel} /{stride} x{times} {act}", nn.Sequential(convolution, nn.BatchNorm2d(c * times), module)
    )


def _transposed(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    if c * h * w * 4 > LARGEST:
        return None
    kernel, stride, padding = dice.pick(2, 3, 4), dice.pick(1, 2, 2, 2, 3), dice.pick(0, 1)
    extra = dice.pick(0, 0, 1) if stride > 1 else 0
    if (min(h, w) - 1) * stride - 2 * padding + kernel + extra < 1:
        return None
    groups = dice.pick(1, 1, 2, c) if c % 2 == 0 else 1
    out = dice.pick(*(number for number in (4, 8, c, 2 * c) if number % groups == 0))
    layer = nn.ConvTranspose2d(c, out, kernel, stride, padding, extra, groups)
    return site.step(f"transposed {kernel} /{stride} p{padding}+{extra} g{groups}", layer)


def _pool(dice: Dice, site: DrawSite) -> NetworkStep | None:
    h, w = site.shape[2:]
    kernel, stride = dice.pick((2, 2), (3, 2), (3, 1), (2, 1), (3, 4), (5, 3), (4, 4), (2, 3))
    padding = dice.pick(0, kernel // 2)
    if min(h, w) + 2 * padding < kernel:
        return None
    ceil = dice.chance(0.2)
    if dice.chance(0.5):
        layer: nn.Module = nn.MaxPool2d(kernel, stride, padding, ceil_mode=ceil)
    else:
        layer = nn.AvgPool2d(kernel, stride, padding, ceil_mode=ceil, count_include_pad=dice.chance(0.5))
    return site.step(f"{type(layer).__name__} {kernel} /{stride} p{padding}{' ceil' if ceil else ''}", layer)


def _adaptive(dice: Dice, site: DrawSite) -> NetworkStep:
    size = dice.pick((1, 1), (2, 2), (3, 3), (2, 3), (site.shape[2], 1))
    kind = dice.pick(nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
    return site.step(f"{kind.__name__} {size}", kind(size))


def _uneven_pool(dice: Dice, site: DrawSite) -> NetworkStep | None:
    kernel, padding = dice.pick(((1, 2), (0, 0)), ((2, 1), (0, 0)), ((3, 1), (1, 0)), ((1, 3), (0, 1)))
    if min(site.shape[2:]) < 3:
        return None
    kind = dice.pick(nn.MaxPool2d, nn.AvgPool2d)
    return site.step(f"{kind.__name__} {kernel} p{padding}", kind(kernel, padding=padding))


def _larger(dice: Dice, site: DrawSite) -> NetworkStep | None:
    _, c, h, w = site.shape
    if c * h * w * 4 > LARGEST:
        return None
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "nearest x2": lambda x: functional.interpolate(x, scale_factor=2.0),
        "nearest x2 again": lambda x: nn.functional.interpolate(x, scale_factor=2.0),
        "bilinear x2": lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
        "bilinear corners": lambda x: functional.interpolate(
            x, size=(2 * h - 1, 2 * w - 1), mode="bilinear", align_corners=True
        ),
        "nearest to a size": lambda x: functional.interpolate(x, size=(2 * h, 3 * w)),
        "nearest of odd factors": lambda x: functional.interpolate(x, size=(h + 2, w + 1)),
        "bilinear to half": lambda x: functional.interpolate(x, size=((h + 1) // 2, (w + 1) // 2), mode="bilinear"),
    }
    if c % 4 == 0:
        ways["pixel shuffle"] = nn.PixelShuffle(2)
    name = dice.pick(*ways)
    return site.step(name, ways[name])


def _volume(dice: Dice, site: DrawSite) -> NetworkStep | None:
    """A layer of three dimensions, for which the channels are taken apart."""
    n, c, h, w = site.shape
    if c % 4 or min(h, w) < 3:
        return None
    parts = c // 4
    layers: dict[str, nn.Module] = {
        "conv3d": nn.Conv3d(parts, parts, 3, padding=1),
        "max pool 3d": nn.MaxPool3d((1, 2, 2)),
        "avg pool 3d": nn.AvgPool3d((1, 2, 2)),
        "batch norm 3d": nn.BatchNorm3d(parts),
    }
    name = dice.pick("conv3d", *layers)
    layer = layers[name]
    return NetworkStep(name, lambda x: layer(x.view(n, parts, 4, h, w)).flatten(1, 2), (site.last,), (layer,))


WINDOWS: dict[str, Drawer] = {
    "conv": _conv, "conv again": _conv, "conv once more": _conv, "uneven": _uneven, "depthwise": _depthwise,
    "transposed": _transposed, "pool": _pool, "pool again": _pool, "adaptive": _adaptive, "uneven pool": _uneven_pool,
    "larger": _larger, "volume": _volume,
}  # fmt: skip
