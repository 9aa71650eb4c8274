"""The files that a guest reaches by semihosting: those of one folder, in bounded number and size.

An ELF is a stranger. QEMU hands its calls over, and they are carried out here. A name that leads out of the folder is
refused: absolute, with `..`, or by a link. So is everything but a regular file: a pipe would wait for ever, and a
device is not data. What is refused is told to the guest as an error, and remembered.

The calls come by GDB's File-I/O extension of the remote protocol. With `-semihosting-config target=gdb` QEMU touches no
file. It stops a guest that opens, reads or writes one, sends a packet `F` with the call and addresses in the guest's
memory, and takes the answer. So it does where a guest renames or removes a file or asks for a command; that is
refused here, and no runner that we know asks for it. Names, numbers and layouts are those of the GDB manual, appendix
"File-I/O Remote Protocol Extension".

An answer says with a `C` that the guest stays stopped, and a command to go on follows. Without it QEMU 7.2 goes on by
itself, and QEMU 8 to 10 do, too, but report nothing until the next command: no stop at a register, and no exit (their
gdbstub allows a stop reply to the commands that have one by the protocol, and `F` is not among them).

Facts about QEMU 7.2 (semihosting/syscalls.c, arm-compat-semi.c): `:tt` gives the descriptors 0, 1 and 2 without a
packet; WRITE0 and WRITEC write to 2; READC reads from 0; FLEN is `fstat` with a buffer of 64 bytes below the stack
pointer, and fails unless the answer is the size itself.

Semihosting: who answers a guest's calls, and how.

QEMU answers what touches nothing of the host: the command line, times, the exit. For files it hands the calls over.

QEMU answers SYS_HEAPINFO with addresses of its own choice, which a C library's start-up uses for heap and stack. Arm's
models answer with four parameters, by convention 0 for "choose yourself". So the host stops the guest at those calls
and answers them. A call is the instruction BKPT 0xAB with the operation in r0 and its argument in r1 (Arm's
"Semihosting for AArch32 and AArch64").
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.segments import Segment, code_of

MAX_OPEN = 64
"""Files open at the same time."""
MAX_CREATED = 1000
"""Files that the guest makes in one run."""
MAX_BYTES = 1 << 30
"""Bytes that the guest writes in one run, and the largest size of a file that it writes."""
MAX_NAME = 4096
"""Bytes of a name, as Linux has it (PATH_MAX)."""
MAX_REMEMBERED = 20
"""Refusals that are remembered one by one."""


class OpenFlag(enum.IntFlag):
    """How a file is opened: "Open Flags" of GDB's File-I/O protocol."""

    READ_ONLY = 0x0
    WRITE_ONLY = 0x1
    READ_WRITE = 0x2
    APPEND = 0x8
    CREATE = 0x200
    TRUNCATE = 0x400
    EXCLUSIVE = 0x800


_FLAGS = (
    (OpenFlag.WRITE_ONLY, os.O_WRONLY),
    (OpenFlag.READ_WRITE, os.O_RDWR),
    (OpenFlag.CREATE, os.O_CREAT),
    (OpenFlag.TRUNCATE, os.O_TRUNC),
    (OpenFlag.EXCLUSIVE, os.O_EXCL),
)
_WRITES = OpenFlag.WRITE_ONLY | OpenFlag.READ_WRITE | OpenFlag.CREATE | OpenFlag.TRUNCATE


class Refused(OSError):
    """A call that the guest may not make. It is an error of the host as well, with its errno."""


@dataclass
class _OpenFile:
    descriptor: int
    appends: bool


@dataclass
class GuestFiles:
    """The files of one run.

    Attributes:
        folder: the folder that relative names start from, and that no name leaves.
        refusals: what was refused, as text for a user; at most MAX_REMEMBERED, and one that counts the others.
    """

    folder: Path
    refusals: list[str] = field(default_factory=list)
    _open: dict[int, _OpenFile] = field(default_factory=dict)
    _created: int = 0
    _written: int = 0
    _unnamed: int = 0

    def __post_init__(self) -> None:
        self._root = self.folder.resolve()

    def open(self, name: bytes, flags: OpenFlag) -> int:
        """Open a file, and return its number.

        Raises:
            OSError: it cannot be opened.
            Refused: it is outside of the folder, is not a regular file, or there are too many.
        """
        writes = bool(flags & _WRITES)
        if len(self._open) >= MAX_OPEN:
            raise self._refuse("open", name, f"{MAX_OPEN} files are open", errno.EMFILE)
        with self._place(name) as (folder, last):
            exists = self._check_kind(folder, last, name)
            if not exists and flags & OpenFlag.CREATE:
                if self._created >= MAX_CREATED:
                    raise self._refuse("open", name, f"{MAX_CREATED} files were made", errno.ENOSPC)
                self._created += 1
            how = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            for flag, host in _FLAGS:
                how |= host if flags & flag else 0
            descriptor = os.open(last, how, 0o644, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._refuse("open", name, "it is not a regular file", errno.EACCES)
        number = next(number for number in range(3, 4 + len(self._open)) if number not in self._open)
        self._open[number] = _OpenFile(descriptor, bool(flags & OpenFlag.APPEND) and writes)
        return number

    def close(self, number: int) -> None:
        """Close a file. Raises OSError when it is not open."""
        os.close(self._file(number).descriptor)
        del self._open[number]

    def read(self, number: int, size: int) -> bytes:
        """Return at most `size` bytes from the file's position; none at its end. Raises OSError."""
        return os.read(self._file(number).descriptor, size)

    def write(self, number: int, data: bytes) -> int:
        """Write at the file's position, or at the end of one that was opened to append. Return how many bytes.

        Raises:
            OSError: the file cannot be written.
            Refused: the guest has written enough, or the file would be too large.
        """
        file = self._file(number)
        place = os.lseek(file.descriptor, 0, os.SEEK_END if file.appends else os.SEEK_CUR)
        if self._written + len(data) > MAX_BYTES or place + len(data) > MAX_BYTES:
            raise self._refuse("write", None, f"a run writes {MAX_BYTES >> 20} MiB at most", errno.ENOSPC)
        done = os.write(file.descriptor, data)
        self._written += done
        return done

    def seek(self, number: int, offset: int, whence: int) -> int:
        """Move the file's position. Return it. Raises OSError."""
        return os.lseek(self._file(number).descriptor, offset, whence)

    def size(self, number: int) -> int:
        """Return the bytes in a file. Raises OSError when it is not open."""
        return os.fstat(self._file(number).descriptor).st_size

    def stop(self) -> None:
        """Close all files. May be called again."""
        for file in self._open.values():
            os.close(file.descriptor)
        self._open = {}

    def _file(self, number: int) -> _OpenFile:
        if number not in self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open[number]

    @contextlib.contextmanager
    def _place(self, name: bytes) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of the folder that a name is in, and the name there.

        A link to another file of the folder is followed first. No part of the way is a link when it is opened, even if
        another process makes it one meanwhile.
        """
        if len(name) > MAX_NAME:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        if not name or b"\0" in name:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        path = self._root / os.fsdecode(name)
        try:
            whole = path.resolve()
        except RuntimeError as error:  # how Python 3.11 and 3.12 say it
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        if self._root == Path("/"):
            raise self._refuse("open", name, "its folder is /, which holds every file of this computer", errno.EACCES)
        if not whole.is_relative_to(self._root):
            raise self._refuse("open", name, f"it is outside of {self._root}", errno.EACCES)
        try:
            path.stat()
        except OSError as error:
            if error.errno == errno.ELOOP:  # Python 3.13 says nothing, and each has another limit
                raise
        parts = whole.relative_to(self._root).parts
        if not parts:
            raise self._refuse("open", name, "it is a folder", errno.EISDIR)
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, parts[-1]
        finally:
            os.close(folder)

    def _check_kind(self, folder: int, last: str, name: bytes) -> bool:
        """Return whether a file exists. Raises Refused when it is something else."""
        try:
            mode = os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise self._refuse("open", name, "it is not a regular file", errno.EACCES)
        return True

    def refuse_call(self, name: str) -> Refused:
        """Return the error for a guest that asks for something else than a file's bytes."""
        return self._refuse("call", name.encode(), "it opens, reads and writes files here, and no more", errno.EPERM)

    def _refuse(self, what: str, name: bytes | None, why: str, number: int) -> Refused:
        """Remember a refusal, and return the error."""
        about = "" if name is None else f" {os.fsdecode(name[:200])!a}"
        text = f"the program may not {what}{about}: {why}"
        if text not in self.refusals:
            if len(self.refusals) < MAX_REMEMBERED:
                self.refusals.append(text)
            else:
                self._unnamed += 1
                self.refusals[MAX_REMEMBERED:] = [f"and {self._unnamed} more refusals"]
        return Refused(number, why)


STDIN, STDOUT, STDERR = 0, 1, 2
_PIECE = 1 << 20
"""Bytes that are held at a time."""
_STAT_SIZE = 64
_STAT_SIZE_AT = 28
"""Offset of st_size, 8 bytes, most significant first."""
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
    """Return the packet that answers a call, and keeps the guest stopped."""
    return b"F%x,0,C" % result


def failure(number: int) -> bytes:
    """Return the packet that answers a call with an error of the host, and keeps the guest stopped."""
    known = number if number in _ERRNOS else _ENAMETOOLONG if number == errno.ENAMETOOLONG else _EUNKNOWN
    return b"F-1,%x,C" % known


class FileServer:
    """Carries out the calls of one run."""

    def __init__(
        self,
        files: GuestFiles,
        memory: CallMemory,
        console: Callable[[bytes], None],
        keyboard: Callable[[int], bytes] = lambda size: b"",
        is_terminal: Callable[[int], bool] = lambda number: False,
    ) -> None:
        """Make a server.

        Args:
            files: what the guest reaches.
            memory: the guest's memory.
            console: gets what the guest writes to its standard output and error.
            keyboard: waits for the guest's standard input, and returns at most so many bytes of it; none at its end.
            is_terminal: whether the guest's standard input (0) or output (1, 2) is one.
        """
        self._files = files
        self._memory = memory
        self._console = console
        self._keyboard = keyboard
        self._calls: dict[str, Callable[..., int]] = {
            "open": self._open,
            "close": self._close,
            "read": self._read,
            "write": self._write,
            "lseek": self._files.seek,
            "isatty": lambda number: int(number <= STDERR and is_terminal(number)),
            "fstat": self._size,
        }

    def serve(self, call: FileCall) -> bytes:
        """Carry out a call, and return the packet with the answer."""
        try:
            if call.name not in self._calls:
                raise self._files.refuse_call(call.name)
            return answer(self._calls[call.name](*call.arguments))
        except TimeoutError:  # an OSError too: the run's time is up, in the middle of an answer from QEMU
            raise
        except OSError as error:
            return failure(error.errno or errno.EIO)
        except (TypeError, ValueError, OverflowError):  # numbers that this QEMU does not send
            return failure(errno.ENOSYS)

    def _open(self, address: int, size: int, flags: int, _mode: int) -> int:
        return self._files.open(self._string(address, size), OpenFlag(flags))

    def _close(self, number: int) -> int:
        if number > STDERR:
            self._files.close(number)
        return 0

    def _read(self, number: int, address: int, size: int) -> int:
        if number == STDIN:
            return self._read_input(address, size)
        done = 0
        while done < size:
            data = self._files.read(number, min(_PIECE, size - done))
            if not data:
                break
            self._memory.write(address + done, data)
            done += len(data)
        return done

    def _read_input(self, address: int, size: int) -> int:
        data = self._keyboard(min(_PIECE, size)) if size else b""
        # READC cannot say "no more": it takes the byte in its buffer. One byte is READC's, or as good as one.
        if size == 1 and not data:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        self._memory.write(address, data)
        return len(data)  # a line, or what there is: no reader of a terminal waits for all

    def _write(self, number: int, address: int, size: int) -> int:
        done = 0
        while done < size:
            data = self._memory.read(address + done, min(_PIECE, size - done))
            if number in (STDOUT, STDERR):
                self._console(data)
                return len(data)  # one piece of a large text: it is read before the next one
            written = self._files.write(number, data)
            done += written
            if written < len(data):
                break
        return done

    def _size(self, number: int, address: int) -> int:
        size = 0 if number <= STDERR else self._files.size(number)
        block = bytearray(_STAT_SIZE)
        block[_STAT_SIZE_AT : _STAT_SIZE_AT + 8] = size.to_bytes(8, "big")
        self._memory.write(address, bytes(block))
        return size

    def _string(self, address: int, size: int) -> bytes:
        """Return a string without the zero at its end. Raises OSError when it is too long to be a name."""
        if size > 2 * 4096:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        return self._memory.read(address, size).rstrip(b"\0")


SYS_HEAPINFO = 0x16
EXITS = (0x18, 0x20)
"""SYS_EXIT and SYS_EXIT_EXTENDED."""
_CALL = b"\xab\xbe"
"""BKPT 0xAB."""
CALL_SIZE = 2
"""Bytes of the instruction."""
_LOADS_HEAPINFO = (b"\x16\x20", b"\x4f\xf0\x16\x00")
"""MOVS r0, #0x16, and its long encoding MOV.W."""
_LOOK_BACK = 16
"""Bytes before a call that are searched for the load of r0; newlib's start-up has them 4 bytes apart."""


def says_yes(variable: str) -> bool:
    """Return whether a variable of the environment is 1.

    Raises:
        UsageError: it is neither 0 nor 1.
    """
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise UsageError(f"{variable} is {value!r}", hint="set it to 1, or to 0, or unset it")
    return value == "1"


@dataclass(frozen=True)
class HeapInfo:
    """The answer to SYS_HEAPINFO: four addresses; with 0 the program chooses for itself."""

    NAMES: ClassVar[tuple[str, ...]] = ("heap_base", "heap_limit", "stack_base", "stack_limit")

    heap_base: int = 0
    heap_limit: int = 0
    stack_base: int = 0
    stack_limit: int = 0

    def block(self) -> bytes:
        """Return the answer as it is written to the guest's memory."""
        words = (self.heap_base, self.heap_limit, self.stack_base, self.stack_limit)
        return b"".join(word.to_bytes(4, "little") for word in words)


@dataclass(frozen=True)
class AnsweredCalls:
    """The calls of a guest that the host answers in place of QEMU.

    Attributes:
        heapinfo: addresses of calls that may be SYS_HEAPINFO.
        every: addresses of all calls.
        heap: the answer to it.
        files: the files that it reaches.
        code: where the program's code is.
    """

    heapinfo: frozenset[int]
    every: frozenset[int]
    heap: HeapInfo
    files: GuestFiles
    code: tuple[range, ...]


@dataclass(frozen=True)
class Semihosting:
    """The answers of semihosting.

    Attributes:
        command_line: the answer to SYS_GET_CMDLINE.
        cwd: folder that relative file names start from.
        heap: the answer to SYS_HEAPINFO.
    """

    command_line: str
    cwd: Path
    heap: HeapInfo = HeapInfo()

    def find_calls(self, file: BinaryIO, segments: Sequence[Segment]) -> AnsweredCalls:
        """Return the calls in an ELF that the host answers, for one run."""
        marked, every = _calls(file, segments)
        return AnsweredCalls(marked or every, every, self.heap, GuestFiles(self.cwd), code_of(segments))

    def arguments(self) -> list[str]:
        """Return the options for QEMU. A comma within a value is written twice."""
        command_line = self.command_line.replace(",", ",,")
        return ["-semihosting-config", f"enable=on,target=gdb,arg={command_line}"]


def _calls(file: BinaryIO, segments: Iterable[Segment]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the addresses of the calls that are likely SYS_HEAPINFO, and of all calls.

    Likely are those with the operation's number moved to r0 just before. There are none in a program with one function
    for all calls.
    """
    every: set[int] = set()
    marked: set[int] = set()
    for segment in segments:
        if not segment.executable:
            continue
        code = segment.read(file)
        position = code.find(_CALL)
        while position >= 0:
            if (segment.address + position) % 2 == 0:
                every.add(segment.address + position)
                before = code[max(0, position - _LOOK_BACK) : position]
                if any(before.find(load) >= 0 for load in _LOADS_HEAPINFO):
                    marked.add(segment.address + position)
            position = code.find(_CALL, position + 1)
    return frozenset(marked), frozenset(every)
