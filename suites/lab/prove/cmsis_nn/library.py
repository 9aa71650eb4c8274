"""CMSIS-NN as a library of this computer, and calls of it as ExecuTorch's kernels make them (executorch 1.5.1,
backends/cortex_m/ops/*.cpp).
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.testing.cortex_m_cases import NHWC, CortexMCall

COMMIT = "dbf45dbfcc515421dd6099037d3e2637b90748c8"
"""The version that ExecuTorch 1.5.1 builds (backends/cortex_m/CMakeLists.txt)."""
_LEFT_OUT = ("f16", "f32", "flt", "s4", "lstm", "svdf", "s16_s16")
_SCRATCH = 1 << 22
_TO_NHWC, _TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


class _Context(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("size", ctypes.c_int32)]


class _PerChannel(ctypes.Structure):
    _fields_ = [("multiplier", ctypes.c_void_p), ("shift", ctypes.c_void_p)]


class _BatchMatmul(ctypes.Structure):
    _fields_ = [("adj_x", ctypes.c_bool), ("adj_y", ctypes.c_bool), ("fc", ctypes.c_int32 * 5)]


class _Transpose(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("order", ctypes.c_void_p)]


def build(sources: Path, folder: Path) -> Path:
    """Compile a checkout without vector instructions, and return the library.

    Raises:
        ToolError: it does not compile.
    """
    found = [path for path in sorted(sources.glob("Source/**/*.c")) if _is_wanted(path)]
    library = folder / "libcmsis-nn.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-w", f"-I{sources / 'Include'}", "-o", str(library), *map(str, found)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not found or done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["there is no Source folder"]
        raise ToolError(f"CMSIS-NN does not compile: {last[0]}", hint="give a checkout of ARM-software/CMSIS-NN")
    return library


def _is_wanted(path: Path) -> bool:
    name = path.name.lower()
    whole = path.parent.name in ("NNSupportFunctions", "TransposeFunctions", "PadFunctions")
    return (whole or "_s8" in name) and not any(part in name for part in _LEFT_OUT)


def _ints(*numbers: Any) -> Any:
    return (ctypes.c_int32 * len(numbers))(*map(int, numbers))


def _at(array: np.ndarray | None) -> Any:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


def _own(tensor: torch.Tensor | None) -> np.ndarray | None:
    return None if tensor is None else np.array(tensor.numpy(), order="C")


class CmsisNn:
    """Calls the library.

    Args:
        library: what `build` returned.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._memory = [np.zeros(_SCRATCH, np.int8) for _ in range(2)]

    def answer(self, call: CortexMCall, shape: Sequence[int]) -> np.ndarray:
        """Return what it answers to a call that has images in channels_last, or none: [N, C, H, W], or `shape`.

        Raises:
            ToolError: it reports an error.
        """
        assert not call.name.endswith(NHWC)
        name = call.name.removeprefix("quantized_")
        if name in ("add", "mul"):
            return self._of_pairs(name, call.arguments)
        if name.endswith("2d"):
            return self._of_images(name, call.arguments, shape)
        kernel = {"minimum": self._extreme, "maximum": self._extreme, "linear": self._linear,
                  "batch_matmul": self._batch_matmul, "softmax": self._softmax, "transpose": self._transpose,
                  "pad": self._pad}[name]  # fmt: skip
        out = np.zeros(shape, np.int8)
        return kernel(name, call.arguments, out)

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise ToolError(f"CMSIS-NN: {function} returned {status}")

    def _context(self, number: int = 0) -> Any:
        memory = self._memory[number]
        return ctypes.byref(_Context(memory.ctypes.data, memory.nbytes))

    def _of_pairs(self, name: str, arguments: Sequence[Any]) -> np.ndarray:
        """Call it for each position of an image, where one operand has a number for each channel."""
        if name == "add":
            first, second, rest = arguments[:4], arguments[4:8], arguments[8:]
        else:
            first, second, rest = arguments[:2], arguments[2:4], arguments[4:]
        if first[0].numel() < second[0].numel():
            first, second = second, first
        image = first[0]
        flat = [_flat(operand[0]) for operand in (first, second)]
        out, count = np.zeros(flat[0].size, np.int8), flat[1].size
        for start in range(0, out.size, count):
            part, result = flat[0][start : start + count].copy(), np.zeros(count, np.int8)
            if name == "add":
                zero, multiplier, shift, low, high = rest
                self._call("arm_elementwise_add_s8", _at(part), _at(flat[1]), -first[1], *first[2:], -second[1],
                           *second[2:], 20, _at(result), zero, multiplier, shift, low, high, count)  # fmt: skip
            else:
                self._call("arm_elementwise_mul_s8", _at(part), _at(flat[1]), -first[1], -second[1], _at(result),
                           *rest, -128, 127, count)  # fmt: skip
            out[start : start + count] = result
        if image.dim() != 4:
            return out.reshape(image.shape)
        batch, channels, height, width = image.shape
        return out.reshape(batch, height, width, channels).transpose(_TO_NCHW)

    def _extreme(self, name: str, arguments: Sequence[Any], out: np.ndarray) -> np.ndarray:
        a, b = (np.array(value.contiguous().numpy()) for value in arguments)
        sizes = [_ints(*(1,) * (4 - array.ndim), *array.shape) for array in (a, b, out)]
        self._call(f"arm_{name}_s8", None, _at(a), sizes[0], _at(b), sizes[1], _at(out), sizes[2])
        return out

    def _linear(self, _name: str, arguments: Sequence[Any], out: np.ndarray) -> np.ndarray:
        values, weights, bias, sums, offset, filter_offset, zero, multipliers, shifts, high, low = arguments
        if sums is not None:  # this build takes the bias
            bias = (sums.reshape(-1) - offset * weights.to(torch.int32).sum(1)).to(torch.int32)
        inner, outs = values.shape[-1], weights.shape[0]
        rows = values.numel() // inner
        x, w, b = _own(values), _own(weights), _own(bias)
        self._call("arm_fully_connected_s8", self._context(), _ints(offset, filter_offset, zero, low, high),
                   _ints(multipliers[0], shifts[0]), _ints(rows, 1, 1, inner), _at(x), _ints(inner, 1, 1, outs), _at(w),
                   _ints(1, 1, 1, outs), _at(b), _ints(rows, 1, 1, outs), _at(out))  # fmt: skip
        return out

    def _batch_matmul(self, _name: str, arguments: Sequence[Any], out: np.ndarray) -> np.ndarray:
        left, left_offset, right, right_offset, zero, multiplier, shift, _ = arguments
        asked = _BatchMatmul(False, False, _ints(left_offset, right_offset, zero, -128, 127))
        a, b = _own(left), _own(right)
        self._call("arm_batch_matmul_s8", self._context(), ctypes.byref(asked), _ints(multiplier, shift),
                   _ints(1, *left.shape), _at(a), _ints(1, *right.shape), _at(b), _ints(1, *out.shape),
                   _at(out))  # fmt: skip
        return out

    def _softmax(self, _name: str, arguments: Sequence[Any], out: np.ndarray) -> np.ndarray:
        values, _, _, _, multiplier, shift, least = arguments
        x, size = _own(values), values.shape[-1]
        self._library.arm_softmax_s8(_at(x), values.numel() // size, size, multiplier, shift, least, _at(out))
        return out

    def _transpose(self, _name: str, arguments: Sequence[Any], out: np.ndarray) -> np.ndarray:
        values, order = arguments
        x, missing = _own(values), (1,) * (4 - values.dim())
        numbers = (ctypes.c_uint32 * 4)(*order, *(0 for _ in missing))
        asked = _Transpose(values.dim(), ctypes.addressof(numbers))
        self._call("arm_transpose_s8", _at(x), _at(out), _ints(*values.shape, *missing), _ints(*out.shape, *missing),
                   ctypes.byref(asked))  # fmt: skip
        return out

    def _pad(self, _name: str, arguments: Sequence[Any], out: np.ndarray) -> np.ndarray:
        values, before, after, value = arguments
        last = values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last)
        x = np.array(values.permute(_TO_NHWC).numpy() if last else values.numpy(), order="C")
        sizes = (*(1,) * (4 - x.ndim), *x.shape)
        result = np.zeros([sum(widths) for widths in zip(before, sizes, after, strict=True)], np.int8)
        self._call("arm_pad_s8", _at(x), _at(result), ctypes.c_int8(value), _ints(*sizes), _ints(*before),
                   _ints(*after))  # fmt: skip
        return result.transpose(_TO_NCHW) if last else result.reshape(out.shape)

    def _of_images(self, name: str, arguments: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
        image = arguments[0]
        batch, channels, height, width = image.shape
        x = np.array(image.permute(_TO_NHWC).numpy(), order="C")
        out = np.zeros([shape[axis] for axis in _TO_NHWC], np.int8)
        sides = (_ints(batch, height, width, channels), _at(x)), (_ints(*out.shape), _at(out))
        if name.endswith("pool2d"):
            kernel, stride, padding = arguments[1:4]
            low, high = arguments[-2:] if name == "max_pool2d" else (-128, 127)
            function = "arm_max_pool_s8" if name == "max_pool2d" else "arm_avgpool_s8"
            self._call(function, self._context(), _ints(*stride[::-1], *padding[::-1], low, high), *sides[0],
                       _ints(1, *kernel, 1), *sides[1])  # fmt: skip
        else:
            self._convolve(name, arguments, sides)
        return out.transpose(_TO_NCHW)

    def _convolve(self, name: str, arguments: Sequence[Any], sides: Sequence[Sequence[Any]]) -> None:
        _, weights, bias, stride, padding, *more = arguments
        transposed = name == "transpose_conv2d"
        between = more.pop(0) if transposed else None  # output_padding
        dilation = more.pop(0)
        depth = [more.pop(0)] if name == "depthwise_conv2d" else []
        offset, zero, multipliers, shifts, low, high = more[:6]
        w, b, m, s = map(_own, (weights, bias, multipliers, shifts))
        assert m is not None
        assert s is not None
        asked = _ints(offset, zero, *depth, *stride[::-1], *padding[::-1], *(between or [])[::-1], *dilation[::-1], low,
                      high)  # fmt: skip
        function = {"conv2d": "arm_convolve_wrapper_s8", "depthwise_conv2d": "arm_depthwise_conv_wrapper_s8",
                    "transpose_conv2d": "arm_transpose_conv_wrapper_s8"}[name]  # fmt: skip
        contexts = [self._context(number) for number in range(1 + transposed)]
        self._call(function, *contexts, asked, ctypes.byref(_PerChannel(m.ctypes.data, s.ctypes.data)), *sides[0],
                   _ints(*weights.shape), _at(w), _ints(1, 1, 1, multipliers.numel()), _at(b), *sides[1])  # fmt: skip


def _flat(tensor: torch.Tensor) -> np.ndarray:
    ordered = tensor.permute(_TO_NHWC) if tensor.dim() == 4 else tensor
    return np.array(ordered.numpy(), order="C").ravel()
