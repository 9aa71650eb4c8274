"""The weight decoder of Vela's wheel, called without the detour through a Python list.

`ethosu.mlw_codec.decode` returns a list of ints, which costs more than the decoding; the extension module exports the
C function below it, whose signature is that of Vela's public mlw_decode.h. Where the symbols are missing the Python
function is used. A test compares the two.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt


@functools.cache
def _library() -> Any:
    """The codec's C functions, or None if this build does not export them."""
    from ethosu import mlw_codec

    try:
        library = ctypes.CDLL(mlw_codec.__file__)
        decode, free = library.mlw_decode, library.mlw_free_outbuf
    except (OSError, AttributeError):
        return None
    decode.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(ctypes.c_int16)), ctypes.c_int)
    decode.restype = ctypes.c_int
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None
    return library


def decode(compressed: bytes, expected: int) -> npt.NDArray[np.int16]:
    """The weights in a compressed stream, in stream order; int16."""
    library = _library()
    if library is None:
        from ethosu import mlw_codec

        return np.array(mlw_codec.decode(bytearray(compressed)), dtype=np.int16)
    buffer = ctypes.POINTER(ctypes.c_int16)()
    count = library.mlw_decode(compressed, len(compressed), ctypes.byref(buffer), 0)
    if not buffer:
        return np.empty(0, np.int16)
    try:
        return np.ctypeslib.as_array(buffer, (max(count, 0),)).copy()
    finally:
        library.mlw_free_outbuf(buffer)
