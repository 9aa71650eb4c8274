"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all: what was there before stays until the new content is on disk.

    A path that is not a regular file (a pipe, /dev/stdout) is written directly.

    Raises:
        OSError: the folder is missing, the disk is full, ...
    """
    if path.exists() and not path.is_file():
        path.write_text(text)
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; what the user asked for gets the usual permissions.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
