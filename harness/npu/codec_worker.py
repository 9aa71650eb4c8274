"""Decodes weight streams in a process of its own; run by codec.py as a script, imports nothing of the project.

Standard input: for each stream its length (32 bits, little-endian) and bytes. Standard output: for each stream the
number of weights (32 bits, little-endian) and the weights (16 bits each). The decoder calls exit() when it runs past
the end of a corrupt stream, after a message on standard output; what is missing then tells the parent which stream.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys


def main(library_path: str) -> None:
    """Serves standard input until it ends."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the decoder prints
    library = ctypes.CDLL(library_path)
    # int mlw_decode(uint8_t *in, int in_size, int16_t **out, int verbose), as in Vela's public mlw_decode.h
    decode, free = library.mlw_decode, library.mlw_free_outbuf
    decode.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    decode.restype = ctypes.c_int
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None
    while header := sys.stdin.buffer.read(4):
        stream = sys.stdin.buffer.read(struct.unpack("<I", header)[0])
        out = ctypes.c_void_p()
        count = max(0, decode(stream, len(stream), ctypes.byref(out), 0)) if stream else 0
        results.write(struct.pack("<I", count))
        if count:
            results.write((ctypes.c_char * (2 * count)).from_address(out.value or 0))
            free(out)
        results.flush()


if __name__ == "__main__":
    main(sys.argv[1])
