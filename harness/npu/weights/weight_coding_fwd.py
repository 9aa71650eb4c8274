"""FWD ("fast") coding of weights, which Ethos-U85 reads besides the MLW coding; its width is fixed, so decoding is
fast.

A stream is a header of 256 bits and the payload, both little-endian, padded to whole 256 bits. Header: bit 0 "raw", bit
1 "small table", bits 104-111 a signed adjustment, from bit 112 a table of 16 weights of 9 bits (sign lowest, then
magnitude). Payload: raw weights of 8 bits plus the adjustment, or indices into the table, of 2 bits for a small table,
else of 4. Source: Vela's public encoder (ml_encoder_fwd.cpp), checked with what Vela compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu.weights.codec import CorruptStream

Array = npt.NDArray[Any]

LINE = 32  # bytes of the header; the payload is padded to a multiple
RESERVED = (1 << 104) - 4  # bits 2-103
ADJUSTMENT = 13  # byte of the header
TABLE = 14  # byte of the header
ENTRIES = 16


def decode(stream: bytes, count: int) -> Array:
    """Return `count` weights, int8 or int16, in stream order. Raises CorruptStream."""
    if len(stream) < LINE:
        raise CorruptStream(f"{len(stream)} bytes are too few for an FWD header")
    header = int.from_bytes(stream[:LINE], "little")
    raw, small = bool(header & 1), bool(header & 2)
    adjustment = int.from_bytes(stream[ADJUSTMENT:TABLE], "little", signed=True)
    if header & RESERVED or (raw and small) or (adjustment and not raw):
        raise CorruptStream(f"its FWD header starts with {stream[:TABLE].hex()}, which has no known meaning")
    per_byte = 1 if raw else 4 if small else 2
    used = -(-count // per_byte)
    expected = LINE + -(-used // LINE) * LINE
    if len(stream) != expected:
        raise CorruptStream(f"it has {len(stream)} bytes where {count} weights in FWD coding take {expected}")
    payload = np.frombuffer(stream, np.uint8, used, LINE)
    if raw:
        weights = payload.view(np.int8)
        return weights if not adjustment else weights.astype(np.int16) - np.int16(adjustment)
    return _every_byte(header, per_byte)[payload].reshape(-1)[:count]


def _every_byte(header: int, per_byte: int) -> Array:
    """Return the weights (256, per_byte) for each byte of indices."""
    folded = [header >> (8 * TABLE + 9 * entry) & 0x1FF for entry in range(ENTRIES)]
    table = np.array([-(value >> 1) if value & 1 else value >> 1 for value in folded], np.int16)
    bits = 8 // per_byte
    indices = np.arange(256)[:, None] >> bits * np.arange(per_byte) & (1 << bits) - 1
    return table[indices]
