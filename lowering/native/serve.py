"""The worker process of a native tool. `worker` runs it as a script; it imports nothing of the project.

A message is the length of a header (32 bits, little-endian), the header (JSON), and the blocks of bytes whose lengths
are the header's "blocks". Standard input has requests, standard output the answers. Standard error is a file in memory
for what the tool prints. Before its answer a tool may say what it does, in messages that have "progress".

The first request has Python's path and the tool's name. Its answer says whether the tool could be imported. When the
parent ends, so does this process, even in the middle of a call. A pipe of its own is there for that, into which no one
writes: when its other end closes, the kernel sends SIGIO, which ends this process. The argument is its number.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

Message = tuple[dict[str, Any], list[bytes]]
Call = Callable[[dict[str, Any], list[bytes]], Message]


def vela() -> Call:
    """Import Vela. Return the function that calls it as its command line does."""
    from ethosu.vela import vela as module

    def call(header: dict[str, Any], blocks: list[bytes]) -> Message:
        return {"status": module.main(header["arguments"])}, []

    return call


def tosa_reference_model() -> Call:
    """Import tosa_reference_model. Return the function that evaluates a program."""
    import numpy
    import tosa_reference_model as module

    def call(header: dict[str, Any], blocks: list[bytes]) -> Message:
        tosa, *data = blocks
        inputs = [
            numpy.frombuffer(block, kind).reshape(shape).copy()
            for block, (kind, shape) in zip(data, header["arrays"], strict=True)
        ]
        outputs, status = module.run(tosa, inputs)
        arrays = [numpy.asarray(output, order="C") for output in outputs]
        return {
            "valid": status == module.GraphStatus.TOSA_VALID,
            "status": str(getattr(status, "name", status)),
            "arrays": [[array.dtype.str, list(array.shape)] for array in arrays],
        }, [array.tobytes() for array in arrays]

    return call


def mlw_decoder() -> Call:
    """Load Vela's decoder of weights. Return the function that decodes a stream.

    It returns the weights, 16 bits each, where they are as many as expected. The decoder calls exit() when it runs past
    the end of a corrupt stream, after a message.
    """
    spec = importlib.util.find_spec("ethosu.mlw_codec")  # not imported: that takes longer than most networks' weights
    if spec is None:
        raise ModuleNotFoundError("ethosu.mlw_codec is not installed")
    library = ctypes.CDLL(spec.origin)
    # int mlw_decode(uint8_t *in, int in_size, int16_t **out, int verbose), as in Vela's public mlw_decode.h
    decode, free = library.mlw_decode, library.mlw_free_outbuf
    decode.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    decode.restype = ctypes.c_int
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None

    def call(header: dict[str, Any], blocks: list[bytes]) -> Message:
        (stream,) = blocks
        out = ctypes.c_void_p()
        count = max(0, decode(stream, len(stream), ctypes.byref(out), 0)) if stream else 0
        weights = ctypes.string_at(out, 2 * count) if count and count == header["count"] else b""
        if count:
            free(out)
        return {"count": count}, [weights]

    return call


def answering(module: str) -> Call:
    """Import a module. Return its function `answer`, which is a call."""
    call: Call = importlib.import_module(module).answer
    return call


class Lent(importlib.abc.MetaPathFinder):
    """Finds packages in folders that are not in Python's path."""

    def __init__(self, folders: dict[str, str]) -> None:
        """Take the folder of each package by its name."""
        self._folders = folders

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Return where a package is, or None for what is not lent."""
        if path is not None or fullname not in self._folders:
            return None
        return importlib.machinery.PathFinder.find_spec(fullname, [self._folders[fullname]])


TOOLS = {"vela": vela, "tosa_reference_model": tosa_reference_model, "mlw_decoder": mlw_decoder}


def receive(file: BinaryIO) -> Message | None:
    """Return the next message, or None where the file ends before it does."""

    def read(length: int) -> bytes:
        data = bytearray()
        while len(data) < length:  # a file without a buffer gives what it has
            more = file.read(length - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)

    try:
        header: dict[str, Any] = json.loads(read(*struct.unpack("<I", read(4))))
        return header, [read(length) for length in header.pop("blocks")]
    except EOFError:
        return None


def send(file: BinaryIO, header: dict[str, Any], blocks: Sequence[bytes]) -> None:
    """Send a message."""
    text = json.dumps({**header, "blocks": [len(block) for block in blocks]}).encode()
    for part in (struct.pack("<I", len(text)) + text, *blocks):
        view = memoryview(part)
        while view:
            view = view[file.write(view) :]
    file.flush()


def answer_of(call: Callable[[], Message]) -> Message:
    """Return what a call answers, or the exception that it raises."""
    try:
        return call()
    except (Exception, SystemExit) as error:
        return {"raised": type(error).__name__, "text": str(error)}, []


def watch(lifeline: int) -> None:
    """Have the kernel end this process when the other end of a pipe closes.

    Not standard input: there the kernel sends the signal of a request after it has woken the reader, which may have
    started to watch by then.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(lifeline, 0)
    if poll.poll(0):  # the other end was closed before the kernel was told
        os._exit(1)


def restrict(what: int, limit: int) -> None:
    """Set a limit that a later call can lift, no higher than the one that was set for this process from outside."""
    _, highest = resource.getrlimit(what)
    resource.setrlimit(what, (limit if highest == resource.RLIM_INFINITY else min(limit, highest), highest))


def main(lifeline: int) -> None:
    """Serve standard input until it ends."""
    for number in (signal.SIGIO, signal.SIGXCPU):  # they end this process; its starter may ignore or block them
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGIO, signal.SIGXCPU))
    watch(lifeline)
    os.chdir("/")
    requests, answers = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # tools print
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # when memory runs out, this process is to end and not its parent
        os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"1000")
    flush = ctypes.CDLL(None).fflush
    call: Call | None = None
    while (request := receive(requests)) is not None:
        header, blocks = request
        # Seconds of CPU, not of the clock: a busy or suspended machine is not a reason to end a call.
        limit = int(time.process_time()) + 1 + header["seconds"]
        restrict(resource.RLIMIT_CPU, limit)
        restrict(resource.RLIMIT_AS, header["memory"])
        header["tell"] = lambda text: send(answers, {"progress": text}, [])
        if call is None:
            sys.path[:] = header["path"] or sys.path
            sys.meta_path.insert(0, Lent(header["first"]))
            sys.meta_path.append(Lent(header["last"]))
            load = TOOLS.get(header["tool"]) or partial(answering, header["tool"])

            def first(load: Callable[[], Call] = load) -> Message:
                nonlocal call
                call = load()
                return {}, []

            answer = answer_of(first)
        else:
            answer = answer_of(lambda call=call, header=header, blocks=blocks: call(header, blocks))  # type: ignore[misc]
        sys.stdout.flush()
        flush(None)
        send(answers, *answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
