"""Decodes weight streams in a separate process. codec.py runs it as a script; it imports nothing of the project.

Standard input announces a batch: the number of streams, then for each its bytes and the number of weights it should
have (32 bits each, little-endian). The streams lie one after the other at the start of a shared file; their weights (16
bits each) follow them, from the next even byte on. Standard output gets each stream's number of weights as soon as it
is decoded. Weights are stored only if their number is the expected one.

The decoder calls exit() when it runs past the end of a corrupt stream, after a message on standard output. The missing
answer then tells the parent which stream it was. When the parent ends, standard input ends, and so does this process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import struct
import sys

MEMORY_BYTES = 1 << 30  # at most; a corrupt stream may otherwise expand to zeros without end


def main(library_path: str, memory: int) -> None:
    """Serve standard input until it ends."""
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the decoder prints
    library = ctypes.CDLL(library_path)
    # int mlw_decode(uint8_t *in, int in_size, int16_t **out, int verbose), as in Vela's public mlw_decode.h
    decode, free = library.mlw_decode, library.mlw_free_outbuf
    decode.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    decode.restype = ctypes.c_int
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while header := sys.stdin.buffer.read(4):
        (count,) = struct.unpack("<I", header)
        sizes = list(struct.iter_unpack("<II", sys.stdin.buffer.read(8 * count)))
        with mmap.mmap(memory, os.fstat(memory).st_size) as shared:
            anchor = ctypes.c_char.from_buffer(shared)
            source = ctypes.addressof(anchor)
            target = source + (sum(length for length, _ in sizes) + 1) // 2 * 2
            for length, expected in sizes:
                out = ctypes.c_void_p()
                decoded = max(0, decode(source, length, ctypes.byref(out), 0)) if length else 0
                if decoded:
                    if decoded == expected:
                        ctypes.memmove(target, out, 2 * decoded)
                    free(out)
                os.write(answers, struct.pack("<I", decoded))
                source += length
                target += 2 * expected
            del anchor


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
