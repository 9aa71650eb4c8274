"""The firmware's own failure reports: ERROR and FAULT frames as errors of the harness."""

from __future__ import annotations

import struct

from ethos_hil.base.errors import LinkError, TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.formats import Error, ErrorKind, FaultInfo
from ethos_hil.harness.image.symbols import Symbols

_KINDS = {
    ErrorKind.PACKAGE: FailureKind.LINK,
    ErrorKind.PROGRAM: FailureKind.FAULT,
    ErrorKind.UNSUPPORTED: FailureKind.UNSUPPORTED,
    ErrorKind.OUT_OF_MEMORY: FailureKind.OUT_OF_MEMORY,
    ErrorKind.INPUT: FailureKind.FAULT,
    ErrorKind.NPU_MISMATCH: FailureKind.NPU_MISMATCH,
    ErrorKind.NPU_FAULT: FailureKind.FAULT,
    ErrorKind.NPU_TIMEOUT: FailureKind.TIMEOUT,
    ErrorKind.KERNEL: FailureKind.FAULT,
    ErrorKind.MISMATCH: FailureKind.MISMATCH,
    ErrorKind.MEMORY: FailureKind.FAULT,
}
KINDS = {kind.name.lower(): name for kind, name in _KINDS.items()}
"""The harness's name of each kind of error, by the name that our runner prints on its console."""
_PREFIXES = {
    ErrorKind.PACKAGE: "the image arrived damaged: ",
    ErrorKind.PROGRAM: "the firmware refuses the program: ",
    ErrorKind.INPUT: "the firmware refuses the inputs: ",
    ErrorKind.MEMORY: "the board's memory cannot be used: ",
}

_EXCEPTIONS = {
    2: "NMI",
    3: "HardFault",
    4: "MemManage",
    5: "BusFault",
    6: "UsageFault",
    7: "SecureFault",
    11: "SVCall",
    12: "DebugMonitor",
    14: "PendSV",
    15: "SysTick",
}
# Armv8-M Architecture Reference Manual, D1.2: CFSR and HFSR.
_CFSR = {
    0: "IACCVIOL", 1: "DACCVIOL", 3: "MUNSTKERR", 4: "MSTKERR", 5: "MLSPERR", 8: "IBUSERR", 9: "PRECISERR",
    10: "IMPRECISERR", 11: "UNSTKERR", 12: "STKERR", 13: "LSPERR", 16: "UNDEFINSTR", 17: "INVSTATE", 18: "INVPC",
    19: "NOCP", 20: "STKOF", 24: "UNALIGNED", 25: "DIVBYZERO",
}  # fmt: skip
_HFSR = {1: "VECTTBL", 31: "DEBUGEVT"}
_MMFAR_VALID, _BFAR_VALID = 1 << 7, 1 << 15
_THUMB_RETURN = 1


def reported_error(payload: bytes) -> TargetError:
    """Return the error that an ERROR frame reports."""
    try:
        error = Error.unpack(payload)
        kind = ErrorKind(error["kind"])
    except (struct.error, ValueError) as problem:
        raise LinkError(f"an ERROR frame is malformed: {problem}") from problem
    text = payload[Error.size :].decode("utf-8", "replace").strip() or f"error {kind.name} without a message"
    if kind is ErrorKind.OUT_OF_MEMORY:
        text = f"{text} (needed {error['needed']:,} bytes, available {error['available']:,})"
    return TargetError(_PREFIXES.get(kind, "") + text, kind=_KINDS[kind])


def reported_fault(payload: bytes, symbols: Symbols) -> TargetError:
    """Return the error that a FAULT frame reports, with its addresses as function and line."""
    try:
        fault = FaultInfo.unpack(payload)
    except struct.error as problem:
        raise LinkError(f"a FAULT frame is malformed: {problem}") from problem
    name = _EXCEPTIONS.get(fault["exception"], f"exception {fault['exception']}")
    causes = [text for bit, text in _CFSR.items() if fault["cfsr"] >> bit & 1]
    causes += [text for bit, text in _HFSR.items() if fault["hfsr"] >> bit & 1]
    if fault["cfsr"] & _MMFAR_VALID:
        causes.append(f"accessing 0x{fault['mmfar']:08x}")
    if fault["cfsr"] & _BFAR_VALID:
        causes.append(f"accessing 0x{fault['bfar']:08x}")
    if fault["sfsr"]:
        causes.append(f"SFSR 0x{fault['sfsr']:x}, SFAR 0x{fault['sfar']:08x}")
    # lr is the address after the call, which may already belong to the next line.
    caller = symbols.describe((fault["lr"] & ~_THUMB_RETURN) - 2 & 0xFFFFFFFF)
    message = f"{name} ({', '.join(causes) or 'no cause given'}) in {symbols.describe(fault['pc'])}, lr in {caller}"
    return TargetError(message, kind=FailureKind.FAULT)
