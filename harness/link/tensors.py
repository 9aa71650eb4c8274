"""Tensors from the wire as arrays."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.formats import MAX_RANK, TensorInfo, TensorRole

DTYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("uint8"),
    1: np.dtype("int8"),
    2: np.dtype("int16"),
    3: np.dtype("int32"),
    4: np.dtype("int64"),
    5: np.dtype("float16"),
    6: np.dtype("float32"),
    7: np.dtype("float64"),
    11: np.dtype("bool"),
    27: np.dtype("uint16"),
    28: np.dtype("uint32"),
    29: np.dtype("uint64"),
}
"""NumPy types by ExecuTorch ScalarType (schema/scalar_type.fbs of its wheel); types that NumPy lacks are left out."""
_MOST_BYTES = 1 << 32
"""The processor's addresses."""


@dataclass(frozen=True)
class TensorAnnouncement:
    """The contents of a TENSOR frame.

    Attributes:
        sizes: the logical shape, independent of the order in memory.
        same_as: the method output that has the same bytes, which are not sent then; otherwise None.
    """

    role: TensorRole
    index: int
    instruction: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    nbytes: int
    crc32: int
    same_as: int | None = None

    @classmethod
    def parse(cls, payload: bytes) -> TensorAnnouncement:
        """Return the announcement in the payload of a TENSOR frame.

        Raises:
            TargetError: kind "link", when it contradicts itself.
        """
        try:
            info = TensorInfo.unpack(payload)
            role = TensorRole(info["role"])
            rank = info["rank"]
            if rank > MAX_RANK or len(payload) != TensorInfo.size + 4 * rank:
                raise ValueError(f"rank {rank} in {len(payload)} bytes")
            sizes = struct.unpack_from(f"<{rank}I", payload, TensorInfo.size)
        except (struct.error, ValueError) as error:
            raise TargetError(f"a TENSOR frame is malformed: {error}", kind=FailureKind.LINK) from error
        label = f"{role.name.lower()} {info['index']}"
        if info["dtype"] not in DTYPES:
            raise TargetError(
                f"{label} has dtype {info['dtype']}, which the harness has no array for", kind=FailureKind.LINK
            )
        dim_order = tuple(info["dim_order"][:rank])
        if sorted(dim_order) != list(range(rank)):
            raise TargetError(f"{label} has dim_order {dim_order}, which is no permutation", kind=FailureKind.LINK)
        dtype = DTYPES[info["dtype"]]
        expected = math.prod(sizes) * dtype.itemsize
        if info["nbytes"] != expected:
            raise TargetError(
                f"{label} is announced with {info['nbytes']} bytes; {dtype} {sizes} has {expected}",
                kind=FailureKind.LINK,
            )
        # With a size of 0 the number of bytes says nothing about the others, and NumPy has no array for such a shape.
        if math.prod(size or 1 for size in sizes) * dtype.itemsize > _MOST_BYTES:
            raise TargetError(
                f"{label} is announced with the shape {sizes}, which fits no memory", kind=FailureKind.LINK
            )
        return cls(
            role, info["index"], info["instruction"], dtype, sizes, dim_order, info["nbytes"], info["crc32"],
            info["same_as"] - 1 if info["same_as"] else None,
        )  # fmt: skip

    def array(self, data: bytes) -> np.ndarray:
        """Return the tensor's bytes as an array in its logical shape.

        Raises:
            TargetError: kind "link", when the bytes are not those that were announced.
        """
        label = f"{self.role.name.lower()} {self.index}"
        if len(data) != self.nbytes or zlib.crc32(data) != self.crc32:
            raise TargetError(
                f"{label}: the {len(data)} bytes received do not match their CRC-32", kind=FailureKind.LINK
            )
        stored = np.frombuffer(data, self.dtype).reshape([self.sizes[axis] for axis in self.dim_order])
        return np.ascontiguousarray(stored.transpose(np.argsort(self.dim_order))).reshape(self.sizes)
