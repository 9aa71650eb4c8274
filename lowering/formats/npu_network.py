"""A network as Vela compiled it, without ExecuTorch: a command stream, its constants, and the memory it works on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.vela_blob import BadPayload, DriverPayload, VelaBlob, VelaIo

CONSTANTS, SCRATCH, FAST = 0, 1, 2
"""Regions of the command stream, as Vela numbers them."""
DTYPES = {size: np.dtype(f"int{8 * size}") for size in (1, 2, 4, 8)}
"""By the bytes of an element, where nothing says more."""
MOST_BYTES = 1 << 30
"""The memory that a network may need. Ethos-U networks need megabytes."""


@dataclass(frozen=True)
class NetworkTensor:
    """An input, an output or a state of a network, and its place in memory.

    Attributes:
        name: its name, or "input0" and so on where the file has none.
        shape: dimensions.
        dtype: of its elements. An .npz of Vela does not say whether they are signed; then they count as signed.
        region: the region of the command stream.
        offset: bytes from the start of the region.
        zero: the element that means 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    region: int
    offset: int
    zero: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions, under the name that tensors of a program have for them."""
        return self.shape

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class NpuNetwork:
    """One operation of the NPU: a command stream with all that it needs.

    Attributes:
        name: its name in the file.
        payload: the driver's actions, the command stream among them.
        weights: constants, region 0.
        memory: bytes of each other region that Vela declares.
        inputs, outputs: in the order of the file.
        states: tensors that keep their values from one inference to the next.
    """

    name: str
    payload: bytes
    weights: bytes
    memory: Mapping[int, int]
    inputs: tuple[NetworkTensor, ...]
    outputs: tuple[NetworkTensor, ...]
    states: tuple[NetworkTensor, ...] = ()

    @cached_property
    def _driver(self) -> DriverPayload:
        return DriverPayload.parse(self.payload)

    @property
    def stream(self) -> bytes:
        """The register command stream."""
        return self._driver.stream

    @property
    def npu(self) -> EthosU:
        """The NPU that it was compiled for. Raises UsageError when the payload names none."""
        return EthosU.from_config_word(self._driver.config_word)

    def checked(self, where: str) -> NpuNetwork:
        """Return the network. Raises UsageError if its parts contradict one another; `where` names the file."""
        try:
            driver = self._driver
        except BadPayload as error:
            raise damaged(where, f"{self.name}: {error}") from error
        EthosU.from_config_word(driver.config_word)
        if sum(self.memory.values()) > MOST_BYTES:
            raise damaged(where, f"{self.name} needs {sum(self.memory.values()):,} bytes, more than any Ethos-U has")
        for tensor in (*self.inputs, *self.outputs, *self.states):
            there = self.memory.get(tensor.region)
            if there is None or tensor.offset < 0 or tensor.offset + tensor.nbytes > there:
                has = "is not there" if there is None else f"has {there:,}"
                place = f"{tensor.nbytes:,} bytes at {tensor.offset:,} of region {tensor.region}, which {has}"
                raise damaged(where, f"{self.name}: tensor {tensor.name} has {place}")
        return self


def read_blob(data: bytes, where: str) -> NpuNetwork:
    """Return the network of a delegate's blob, as `ethos-hil lower --to vela` writes it. Raises UsageError."""
    blob = VelaBlob.parse(data, where)
    network = NpuNetwork(
        "delegate",
        blob.command_data,
        blob.weights,
        {SCRATCH: blob.scratch_size},
        _of_blob(blob.inputs, "input"),
        _of_blob(blob.outputs, "output"),
    )
    return network.checked(where)


def _of_blob(places: Sequence[VelaIo], kind: str) -> tuple[NetworkTensor, ...]:
    return tuple(
        NetworkTensor(f"{kind}{index}", short_shape(place.shape), DTYPES[place.elem_size], SCRATCH, place.offset)
        for index, place in enumerate(places)
    )


def short_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape of six dimensions without the ones that fill it up: of four dimensions, if those are ones."""
    extra = max(len(shape) - 4, 0)
    return shape[extra:] if all(size == 1 for size in shape[:extra]) else shape


def damaged(where: str, problem: str) -> UsageError:
    """Return the error of a file that is no usable output of Vela."""
    return UsageError(
        f"{where} is no usable output of Vela: {problem}",
        hint="compile the network again: vela NETWORK --accelerator-config NPU, with --output-format raw or tflite",
    )
