"""Vela's weight decoder, run in a separate process.

The decoder in Vela's wheel (ethosu.mlw_codec) ends the whole process when a corrupt stream makes it read past the end,
and a stream may come from a board's memory. So it runs in a process of its own, which calls the extension module's C
function directly and skips the conversion to a Python list. A test compares both.

Starting a process takes longer than decoding the weights of most networks, so it is started once. It ends with this
process, or when a stream stops it. Streams and weights are exchanged through a file in memory: the worker decodes on
while this process uses the first results, and a `Batch` waits only for the results it is asked for.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import select
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import RLock

import numpy as np
import numpy.typing as npt

from ethos_hil.base.errors import ToolError

WORKER = Path(__file__).with_name("codec_worker.py")
TIMEOUT_SECONDS = 20.0  # for one stream; the largest take hundredths of a second

Weights = npt.NDArray[np.int16]


class CorruptStream(Exception):
    """A stream does not hold the weights it should hold."""


class _DecoderProcess:
    """The process that decodes, and the file through which it exchanges data with this one.

    Attributes:
        batch: its current batch, or the last one it finished.
    """

    def __init__(self) -> None:
        spec = importlib.util.find_spec("ethosu.mlw_codec")
        if spec is None or spec.origin is None:
            raise ToolError("Vela's weight decoder (ethosu.mlw_codec) is not installed", hint="install ethos-u-vela")
        self.batch: Batch | None = None
        self.memory = os.memfd_create("weights")
        # -I -S: isolated and quick to start. A process group of its own: Ctrl-C is for this process alone.
        command = [sys.executable, "-I", "-S", str(WORKER), spec.origin, str(self.memory)]
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(self.memory,), process_group=0
            )
        except OSError as error:
            os.close(self.memory)
            raise ToolError(f"a process for Vela's weight decoder cannot be started: {error}") from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.requests, self.answers, self.errors = self.process.stdin, self.process.stdout, self.process.stderr

    def send(self, streams: Sequence[tuple[bytes, int]]) -> None:
        """Send streams to decode, each with its number of weights. Raises BrokenPipeError if the process has ended."""
        at = 0
        for stream, _ in streams:
            at += os.pwrite(self.memory, stream, at)
        os.ftruncate(self.memory, _even(at) + 2 * sum(count for _, count in streams) + 2)
        sizes = (struct.pack("<II", len(stream), count) for stream, count in streams)
        _write(self.requests.fileno(), struct.pack("<I", len(streams)) + b"".join(sizes))

    def answer(self) -> int | None:
        """Return how many weights the next stream has, or None if it ended the decoder or took longer than
        TIMEOUT_SECONDS.
        """
        waiting = select.poll()
        waiting.register(self.answers, select.POLLIN)
        if not waiting.poll(TIMEOUT_SECONDS * 1000):
            return None
        answer = self.answers.read(4)
        return int.from_bytes(answer, "little") if answer else None

    def weights(self, offset: int, count: int) -> Weights:
        """Return `count` weights from the shared file."""
        weights = np.empty(count, "<i2")
        os.preadv(self.memory, [weights.data], offset)
        return weights

    def release(self) -> None:
        """Free the memory of the shared file. All results must have been read."""
        os.ftruncate(self.memory, 0)

    def end(self) -> str:
        """End and reap the process. Return the last line it wrote to standard error."""
        self.process.kill()
        self.process.wait()
        errors = self.errors.read().decode(errors="replace").strip()
        self.abandon()
        return errors.splitlines()[-1] if errors else ""

    def abandon(self) -> None:
        """Close the files of a process that has ended, or that belongs to the parent of this forked process."""
        self.process.returncode = self.process.returncode or 0  # so that deleting it gives no warning
        for file in (self.requests, self.answers, self.errors):
            file.close()
        os.close(self.memory)


_lock = RLock()
_worker: _DecoderProcess | None = None


class Batch:
    """Streams to decode, each with the number of weights it should have."""

    def __init__(self, streams: Sequence[tuple[bytes, int]]) -> None:
        self._streams = streams
        self._results: list[Weights | CorruptStream | None] = []  # None: already taken
        self._offset = 0  # where the next weights are in the shared file

    @property
    def done(self) -> bool:
        """Whether all results have arrived."""
        return len(self._results) == len(self._streams)

    def start(self) -> None:
        """Start to decode the streams in the background, after the batch before is done. Raises ToolError."""
        with _lock:
            if _worker is not None and _worker.batch is not None and _worker.batch is not self:
                _worker.batch._advance(len(_worker.batch._streams))
            worker = _running()
            worker.batch = self
            rest = self._streams[len(self._results) :]
            self._offset = _even(sum(len(stream) for stream, _ in rest))
            try:
                worker.send(rest)
            except BrokenPipeError:
                pass  # the worker has ended; `_receive` finds its answer missing
            except BaseException:
                stop()  # the worker may have any part of the request
                raise

    def take(self, index: int) -> Weights | CorruptStream:
        """Return a stream's weights (int16, in stream order), or what is wrong with it; once only. Raises ToolError."""
        with _lock:
            self._advance(index + 1)
            result, self._results[index] = self._results[index], None
            assert result is not None, "each result can be taken once"
            return result

    def _advance(self, count: int) -> None:
        """Wait until there are `count` results."""
        try:
            while len(self._results) < count:
                if _worker is None or _worker.batch is not self:
                    self.start()
                assert _worker is not None
                self._results.append(self._receive(_worker))
                if self.done and _worker is not None:
                    _worker.release()
        except BaseException:
            stop()  # any of its answers may still be on the way
            raise

    def _receive(self, worker: _DecoderProcess) -> Weights | CorruptStream:
        """Return the next result."""
        _, expected = self._streams[len(self._results)]
        count = worker.answer()
        if count is None:
            errors = stop()
            if errors:
                raise ToolError(f"Vela's weight decoder cannot be used: {errors}", hint="reinstall ethos-u-vela")
            return CorruptStream("the decoder did not finish")
        offset = self._offset
        self._offset += 2 * expected
        if count != expected:
            return CorruptStream(f"it decodes to {count} weights where the registers describe {expected}")
        return worker.weights(offset, count)


def decode(streams: Sequence[tuple[bytes, int]]) -> list[Weights | CorruptStream]:
    """Decode the streams and return each one's weights, or what is wrong with it. Raises ToolError."""
    batch = Batch(streams)
    return [batch.take(index) for index in range(len(streams))]


def start() -> None:
    """Start the worker if there is none, without waiting for it. Raises ToolError."""
    with _lock:
        _running()


def stop() -> str:
    """End the worker if there is one. Return the last line it wrote to standard error."""
    global _worker
    with _lock:
        worker, _worker = _worker, None
        return worker.end() if worker is not None else ""


def _running() -> _DecoderProcess:
    """Return the worker; start it if there is none, or if it was ended while it was idle."""
    global _worker
    if _worker is not None and (_worker.batch is None or _worker.batch.done) and _worker.process.poll() is not None:
        stop()
    if _worker is None:
        _worker = _DecoderProcess()
    return _worker


def _after_fork() -> None:
    """Close the parent's files in a forked process: they would keep the parent's worker alive. It starts its own."""
    global _worker, _lock
    _lock = RLock()
    worker, _worker = _worker, None
    if worker is not None:
        worker.abandon()


def _even(size: int) -> int:
    return (size + 1) // 2 * 2


def _write(file: int, data: bytes) -> None:
    """Write all of `data`."""
    while data:
        data = data[os.write(file, data) :]


atexit.register(stop)
os.register_at_fork(after_in_child=_after_fork)
