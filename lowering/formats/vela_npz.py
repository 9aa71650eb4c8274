"""What Vela writes with `--output-format raw`: an .npz with one operation of the NPU.

Its arrays, as ethos-u-vela 5.1.0 writes them (ethosu/vela/rawdata_writer.py and the newer generator's output): the
driver's actions and the constants as bytes; size and region of the scratch memory and of the fast one; shape, bytes of
an element, region and offset of inputs, outputs and variables. Those of the quantisation hold Python objects. They are
not read: that would run code.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np

from ethos_hil.lowering.formats.array_archive import read_arrays
from ethos_hil.lowering.formats.npu_network import CONSTANTS, DTYPES, NetworkTensor, NpuNetwork, damaged, short_shape
from ethos_hil.lowering.formats.zip_members import BadArchive

_OBJECTS = frozenset(f"{kind}_quantization" for kind in ("input", "output", "variable"))
Arrays = Mapping[str, np.ndarray]


def read_npz(data: bytes, where: str) -> NpuNetwork:
    """Return the operation. Raises UsageError, which names the file `where`."""
    try:
        arrays = read_arrays(io.BytesIO(data), _OBJECTS)
    except BadArchive as error:
        raise damaged(where, str(error)) from error
    try:
        sizes: dict[int, int] = {}
        for kind in ("scratch", "scratch_fast"):
            region = _number(arrays[f"{kind}_region"])
            sizes[region] = max(sizes.get(region, 0), _number(arrays[f"{kind}_size"]))
        network = NpuNetwork(
            "ethos-u",
            arrays["cmd_data"].tobytes(),
            arrays["weight_data"].tobytes(),
            {region: size for region, size in sizes.items() if region != CONSTANTS and size > 0},
            _tensors(arrays, "input"),
            _tensors(arrays, "output"),
            _tensors(arrays, "variable") if "variable_shape" in arrays else (),
        )
    except KeyError as error:
        raise damaged(where, f"it has no array {error.args[0]}") from error
    except (ValueError, TypeError) as error:
        raise damaged(where, str(error)) from error
    return _with_io_regions(network).checked(where)


def _number(array: np.ndarray) -> int:
    """Return the number in an array of one element."""
    if array.size != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"one number was expected, found {array.dtype}{list(array.shape)}")
    return int(array.reshape(-1)[0])


def _tensors(arrays: Arrays, kind: str) -> tuple[NetworkTensor, ...]:
    columns = [arrays[f"{kind}_{name}"] for name in ("shape", "elem_size", "region", "offset")]
    if len({len(column) if column.ndim else -1 for column in columns}) != 1:
        raise ValueError(f"the arrays of {kind}s have different lengths")
    found = []
    for index, (given, size, region, offset) in enumerate(zip(*columns, strict=True)):
        sizes = tuple(int(one) for one in np.atleast_1d(given))
        if int(size) not in DTYPES or any(one < 1 for one in sizes):
            raise ValueError(f"{kind} {index} has {int(size)}-byte elements in the shape {list(sizes)}")
        name, shape = f"{kind}{index}", short_shape(sizes)
        found.append(NetworkTensor(name, shape, DTYPES[int(size)], int(region), int(offset)))
    return tuple(found)


def _with_io_regions(network: NpuNetwork) -> NpuNetwork:
    """Return the network with memory for regions that only inputs or outputs have (--separate-io-regions)."""
    memory = dict(network.memory)
    for tensor in (*network.inputs, *network.outputs, *network.states):
        if tensor.region not in network.memory and tensor.region != CONSTANTS:
            memory[tensor.region] = max(memory.get(tensor.region, 0), tensor.offset + tensor.nbytes)
    return NpuNetwork(
        network.name, network.payload, network.weights, memory, network.inputs, network.outputs, network.states
    )
