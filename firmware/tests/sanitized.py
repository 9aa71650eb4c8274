"""Runs packages in the firmware built for this computer, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile
from plain_qemu import Conversation, decode

from ethos_hil.harness.image.formats import ErrorKind, FrameType

_SECONDS = 60.0
_OF_THE_BOARD = (ErrorKind.OUT_OF_MEMORY, ErrorKind.NPU_MISMATCH, ErrorKind.NPU_FAULT, ErrorKind.NPU_TIMEOUT)
"""Errors that depend on what the board has."""


def package_of(elf: bytes) -> bytes:
    """The package in a packed ELF."""
    section = ELFFile(io.BytesIO(elf)).get_section_by_name(".ethos_hil.package")
    assert section is not None, "the ELF holds no package"
    return bytes(section.data())


def run_on_host(executable: Path, package: bytes) -> Conversation:
    """Return the conversation of the host build. Fails with the sanitizer's report if there is one."""
    done = subprocess.run([executable], input=package, capture_output=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return Conversation(tuple(decode(done.stdout)))


def check_same_ending(board: Conversation, host: Conversation) -> None:
    """Check that both ran equally far, sent tensors of the same kinds, and failed with the same words.

    Failures that only the board can have are exempt.
    """

    def errors(conversation: Conversation) -> list[tuple[ErrorKind, bytes]]:
        frames = conversation.all(FrameType.ERROR)
        return [(ErrorKind(frame.fields["kind"]), frame.rest) for frame in frames]

    if any(kind in _OF_THE_BOARD for kind, _ in errors(board) + errors(host)):
        return
    assert errors(host) == errors(board)

    def tensors(conversation: Conversation) -> list[tuple[object, ...]]:
        # Their bytes are not compared: functions of the two C libraries may differ in the last place.
        return [(tensor.info["dtype"], tensor.sizes, tensor.info["dim_order"]) for tensor in conversation.tensors()]

    assert tensors(host) == tensors(board)
    assert host.frames[-1].fields == board.frames[-1].fields
