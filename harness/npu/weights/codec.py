"""Vela's weight decoder, run in a separate process.

The decoder in Vela's wheel (ethosu.mlw_codec) ends the whole process when a corrupt stream makes it read past the end,
and a stream may come from a board's memory. So it runs in a process of its own, as Vela does
(`ethos_hil.lowering.native`), which calls the extension module's C function directly and skips the conversion to a
Python list. A test compares both.

Starting a process takes longer than decoding the weights of most networks, so it is started once. A thread asks it for
one stream after the other, while this process uses the first results: a `Batch` waits only for those it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.native.worker import NativeCrash, NativeTool, ToolRaised

TIMEOUT_SECONDS = 20  # of CPU time, for one stream; the largest take hundredths of a second
MEMORY_BYTES = 1 << 30  # at most; a corrupt stream may otherwise expand to zeros without end

Weights = npt.NDArray[np.int16]
DECODER = NativeTool("mlw_decoder", "Vela's weight decoder", "ethos-u-vela", memory=MEMORY_BYTES)


class CorruptStream(Exception):
    """A stream does not hold the weights it should hold."""


def _new_thread() -> None:
    """Have another thread ask for streams: a forked process does not have its parent's."""
    global _thread
    _thread = ThreadPoolExecutor(1, "weights")


_thread: ThreadPoolExecutor
_new_thread()
os.register_at_fork(after_in_child=_new_thread)


class Batch:
    """Streams to decode, each with the number of weights it should have."""

    def __init__(self, streams: Sequence[tuple[bytes, int]]) -> None:
        self._streams = streams
        self._started_by: ThreadPoolExecutor | None = None
        self._results: dict[int, Future[Weights | CorruptStream]] = {}
        self._taken: set[int] = set()

    def start(self) -> None:
        """Start to decode the streams in the background, after the batch before is done. Raises ToolError."""
        DECODER.start()
        self._started_by = _thread
        rest = (index for index in range(len(self._streams)) if index not in self._taken)
        self._results = {index: _thread.submit(_decode, *self._streams[index]) for index in rest}

    def take(self, index: int) -> Weights | CorruptStream:
        """Return a stream's weights (int16, in stream order), or what is wrong with it; once only. Raises ToolError."""
        assert index not in self._taken, "each result can be taken once"
        if self._started_by is not _thread:
            self.start()
        result = self._results[index].result()
        self._taken.add(index)
        del self._results[index]
        return result


def decode(streams: Sequence[tuple[bytes, int]]) -> list[Weights | CorruptStream]:
    """Decode the streams and return each one's weights, or what is wrong with it. Raises ToolError."""
    batch = Batch(streams)
    return [batch.take(index) for index in range(len(streams))]


def _decode(stream: bytes, expected: int) -> Weights | CorruptStream:
    try:
        answer = DECODER.call({"count": expected}, [stream], seconds=TIMEOUT_SECONDS)
    except NativeCrash:
        return CorruptStream("the decoder did not finish")
    except ToolRaised as error:
        raise ToolError(f"Vela's weight decoder cannot be used: {error}", hint="reinstall ethos-u-vela") from error
    count = answer.header["count"]
    if count != expected:
        return CorruptStream(f"it decodes to {count} weights where the registers describe {expected}")
    return np.frombuffer(answer.blocks[0], "<i2")
