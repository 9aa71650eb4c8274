"""Semihosting calls that QEMU hands over: GDB's File-I/O extension of the remote protocol.

With `-semihosting-config target=gdb` QEMU touches no file. It stops a guest that opens, reads, writes, renames or
removes one, or asks for a command. It sends a packet `F` with the call and addresses in the guest's memory, and goes on
with the answer. Names, numbers and layouts are those of the GDB manual, appendix "File-I/O Remote Protocol Extension".

Facts about QEMU 7.2 (semihosting/syscalls.c, arm-compat-semi.c): `:tt` gives the descriptors 0, 1 and 2 without a
packet; WRITE0 and WRITEC write to 2; READC reads from 0; FLEN is `fstat` with a buffer of 64 bytes below the stack
pointer, and fails unless the answer is the size itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ethos_hil.harness.virtual.guest_files import GuestFiles, OpenFlag

STDIN, STDOUT, STDERR = 0, 1, 2
_PIECE = 1 << 20
"""Bytes that are held at a time."""
_STAT_SIZE = 64
_STAT_SIZE_AT = 28
"""Offset of st_size, 8 bytes, most significant first."""
_MAX_COMMAND = 1000
_ERRNOS = frozenset(
    {
        errno.EPERM, errno.ENOENT, errno.EINTR, errno.EBADF, errno.EACCES, errno.EFAULT, errno.EBUSY, errno.EEXIST,
        errno.ENODEV, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENFILE, errno.EMFILE, errno.EFBIG, errno.ENOSPC,
        errno.ESPIPE, errno.EROFS,
    }
)  # fmt: skip
"""Errors that have the same number in the protocol and in Linux."""
_ENAMETOOLONG, _EUNKNOWN = 91, 9999


class CallMemory(Protocol):
    """The guest's memory, at the processor's addresses."""

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises OSError with EFAULT where there is no memory."""

    def write(self, address: int, data: bytes) -> None:
        """Overwrite bytes before the guest goes on. Nothing happens where there is no memory."""


@dataclass(frozen=True)
class FileCall:
    """A call of the guest.

    Attributes:
        name: of the call, e.g. "open".
        arguments: its numbers; a string is its address and its length, with the zero at its end.
    """

    name: str
    arguments: tuple[int, ...]

    @classmethod
    def parse(cls, payload: bytes) -> FileCall:
        """Return the call in a packet, without its `F`. Raises ValueError."""
        name, *texts = payload.decode("ascii").split(",")
        return cls(name, tuple(int(part, 16) for text in texts for part in text.split("/")))


def answer(result: int) -> bytes:
    """Return the packet that answers a call."""
    return b"F%x" % result


def failure(number: int) -> bytes:
    """Return the packet that answers a call with an error of the host."""
    known = number if number in _ERRNOS else _ENAMETOOLONG if number == errno.ENAMETOOLONG else _EUNKNOWN
    return b"F-1,%x" % known


INTERRUPTED = b"F-1,%x,C" % errno.EINTR
"""The answer that stops the guest."""


class FileServer:
    """Carries out the calls of one run."""

    def __init__(self, files: GuestFiles, memory: CallMemory, console: Callable[[bytes], None]) -> None:
        """Make a server.

        Args:
            files: what the guest reaches.
            memory: the guest's memory.
            console: gets what the guest writes to its standard output and error.
        """
        self._files = files
        self._memory = memory
        self._console = console
        self._calls: dict[str, Callable[..., int]] = {
            "open": self._open,
            "close": self._close,
            "read": self._read,
            "write": self._write,
            "lseek": self._seek,
            "isatty": self._is_terminal,
            "fstat": self._size,
            "unlink": self._remove,
            "rename": self._rename,
            "system": self._system,
        }

    def serve(self, call: FileCall) -> bytes:
        """Carry out a call, and return the packet with the answer."""
        try:
            return answer(self._calls[call.name](*call.arguments))
        except TimeoutError:  # an OSError too: the run's time is up, in the middle of an answer from QEMU
            raise
        except OSError as error:
            return failure(error.errno or errno.EIO)
        except (KeyError, TypeError, ValueError, OverflowError):  # a call or numbers that this QEMU does not send
            return failure(errno.ENOSYS)

    def _open(self, address: int, size: int, flags: int, _mode: int) -> int:
        return self._files.open(self._string(address, size), OpenFlag(flags))

    def _close(self, number: int) -> int:
        if number > STDERR:
            self._files.close(number)
        return 0

    def _read(self, number: int, address: int, size: int) -> int:
        if number == STDIN:
            return self._end_of_input(size)
        done = 0
        while done < size:
            data = self._files.read(number, min(_PIECE, size - done))
            if not data:
                break
            self._memory.write(address + done, data)
            done += len(data)
        return done

    def _end_of_input(self, size: int) -> int:
        # READC cannot say "no more": it takes the byte in its buffer. One byte is READC's, or as good as one.
        if size == 1:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return 0

    def _write(self, number: int, address: int, size: int) -> int:
        done = 0
        while done < size:
            data = self._memory.read(address + done, min(_PIECE, size - done))
            if number in (STDOUT, STDERR):
                self._console(data)
                return len(data)  # not all of a large text at once: somebody must read it first
            written = self._files.write(number, data)
            done += written
            if written < len(data):
                break
        return done

    def _seek(self, number: int, offset: int, whence: int) -> int:
        return self._files.seek(number, offset, whence)

    def _is_terminal(self, number: int) -> int:
        return 0

    def _size(self, number: int, address: int) -> int:
        size = 0 if number <= STDERR else self._files.size(number)
        block = bytearray(_STAT_SIZE)
        block[_STAT_SIZE_AT : _STAT_SIZE_AT + 8] = size.to_bytes(8, "big")
        self._memory.write(address, bytes(block))
        return size

    def _remove(self, address: int, size: int) -> int:
        self._files.remove(self._string(address, size))
        return 0

    def _rename(self, old: int, old_size: int, new: int, new_size: int) -> int:
        self._files.rename(self._string(old, old_size), self._string(new, new_size))
        return 0

    def _system(self, address: int, size: int) -> int:
        raise self._files.refuse_command(self._string(address, min(size, _MAX_COMMAND)))

    def _string(self, address: int, size: int) -> bytes:
        """Return a string without the zero at its end. Raises OSError when it is too long to be a name."""
        if size > 2 * 4096:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return self._memory.read(address, size).rstrip(b"\0")
