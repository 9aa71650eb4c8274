"""The weight decoder of Vela's wheel, at arm's length.

The decoder (ethosu.mlw_codec) ends the whole process when a corrupt stream makes it read past the end, and a stream
comes from the memory of a board, so it runs in a process of its own. That process is given many streams at a time and
calls the C function of the extension module directly, without the detour through a Python list. A test compares both.
"""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lowering.errors import ToolError

WORKER = Path(__file__).with_name("codec_worker.py")
TIMEOUT_SECONDS = 60.0
PARALLEL_BYTES = 1 << 18  # compressed bytes from which on two processes share the work

Weights = npt.NDArray[np.int16]


class CorruptStream(Exception):
    """The decoder ran past the end of a stream, or did not come back from it."""


def decode(streams: Sequence[bytes]) -> list[Weights | CorruptStream]:
    """The weights (int16, in stream order) of each stream, or what is wrong with it.

    Raises ToolError if Vela's decoder cannot be used.
    """
    total = sum(map(len, streams))
    if total < PARALLEL_BYTES or len(streams) < 2:
        return _decode_all(streams)
    cut, taken = 1, len(streams[0])
    while cut < len(streams) - 1 and taken < total // 2:
        taken += len(streams[cut])
        cut += 1
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(_decode_all, (streams[:cut], streams[cut:]))
    return [*first, *second]


def _decode_all(streams: Sequence[bytes]) -> list[Weights | CorruptStream]:
    """Decodes in one process, and in another from behind a stream on, each time that one stops it."""
    results: list[Weights | CorruptStream] = []
    while len(results) < len(streams):
        rest = streams[len(results) :]
        decoded = _run_worker(rest)
        results += decoded
        if len(decoded) < len(rest):
            results.append(CorruptStream("the decoder runs past its end"))
    return results


def _run_worker(streams: Sequence[bytes]) -> list[Weights]:
    """What one process gets decoded before it ends or is ended."""
    found = importlib.util.find_spec("ethosu.mlw_codec")
    if found is None or found.origin is None:
        raise ToolError("Vela's weight decoder (ethosu.mlw_codec) is not installed", hint="install ethos-u-vela")
    command = [sys.executable, "-I", "-S", str(WORKER), found.origin]
    request = b"".join(struct.pack("<I", len(stream)) + stream for stream in streams)
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        answer = done.stdout
    except subprocess.TimeoutExpired as error:
        return _parse(error.stdout or b"")
    if done.stderr:
        raise ToolError(
            f"Vela's weight decoder cannot be used: {done.stderr.decode(errors='replace').strip().splitlines()[-1]}",
            hint="reinstall ethos-u-vela in the pinned version",
        )
    return _parse(answer)


def _parse(answer: bytes) -> list[Weights]:
    results, at = [], 0
    while at + 4 <= len(answer):
        (count,) = struct.unpack_from("<I", answer, at)
        end = at + 4 + 2 * count
        if end > len(answer):
            break
        results.append(np.frombuffer(answer, "<i2", count, at + 4))
        at = end
    return results
