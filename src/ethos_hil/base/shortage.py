"""What the machine or its limits lack, as an error with a remedy: it is not a defect of a program."""

from __future__ import annotations

import errno
import importlib.util
import resource
import sys

from ethos_hil.base.errors import EthosHilError, ToolError, causes
from ethos_hil.base.verdict import FailureKind

_REMEDIES = {
    errno.ENOSPC: "free some space, or set TMPDIR to a folder with more",
    errno.EDQUOT: "free some space, or set TMPDIR to a folder with more",
    errno.EFBIG: "raise the limit of the sizes of files: ulimit -f unlimited",
    errno.EROFS: "set TMPDIR to a folder that can be written",
    errno.EAGAIN: "end other processes, or raise the limit: ulimit -u",
    errno.ENOMEM: "end other processes, or raise the limit: ulimit -v",
    errno.ENOSYS: "the kernel, or a sandbox around this program, lacks a system call; --debug shows which",
    errno.EIO: "look for a defect of the disk or of the terminal",
}
DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


def shortage(error: BaseException) -> ToolError | None:
    """Return the error for a shortage that caused `error`, or None if there is none."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package and package not in sys.modules and importlib.util.find_spec(package) is None:
        return ToolError(f"{package} is not installed", hint="`ethos-hil doctor` lists what is missing")
    for cause in causes(error):
        if isinstance(cause, MemoryError):
            return ToolError("out of memory", hint=_REMEDIES[errno.ENOMEM])
        if isinstance(cause, RuntimeError) and "can't start new thread" in str(cause):  # Python drops its EAGAIN
            return ToolError("no thread can be started", hint=_REMEDIES[errno.EAGAIN])
        if not isinstance(cause, OSError):
            continue
        place = f": {cause.filename}" if cause.filename is not None else ""
        if cause.errno in DESCRIPTORS:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return ToolError(
                f"too many open files{place}; this process may have {limit}", hint="raise the limit: ulimit -n 1024"
            )
        if cause.errno in _REMEDIES:
            return ToolError(f"{cause.strerror}{place}", hint=_REMEDIES[cause.errno])
    return None


def unforeseen(error: BaseException) -> EthosHilError:
    """Return what a worker's record says of an error: itself; of one that was not foreseen a shortage, or a defect."""
    if isinstance(error, EthosHilError):
        return error
    return shortage(error) or EthosHilError(
        f"{type(error).__name__}: {error}".partition("\n")[0], kind=FailureKind.INTERNAL
    )
