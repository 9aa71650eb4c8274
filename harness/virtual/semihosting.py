"""Semihosting: who answers a guest's calls, and how.

QEMU answers what touches nothing of the host: the command line, times, the exit. Files are those of one folder
(`ethos_hil.harness.virtual.guest_files`): QEMU hands these calls over.

QEMU answers SYS_HEAPINFO with addresses of its own choice, which a C library's start-up uses for heap and stack. Arm's
models answer with four parameters, by convention 0 for "choose yourself". So the host stops the guest at those calls
and answers them. A call is the instruction BKPT 0xAB with the operation in r0 and its argument in r1 (Arm's
"Semihosting for AArch32 and AArch64").
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.segments import Segment
from ethos_hil.harness.virtual.guest_files import GuestFiles

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
        code = tuple(range(part.address, part.address + part.memory_size) for part in segments if part.executable)
        marked, every = _calls(file, segments)
        return AnsweredCalls(marked or every, every, self.heap, GuestFiles(self.cwd), code)

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
