"""The weights of models that are trained when they are made. They are kept in the cache, so this is done once."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ethos_hil.base.files import write_whole
from ethos_hil.base.regular_file import read_bytes
from ethos_hil.lowering.cache.contents import TRAINED, cache_folder
from ethos_hil.lowering.formats.array_archive import BadArchive, packed_arrays, read_arrays

Weights = Mapping[str, np.ndarray]
_MOST = 64 << 20
"""Largest size of a file of weights, bytes."""


def trained_weights(name: str, made_from: Sequence[str], train: Callable[[], Weights]) -> dict[str, np.ndarray]:
    """Return a model's weights from the cache, or train it and keep them.

    A file that is missing, damaged or cannot be written only costs time.

    Args:
        name: the model's.
        made_from: all that decides the weights: the code, the data, torch's version.
        train: returns the weights by name.
    """
    digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()
    path = cache_folder() / TRAINED / f"{name}-{digest}.npz"
    with contextlib.suppress(OSError, BadArchive):
        return read_arrays(io.BytesIO(read_bytes(path, most=_MOST)))
    weights = dict(train())
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, packed_arrays(weights))
    return weights
